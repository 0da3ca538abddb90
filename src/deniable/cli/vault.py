"""`deniable vault`: the owner's side of a vault."""

from __future__ import annotations

import json
from pathlib import Path

import click

from deniable.client.sandbox import walls as walls_here
from deniable.client.vault import TableInfo, Vault

__all__ = ["vault"]

_WALLS = {
    "rlimits": "limits on descriptors, file size, processes and processor time (rlimits)",
    "address space": "limit on memory, by the kernel (rlimit on address space)",
    "landlock": "no file and no TCP connection can be opened (Landlock)",
    "seccomp": "no system call but those for its pipes, memory and time (seccomp)",
    "heap": "limit on SQLite's memory (hard_heap_limit)",
}
_FILE = click.argument("file", type=click.Path(path_type=Path))


@click.group()
def vault() -> None:
    """Keep your data in a file of your own, and say what of it may be asked about.

    Nothing is shared until you share it, column by column. What you share can be read by the queries you allow; their answers
    are randomized before they leave your device.
    """


@vault.command()
@_FILE
def init(file: Path) -> None:
    """Make an empty vault in FILE, which only you can open. It shares nothing."""
    Vault.create(file)
    click.echo(f"{file} is an empty vault. Nothing is shared.")


@vault.command("import")
@_FILE
@click.option("--table", required=True, help="The table the rows go to; it is made if it is not there.")
@click.argument("data", type=click.Path(path_type=Path))
def import_data(file: Path, table: str, data: Path) -> None:
    """Add the rows of DATA (.csv or .parquet) to a table of the vault in FILE.

    All rows are added or, if one cannot be, none. A CSV file is UTF-8 text with commas and a first line of column names; an empty
    cell means that there is no value.
    """
    readers = {".csv": Vault.import_csv, ".parquet": Vault.import_parquet}
    if data.suffix.lower() not in readers:
        raise click.UsageError(f"{data} must end in {' or '.join(readers)}")
    opened = Vault.open(file)
    n_rows = readers[data.suffix.lower()](opened, table, data)
    info = next(each for each in opened.tables() if each.name.lower() == table.lower())
    click.echo(f"{_counted(n_rows, 'row')} added to {info.name}. {_sentence(info)}")


@vault.command()
@_FILE
@click.argument("table")
@click.argument("columns", nargs=-1, required=True)
def share(file: Path, table: str, columns: tuple[str, ...]) -> None:
    """Share COLUMNS of TABLE, besides what is shared already. Whoever may ask about a table can also count its rows."""
    opened = Vault.open(file)
    opened.share(table, columns)
    _show(opened)


@vault.command()
@_FILE
@click.argument("table")
@click.argument("columns", nargs=-1)
def unshare(file: Path, table: str, columns: tuple[str, ...]) -> None:
    """Share COLUMNS of TABLE no longer; without COLUMNS, nothing of it. Queries that start from now on obey."""
    opened = Vault.open(file)
    opened.unshare(table, columns or None)
    _show(opened)


@vault.command()
@_FILE
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def show(file: Path, as_json: bool) -> None:
    """Say what the vault in FILE holds, what of it is shared and what is not. No data are printed."""
    opened = Vault.open(file)
    if not as_json:
        _show(opened)
        return
    tables = [
        {"table": each.name, "rows": each.n_rows, "shared": list(each.shared), "not_shared": list(each.unshared)}
        for each in opened.tables()
    ]
    click.echo(json.dumps({"file": str(file), "tables": tables}, indent=2))


@vault.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def sandbox(as_json: bool) -> None:
    """Show which walls this machine puts around the process that runs an analyst's SQL.

    That process holds a copy of what you share, and nothing else; the walls keep it from everything outside.
    """
    walls = walls_here()
    if as_json:
        click.echo(json.dumps({"walls": walls}, indent=2))
        return
    click.echo("An analyst's SQL runs in a process that holds a copy of what you share. Around it:")
    for name, held in walls.items():
        click.echo(f"  {'yes' if held else 'no ':<4}{_WALLS[name]}")


def _show(opened: Vault) -> None:
    tables = opened.tables()
    for each in tables:
        click.echo(f"{each.name} ({_counted(each.n_rows, 'row')}): {_sentence(each)}")
    if not tables:
        click.echo("The vault is empty.")


def _sentence(info: TableInfo) -> str:
    if not info.shared:
        return "Nothing of it is shared."
    rest = f"Not shared: {', '.join(info.unshared)}." if info.unshared else "Nothing is held back."
    return f"Shared: {', '.join(info.shared)}. {rest}"


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"
