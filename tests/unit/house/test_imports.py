"""The doors between the rooms: who may import whom (docs/architecture.md)."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import deniable
from deniable.queries.columns.column import Column
from deniable.queries.signed.key_ring import KeyRing, TrustedKey
from deniable.queries.signed.signing import sign
from toolkit.devices import KEY, asked, at, make_vault
from toolkit.servers import loopback
from toolkit.servers.collectors import CollectorProcess
from toolkit.servers.proxies import ProxyProcess, query_of_today
from toolkit.shares import body_of, make_columns

SOURCE = Path(deniable.__file__).parent

# A room imports only rooms above it in this list.
ROOMS = [
    "renames",
    "exports",
    "error_bases",
    "errors",
    "documents",
    "registries",
    "exact_draws",
    "randomness",
    "scripted_randomness",
    "checks",
    "checksums",
    "counts",
    "toml_file",
    "matrices",
    "numerics",
    "display",
    "results",
    "table_file",
    "wire",
    "estimation",
    "mechanisms",
    "privacy",
    "planning",
    "sql",
    "queries",
    "service",
    "logs",
    "client",
    "proxy",
    "aggregator",
    "analyst",
    "console",
    "survey",
    "curator",
    "graphs",
    "release",
    "local",
    "poll",
    "audit",
    "reproduce",
    "sizing",
    "devtools",
    "cli",
]
CLOSED = {
    "client": {"estimation", "aggregator"},
    "proxy": (
        set(ROOMS)
        - {
            "wire",
            "queries",
            "service",
            "logs",
            "errors",
            "checks",
            "checksums",
            "documents",
            "toml_file",
            "proxy",
        }
    ),
}
# Heavy or sensitive libraries, and the only rooms that may import them.
LIBRARIES = {
    "confluent_kafka": {"logs", "aggregator", "devtools"},
    "pyspark": {"aggregator"},
    "opendp": {"curator"},
}
PURE = {"mechanisms", "estimation", "privacy", "planning"}
INPUT_OUTPUT = {
    "socket",
    "http",
    "urllib",
    "requests",
    "httpx",
    "sqlite3",
    "subprocess",
    "shutil",
    "tempfile",
    "logging",
}

FILES = sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imported_modules(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide which room is entered"
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_room_imports_only_rooms_above_it(path: Path) -> None:
    room = room_of(path)
    if room in ("__init__", "__main__"):
        return
    assert room in ROOMS, f"{room} has no place in the plan of the house"
    for module in imported_modules(path):
        top, _, rest = module.partition(".")
        if top != "deniable":
            assert room in LIBRARIES.get(top, {room}), (
                f"{module} may only be imported in {LIBRARIES.get(top)}"
            )
            assert not (room in PURE and top in INPUT_OUTPUT), (
                f"{room} does no input or output, and imports {module}"
            )
            continue
        target = rest.partition(".")[0]
        if not target:  # the public surface: only the outermost room uses it
            assert room == "cli", f"{room} imports the whole package"
            continue
        assert ROOMS.index(target) <= ROOMS.index(room), (
            f"{room} imports {target}, which lies below it"
        )
        assert target not in CLOSED.get(room, set()), f"{room} must not be able to reach {target}"


def test_importing_does_not_load_scipy_or_frames() -> None:
    heavy = ["scipy", "pandas", "polars", "pyarrow", "matplotlib", "rich", "click"]
    code = f"import sys, deniable; print([m for m in {heavy!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert out.stdout.strip() == "[]"


# --- what a running process has loaded: the wall that counts

READS_ANSWERS = {
    "mechanisms",
    "estimation",
    "planning",
    "privacy",
    "aggregator",
    "analyst",
    "client",
    "local",
}
HEAVY = {"scipy", "pandas", "polars", "pyarrow", "matplotlib"}
DUMP = """
import atexit, os, sys
def dump():
    with open(os.path.join(os.environ["LOADED"], str(os.getpid())), "w") as file:
        file.write("\\n".join(sys.modules))
