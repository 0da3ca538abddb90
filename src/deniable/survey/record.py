"""What keeps a file from being randomized twice: the mark of a randomized file, and the record
beside a file of answers.

The record lists randomizations of the answers, whose losses add up. It names outputs, columns and
losses, and contains nothing of the answers, not even a digest, from which answers could be guessed.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deniable.checksums import sealed_text
from deniable.errors import SurveyError, SurveyWarning
from deniable.table_file import STANDARD_STREAM
from deniable.toml_file import TomlFile

__all__ = [
    "MARK",
    "check_earlier",
    "record_file",
    "record_randomization",
    "refuse_described",
    "refuse_marked",
]

MARK = "randomized_by_deniable"
"""The column, of ones, by which a randomized file is recognized when it was copied, renamed,
converted or sent through a pipe."""


def record_file(answers: Path) -> Path:
    """The record of a file of answers: beside it, with .randomized.toml added to its name."""
    return answers.with_name(answers.name + ".randomized.toml")


def refuse_marked(file: Path, header: Sequence[str]) -> None:
    """Refuse a file that was written by `randomize_file`, wherever it has been since."""
    if MARK in header:
        raise SurveyError(
            f"{file} is already randomized (it has the column {MARK!r}): its estimates would be"
            " wrong. Randomize the answers themselves, or use --again (again=True) if that is"
            " intended"
        )


def refuse_described(file: Path, description: Path, columns: Collection[str]) -> None:
    """Refuse a file whose columns are described as reports by the file beside it."""
    if file == STANDARD_STREAM or not description.is_file():
        return
    described = TomlFile.read(description, _refusal).tree.get("columns")
    twice = sorted(set(columns) & set(described)) if isinstance(described, dict) else []
    if twice:
        raise SurveyError(
            f"{file}: {description.name} says that {', '.join(twice)}"
            f" {'is' if len(twice) == 1 else 'are'} already randomized, so estimates would be"
            " wrong. Randomize the answers themselves, or use --again (again=True) if that is"
            " intended"
        )


def check_earlier(answers: Path, losses: Mapping[str, float], again: bool) -> None:
    """Refuse answers that were randomized before or, if `again`, warn of the total loss to anyone
    who has all the outputs."""
    if answers == STANDARD_STREAM or not record_file(answers).exists():
        return
    earlier: list[tuple[str, dict[str, float]]] = TomlFile.read(
        record_file(answers), _refusal
    ).made(_entries)
    before = {name: sum(columns.get(name, 0.0) for _, columns in earlier) for name in losses}
    before = {name: loss for name, loss in before.items() if loss}
    if not before:
        return
    outputs = list(
        dict.fromkeys(output for output, columns in earlier if set(columns) & set(before))
    )
    totals = ", ".join(
        f"{name} {_loss(loss + losses[name])} (not {_loss(losses[name])})"
        for name, loss in before.items()
    )
    found = (
        f"{answers} was randomized before, into {', '.join(outputs)}. The losses add up: "
        f"to anyone who has all the outputs, epsilon is {totals}"
    )
    if not again:
        raise SurveyError(f"{found}. Use --again (again=True) if that is intended")
    warnings.warn(found, SurveyWarning, stacklevel=3)


def record_randomization(answers: Path, output: Path, losses: Mapping[str, float]) -> None:
    """Add a randomization to the record of a file of answers; standard input has none."""
    if answers == STANDARD_STREAM:
        return
    target = "standard output" if output == STANDARD_STREAM else output.name
    columns = ", ".join(
        f"{json.dumps(name, ensure_ascii=False)} = {float(loss)!r}" for name, loss in losses.items()
    )
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
            f"{record_file(answers)} cannot be written ({error.strerror}): a second randomization"
            " will not be noticed",
            SurveyWarning,
            stacklevel=3,
        )


def _entries(tree: dict[str, Any]) -> list[tuple[str, dict[str, float]]]:
    try:
        return [
            (str(entry["output"]), {name: float(loss) for name, loss in entry["epsilon"].items()})
            for entry in tree["randomized"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise SurveyError(
            "the record of earlier randomizations must hold [[randomized]] with output and epsilon"
        ) from None


def _refusal(
    name: str, value: object, rule: str, file: str, line: int | None = None, *, message: str = ""
) -> SurveyError:
    place = f"{file}, line {line}" if line else file
    return SurveyError(f"{place}: the record of earlier randomizations {message or rule}")


def _loss(epsilon: float) -> str:
    return "infinite" if math.isinf(epsilon) else f"{epsilon:.4g}"
