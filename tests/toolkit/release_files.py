# mypy: ignore-errors
# (It is written for the code of the release, not for this one.)
"""Files as a release leaves them, for tests that a later one reads them with equal results.

Run with the code of that release, once, into tests/vectors:

    git archive 557c917 | tar -x -C OLD
    PYTHONPATH=OLD/src:OLD/tests python tests/toolkit/release_files.py tests/vectors/release-0.1.0.tar.xz

The archive holds the files of a moment in the middle of the work (an aggregator's state and two
logs, a proxy's folder, a device's store, a ring), and `expected.json`: what the release itself made
of them when it went on.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from deniable.aggregator.operations.relay import order_relay
from deniable.aggregator.web.tokens import add_token
from deniable.client.storage.store import Store
from deniable.proxy.board import Board
from deniable.proxy.intake.uploads import Intake, IntakeRules, Upload
from deniable.queries.channels import channels_of
from deniable.queries.signed.signing import sign
from deniable.service.tokens import TokenStore
from toolkit.crowds import KEY, RING, Crowd, minute_query
from toolkit.devices import asked, at, make_device, signed
from toolkit.shares import body_of, make_columns

EPOCH = 3
MOST_MESSAGES = 1 << 20


def make_aggregator(folder: Path) -> dict[str, Any]:
    """A state with closed, open and waiting epochs, results, tokens and relays, and two logs that
    hold more than it has read."""
    folder.mkdir()
    crowd = Crowd(folder, minute_query(grace="1 h"), seed=7)
    engine = crowd.engine()
    assert crowd.state is not None
    tokens = {
        role: add_token(crowd.state.connection, f"the {role}", role, crowd.now)
        for role in ("analyst", "reader")
    }
    with crowd.state.transaction():
        order_relay(crowd.state.connection, crowd.query.id, crowd.query.serial, "publish", 2)
    for epoch in range(4):
        crowd.answer([epoch, 1, 2] * 20, epoch)
    crowd.mark(3)
    crowd.now += 4 * 60
    engine.drain()
    shares = crowd.split([5] * 12, epoch=4)
    crowd.append(0, shares[0], epoch=4)  # these wait for those of the other proxy
    engine.drain()
    crowd.append(1, shares[1][:, :9], epoch=4)  # and these come after the copy
    crowd.answer([6] * 8, epoch=5)
    crowd.mark(6)
    crowd.close_all()
    shutil.copytree(folder, folder.with_name("aggregator-after"))
    later = Crowd(folder.with_name("aggregator-after"), crowd.query, seed=8)
    later.now = crowd.now + 3 * 60
    engine = later.engine(publish_query=False)
    engine.drain()
    assert later.state is not None
    document = {
        "now": later.now,
        "query": sign(crowd.query, KEY).to_bytes().decode(),
        "tokens": tokens,
        "windows": [window.to_dict() for window in later.windows()],
        "counts": later.counts().tolist(),
        "accounts": [later.accounts(epoch) for epoch in range(6)],
    }
    later.close_all()
    shutil.rmtree(folder.with_name("aggregator-after"))
    return document


def make_proxy(folder: Path) -> dict[str, Any]:
    """A proxy's folder with blocks in the log, shares in the spool, tokens and a query on the
    board."""
    query = minute_query()
    now = query.schedule.origin + EPOCH * 60 + 5
    rules = IntakeRules(threshold=100, grace=600)
    intake = Intake(folder, rules, lambda: now)
    intake.set_channels(channels_of([(query.header, None)]))
    tokens = TokenStore(folder / "tokens.db")
    made = {role: tokens.add(role)[0] for role in ("device", "operator", "reader", "collector")}
    tokens.close()
    board = Board(folder / "queries.db", lambda: now)
    content = sign(query, KEY).to_bytes()
    board.publish(query.id, content)
    relayed = board.content
    board.close()
    bodies = [body_of(query, EPOCH, make_columns(query, EPOCH, n)[0]) for n in (100, 30)]
    for body in bodies:
        intake.take([Upload(b"ann", MOST_MESSAGES, body)])
        intake.tick()  # the first hundred are flushed, the others wait
    document = {
        "now": now,
        "tokens": made,
        "query": content.decode(),
        "board": relayed.decode(),
        "bodies": [body.hex() for body in bodies],
        "waiting": intake.n_waiting,
        "ids": intake.n_ids,
    }
    intake.close()
    return document


def make_client(folder: Path) -> dict[str, Any]:
    """A vault and its store, after three answers to a query whose permanent answer is kept."""
    folder.mkdir()
    query = asked(memoize=True)
    device = make_device(folder, query)
    for epoch in range(3):
        device.answer(signed(query), at(epoch))
    with Store(folder / "ann.db.client", durable=False).transaction() as transaction:
        spent = str(transaction.charges.spent_on(query.analyst, query.id))
        waiting = {
            proxy: [
                share.record.hex() for share in transaction.outbox.due_shares(proxy, 1 << 40, 100)
            ]
            for proxy in query.proxies
        }
    return {"query": signed(query).to_bytes().decode(), "spent": spent, "waiting": waiting}


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    return member.replace(uid=0, gid=0, uname="", gname="", mtime=0, deep=False)


def main(target: Path) -> None:
    """Make everything, and pack it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected = {
            "aggregator": make_aggregator(folder / "aggregator"),
            "proxy": make_proxy(folder / "proxy"),
            "client": make_client(folder / "client"),
        }
        RING.save(folder / "ring.json")
        (folder / "expected.json").write_text(json.dumps(expected))
        with tarfile.open(target, "w:xz", preset=9) as archive:
            for path in sorted(folder.rglob("*")):
                if (
                    path.is_file()
                    and not path.name.endswith(("-shm", ".lock"))
                    and path.name != "lock"
                ):
                    archive.add(path, str(path.relative_to(folder)), filter=_without_owner)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
