"""Files of every kind that the project writes, damaged in many places: refused in one line,
repaired, or of the same meaning."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable import DirectEncoding, seeded_source
from deniable.aggregator.state import State
from deniable.client.device import Device
from deniable.client.storage.store import Store
from deniable.client.vaults.vault import Vault
from deniable.client.witness import Witness
from deniable.curator.budget import CuratorBudget, release_event
from deniable.errors import DeniableError, StateError
from deniable.privacy.ledger import Limit
from deniable.proxy.board import Board
from deniable.proxy.enrolment import Enrolment, EnrolmentRules, invite
from deniable.proxy.intake.spool import Spool
from deniable.proxy.intake.uploads import Intake, IntakeRules, Upload
from deniable.queries.channels import Channel
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey, PublicKey
from deniable.queries.signed.signing import SignedQuery, verify
from deniable.service.files.chained_lines import ChainedLines, verify_file
from deniable.service.tokens import TokenStore
from deniable.survey import randomize_file, read_questionnaire
from deniable.survey.columns import write_questionnaire
from deniable.survey.record import _entries, _refusal, record_file
from deniable.toml_file import TomlFile
from toolkit.attacks.damage import Kind, damages, settled
from toolkit.crowds import KEY, RING, Crowd, minute_query
from toolkit.devices import asked, at, make_policy, make_vault, signed
from toolkit.histories import FiledHistory
from toolkit.shares import body_of, make_columns

QUERY = minute_query()
NOW = QUERY.schedule.origin + 30
N_DAMAGES = int(os.environ.get("DENIABLE_DAMAGES", "60"))


# --- a device


def make_store(folder: Path) -> Path:
    query = asked(memoize=True)
    store = Store(folder / "ann.db.client", durable=False)
    device = Device(
        make_vault(folder / "ann.db", [3.5]),
        make_policy(query),
        store,
        source=seeded_source(1),
        isolated=False,
    )
    for epoch in range(3):
        assert device.answer(signed(query), at(epoch)).outcome == "answered"
    return store.path


def read_store(folder: Path) -> Any:
    with Store(folder / "ann.db.client", durable=False).transaction() as transaction:
        kept = (
            transaction.charges.accountant([Limit(1000)], at(5)).to_dict(),
            transaction.versions.seen(),
            transaction.outbox.schedule(),
            transaction.granted(),
        )
        due = [
            share.record
            for proxy in asked().proxies
            for share in transaction.outbox.due_shares(proxy, at(9), 100)
        ]
        memo = (
            transaction._db.execute("SELECT * FROM memo").fetchall(),
            transaction._db.execute("SELECT * FROM reserves").fetchall(),
        )
        return (
            kept,
            due,
            memo,
            [str(receipt) for receipt in transaction.journal.receipts()],
            dict(transaction.journal.counters()),
        )


def make_own_vault(folder: Path) -> Path:
    return settled(make_vault(folder / "ann.db", [3.5]).path)


def read_own_vault(folder: Path) -> Any:
    """What a device does with it: whatever it can read, its report is randomized, and nothing but
    its own errors comes out."""
    query = asked()
    (folder / "scratch").unlink(missing_ok=True)
    store = Store(folder / "scratch", durable=False)
    device = Device(
        Vault(folder / "ann.db"), make_policy(query), store, source=seeded_source(1), isolated=False
    )
    return device.answer(signed(query), at(0)).outcome


def make_witness(folder: Path) -> Path:
    Witness(folder / "witness").write("store", 400)
    return folder / "witness"


def read_witness(folder: Path) -> Any:
    Witness(folder / "witness").check(folder / "ann.db.client", "store", 400)
    with pytest.raises(DeniableError):
        Witness(folder / "witness").check(folder / "ann.db.client", "store", 399)


# --- a proxy


def make_spool(folder: Path) -> Path:
    intake = Intake(folder / "proxy", IntakeRules(), lambda: NOW)
    intake.set_channels({QUERY.channel_tag: Channel.of_query(QUERY.header)})
    for i in range(3):
        body = body_of(QUERY, 0, make_columns(QUERY, 0, 5)[0])
        intake.take([Upload(bytes([i]), 100, body)])
    intake._lock.close()
    (path,) = (folder / "proxy" / "spool").iterdir()
    return path


def read_spool(folder: Path) -> Any:
    (_, rows), *more = Spool(folder / "proxy" / "spool").recover()
    assert not more
    return [columns.tolist() for columns in rows]


def open_intake(folder: Path) -> Intake:
    intake = Intake(folder / "proxy", IntakeRules(threshold=5), lambda: NOW)
    intake.set_channels({QUERY.channel_tag: Channel.of_query(QUERY.header)})
    return intake


def close_intake(intake: Intake) -> None:
    intake.log.close()
    intake._lock.close()


def make_own_log(folder: Path) -> Path:
    intake = open_intake(folder)
    for i in range(3):
        intake.take([Upload(bytes([i]), 100, body_of(QUERY, 0, make_columns(QUERY, 0, 20)[0]))])
    intake.flush()
    close_intake(intake)
    return settled(folder / "proxy" / "log.db")


def read_own_log(folder: Path) -> Any:
    """How many message ids the proxy remembers when it starts again."""
    intake = open_intake(folder)
    try:
        return intake.n_ids
    finally:
        close_intake(intake)


def make_log(folder: Path) -> Path:
    crowd = Crowd(folder)
    crowd.answer([1] * 40 + [2] * 20)
    crowd.mark(3)
    crowd.close_all()
    return settled(folder / "log0.db")


def read_log(folder: Path) -> Any:
    """What an aggregator makes of it: answers by bucket, and what became of the shares of the
    damaged log."""
    (folder / "state.db").unlink(missing_ok=True)
    crowd = Crowd.__new__(Crowd)
    crowd.__init__(folder)  # type: ignore[misc]
    try:
        crowd.now += 4000
        engine = crowd.engine()
        engine.drain()
        problems = "".join(health.problem for health in engine.health)
        if problems:
            raise DeniableError(problems)
        accounts = crowd.state.connection.execute(  # type: ignore[union-attr]
            "SELECT sum(received), sum(counted) FROM accounts WHERE proxy = 0"
        ).fetchone()
        return crowd.counts().tolist(), accounts
    finally:
        crowd.close_all()


def none_invented(meaning: Any, found: Any) -> bool:
    """Shares that changed are refused, and counted as refused; no answer is counted that nobody
    gave."""
    (truth, _), (counts, (received, counted)) = meaning, found
    fewer = all(n <= most for n, most in zip(counts, truth, strict=True))
    return (
        fewer
        and sum(counts) == (counted or 0)
        and (sum(counts) == sum(truth) or (received or 0) >= sum(counts))
    )


def make_tokens(folder: Path) -> Path:
    transaction = TokenStore(folder / "tokens.db")
    transaction.add("device", 5, count=20)
    transaction.add("operator")
    transaction.close()
    return settled(folder / "tokens.db")


def read_tokens(folder: Path) -> Any:
    transaction = TokenStore(folder / "tokens.db")
    try:
        return dict(transaction.by_hash())
    finally:
        transaction.close()


def make_board(folder: Path) -> Path:
    board = Board(folder / "queries.db", lambda: NOW, lambda: RING)
    board.publish(
        QUERY.id,
        SignedQuery(
            QUERY.content, KEY.public.id, KEY.sign(b"deniable query 1\0" + QUERY.content)
        ).to_bytes(),
    )
    board.close()
    return settled(folder / "queries.db")


def read_board(folder: Path) -> Any:
    board = Board(folder / "queries.db", lambda: NOW, lambda: RING)
    try:
        return board.content, board.channels()
    finally:
        board.close()


def make_enrolment(folder: Path) -> Path:
    invite(folder, 20, NOW + 100)
    return settled(folder / "enrolment.db")


def read_enrolment(folder: Path) -> Any:
    tokens = TokenStore(folder / "other.db")
    made = Enrolment(folder, EnrolmentRules("invitation"), tokens, lambda: NOW)
    try:
        return made._db.execute("SELECT * FROM invitations ORDER BY hash").fetchall()
    finally:
        made.close()
        tokens.close()


# --- an aggregator


def make_state(folder: Path) -> Path:
    crowd = Crowd(folder)
    engine = crowd.engine()
    crowd.answer([1] * 40 + [2] * 20)
    crowd.mark(3)
    crowd.now += 300
    engine.drain()
    assert crowd.windows()
    crowd.close_all()
    return settled(folder / "state.db")


TABLES = (
    "panes",
    "accounts",
    "totals",
    "refusals",
    "results",
    "queries",
    "channels",
    "marks",
    "proxies",
    "closures",
)


def read_state(folder: Path) -> Any:
    state = State(folder / "state.db", QUERY.proxies)
    try:
        return [
            state.connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall()  # noqa: S608
            for table in TABLES
        ]
    except sqlite3.DatabaseError as error:
        raise AssertionError("opened, and cannot be read") from error
    finally:
        state.close()


def make_history(folder: Path) -> Path:
    filed = FiledHistory(folder, [QUERY])
    filed.file(QUERY, np.arange(400) % 3, 0, 0, seeded_source(1))
    filed.publish()
    filed.close()
    (path,) = (folder / "history").rglob("*.parquet")
    return path


def read_history(folder: Path) -> Any:
    filed = FiledHistory.__new__(FiledHistory)
    filed.__init__(folder, [QUERY])  # type: ignore[misc]
    try:
        return {key: (pane.n, pane.counts.tolist()) for key, pane in filed.stored().items()}
    finally:
        filed.close()


def make_audit(folder: Path) -> Path:
    lines = ChainedLines(folder / "audit.jsonl")
    for i in range(20):
        lines.append({"event": "query.published", "number": i})
    return folder / "audit.jsonl"


def read_audit(folder: Path) -> Any:
    verdict = verify_file(folder / "audit.jsonl")
    if verdict.faults:
        raise DeniableError(verdict.faults[0])
    return verdict.head


# --- analysts, surveys, curators


def make_ring(folder: Path) -> Path:
    KeyRing().add(KEY.public, 5, 10**9).add(AnalystKey("Town", bytes(32)).public).save(
        folder / "ring.json"
    )
    return folder / "ring.json"


def make_signed(folder: Path) -> Path:
    (folder / "signed.json").write_bytes(signed(asked()).to_bytes())
    return folder / "signed.json"


def make_budget(folder: Path) -> Path:
    budget = CuratorBudget.at(folder / "budget.json", 3)
    budget.charge(release_event("City", "q", "1/3"), {"table": "ab"})
    return folder / "budget.json"


def read_budget(folder: Path) -> Any:
    budget = CuratorBudget.at(folder / "budget.json")
    budget.check_basis({"table": "ab"})
    return budget.epsilon, budget.spent


def make_survey(folder: Path) -> Path:
    (folder / "answers.csv").write_text("city\n" + "Oslo\nRome\n" * 20)
    for i in (1, 2):
        with pytest.warns(match="before") if i == 2 else _nothing():
            city = DirectEncoding(["Oslo", "Rome"], 1.0)
            randomize_file(
                folder / "answers.csv", folder / f"out{i}.csv", {"city": city}, again=i == 2
            )
    return folder / "out1.csv.toml"


def _nothing() -> Any:
    from contextlib import nullcontext  # noqa: PLC0415 - a line of its own reads worse

    return nullcontext()


def make_record(folder: Path) -> Path:
    make_survey(folder)
    return record_file(folder / "answers.csv")


def make_reports(folder: Path) -> Path:
    mechanism = DirectEncoding(4, 1.0)
    (folder / "reports").write_bytes(
        mechanism.privatize([0, 1, 2, 3] * 5, source=seeded_source(1)).to_bytes()
    )
    return folder / "reports"


KINDS: dict[str, Kind] = {
    "a device's store": Kind(make_store, read_store),
    "its witness": Kind(make_witness, read_witness),
    "a person's vault": Kind(
        make_own_vault, read_own_vault, lambda _, outcome: outcome in ("answered", "refused")
    ),
    "a proxy's spool": Kind(make_spool, read_spool, cuts=False),
    "its log": Kind(make_own_log, read_own_log),
    "its log, for an aggregator": Kind(make_log, read_log, none_invented),
    "its tokens": Kind(make_tokens, read_tokens),
    "its board of queries": Kind(make_board, read_board),
    "its invitations": Kind(make_enrolment, read_enrolment),
    "an aggregator's state": Kind(make_state, read_state),
    "its history": Kind(make_history, read_history),
    "an audit log": Kind(make_audit, read_audit),
    "a key ring": Kind(
        make_ring, lambda folder: {each.key.id: each for each in KeyRing.load(folder / "ring.json")}
    ),
    "a private key": Kind(
        lambda folder: KEY.save(folder / "key") or folder / "key",  # type: ignore[func-returns-value]
        lambda folder: (
            AnalystKey.load(folder / "key").owner,
            AnalystKey.load(folder / "key").public.raw,
        ),
    ),
    "a public key": Kind(
        lambda folder: KEY.public.save(folder / "key") or folder / "key",  # type: ignore[func-returns-value]
        lambda folder: PublicKey.load(folder / "key"),
    ),
    "a signed query": Kind(
        make_signed,
        lambda folder: (
            verify(
                SignedQuery.from_bytes((folder / "signed.json").read_bytes()), RING, at(1)
            ).content
        ),
    ),
    "a curator's budget": Kind(make_budget, read_budget),
    "mechanisms beside a survey": Kind(
        make_survey,
        lambda folder: write_questionnaire(read_questionnaire(folder / "out1.csv.toml")),
    ),
    "the record of randomizations": Kind(
        make_record,
        lambda folder: TomlFile.read(record_file(folder / "answers.csv"), _refusal).made(_entries),
    ),
}


def opened(path: Path) -> list[str]:
    """What this process has open of a file and its journals. A connection that nobody closed is
    open until garbage is collected, and until then others may find the file locked."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the folder itself
            found.append(str(each.readlink()))
    return [name for name in found if name.startswith(str(path))]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", KINDS)
