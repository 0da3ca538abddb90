"""The report of a survey in one command: methods, response, estimates, tables, regressions,
pictures and limitations.

A TOML file says what goes in:

title = "Medicines at work"
file = "reports.csv"              # randomized answers, with their description beside them
invited = 4000                    # for the response rate
tables = [["stress", "took"]]
by = "ward"
regressions = ["took ~ ward"]

[questions.used]                  # and counts of designs, as deniable survey estimate reads them
design = "Crosswise:p=1/6"
same = 512
n = 730
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deniable.checks import check_confidence
from deniable.display import Display, factor_text, loss_text
from deniable.errors import MissingExtraError, SurveyError
from deniable.mechanisms.designs.text import in_words
from deniable.mechanisms.questionnaire import Questionnaire
from deniable.survey.design_file import estimate_designs
from deniable.survey.documents.report_formats import (
    Block,
    Heading,
    Paragraph,
    Picture,
    ReportTable,
    as_docx,
    as_html,
    as_markdown,
)
from deniable.survey.estimates import Survey
from deniable.survey.estimating import estimate_file, recorded_questionnaire
from deniable.survey.refusal import survey_refusal
from deniable.survey.regression_file import regress_file
from deniable.toml_file import TomlFile

__all__ = ["write_report"]

_KEYS = {
    "title": str,
    "file": str,
    "invited": int,
    "tables": list,
    "by": str,
    "regressions": list,
    "questions": dict,
}
_KINDS = {str: "a text", int: "a whole number", list: "a list", dict: "a table"}
_WRITERS = {".html": as_html, ".md": as_markdown, ".docx": as_docx}


def write_report(settings: Path | str, output: Path | str, confidence: float = 0.95) -> None:
    """Write the report that a TOML file describes: HTML, Word (.docx) or Markdown, by the output's
    name."""
    check_confidence(confidence)
    output, settings = Path(output), Path(settings)
    writer = _WRITERS.get(output.suffix.lower())
    if writer is None:
        raise SurveyError(f"{output}: a report is written as {', '.join(_WRITERS)}")
    asked = _settings(settings)
    content = writer(list(_blocks(asked, settings.parent, confidence)))
    try:
        output.write_bytes(content)
    except OSError as error:
        raise SurveyError(f"{output} cannot be written: {error.strerror}") from None


def _settings(path: Path) -> dict[str, Any]:
    tree = TomlFile.read(path, survey_refusal).tree
    for key, value in tree.items():
        if key not in _KEYS:
            raise SurveyError(f"{path}: {key} is not known; a report has {', '.join(_KEYS)}")
        if not isinstance(value, _KEYS[key]) or isinstance(value, bool):
            raise SurveyError(f"{path}: {key} = {value!r} must be {_KINDS[_KEYS[key]]}")
    if "file" not in tree and "questions" not in tree:
        raise SurveyError(
            f"{path} must have a file of randomized answers, or [questions.NAME] with counts of"
            " designs"
        )
    return tree


def _blocks(asked: Mapping[str, Any], folder: Path, confidence: float) -> Iterator[Block]:
    yield Heading(asked.get("title", "Report of a survey"), 1)
    file = None if "file" not in asked else folder / asked["file"]
    questionnaire = None if file is None else recorded_questionnaire([file])
    tables = [tuple(table) for table in asked.get("tables", [])]
    survey = None if file is None else estimate_file(file, tables=tables, by=asked.get("by"))
    designs = estimate_designs(asked.get("questions", {}))
    yield Heading("Methods")
    if questionnaire is not None and survey is not None:
        yield from _methods(questionnaire)
        yield Paragraph(_response(survey.n, asked.get("invited")))
    for name, estimate in designs.items():
        people = " + ".join(f"{n:,}" for n in estimate.n)
        yield Paragraph(
            f"{name} was asked with the design {in_words(estimate.design)}, of {people} people."
            f" {_in_words(estimate.epsilon)}"
        )
    yield Heading("Estimates")
    if survey is not None:
        for name, part in survey.parts():
            yield Heading(name, 3)
            yield _table(part._display(confidence))
        for table in survey.tables:
            yield Heading(" by ".join(table.axes), 3)
            yield _table(table._display(confidence))
        if survey.tests:
            yield Heading("Do groups differ?", 3)
            yield from (Paragraph(f"{test}.") for test in survey.tests.values())
    for name, estimate in designs.items():
        yield Heading(name, 3)
        yield _table(estimate._display(confidence))
    if survey is not None:
        yield from _pictures(survey)
        yield from _regressions(asked.get("regressions", []), file, confidence)
    yield from _limitations(questionnaire, designs, confidence)


def _methods(questionnaire: Questionnaire) -> Iterator[Block]:
    kind = questionnaire.kind
    yield Paragraph(
        "Every answer was randomized on the way, so that no report reveals for certain what a"
        " person answered; proportions of the population were then estimated from all reports."
        f" {kind[0].upper()}{kind[1:]}."
    )
    rows = []
    for name, mechanism in questionnaire.mechanisms.items():
        loss = questionnaire.answer_epsilon(name)
        shown = "infinite" if math.isinf(loss) else loss_text(loss)
        rows.append(
            (
                name,
                in_words(type(mechanism).__name__),
                f"{len(mechanism.labels):,}" if mechanism.labels else "any text",
                shown,
            )
        )
    yield ReportTable(("column", "mechanism", "labels", "epsilon"), tuple(rows))
    yield Paragraph(f"All answers of a person together: {_in_words(questionnaire.epsilon)}")


def _in_words(epsilon: float) -> str:
    if math.isinf(epsilon):
        return "The privacy loss epsilon is infinite: some answers rule out some truths."
    return (
        f"The privacy loss epsilon is {loss_text(epsilon)}: whatever a person reports, nobody's"
        f" odds about the true answer change by more than a factor of {factor_text(math.exp(epsilon))}."
    )


def _response(n: int, invited: int | None) -> str:
    if invited is None:
        return f"{n:,} people took part."
    if not 0 < n <= invited:
        raise SurveyError(
            f"invited = {invited} must be at least the number of people who took part, {n}"
        )
    return f"{n:,} of {invited:,} people invited took part ({100 * n / invited:.1f} %)."


def _table(display: Display) -> ReportTable:
    """All rows, not only the first."""
    header, *rows = display.texts or [display.columns, *display.rows]
    return ReportTable(
        tuple(map(str, header)),
        tuple(tuple(_cell(cell) for cell in row) for row in rows),
        display.notes,
    )


def _cell(cell: Any) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _pictures(survey: Survey) -> Iterator[Block]:
    try:
        figure = survey.plot()
    except MissingExtraError:
        return
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110)
    yield Picture(drawn.getvalue(), "Estimates with their intervals")


def _regressions(formulas: list[Any], file: Path | None, confidence: float) -> Iterator[Block]:
    if formulas:
        yield Heading("Regressions")
    for formula in formulas:
        fit = regress_file([] if file is None else file, str(formula))
        columns = ("name", "estimate", "stderr", "low", "high", "p_value")
        rows = tuple(
            tuple(_cell(row[column]) for column in columns) for row in fit.rows(confidence)
        )
        yield Heading(str(formula), 3)
        yield ReportTable(columns, rows, tuple(str(fit).splitlines()[-1 - len(fit.notes) :]))


def _limitations(
    questionnaire: Questionnaire | None, designs: Mapping[str, Any], confidence: float
) -> Iterator[Block]:
    yield Heading("Limitations")
    yield Paragraph(
        f"Intervals cover the truth with a probability of {100 * confidence:g} %, for the sample"
        " and the coins together; they do not cover who was not asked, who did not answer, or who"
        " answered untruthfully. Intervals of several figures do not hold all at once."
    )
    if questionnaire is not None:
        yield Paragraph(
            "Randomizing hides single answers, not that a person took part, and not the columns"
            " that were kept as they are."
        )
    if any(math.isinf(estimate.epsilon) for estimate in designs.values()):
        yield Paragraph(
            "Designs with an infinite epsilon protect by doubt, not by a bound: some answers are"
            " conclusive."
        )
