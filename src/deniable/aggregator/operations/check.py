"""What `deniable aggregator check` checks besides the settings themselves."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from deniable.aggregator.schema import STATE
from deniable.aggregator.settings import AggregatorSettings, ProxySource
from deniable.errors import MissingExtraError, ParameterError
from deniable.logs.kafka_check import check_topic
from deniable.logs.sqlite_log import LogReader
from deniable.queries.signed.keys import AnalystKey
from deniable.service.files.file_lock import lock_file
from deniable.service.inspection import SECONDS_TO_REACH, Inspection

__all__ = ["check_aggregator"]


def check_aggregator(
    settings: AggregatorSettings, found: Inspection, url: str | None = None
) -> None:
    """Check an aggregator's files, disks, certificate and port, and the proxies, brokers and engine
    it needs."""
    found.folder("state", settings.state.parent)
    _check_state(settings, found)
    found.ring("ring", settings.ring)
    for i, proxy in enumerate(settings.proxies):
        _check_proxy(f"proxies[{i}].", proxy, found)
    found.endpoint(settings.host, settings.port, settings.tls, url, _is_running(settings))
    if settings.controller is not None:
        with found.looking_at("controller", str(settings.controller)):
            AnalystKey.load(settings.controller)
    if settings.history is not None:
        with found.looking_at("history"):
            if importlib.util.find_spec("pyarrow") is None:
                raise MissingExtraError("pyarrow", "history", "history")
        if "://" not in settings.history.folder:
            found.folder("history.folder", Path(settings.history.folder))
    if settings.engine == "spark" or settings.spark is not None:
        _check_spark(settings, found)


def _is_running(settings: AggregatorSettings) -> bool:
    """Whether an engine has the state open."""
    try:
        handle = os.open(f"{settings.state}.lock", os.O_RDWR)
    except OSError:
        return False
    try:
        lock_file(handle, wait=False)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _check_state(settings: AggregatorSettings, found: Inspection) -> None:
    with found.looking_at("state", str(settings.state)):
        hint = "deniable aggregator token makes one"
        if not settings.state.exists():
            found.warn(
                "state",
                str(settings.state),
                f"does not exist yet, so it has no analyst token: {hint}",
            )
            return
        with closing(STATE.connect(settings.state, read_only=True, check=False)) as connection:
            version = STATE.version_of(connection, settings.state)
            rows = connection.execute("SELECT name FROM proxies ORDER BY proxy").fetchall()
            engine = connection.execute("SELECT value FROM meta WHERE name = 'engine'").fetchone()
            (n_tokens,) = connection.execute("SELECT count(*) FROM tokens").fetchone()
        if version < STATE.version:
            rule = (
                f"has schema version {version}: the aggregator brings it to {STATE.version} when"
                " it starts, and keeps a copy"
            )
            found.warn("state", str(settings.state), rule)
        names = [name for (name,) in rows]
        given = [proxy.name for proxy in settings.proxies]
        if names and names != given:
            raise ParameterError(
                "proxies", given, f"must be those that the state was created with: {names}"
            )
        if engine is not None and engine[0] != settings.engine:
            raise ParameterError(
                "engine", settings.engine, f"must be {engine[0]!r}, to which the state belongs"
            )
        if not n_tokens:
            found.warn("state", str(settings.state), f"has no analyst token: {hint}")


def _check_proxy(place: str, proxy: ProxySource, found: Inspection) -> None:
    if proxy.token_file is None:
        found.warn(
            f"{place}token_file", None, f"is not set: queries cannot be published at {proxy.name}"
        )
    token = found.token_file(f"{place}token_file", proxy.token_file)
    if proxy.url.startswith(("http://", "https://")):
        path = "/v1/log?limit=1" if proxy.log is None and proxy.kafka is None else "/healthz"
        status, text = found.reach(f"{place}url", proxy.url, path, token)
        if status in (401, 403):
            rule = f"must hold an operator's token of {proxy.name}, which answered {status}"
            found.error(
                f"{place}token_file",
                None if proxy.token_file is None else str(proxy.token_file),
                rule,
            )
        elif status and status != 200:
            found.error(
                f"{place}url",
                proxy.url,
                f"must be a proxy in good health; it answered {status}: {text}",
            )
    if proxy.log is not None:
        with found.looking_at(f"{place}log", str(proxy.log)):
            try:
                LogReader(proxy.log).close()
            except sqlite3.Error as error:
                raise ParameterError(
                    f"{place}log", str(proxy.log), f"cannot be read: {error}"
                ) from None
    if proxy.kafka is not None:
        with found.looking_at(f"{place}kafka", proxy.kafka.bootstrap):
            try:
                if not check_topic(proxy.kafka, SECONDS_TO_REACH):
                    found.warn(
                        f"{place}kafka.topic",
                        proxy.kafka.topic,
                        "is not there yet: its proxy makes it",
                    )
            except ParameterError as error:
                raise error.named(f"{place}kafka.{error.name}") from None


def _check_spark(settings: AggregatorSettings, found: Inspection) -> None:
    chosen = settings.spark
    if chosen is None:
        found.error(
            "spark", None, "must be given with engine = 'spark': a table with at least a checkpoint"
        )
        return
    for i, proxy in enumerate(settings.proxies):
        if proxy.kafka is None:
            found.error(
                f"proxies[{i}].kafka",
                None,
                "must be given: Spark reads the proxies' logs from Kafka",
            )
    if ":/" not in chosen.checkpoint:
        found.folder("spark.checkpoint", Path(chosen.checkpoint))
    if importlib.util.find_spec("pyspark") is None:
        found.warn(
            "spark", None, "cannot run on this machine: pip install 'deniable[spark]' brings Spark"
        )
    elif not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        found.warn(
            "spark",
            None,
            "cannot run on this machine: there is no Java (17 or newer), and JAVA_HOME is not set",
        )
