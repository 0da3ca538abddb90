"""`deniable kafka`: a broker to try things with."""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import click

from deniable.cli.output import say
from deniable.devtools.broker import KAFKA_VERSION, Broker
from deniable.errors import ServiceError

__all__ = ["kafka"]

_LOOK = 0.2


@click.group()
def kafka() -> None:
    """Kafka as the place of the proxies' logs: docs/kafka.md."""


@kafka.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port on loopback; by default one that is free.")
@click.option("--data", type=click.Path(path_type=Path), help="Keep what is written in this folder, and find it there again.")
@click.option("--json", "wants_json", is_flag=True, help="Print the address as one JSON object on one line.")
def dev(port: int, data: Path | None, wants_json: bool) -> None:
    """Run a Kafka broker on this machine until Ctrl-C, to try things with: no TLS, no passwords, no second copy.

    Needs a JDK (17 or newer); the first time also Maven, which fetches Kafka into the cache folder. Without --data all that was
    written is deleted at the end. No topic is made: a proxy makes its own.
    """
    from deniable.cli.live import ending_in_order  # noqa: PLC0415 - slow to import

    with ending_in_order(), ExitStack() as stack:
        try:
            folder = data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="deniable-kafka-")))
            broker = stack.enter_context(Broker(folder, port))
            document = {
                "bootstrap": broker.bootstrap,
                "version": KAFKA_VERSION,
                "data": str(broker.data),
                "kept": data is not None,
            }
            say(json.dumps(document) if wants_json else f"Kafka {KAFKA_VERSION} at {broker.bootstrap}; Ctrl-C stops it")
            while broker.running:
                time.sleep(_LOOK)
            raise ServiceError(f"the broker has ended by itself{f': see {broker.log}' if data else ''}")
        except KeyboardInterrupt:
            pass  # this is how it ends
    if not wants_json:
        say("Stopped. Nothing is left running.")
