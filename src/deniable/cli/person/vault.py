"""`deniable vault`: the owner's side of a vault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from deniable.cli.helping import group
from deniable.cli.output import emit, output_options
from deniable.client.sandbox.interface import walls as walls_here
from deniable.client.vaults.recording import MOST_ROWS
from deniable.client.vaults.vault import TableInfo, Vault

__all__ = ["vault"]

_WALLS = {
    "rlimits": "limits on descriptors, file size, processes and processor time (rlimits)",
    "address space": "limit on memory, by the kernel (rlimit on address space)",
    "landlock": "no file and no TCP connection can be opened (Landlock)",
    "seccomp": "no system calls except those for its pipes, memory and time (seccomp)",
    "heap": "limit on SQLite's memory (hard_heap_limit)",
}
_FILE = click.argument("file", type=click.Path(path_type=Path))


@group()
def vault() -> None:
    """Keep your data in a file of your own, and choose what queries may ask about.

    Nothing is granted until you grant it, column by column. What you grant can be read by the
    queries you allow; their answers are randomized before they leave your device.
    """


@vault.command()
@_FILE
@output_options
def init(file: Path) -> None:
    """Create an empty vault in FILE, which only you can open. It grants nothing."""
    Vault.create(file)
    emit({"file": str(file), "tables": []}, f"{file} is an empty vault. Nothing is granted.")


@vault.command("import")
@_FILE
@click.option(
    "--table", required=True, help="The table to add rows to; it is created if it does not exist."
)
@click.argument("data", type=click.Path(path_type=Path))
@output_options
def import_data(file: Path, table: str, data: Path) -> None:
    """Add the rows of DATA (.csv or .parquet) to a table of the vault in FILE.

    Either all rows are added or none. A CSV file is UTF-8 text with commas and a first line of
    column names; an empty cell is a missing value.
    """
    readers = {".csv": Vault.import_csv, ".parquet": Vault.import_parquet}
    if data.suffix.lower() not in readers:
        raise click.UsageError(f"{data} must end in {' or '.join(readers)}")
    opened = Vault.open(file)
    n_rows = readers[data.suffix.lower()](opened, table, data)
    info = next(each for each in opened.tables() if each.name.lower() == table.lower())
    emit(
        {"added": n_rows, **_table(info)},
        f"{_counted(n_rows, 'row')} added to {info.name}. {_sentence(info)}",
    )


@vault.command()
@_FILE
@click.argument("table")
@click.argument("values", nargs=-1, required=True, metavar="COLUMN=VALUE...")
@output_options
def record(file: Path, table: str, values: tuple[str, ...]) -> None:
    """Add one row to TABLE, with the current time, as an app would: km=3.5 city=Lyon.

    Values that look like numbers are stored as numbers; put text in JSON quotes to keep it text.
    """
    row = {}
    for each in values:
        column, equals, text = each.partition("=")
        if not equals or column in row:
            raise click.UsageError(f"{each!r} must be COLUMN=VALUE, with each column given once")
        row[column] = _value(text)
    opened = Vault.open(file)
    opened.record(table, row)
    info = next(each for each in opened.tables() if each.name.lower() == table.lower())
    emit(
        {"added": 1, **_table(info)},
        f"{info.name} now has {_counted(info.n_rows, 'row')}. {_sentence(info)}",
    )


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float | str | None) else text


@vault.command()
@_FILE
@click.argument("table")
@click.option("--age", help="How long recorded rows are kept, such as '90 d' [default: forever].")
@click.option(
    "--rows",
    type=int,
    default=MOST_ROWS,
    show_default=True,
    help="How many recorded rows are kept.",
)
@output_options
def keep(file: Path, table: str, age: str | None, rows: int) -> None:
    """Set how many recorded rows of TABLE are kept, and for how long. The oldest are deleted
    first."""
    Vault.open(file).keep(table, age, rows)
    said = (
        f"{table} keeps up to"
        f" {_counted(rows, 'recorded row')}{f' of the last {age}' if age else ''}."
    )
    emit({"table": table, "rows": rows, "age": age}, said)


@vault.command()
@_FILE
@click.argument("table")
@click.argument("columns", nargs=-1, required=True)
@output_options
def grant(file: Path, table: str, columns: tuple[str, ...]) -> None:
    """Grant COLUMNS of TABLE, in addition to those already granted. Anyone who may ask about a
    table can also count its rows."""
    opened = Vault.open(file)
    opened.grant(table, columns)
    _show(file, opened)


@vault.command()
@_FILE
@click.argument("table")
@click.argument("columns", nargs=-1)
@output_options
def withdraw(file: Path, table: str, columns: tuple[str, ...]) -> None:
    """Stop granting COLUMNS of TABLE; without COLUMNS, all of it. This applies to every query that
    starts from now on."""
    opened = Vault.open(file)
    opened.withdraw(table, columns or None)
    _show(file, opened)


@vault.command()
@_FILE
@output_options
def show(file: Path) -> None:
    """Show what the vault in FILE contains, and which columns are granted. No data are printed."""
    _show(file, Vault.open(file))


@vault.command()
@output_options
def sandbox() -> None:
    """Show how this machine confines the process that runs an analyst's SQL.

    That process has a copy of what you grant and nothing else; the walls below keep it from
    everything outside.
    """
    walls = walls_here()
    lines = [
        "An analyst's SQL runs in a process that has a copy of what you grant. It is confined by:"
    ]
    emit(
        {"walls": walls},
        lines + [f"  {'yes' if held else 'no ':<4}{_WALLS[name]}" for name, held in walls.items()],
    )


def _show(file: Path, opened: Vault) -> None:
    tables = opened.tables()
    lines = [f"{each.name} ({_counted(each.n_rows, 'row')}): {_sentence(each)}" for each in tables]
    header = ["table", "rows", "granted", "withheld"]
    rows = [
        [each.name, each.n_rows, "|".join(each.granted), "|".join(each.withheld)] for each in tables
    ]
    document = {"file": str(file), "tables": [_table(each) for each in tables]}
    emit(document, lines or "The vault is empty.", (header, rows))


def _table(info: TableInfo) -> dict[str, Any]:
    return {
        "table": info.name,
        "rows": info.n_rows,
        "granted": list(info.granted),
        "withheld": list(info.withheld),
    }


def _sentence(info: TableInfo) -> str:
    if not info.granted:
        return "Nothing is granted."
    rest = f"Withheld: {', '.join(info.withheld)}." if info.withheld else "Nothing is withheld."
    return f"Granted: {', '.join(info.granted)}. {rest}"


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"
