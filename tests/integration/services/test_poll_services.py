"""A poll as processes: what a link leads to compared from outside, what the page's process loads,
and the one command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from deniable.cli import cli
from deniable.poll.codes import invitation_of
from deniable.poll.link import Link
from deniable.poll.page_files import page_files
from deniable.poll.verification import verify_link
from toolkit.servers import loopback
from toolkit.servers.polls import RunningPoll
from toolkit.servers.static_site import StaticSite
from toolkit.shares import records_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPoll]:
    with RunningPoll(tmp_path_factory.mktemp("poll"), n_codes=5) as poll:
        yield poll


def faults(link: Link) -> dict[str, str]:
    return {each.what: each.fault for each in verify_link(link, int(time.time())) if each.fault}


def test_an_honest_poll_is_as_its_link_names_it(running: RunningPoll) -> None:
    assert faults(running.opened.link) == {}
    done = CliRunner().invoke(cli, ["poll", "verify", str(running.opened.link)])
    assert done.exit_code == 0
    assert "page file poll.js: as the link names it" in done.output


def test_a_changed_page_file_poll_or_policy_is_found_from_outside(running: RunningPoll) -> None:
    link = running.opened.link
    with StaticSite(page_files(), running.opened.document) as site:
        site.replies["/poll.js"] = page_files()["poll.js"].content + b"steal();\n"
        moved = Link(site.origin, link.key, link.poll)
        assert faults(moved) == {
            "page file poll.js": "differs from the one in this release",
            "content security policy": "lets the page reach other services",
        }
        done = CliRunner().invoke(cli, ["poll", "verify", str(moved)])
        assert done.exit_code == 1
    changed = json.loads(running.opened.document)
    changed["proxies"][0]["url"] = "https://evil.example"
    with StaticSite(page_files(), json.dumps(changed).encode()) as site:
        found = faults(Link(site.origin, link.key, link.poll))
        assert found == {"poll": "is not the document that the link names"}
    other = Link(link.page, "A" * 26, link.poll)
    assert faults(other) == {"key": "is not the key that the link names"}


def test_the_page_s_headers_let_it_reach_the_poll_s_services_alone(running: RunningPoll) -> None:
    answer = loopback.get(f"{running.poll.page}/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    for url in (*(each.url for each in running.poll.operators), running.poll.aggregator):
        assert url in policy
    assert answer.headers["referrer-policy"] == "no-referrer"
    missing = loopback.get(f"{running.poll.page}/nothing")
    assert missing.status_code == 404
    assert missing.json()["reason"] == "address"


def test_an_invitation_is_good_once_at_its_own_proxy_and_at_no_other(running: RunningPoll) -> None:
    """One message for each code: a second one is refused, and so is another proxy's invitation."""
    from base64 import b64encode  # noqa: PLC0415

    import numpy as np  # noqa: PLC0415

    from deniable.wire.shares import split_columns  # noqa: PLC0415

    query = running.opened.queries[0]
    epoch = query.schedule.epoch_of(int(time.time()))
    reports = np.zeros((2, 1), dtype=np.uint8)
    columns = split_columns(reports, query.tag, epoch, query.size_class or 0, 2)
    one, two = (operator.url for operator in running.poll.operators)
    records = records_of(query, epoch, columns[0])
    code = running.codes[0]

    def send(invitation: str, record: bytes) -> int:
        body = {"invitation": invitation, "shares": b64encode(record).decode()}
        return int(loopback.post(f"{one}/v1/answers", json=body).status_code)

    mine = invitation_of(code, one, query.id)
    assert send(invitation_of(code, two, query.id), records[0]) == 403
    assert send(code, records[0]) == 403
    assert send(mine, records[0]) == 202
    assert send(mine, records[0]) == 202  # the same message again: already there
    assert send(mine, records[1]) == 403
    assert running.accepted() == [1, 0]


def test_the_one_command_prints_what_an_organiser_needs(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "deniable", "poll", "Have you ever driven drunk?", "yes", "no",
        "--population", "40", "--codes", "40", "--within", "1 h", "--folder", str(tmp_path / "drunk"),
        "--seconds", "1",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("With 40 people little can be seen: ± 31 points")
    assert "odds change by a factor of 3 at most" in done.stdout
    assert "± 31.0 at 40 answers (95 %)" in done.stdout
    assert "not from the person who runs this machine" in done.stdout
    link = re.search(r"Link +(\S+)", done.stdout)
    assert link is not None
    lines = (tmp_path / "drunk/codes/codes.csv").read_text().split()
    assert lines[0] == "code,link"
    assert len(lines) == 41
    assert all(line.split(",", 1)[1].strip('"').startswith(link[1]) for line in lines[1:])
    assert (tmp_path / "drunk/organiser.key").stat().st_mode & 0o777 == 0o600


def test_a_margin_chooses_the_smallest_factor_that_meets_it_or_says_what_is_possible() -> None:
    run = CliRunner().invoke
    done = run(cli, ["poll", "Yes?", "--margin", "1", "--population", "100"])
    assert done.exit_code == 2
    assert "cannot be met: 100 answers give ±" in done.stderr
    done = run(cli, ["poll", "Yes?", "--margin", "5"])
    assert "--margin needs --population" in done.stderr


DUMP = "import atexit, sys; atexit.register(lambda: open({!r}, 'w').write('\\n'.join(sys.modules)))"


def test_the_page_s_process_has_loaded_nothing_that_could_read_an_answer(
    tmp_path: Path, running: RunningPoll, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "poll.json").write_bytes(running.opened.document)
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(DUMP.format(str(tmp_path / "loaded")))
    source = Path(sys.modules["deniable"].__file__ or "").parents[1]
    monkeypatch.setenv("PYTHONPATH", f"{source}:{hook}")
    command = [
        sys.executable, "-m", "deniable", "poll", "serve", str(tmp_path / "poll.json"), "--port", "0",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        assert loopback.get(f"{address}/poll.json").content == running.opened.document
        process.terminate()
        process.wait(60)
    loaded = set((tmp_path / "loaded").read_text().split())
    assert "deniable.poll.page_app" in loaded
    rooms = {name.split(".")[1] for name in loaded if name.startswith("deniable.")}
    closed = {
        "mechanisms", "estimation", "planning", "privacy", "aggregator", "analyst", "client",
        "local", "proxy",
    }  # fmt: skip
    assert rooms & closed == set()
    assert not {"scipy", "pandas", "polars"} & loaded
