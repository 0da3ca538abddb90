"""`deniable query`: what it writes, what it says, and that an error is one line and writes
nothing."""

from __future__ import annotations

import contextlib
import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

import deniable
from deniable.cli import main
from deniable.cli.analyst.query import query as query_group
from deniable.queries.files import read_query
from deniable.queries.signed.key_ring import KeyRing, TrustedKey
from deniable.queries.signed.keys import AnalystKey, PublicKey
from deniable.queries.signed.signing import SignedQuery, verify

SOURCE = str(Path(deniable.__file__).parents[1])


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(folder: Path, *arguments: str) -> Done:
    """The command as people run it, but for the process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["deniable", *arguments]),
        pytest.raises(SystemExit) as left,
    ):
        main()
    return Done(int(left.value.code or 0), out.getvalue(), err.getvalue())


def test_the_command_in_a_process_of_its_own_prints_one_line_and_no_traceback(
    tmp_path: Path,
) -> None:
    code = "from deniable.cli import main; main()"
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", code, "query", "check", "absent.toml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "deniable: absent.toml: file = 'absent.toml' cannot be read: No such file or directory\n"
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the template and a key, as the first two commands leave it."""
    assert run(tmp_path, "query", "new", "q.toml").returncode == 0
    assert (
        run(tmp_path, "query", "keygen", "city.key", "--owner", "City of Exampleton").returncode
        == 0
    )
    return tmp_path


def test_from_template_to_a_signature_that_holds(folder: Path) -> None:
    assert stat.S_IMODE((folder / "city.key").stat().st_mode) == 0o600
    done = run(folder, "query", "sign", "q.toml", "--key", "city.key")
    assert done.returncode == 0, done.stderr
    signed = SignedQuery.from_bytes((folder / "q.signed.json").read_bytes())
    query = read_query(folder / "q.toml")
    ring = KeyRing([TrustedKey(PublicKey.load(folder / "city.key.pub"))])
    assert verify(signed, ring, query.schedule.origin) == query

    ring.save(folder / "ring")
    shown = run(folder, "query", "show", "q.signed.json", "--json", "--ring", "ring")
    assert shown.returncode == 0, shown.stderr
    described = json.loads(shown.stdout)
    assert described["signature"] == "verified"
    assert described["digest"] == query.digest.hex()
    assert described["query"] == query.to_dict()
    plain = run(folder, "query", "show", "q.signed.json").stdout
    assert "not verified" in plain
    assert query.digest.hex() in plain

    ring.revoke(signed.key_id).save(folder / "ring")
    refused = run(folder, "query", "show", "q.signed.json", "--ring", "ring")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "was revoked" in refused.stderr


def test_check_says_what_is_asked_and_what_it_costs(folder: Path) -> None:
    query = read_query(folder / "q.toml")
    out = run(folder, "query", "check", "q.toml").stdout
    for words in (
        query.sql,
        query.question,
        "[10,inf)",
        f"epsilon, local: {query.epsilon_local:.4f}",
        f"{query.channel_tag:016x}",
    ):
        assert words in out
    assert out.index("epsilon, local") < out.index("epsilon, sampled")
    assert "pays for 4 answers: at this schedule a device falls silent about" in out


