"""How long state machines run: a moment in the suite, always the same. `DENIABLE_STATEFUL=50` runs
fifty times as many examples, drawn anew, and looks for the shortest way to a failure."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

_TIMES = int(os.environ.get("DENIABLE_STATEFUL", "1"))


def run(machine: type[RuleBasedStateMachine], examples: int, steps: int) -> None:
    """Run a machine; a failure says by which steps it came."""
    how: dict[str, Any] = {"derandomize": _TIMES == 1, "database": None, "deadline": None}
    # which may take minutes
    how["phases"] = [Phase.generate] if _TIMES == 1 else [Phase.generate, Phase.shrink]
    how["suppress_health_check"] = list(HealthCheck)
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples * _TIMES, stateful_step_count=steps, **how)
    )
