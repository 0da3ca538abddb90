"""What a device takes: bytes to install, seconds to start and memory, beside an installation with
all that estimates.

    python benchmarks/footprint.py

Both are installed from this source into fresh environments. The device answers one query about a
vault of 100 rows.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import venv
from pathlib import Path

SOURCE = Path(__file__).parents[1]
DEVICE = """
import json, resource, sys, tempfile, time
from pathlib import Path
begin = time.perf_counter()
from deniable.client.device import Device
from deniable.client.policy import Policy
from deniable.client.storage.store import Store
from deniable.client.vaults.vault import Vault
from deniable.queries.columns.column import Column
from deniable.queries.signed.key_ring import KeyRing, TrustedKey
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.signing import sign
loaded = time.perf_counter() - begin
folder = Path(tempfile.mkdtemp())
vault = Vault.create(folder / "ann.db")
vault.import_rows("trips", {"km": "REAL"}, [(float(i),) for i in range(100)])
vault.grant("trips", ["km"])
key = AnalystKey("City", bytes(32))
query = Query("q", "City", "SELECT km FROM trips", [Column("km", ["[0,50)", "[50,100)"])], Schedule(0, 10**9, 600, 600, 600),
              ["https://one.example", "https://two.example"], {"name": "TwoCoin", "p": 0.5, "q": 0.5})
policy = Policy(KeyRing([TrustedKey(key.public)]), dict.fromkeys(query.proxies, "token"))
receipt = Device(vault, policy, Store(folder / "store")).answer(sign(query, key), 600)
assert receipt.outcome == "answered", receipt
ready = time.perf_counter() - begin
heavy = {"scipy", "deniable.estimation", "deniable.planning", "deniable.aggregator"} & set(sys.modules)
assert not heavy, heavy
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"import": loaded, "first answer": ready, "memory": memory}))
"""


def installed(folder: Path, what: str) -> tuple[Path, float]:
    """A fresh environment with the package; gives its Python and the megabytes that were
    installed."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    packages = next(folder.glob("lib/python3*/site-packages"))
    before = size(packages)
    subprocess.run([python, "-m", "pip", "install", "-q", what], check=True, cwd=SOURCE)  # noqa: S603 - our own
    return python, (size(packages) - before) / 1e6


def size(folder: Path) -> int:
    return sum(
        path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    )


def main() -> None:
    print("what is installed          megabytes   import, s   first answer, s   memory, MiB")
    megabytes = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, what in (("deniable[service]", ".[service]"), ("deniable", ".")):
            python, megabytes[name] = installed(Path(folder, name), what)
            runs = []
            for _ in range(5):
                done = subprocess.run(  # noqa: S603 - our own
                    [python, "-c", DEVICE], check=True, capture_output=True, text=True
                )
                runs.append(json.loads(done.stdout))
            best = {key: min(run[key] for run in runs) for key in runs[0]}
            print(
                f"{name:<26} {megabytes[name]:9.1f} {best['import']:11.2f}"
                f" {best['first answer']:17.2f} {best['memory']:13.0f}"
            )
    ratio = megabytes["deniable"] / megabytes["deniable[service]"]
    print(f"a device installs {ratio:.2f} of what it did with SciPy and the services")


if __name__ == "__main__":
    main()
