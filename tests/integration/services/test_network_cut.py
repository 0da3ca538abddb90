"""The network between hosts is cut and mended: uploads and readings go on where they were, and
nothing counts twice."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from toolkit.servers.namespaces import ADDRESSES, two_hosts
from toolkit.servers.proxies import ProxyProcess, query_of_today, signed
from toolkit.shares import body_of, make_columns

FAR_SIDE = """
import json, sys
from deniable.client.http_transport import HttpTransport
from deniable.errors import UploadError
from deniable.logs.share_logs import HttpLog
import httpx
address, token, reader = sys.argv[1:]
transport = HttpTransport(timeout=1.0)
log = HttpLog(address, reader, httpx.Client(timeout=1.0))
position = ()
print("ready", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "send" in asked:
        try:
            transport.send(address, token, bytes.fromhex(asked["send"]))
            said = {"taken": True}
        except UploadError as error:
            said = {"taken": False, "error": str(error)}
    elif "publish" in asked:
        headers = {"Authorization": f"Bearer {asked['token']}"}
        said = {"status": httpx.put(f"{address}/v1/queries/{asked['id']}", content=asked["publish"], headers=headers).status_code}
    else:
        reading = log.read(position, 1 << 24)
        assert not reading.problem or reading.position == position
        position = reading.position
        said = {"problem": reading.problem, "blocks": [block.hex() for block in reading.blocks]}
    print(json.dumps(said), flush=True)
"""


@pytest.mark.slow
def test_a_cut_between_devices_and_a_proxy_and_between_it_and_a_reader_loses_and_repeats_nothing(
    tmp_path: Path,
) -> None:
    query = query_of_today()
    epoch = query.schedule.epochs_begun(int(time.time())) - 1
    with two_hosts() as cable:
        proxy = ProxyProcess(tmp_path, f'host = "{ADDRESSES[0]}"\n[intake]\nthreshold = 1\n')
        inside = ["ip", "netns", "exec"]
        proxy._command = [*inside, cable.hosts[0], *proxy._command]
        with proxy:
            tokens = [
                proxy.token(role, 1 << 20)["Authorization"].removeprefix("Bearer ")
                for role in ("device", "reader", "operator")
            ]
            command = [
                *inside,
                cable.hosts[1],
                sys.executable,
                "-c",
                FAR_SIDE,
                proxy.address,
                *tokens[:2],
            ]
            far = subprocess.Popen(  # noqa: S603 - our own code
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            try:
                _play(far, cable, proxy, query, epoch, tokens[2])
            finally:
                far.kill()
                far.communicate()


def _play(far: Any, cable: Any, proxy: ProxyProcess, query: Any, epoch: int, operator: str) -> None:
    assert far.stdout.readline() == "ready\n"

    def ask(**what: Any) -> Any:
        far.stdin.write(json.dumps(what) + "\n")
        far.stdin.flush()
        return json.loads(far.stdout.readline())

    assert (
        ask(publish=signed(query).to_bytes().decode(), id=query.id, token=operator)["status"] == 201
    )
    waiting = [body_of(query, epoch, make_columns(query, epoch, 5)[0]).hex() for _ in range(8)]
    n_sent, failures, blocks, problems = len(waiting), 0, [], 0
    for turn in range(8):
        if turn in (2, 5):
            cable.cut()
        if turn in (4, 7):
            cable.mend()
        answer = ask(send=waiting[0])
        if answer["taken"]:
            waiting.pop(0)
        failures += not answer["taken"]
        reading = ask(read=True)
        blocks += reading["blocks"]
        problems += bool(reading["problem"])
    assert failures >= 3, "the cable was never cut"
    assert problems >= 3
    while waiting:
        assert ask(send=waiting.pop(0))["taken"]
    deadline = time.monotonic() + 30
    wanted = 5 * n_sent
    while sum(int.from_bytes(bytes.fromhex(block)[20:24], "little") for block in blocks) < wanted:
        assert time.monotonic() < deadline
        blocks += ask(read=True)["blocks"]
    assert sum(int.from_bytes(bytes.fromhex(block)[20:24], "little") for block in blocks) == wanted
    proxy.stop()
    assert proxy.logged().shape[1] == wanted