atexit.register(dump)
{planted}
"""


def closed_doors(modules: set[str], rooms: set[str], libraries: set[str]) -> set[str]:
    """Which of the modules belong to rooms or libraries that must not be loaded."""
    tops = {module.partition(".")[0] for module in modules} & libraries
    inside = {
        part[1]
        for module in modules
        if len(part := module.split(".")) > 1 and part[0] == "deniable"
    }
    return tops | (inside & rooms)


@pytest.fixture
def dumping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Callable[[], set[str]]]:
    """Have every Python process that is started leave the names of the modules it has loaded when
    it ends."""

    def prepare(planted: str = "") -> Callable[[], set[str]]:
        hook, loaded = tmp_path / "hook", tmp_path / "loaded"
        for folder in (hook, loaded):
            folder.mkdir()
        (hook / "sitecustomize.py").write_text(DUMP.format(planted=planted))
        monkeypatch.setenv("LOADED", str(loaded))
        monkeypatch.setenv("PYTHONPATH", f"{SOURCE.parent}:{hook}")
        return lambda: {name for file in loaded.iterdir() for name in file.read_text().splitlines()}

    return prepare


def run_a_proxy(folder: Path) -> None:
    """A proxy that takes a query and a share, and passes the share on."""
    query = query_of_today()
    with ProxyProcess(folder / "proxy") as proxy:
        proxy.publish(query)
        epoch = query.schedule.epochs_over(int(time.time()))
        body = body_of(query, epoch, make_columns(query, epoch, 3)[0])
        answer = loopback.post(
            f"{proxy.address}/v1/shares", content=body, headers=proxy.token("device", 10)
        )
        assert answer.status_code == 202, answer.text
        assert proxy.stop() == 0
        assert proxy.logged().shape[1] == 3


def test_a_running_proxy_has_loaded_nothing_that_could_read_an_answer(
    tmp_path: Path, dumping: Callable[..., Callable[[], set[str]]]
) -> None:
    modules = dumping()
    run_a_proxy(tmp_path)
    assert {"deniable.proxy.intake.uploads", "deniable.queries.header"} <= modules()
    assert closed_doors(modules(), READS_ANSWERS, HEAVY) == set()


@pytest.mark.slow
def test_a_running_collector_and_its_proxy_s_workers_have_loaded_nothing_that_could_read_an_answer(
    tmp_path: Path, dumping: Callable[..., Callable[[], set[str]]]
) -> None:
    modules = dumping()
    query = query_of_today()
    with ProxyProcess(tmp_path / "proxy", "workers = 1\n") as proxy:
        proxy.publish(query)
        headers = proxy.token("device", 10)
        with CollectorProcess(tmp_path / "collector", proxy) as collector:
            epoch = query.schedule.epochs_over(int(time.time()))
            body = body_of(query, epoch, make_columns(query, epoch, 3)[0])
            answer = loopback.post(f"{collector.address}/v1/shares", content=body, headers=headers)
            assert answer.json() == {"accepted": 3, "already": 0}
            assert collector.stop() == 0
        assert proxy.stop() == 0
    assert {
        "deniable.proxy.collecting.collector",
        "deniable.proxy.web.workers",
        "deniable.proxy.collecting.uplink",
    } <= modules()
    assert closed_doors(modules(), READS_ANSWERS, HEAVY) == set()


def test_a_door_that_is_opened_behind_three_others_is_seen(
    tmp_path: Path, dumping: Callable[..., Callable[[], set[str]]]
) -> None:
    # which loads mechanisms, which load estimation
    modules = dumping("import deniable.queries.query")
    run_a_proxy(tmp_path)
    assert {"mechanisms", "privacy"} <= closed_doors(modules(), READS_ANSWERS, HEAVY)


DEVICE = """
import sys
from pathlib import Path
from deniable.client.device import Device
from deniable.client.policy import Policy
from deniable.client.storage.store import Store
from deniable.client.vaults.vault import Vault
from deniable.privacy.ledger import Limit
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.signing import SignedQuery
folder = Path(sys.argv[1])
for file in sorted(folder.glob("*.signed.json")):
    signed = SignedQuery.from_bytes(file.read_bytes())
    policy = Policy(
        ring=KeyRing.load(folder / "ring.json"),
        proxies=dict.fromkeys(signed.unverified().proxies, "token"),
        limits=(Limit(1000),),
        epsilon_per_answer=100,
    )
    device = Device(Vault(folder / "ann.db"), policy, Store(folder / f"{file.name}.client"))
    receipt = device.answer(signed, int(sys.argv[2]))
    assert receipt.outcome == "answered", str(receipt)
