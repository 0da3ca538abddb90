"""The record, beside a file of answers, of its randomizations, whose losses add up.

It names outputs, columns and losses, and contains nothing of the answers, not even a digest, from which answers could be guessed.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deniable.checksums import sealed_text
from deniable.errors import SurveyError, SurveyWarning
from deniable.table_file import STANDARD_STREAM
from deniable.toml_file import TomlFile

__all__ = ["record_file", "record_randomization", "warn_of_earlier"]


def record_file(answers: Path) -> Path:
    """The record of a file of answers: beside it, with .randomized.toml added to its name."""
    return answers.with_name(answers.name + ".randomized.toml")


def warn_of_earlier(answers: Path, losses: Mapping[str, float]) -> None:
    """Warn if a column was randomized before, with the total loss to anyone who has all the outputs."""
    if answers == STANDARD_STREAM or not record_file(answers).exists():
        return
    earlier: list[tuple[str, dict[str, float]]] = TomlFile.read(record_file(answers), _refusal).made(_entries)
    again = {name: sum(columns.get(name, 0.0) for _, columns in earlier) for name in losses}
    again = {name: before for name, before in again.items() if before}
    if not again:
        return
    outputs = list(dict.fromkeys(output for output, columns in earlier if set(columns) & set(again)))
    totals = ", ".join(f"{name} {_loss(before + losses[name])} (not {_loss(losses[name])})" for name, before in again.items())
    warnings.warn(
        f"{answers} was randomized before, into {', '.join(outputs)}. The losses add up: "
        f"to anyone who has all the outputs, epsilon is {totals}",
        SurveyWarning,
        stacklevel=3,
    )


def record_randomization(answers: Path, output: Path, losses: Mapping[str, float]) -> None:
    """Add a randomization to the record of a file of answers; standard input has none."""
    if answers == STANDARD_STREAM:
        return
    target = "standard output" if output == STANDARD_STREAM else output.name
    columns = ", ".join(f"{json.dumps(name, ensure_ascii=False)} = {float(loss)!r}" for name, loss in losses.items())
    entry = (
        f"[[randomized]]\noutput = {json.dumps(target, ensure_ascii=False)}\n"
        f"at = {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}\nepsilon = {{ {columns} }}\n\n"
    )
    try:
        with record_file(answers).open("a+", encoding="utf-8") as file:
            file.seek(0)
            file.write(sealed_text(entry, before=file.read()))
    except OSError as error:
        warnings.warn(
            f"{record_file(answers)} cannot be written ({error.strerror}): a second randomization will not be noticed",
            SurveyWarning,
            stacklevel=3,
        )


def _entries(tree: dict[str, Any]) -> list[tuple[str, dict[str, float]]]:
    try:
        return [
            (str(entry["output"]), {name: float(loss) for name, loss in entry["epsilon"].items()}) for entry in tree["randomized"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise SurveyError("the record of earlier randomizations must hold [[randomized]] with output and epsilon") from None


def _refusal(name: str, value: object, rule: str, file: str, line: int | None) -> SurveyError:
    return SurveyError(f"{file}{f', line {line}' if line else ''}: the record of earlier randomizations {rule}")


def _loss(epsilon: float) -> str:
    return "infinite" if math.isinf(epsilon) else f"{epsilon:.4g}"
