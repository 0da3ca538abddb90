"""Subtracting everything that a token may read: nothing small remains on our aggregator, and
mistakes are found."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from deniable.aggregator.history import file_catalogue, period_counts
from deniable.aggregator.service import Service
from deniable.aggregator.settings import AggregatorSettings, ProxySource
from deniable.aggregator.web import history_api
from deniable.aggregator.web.api import create_app
from deniable.aggregator.web.tokens import add_token
from deniable.aggregator.windows import closing, granules
from deniable.analyst.analyst import Analyst
from deniable.audit.deployed.attempts import ServiceAudit
from deniable.audit.deployed.released_figures import PublishedFigure
from deniable.audit.deployed.releases import audit_releases, read_figures, write_figures
from deniable.cli import cli
from deniable.errors import DocumentError
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.strata import Stratum
from deniable.randomness import seeded_source
from toolkit.crowds import ORIGIN, RING
from toolkit.releases import ReleasingAggregator, telling_query
from toolkit.servers.served import served

pytestmark = pytest.mark.slow

HALF_HOUR, N_EPOCHS, COHORT = 1800, 6, 4
MIDNIGHT = ORIGIN // 86400 * 86400
SCHEDULE = Schedule(MIDNIGHT, MIDNIGHT + N_EPOCHS * HALF_HOUR, HALF_HOUR, 3 * HALF_HOUR, HALF_HOUR)
ANSWERS = (
    (0, 0, 7),
    (0, 1, 1),
    (1, 0, 2),
    (1, 1, 5),
    (2, 0, 1),
    (3, 0, 9),
    (3, 1, 3),
    (4, 0, 2),
    (5, 0, 50),
)
"""Epoch, stratum and number: some are too few to be released by themselves."""


class ReleasesUnderAttack:
    """An aggregator whose epochs are counted and closed by hand, and whose interface is served."""

    def __init__(self, folder: Path) -> None:
        strata = [Stratum("town", 1.0, 300), Stratum("land", 1.0, 100)]
        how: dict[str, Any] = {"schedule": SCHEDULE, "strata": strata, "minimum_cohort": COHORT}
        self.query: Query = telling_query(id="who", grace=4 * HALF_HOUR, **how)
        self.aggregator = ReleasingAggregator(folder, [self.query], early=600)
        with self.aggregator.state.transaction():
            self.token = add_token(
                self.aggregator.state.connection, self.query.analyst, ["read"], 0
            )
        RING.save(folder / "ring.json")
        proxies = [ProxySource(name) for name in self.query.proxies]
        history = self.aggregator.settings
        self.settings = AggregatorSettings(
            folder / "state.db", folder / "ring.json", proxies, engine="spark", history=history
        )

    def answer(self, epochs: range) -> None:
        for epoch, stratum, n in ANSWERS:
            if epoch in epochs:
                self.aggregator.answer(self.query, epoch, stratum, n)

    def pass_time(self, epochs: int) -> None:
        """Let so many epochs be over, and release what is due."""
        aggregator = self.aggregator
        aggregator.now = MIDNIGHT + epochs * HALF_HOUR + HALF_HOUR // 2
        over = (aggregator.now - MIDNIGHT - aggregator.channel.grace) // HALF_HOUR
        aggregator.close_epochs(min(N_EPOCHS, over))
        aggregator.revise()
        aggregator.keeper.publish(everything=True)

    @contextmanager
    def served(self) -> Iterator[Analyst]:
        service = Service(self.settings, clock=lambda: self.aggregator.now)
        with (
            served(create_app(service)) as client,
            Analyst(str(client.base_url), self.token) as analyst,
        ):
            yield analyst


@pytest.fixture
def attacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ReleasesUnderAttack]:
    # hundreds of questions, answered at once
    monkeypatch.setattr(history_api, "_SECONDS_BETWEEN_LOOKS", 0.002)
    made = ReleasesUnderAttack(tmp_path)
    yield made
    made.aggregator.close()


def attack_over_time(attacked: ReleasesUnderAttack) -> ServiceAudit:
    """An adversary who reads early results, and everything again when late answers have come."""
    with attacked.served() as analyst:
        attacked.answer(range(3))
        attacked.pass_time(3)
        figures = audit_releases(analyst)[1]
        # no revision may have only this one more
        attacked.aggregator.answer(attacked.query, 2, 0, 1)
        attacked.pass_time(4)
        figures = audit_releases(analyst, known=figures)[1]
        attacked.aggregator.answer(attacked.query, 1, 1, COHORT)  # enough for a revision
        attacked.answer(range(3, N_EPOCHS))
        attacked.pass_time(N_EPOCHS + 8)
        return audit_releases(analyst, known=figures)[0]


def verdicts(found: ServiceAudit) -> dict[str, str]:
    return {each.name.removeprefix("who: "): each.verdict for each in found.attempts}


def test_nothing_small_remains_however_our_figures_are_subtracted(
    attacked: ReleasesUnderAttack,
) -> None:
    found = attack_over_time(attacked)
    assert set(verdicts(found).values()) == {"holds"}, str(found)
    assert len(found.attempts) == 5


def _every_pane_by_itself(sizes: Any, _cohort: int, _schedule: Schedule) -> list[list[int]]:
    return [[epoch] for epoch, _ in sizes]


def _parts_of_granules(connection: Any, query: str, epochs: range) -> list[granules.Granule]:
    found = granules.released_granules(connection, query, range(1 << 40))
    cut = [
        (each, {key: pane for key, pane in each.panes.items() if key.epoch in epochs})
        for each in found
    ]
    return [each._replace(panes=inside) for each, inside in cut if inside]


class RolledSource:
    """Draws as often the same for a key, in another order each time: each answer has as many of the
    reports, and others of them."""

    _turns = itertools.count()

    def __init__(self, key: bytes) -> None:
        self._source = seeded_source(key)

    def below(self, bound: int, n: int) -> NDArray[np.int64]:
        return np.roll(self._source.below(bound, n), next(self._turns))


PLANTED: dict[str, tuple[Any, str, Any, set[str]]] = {
    "whatever was counted is released": (
        granules,
        "group_epochs",
        _every_pane_by_itself,
        {
            "figures of too few answers",
            "revisions and later readings",
            "overlapping windows and periods",
        },
    ),
    "windows cut granules": (
        closing,
        "released_granules",
        _parts_of_granules,
        {"revisions and later readings"},
    ),
    "periods cut granules": (
        period_counts,
        "released_granules",
        _parts_of_granules,
        {"overlapping windows and periods"},
    ),
    "fractions end anywhere": (
        period_counts,
        "ends_a_block",
        lambda *_: True,
        {"fractions of the stored reports"},
    ),
    "a fraction is drawn anew for every answer": (
        file_catalogue,
        "seeded_source",
        RolledSource,
        {"fractions of the stored reports"},
    ),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_is_found(
    mistake: str, attacked: ReleasesUnderAttack, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, name, planted, expected = PLANTED[mistake]
    monkeypatch.setattr(place, name, planted)
    if place is file_catalogue:  # which draws for reports that are in no file yet
        monkeypatch.setattr(attacked.aggregator.keeper, "publish", lambda **_: None)
    found = attack_over_time(attacked)
    broken = {name for name, verdict in verdicts(found).items() if verdict == "broken"}
    assert expected <= broken, str(found)
    assert ("asked twice, it is of other answers" in str(found)) == (place is file_catalogue)
    assert not found.holds


def test_the_command_keeps_figures_and_its_code_says_whether_they_hold(
    attacked: ReleasesUnderAttack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, kept = tmp_path / "token", tmp_path / "figures.json"
    token.write_text(attacked.token + "\n")

    def run(url: str, *more: str) -> Any:
        given = [
            "audit",
            "releases",
            url,
            "--token-file",
            str(token),
            "--figures",
            str(kept),
            *more,
        ]
        return CliRunner().invoke(cli, given)

    with attacked.served() as analyst:
        empty = run(analyst.url)
        assert (empty.exit_code, empty.output.count(": not tried")) == (0, 5), empty.output
        attacked.answer(range(3))
        monkeypatch.setattr(granules, "group_epochs", _every_pane_by_itself)
        attacked.pass_time(3)
        first = run(analyst.url, "--query", "who", "--epochs", "3")
        assert first.exit_code == 0, first.output
        assert "who: figures of too few answers: holds" in first.output
        (window,) = read_figures(kept)
        assert (window.kind, window.revision) == ("window", 0)
        attacked.aggregator.answer(attacked.query, 2, 0, 1)
        attacked.pass_time(4)
        second = run(analyst.url, "--json")
        told = {each["name"]: each for each in json.loads(second.output)["attempts"]}
        assert second.exit_code == 1
        assert told["who: revisions and later readings"]["verdict"] == "broken"
        refused = run(analyst.url, "--query", "nobody")
        assert (
            refused.exit_code,
            "must be one that the token may read: who" in refused.output,
        ) == (2, True)
    assert attacked.token not in first.output + second.output + kept.read_text()


def test_kept_figures_are_read_back_and_other_files_are_refused(tmp_path: Path) -> None:
    window = PublishedFigure("who", "window", 0, 60, 7, 1, values=(0.25, 0.75))
    write_figures(tmp_path / "kept.json", [window, window])
    assert read_figures(tmp_path / "kept.json") == [window]
    assert read_figures(tmp_path / "none.json") == []
    for text in (
        "nonsense",
        "[]",
        '{"format": 7, "figures": []}',
        '{"format": 1, "figures": [{}]}',
    ):
        (tmp_path / "kept.json").write_text(text)
        with pytest.raises(DocumentError, match=r"kept\.json"):
            read_figures(tmp_path / "kept.json")
