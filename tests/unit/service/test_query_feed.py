"""The public feed: everything that was ever asked, in a chain; and what a device makes of one that
lies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from deniable.cli import cli
from deniable.client.device import Device
from deniable.client.feed_check import Asked, FeedFinding, check_feed
from deniable.queries.query import Query
from deniable.queries.signed.signing import SignedQuery
from deniable.service.files.chained_lines import Head, check_lines
from deniable.service.query_feed import QueryFeed
from toolkit.devices import asked, at, make_device, signed

ONE = asked().proxies[0]


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[QueryFeed]:
    made = QueryFeed(tmp_path / "public.jsonl", lambda: 0)
    yield made
    made.close()


def announce(feed: QueryFeed, *queries: Query) -> None:
    for query in queries:
        feed.published(query.header, signed(query), 0)


def lines_of(feed: QueryFeed) -> list[bytes]:
    return [line.encode() for line in feed.page(0, 1000)["lines"]]


@contextmanager
def serving(page: Callable[[int], object]) -> Iterator[httpx.Client]:
    """A client whose every request is answered with a page after so many lines."""
    with httpx.Client(transport=answering(page)) as client:
        yield client


def answering(page: Callable[[int], object]) -> httpx.MockTransport:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            200,
            stream=httpx.ByteStream(json.dumps(page(int(request.url.params["after"]))).encode()),
        )

    return httpx.MockTransport(answer)


def compare(device: Device, feed: QueryFeed | list[bytes]) -> FeedFinding:
    def page(after: int) -> object:
        if isinstance(feed, QueryFeed):
            return feed.page(after, 2)
        return {"head": "", "lines": [line.decode() for line in feed[after:]], "next": None}

    with device.store.transaction() as transaction:
        rows = [Asked(*row) for row in transaction.versions.asked()]
    with serving(page) as client:
        return check_feed(device.store, client, ONE, rows)


def test_each_version_and_stop_is_announced_once_with_the_signed_bytes(feed: QueryFeed) -> None:
    first = asked()
    second = first.revised(sampling=0.5)
    announce(feed, first, first, second)
    for _ in range(2):
        feed.stopped(second.header, 7)
        feed.revoked("00" * 8)
    told = [json.loads(line) for line in lines_of(feed)]
    assert [(each["event"], each.get("serial")) for each in told] == [
        ("query.published", 1),
        ("query.published", 2),
        ("query.stopped", 2),
        ("key.revoked", None),
    ]
    for each, query in zip(told, (first, second), strict=False):
        assert SignedQuery.from_bytes(json.dumps(each["signed"]).encode()) == signed(query)
        assert (each["analyst"], each["digest"]) == (query.analyst, query.digest.hex())
    assert check_lines(lines_of(feed)).head == feed.head


def test_a_feed_that_is_opened_again_announces_nothing_twice_and_pages_meet(
    tmp_path: Path, feed: QueryFeed
) -> None:
    versions = [asked(serial=serial) for serial in range(1, 8)]
    announce(feed, *versions[:4])
    again = QueryFeed(tmp_path / "public.jsonl", lambda: 0)
    announce(again, *versions)
    pages, after = [], 0
    while True:
        page = again.page(after, 3)
        pages += page["lines"]
        if page["next"] is None:
            break
        after = page["next"]
    assert [json.loads(line)["serial"] for line in pages] == list(range(1, 8))
    assert again.page(7, 3) == {"head": str(again.head), "lines": [], "next": None}
    assert again.problem() == ""
    again.close()


def test_what_was_asked_and_announced_in_the_same_bytes_holds_over_all_versions(
    tmp_path: Path, feed: QueryFeed
) -> None:
    first = asked()
    second = first.revised(sampling=0.5)
    device = make_device(tmp_path, first)
    announce(feed, first, second)
    for query in (first, second):
        device.answer(signed(query), at(query.serial))
    found = compare(device, feed)
    assert found.holds
    assert [each.serial for each in found.agreed] == [1, 2]


def test_what_was_not_announced_or_in_other_bytes_is_told_apart(
    tmp_path: Path, feed: QueryFeed
) -> None:
    first, other = asked(), asked(id="other")
    second = first.revised(sampling=0.5)
    device = make_device(tmp_path, first)
    for epoch, query in enumerate((first, second, other)):
        device.answer(signed(query), at(epoch))
    announce(feed, asked(question="Quite another question?"))
    found = compare(device, feed)
    assert not found.holds
    told = {
        name: [(each.query, each.serial) for each in getattr(found, name)]
        for name in ("different", "unannounced", "missing")
    }
    assert told == {
        "different": [(first.id, 1)],
        "unannounced": [(first.id, 2)],
        "missing": [("other", 1)],
    }


def test_a_line_that_is_left_out_changed_or_taken_back_later_is_found(
    tmp_path: Path, feed: QueryFeed
) -> None:
    versions = [asked(serial=serial) for serial in range(1, 4)]
    device = make_device(tmp_path, versions[0])
    announce(feed, *versions)
    lines = lines_of(feed)
    assert compare(device, lines[:1] + lines[2:]).faults == ["line 2 is missing"]
    changed = [lines[0], lines[1].replace(b"How far", b"How fast"), lines[2]]
    assert compare(device, changed).faults == [
        "line 2 was changed, or is not the one that line 3 was written after"
    ]
    assert compare(device, lines).holds
    assert compare(device, lines[:2]).faults == ["line 3, whose hash was noted, is missing"]
    rewritten = QueryFeed(tmp_path / "other.jsonl", lambda: 9)
    announce(rewritten, *versions)
    assert compare(device, rewritten).faults == ["line 3 is not the one whose hash was noted"]
    rewritten.close()
    with device.store.transaction() as transaction:
        # a feed that does not hold is not remembered
        assert transaction.versions.feed_head(ONE) == Head(3, feed.head.hash)


@pytest.mark.parametrize(
    "page",
    [
        [],
        {"lines": 3},
        {"lines": [], "head": "", "next": 0},
        {"lines": [], "head": "", "next": "x"},
    ],
)
def test_a_feed_that_is_none_or_has_no_end_is_a_problem_and_no_endless_loop(
    tmp_path: Path, page: object
) -> None:
    device = make_device(tmp_path, asked())
    with serving(lambda _: page) as client:
        assert check_feed(device.store, client, ONE, []).problem


def test_the_command_names_each_difference_and_fails(
    tmp_path: Path, feed: QueryFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = asked()
    device = make_device(tmp_path, query)
    device.answer(signed(query), at(0))
    ring, policy = tmp_path / "ring.json", tmp_path / "policy.toml"
    device.policy.ring.save(ring)
    tables = "".join(
        f'[[proxies]]\naddress = "{proxy}"\ntoken = "token"\n' for proxy in query.proxies
    )
    policy.write_text(
        f'ring = "ring.json"\nepsilon_per_answer = 3.0\n[[limits]]\nepsilon = 10\n{tables}'
    )
    policy.chmod(0o600)
    transport = answering(lambda after: feed.page(after, 9))
    monkeypatch.setattr(
        "deniable.cli.person.client_records.feed_client", lambda: httpx.Client(transport=transport)
    )

    def run(*more: str) -> Result:
        return CliRunner().invoke(
            cli, ["client", "verify", str(tmp_path / "ann.db"), "--policy", str(policy), *more]
        )

    missing = run("--aggregator", "https://aggregator.example")
    assert missing.exit_code == 1, missing.output
    assert (
        missing.stderr.count("you were asked, and it is not in the feed") == len(query.proxies) + 1
    )
    announce(feed, query)
    good = run()
    assert (good.exit_code, good.stdout.count("announced, in the same bytes")) == (
        0,
        len(query.proxies),
    )
    assert all(finding["holds"] for finding in json.loads(run("--json").stdout))
