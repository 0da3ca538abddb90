"""`deniable poll serve`: the page's own service. This module loads nothing that could read an
answer."""

from __future__ import annotations

from pathlib import Path

import click

from deniable.cli.helping import command
from deniable.cli.output import say
from deniable.service.http.limits import Tls

__all__ = ["serve"]


@command()
@click.argument("document", type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=int, default=8080, show_default=True, help="The port.")
@click.option("--certificate", type=click.Path(path_type=Path), help="A PEM file, for https.")
@click.option("--key", type=click.Path(path_type=Path), help="The certificate's key, a PEM file.")
def serve(document: Path, host: str, port: int, certificate: Path | None, key: Path | None) -> None:
    """Serve the page of the poll in DOCUMENT, which `deniable poll open` wrote, until it is
    stopped."""
    if (certificate is None) != (key is None):
        raise click.UsageError("--certificate and --key must be given together")
    from deniable.poll.page_app import read_document, serve_page  # noqa: PLC0415 - an extra

    tls = None if certificate is None or key is None else Tls(certificate, key)
    serve_page(
        read_document(document), host, port, tls, lambda address: say(f"listening on {address}")
    )
