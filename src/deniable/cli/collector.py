"""`deniable collector`: take uploads near devices, and bring them to one proxy."""

from __future__ import annotations

from pathlib import Path

import click

from deniable.cli.output import say
from deniable.errors import MissingExtraError
from deniable.proxy.collector_settings import read_collector_settings

__all__ = ["collector"]

_TEMPLATE = """\
# Settings of a collector for deniable. `deniable collector run {file}` starts it.

proxy = "https://proxy-1.example:8600"  # the one proxy that it belongs to; never two proxies of one query
token_file = "{token}"       # holds what  deniable proxy token add PROXY.toml --role collector  prints
# ca = "proxy-ca.pem"                   # vouches for the proxy's certificate; by default what the system trusts
host = "127.0.0.1"
port = 8700
refresh = "2 s"                         # how often it looks for new tokens and queries

[limits]
largest_body = 4194304                  # bytes of one upload
most_connections = 10000
body_deadline = "30 s"
header_deadline = "10 s"

# [tls]                                 # an ECDSA certificate (P-256) costs a fifth of an RSA one
# certificate = "collector.pem"
# key = "collector.key"
"""
_FILE = click.argument("file", type=click.Path(path_type=Path))


@click.group()
def collector() -> None:
    """Take uploads near devices, and bring them to one proxy. Nothing is kept here, and nothing can be read."""


@collector.command()
@_FILE
def new(file: Path) -> None:
    """Write commented settings to FILE."""
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(_TEMPLATE.format(file=file.name, token=file.with_suffix(".token").name))
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}") from None
    say(f"wrote {file}: edit it, put a token into {file.with_suffix('.token')}, then run  deniable collector run {file}")


@collector.command()
@_FILE
def run(file: Path) -> None:
    """Run the collector of the settings in FILE until it is stopped. Log lines go to standard error, as JSON."""
    settings = read_collector_settings(file)
    try:
        from deniable.proxy.collector import serve_collector  # noqa: PLC0415 - needs the extra `service`
    except ImportError as error:
        raise MissingExtraError(str(error.name), "service", "a collector") from None
    serve_collector(settings, lambda address: say(f"listening on {address}"))
