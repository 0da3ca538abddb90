"""`deniable curate`: noisy statistics of a table, paid from a budget kept beside it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from deniable.checks import check_confidence
from deniable.cli.helping import command
from deniable.cli.output import Rows, confidence_option, emit, output_options, progress_bar
from deniable.curator import Curator, CuratorBudget, Grouped, GroupedCurator, Histogram, question
from deniable.curator.questions import CuratorQuestion
from deniable.errors import CuratorError, SurveyError
from deniable.survey.reading import read_chunks

_FILE = click.Path(path_type=Path)
_OF_NUMBERS = ("sum", "mean", "variance", "std", "median", "minimum", "maximum", "noisy_max")
_HELP = {
    "sum": "The sum of a column.",
    "mean": "The mean of a column.",
    "variance": "The variance of a column.",
    "std": "The standard deviation of a column.",
    "median": "The median of a column.",
    "minimum": "The smallest value that stands out from the noise.",
    "maximum": "The largest value that stands out from the noise.",
    "noisy_max": "The maximum plus noise as wide as the bounds, for comparison.",
}
_RULE = re.compile(
    r"^\s*(?P<column>.+?)\s*(?P<operator>==|!=|<=|>=|<|>|\sin\s)\s*(?P<value>.+?)\s*$"
)


def _statistics(command: Callable[..., Any]) -> Callable[..., Any]:
    """One option per statistic."""
    options = [click.option("--count", is_flag=True, help="The number of rows.")]
    for name in _OF_NUMBERS:
        text = f"{_HELP[name]} Needs --bounds. Repeatable."
        options.append(
            click.option(f"--{name.replace('_', '-')}", multiple=True, metavar="COLUMN", help=text)
        )
    options += [
        click.option(
            "--quantile",
            multiple=True,
            metavar="COLUMN=LEVEL",
            help="A quantile, e.g. 'age=0.9'. Needs --bounds. Repeatable.",
        ),
        click.option(
            "--histogram",
            multiple=True,
            metavar="COLUMN",
            help="Counts by --labels, or by --bins of numbers. Repeatable.",
        ),
        click.option(
            "--most-frequent",
            multiple=True,
            metavar="COLUMN",
            help="The most frequent label. Needs --labels. Repeatable.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@command()
@click.argument("file", type=_FILE)
@click.option(
    "--epsilon",
    required=True,
    metavar="EPSILON",
    help="What this run spends, split evenly among its statistics.",
)
@_statistics
@click.option(
    "--bounds",
    multiple=True,
    metavar="COLUMN=LOW,HIGH",
    help="The range that values are clamped to. Repeatable.",
)
@click.option(
    "--step",
    multiple=True,
    metavar="COLUMN=STEP",
    help="A number that all values are multiples of. Repeatable.",
)
@click.option(
    "--labels",
    multiple=True,
    metavar="COLUMN=A|B|…",
    help="The values a column may have. Repeatable.",
)
@click.option(
    "--bins",
    multiple=True,
    metavar="COLUMN=N or EDGE,EDGE,…",
    help="The number of equal bins within the bounds, or the edges. Repeatable.",
)
@click.option(
    "--where",
    multiple=True,
    metavar="RULE",
    help="Use only these rows, e.g. 'age>=18' or 'city in Oslo|Rome'. Repeatable.",
)
@click.option("--group-by", metavar="COLUMN", help="One result per group: the column's --labels.")
@click.option(
    "--person",
    metavar="COLUMN",
    help="The column that identifies the person [default: each row is a person].",
)
@click.option(
    "--rows", type=int, default=1, show_default=True, help="How many rows a person may have."
)
@click.option(
    "--neighbours",
    type=click.Choice(["add-remove", "replace-one"]),
    default="add-remove",
    show_default=True,
    help="What is hidden: whether a person is in the table, or only what they say.",
)
@click.option(
    "--missing",
    type=click.Choice(["refuse", "drop"]),
    default="refuse",
    show_default=True,
    help="What to do with missing values.",
)
@click.option(
    "--budget",
    type=_FILE,
    metavar="FILE",
    help="Where the budget is kept [default: FILE.budget.json].",
)
@click.option(
    "--total", metavar="EPSILON", help="The total of a new budget [default: what this run spends]."
)
@click.option(
    "--preview", is_flag=True, help="Print the errors of this run without spending anything."
)
@click.option(
    "--size",
    type=int,
    metavar="N",
    help="How many rows --preview assumes, if their number is private.",
)
@confidence_option
@output_options
def curate(
    file: Path,
    epsilon: str,
    where: tuple[str, ...],
    group_by: str | None,
    person: str | None,
    rows: int,
    neighbours: Any,
    missing: str,
    budget: Path | None,
    total: str | None,
    preview: bool,
    size: int | None,
    confidence: float,
    **options: Any,
) -> None:
    """Release statistics of a CSV or Parquet FILE with noise, as a trusted curator.

    Noise hides each person. Every release is paid from one budget, kept beside FILE; once it is
    spent, further releases are refused. Bounds and labels are declared, never read from the data.
    """
    check_confidence(confidence)
    questions = _questions(options)
    if not questions:
        raise click.UsageError("Name at least one statistic, such as --count or --mean COLUMN.")
    rules = [_rule(text) for text in where]
    groups = None if group_by is None else _groups(group_by, options["labels"])
    kept = _budget(budget or file.with_name(file.name + ".budget.json"), total, epsilon, preview)
    needed = [
        *(column for made in questions for column in made.columns),
        *(rule[0] for rule in rules),
    ]
    needed += [name for name in (group_by, person) if name]
    curator = Curator(
        _read(file, needed),
        kept,
        neighbours=neighbours,
        person=person,
        rows=rows,
        missing=missing,
        digest=_digest(file),
    )
    for rule in rules:
        curator = curator.where(*rule)
    source: Curator | GroupedCurator = curator
    if group_by is not None and groups is not None:
        source = curator.group_by(group_by, groups)
    results: Sequence[Any] = (
        source.previews(questions, epsilon=epsilon, size=size)
        if preview
        else source.release(questions, epsilon=epsilon)
    )
    spent = {"epsilon": float(kept.epsilon), "spent": float(kept.spent), "left": float(kept.left)}
    named = list(zip(questions, results, strict=True))
    emit(
        {
            "results": [
                {"statistic": made.name, **found.to_dict(confidence)} for made, found in named
            ],
            "budget": spent,
        },
        lambda: [*(_text(made, found) for made, found in named), _spent(kept)],
        lambda: _rows(questions, results, confidence, preview),
    )


def _groups(column: str, labels: Sequence[str]) -> list[Any]:
    """The labels by which rows are grouped: declared, never read from the data."""
    given = dict(_pairs("labels", labels)).get(column)
    if given is None:
        raise CuratorError(
            f"--group-by {column} needs --labels {column}=A|B|…, because the groups in the data are"
            " private"
        )
    return _labels(given)


def _text(made: CuratorQuestion, found: Any) -> str:
    return (
        f"{made.name}\n{_indented(str(found))}"
        if isinstance(found, Histogram | Grouped)
        else str(found)
    )


def _spent(budget: CuratorBudget) -> str:
    return (
        f"Budget: {float(budget.spent):.6g} of {float(budget.epsilon):.6g} spent,"
        f" {float(budget.left):.6g} left"
    )


def _budget(path: Path, total: str | None, epsilon: str, preview: bool) -> CuratorBudget:
    """The file's budget. A preview leaves no file behind."""
    new = total if total is not None else epsilon
    if preview and not path.exists():
        return CuratorBudget(new)
    return CuratorBudget.at(path, new if total is not None or not path.exists() else None)


