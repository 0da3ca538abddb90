"""`deniable client`: the owner's side of answering. What was asked, what was sent, what is left."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from deniable.cli.opening import open_page
from deniable.cli.output import as_csv, as_json, output_options, progress_bar, say
from deniable.client.cadence import Cadence, rounds
from deniable.client.conformance import compare, read_vectors
from deniable.client.device import Device
from deniable.client.feed_check import Asked, FeedFinding, check_feed, feed_client
from deniable.client.policy import Policy, read_policy
from deniable.client.receipts import Receipt
from deniable.client.store import Store, StoreTransaction
from deniable.client.upload import HttpTransport, Uploaded
from deniable.client.vault import Vault
from deniable.errors import MissingExtraError, PolicyError, QueryError, UploadError
from deniable.privacy.ledger import Accountant
from deniable.queries.lasting import Silence, silence
from deniable.queries.query import Query
from deniable.queries.signing import SignedQuery
from deniable.queries.times import iso_time
from deniable.toml_file import TomlFile

__all__ = ["client"]

_TEMPLATE = """\
# What you allow. Anything not named here is refused. `deniable client policy VAULT` says it in plain words.

ring = "ring.json"              # the file of the keys you trust
# analysts = ["City of Exampleton"]   # who may ask; without this line, everyone with a key on the ring
epsilon_per_answer = 3.0        # the most that one answer may cost
# strata = ["north"]            # the parts of populations you belong to
queue_messages = 1000           # how many answers are queued when there is no network
queue_age = "14 d"              # and for how long
upload_within = "10 min"        # answers leave at a random time within this span after the end of their slot
clock_tolerance = "5 min"       # how far your clock may be from the proxies' clocks
deadline = 1.0                  # seconds an analyst's SQL may run on your data

[[limits]]                      # the most that all answers together may cost
epsilon = 10
period = "30 d"                 # in any 30 days; without this line, for life
each_analyst = true             # for each analyst; without this line, for all together

[[limits]]
epsilon = 30
period = "30 d"

