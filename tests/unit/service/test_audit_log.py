"""The audit log: every changed byte is found, a kill at any byte is survived, and a flood of
refusals stays small."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import resource
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from deniable.cli import cli
from deniable.errors import AuditLogError, ParameterError
from deniable.service.audit_log import EVENTS, AuditLog, RefusalLog, read_events
from deniable.service.files.chained_lines import START, ChainedLines, Head, check_lines, verify_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.fixture
def log(path: Path) -> Iterator[AuditLog]:
    made = AuditLog(path, lambda: 1_800_000_000)
    for number in range(3):
        made.record(
            "query.published",
            actor="token:0011223344556677",
            subject=f"query:q{number}",
            serial=number,
        )
    yield made
    made.close()


def events(path: Path) -> list[str]:
    return [event["event"] for event in read_events(path)]


def test_a_line_says_when_who_what_and_carries_the_hash_of_the_line_before_it(
    log: AuditLog,
) -> None:
    first, second, *_ = read_events(log.path)
    assert (first["time"], first["event"], first["subject"]) == (
        "2027-01-15T08:00:00Z",
        "query.published",
        "query:q0",
    )
    assert (first["seq"], first["previous"]) == (1, START.hash)
    line = log.path.read_bytes().split(b"\n")[0]
    assert check_lines([line]).head == Head(1, second["previous"])
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600


def test_every_changed_byte_is_found(log: AuditLog) -> None:
    good = log.path.read_bytes()
    assert verify_file(log.path).verifies
    for at in range(len(good)):
        log.path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert not verify_file(log.path).verifies, at


def test_every_removed_line_and_every_cut_tail_is_found_and_named(log: AuditLog) -> None:
    lines = log.path.read_bytes().splitlines(keepends=True)
    for gone in range(3):
        log.path.write_bytes(b"".join(lines[:gone] + lines[gone + 1 :]))
        assert any(f"line {gone + 1}" in fault for fault in verify_file(log.path).faults)
    for n_bytes in range(len(b"".join(lines))):
        log.path.write_bytes(b"".join(lines)[:n_bytes])
        assert not verify_file(log.path).verifies, n_bytes


def test_a_log_that_was_rewritten_with_its_head_is_found_by_a_head_that_was_noted_elsewhere(
    log: AuditLog,
) -> None:
    noted = log.head
    (log.path.with_name("audit.jsonl.head")).unlink()
    log.path.unlink()
    forged = ChainedLines(log.path)
    for _ in range(6):
        forged.append({"event": "query.published"})
    forged.close()
    assert verify_file(log.path).verifies  # nothing in the two files tells
    assert verify_file(log.path, [noted]).faults == ["line 3 is not the one whose hash was noted"]


def test_a_kill_at_any_byte_of_a_line_loses_at_most_that_line_and_is_recorded(
    path: Path, log: AuditLog
) -> None:
    before, head = path.read_bytes(), path.with_name("audit.jsonl.head")
    stored = head.read_bytes()
    log.record("query.stopped", subject="query:q1")
    line = path.read_bytes()[len(before) :]
    for n_bytes in range(len(line) + 1):
        path.write_bytes(before + line[:n_bytes])
        head.write_bytes(stored)
        again = AuditLog(path, lambda: 0)
        again.close()
        assert verify_file(path).verifies, n_bytes
        torn = 0 < n_bytes < len(line)
        expected = ["log.repaired"] if torn else ["query.stopped"] if n_bytes else []
        assert events(path)[3:] == expected, n_bytes


def test_a_cut_tail_is_recorded_when_the_service_goes_on_and_stays_visible(
    path: Path, log: AuditLog
) -> None:
    content = path.read_bytes()
    for n_bytes in (len(content) - 5, content.index(b"\n") + 1, 0):
        path.write_bytes(content[:n_bytes])
        log.record("service.stopped")
        assert events(path)[-2:] == ["log.damaged", "service.stopped"]
        assert "missing" in log.problem() or "not a line" in log.problem()
    path.unlink()
    log.record("service.started")
    assert events(path) == ["log.damaged", "service.started"]
    assert "missing" in log.problem()


def test_a_missing_head_is_damage(path: Path, log: AuditLog) -> None:
    path.with_name("audit.jsonl.head").unlink()
    assert "audit.jsonl.head is missing" in verify_file(path).faults[0]
    log.record("service.stopped")
    assert events(path)[-2:] == ["log.damaged", "service.stopped"]


def test_a_full_disk_raises_and_leaves_a_log_that_verifies(path: Path, log: AuditLog) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = path.read_bytes()
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 40, hard))
    try:
        with pytest.raises(AuditLogError, match="cannot be written: File too large"):
            log.record("query.stopped", subject="query:q1")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert path.read_bytes() == before
    log.record("query.stopped", subject="query:q1")
    assert log.problem() == ""


def test_a_changed_byte_is_seen_by_the_running_service_and_gone_when_mended(
    path: Path, log: AuditLog
) -> None:
    assert log.problem() == ""
    good = path.read_bytes()
    path.write_bytes(good.replace(b"q1", b"q9"))
    assert (
        log.problem()
        == "audit.jsonl does not verify: line 2 was changed, or is not the one that line 3 was"
        " written after"
    )
    path.write_bytes(good)
    assert log.problem() == ""


def _write_many(path: Path, n_lines: int) -> None:
    log = AuditLog(path)
    for number in range(n_lines):
        log.record("token.made", subject=f"token:{os.getpid()}", number=number)


def test_several_processes_and_a_kill_leave_one_chain(path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write_many, args=(path, 25)) for _ in range(3)]
    endless = context.Process(target=_write_many, args=(path, 1 << 30))
    for each in (*writers, endless):
        each.start()
    for each in writers:
        each.join()
        assert each.exitcode == 0
    endless.kill()
    endless.join()
    log = AuditLog(path)
    assert log.problem() == ""
    log.close()
    for each in writers:
        mine = [
            event["details"]["number"]
            for event in read_events(path)
            if event.get("subject") == f"token:{each.pid}"
        ]
        assert mine == list(range(25))


def test_an_event_that_is_not_listed_is_refused(log: AuditLog) -> None:
    with pytest.raises(ParameterError, match="must be one of"):
        log.record("something.else")


def test_a_flood_of_refusals_is_a_line_per_actor_address_and_minute(
    path: Path, log: AuditLog
) -> None:
    now = 0.0
    refusals = RefusalLog(log, lambda: now, logging.getLogger("test"))
    for second in range(120):
        now = float(second)
        for _ in range(50):
            refusals.note("token:aa", "GET /v1/queries/{query_id}", 404)
        refusals.step()
    refusals.step(everything=True)
    found = [event for event in read_events(path) if event["event"] == "right.refused"]
    assert len(found) == 3
    assert sum(event["details"]["count"] for event in found) == 6000
    for number in range(5000):
        refusals.note(f"token:{number}", "GET /v1/queries", 401)
        if number % 100 == 0:
            refusals.step()
    refusals.step(everything=True)
    found = [event for event in read_events(path) if event["event"] == "right.refused"][3:]
    assert len(found) <= 103
    assert sum(event["details"]["count"] for event in found) == 5000
    assert found[-1]["actor"] == "others" or any(event["actor"] == "others" for event in found)


def test_the_command_shows_verifies_and_fails_on_a_changed_byte(tmp_path: Path) -> None:
    settings = tmp_path / "proxy.toml"
    settings.write_text('folder = "data"\n')
    run = CliRunner()
    missing = run.invoke(cli, ["proxy", "audit", str(settings)])
    assert missing.exit_code == 2
    assert "does not exist" in missing.stderr
    (tmp_path / "data").mkdir()
    log = AuditLog(tmp_path / "data" / "audit.jsonl", lambda: 1_800_000_000)
    log.record("token.made", actor="operator", subject="token:0011223344556677", role="device")
    noted = str(
        log.record("query.stopped", actor="token:0011223344556677", subject="query:commute")
    )
    log.close()
    shown = run.invoke(cli, ["proxy", "audit", str(settings)])
    assert shown.stdout.splitlines()[1].split()[:3] == [
        "2027-01-15T08:00:00Z",
        "token.made",
        "operator",
    ]
    assert (
        run.invoke(cli, ["proxy", "audit", str(settings), "--start", "2027-01-16"]).stdout
        == "No event is recorded.\n"
    )
    assert len(json.loads(run.invoke(cli, ["proxy", "audit", str(settings), "--json"]).stdout)) == 2
    verified = run.invoke(cli, ["proxy", "audit", str(settings), "--verify", "--head", noted])
    assert (
        verified.exit_code,
        f"2 lines, the chain verifies. Head: {noted}" in verified.stdout,
    ) == (0, True)
    log.path.write_bytes(log.path.read_bytes().replace(b"commute", b"commutf"))
    changed = run.invoke(cli, ["proxy", "audit", str(settings), "--verify"])
    assert changed.exit_code == 1
    assert "line 2 is not the one whose hash was noted" in changed.stderr
    assert (
        run.invoke(cli, ["proxy", "audit", str(settings), "--verify", "--head", "2:x"]).exit_code
        == 2
    )


def test_every_event_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operating.md").read_text()
    assert [event for event in EVENTS if f"`{event}`" not in page] == []
