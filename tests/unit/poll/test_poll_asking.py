"""What a poll costs a person, what can be seen of it, and what its codes and links tell."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deniable.poll.page_files as page_file_module
from deniable.errors import ParameterError, ServiceError
from deniable.poll.asking import expected_half_width, queries_of
from deniable.poll.bundling import bundled
from deniable.poll.codes import CODE_LENGTH, invitation_of, new_code
from deniable.poll.files import poll_of_tree
from deniable.poll.link import Link, key_fingerprint, page_policy, poll_fingerprint
from deniable.poll.page_files import page_files
from deniable.poll.poll import Poll
from deniable.poll.publishing import invitations_for, open_poll
from deniable.queries.signed.keys import AnalystKey
from deniable.randomness import seeded_source

KEY = AnalystKey("Council", bytes(range(32)))
START = 1_800_000_000
WEEK = 7 * 86400


def poll_of(*questions: dict[str, Any], **rest: Any) -> Poll:
    tree: dict[str, Any] = {
        "id": "p",
        "asker": "Council",
        "start": START,
        "end": START + WEEK,
        "factor": 3,
        "page": "https://poll.example",
        "aggregator": "https://count.example",
        "proxies": [{"url": "https://one.example"}, {"url": "https://two.example"}],
        "questions": list(questions) or [{"text": "Yes?"}],
        "title": "A poll",
    }
    return poll_of_tree(tree | rest)


def test_two_coins_and_the_device_draw_from_one_channel() -> None:
    """Heads, the truth; tails, the second coin: 3/4 and 1/4, which the signed mechanism draws up to
    its rounding in the private direction."""
    (query,) = queries_of(poll_of())
    assert query.mechanism.channel() == pytest.approx(np.array([[0.75, 0.25], [0.25, 0.75]]))
    truthful = Fraction(query.mechanism._truthful, 1 << 64)
    assert 0 <= Fraction(3, 4) - truthful <= Fraction(1, 1 << 50)
    assert query.epsilon <= math.log(3)


@pytest.mark.parametrize("factor", [2, 3, 7.5, 20])
def test_questions_together_cost_no_more_than_the_poll_says(factor: float) -> None:
    poll = poll_of(
        {"id": "a", "text": "Yes?"},
        {"id": "b", "kind": "several", "text": "Which?", "options": ["x", "y", "z"], "most": 2},
        {"id": "c", "text": "One?", "options": [str(i) for i in range(40)]},
        {"id": "d", "kind": "number", "text": "How many?", "low": 0, "high": 99, "step": 10},
        factor=factor,
    )
    queries = queries_of(poll)
    total = sum(query.epsilon for query in queries)
    assert total <= poll.epsilon
    assert total == pytest.approx(poll.epsilon)
    assert all(query.once and query.ask == "form" for query in queries)


def test_the_margin_that_is_announced_holds_in_simulated_polls() -> None:
    """At the worst proportion the half-width is 1.96 standard errors: 2,000 polls of 400 cover the
    truth in 95 %. A count outside 1,852 to 1,946 has a probability below 1e-6 each way."""
    (query,) = queries_of(poll_of())
    n, trials, truth = 400, 2000, 0.5
    half = expected_half_width([query], n)
    assert half == pytest.approx(1.96 * math.sqrt(0.25 / n) / 0.5, rel=1e-3)
    source = seeded_source(33)
    values = np.repeat([0, 1], [trials * n // 2, trials * n // 2])
    reports = query.mechanism.draw(np.random.default_rng(1).permutation(values), source)
    says_yes = (np.asarray(reports).reshape(trials, n) == 0).mean(axis=1)
    covered = int((np.abs((says_yes - 0.25) / 0.5 - truth) <= half).sum())
    assert 1852 <= covered <= 1946


def test_live_windows_hold_every_answer_since_the_start_and_other_polls_are_one_epoch() -> None:
    (live,), (ended,) = queries_of(poll_of()), queries_of(poll_of(results="end"))
    schedule = live.schedule
    for time in (START, START + 3600, START + WEEK - 1):
        epoch = schedule.epoch_of(time)
        window = schedule.windows_of_epoch(epoch)[0]
        assert schedule.epochs_of_window(window)[-1] == epoch
        assert schedule.bounds_of_window(window)[0] <= START
    assert (ended.schedule.n_epochs, ended.schedule.n_windows) == (1, 1)
    assert not queries_of(poll_of(results="private"))[0].public_results


def test_the_link_changes_with_the_key_the_questions_the_texts_and_the_proxies() -> None:
    link = open_poll(poll_of(), KEY).link
    assert Link.read(str(link)) == link
    others = [
        open_poll(poll_of(), AnalystKey("Council", bytes(32))),
        open_poll(poll_of({"text": "No?"}), KEY),
        open_poll(poll_of(why="Because."), KEY),
        open_poll(poll_of(proxies=[{"url": f"https://{x}.example"} for x in ("a", "b")]), KEY),
        open_poll(poll_of(factor=3.1), KEY),
    ]
    assert len({link.poll, *(each.link.poll for each in others)}) == 6
    assert others[0].link.key != link.key == others[1].link.key
    assert link.key == key_fingerprint(KEY.public.raw)
    document = open_poll(poll_of(), KEY).document
    assert poll_fingerprint(document) == link.poll
    connect = page_policy(json.loads(document)).split("connect-src")[1].split(";")[0]
    assert connect.split() == [
        "'self'", "https://one.example", "https://two.example", "https://count.example",
    ]  # fmt: skip
    with pytest.raises(ParameterError, match="the owner of the key that signs"):
        open_poll(poll_of(asker="Somebody"), KEY)


def test_what_one_proxy_sees_of_a_code_tells_nothing_of_what_the_other_sees() -> None:
    code = new_code()
    assert len(code) == CODE_LENGTH
    poll = poll_of({"id": "a", "text": "Yes?"}, {"id": "b", "text": "No?"})
    codes, invitations = invitations_for(poll, 50)
    assert len(set(codes)) == 50
    assert len(invitations) == 4
    shown = [set(each) for each in invitations.values()]
    assert len(set().union(*shown)) == 4 * 50  # no two are equal
    for place, listed in invitations.items():
        assert listed == sorted(invitation_of(each, *place) for each in codes)
        assert not any(each in text or each.lower() in text for each in codes for text in listed)


def test_the_whole_page_is_at_most_60_kilobytes_on_the_wire() -> None:
    files = page_files()
    sizes = {name: len(each.compressed) for name, each in files.items()}
    languages = {name: sizes[name] for name in ("ar.js", "de.js")}
    assert max(languages.values()) <= 5_000  # fetched if it is spoken
    assert sum(sizes.values()) - sum(languages.values()) <= 60_000
    assert b"http://" not in files["poll.js"].content.replace(b"http://www.w3.org/2000/svg", b"")
    assert b"innerHTML" not in files["poll.js"].content


SAME_WORDS = """
const { default: en } = await import(process.argv[1]);
const shape = (value) => (typeof value === "function" ? value.length : Array.isArray(value) ? value.map(shape) : typeof value);
for (const path of process.argv.slice(2)) {
  const { default: other } = await import(path);
  for (const name of new Set([...Object.keys(en), ...Object.keys(other)])) {
    if (JSON.stringify(shape(en[name])) !== JSON.stringify(shape(other[name]))) console.log(`${path}: ${name}`);
  }
  for (const rule of [2, 3, 5, 7, 11, "many"]) {
    if (other.handRules(rule, "YES", "NO", 6)?.length !== 3) console.log(`${path}: rule ${rule}`);
  }
}
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_every_language_of_the_page_says_all_that_english_says() -> None:
    static = Path(page_file_module.__file__).parent / "static"
    english = (static / "js" / "en.js").as_uri()
    others = [path.as_uri() for path in sorted((static / "lang").glob("*.js"))]
    program = [shutil.which("node") or "", "--input-type=module", "-e", SAME_WORDS, "--"]
    done = subprocess.run(  # noqa: S603 - our own modules
        [*program, english, *others], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""


FACTORS = """
const { times } = await import(process.argv[1]);
for (const x of JSON.parse(process.argv[2])) console.log(times(x).replaceAll(",", ""));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_a_factor_that_a_person_reads_is_never_below_the_one_that_holds() -> None:
    factors = [*(math.exp(epsilon / 50) for epsilon in range(1, 300)), math.exp(math.log(3)), 11.0]
    words = (Path(page_file_module.__file__).parent / "static" / "js" / "words.js").as_uri()
    program = [shutil.which("node") or "", "--input-type=module", "-e", FACTORS, "--"]
    done = subprocess.run(  # noqa: S603 - our own module
        [*program, words, json.dumps(factors)], capture_output=True, text=True, check=True
    )
    shown = [float(line) for line in done.stdout.split()]
    assert all(x - 1e-6 <= seen < 1.1 * x + 0.1 for x, seen in zip(factors, shown, strict=True)), (
        shown
    )
    assert shown[-2:] == [3, 11]


@pytest.mark.parametrize(
    "modules",
    [
        {"a.js": 'import { a } from "./a.js";\n'},
        {"a.js": 'import { b } from "./b.js";\n'},
        {"a.js": 'export * from "./b.js";\n'},
        {"a.js": 'import "./b.js";\n'},
        {"a.js": 'import { b, c } from "./b.js";\n', "b.js": "export const b = 1;\n"},
    ],
)
def test_modules_that_cannot_be_put_into_one_file_are_refused(modules: dict[str, str]) -> None:
    with pytest.raises(ServiceError, match="cannot be bundled"):
        bundled(modules, "a.js")
