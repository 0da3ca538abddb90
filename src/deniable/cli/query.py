"""`deniable query`: write a query, check it, sign it, publish it, stop it."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import click

from deniable.cli.connecting import aggregator_options, connect
from deniable.cli.output import as_csv, as_json, output_options, say, write_new
from deniable.cli.query_permit import permit_command, read_permission
from deniable.cli.query_plan import budget_words, check_budgets, cost_options, costs_of, plan_command
from deniable.cli.signing_key import signing_key
from deniable.errors import KeyFileError, ParameterError, QueryError, QueryFileError
from deniable.privacy.release_accountant import StatedLoss
from deniable.queries.files import parse_query, read_query
from deniable.queries.keys import AnalystKey, KeyRing
from deniable.queries.lasting import lifetime_epsilon
from deniable.queries.query import Query
from deniable.queries.signing import SignedQuery, sign, verify
from deniable.queries.summary import summary
from deniable.queries.times import iso_time
from deniable.sql.checking import check_sql

__all__ = ["query"]

_TEMPLATE = """\
# A query for deniable. `deniable query check {file}` says in plain words what it asks.

id = "{id}"                 # 1 to 64 of a-z, 0-9, '.', '_' and '-'
serial = 1                  # the version: increase it with every change, and sign again
analyst = "{analyst}"       # who asks; the signing key must be theirs
question = "How long are your trips?"
sql = "SELECT distance FROM trips"
proxies = ["https://proxy-one.example", "https://proxy-two.example"]   # at least two, run by different people

sampling = 0.6              # the probability that a device answers at all
minimum_cohort = 100        # results with fewer answers are not released
rows = "random"             # of several rows: "random" draws one; "aggregate" allows one; "several" sends up to most_rows
# most_rows = 3             # only with rows = "several"; each row costs its own epsilon
# memoize = true            # draw a permanent answer once for each true answer, and answer from it
# instantaneous = false     # with memoize: send it as it is; by default every report randomizes its bits once more
# distinct = 3              # for up to this many different true answers; all are paid for with the first answer
# cover = true              # devices that do not answer send a message of the same length that says so
# size_class = 1            # shares longer than needed, to look like those of other queries
# channel = "trips"         # what proxies see instead of this query: your queries with one channel look alike
# population = 10000        # how many devices there are, if known

[schedule]
origin = {origin}    # when epoch 0 starts
expires = {expires}
every = "10 min"            # how often a device answers
window = "1 h"              # how much a result covers
slide = "10 min"            # how often a result is released

[mechanism]
name = "TwoCoin"            # or a mechanism of the library: "OptimizedUnary", "DirectEncoding", … with its parameters
p = 0.5                     # the probability of telling the truth
q = 0.5                     # otherwise, the probability of saying yes

[budget]
epsilon = 20.0              # the most one person may lose over the query's whole life
# error = 0.02              # the half-width of the 95 % interval you want for each proportion

[[columns]]                 # one for each column of the SQL's result, in order
name = "distance"
buckets = ["[0,1)", "[1,2)", "[2,5)", "[5,10)", "[10,inf)"]   # for texts: "yes", {{ glob = "New *" }}, {{ regex = "[a-c]+" }}
other = false               # true: adds a last bucket for everything else

