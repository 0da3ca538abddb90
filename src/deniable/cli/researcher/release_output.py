"""What `deniable release` writes and says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deniable.checksums import sealed_text
from deniable.errors import SurveyError
from deniable.release import (
    Released,
)
from deniable.survey.files import columns_file
from deniable.survey.writing import table_writer

__all__ = ["describe_release", "write_release"]


def write_release(output: Path, made: Released, combinations: bool) -> None:
    """Write the table and its description: both, or neither."""
    rows: dict[str, list[Any]] = made.combinations() if combinations else made.rows()
    described = made.description()
    levels = described.pop("levels")
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in described.items()]
    lines += [
        "",
        "[levels]",
        *(f"{json.dumps(name, ensure_ascii=False)} = {level}" for name, level in levels.items()),
        "",
    ]
    partial = columns_file(output).with_name(columns_file(output).name + ".partial")
    try:
        with table_writer(output, list(rows)) as write:
            write(rows)
            partial.write_text(sealed_text("\n".join(lines)), encoding="utf-8")
        partial.replace(columns_file(output))
    except OSError as error:
        raise SurveyError(f"{columns_file(output)} cannot be written: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)


def describe_release(output: Path, made: Released) -> str:
    """What was released, for a person to read."""
    lines = [
        f"Wrote {made.n:,} rows to {output}; how it was made is recorded in"
        f" {columns_file(output).name}."
    ]
    if made.guarantee is not None:
        rows, searched = made.guarantee.epsilon, made.search_epsilon
        parts = f" ({rows:.4g} for the rows, {searched:.4g} for the search)" if searched else ""
        lines.append(
            f"epsilon {made.epsilon:.4g}{parts}, delta {made.delta:.2g}, for one row more or less"
        )
        lines.append(
            f"A row was kept with probability {float(made.guarantee.sampling):.4g}; "
            f"a combination of labels with fewer than {made.guarantee.k} kept rows was dropped."
        )
    if not made.n:
        lines.append(
            "Nothing was frequent enough to be released: use coarser levels, fewer columns or a"
            " larger epsilon."
        )
    else:
        lines += [
            f"{constraint!r}: the worst class has {achieved:.4g}"
            for constraint, achieved in made.achieved.items()
        ]
    if made.found is not None:
        how = (
            "the best of"
            if made.found.optimal
            else f"at most {100 * (made.found.bound - made.found.kept):.2g} % short of the best of"
        )
        lines.append(
            f"Levels: {how} {made.found.size:,} generalisations ({made.found.tried:,} tried)"
        )
    width = max(map(len, made.levels))
    lines += [f"  {name:<{width}}  level {level}" for name, level in made.levels.items()]
    loss, before, after = made.loss, made.risk_before, made.risk_after
    lines += [
        "For you alone, computed from the original without protection:",
        f"  lost         rows {_percent(loss.rows)}, granularity {_percent(loss.granularity)},"
        f" entropy {_percent(loss.entropy)}, discernibility {_percent(loss.discernibility)}"
        + (f"; {loss.average_class:.4g} rows per class" if made.n else ""),
    ]
    lines += [
        f"  {name:<11}  prosecutor {_percent(risk.prosecutor)}, journalist"
        f" {_percent(risk.journalist)}, marketer {_percent(risk.marketer)}; {_percent(risk.unique)}"
        " of the rows are unique"
        for name, risk in (("risk before", before), ("risk after", after))
    ]
    return "\n".join(lines)


def _percent(part: float) -> str:
    return f"{100 * part:.3g} %"
