"""Every protocol on one question, side by side: error by theory and by simulation, bytes, time, and
what a report gives away.

A mechanism takes part by itself if :meth:`Mechanism.from_epsilon` builds it; one of another package
is offered by an entry point in the group `deniable.mechanisms`. A protocol that is no `Mechanism`
has an entry point in the group `deniable.protocols`: a callable of (epsilon, values) that returns
something with `epsilon`, `privatize(values, source)` and `estimate(reports)`, whose result has
`proportions`. If it also has `expected_errors(n, proportions)`, there is a theory to compare with.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from importlib.metadata import entry_points
from itertools import product
from multiprocessing import get_context
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_epsilon, whole
from deniable.display import Bar, Display
from deniable.errors import DeniableError, ParameterError
from deniable.estimation.distances import euclidean, kantorovich, manhattan
from deniable.estimation.simplex import project
from deniable.estimation.surveys.one_person import guess
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.registry import PluginWarning, mechanism_by_name, mechanisms_by_epsilon
from deniable.randomness import seeded_source
from deniable.registries import is_own
from deniable.renames import reads_old_names
from deniable.results import Result

__all__ = [
    "GROUP",
    "METRICS",
    "ProtocolComparison",
    "ProtocolErrors",
    "compare_protocols",
    "known_protocols",
    "typical_proportions",
]

_Floats = NDArray[np.float64]
_Maker = Callable[[float, int], Any]
GROUP = "deniable.protocols"
_GUESSED = 4_000
"""How many reports are drawn to count the chance of a right guess, where there is no formula."""

METRICS: dict[str, Callable[[_Floats, _Floats], float]] = {
    "mse": lambda estimate, truth: float(((estimate - truth) ** 2).mean()),
    "manhattan": manhattan,
    "euclidean": euclidean,
    "kantorovich": lambda estimate, truth: kantorovich(project(estimate), truth),
}
"""How far estimated proportions are from the true ones; Kantorovich's distance projects them onto
the simplex first."""


@dataclass(frozen=True, eq=False)
class ProtocolErrors(Result):
    """One protocol at one epsilon."""

    protocol: str
    requested_epsilon: float
    epsilon: float
    """The actual loss of a report: at most the requested one."""
    theory: float | None
    """The expected error of the unbiased estimate; None where there is no formula, or the metric
    has none."""
    simulated: float
    """The mean error over the trials, by the protocol's own estimator."""
    simulated_stderr: float
    report_bytes: int | None
    seconds: float
    """Processor time to randomize and to estimate, per million reports."""
    guessed: float | None
    """The chance of guessing one person's value from the report, if all values were equally likely
    beforehand."""