# [[proxies]]                   # at least two: where shares may go, and the token you were given
# address = "https://proxy-one.example"
# token = "..."
"""

_SHOWN = 20  # differences of a port
_VAULT = click.argument("vault", type=click.Path(path_type=Path))


def _policy_option(command: Callable[..., Any]) -> Callable[..., Any]:
    text = "Your settings [default: VAULT.policy.toml]."
    return click.option("--policy", "policy_file", type=click.Path(path_type=Path), help=text)(command)


def _policy(vault: Path, given: Path | None) -> Policy:
    return read_policy(given or vault.with_name(vault.name + ".policy.toml"))


def _device(vault: Path, policy_file: Path | None) -> Device:
    return Device(Vault.open(vault), _policy(vault, policy_file))


def _store(vault: Path) -> Store:
    return Store.beside(Vault.open(vault).path)


@click.group()
def client() -> None:
    """Answer queries about your vault, and see what was asked, answered and refused.

    What a device remembers (its ledger, its receipts, the shares on their way) is in a file beside the vault, VAULT.client.
    """


@client.command()
@_VAULT
@_policy_option
@click.option("--new", is_flag=True, help="Write a commented file of cautious settings, to be filled in.")
def policy(vault: Path, policy_file: Path | None, new: bool) -> None:
    """Say in plain words what your settings allow."""
    if not new:
        say(str(_policy(vault, policy_file)))
        return
    path = policy_file or vault.with_name(vault.name + ".policy.toml")
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise PolicyError("file", str(path), f"cannot be written: {error.strerror}", path.name) from None
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(_TEMPLATE)
    say(f"wrote {path}: name the ring of keys and the proxies, then run  deniable client policy {vault}")


@client.command()
@_VAULT
@_policy_option
@click.argument("queries", nargs=-1, required=True, type=click.Path(path_type=Path))
def answer(vault: Path, policy_file: Path | None, queries: tuple[Path, ...]) -> None:
    """Answer the signed QUERIES for the current epoch, if your settings allow them. Answers wait for `upload`."""
    device = _device(vault, policy_file)
    contents = []
    for path in queries:
        try:
            contents.append(path.read_bytes())
        except OSError as error:
            raise QueryError(f"{path} cannot be read: {error.strerror}") from None
    _say(device.answer_all(contents))


@client.command()
@_VAULT
@_policy_option
def upload(vault: Path, policy_file: Path | None) -> None:
    """Upload the shares that are due to their proxies."""
    device = _device(vault, policy_file)
    with HttpTransport() as transport:
        _say_uploaded(device.upload(transport))


@client.command()
@_VAULT
@_policy_option
def once(vault: Path, policy_file: Path | None) -> None:
    """Ask the proxies for queries, upload what is due, and answer the queries. Answers are sent by a later `once` or `upload`."""
    device = _device(vault, policy_file)
    with HttpTransport() as transport:
        found = device.fetch(transport)
        uploaded = device.upload(transport)
    _say(device.answer_all(found))  # the connections are closed by now: the moment they close would show how long the SQL took
    if not device.policy.upload_within:
        with HttpTransport() as transport:
            uploaded = device.upload(transport)
    _say_uploaded(uploaded)


@client.command()
@_VAULT
@_policy_option
@click.option("--every", default=60, show_default=True, type=click.IntRange(1), help="Seconds per round.")
@click.option("--rounds", "n", type=click.IntRange(1), help="How many rounds [default: until stopped].")
def run(vault: Path, policy_file: Path | None, every: int, n: int | None) -> None:
    """Fetch, answer and upload in rounds, at times drawn in advance. It can be stopped or killed at any moment."""
    device = _device(vault, policy_file)
    cadence = Cadence(every, device.policy.slot)
    with HttpTransport() as transport:
        lived = rounds(device, transport, cadence, clock=time.monotonic, sleep=time.sleep)
        for receipts, uploaded in itertools.islice(lived, n):
            _follow_ring(device, vault, policy_file)
            _say([receipt for receipt in receipts if receipt.outcome not in ("again", "waiting")])
            if uploaded.sent or uploaded.problems:
                _say_uploaded(uploaded)


def _follow_ring(device: Device, vault: Path, policy_file: Path | None) -> None:
    """Trust the keys that the ring holds now: one that its owner has revoked is refused from the next round on."""
    try:
        device.policy = replace(device.policy, ring=_policy(vault, policy_file).ring)
    except (PolicyError, QueryError) as error:  # it is being written, or is damaged: go on with the keys of before
        say(str(error), err=True)


@client.command()
@_VAULT
@_policy_option
@click.option("--last", type=click.IntRange(1), help="Show only this many of the newest receipts.")
@output_options
def log(vault: Path, policy_file: Path | None, last: int | None, as_json_: bool, as_csv_: bool) -> None:
    """Show who asked what, what was answered or refused and why, and how much of your budget is left."""
    limits = _policy(vault, policy_file).limits
    now = int(time.time())
    with _store(vault).transaction() as book:
        receipts = book.receipts(last)
        counters = dict(book.counters())
        accountant = book.accountant(limits, now)
        analysts = sorted({analyst for analyst, _ in book.seen()})
        outlook = _outlook(book, accountant, now)
    rows = [receipt.to_dict() for receipt in receipts]
    budget = [(analyst, accountant.spent(analyst), accountant.left(analyst, now)) for analyst in analysts]
    if as_json_:
        balances = [
            {"analyst": analyst, "spent": float(spent), "left": None if left is None else float(left)}
            for analyst, spent, left in budget
        ]
        quiet = [
            {"analyst": query.analyst, "query": query.id, "answers": found.answers, "silent_from": found.at}
            for query, found in outlook
        ]
        say(as_json({"receipts": rows, "budget": balances, "silent": quiet, "counters": counters}))
    elif as_csv_:
        header = list(Receipt(0, "", "", "", "", "", 0, "").to_dict())
        say(as_csv(header, [list(row.values()) for row in rows]))
    else:
        for receipt in receipts:
            say(str(receipt))
        if not receipts:
            say("Nobody has asked anything yet.")
        for analyst, spent, left in budget:
            rest = "no limit applies" if left is None else f"{float(left):.6g} is left now"
            say(f"{analyst} has cost {float(spent):.6g} in all; {rest}.")
        for query, found in outlook:
            say(f"{query.id}: {found}.")
        for name, n in counters.items():
            if name.startswith("shares dropped"):
                say(f"{name}: {n}")


def _outlook(book: StoreTransaction, accountant: Accountant, now: int) -> list[tuple[Query, Silence]]:
    """The running queries that will use up the remaining budget before they end."""
    found = []
    for content in book.signed_queries():
        query = SignedQuery.from_bytes(content).unverified()
        if now >= query.schedule.expires:
            continue
        left = accountant.left(query.analyst, now)
        limits: list[tuple[float, int | None, str]] = [] if left is None else [(float(left), None, "what is left of your limits")]
        if query.budget.epsilon is not None:
            rest = query.budget.epsilon - float(book.spent_on(query.analyst, query.id))
            limits.append((max(rest, 0.0), None, "what is left of the query's budget"))
        quiet = silence(query, limits, now)
        if quiet is not None:
            found.append((query, quiet))
    return found


@client.command()
@_VAULT
@_policy_option
@click.option(
    "--aggregator",
    "aggregators",
    multiple=True,
    help="Compare with this aggregator's feed as well. It then sees your network address, which it otherwise never does.",
)
@click.option("--json", "as_json_", is_flag=True, help="Print JSON.")
def verify(vault: Path, policy_file: Path | None, aggregators: tuple[str, ...], as_json_: bool) -> None:
    """Compare every query you were ever asked with the public feeds of your proxies. Exit code 1 if something is not there.

    A feed lists, in a chain of hashes, every query and version that was published: to be asked something that is not in it, or
    is in it in other bytes, means that somebody asks you what they do not tell others. Refused queries are compared as well.
    """
    chosen, store = _policy(vault, policy_file), _store(vault)
    with store.transaction() as book:
        asked = [Asked(*row) for row in book.asked()]
    findings = []
    with feed_client() as network:
        for address in (*chosen.proxies, *aggregators):
            carried = [each for each in asked if address not in chosen.proxies or address in each.proxies]
            findings.append(check_feed(store, network, address, carried))
    if as_json_:
        say(as_json([finding.to_dict() for finding in findings]))
    else:
        for finding in findings:
            _say_finding(finding)
    if not all(finding.holds for finding in findings):
        raise SystemExit(1)


def _say_finding(finding: FeedFinding) -> None:
    if finding.problem:
        say(f"{finding.address}: the feed could not be read: {finding.problem}", err=True)
        return
    verdict = "its chain verifies" if not finding.faults else "its chain does not hold"
    say(f"{finding.address}: {finding.head and finding.head.lines} lines, {verdict}. Head: {finding.head}")
    for fault in finding.faults:
        say(f"  {fault}", err=True)
    for each in finding.agreed:
        say(f"  {each}: announced, in the same bytes.")
    for each in finding.different:
        say(f"  {each}: announced, but in other bytes than you were asked.", err=True)
    for each in finding.unannounced:
        say(f"  {each}: this version was never announced, though others were.", err=True)
    for each in finding.missing:
        say(f"  {each}: you were asked, and it is not in the feed.", err=True)
    if not (finding.agreed or finding.different or finding.unannounced or finding.missing):
        say("  You were asked nothing that goes there.")


@client.command()
@_VAULT
@output_options
def status(vault: Path, as_json_: bool, as_csv_: bool) -> None:
    """Show what is waiting to be sent, and how often each event happened. No answers are shown, because none are kept."""
    with _store(vault).transaction() as book:
        counters = dict(book.counters())
        waiting = book.schedule()
    proxies = sorted({proxy for proxy, _, _ in waiting})
    queue = {proxy: [due for other, due, _ in waiting if other == proxy] for proxy in proxies}
    if as_json_:
        shares = [{"proxy": proxy, "shares": len(dues), "next": min(dues)} for proxy, dues in queue.items()]
        say(as_json({"waiting": shares, "counters": counters}))
        return
    if as_csv_:
        rows: list[tuple[str, str, int]] = [("waiting", proxy, len(dues)) for proxy, dues in queue.items()]
        say(as_csv(["kind", "name", "n"], rows + [("counter", name, n) for name, n in counters.items()]))
        return
    for proxy, dues in queue.items():
        say(f"{_counted(len(dues), 'share')} for {proxy}, the next from {iso_time(min(dues))} on")
    if not queue:
        say("Nothing is waiting to be sent.")
    for name, n in counters.items():
        say(f"{name}: {n}")


@client.command()
@_VAULT
@click.argument("proxy")
@click.option("--invitation", help="The code that the proxy's operator gave you.")
@click.option("--ticket", type=click.Path(path_type=Path), help="A file with a ticket and its signature, as JSON.")
@_policy_option
def enrol(vault: Path, proxy: str, invitation: str | None, ticket: Path | None, policy_file: Path | None) -> None:
    """Get a token from the proxy at the address PROXY and add it to your settings, so that shares can go there."""
    path = policy_file or vault.with_name(vault.name + ".policy.toml")
    settings = TomlFile.read(path, PolicyError)
    if any(isinstance(table, dict) and table.get("address") == proxy for table in settings.tree.get("proxies", [])):
        raise PolicyError("proxies", proxy, "is already among your proxies", path.name)
    request = {"invitation": invitation} if invitation else {}
    if ticket is not None:
        try:
            request = json.loads(ticket.read_bytes())
        except (OSError, ValueError) as error:
            raise click.UsageError(f"{ticket} cannot be read as JSON: {getattr(error, 'strerror', None) or error}") from None
    with HttpTransport() as transport:
        try:
            token = transport.enrol(proxy, request)
        except UploadError as error:
            raise UploadError(f"{proxy}: {error.detail}") from None
    with path.open("a", encoding="utf-8") as file:
        file.write(f"\n[[proxies]]\naddress = {json.dumps(proxy)}\ntoken = {json.dumps(token)}\n")
    say(f"{proxy} gave you a token; it is in {path.name}.")


@client.command(context_settings={"ignore_unknown_options": True})
@click.argument("vectors", type=click.Path(path_type=Path))
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--json", "as_json_", is_flag=True, help="Print JSON.")
def conformance(vectors: Path, command: tuple[str, ...], as_json_: bool) -> None:
    """Compare a client in another language with VECTORS (tests/vectors/client-v1.json in the source).

    COMMAND is started once. It reads one JSON object per line and prints one for each (docs/wire.md); put -- before it. The exit
    code is 1 if any step differs.
    """
    found = read_vectors(vectors)
    n_steps = sum(len(case["steps"]) for case in found["cases"])
    wrong = []
    with progress_bar("comparing") as advance:
        for done, difference in compare(found, command):
            if difference is not None:
                wrong.append(difference)
            if advance is not None:
                advance(done / n_steps)
    if as_json_:
        differences = [{"case": each.case, "step": each.step, "fields": list(each.fields)} for each in wrong]
        say(as_json({"steps": n_steps, "different": differences}))
    else:
        for difference in wrong[:_SHOWN]:
            say(difference)
        if len(wrong) > _SHOWN:
            say(f"… and {len(wrong) - _SHOWN:,} more")
        say(f"{n_steps - len(wrong):,} of {n_steps:,} steps agree.")
    if wrong:
        raise SystemExit(1)


@client.command()
@_VAULT
@_policy_option
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port on this machine [default: any free port].")
@click.option("--no-browser", is_flag=True, help="Print the address and open nothing.")
def ui(vault: Path, policy_file: Path | None, port: int, no_browser: bool) -> None:
    """Open a page that shows what was asked, what it cost and what is left, and lets you refuse an analyst. Runs until Ctrl-C.

    It can be reached only from this machine, and only at the printed address.
    """
    path = Vault.open(vault).path
    file = policy_file or vault.with_name(vault.name + ".policy.toml")
    read_policy(file)
    try:
        from deniable.console.person_page import serve_person  # noqa: PLC0415 - needs the extra `service`
    except ImportError as error:
        raise MissingExtraError(str(error.name), "service", "deniable client ui") from None
    serve_person(path, file, port, lambda address: open_page(address, no_browser, "your page"))


def _say(receipts: list[Receipt]) -> None:
    for receipt in receipts:
        say(str(receipt))


def _say_uploaded(uploaded: Uploaded) -> None:
    lost = uploaded.refused + uploaded.expired
    rest = f"{_counted(uploaded.waiting, 'share')} still waiting" + (f", {lost} given up" if lost else "")
    say(f"{_counted(uploaded.sent, 'share')} sent, {rest}.")
    for problem in uploaded.problems:
        say(problem, err=True)


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"