def test_a_damaged_file_is_refused_in_one_line_or_means_the_same(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    path = kind.make(tmp_path)
    content = path.read_bytes()
    meaning = kind.read(tmp_path)
    path.write_bytes(content)
    refused = 0
    for what, changed in damages(content, N_DAMAGES, 25, kind.cuts):
        path.write_bytes(changed)
        for beside in path.parent.glob(path.name + "-*"):  # a journal of the file before
            beside.unlink()
        try:
            found = kind.read(tmp_path)
        except DeniableError as error:
            refused += 1
            assert "\n" not in str(error), what  # noqa: PT017 - refused or not, it is judged
            assert len(str(error)) < 1000, what  # noqa: PT017
        else:
            assert kind.same(meaning, found), f"{what}: silently another meaning"
        if content.startswith(b"SQLite") and name != "a person's vault":  # which its device reads
            assert not opened(path), f"{what}: the file is left open"
    path.write_bytes(content)
    assert kind.same(meaning, kind.read(tmp_path))
    assert refused > 5 or name == "a person's vault", "damage of this kind is hardly ever noticed"


def test_a_damaged_schema_of_a_state_is_refused_in_one_line(tmp_path: Path) -> None:
    """One bit of a column's name: SQLite's own check of the pages does not see it, but the check
    sums know the columns."""
    path = make_state(tmp_path)
    content = path.read_bytes()
    assert content.count(b"proxy INTEGER PRIMARY KEY, name TEXT") == 1
    path.write_bytes(
        content.replace(b"INTEGER PRIMARY KEY, name TEXT", b"INTEGER PRIMARY KEY, nqme TEXT", 1)
    )
    with pytest.raises(
        StateError,
        match=r"state.db is damaged: the rows of proxies do not fit their check sum. Restore the"
        r" file from a backup$",
    ):
        State(path, QUERY.proxies)