# [[strata]]                # parts of the population that are sampled and counted separately
# name = "north"
# sampling = 0.8
# population = 4000
"""
_SELF_TEST = {
    "How long are your trips?": "A test of the software that answers: every device has the same answer, 5.5.",
    "SELECT distance FROM trips": "SELECT 5.5",
    'name = "distance"': 'name = "constant"',
    '["[0,1)", "[1,2)", "[2,5)", "[5,10)", "[10,inf)"]': str([f"[{i},{i + 1})" for i in range(13)]).replace("'", '"'),
    "sampling = 0.6 ": "sampling = 1.0 ",
}
"""Replacements that turn the template into a query whose true answer is known. A client that packs bits from the wrong end fills
another bucket."""


@click.group()
def query() -> None:
    """Write a query, check it, sign it, publish it, stop it."""


def load_query(path: Path) -> tuple[Query, SignedQuery | None]:
    """The query in a TOML file, a file of canonical bytes or a signed file, and the signed form if there is one."""
    try:
        with path.open("rb") as file:
            signed = file.read(1) == b"{"
            rest = file.read() if signed else b""
    except OSError as error:
        raise QueryFileError("file", str(path), f"cannot be read: {error.strerror}", path.name) from None
    if not signed:
        try:
            return read_query(path), None
        except QueryFileError as error:
            if error.name != "mechanism" or error.value is not None:
                raise
            rule = f"is missing: write one, or plan it from the budget with  deniable query plan {path}"
            raise QueryFileError("mechanism", None, rule, path.name) from None
    content = b"{" + rest
    if b'"format":"deniable query ' in content:  # canonical bytes contain no spaces; in a signed file they are inside a string
        try:
            return Query.from_content(content.strip()), None
        except ParameterError as error:
            raise QueryFileError(error.name, error.value, error.rule, path.name) from None
    found = SignedQuery.from_bytes(content)
    return found.unverified(), found


@query.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--id", "query_id", default="trip-distance", show_default=True, help="The query's id.")
@click.option("--analyst", default="City of Exampleton", show_default=True, help="Who asks.")
@click.option(
    "--self-test", is_flag=True, help="Ask for a constant, so that windows show whether every client answers correctly."
)
def new(file: Path, query_id: str, analyst: str, self_test: bool) -> None:
    """Write a commented template to FILE: a query that can be signed as it is."""
    day = 86400
    today = int(time.time()) // day * day
    times = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)) for moment in (today, today + 365 * day)]
    if '"' in analyst or "\\" in analyst:
        raise QueryFileError("analyst", analyst, "must not contain quotation marks or backslashes here", file.name)
    content = _TEMPLATE.format(file=file.name, id=query_id, analyst=analyst, origin=times[0], expires=times[1])
    for usual, tested in _SELF_TEST.items() if self_test else ():
        content = content.replace(usual, tested)
    parse_query(content, file.name)  # what is written can be read
    write_new(file, content, QueryError)
    say(f"wrote {file}: edit it, then run  deniable query check {file}")


def write_planned(file: Path, made: Any) -> None:
    """Write the template to a new file, with the parameters and the budgets of a plan."""
    if made.p is None or made.q is None:
        raise QueryError(f"{type(made.mechanism).__name__} is not described by p and q: plan with --mechanism OptimizedUnary")
    request, day = made.request, 86400
    origin = int(time.time()) // day * day
    every = f'"{round(request.every)} s"' if request.every > 1 else '"1 d"'
    seconds = round(request.every) if request.every > 1 else day
    last = origin + max(request.epochs, 1) * seconds
    times = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)) for moment in (origin, last)]
    text = _TEMPLATE.format(file=file.name, id="planned", analyst="City of Exampleton", origin=times[0], expires=times[1])
    budget = [f"epsilon = {made.lifetime_local!r}          # what the plan spends over all epochs", f"error = {made.margin!r}"]
    changes = {
        r"^sampling = .*$": f"sampling = {made.sampling!r}",
        r"^# population = .*$": f"population = {made.population}",
        r"^p = .*$": f"p = {made.p!r}",
        r"^q = .*$": f"q = {made.q!r}",
        r"^epsilon = .*$": budget[0],
        r"^# error = .*$": budget[1],
        r"^every = .*$": f"every = {every}",
        r"^window = .*$": f"window = {every}",
        r"^slide = .*$": f"slide = {every}",
        r"^minimum_cohort = .*$": f"minimum_cohort = {max(1, min(100, int(made.reports / 2)))}",
    }
    for pattern, line in changes.items():
        text = re.sub(pattern, line, text, count=1, flags=re.MULTILINE)
    parse_query(text, file.name)
    write_new(file, text, QueryError)
    say(f"wrote {file}: edit its SQL and buckets, then run  deniable query check {file}", err=True)


@query.command()
@click.argument("file", type=click.Path(path_type=Path))
@cost_options
def check(file: Path, **given: Any) -> None:
    """Say in plain words what the query in FILE asks, what it costs a person, and who sees what.

    If its parameters cannot meet its budgets, the command fails and names the nearest budgets that can be met. It also fails if
    every device would refuse the SQL, which is compiled in a confined process and not run.
    """
    found = load_query(file)[0]
    _check_sql(found, file.name)
    costs = costs_of(found, given)
    check_budgets(found, costs)
    say(summary(found))
    lines = budget_words(found, costs)
    if lines:
        say("\n".join(["", "Budgets", *(f"  {line}" for line in lines)]))


def _check_sql(found: Query, file: str) -> None:
    """Refuse SQL that no device would run, or whose columns are not those of the buckets."""
    verdict, shown = check_sql(found.sql), found.sql if len(found.sql) <= 80 else f"{found.sql[:79]}…"
    if verdict.problem:
        raise QueryFileError("sql", shown, f"would be refused by every device: {verdict.problem}", file)
    if verdict.n_columns is not None and verdict.n_columns != len(found.columns):
        rule = f"must return {len(found.columns)} columns, one for each of `columns`; it returns {verdict.n_columns}"
        raise QueryFileError("sql", shown, rule, file)


query.add_command(plan_command)
query.add_command(permit_command)


@query.command(name="sign")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--key", type=click.Path(path_type=Path), required=True, help="The analyst's key, from keygen or as PKCS#8 PEM.")
@click.option("--out", type=click.Path(path_type=Path), help="Where to write [default: FILE.signed.json].")
@click.option("--permission", type=click.Path(path_type=Path), help="The permission of the channel's owner, if it is not yours.")
def sign_command(file: Path, key: Path, out: Path | None, permission: Path | None) -> None:
    """Sign the query in FILE, so that devices can trust it. A channel that it names belongs to your key."""
    found, signed_before = load_query(file)
    if signed_before is not None:
        raise QueryError(f"{file} is already signed: sign the TOML file it was made from")
    given = None if permission is None else read_permission(permission)
    signed = sign(found, signing_key(key, found.analyst), given)
    target = out or file.with_suffix(".signed.json")
    write_new(target, signed.to_bytes().decode(), QueryError)
    say(f"wrote {target}: {found.id}, version {found.serial}, signed with key {signed.key_id}")


@query.command()
@click.argument("file", type=click.Path(path_type=Path))
@aggregator_options
@click.option("--json", "wants_json", is_flag=True, help="Print the aggregator's record of the query, as JSON.")
def publish(file: Path, url: str, token_file: Path | None, wants_json: bool) -> None:
    """Publish the signed query in FILE, or its next version, to an aggregator, which passes it on to the proxies."""
    found, signed = load_query(file)
    if signed is None:
        raise QueryError(f"{file} is not signed: sign it first, with  deniable query sign {file} --key KEY")
    with connect(url, token_file) as analyst:
        answer = analyst.publish(signed)
    if wants_json:
        say(as_json(answer))
        return
    say(f"Published {found.id}, version {found.serial}. The first window closes at {iso_time(_first_end(found))}.")
    for proxy, state in answer["relayed"].items():
        say(f"  {proxy}: {'has it' if state == 'done' else state}")


def _first_end(found: Query) -> int:
    """When the first window that begins from now on ends."""
    schedule = found.schedule
    epoch = min(schedule.epochs_begun(int(time.time())), schedule.n_epochs - 1)
    later = [schedule.bounds_of_window(index)[1] for index in schedule.windows_of_epoch(epoch)]
    return max(later, default=schedule.expires)


@query.command()
@click.argument("query_id")
@aggregator_options
def stop(query_id: str, url: str, token_file: Path | None) -> None:
    """Stop the query QUERY_ID for good: devices are no longer asked; answers of the current epoch are still counted."""
    with connect(url, token_file) as analyst:
        analyst.stop(query_id)
    say(f"Stopped {query_id}. Answers of the current epoch are still counted.")


@query.command("list")
@aggregator_options
@output_options
def list_queries(url: str, token_file: Path | None, as_json_: bool, as_csv_: bool) -> None:
    """List an aggregator's queries: their versions, whether they are running, and which proxies have them."""
    with connect(url, token_file) as analyst:
        found = analyst.queries()
    if as_json_:
        say(as_json(found))
        return
    rows = [[each["id"], each["serial"], each["analyst"], _state(each)] for each in found]
    if as_csv_:
        say(as_csv(["id", "version", "analyst", "state"], rows))
        return
    for query_id, serial, analyst_name, state in rows:
        say(f"{query_id}  version {serial}  {analyst_name}  {state}")
    if not rows:
        say("No query has been published.")


