"""A device in processes that are killed: `python killed_device.py FOLDER`, told what to do line by
line.

Each line is a JSON object: `now`, the device's time; and `step`, at the how manieth step of the
walk the process kills itself, or `delay`, after how many seconds it is killed from outside; neither
for a process that may end. One process is forked for each line, so that a kill costs milliseconds
and not the start of an interpreter. The answer is one line: the exit status, negative for a signal,
and the step at which it ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from deniable.client.device import Device
from deniable.client.http_transport import HttpTransport
from deniable.client.policy import Policy
from deniable.client.storage.store import Store
from deniable.client.vaults.vault import Vault
from deniable.privacy.ledger import Limit
from deniable.queries.signed.key_ring import KeyRing


def device_in(folder: Path) -> Device:
    """The device whose files are in the folder, as each of its processes opens it anew."""
    proxies = dict.fromkeys(json.loads((folder / "proxies.json").read_text()), "token")
    policy = Policy(
        KeyRing.load(folder / "ring.json"),
        proxies,
        epsilon_per_answer=100,
        limits=(Limit(10**6),),
        upload_within=0,
    )
    return Device(
        Vault.open(folder / "ann.db"), policy, Store(folder / "ann.db.client", durable=False)
    )


def live(folder: Path, task: dict[str, float], transport: HttpTransport, report: int) -> None:
    """One process of the device: ask, answer, upload; and die on the way if that is the task."""
    steps = 0

    def on_step(name: str) -> None:
        nonlocal steps
        steps += 1
        if steps == task.get("step"):
            os.write(report, name.encode())
            os.kill(os.getpid(), signal.SIGKILL)

    found = device_in(folder)
    isolated = bool(task.get("isolated"))
    device = Device(found.vault, found.policy, found.store, isolated=isolated, on_step=on_step)
    device.once(transport, int(task["now"]))


def main() -> None:
    folder = Path(sys.argv[1])
    # made once, for it takes longer than all the rest; each process opens connections of its own
    transport = HttpTransport()
    for line in sys.stdin:
        task = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            live(folder, task, transport, writing)
            os._exit(0)
        os.close(writing)
        if "delay" in task:
            time.sleep(task["delay"])
            os.kill(child, signal.SIGKILL)  # not waited for yet, so its number is nobody else's
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        step = os.read(reading, 100).decode()
        os.close(reading)
        print(json.dumps([status, step]), flush=True)  # noqa: T201 - this is how it answers


if __name__ == "__main__":
    main()