def _questions(options: dict[str, Any]) -> list[CuratorQuestion]:
    """The requested statistics."""
    bounds = {
        column: _numbers("bounds", column, text)
        for column, text in _pairs("bounds", options["bounds"])
    }
    steps = {
        column: _numbers("step", column, text)[0]
        for column, text in _pairs("step", options["step"])
    }
    labels = {column: _labels(text) for column, text in _pairs("labels", options["labels"])}
    bins = {
        column: _numbers("bins", column, text) for column, text in _pairs("bins", options["bins"])
    }

    def of_numbers(name: str, column: str, *level: float) -> CuratorQuestion:
        return question(name, column, *level, bounds=bounds.get(column), step=steps.get(column))

    def histogram(column: str) -> CuratorQuestion:
        if column not in bins:
            return question("histogram", column, labels=labels.get(column))
        edges = bins[column]
        if len(edges) > 1 or not edges[0].is_integer():
            return question("histogram", column, bins=edges)
        return question("histogram", column, bins=int(edges[0]), bounds=bounds.get(column))

    levels = [
        (column, _numbers("quantile", column, level)[0])
        for column, level in _pairs("quantile", options["quantile"])
    ]
    return [
        *([question("count")] if options["count"] else []),
        *(of_numbers(name, column) for name in _OF_NUMBERS for column in options[name]),
        *(of_numbers("quantile", column, level) for column, level in levels),
        *map(histogram, options["histogram"]),
        *(
            question("most_frequent", column, labels=labels.get(column))
            for column in options["most_frequent"]
        ),
    ]


