"""The named faults of an aggregator and of the proxies that it reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.errors import SettingsError
from deniable.service.background import Background
from deniable.service.certificate_expiry import end_of_file
from deniable.service.faults import ServiceFault, expiring, low_disk, name_of_error

if TYPE_CHECKING:
    from deniable.aggregator.operations.health import ProxyHealth
    from deniable.aggregator.service import Service

__all__ = ["aggregator_faults"]


def aggregator_faults(service: Service) -> list[ServiceFault]:
    """All current faults. If a fault is seen in two ways, only the first is reported."""
    found = [*_parts(service), *_proxies(service), *_machine(service)]
    return list({(each.name, each.subject): each for each in reversed(found)}.values())[::-1]


def _of_part(part: Background | None, name: str, stops: bool) -> Iterator[ServiceFault]:
    if part is not None and part.problem:
        error = part.error
        yield ServiceFault(
            "ended" if part.ended or error is None else name_of_error(error),
            name,
            part.problem,
            stops,
        )


def _parts(service: Service) -> Iterator[ServiceFault]:
    parts = service.parts
    if parts.engine is not None:
        yield from _of_part(parts.engine, "engine", stops=True)
    elif parts.engine_problem:
        yield ServiceFault("failing", "engine", parts.engine_problem, stops=True)
    yield from _of_part(parts.relay, "relay", stops=True)
    yield from _of_part(parts.controller, "controller", stops=True)
    yield from _of_part(parts.history, "history", stops=False)
    yield from _of_part(parts.housekeeping, "housekeeping", stops=False)
    if parts.unrelayed and not parts.relay.problem:
        yield ServiceFault("relay", "relay", parts.unrelayed)


def _proxies(service: Service) -> Iterator[ServiceFault]:
    limits = service.settings.limits
    for each in service.parts.proxies:
        yield from _of_proxy(each, limits.behind, limits.patience)
    for probe in service.probes:
        if probe.fault is not None:
            yield probe.fault
        yield from expiring(probe.name, probe.certificate_ends, service.clock())
    for proxy in service.settings.proxies:
        try:
            proxy.token()
        except SettingsError as error:
            yield ServiceFault("token", proxy.name, str(error))


def _of_proxy(health: ProxyHealth, behind: int, patience: int) -> Iterator[ServiceFault]:
    if health.problem:
        yield ServiceFault(health.fault or "log_unreadable", health.name, health.problem)
    if health.condition != "up":
        late = patience if health.condition == "down" else behind
        detail = f"has not marked an epoch that has been over for more than {late} seconds"
        yield ServiceFault(f"proxy_{health.condition}", health.name, detail)


def _machine(service: Service) -> Iterator[ServiceFault]:
    settings = service.settings
    if problem := service.audit.problem():
        yield ServiceFault("damaged", "audit log", problem)
    if service.ring_file.problem:
        yield ServiceFault("failing", "ring", service.ring_file.problem)
    yield from low_disk(settings.state.parent, settings.limits.reserve)
    if settings.history is not None and "://" not in settings.history.folder:
        yield from low_disk(Path(settings.history.folder), settings.limits.reserve)
    if settings.tls is not None:
        yield from expiring(
            "tls.certificate", end_of_file(settings.tls.certificate), service.clock()
        )
