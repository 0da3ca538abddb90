"""Whether what a design achieves meets the request."""

from __future__ import annotations

import dataclasses

import pytest

from deniable.planning.candidates import candidates
from deniable.planning.design import Design, fine_design, rough_design
from deniable.planning.outcome import settle
from deniable.planning.request import PlanRequest


@pytest.mark.parametrize("memoized", [False, True])
def test_a_design_that_hides_one_answer_but_not_a_life_of_them_is_not_taken(memoized: bool) -> None:
    once = PlanRequest(population=1_000_000, proportion=0.2, sampled_epsilon=0.7, memoize=memoized)
    candidate = candidates(once.buckets)[0]
    rough = rough_design(once, candidate)
    assert isinstance(rough, Design)
    design = fine_design(once, candidate, rough)
    assert design.sampling < 1, "everybody is asked at once: nothing is added by asking again"
    assert settle(once, design) is not None
    assert settle(dataclasses.replace(once, epochs=52), design) is None
