"""`deniable client log`, `verify` and `status`: what was asked, what it cost, and what waits to be
sent."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from deniable.cli.helping import command
from deniable.cli.output import Rows, emit, output_format, output_options, progress_bar, say
from deniable.cli.person.client_options import (
    VAULT,
    counted,
    open_store,
    policy_option,
    read_vault_policy,
)
from deniable.client.feed_check import Asked, FeedFinding, check_feed, feed_client
from deniable.client.receipts import Receipt
from deniable.client.storage.store import StoreTransaction
from deniable.privacy.ledger import Accountant
from deniable.queries.lasting import Silence, silence
from deniable.queries.query import Query
from deniable.queries.signed.signing import SignedQuery
from deniable.queries.times import iso_time

__all__ = ["log", "status", "verify"]


@command()
@VAULT
@policy_option
@click.option("--last", type=click.IntRange(1), help="Show only this many of the newest receipts.")
@output_options
def log(vault: Path, policy_file: Path | None, last: int | None) -> None:
    """Show who asked what, what was answered or refused and why, and how much of your budget is
    left."""
    limits = read_vault_policy(vault, policy_file).limits
    now = int(time.time())
    with open_store(vault).transaction() as transaction:
        receipts = transaction.journal.receipts(last)
        counters = dict(transaction.journal.counters())
        accountant = transaction.charges.accountant(limits, now)
        analysts = sorted({analyst for analyst, _ in transaction.versions.seen()})
        outlook = _outlook(transaction, accountant, now)
    spent = [
        (analyst, float(accountant.spent(analyst)), accountant.left(analyst, now))
        for analyst in analysts
    ]
    budget = [
        (analyst, cost, None if left is None else float(left)) for analyst, cost, left in spent
    ]
    rows = [receipt.to_dict() for receipt in receipts]
    document = {
        "receipts": rows,
        "budget": [
            {"analyst": analyst, "spent": cost, "left": left} for analyst, cost, left in budget
        ],
        "silent": [
            {
                "analyst": query.analyst,
                "query": query.id,
                "answers": found.answers,
                "silent_from": found.at,
            }
            for query, found in outlook
        ],
        "counters": counters,
    }
    header = list(Receipt(0, "", "", "", "", "", 0, "").to_dict())
    shown = [str(receipt) for receipt in receipts] or ["Nobody has asked anything yet."]
    for analyst, cost, left in budget:
        rest = "no limit applies" if left is None else f"{left:.6g} is left now"
        shown.append(f"{analyst} has cost {cost:.6g} in all; {rest}.")
    shown += [f"{query.id}: {found}." for query, found in outlook]
    shown += [f"{name}: {n}" for name, n in counters.items() if name.startswith("shares dropped")]
    emit(document, shown, (header, [list(row.values()) for row in rows]))


def _outlook(
    transaction: StoreTransaction, accountant: Accountant, now: int
) -> list[tuple[Query, Silence]]:
    """The running queries that will use up the remaining budget before they end."""
    found = []
    for content in transaction.versions.signed_queries():
        query = SignedQuery.from_bytes(content).unverified()
        if now >= query.schedule.expires:
            continue
        left = accountant.left(query.analyst, now)
        limits: list[tuple[float, int | None, str]] = (
            [] if left is None else [(float(left), None, "what is left of your limits")]
        )
        if query.budget.epsilon is not None:
            rest = query.budget.epsilon - float(
                transaction.charges.spent_on(query.analyst, query.id)
            )
            limits.append((max(rest, 0.0), None, "what is left of the query's budget"))
        quiet = silence(query, limits, now)
        if quiet is not None:
            found.append((query, quiet))
    return found


@command()
@VAULT
@policy_option
@click.option(
    "--aggregator",
    "aggregators",
    multiple=True,
    help=(
        "Compare with this aggregator's feed as well. It then sees your network address, which it"
        " otherwise never does."
    ),
)
@output_options
def verify(vault: Path, policy_file: Path | None, aggregators: tuple[str, ...]) -> None:
    """Compare every query you were ever asked with the public feeds of your proxies. Exit code 1 if
    something is not there.

    A feed lists, in a chain of hashes, every query and version that was published. If you were
    asked something that is not in it, or is in it in other bytes, somebody asks you what they do
    not tell others. Refused queries are compared as well.
    """
    chosen, store = read_vault_policy(vault, policy_file), open_store(vault)
    with store.transaction() as transaction:
        asked = [Asked(*row) for row in transaction.versions.asked()]
    findings = []
    addresses = (*chosen.proxies, *aggregators)
    with feed_client() as network, progress_bar("reading feeds") as advance:
        for done, address in enumerate(addresses, start=1):
            carried = [
                each for each in asked if address not in chosen.proxies or address in each.proxies
            ]
            findings.append(check_feed(store, network, address, carried))
            if advance is not None:
                advance(done / len(addresses))
    emit(
        [finding.to_dict() for finding in findings],
        [line for finding in findings for line in _held(finding)],
    )
    for finding in findings if output_format() == "text" else ():
        for line in _broken(finding):
            say(line, err=True)
    if not all(finding.holds for finding in findings):
        raise SystemExit(1)


def _held(finding: FeedFinding) -> list[str]:
    """What a feed says as it should."""
    if finding.problem:
        return []
    verdict = "its chain verifies" if not finding.faults else "its chain does not verify"
    lines = [
        f"{finding.address}: {finding.head and finding.head.lines} lines, {verdict}. Head:"
        f" {finding.head}"
    ]
    lines += [f"  {each}: announced, in the same bytes." for each in finding.agreed]
    if not (finding.agreed or finding.different or finding.unannounced or finding.missing):
        lines.append("  None of the queries you received use this service.")
    return lines


def _broken(finding: FeedFinding) -> list[str]:
    """What is wrong with a feed."""
    if finding.problem:
        return [f"{finding.address}: the feed could not be read: {finding.problem}"]
    return [
        *(f"  {fault}" for fault in finding.faults),
        *(
            f"  {each}: announced, but in other bytes than you were asked."
            for each in finding.different
        ),
        *(
            f"  {each}: this version was never announced, though others were."
            for each in finding.unannounced
        ),
        *(f"  {each}: you were asked, and it is not in the feed." for each in finding.missing),
    ]


@command()
@VAULT
@output_options
def status(vault: Path) -> None:
    """Show what is waiting to be sent, and how often each event happened. No answers are shown,
    because none are kept."""
    with open_store(vault).transaction() as transaction:
        counters = dict(transaction.journal.counters())
        waiting = transaction.outbox.schedule()
    proxies = sorted({proxy for proxy, _, _ in waiting})
    queue = {proxy: [due for other, due, _ in waiting if other == proxy] for proxy in proxies}
    shares = [
        {"proxy": proxy, "shares": len(dues), "next": min(dues)} for proxy, dues in queue.items()
    ]
    shown = [
        f"{counted(len(dues), 'share')} for {proxy}, the next from {iso_time(min(dues))} on"
        for proxy, dues in queue.items()
    ] or ["Nothing is waiting to be sent."]
    shown += [f"{name}: {n}" for name, n in counters.items()]
    emit({"waiting": shares, "counters": counters}, shown, _rows(queue, counters))


def _rows(queue: dict[str, list[Any]], counters: dict[str, int]) -> Rows:
    rows: list[tuple[str, str, int]] = [
        ("waiting", proxy, len(dues)) for proxy, dues in queue.items()
    ]
    return ["kind", "name", "n"], [*rows, *(("counter", name, n) for name, n in counters.items())]
