"""`deniable spark`: the aggregator's pipeline on Spark."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any

import click

from deniable.aggregator.settings import read_settings
from deniable.cli.helping import group
from deniable.cli.output import emit, output_format, output_options, say
from deniable.errors import ServiceError, SettingsError, StateError
from deniable.service.files.database import keep_files_private

__all__ = ["spark"]

_LONGEST_PAUSE = 60.0


@group()
def spark() -> None:
    """Run the aggregator's pipeline on Spark, from the proxies' logs in Kafka (docs/spark.md)."""


@spark.command()
@click.argument("settings", type=click.Path(path_type=Path))
@click.option(
    "--master",
    help=(
        "Spark's master: local[2], spark://host:7077, yarn, k8s://… [default: Spark's own set-up,"
        " or local[*]]."
    ),
)
@click.option("--available-now", is_flag=True, help="Count what the logs hold now, then exit.")
@output_options
def submit(settings: Path, master: str | None, available_now: bool) -> None:
    """Run the pipeline that the TOML file SETTINGS of an aggregator describes, until Ctrl-C.

    With --json, every batch is one line of JSON.

    `deniable aggregator run SETTINGS`, with `engine = "spark"` in the same file, serves the
    results. If the stream fails, for example because a broker is away, it restarts from its
    checkpoint: nothing is lost, and nothing is counted twice.
    """
    from deniable.aggregator.engines.spark.driver import aggregate  # noqa: PLC0415 - loads NumPy and more
    from deniable.aggregator.engines.spark.session import is_alive, job_of, open_session  # noqa: PLC0415

    chosen = read_settings(settings)
    if chosen.spark is None:
        raise SettingsError(
            "spark", None, "is missing: a table [spark] with at least a checkpoint", settings.name
        )
    stop = threading.Event()
    # also those of the JVM, which inherits this: a checkpoint holds shares that wait
    keep_files_private()
    session = open_session(master, chosen.spark.options)
    for each in (signal.SIGINT, signal.SIGTERM):  # after Spark, which has a handler of its own
        signal.signal(each, lambda *_: stop.set())
    page = session.sparkContext.uiWebUrl
    where = f"its web page: {page}" if page else "its web page is off"
    started = {"event": "started", "version": session.version, "ui": page}
    emit(started, f"Spark {session.version} counts; {where}", line=True)
    pause = 1.0

    def watch(progress: dict[str, Any]) -> None:
        nonlocal pause
        pause = 1.0
        document = {"event": "batch", **_figures(progress)}
        text = "batch {batch}: {shares:,} shares in {seconds:.1f} s, {state_bytes} bytes of state".format(
            **document
        )
        emit(document, text, line=True)

    try:
        while True:
            try:
                aggregate(
                    session, job_of(chosen), available_now=available_now, stop=stop, watch=watch
                )
                break
            except (StateError, SettingsError):
                raise
            except ServiceError as error:
                if available_now or not is_alive(session):
                    raise
                failed = json.dumps({"event": "failed", "problem": str(error)})
                say(
                    failed if output_format() == "json" else f"{error}; retrying in {pause:.0f} s",
                    err=True,
                )
                if stop.wait(pause):
                    break
                pause = min(2 * pause, _LONGEST_PAUSE)
    finally:
        session.stop()
    emit({"event": "stopped"}, "Stopped. The next start continues from here.", line=True)


def _figures(progress: dict[str, Any]) -> dict[str, Any]:
    state = progress["stateOperators"][0] if progress["stateOperators"] else {}
    return {
        "batch": progress["batchId"],
        "shares": progress["shares"],
        "seconds": progress["batchDuration"] / 1000,
        "state_rows": state.get("numRowsTotal", 0),
        "state_bytes": state.get("memoryUsedBytes", 0),
    }
