"""`deniable kafka`: a broker for trying things out."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import click

from deniable.cli.helping import group
from deniable.cli.output import emit, output_format, output_options, say
from deniable.devtools.broker import KAFKA_VERSION, Broker
from deniable.errors import ServiceError

__all__ = ["kafka"]

_LOOK = 0.2


@group()
def kafka() -> None:
    """Keep the proxies' logs in Kafka (docs/kafka.md)."""


@kafka.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="The port on loopback [default: a free one].",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Keep the data in this folder, for the next start.",
)
@output_options
def dev(port: int, data: Path | None) -> None:
    """Run a Kafka broker on this machine until Ctrl-C, for trying things out: no TLS, no passwords,
    no replicas.

    Needs a JDK (17 or newer); the first time also Maven, which fetches Kafka into the cache folder.
    Without --data everything written is deleted at the end. It creates no topic: each proxy creates
    its own.
    """
    from deniable.cli.demonstration.live import ending_in_order  # noqa: PLC0415 - slow to import

    with ending_in_order(), ExitStack() as stack:
        try:
            folder = data or Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="deniable-kafka-"))
            )
            broker = stack.enter_context(Broker(folder, port))
            document = {
                "bootstrap": broker.bootstrap,
                "version": KAFKA_VERSION,
                "data": str(broker.data),
                "kept": data is not None,
            }
            emit(
                document, f"Kafka {KAFKA_VERSION} at {broker.bootstrap}; Ctrl-C stops it", line=True
            )
            while broker.running:
                time.sleep(_LOOK)
            raise ServiceError(
                f"the broker stopped unexpectedly{f': see {broker.log}' if data else ''}"
            )
        except KeyboardInterrupt:
            pass  # this is how it ends
    if output_format() == "text":
        say("Stopped. Nothing is left running.")
