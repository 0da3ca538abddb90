"""From ten thousand people to a thousand million: `python benchmarks/scale.py` prints the tables of
docs/scale.md.

They come from the arithmetic of `deniable size` and from the queues of `deniable.sizing.queueing`,
with the figures that the other benchmarks measured. Nothing is run, so they are the same
everywhere, and a test compares them with the page.

`--real` runs the real thing instead, as far as two cores go: proxies and an aggregator as
processes, and ten thousand devices that each send their own share to each proxy over HTTP, at the
moments at which devices do. More of them come than the proxies can take at once. First what an
upload costs on this machine is measured with one proxy; from that the model predicts when the
proxies will have taken all, and when the result will be there; then both are measured, and the
ratios are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from deniable.queries.query import Query
from deniable.queries.schedule import Schedule, spoken_duration
from deniable.sizing.demand import Demand
from deniable.sizing.figures import SizingFigures
from deniable.sizing.queueing import Stations, simulate
from deniable.sizing.result import Sizing
from deniable.sizing.supply import size

STEPS = [10**exponent for exponent in range(4, 10)]
ASKED = {"every": 3600, "sampling": 0.6, "poll": 600}
COLLECTED = 8192


def deployment(clients: int, collected: int = 1) -> Sizing:
    """The simplest that serves so many: devices come straight to one process of each proxy for as
    long as one suffices."""
    demand = Demand(clients, collected=collected, **ASKED)  # type: ignore[arg-type]
    straight = size(demand)
    return straight if straight.cells == 1 and collected == 1 else size(demand, front=True)


def rows() -> Iterator[tuple[str, Sizing]]:
    for clients in STEPS:
        yield "straight" if not deployment(clients).front else "front", deployment(clients)
    for clients in STEPS[-2:]:
        yield "collected", deployment(clients, COLLECTED)


def people(clients: float) -> str:
    """In steps of a thousand, with two digits that count."""
    for name, unit in (("million", 1e6), ("thousand", 1e3)):
        if clients >= unit:
            return (
                f"{clients / unit:,.2g} {name}"
                if clients < 100 * unit
                else f"{clients / unit:,.0f} {name}"
            )
    return f"{clients:.0f}"


def number(load: float) -> str:
    return f"{load:,.0f}" if load >= 100 else f"{load:.2g}"


def table() -> Iterator[str]:
    """For each step: what one of everything would do, what is planned, and how that behaves."""
    columns = [
        "people",
        "shares come",
        "peak, shares/s",
        "runs out first",
        "then",
        "lost with one of each",
        "planned",
    ]
    columns += ["busiest at the peak", "result after"]
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for how, made in rows():
        demand = made.demand
        ranked = sorted(made.resources, key=lambda each: -each.load)
        alone = simulate(demand, Stations.of(made, cells=1, brokers=1))
        run = simulate(demand, Stations.of(made), made.cells)
        first = f"{ranked[0].name}, {number(ranked[0].load)}"
        brokers = f", {made.brokers} brokers" if made.brokers else ""
        collectors = (
            f", {made.collector_processes:,} collectors" if made.collector_processes else ""
        )
        planned = (
            f"{made.proxy_processes:,} proxy processes{collectors}{brokers},"
            f" {made.aggregator_cores:,g} cores count"
        )
        busiest = max(run.utilisation, key=lambda name: run.utilisation[name])
        cells = [f"10^{round(np.log10(demand.clients))}", how, f"{demand.peak:,.0f}", first]
        cells += [f"{ranked[1].name}, {number(ranked[1].load)}", f"{alone.late:.0%}", planned]
        cells += [f"{busiest} {run.utilisation[busiest]:.0%}", f"{run.latency:,.0f} s"]
        yield f"| {' | '.join(cells)} |"


def ladder() -> Iterator[str]:
    """How many people one of each serves."""
    yield "| one … serves | straight | behind a front | collected |"
    yield "|---|---|---|---|"
    reference = 10**6
    ways = [size(Demand(reference, **ASKED)), size(Demand(reference, **ASKED), front=True)]  # type: ignore[arg-type]
    ways.append(size(Demand(reference, collected=COLLECTED, **ASKED), front=True))  # type: ignore[arg-type]
    for i, resource in enumerate(ways[0].resources):
        yield (
            f"| {resource.name} |"
            f" {' | '.join(people(way.clients_at_full(way.resources[i])) for way in ways)} |"
        )


BEFORE = SizingFigures(uploads=400, uploads_kept=900, polls=2300)
"""What the previous release took: benchmarks/uploads.py measures it beside this one."""


def comparison() -> Iterator[str]:
    """Processes of both proxies that the previous release needed, and that are needed now."""
    yield "| people | straight, before | straight | front, before | front | collected |"
    yield "|---|---|---|---|---|---|"
    for clients in STEPS[-3:]:
        demand = Demand(clients, **ASKED)  # type: ignore[arg-type]
        cells = [
            f"{size(demand, figures, front=front).proxy_processes:,}"
            for front in (False, True)
            for figures in (BEFORE, SizingFigures())
        ]
        made = deployment(clients, COLLECTED)
        cells.append(f"{made.proxy_processes:,} and {made.collector_processes:,} collectors")
        yield f"| 10^{round(np.log10(clients))} | {' | '.join(cells)} |"


def figures_table() -> Iterator[str]:
    """What is reckoned with."""
    yield "| figure | value | of what | from |"
    yield "|---|---|---|---|"
    for name, (unit, source) in SizingFigures.explain().items():
        yield f"| `{name}` | {getattr(SizingFigures(), name):,g} | {unit} | {source} |"


# --- the real thing

N_CLIENTS = 10_000
EVERY, POLL, WITHIN, GRACE = 30, 5, 10, 8
AT_ONCE = 128


async def _crowd(
    addresses: Sequence[tuple[str, int]],
    requests: Sequence[Sequence[bytes]],
    moments: np.ndarray,
    start: float,
) -> float:
    """Send everybody's shares at their moments; gives when the last was acknowledged."""
    order = np.argsort(moments)

    async def proxy(address: tuple[str, int], contents: Sequence[bytes]) -> None:
        due: asyncio.Queue[int | None] = asyncio.Queue()

        async def worker() -> None:
            reader, writer = await asyncio.open_connection(*address)
            while (i := await due.get()) is not None:
                writer.write(contents[i])
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 202"), head
                await reader.readexactly(
                    int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                )
            writer.close()

        workers = [asyncio.create_task(worker()) for _ in range(AT_ONCE)]
        for i in order.tolist():
            ahead = start + moments[i] - time.time()
            if ahead > 0:
                await asyncio.sleep(ahead)
            due.put_nowait(i)
        for _ in workers:
            due.put_nowait(None)
        await asyncio.gather(*workers)

    await asyncio.gather(
        *(proxy(address, contents) for address, contents in zip(addresses, requests, strict=True))
    )
    return time.time()