@query.command()
@click.argument("query_id")
@aggregator_options
@output_options
def versions(query_id: str, url: str, token_file: Path | None, as_json_: bool, as_csv_: bool) -> None:
    """Show how the query QUERY_ID has changed: when, to which parameters, at what cost to a person, and why."""
    with connect(url, token_file) as analyst:
        found = analyst.versions(query_id)
    if as_json_:
        say(as_json(found))
        return
    rows = [_version_row(each) for each in found]
    losses = ["epsilon_local", "epsilon_sampled", "delta_sampled", "sampled_crowd"]
    names = ["version", "from", "parameters", *losses, "achieved", "why"]
    if as_csv_:
        say(as_csv(names, rows))
        return
    for serial, since, parameters, local, *stated, achieved, why in rows:
        error = "" if achieved is None else f" (previous window: ± {100 * achieved:.2f} points)"
        sampled = "" if None in stated else f", sampled {StatedLoss(*stated)}"
        say(f"version {serial}, from {since}: {parameters}; epsilon {local:.4g} local{sampled}\n  {why}{error}")


def _version_row(entry: dict[str, Any]) -> list[Any]:
    given = {name: value for name, value in entry["parameters"].items() if value is not None and name != "strata"}
    words = ", ".join(f"{'s' if name == 'sampling' else name} = {value:g}" for name, value in given.items() if value is not True)
    strata = "".join(f", {name} {value:g}" for name, value in entry["parameters"].get("strata", {}).items())
    words += strata + (", inverted" if given.get("inverted") else "")
    epsilon = entry["epsilon"]
    # An aggregator of an earlier release states no delta and no crowd: then its figure is not stated either.
    known = epsilon.get("sampled_crowd") is not None
    sampled = [epsilon[name] if known else None for name in ("sampled", "sampled_delta", "sampled_crowd")]
    return [entry["serial"], entry["from"], words, epsilon["local"], *sampled, entry["achieved"], entry["reason"]]