"""
MECHANISMS: list[dict[str, object]] = [
    {"name": "TwoCoin", "p": 0.5, "q": 0.5},
    {"name": "OptimizedUnary", "epsilon": 2.0},
    {"name": "DirectEncoding", "epsilon": 2.0},
    {"name": "LaplaceEncoding", "epsilon": 2.0},
    {"name": "DistanceSensitive", "epsilon": 2.0},
    {"name": "SubsetSelection", "epsilon": 2.0},
    {"name": "HierarchicalRanges", "epsilon": 2.0, "fan_outs": [4, 2]},
    {"name": "HadamardResponse", "epsilon": 2.0},
    {"name": "LocalHashing", "epsilon": 2.0},
    {"name": "BasicRappor", "f": 0.5, "p": 0.4, "q": 0.6},
]


def test_a_device_that_answers_has_loaded_nothing_that_solves_plans_or_counts(
    tmp_path: Path, dumping: Callable[..., Callable[[], set[str]]]
) -> None:
    folder = tmp_path / "device"
    folder.mkdir()
    buckets = [Column("distance", [f"[{i},{i + 1})" for i in range(6)], other=True)]
    for i, mechanism in enumerate(MECHANISMS):
        query = asked(
            id=f"query-{i}",
            mechanism=mechanism,
            columns=buckets,
            memoize=mechanism["name"] == "BasicRappor",
        )
        (folder / f"{i}.signed.json").write_bytes(sign(query, KEY).to_bytes())
    KeyRing([TrustedKey(KEY.public)]).save(folder / "ring.json")
    make_vault(folder / "ann.db", [3.5])
    modules = dumping()
    command = [sys.executable, "-c", DEVICE, str(folder), str(at(0))]
    subprocess.run(command, check=True)  # noqa: S603 - our own code
    assert {"deniable.client.device", "deniable.mechanisms.protocols.hashing"} <= modules()
    assert (
        closed_doors(modules(), {"estimation", "planning", "aggregator", "analyst", "proxy"}, HEAVY)
        == set()
    )


def test_without_scipy_a_device_works_and_whoever_estimates_is_told_what_to_install(
    tmp_path: Path,
) -> None:
    """SciPy is hidden from the process: a report is drawn, and an estimate names the extra, in
    Python and on the command line."""
    hidden = (
        "import importlib.util, sys\nreal = importlib.util.find_spec\nimportlib.util.find_spec ="
        " lambda name, *rest: None if name.startswith('scipy') else real(name,"
        " *rest)\nsys.modules['scipy'] = None\n"
    )
    program = (
        hidden + "from deniable import DirectEncoding\nfrom deniable.errors import"
        " MissingExtraError\nimport deniable.client.device\nsurvey = DirectEncoding(3,"
        " 1.0)\nreports = survey.privatize([0, 1, 2])\ntry:\n    survey.estimate(reports)\nexcept"
        " MissingExtraError as error:\n    print(error)\nsys.argv = ['deniable', 'plan',"
        " '--population', '1000', '--epsilon', '1', '--margin', '0.1']\nfrom deniable.cli import"
        " main\nmain()\n"
    )
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "estimating needs SciPy: pip install 'deniable[estimation]'\n"
    assert done.stderr == "deniable: estimating needs SciPy: pip install 'deniable[estimation]'\n"
    assert done.returncode == 2
