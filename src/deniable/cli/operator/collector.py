"""`deniable collector`: run a collector, which forwards the uploads of many devices to one
proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from deniable.cli.helping import group
from deniable.cli.operator.settings_commands import (
    FILE,
    add_settings_commands,
    endpoint_options,
    opened_settings,
    quoted,
    tls_table,
    write_settings,
)
from deniable.cli.operator.settings_templates import COLLECTOR
from deniable.cli.output import say
from deniable.proxy.collecting.settings import CollectorSettings

__all__ = ["collector"]


@group()
def collector() -> None:
    """Receive uploads near devices and pass them to one proxy. Nothing is stored here, and nothing
    can be read."""


@collector.command()
@FILE
@click.option(
    "--proxy",
    default="https://proxy-1.example:8600",
    show_default=True,
    help="The address of its proxy.",
)
@click.option(
    "--token-file",
    help="The file with a token of the role collector [default: FILE with the ending .token].",
)
@endpoint_options(8650)
def new(
    file: Path,
    proxy: str,
    token_file: str | None,
    host: str,
    port: int,
    certificate: str | None,
    key: str | None,
) -> None:
    """Write commented settings to FILE, which must not exist yet."""
    token = token_file or file.with_suffix(".token").name
    write_settings(
        file,
        COLLECTOR,
        f"put a token of the proxy into {token} (mode 0600); deniable collector check {file};"
        f" deniable collector run {file}",
        proxy=quoted(proxy),
        token_file=quoted(token),
        host=quoted(host),
        port=str(port),
        tls=tls_table(certificate, key),
    )


@collector.command()
@FILE
def run(file: Path) -> None:
    """Run the collector of the settings in FILE until it is stopped. Log lines go to standard
    error, as JSON."""
    with opened_settings(file, CollectorSettings, "a collector") as settings:
        from deniable.proxy.collecting.collector import serve_collector  # noqa: PLC0415 - an extra

        serve_collector(settings, lambda address: say(f"listening on {address}"))


def _check(settings: CollectorSettings, found: Any, url: str | None) -> None:
    from deniable.proxy.operations.check import check_collector  # noqa: PLC0415 - an extra

    check_collector(settings, found, url)


def _check_origin(settings: CollectorSettings, found: Any, url: str | None, origin: str) -> None:
    from deniable.proxy.operations.origin_check import check_origin  # noqa: PLC0415 - an extra

    check_origin(settings, found, url, origin)


add_settings_commands(collector, CollectorSettings, _check, _check_origin)
