"""What may go wrong, scenario by scenario: the parameters of the simulation."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from deniable.errors import ParameterError

__all__ = ["LIES", "SCENARIOS", "Faults", "Scenario", "scenarios_by_name"]

LIES = ("random", "targeted", "maximal")


@dataclass(frozen=True)
class Faults:
    """What goes wrong in a run. Fractions are of the whole, between 0 and 1."""

    down: float = 0.0
    """Fraction of the run, in its middle, during which the last proxy is down."""
    slow: float = 0.0
    """The last proxy's log can be read only once in this fraction of the time the aggregator waits
    after the proxies' grace."""
    replayed: float = 0.0
    """Fraction of the uploads that someone sends again: at once, an epoch later, and after the
    epoch is closed. The last proxy also writes blocks of its log a second time."""
    requests_lost: float = 0.0
    responses_lost: float = 0.0
    """Fraction of the uploads for which the proxy's reply is lost, so the device sends them
    again."""
    skewed: float = 0.0
    """Fraction of the phones whose clocks are off by up to an hour; the others' are off by half a
    minute or so."""
    churn: float = 0.0
    """Fraction of the people who leave in each epoch and are replaced; half of them leave before
    their answer is sent."""
    late: float = 0.0
    """Fraction of the phones that lose the network after answering, on average for as long as late
    answers are accepted."""
    restarts: int = 0
    """How often each proxy and the aggregator are killed and started again."""
    liars: float = 0.0
    """Fraction of the people who send made-up reports, whatever the sampling coin says."""
    lie: str = ""
    downwards: bool = False
    """Whether maximal lies lower the target instead of raising it."""


@dataclass(frozen=True)
class Scenario:
    """A name, a sentence about what happens, and its faults."""

    name: str
    happens: str
    faults: Faults = Faults()


_ALL = (
    Scenario("honest", "Everything works and everyone tells the truth."),
    Scenario(
        "dead-proxy", "One proxy is down for the middle third of the time.", Faults(down=1 / 3)
    ),
    Scenario(
        "slow-proxy",
        "One proxy's log is far behind, though within the aggregator's patience.",
        Faults(slow=0.9),
    ),
    Scenario(
        "replays",
        "A third of the uploads are captured and sent again, and a proxy repeats its log.",
        Faults(replayed=1 / 3),
    ),
    Scenario(
        "lost-responses",
        "A tenth of the requests and a fifth of the replies are lost; phones send again.",
        Faults(requests_lost=0.1, responses_lost=0.2),
    ),
    Scenario(
        "clock-skew",
        "One phone in ten has a clock that is wrong by up to an hour.",
        Faults(skewed=0.1),
    ),
    Scenario(
        "churn",
        "In each epoch 5 % of the people leave and others take their place.",
        Faults(churn=0.05),
    ),
    Scenario(
        "late-phones", "Three phones in ten lose the network after answering.", Faults(late=0.3)
    ),
    Scenario(
        "restarts",
        "Every proxy and the aggregator are killed and restarted ten times.",
        Faults(restarts=10),
    ),
    Scenario("liars-random", "Some people send random reports.", Faults(liars=0.05, lie="random")),
    Scenario(
        "liars-targeted",
        "Some people claim one label, and follow the protocol otherwise.",
        Faults(liars=0.05, lie="targeted"),
    ),
    Scenario(
        "liars-maximal",
        "Some people craft the reports that raise one label the most.",
        Faults(liars=0.05, lie="maximal"),
    ),
)
SCENARIOS = {scenario.name: scenario for scenario in _ALL}
"""By name, in the order in which they are played."""


def scenarios_by_name(names: Sequence[str]) -> list[Scenario]:
    """The scenarios with these names, or all of them."""
    for name in names:
        if name not in SCENARIOS:
            close = difflib.get_close_matches(name, SCENARIOS, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ParameterError("scenario", name, f"must be one of {', '.join(SCENARIOS)}{hint}")
    return [scenario for scenario in _ALL if not names or scenario.name in names]
