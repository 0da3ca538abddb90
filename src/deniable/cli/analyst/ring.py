"""`deniable ring`: the keys of analysts that devices, proxies and aggregators trust."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from deniable.cli.helping import group
from deniable.cli.output import emit, output_options
from deniable.cli.tables import TextTable
from deniable.queries.schedule import LATEST, duration
from deniable.queries.signed.key_ring import KeyRing, TrustedKey
from deniable.queries.signed.keys import PublicKey
from deniable.queries.times import iso_time, moment

__all__ = ["ring"]

_FILE = click.argument("file", type=click.Path(path_type=Path))
_KEY = click.argument("key", type=click.Path(path_type=Path))


@group()
def ring() -> None:
    """Keep the ring of analysts' keys that devices, proxies and aggregators trust.

    Services and devices that run follow the file in seconds. `deniable query keygen` makes a key;
    its FILE.pub goes on the ring.
    """


@ring.command()
@_FILE
@_KEY
@click.option(
    "--start", "valid_from", help="Trust it from this time on (ISO 8601, UTC) [default: always]."
)
@click.option(
    "--end", "valid_until", help="Trust it until this time (ISO 8601, UTC) [default: always]."
)
@click.option("--owner", help="Whose key it is; needed for a PEM file, which does not say.")
@output_options
def add(
    file: Path, key: Path, valid_from: str | None, valid_until: str | None, owner: str | None
) -> None:
    """Add the public KEY to the ring in FILE, which is created if it does not exist."""
    known = KeyRing.load(file) if file.exists() else KeyRing()
    public = PublicKey.load(key, owner)
    first = 0 if valid_from is None else moment("--start", valid_from)
    last = LATEST if valid_until is None else moment("--end", valid_until)
    known.add(public, first, last).save(file)
    said = (
        f"Added key {public.id} of {public.owner} to {file}, which now has {_keys(len(known) + 1)}."
    )
    emit({"added": public.id, "owner": public.owner, "keys": len(known) + 1}, said)


@ring.command()
@_FILE
@click.argument("old_id")
@_KEY
@click.option("--at", "at", help="When the new key takes over (ISO 8601, UTC) [default: now].")
@click.option(
    "--overlap",
    default="7 d",
    show_default=True,
    help="How long the old key stays valid after that.",
)
@click.option(
    "--owner", help="Whose key the new one is; needed for a PEM file, which does not say."
)
@output_options
def rotate(
    file: Path, old_id: str, key: Path, at: str | None, overlap: str, owner: str | None
) -> None:
    """Replace the key OLD_ID on the ring in FILE by the new public KEY of the same owner."""
    known = KeyRing.load(file)
    public = PublicKey.load(key, owner)
    when = int(time.time()) if at is None else moment("--at", at)
    long = duration("--overlap", overlap)
    known.rotate(old_id, public, when, long).save(file)
    until = iso_time(when + long)
    said = (
        f"Key {public.id} of {public.owner} is trusted from {iso_time(when)}; key {old_id} until"
        f" {until}."
    )
    emit(
        {
            "added": public.id,
            "owner": public.owner,
            "valid_from": iso_time(when),
            "old": old_id,
            "old_until": until,
        },
        said,
    )


@ring.command()
@_FILE
@click.argument("key")
@output_options
def revoke(file: Path, key: str) -> None:
    """Revoke KEY on the ring in FILE: nothing it ever signed is trusted any longer.

    KEY is the id of a key on the ring or the file of a public key, which need not be on it: a
    controller's key is not. The key stays on the ring, marked, so that it cannot be added again by
    mistake.
    """
    known = KeyRing.load(file)
    if Path(key).is_file():
        public = PublicKey.load(key)
        known.ban(public).save(file)
        key = public.id
    else:
        known.revoke(key).save(file)
    emit({"revoked": key}, f"Revoked key {key}.")


@ring.command()
@_FILE
@output_options
def show(file: Path) -> None:
    """List the keys on the ring in FILE: whose they are, from when until when they are trusted,
    which are revoked."""
    rows = [_row(trusted) for trusted in KeyRing.load(file)]
    names = ["id", "owner", "valid_from", "valid_until", "revoked"]
    emit(
        rows,
        lambda: [_table(rows), f"{_keys(len(rows))}."],
        (names, [[row[name] for name in names] for row in rows]),
    )


def _table(rows: list[dict[str, Any]]) -> TextTable:
    shown = []
    for row in rows:
        state = (
            "revoked"
            if row["revoked"]
            else f"{row['valid_from'] or 'always'} to {row['valid_until'] or 'always'}"
        )
        shown.append((row["id"], row["owner"], state))
    return TextTable(("key", "owner", "trusted"), shown, [False] * 3)


def _row(trusted: TrustedKey) -> dict[str, Any]:
    return {
        "id": trusted.key.id,
        "owner": trusted.key.owner,
        "valid_from": iso_time(trusted.valid_from) if trusted.valid_from else None,
        "valid_until": iso_time(trusted.valid_until) if trusted.valid_until < LATEST else None,
        "revoked": trusted.revoked,
    }


def _keys(n: int) -> str:
    return f"{n} key{'' if n == 1 else 's'}"