def _pairs(option: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    pairs = []
    for text in texts:
        column, equals, value = text.partition("=")
        if not (column.strip() and equals and value.strip()):
            raise CuratorError(f"--{option} {text!r} must have the form COLUMN=VALUE")
        pairs.append((column.strip(), value.strip()))
    return pairs


def _numbers(option: str, column: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise CuratorError(f"--{option} {column}={text} must be numbers") from None


def _labels(text: str) -> list[Any]:
    return [_value(label.strip()) for label in text.split("|")]


def _value(text: str) -> Any:
    """A number if the text is exactly how it is written, so that it matches both Parquet numbers
    and CSV texts."""
    for kind in (int, float):
        try:
            if str(kind(text)) == text:
                return kind(text)
        except ValueError:
            continue
    return text


def _rule(text: str) -> tuple[str, str, Any]:
    found = _RULE.match(text)
    if found is None:
        raise CuratorError(
            f"--where {text!r} must have the form COLUMN OPERATOR VALUE, with ==, !=, <, <=, >, >="
            " or in"
        )
    operator, value = found["operator"].strip(), found["value"].strip("'\"")
    return found["column"], operator, _labels(value) if operator == "in" else _value(value)


def _read(file: Path, columns: Sequence[str]) -> dict[str, list[Any]]:
    """The named columns of the file; if none are named, all, to count the rows."""
    table: dict[str, list[Any]] = {}
    with progress_bar(f"reading {file.name}") as progress:
        for chunk in read_chunks(file, list(dict.fromkeys(columns)) or None, progress):
            for column, cells in chunk.columns.items():
                table.setdefault(column, []).extend(cells)
    return table


def _digest(file: Path) -> str:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise SurveyError(f"{file} cannot be read: {error.strerror}") from None


def _rows(
    questions: Sequence[CuratorQuestion], results: Sequence[Any], confidence: float, preview: bool
) -> Rows:
    if preview:
        header = ["statistic", "plus_minus", "unit", "stderr", "epsilon", "left"]
        return header, [_preview_row(result, confidence) for result in results]
    rows: list[list[Any]] = []
    for made, result in zip(questions, results, strict=True):
        grouped = result.items() if isinstance(result, Grouped) else [("", result)]
        rows += [
            [made.name, group, *row]
            for group, found in grouped
            for row in _result_rows(found, confidence)
        ]
    return ["statistic", "group", "label", "value", "stderr", "low", "high", "epsilon"], rows


def _preview_row(result: Any, confidence: float) -> list[Any]:
    shown = result.to_dict(confidence)
    return [shown[name] for name in ("name", "plus_minus", "unit", "stderr", "epsilon", "left")]


def _result_rows(result: Any, confidence: float) -> list[list[Any]]:
    shown = result.to_dict(confidence)
    if isinstance(result, Histogram):
        columns = zip(
            shown["labels"],
            shown["estimate"],
            shown["stderr"],
            shown["low"],
            shown["high"],
            strict=True,
        )
        return [[*column, result.epsilon] for column in columns]
    if "label" in shown:
        return [[shown["label"], "", "", "", "", shown["epsilon"]]]
    return [["", shown["value"], shown["stderr"], shown["low"], shown["high"], shown["epsilon"]]]


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
