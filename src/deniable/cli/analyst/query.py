"""`deniable query`: write a query, check it, sign it, publish it, stop it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from deniable.cli.analyst.connecting import aggregator_options, connect
from deniable.cli.analyst.query_file import load_query
from deniable.cli.analyst.query_permit import permit_command, read_permission
from deniable.cli.analyst.query_plan import (
    budget_words,
    check_budgets,
    cost_options,
    costs_of,
    plan_command,
)
from deniable.cli.analyst.query_template import SELF_TEST, TEMPLATE
from deniable.cli.analyst.signing_key import signing_key
from deniable.cli.helping import group
from deniable.cli.output import emit, output_options, write_new
from deniable.cli.tables import TextTable
from deniable.errors import KeyFileError, QueryError, QueryFileError
from deniable.privacy.release_accountant import StatedLoss
from deniable.queries.files import parse_query
from deniable.queries.lasting import lifetime_epsilon
from deniable.queries.query import Query
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign, verify
from deniable.queries.summary import summary
from deniable.queries.times import iso_time
from deniable.sql.checking import check_sql

__all__ = ["query"]


@group()
def query() -> None:
    """Write a query, check it, sign it, publish it, stop it."""


@query.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--id", "query_id", default="trip-distance", show_default=True, help="The query's id."
)
@click.option("--analyst", default="City of Exampleton", show_default=True, help="Who asks.")
@click.option(
    "--self-test",
    is_flag=True,
    help="Ask for a constant, so that windows show whether every client answers correctly.",
)
@output_options
def new(file: Path, query_id: str, analyst: str, self_test: bool) -> None:
    """Write a commented template to FILE: a query that can be signed as it is."""
    day = 86400
    today = int(time.time()) // day * day
    times = [
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
        for moment in (today, today + 365 * day)
    ]
    if '"' in analyst or "\\" in analyst:
        raise QueryFileError(
            "analyst", analyst, "must not contain quotation marks or backslashes here", file.name
        )
    content = TEMPLATE.format(
        file=file.name, id=query_id, analyst=analyst, origin=times[0], expires=times[1]
    )
    for usual, tested in SELF_TEST.items() if self_test else ():
        content = content.replace(usual, tested)
    parse_query(content, file.name)  # what is written can be read
    write_new(file, content, QueryError)
    emit(
        {"file": str(file), "id": query_id},
        f"Wrote {file}: edit it, then run  deniable query check {file}",
    )


@query.command()
@click.argument("file", type=click.Path(path_type=Path))
@cost_options
@output_options
def check(file: Path, **given: Any) -> None:
    """Say in plain words what the query in FILE asks, what it costs a person, and who sees what.

    If its parameters cannot meet its budgets, the command fails and names the nearest budgets that
    can be met. It also fails if every device would refuse the SQL, which is compiled in a confined
    process and not run.
    """
    found = load_query(file)[0]
    _check_sql(found, file.name)
    costs = costs_of(found, given)
    check_budgets(found, costs)
    lines = budget_words(found, costs)
    shown = [summary(found), *(["", "Budgets", *(f"  {line}" for line in lines)] if lines else [])]
    emit(
        {
            "id": found.id,
            "serial": found.serial,
            "summary": summary(found).splitlines(),
            "budgets": lines,
        },
        shown,
    )


def _check_sql(found: Query, file: str) -> None:
    """Refuse SQL that no device would run, or whose columns are not those of the buckets."""
    if found.ask != "sql":
        return
    verdict, shown = (
        check_sql(found.sql),
        (found.sql if len(found.sql) <= 80 else f"{found.sql[:79]}…"),
    )
    if verdict.problem:
        raise QueryFileError(
            "sql", shown, f"would be refused by every device: {verdict.problem}", file
        )
    if verdict.n_columns is not None and verdict.n_columns != len(found.columns):
        rule = (
            f"must return {len(found.columns)} columns, one for each of `columns`; it returns"
            f" {verdict.n_columns}"
        )
        raise QueryFileError("sql", shown, rule, file)


query.add_command(plan_command)
query.add_command(permit_command)


@query.command(name="sign")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--key",
    type=click.Path(path_type=Path),
    required=True,
    help="The analyst's key, from keygen or as PKCS#8 PEM.",
)
@click.option(
    "--output",
    "out",
    type=click.Path(path_type=Path),
    help="Where to write [default: FILE.signed.json].",
)
@click.option(
    "--permission",
    type=click.Path(path_type=Path),
    help="The permission of the channel's owner, if it is not yours.",
)
@output_options
def sign_command(file: Path, key: Path, out: Path | None, permission: Path | None) -> None:
    """Sign the query in FILE, so that devices can trust it. A channel that it names belongs to your
    key."""
    found, signed_before = load_query(file)
    if signed_before is not None:
        raise QueryError(f"{file} is already signed: sign the TOML file it was made from")
    given = None if permission is None else read_permission(permission)
    signed = sign(found, signing_key(key, found.analyst), given)
    target = out or file.with_suffix(".signed.json")
    write_new(target, signed.to_bytes().decode(), QueryError)
    said = f"Wrote {target}: {found.id}, version {found.serial}, signed with key {signed.key_id}"
    emit({"file": str(target), "id": found.id, "serial": found.serial, "key": signed.key_id}, said)


@query.command()
@click.argument("file", type=click.Path(path_type=Path))
@aggregator_options
@output_options
def publish(file: Path, url: str, token_file: Path | None) -> None:
    """Publish the signed query in FILE, or its next version, to an aggregator, which passes it on
    to the proxies."""
    found, signed = load_query(file)
    if signed is None:
        raise QueryError(
            f"{file} is not signed: sign it first, with  deniable query sign {file} --key KEY"
        )
    with connect(url, token_file) as analyst:
        answer = analyst.publish(signed)
    shown = [
        f"Published {found.id}, version {found.serial}. The first window closes at"
        f" {iso_time(_first_end(found))}."
    ]
    shown += [
        f"  {proxy}: {'has it' if state == 'done' else state}"
        for proxy, state in answer["relayed"].items()
    ]
    emit(answer, shown)


def _first_end(found: Query) -> int:
    """When the first window that begins from now on ends."""
    schedule = found.schedule
    epoch = min(schedule.epochs_begun(int(time.time())), schedule.n_epochs - 1)
    later = [schedule.bounds_of_window(index)[1] for index in schedule.windows_of_epoch(epoch)]
    return max(later, default=schedule.expires)


@query.command()
@click.argument("query_id")
@aggregator_options
@output_options
def stop(query_id: str, url: str, token_file: Path | None) -> None:
    """Stop the query QUERY_ID for good: devices are no longer asked; answers of the current epoch
    are still counted."""
    with connect(url, token_file) as analyst:
        analyst.stop(query_id)
    emit(
        {"stopped": query_id},
        f"Stopped {query_id}. Answers of the current epoch are still counted.",
    )


@query.command("list")
@aggregator_options
@output_options
def list_queries(url: str, token_file: Path | None) -> None:
    """List an aggregator's queries: their versions, whether they are running, and which proxies
    have them."""
    with connect(url, token_file) as analyst:
        found = analyst.queries()
    header = ["id", "version", "analyst", "state"]
    rows = [[each["id"], each["serial"], each["analyst"], _state(each)] for each in found]
    table = TextTable(header, [[str(cell) for cell in row] for row in rows])
    emit(found, table if rows else "No query has been published.", (header, rows))


@query.command()
@click.argument("query_id")
@aggregator_options
@output_options
def versions(query_id: str, url: str, token_file: Path | None) -> None:
    """Show how the query QUERY_ID has changed: when, to which parameters, at what cost to a person,
    and why."""
    with connect(url, token_file) as analyst:
        found = analyst.versions(query_id)
    rows = [_version_row(each) for each in found]
    losses = ["epsilon_local", "epsilon_sampled", "delta_sampled", "sampled_crowd"]
    names = ["version", "from", "parameters", *losses, "achieved", "why"]
    shown = []
    for serial, since, parameters, local, *stated, achieved, why in rows:
        error = "" if achieved is None else f" (previous window: ± {100 * achieved:.2f} points)"
        sampled = "" if None in stated else f", sampled {StatedLoss(*stated)}"
        shown += [
            f"version {serial}, from {since}: {parameters}; epsilon {local:.4g} local{sampled}",
            f"  {why}{error}",
        ]
    emit(found, shown, (names, rows))


def _version_row(entry: dict[str, Any]) -> list[Any]:
    given = {
        name: value
        for name, value in entry["parameters"].items()
        if value is not None and name != "strata"
    }
    words = ", ".join(
        f"{'s' if name == 'sampling' else name} = {value:g}"
        for name, value in given.items()
        if value is not True
    )
    strata = "".join(
        f", {name} {value:g}" for name, value in entry["parameters"].get("strata", {}).items()
    )
    words += strata + (", inverted" if given.get("inverted") else "")
    epsilon = entry["epsilon"]
    # An aggregator of an earlier release states no delta and no crowd: then its figure is not
    # stated either.
    known = epsilon.get("sampled_crowd") is not None
    sampled = [
        epsilon[name] if known else None for name in ("sampled", "sampled_delta", "sampled_crowd")
    ]
    return [
        entry["serial"],
        entry["from"],
        words,
        epsilon["local"],
        *sampled,
        entry["achieved"],
        entry["reason"],
    ]


def _state(entry: dict[str, Any]) -> str:
    if entry.get("stopped") is not None:
        return f"stopped at {iso_time(entry['stopped'])}"
    waiting = [proxy for proxy, state in entry["relayed"].items() if state != "done"]
    return f"running; not yet at {', '.join(waiting)}" if waiting else "running"


@query.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--ring", type=click.Path(path_type=Path), help="A key ring to verify the signature with."
)
@output_options
def show(file: Path, ring: Path | None) -> None:
    """Show the query in FILE with its digest and signature."""
    found, signed = load_query(file)
    if ring is not None and signed is None:
        raise QueryError(f"{file} is not signed, so there is nothing for a key ring to check")
    if ring is not None and signed is not None:
        verify(signed, KeyRing.load(ring), int(time.time()))
    status = None if signed is None else ("verified" if ring else "not verified: give --ring")
    facts = {
        "digest": found.digest.hex(),
        "query_tag": f"{found.tag:016x}",
        "channel_tag": (
            f"{found.channel_tag:016x}"
            if found.channel is None or found.channel_owner or signed
            else None
        ),
        "epsilon": found.epsilon,
        "epsilon_local": found.epsilon_local,
        **found.sampled_loss.sampled_fields(),
        "epsilon_life": lifetime_epsilon(found),
        "key": signed.key_id if signed else None,
        "signature": status,
    }
    rows = [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in found.to_dict().items()
        if name not in ("format", "id", "serial", "analyst") and value not in (None, "", [])
    ]
    rows += [(name, str(fact)) for name, fact in facts.items() if fact is not None]
    head = f"{found.id}, version {found.serial}, asked by {found.analyst}"
    emit(
        {"query": found.to_dict(), **facts},
        [head, TextTable(("", ""), rows, [False, False], indent=2)],
    )


@query.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--owner", required=True, help="Whose key it is: the analyst that queries name.")
@output_options
def keygen(file: Path, owner: str) -> None:
    """Make an analyst's key: FILE, which only you may read, and FILE.pub, which devices put on
    their ring."""
    public = file.with_name(f"{file.name}.pub")
    if public.exists():
        raise KeyFileError(f"{public} exists already and is not overwritten")
    key = AnalystKey.generate(owner)
    key.save(file)
    key.public.save(public)
    said = f"Wrote {file} (keep it secret) and {public}: key {key.public.id} of {owner}"
    emit({"file": str(file), "public": str(public), "key": key.public.id, "owner": owner}, said)
