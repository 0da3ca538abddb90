"""The settings file of `deniable up`, in TOML. Errors name the file, the line, the key, the value
and what would be accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.history.settings import HistorySettings
from deniable.checks import whole
from deniable.errors import ParameterError
from deniable.local.services import Address, Aggregator, LocalProxy
from deniable.local.setting_checks import (
    check_keys,
    checked_name,
    checked_path,
    checked_table,
    checked_text,
)
from deniable.proxy.enrolment import EnrolmentRules
from deniable.proxy.intake.uploads import IntakeRules
from deniable.queries.files import query_of_tree, read_query
from deniable.queries.query import Query
from deniable.queries.schedule import duration
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey, PublicKey
from deniable.service.files.settings import settings_of
from deniable.service.http.cross_origin import BrowserRules
from deniable.toml_file import TomlFile

__all__ = ["MODES", "Data", "ServicesPlan", "UpSettings", "read_settings"]

MODES = ("simulation", "services")
_ADDRESS = ("host", "port", "url", "certificate", "key", "password_file")

_PROXY_TABLES = {"intake": IntakeRules, "enrolment": EnrolmentRules, "browser": BrowserRules}
"""Tables of a proxy's settings that may be given here too."""


@dataclass(frozen=True)
class Data:
    """The data of a simulation: a folder of vaults, or one table with a column that says whose row
    it is."""

    vaults: Path | None = None
    table: Path | None = None
    name: str = ""
    """The table's name in the query's SQL."""
    owner: str = ""
    stratum: str = ""
    """The column that says to which of the query's strata its owner belongs."""


@dataclass(frozen=True)
class ServicesPlan:
    """The services of a system, and which of them this machine runs."""

    folder: Path
    ring: KeyRing
    """The keys of the analysts whose queries are taken; empty in a simulation, which has keys of
    its own."""
    analyst_key: Path | None
    """The analyst's key, if the aggregator runs here: the query is signed with it and published."""
    proxies: tuple[LocalProxy, ...]
    aggregator: Aggregator