@dataclass(frozen=True, eq=False)
class ProtocolComparison(Result, Sequence[ProtocolErrors]):
    """Protocols side by side: a sequence of :class:`ProtocolErrors` that can be printed, drawn
    (`plot`), and made a data frame (`to_frame`) or a document (`to_dict`)."""

    values: int
    population: int
    metric: str
    trials: int
    protocols: tuple[ProtocolErrors, ...]
    """By epsilon, then in the order of the protocols."""

    def __len__(self) -> int:
        return len(self.protocols)

    def __iter__(self) -> Iterator[ProtocolErrors]:
        return iter(self.protocols)

    @overload
    def __getitem__(self, place: int) -> ProtocolErrors: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[ProtocolErrors, ...]: ...
    def __getitem__(self, place: int | slice) -> ProtocolErrors | tuple[ProtocolErrors, ...]:
        return self.protocols[place]

    def _display(self, confidence: float = 0.95) -> Display:
        columns = tuple(field.name for field in fields(ProtocolErrors))
        rows = [tuple(getattr(each, name) for name in columns) for each in self]
        # two standard errors, and not an interval: squared errors are too skewed for one
        bars = [
            Bar(
                f"{each.protocol}, epsilon {each.requested_epsilon:g}",
                each.simulated,
                each.simulated - 2 * each.simulated_stderr,
                each.simulated + 2 * each.simulated_stderr,
            )
            for each in self
        ]
        return Display(columns, rows, (str(self).splitlines()[-1],), bars, self.metric)

    def __str__(self) -> str:
        rows = [("protocol", "epsilon", "error", "theory", "bytes")]
        for each in self:
            theory = "-" if each.theory is None else f"{each.theory:.3g}"
            size = "-" if each.report_bytes is None else str(each.report_bytes)
            rows.append((each.protocol, f"{each.epsilon:g}", f"{each.simulated:.3g}", theory, size))
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines = [
            "  ".join(
                cell.rjust(width) if column else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        said = f"{self.metric} of {self.values} proportions; {self.population:,} people"
        return "\n".join(
            [*lines, f"{said}; means of {self.trials} trials, drawn with two standard errors"]
        )


def known_protocols() -> dict[str, _Maker]:
    """Our protocols and those of other packages, which cannot reuse our names. One that cannot be
    loaded is left out."""
    kinds = mechanisms_by_epsilon().items()
    known: dict[str, _Maker] = {
        name: partial(mechanism_by_name, name)
        for name, kind in kinds
        if kind.exclusive and not kind.generic
    }
    for point in entry_points(group=GROUP):
        if point.name in known:
            raise ParameterError(
                "entry point", point.name, "is the name of a protocol of this package"
            )
        try:
            known[point.name] = point.load()
        # whatever a foreign module raises must not end the comparison of all
        except Exception as error:
            text = f"the protocol {point.value!r} cannot be loaded: {type(error).__name__}: {error}"
            warnings.warn(text, PluginWarning, stacklevel=2)
    return known


def _is_own(name: str) -> bool:
    return name in mechanisms_by_epsilon() and is_own(mechanisms_by_epsilon()[name])


def typical_proportions(values: int) -> _Floats:
    """Typical proportions: a few frequent values and a long tail, 1/(rank + 1)."""
    weights = 1 / (np.arange(whole("values", values, 2, 1 << 16)) + 2)
    out: _Floats = weights / weights.sum()
    return out


@reads_old_names
def compare_protocols(
    proportions: Sequence[float] | _Floats,
    population: int,
    epsilons: Sequence[float],
    *,
    metric: str = "mse",
    trials: int = 10,
    protocols: Sequence[str] | None = None,
    seed: int = 1,
    processes: int = 1,
    progress: Callable[[float], None] | None = None,
) -> ProtocolComparison:
    """All protocols, or those named, at each epsilon: `population` people whose values are drawn
    with `proportions`.

    With several `processes`, protocols are simulated at the same time; what is found is the same,
    apart from the times. A script that asks for them needs `if __name__ == "__main__":`.

    >>> direct = ["DirectEncoding"]
    >>> found = compare_protocols([0.5, 0.3, 0.2], 1000, [1.0], protocols=direct, trials=5)
    >>> found[0].protocol, round(found[0].theory, 5), found[0].report_bytes
    ('DirectEncoding', 0.00166, 1)
    """
    if metric not in METRICS:
        raise ParameterError("metric", metric, f"must be one of {', '.join(METRICS)}")
    whole("population", population, 30, 10**8)
    whole("trials", trials, 2, 10_000)
    whole("processes", processes, 1, 1024)
    truth = np.asarray(proportions, dtype=np.float64)
    known = known_protocols()
    for name in protocols or ():
        if name not in known:
            raise ParameterError("protocol", name, f"must be one of {', '.join(known)}")
    for epsilon in epsilons:
        check_epsilon(epsilon)
    cells = list(product(map(float, epsilons), protocols or known))
    run = partial(
        _one_of_many, truth, population, metric, trials, seed, named=protocols is not None
    )
    found: list[ProtocolErrors] = []
    for place, (one, text) in enumerate(_each(run, cells, known, processes)):
        if one is not None:
            found.append(one)
        if text is not None:
            warnings.warn(text, PluginWarning, stacklevel=3)
        if progress:
            progress((place + 1) / len(cells))
    return ProtocolComparison(truth.size, population, metric, trials, tuple(found))


_Outcome = tuple[ProtocolErrors | None, str | None]
"""What was found, if it can be, and what is to be warned of."""


def _each(
    run: Callable[..., _Outcome],
    cells: list[tuple[float, str]],
    known: dict[str, _Maker],
    processes: int,
) -> Iterator[_Outcome]:
    """What `run` finds of all cells, in their order."""
    if processes == 1:
        for epsilon, name in cells:
            yield run(name, known[name], epsilon)
        return
    # a fork would copy the locks of other threads
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(run, name, known[name], epsilon) for epsilon, name in cells]
        for each in waiting:
            yield each.result()


def _one_of_many(
    truth: _Floats,
    population: int,
    metric: str,
    trials: int,
    seed: int,
    name: str,
    make: _Maker,
    epsilon: float,
    *,
    named: bool,
) -> _Outcome:
    """One protocol; if it was not named, one that fails does not end the comparison of all."""
    try:
        return _one(name, make, epsilon, truth, population, metric, trials, seed), None
    except DeniableError:
        if named:
            raise
        return None, None  # it does not exist at this epsilon, such as a kernel below ln 2
    except Exception as error:
        if named or _is_own(name):
            raise
        text = (
            f"protocol {name!r} failed at epsilon {epsilon:g} and is left out:"
            f" {type(error).__name__}: {error}"
        )
        return None, text


def _one(
    name: str,
    make: _Maker,
    epsilon: float,
    truth: _Floats,
    population: int,
    metric: str,
    trials: int,
    seed: int,
) -> ProtocolErrors:
    protocol = make(epsilon, truth.size)
    if isinstance(protocol, Mechanism) and len(protocol.labels) != truth.size:
        message = f"{name} does not estimate the proportions of {truth.size} values"
        raise ParameterError("protocol", name, message=message)
    random, source = np.random.default_rng([seed, population]), seeded_source(seed)
    errors, seconds = [], 0.0
    numeric = bool(getattr(protocol, "numeric", False))
    for _ in range(trials):
        indices = random.choice(truth.size, population, p=truth)
        values = np.asarray(protocol.labels)[indices] if numeric else indices
        started = time.process_time()
        estimate = np.asarray(protocol.estimate(protocol.privatize(values, source)).proportions)
        seconds += time.process_time() - started
        errors.append(METRICS[metric](estimate, truth))
    return ProtocolErrors(
        protocol=name,
        requested_epsilon=epsilon,
        epsilon=float(protocol.epsilon),
        theory=_theory(protocol, truth, population, metric),
        simulated=float(np.mean(errors)),
        simulated_stderr=float(np.std(errors, ddof=1) / math.sqrt(trials)),
        report_bytes=protocol.report_bytes if hasattr(protocol, "layout") else None,
        seconds=seconds / trials / population * 1e6,
        guessed=_guessed(protocol, truth.size, source) if isinstance(protocol, Mechanism) else None,
    )


def _theory(protocol: Any, truth: _Floats, population: int, metric: str) -> float | None:
    if metric == "kantorovich" or not hasattr(protocol, "expected_errors"):
        return None
    errors = protocol.expected_errors(population, truth)
    if metric == "mse":
        return float((errors**2).mean())
    # Errors of single labels are normal: E|x| = sqrt(2/pi) sigma. The Euclidean norm of many of
    # them hardly varies.
    return (
        float(math.sqrt(2 / math.pi) * errors.sum())
        if metric == "manhattan"
        else float(np.sqrt((errors**2).sum()))
    )


def _guessed(protocol: Mechanism, k: int, source: Any) -> float | None:
    """By formula where there is one, else by counting: all supported labels are then equally
    probable."""
    try:
        return guess(protocol).best
    except DeniableError:
        supports = getattr(protocol, "supports", None)
        if supports is None:
            return None
        values = np.arange(_GUESSED) % k
        held = np.asarray(supports(protocol.draw(values, source)), dtype=np.float64)
        total = held.sum(axis=1)
        right = np.where(total > 0, held[np.arange(_GUESSED), values] / np.maximum(total, 1), 1 / k)
        return float(right.mean())