def _state(entry: dict[str, Any]) -> str:
    if entry.get("stopped") is not None:
        return f"stopped at {iso_time(entry['stopped'])}"
    waiting = [proxy for proxy, state in entry["relayed"].items() if state != "done"]
    return f"running; not yet at {', '.join(waiting)}" if waiting else "running"


@query.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "wants_json", is_flag=True, help="Print every field, as JSON.")
@click.option("--ring", type=click.Path(path_type=Path), help="A key ring to verify the signature with.")
def show(file: Path, wants_json: bool, ring: Path | None) -> None:
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
        "channel_tag": f"{found.channel_tag:016x}" if found.channel is None or found.channel_owner or signed else None,
        "epsilon": found.epsilon,
        "epsilon_local": found.epsilon_local,
        **found.sampled_loss.sampled_fields(),
        "epsilon_life": lifetime_epsilon(found),
        "key": signed.key_id if signed else None,
        "signature": status,
    }
    if wants_json:
        say(as_json({"query": found.to_dict(), **facts}))
        return
    say(f"{found.id}, version {found.serial}, asked by {found.analyst}")
    for name, value in found.to_dict().items():
        if name not in ("format", "id", "serial", "analyst") and value not in (None, "", []):
            say(f"  {name:<15} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
    for name, fact in facts.items():
        if fact is not None:
            say(f"  {name:<15} {fact}")


@query.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--owner", required=True, help="Whose key it is: the analyst that queries name.")
def keygen(file: Path, owner: str) -> None:
    """Make an analyst's key: FILE, which only you may read, and FILE.pub, which devices put on their ring."""
    public = file.with_name(f"{file.name}.pub")
    if public.exists():
        raise KeyFileError(f"{public} exists already and is not overwritten")
    key = AnalystKey.generate(owner)
    key.save(file)
    key.public.save(public)
    say(f"wrote {file} (keep it secret) and {public}: key {key.public.id} of {owner}")