def requests_of(token: str, content: bytes) -> list[bytes]:
    """One request for each of everybody's shares."""
    each = len(content) // N_CLIENTS
    head = f"POST /v1/shares HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    head += f"Content-Type: application/octet-stream\r\nContent-Length: {each}\r\n\r\n"
    return [head.encode() + content[i * each : (i + 1) * each] for i in range(N_CLIENTS)]


def real() -> None:
    root = Path(__file__).parents[1]
    sys.path[:0] = [str(root), str(root / "tests")]
    from urllib.parse import urlsplit  # noqa: PLC0415 - all of this is for the real run alone

    from benchmarks.proxy import cpu_seconds  # noqa: PLC0415
    from benchmarks.uploads import calibrate  # noqa: PLC0415

    from deniable.client.encoding import upload_body  # noqa: PLC0415
    from deniable.client.simulation.fleet import Fleet  # noqa: PLC0415
    from toolkit.queries import make_query  # noqa: PLC0415
    from toolkit.servers.systems import running_system  # noqa: PLC0415

    (found,) = calibrate(3000, AT_ONCE, None)["uploads_kept"]
    cores = os.cpu_count() or 1
    # Both proxies and the sender share the cores; a proxy alone gets no further than one of them.
    rate = min(found.clock, cores / (2 / found.processor + 2 / found.sender))
    demand = Demand(N_CLIENTS, every=EVERY, poll=POLL, within=WITHIN, grace=GRACE)
    figures = SizingFigures()
    stations = Stations(
        proxy=rate,
        log=1e6,
        aggregator=figures.embedded,
        threshold=2000,
        deadline=1,
        tick=figures.tick,
        step=figures.step,
    )
    predicted = simulate(demand, stations, epochs=1, slot=0.1)

    def ask(proxies: Sequence[str]) -> Query:
        origin = int(time.time()) + 4
        return make_query(
            proxies=proxies,
            schedule=Schedule(origin, origin + 3600, EVERY, EVERY, EVERY),
            sampling=1.0,
            minimum_cohort=1,
        )

    random = np.random.default_rng(7)
    first, drawn = random.integers(0, POLL, N_CLIENTS), random.integers(0, WITHIN, N_CLIENTS)
    moments = first + POLL * -(-drawn // POLL) + random.random(N_CLIENTS)
    intake = {"threshold": 2000, "deadline": 1, "grace": GRACE, "skew": 60}
    with (
        tempfile.TemporaryDirectory() as name,
        running_system(Path(name), ask, 2, intake) as system,
    ):
        query = system.query
        shares = Fleet(query, N_CLIENTS).answer(0, random.integers(0, 11, N_CLIENTS))
        requests = [
            requests_of(token, upload_body(query, 0, columns))
            for token, columns in zip(system.tokens, shares.columns, strict=True)
        ]
        places = [urlsplit(url) for url in query.proxies]
        arrived: list[float] = []

        def follow() -> None:
            window = next(iter(system.analyst.follow(query, after=0)))
            arrived.append(time.time())
            assert window.n == N_CLIENTS, window.n

        follower = threading.Thread(target=follow)
        follower.start()
        start = query.schedule.origin
        pids = [system.services.pid(each.name) for each in system.services.proxies]
        used = sum(map(cpu_seconds, pids))
        addresses = [(place.hostname or "", place.port or 0) for place in places]
        drained = asyncio.run(_crowd(addresses, requests, moments, start)) - start
        used = (sum(map(cpu_seconds, pids)) - used) / len(pids)
        follower.join(120)
        latency = arrived[0] - query.schedule.end_of_epoch(0)
    spoken = (
        f"answers within {spoken_duration(WITHIN)}, epochs of {spoken_duration(EVERY)}, grace"
        f" {spoken_duration(GRACE)}"
    )
    print(
        f"{N_CLIENTS:,} devices, 2 proxies, {spoken}; {cores} cores, load average"
        f" {os.getloadavg()[0]:.1f}"
    )
    print(
        f"one proxy alone: {found.clock:,.0f} uploads a second, {found.processor:,.0f} a second of"
        " its processor time"
    )
    print(
        f"two proxies and the sender on {cores} cores: {rate:,.0f} uploads a second expected at"
        " each"
    )
    for what, model, measured in (
        ("all shares taken, seconds after the epoch's beginning", predicted.drained, drained),
        (
            "taken a second at each proxy",
            N_CLIENTS / (predicted.drained - float(moments.min())),
            N_CLIENTS / (drained - float(moments.min())),
        ),
        ("processor seconds of a proxy for all of them", N_CLIENTS / found.processor, used),
        ("result, seconds after the epoch's end", predicted.latency, latency),
    ):
        print(
            f"  {what:<55} predicted {model:8.1f}   measured {measured:8.1f}   ratio"
            f" {measured / model:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--real", action="store_true", help="compare the model with a real run on this machine"
    )
    if parser.parse_args().real:
        real()
        return
    for each in (ladder, comparison, table, figures_table):
        print("\n".join(each()), end="\n\n")


if __name__ == "__main__":
    main()