@pytest.mark.parametrize(("most", "warned"), [("2.5", False), ("3.0", False), ("3.97", True)])
def test_check_says_when_an_envelope_exceeds_the_ceiling_that_devices_have_by_default(
    folder: Path, most: str, warned: bool
) -> None:
    envelope = "\n".join(
        (
            "[envelope]",
            f'controller = "{"ea" * 32}"',
            "sampling = [0.1, 1.0]",
            "p = [0.2, 0.6]",
            "q = [0.5, 0.5]",
            f"epsilon_per_answer = {most}",
        )
    )
    content = (folder / "q.toml").read_text().replace("[budget]", f"{envelope}\n\n[budget]")
    (folder / "q.toml").write_text(content)
    out = run(folder, "query", "check", "q.toml").stdout
    assert (f"the envelope allows the controller {most}" in out) is warned


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        ('ask = "value"\nvalue = "journeys"\nonce = true', ["journeys", "Once in all"]),
        ('ask = "value"\nvalue = "Not a name"', ["must be 1 to 63 of a-z"]),
        ('ask = "form"', ["must be given with ask = 'form'"]),
    ],
)
def test_check_knows_queries_without_sql(folder: Path, ask: str, says: list[str]) -> None:
    lines = (folder / "q.toml").read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.startswith("memoize")]
    asked = [ask if line.startswith("sql = ") else line for line in kept]
    assert asked != kept
    (folder / "asked.toml").write_text("\n".join(asked), encoding="utf-8")
    done = run(folder, "query", "check", "asked.toml")
    assert done.returncode == (0 if len(says) == 2 else 2), done.stderr
    for words in says:
        assert words in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["query", "new", "q.toml"], "q.toml already exists"),
        (["query", "new", "new.toml", "--id", "Bad Id"], "new.toml, line 3: id = 'Bad Id' must be"),
        (["query", "new", "nowhere/new.toml"], "cannot be written"),
        (["query", "check", "absent.toml"], "cannot be read"),
        (
            ["query", "check", "broken.toml"],
            "broken.toml, line 8: sampling = 60 must be a probability",
        ),
        (["query", "sign", "broken.toml", "--key", "city.key"], "broken.toml, line 8"),
        (["query", "sign", "q.toml", "--key", "absent.key"], "absent.key cannot be read"),
        (["query", "sign", "q.toml", "--key", "other.key"], "the key belongs to 'Other'"),
        (["query", "sign", "q.toml", "--key", "city.key.pub"], "must have 0600"),
        (["query", "show", "q.toml", "--ring", "absent"], "is not signed"),
        (["query", "keygen", "city.key", "--owner", "X"], "exists already"),
        (["query", "keygen", "new.key", "--owner", ""], "whose key it is"),
    ],
)
def test_an_error_is_one_line_and_code_2_and_nothing_is_written(
    folder: Path, arguments: list[str], says: str
) -> None:
    text = (folder / "q.toml").read_text(encoding="utf-8")
    lines = text.replace("sampling = 0.6 ", "sampling = 60 ").splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("sampling"))
    lines.insert(7, lines.pop(at))  # so that the line is known
    (folder / "broken.toml").write_text("\n".join(lines), encoding="utf-8")
    AnalystKey("Other", bytes(32)).save(folder / "other.key")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = run(folder, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert done.stderr.startswith("deniable: ")
    assert done.stderr.count("\n") == 1
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def fenced(text: str, marker: str) -> str:
    """The block after a marker in a page of the documentation, without its fences."""
    return text.partition(f"<!-- {marker} -->\n```")[2].partition("\n")[2].partition("```")[0]


def test_the_documentation_shows_what_the_command_says(tmp_path: Path) -> None:
    page = (Path(SOURCE).parent / "docs" / "queries.md").read_text(encoding="utf-8")
    (tmp_path / "trips.toml").write_text(fenced(page, "query"), encoding="utf-8")
    done = run(tmp_path, "query", "check", "trips.toml")
    assert done.returncode == 0, done.stderr
    assert fenced(page, "summary") == f"$ deniable query check trips.toml\n{done.stdout}"


def test_every_command_of_the_group_is_documented() -> None:
    page = (Path(SOURCE).parent / "docs" / "queries.md").read_text(encoding="utf-8")
    for name in query_group.commands:
        assert f"deniable query {name}" in page


def test_the_list_of_commands_names_query() -> None:
    assert "query" in run(Path(), "--help").stdout
    assert run(Path(), "no-such-command").returncode == 2


def test_the_owner_of_a_channel_permits_a_guest_who_signs_with_the_permission(folder: Path) -> None:
    guest = AnalystKey("Bus company", bytes(range(5, 37)))
    guest.save(folder / "bus.key")
    guest.public.save(folder / "bus.key.pub")
    mine, theirs = (
        (folder / "q.toml")
        .read_text(encoding="utf-8")
        .replace('# channel = "trips" ', 'channel = "trips" ')
        for _ in "ab"
    )
    assert "\nchannel" in mine
    (folder / "q.toml").write_text(mine, encoding="utf-8")
    owner = read_query(folder / "q.toml").analyst
    theirs = theirs.replace(f'analyst = "{owner}"', 'analyst = "Bus company"').replace(
        'id = "', 'id = "bus-'
    )
    (folder / "bus.toml").write_text(theirs, encoding="utf-8")
    assert (
        "in channel 'trips' of the key that signs the query"
        in run(folder, "query", "check", "q.toml").stdout
    )
    permit = ["query", "permit", "trips", "bus.key.pub", "--key", "city.key", "--end"]
    refused = run(folder, *permit, "soon")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--end = 'soon'" in refused.stderr
    done = run(folder, *permit, "2099-01-01", "--messages", "2", "--grace", "1 h")
    assert (
        done.stdout
        == "Wrote trips.permission.json: until 2099-01-01T00:00:00Z, at most 2 messages per device"
        " and epoch, grace 1 h\n"
    )
    assert run(folder, *permit, "2099-01-01").returncode == 2  # nothing is overwritten
    shown = json.loads(run(folder, *permit, "2099-01-01", "--output", "more.json", "--json").stdout)
    assert (shown["guest"], shown["messages"], shown["grace"]) == (guest.public.raw.hex(), 1, 0)
    assert (
        run(
            folder, "query", "sign", "q.toml", "--key", "city.key", "--output", "mine.json"
        ).returncode
        == 0
    )
    sign = ["query", "sign", "bus.toml", "--key", "bus.key", "--permission"]
    assert run(folder, *sign, "trips.permission.json", "--output", "theirs.json").returncode == 0
    signed = [
        SignedQuery.from_bytes((folder / name).read_bytes()).header()
        for name in ("mine.json", "theirs.json")
    ]
    assert signed[0].channel_tag == signed[1].channel_tag
    for name, says in (
        ("absent.json", "absent.json cannot be read"),
        ("mine.json", "is not a permission|not a permission"),
    ):
        broken = run(folder, *sign, name, "--output", "bad.json")
        assert broken.returncode == 2
        assert any(each in broken.stderr for each in says.split("|"))
    assert (
        run(folder, "query", "show", "mine.json").stdout.count(f"{signed[0].channel_tag:016x}") == 1
    )
