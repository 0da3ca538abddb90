"""One pair of coins for a whole answer, as Quoc's Algorithm 1 prints it: what it gives away."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter

import numpy as np
import pytest
from click.testing import CliRunner

from deniable.cli import cli
from deniable.errors import ParameterError
from deniable.privacy import answer_epsilon, one_pair_channel, one_pair_delta


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.5), (0.9, 0.6), (0.25, 0.75)])
def test_the_channel_is_that_of_the_algorithm_and_no_set_of_reports_shows_a_larger_delta(
    p: float, q: float
) -> None:
    """Algorithm 1 is run line by line, and every event, a set of reports, is tried."""
    buckets, tosses = 3, 40_000
    rng = np.random.default_rng(8)
    channel = [[float(x) for x in row] for row in one_pair_channel(buckets, p, q)]
    for truth in range(buckets):
        sent: Counter[tuple[int, ...]] = Counter()
        for first, second in rng.random((tosses, 2)):
            answer = [int(i == truth) for i in range(buckets)]
            if first >= p:
                answer = [1] * buckets if second < q else [0] * buckets
            sent[tuple(answer)] += 1
        one_hot = [tuple(int(i == j) for i in range(buckets)) for j in range(buckets)]
        for report, row in zip([*one_hot, (1,) * 3, (0,) * 3], channel, strict=True):
            spread = 5 * math.sqrt(max(row[truth] * (1 - row[truth]), 0) / tosses)
            assert sent[report] / tosses == pytest.approx(row[truth], abs=spread)
    assert [sum(column) for column in zip(*one_pair_channel(buckets, p, q), strict=True)] == [1] * 3
    for epsilon in (0.0, 1.0, 30.0):
        events = itertools.product([0, 1], repeat=len(channel))
        worst = max(
            sum(
                x * (row[0] - math.exp(epsilon) * row[1])
                for x, row in zip(event, channel, strict=True)
            )
            for event in events
        )
        assert one_pair_delta(buckets, p, q, epsilon) == pytest.approx(worst, rel=1e-9)


def test_the_command_says_that_there_is_no_epsilon_and_what_coins_per_bit_cost() -> None:
    run = CliRunner().invoke(
        cli, ["privacy", "--p", "0.5", "--q", "0.5", "--one-pair", "11", "--json"]
    )
    assert run.exit_code == 0, run.output
    pair, except_for, bits = json.loads(run.output)["figures"]
    assert pair["epsilon"] is None
    assert (except_for["epsilon"], except_for["delta"]) == (0.0, 0.5)
    assert bits["epsilon"] == answer_epsilon(0.5, 0.5)
    for arguments in (["--epsilon", "1"], ["--p", "0.5", "--q", "0.5"]):
        buckets = "3" if arguments[0] == "--epsilon" else "1"
        refused = CliRunner().invoke(cli, ["privacy", *arguments, "--one-pair", buckets])
        assert refused.exit_code == 2
    with pytest.raises(ParameterError, match="at least 2"):
        one_pair_channel(1, 0.5, 0.5)
