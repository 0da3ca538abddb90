"""What `deniable proxy check` and `deniable collector check` examine besides the settings
themselves."""

from __future__ import annotations

from collections import Counter

from deniable.errors import LogError, LogInUseError, ParameterError
from deniable.logs.kafka_check import check_topic
from deniable.logs.sqlite_log import LogReader
from deniable.proxy.collecting.settings import CollectorSettings
from deniable.proxy.settings import ProxySettings
from deniable.service.files.database import lock
from deniable.service.inspection import SECONDS_TO_REACH, Inspection
from deniable.service.tokens import TokenStore

__all__ = ["check_collector", "check_proxy"]


def check_proxy(settings: ProxySettings, found: Inspection, url: str | None = None) -> None:
    """Check the files, disk, certificate and port of a proxy, and its Kafka broker."""
    running = _is_running(settings)
    found.folder("folder", settings.folder)
    if settings.folder.is_dir() and settings.folder.stat().st_mode & 0o077:
        found.warn(
            "folder", str(settings.folder), "can be read by other users; its mode should be 0700"
        )
    found.ring("ring", settings.ring)
    _check_tokens(settings, found)
    found.endpoint(settings.host, settings.port, settings.tls, url, running)
    with found.looking_at("kafka" if settings.kafka else "folder", str(settings.folder)):
        if settings.kafka is not None:
            _check_kafka(settings, found)
        elif (settings.folder / "log.db").exists():
            LogReader(settings.folder / "log.db").close()


def _is_running(settings: ProxySettings) -> bool:
    path = settings.folder / "lock"
    if not path.exists():
        return False
    try:
        lock(path).close()
    except LogInUseError:
        return True
    except LogError:
        return False
    return False


def _check_tokens(settings: ProxySettings, found: Inspection) -> None:
    path = settings.folder / "tokens.db"
    with found.looking_at("folder", str(settings.folder)):
        if not path.exists():
            found.warn(
                "folder",
                str(settings.folder),
                "holds no tokens yet: deniable proxy token add --role operator makes one",
            )
            return
        store = TokenStore(path, read_only=True)  # a file of an earlier release is not upgraded
        roles = Counter(token.role for token in store.tokens())
        store.close()
        if not roles["operator"]:
            rule = (
                "holds no operator's token, so nobody can publish a query: deniable proxy token add"
                " --role operator makes one"
            )
            found.warn("folder", str(settings.folder), rule)
        if settings.enrolment.mode == "closed" and not roles["device"]:
            found.warn(
                "enrolment.mode",
                "closed",
                "and no device has a token: deniable proxy token add makes them",
            )


def _check_kafka(settings: ProxySettings, found: Inspection) -> None:
    assert settings.kafka is not None  # noqa: S101 - for the type checker: the caller looked
    try:
        if not check_topic(settings.kafka, SECONDS_TO_REACH):
            found.warn(
                "kafka.topic",
                settings.kafka.topic,
                "is not there yet: the proxy makes it when it starts",
            )
    except ParameterError as error:
        raise error.named(f"kafka.{error.name}") from None


def check_collector(settings: CollectorSettings, found: Inspection, url: str | None = None) -> None:
    """Check the token, certificates and port of a collector, and its proxy."""
    token = found.token_file("token_file", settings.token_file)
    found.endpoint(settings.host, settings.port, settings.tls, url)
    with found.looking_at("ca", None if settings.ca is None else str(settings.ca)):
        status, text = found.reach("proxy", settings.proxy, "/v1/tokens", token, settings.trusted())
        if token and status in (401, 403):
            rule = (
                f"must hold a token of the role collector, which {settings.proxy} knows; it"
                f" answered {status}"
            )
            found.error("token_file", str(settings.token_file), rule)
        elif status and status not in (200, 401, 403):
            found.error("proxy", settings.proxy, f"must be a proxy; it answered {status}: {text}")