@dataclass(frozen=True)
class UpSettings:
    """All settings of `deniable up`, for every mode."""

    mode: str
    query: Query
    seconds: int | None
    every: int
    """Seconds of a simulated epoch."""
    devices: int
    data: Data | None
    services: ServicesPlan | None

    @property
    def simulated_window(self) -> int:
        """Seconds of a window in a simulation: as many epochs as the query has in its own."""
        return self.every * (self.query.schedule.window // self.query.schedule.every)


def read_settings(
    path: str | Path, mode: str | None = None, start: Sequence[str] = ()
) -> UpSettings:
    """The settings in a TOML file, with the mode and the services to start as they are named there
    or here.

    Paths are relative to where the file stands.
    """
    path = Path(path)
    return TomlFile.read(path).made(lambda tree: _settings(tree, path.parent, mode, list(start)))


def _settings(tree: dict[str, Any], base: Path, mode: str | None, start: list[str]) -> UpSettings:
    check_keys("", tree, ("mode", "query", "seconds", "data", "simulation", "services"))
    chosen = mode or tree.get("mode", "simulation")
    if chosen not in MODES:
        raise ParameterError("mode", chosen, f"must be one of {', '.join(map(repr, MODES))}")
    simulation = checked_table("simulation", tree.get("simulation", {}))
    check_keys("simulation.", simulation, ("every", "devices"))
    # Every section is checked in every mode, but only the files are read that this mode needs on
    # this host: a simulation is tried before there are keys and certificates, and a host that runs
    # a proxy has no business with data or an analyst's key.
    settings = UpSettings(
        chosen,
        _query(tree.get("query"), base),
        None if "seconds" not in tree else whole("seconds", tree["seconds"], 1, 1 << 31),
        duration("simulation.every", simulation.get("every", 2)),
        whole("simulation.devices", simulation.get("devices", 40), 0, 1000),
        _data(tree["data"], base, chosen == "simulation") if "data" in tree else None,
        (
            _services(tree["services"], base, start, chosen == "services")
            if "services" in tree
            else None
        ),
    )
    if chosen == "simulation":
        if settings.data is None:
            raise ParameterError(
                "data",
                None,
                "is missing: a simulation needs [data] with vaults, or with table and owner",
            )
        if settings.query.strata and not settings.data.stratum:
            rule = (
                "needs data.stratum, the column of the table that says to which of them its owner"
                " belongs"
            )
            raise ParameterError("query.strata", len(settings.query.strata), rule)
        if settings.query.ones > 1:
            raise ParameterError(
                "query.ones", settings.query.ones, "must be 1 in a simulation of your own data"
            )
        if settings.query.once or settings.query.ask == "form":
            name = "once" if settings.query.once else "ask"
            rule = "is for real people: simulated ones answer in every epoch, from data"
            raise ParameterError(f"query.{name}", getattr(settings.query, name), rule)
        return settings
    if settings.services is None:
        raise ParameterError(
            "services",
            None,
            "is missing: mode = 'services' needs [[services.proxies]] and [services.aggregator]",
        )
    urls = [proxy.address.url for proxy in settings.services.proxies]
    if set(urls) != set(settings.query.proxies):
        rule = f"must be the proxies that the query names, which are {list(settings.query.proxies)}"
        raise ParameterError("services.proxies", urls, rule)
    _check_controller(settings.query, settings.services.aggregator)
    return settings


def _check_controller(query: Query, aggregator: Aggregator) -> None:
    """An aggregator that runs here must have the key that the query's envelope names, or the query
    would never adapt."""
    if query.envelope is None or not aggregator.here:
        return
    name = "services.aggregator.controller"
    if aggregator.controller is None:
        raise ParameterError(
            name,
            None,
            "is missing: the query has an envelope, and only the key that it names may adapt it",
        )
    found = AnalystKey.load(aggregator.controller).public.raw.hex()
    if found != query.envelope.controller:
        rule = (
            f"must be the key that the query's envelope names, {query.envelope.controller[:16]}…;"
            f" it is {found[:16]}…"
        )
        raise ParameterError(name, str(aggregator.controller), rule)


def _query(given: Any, base: Path) -> Query:
    if isinstance(given, str) and given:
        return read_query(base / given)
    if isinstance(given, dict):
        try:
            return query_of_tree(given)
        except ParameterError as error:
            raise error.named(f"query.{error.name}") from None
    raise ParameterError(
        "query",
        given,
        "must be the path of a query's TOML file, or a table [query] with the same keys",
    )


def _data(given: Any, base: Path, needed: bool) -> Data:
    table = checked_table("data", given)
    check_keys("data.", table, ("vaults", "table", "name", "owner", "stratum"))
    if ("vaults" in table) == ("table" in table):
        raise ParameterError(
            "data",
            sorted(table),
            "must have either vaults, a folder, or table, a file with an owner column",
        )
    if "vaults" in table:
        check_keys("data.", table, ("vaults",))
        folder = checked_path("data.vaults", table["vaults"], base)
        if needed and not folder.is_dir():
            raise ParameterError("data.vaults", str(table["vaults"]), "must be a folder of vaults")
        return Data(vaults=folder)
    file = checked_path("data.table", table["table"], base)
    if needed and not file.is_file():
        raise ParameterError(
            "data.table",
            str(table["table"]),
            "must be a file: .csv, .parquet, or an SQLite database",
        )
    owner = checked_text("data.owner", table.get("owner"))
    stratum = checked_text("data.stratum", table["stratum"]) if "stratum" in table else ""
    return Data(
        table=file,
        name=checked_text("data.name", table.get("name", file.stem)),
        owner=owner,
        stratum=stratum,
    )


def _services(given: Any, base: Path, chosen: list[str], needed: bool) -> ServicesPlan:
    table = checked_table("services", given)
    check_keys(
        "services.",
        table,
        ("folder", "ring", "keys", "analyst_key", "start", "proxies", "aggregator"),
    )
    listed = table.get("proxies")
    if not isinstance(listed, list) or len(listed) < 2:
        raise ParameterError(
            "services.proxies", listed, "must be at least two tables, [[services.proxies]]"
        )
    aggregator = checked_table("services.aggregator", table.get("aggregator", {}))
    check_keys("services.aggregator.", aggregator, (*_ADDRESS, "limits", "history", "controller"))
    places = [
        (f"services.proxies[{i}].", checked_table(f"services.proxies[{i}]", each))
        for i, each in enumerate(listed)
    ]
    names = [checked_name(f"{place}name", each.get("name")) for place, each in places]
    if len(set(names)) < len(names):
        raise ParameterError("services.proxies", names, "must have different names")
    start = chosen or table.get("start", [*names, "aggregator"])
    if not isinstance(start, list) or not start or not set(start) <= {*names, "aggregator"}:
        raise ParameterError(
            "services.start",
            start,
            f"must be a list of some of {', '.join([*names, 'aggregator'])}",
        )
    proxies = []
    for name, (place, each) in zip(names, places, strict=True):
        check_keys(place, each, ("name", "token_file", *_PROXY_TABLES, *_ADDRESS))
        here = name in start
        token_file = (
            checked_path(f"{place}token_file", each["token_file"], base)
            if "token_file" in each
            else None
        )
        if not here and token_file is None and "aggregator" in start:
            rule = (
                "is missing: the aggregator needs the operator's token of a proxy that runs"
                " elsewhere"
            )
            raise ParameterError(f"{place}token_file", None, rule)
        tables = {
            key: _checked(f"{place}{key}", each.get(key, {}), kind, base)
            for key, kind in _PROXY_TABLES.items()
        }
        proxies.append(
            LocalProxy(name, _address(place, each, base), here, token_file=token_file, **tables)
        )
    return ServicesPlan(
        checked_path("services.folder", table.get("folder", "services"), base),
        _ring(table, base, needed),
        _analyst_key(table, base, needed and "aggregator" in start),
        tuple(proxies),
        Aggregator(
            _address("services.aggregator.", {"port": 8700, **aggregator}, base),
            "aggregator" in start,
            _checked(
                "services.aggregator.limits", aggregator.get("limits", {}), EngineLimits, base
            ),
            _history(aggregator.get("history", {}), base),
            (
                checked_path("services.aggregator.controller", aggregator["controller"], base)
                if "controller" in aggregator
                else None
            ),
        ),
    )


def _history(given: Any, base: Path) -> dict[str, Any] | None:
    """The settings of the history, which is kept unless it is switched off."""
    name = "services.aggregator.history"
    return (
        None
        if given is False
        else _checked(
            name, {"folder": "history", **checked_table(name, given)}, HistorySettings, base
        )
    )


def _checked(name: str, given: Any, kind: type[Any], base: Path) -> dict[str, Any]:
    """A table that goes into a service's own settings, if that service would take it."""
    table = checked_table(name, given)
    try:
        settings_of(table, kind, base)
    except ParameterError as error:
        raise error.named(f"{name}.{error.name}") from None
    return table


def _analyst_key(table: Mapping[str, Any], base: Path, needed: bool) -> Path | None:
    path = (
        checked_path("services.analyst_key", table["analyst_key"], base)
        if "analyst_key" in table
        else None
    )
    if path is None or not needed:
        return None
    if not path.is_file():
        rule = (
            "must be the file of a key, where the aggregator runs; without it, publish with"
            " deniable query publish"
        )
        raise ParameterError("services.analyst_key", table["analyst_key"], rule)
    return path


def _ring(table: Mapping[str, Any], base: Path, needed: bool) -> KeyRing:
    if "ring" in table and "keys" not in table:
        path = checked_path("services.ring", table["ring"], base)
        return KeyRing.load(path) if needed else KeyRing()
    keys = table.get("keys")
    if "ring" in table or not isinstance(keys, list) or not keys:
        raise ParameterError(
            "services.keys",
            keys,
            "must be a list of public key files; or give ring, the file of a key ring",
        )
    paths = [checked_path(f"services.keys[{i}]", each, base) for i, each in enumerate(keys)]
    ring = KeyRing()
    for path in paths if needed else ():
        ring = ring.add(PublicKey.load(path))
    return ring


def _address(place: str, table: Mapping[str, Any], base: Path) -> Address:
    if ("certificate" in table) != ("key" in table):
        missing = "key" if "certificate" in table else "certificate"
        raise ParameterError(
            f"{place}{missing}",
            None,
            "is missing: TLS needs a certificate and its key, both PEM files",
        )
    certificate, key, password = (
        checked_path(f"{place}{name}", table[name], base) if name in table else None
        for name in ("certificate", "key", "password_file")
    )
    url = table.get("url", "")
    if url and (not isinstance(url, str) or not url.startswith(("http://", "https://"))):
        raise ParameterError(f"{place}url", url, "must start with http:// or https://")
    port = whole(f"{place}port", table.get("port"), 1, 65535)
    return Address(
        checked_text(f"{place}host", table.get("host", "127.0.0.1")),
        port,
        certificate,
        key,
        url,
        password,
    )
