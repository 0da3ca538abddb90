"""`deniable release`: a table that can be published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from deniable.checks import check_epsilon
from deniable.cli.helping import command
from deniable.cli.output import emit, output_options, progress_bar, shown_warnings
from deniable.cli.researcher.release_options import given_constraints, level_range
from deniable.cli.researcher.release_output import describe_release, write_release
from deniable.errors import ReleaseError, ReleaseRowError, SurveyWarning, UnknownLabelError
from deniable.mechanisms.exact import exp
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.direct import DirectEncoding
from deniable.mechanisms.protocols.unary import OptimizedUnary
from deniable.release import (
    CodedTable,
    Hierarchy,
    KAnonymity,
    Released,
    anonymize,
    automatic_hierarchy,
    parse_hierarchy,
)
from deniable.release import release as release_privately
from deniable.survey import randomize_file
from deniable.survey.files import columns_file, refuse_existing
from deniable.survey.reading import read_chunks

_FILE = click.Path(path_type=Path)
_SEARCH_PART = 10
"""By default, a tenth of epsilon pays for the search."""


@command()
@click.argument("file", type=_FILE)
@click.option(
    "--output",
    "-o",
    type=_FILE,
    required=True,
    help="The file to write: CSV or Parquet, by its extension.",
)
@click.option(
    "--attribute",
    "-a",
    "attributes",
    multiple=True,
    metavar="NAME=HIERARCHY",
    help=(
        "A column to release and how it is generalised: numbers:low=0,high=100,width=5 ·"
        " dates:low=1900-01-01,high=2020-12-31 · masked:length=5 · categories · FILE.csv · auto."
        " Repeatable; other columns are left out."
    ),
)
@click.option(
    "--level",
    "-l",
    "levels",
    multiple=True,
    metavar="NAME=2",
    help="Fix a column's level, or a range such as 1-3. Repeatable.",
)
@click.option(
    "--epsilon", type=float, help="Differential privacy: the whole budget, search included."
)
@click.option("--delta", type=float, help="The probability that the loss may exceed epsilon.")
@click.option(
    "--search-epsilon",
    type=float,
    help="What the search for levels costs [default: a tenth of epsilon].",
)
@click.option(
    "--public",
    type=_FILE,
    metavar="FILE",
    help="Public data with the same columns, used to choose the levels at no cost.",
)
@click.option(
    "--public-scale",
    type=float,
    default=1.0,
    show_default=True,
    help="Rows of FILE per row of public data.",
)
@click.option(
    "--sampling",
    type=float,
    help="The probability of keeping a row [default: a balance of rows and threshold].",
)
@click.option(
    "--person",
    metavar="NAME",
    help="The column that identifies the person; a second row of the same person is refused.",
)
@click.option(
    "--k", type=int, help="k-anonymity; with --epsilon, a threshold above the required one."
)
@click.option(
    "--l-diversity",
    multiple=True,
    metavar="NAME=3",
    help="Distinct values per class; also NAME=3:entropy, NAME=3:recursive=2.",
)
@click.option(
    "--t-closeness",
    multiple=True,
    metavar="NAME=0.2",
    help="Largest distance of a class from the table; also NAME=0.2:ordered.",
)
@click.option(
    "--sensitive",
    multiple=True,
    metavar="NAME",
    help="A column to release unchanged (without --epsilon). Repeatable.",
)
@click.option(
    "--suppress",
    type=float,
    default=0.05,
    show_default=True,
    help="The fraction of rows that may be dropped for k, l, t.",
)
@click.option(
    "--objective",
    type=click.Choice(["granularity", "entropy"]),
    default="granularity",
    show_default=True,
    help="What to preserve for k, l, t.",
)
@click.option(
    "--time-limit",
    type=float,
    metavar="SECONDS",
    help="Stop the search for k, l, t with the best levels so far.",
)
@click.option(
    "--local",
    is_flag=True,
    help="Randomize each column at its level instead, with epsilon split evenly among the columns.",
)
@click.option(
    "--combinations", is_flag=True, help="Write each combination once, with its number of rows."
)
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
@click.option(
    "--again", is_flag=True, help="With --local, randomize even what was randomized before."
)
@output_options
def release(
    file: Path, output: Path, attributes: tuple[str, ...], levels: tuple[str, ...], **options: Any
) -> None:
    """Make a table of people, CSV or Parquet, safe to publish.

    With --epsilon and --delta, rows are sampled and generalised, and rare combinations are dropped,
    which is differentially private. With --k, --l-diversity or --t-closeness, rows are generalised
    as little as these allow. With --local, the output is a randomized copy from which anyone can
    estimate. OUTPUT.toml, written beside the output, records how it was made.
    """
    hierarchies = dict(parse_hierarchy(text) for text in attributes)
    if not hierarchies:
        raise ReleaseError("name the columns to release with --attribute NAME=HIERARCHY")
    if len(hierarchies) < len(attributes):
        raise ReleaseError("a column is given twice with --attribute")
    chosen = dict(level_range(text) for text in levels)
    refuse_existing(file, output, options["force"])
    if options["local"]:
        _release_locally(file, output, hierarchies, chosen, options)
        return
    private = options["epsilon"] is not None or options["delta"] is not None
    with _file_named(file):
        make = _make_private if private else _make_anonymous
        made = make(file, hierarchies, chosen, options)
    write_release(output, made, options["combinations"])
    emit({"output": str(output), **made.summary()}, lambda: describe_release(output, made))


def _make_private(
    file: Path,
    hierarchies: dict[str, Hierarchy | None],
    levels: dict[str, Any],
    options: dict[str, Any],
) -> Released:
    if options["epsilon"] is None or options["delta"] is None:
        raise ReleaseError("--epsilon and --delta go together")
    for name in ("sensitive", "time_limit"):
        if options[name]:
            raise ReleaseError(
                f"--{name.replace('_', '-')} cannot be combined with --epsilon, which protects"
                " every released column"
            )
    epsilon = check_epsilon(options["epsilon"])
    public = None
    if options["public"] is not None:
        public = _read(options["public"], list(hierarchies))
        known = {
            name: found or automatic_hierarchy(public.values[name])
            for name, found in hierarchies.items()
        }
    else:
        known = {}
        for name, found in hierarchies.items():
            if found is None:
                raise ReleaseError(
                    f"--attribute {name}=auto reads the data: with --epsilon it needs --public"
                )
            known[name] = found
    search = options["search_epsilon"]
    is_open = any(isinstance(levels.get(name, ()), tuple) for name in known)
    if search is None and public is None and is_open:
        search = epsilon / _SEARCH_PART
    table = _read(file, list(known), options["person"])
    with progress_bar("trying generalisations") as progress:
        return release_privately(
            table,
            known,
            epsilon,
            options["delta"],
            levels=levels,
            search_epsilon=search,
            public=public,
            public_scale=options["public_scale"],
            sampling=options["sampling"],
            k=options["k"],
            constraints=given_constraints(options),
            progress=progress,
        )


def _make_anonymous(
    file: Path,
    hierarchies: dict[str, Hierarchy | None],
    levels: dict[str, Any],
    options: dict[str, Any],
) -> Released:
    constraints = given_constraints(options)
    if options["k"] is not None:
        constraints.insert(0, KAnonymity(options["k"]))
    if not constraints:
        raise ReleaseError(
            "give --epsilon and --delta, or --k, --l-diversity or --t-closeness, or --local"
        )
    for name in ("search_epsilon", "public", "sampling", "person"):
        if options[name] is not None:
            raise ReleaseError(f"--{name.replace('_', '-')} needs --epsilon")
    about = [constraint.column for constraint in constraints if hasattr(constraint, "column")]
    sensitive = list(dict.fromkeys([*options["sensitive"], *about]))
    table = _read(file, list(dict.fromkeys([*hierarchies, *sensitive])))
    with progress_bar("trying generalisations") as progress:
        return anonymize(
            table,
            hierarchies,
            constraints,
            sensitive=sensitive,
            suppress=options["suppress"],
            levels=levels,
            objective=options["objective"],
            time_limit=options["time_limit"],
            progress=progress,
        )


def _release_locally(
    file: Path,
    output: Path,
    hierarchies: Mapping[str, Hierarchy | None],
    levels: dict[str, Any],
    options: dict[str, Any],
) -> None:
    """The same columns, generalised to a fixed level and randomized as `deniable randomize`
    does."""
    if options["epsilon"] is None:
        raise ReleaseError("--local needs --epsilon")
    epsilon = check_epsilon(options["epsilon"] / len(hierarchies))
    mechanisms: dict[str, Mechanism] = {}
    prepare: dict[str, Callable[[list[Any]], list[Any]]] = {}
    for name, hierarchy in hierarchies.items():
        level = levels.get(name, 0)
        labels = (
            hierarchy.domain(level)
            if hierarchy and isinstance(level, int) and 0 <= level < hierarchy.levels
            else None
        )
        if hierarchy is None or labels is None or len(labels) < 2:
            raise ReleaseError(
                f"--local needs a fixed --level of {name} with two or more labels that are known"
                " without the data"
            )
        # Direct encoding has the smaller variance up to about 3 exp(epsilon) + 2 labels (Wang et
        # al. 2017).
        few = len(labels) < 3 * exp(epsilon) + 2
        mechanisms[name] = (
            DirectEncoding(labels, epsilon) if few else OptimizedUnary(labels, epsilon)
        )
        prepare[name] = _generalizer(hierarchy, level)
    with shown_warnings(SurveyWarning), progress_bar(f"randomizing {file.name}") as progress:
        twice = {"overwrite": options["force"], "again": options["again"]}
        rows = randomize_file(file, output, mechanisms, prepare=prepare, progress=progress, **twice)
    total = sum(mechanism.epsilon for mechanism in mechanisms.values())
    described = {name: mechanism.to_dict() for name, mechanism in mechanisms.items()}
    shown = [
        (
            f"Wrote {rows:,} randomized rows to {output}; the mechanisms are recorded in"
            f" {columns_file(output).name}."
        ),
        (
            f"epsilon {total:.4g} per row, {epsilon:.4g} per column; estimate with: deniable"
            f" estimate {output}"
        ),
    ]
    emit({"output": str(output), "rows": rows, "epsilon_local": total, "columns": described}, shown)


def _generalizer(hierarchy: Hierarchy, level: int) -> Callable[[list[Any]], list[Any]]:
    known: dict[Any, Any] = {}

    def generalize(cells: list[Any]) -> list[Any]:
        for position, cell in enumerate(cells):
            if cell not in known:
                try:
                    hierarchy.check(cell)
                except ValueError as error:
                    raise UnknownLabelError(position, str(error)) from None
                known[cell] = hierarchy.label(cell, level)
        return [known[cell] for cell in cells]

    return generalize


def _read(file: Path, columns: list[str], person: str | None = None) -> CodedTable:
    wanted = list(dict.fromkeys([*columns, *([person] if person else [])]))
    with progress_bar(f"reading {file.name}") as progress, _file_named(file):
        return CodedTable.of(
            (chunk.columns for chunk in read_chunks(file, wanted, progress)), columns, person
        )


@contextmanager
def _file_named(file: Path) -> Iterator[None]:
    """Errors about a row name the file."""
    try:
        yield
    except ReleaseRowError as error:
        raise ReleaseError(f"{file}, {error}") from None
