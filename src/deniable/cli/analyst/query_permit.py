"""`deniable query permit`: let another analyst's queries use a channel of yours."""

from __future__ import annotations

from pathlib import Path

import click

from deniable.cli.analyst.signing_key import signing_key
from deniable.cli.helping import command
from deniable.cli.output import emit, output_options, write_new
from deniable.errors import QueryError
from deniable.queries.schedule import spoken_duration
from deniable.queries.signed.keys import PublicKey
from deniable.queries.signed.permissions import ChannelPermission, permit
from deniable.queries.times import iso_time, moment

__all__ = ["permit_command", "read_permission"]


def read_permission(path: Path) -> ChannelPermission:
    """The permission in a file that `deniable query permit` wrote."""
    try:
        return ChannelPermission.from_bytes(path.read_bytes())
    except OSError as error:
        raise QueryError(f"{path} cannot be read: {error.strerror}") from None
    except QueryError as error:
        raise QueryError(f"{path}: {error}") from None


def _guest_key(path: Path) -> PublicKey:
    """The public key in a file; a PEM file does not say whose it is, and a permission does not
    either."""
    is_pem = path.is_file() and path.read_bytes().startswith(b"-----BEGIN ")
    return PublicKey.load(path, "guest" if is_pem else None)


@command("permit")
@click.argument("channel")
@click.argument("guest", type=click.Path(path_type=Path))
@click.option(
    "--key",
    type=click.Path(path_type=Path),
    required=True,
    help="Your key, to which the channel belongs.",
)
@click.option(
    "--end", required=True, help="The guest's queries must expire by then (ISO 8601, UTC)."
)
@click.option(
    "--messages",
    type=int,
    default=1,
    show_default=True,
    help="Messages per device and epoch that all queries of the guest may add together.",
)
@click.option(
    "--grace", default="0 s", show_default=True, help="The longest grace of a guest's query."
)
@click.option("--owner", help="Whose key yours is; needed for a PEM file, which does not say.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Where to write [default: CHANNEL.permission.json].",
)
@output_options
def permit_command(
    channel: str,
    guest: Path,
    key: Path,
    end: str,
    messages: int,
    grace: str,
    owner: str | None,
    output: Path | None,
) -> None:
    """Permit the queries of another analyst, whose public key is in the file GUEST, to use your
    channel CHANNEL.

    The guest signs with  deniable query sign FILE --key KEY --permission PERMISSION. Their queries
    then share your channel's quota, grace and accounts, within the limits given here.
    """
    allowed = 0 if grace.strip() in ("0", "0 s") else grace
    given = permit(
        signing_key(key, owner), channel, _guest_key(guest), moment("--end", end), messages, allowed
    )
    target = output or Path(f"{channel}.permission.json")
    write_new(target, given.to_bytes().decode(), QueryError)
    longest = spoken_duration(given.grace) if given.grace else "none"
    limits = f"at most {given.messages} messages per device and epoch, grace {longest}"
    emit(given.to_dict(), f"Wrote {target}: until {iso_time(given.end)}, {limits}")
