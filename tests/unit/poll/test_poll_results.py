"""Results of a poll, written as a table and read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from deniable.aggregator.windows.window import Window
from deniable.cli import cli
from deniable.cli.analyst import poll_commands
from deniable.errors import ServiceError
from deniable.poll.asking import queries_of
from deniable.poll.files import poll_of_tree, poll_text
from deniable.poll.poll import Poll
from deniable.poll.result_files import write_results
from deniable.queries.query import Query


@pytest.fixture
def poll() -> Poll:
    return poll_of_tree({
        "id": "p", "asker": "Council", "title": "A poll", "factor": 9,
        "start": 1_800_000_000, "end": 1_800_600_000, "page": "https://poll.example",
        "aggregator": "https://count.example",
        "proxies": [{"url": f"https://{name}.example"} for name in ("one", "two")],
        "questions": [
            {"id": "a", "text": "Ever?"}, {"id": "b", "text": "Which?", "options": ["x", "y", "z"]}
        ],
    })  # fmt: skip


def window_of(poll: Poll, index: int, counts: tuple[int, ...], **rest: Any) -> Window:
    query = queries_of(poll)[index]
    reports = [i for i, n in enumerate(counts) for _ in range(n)]
    labels = query.mechanism.domain.labels
    estimate = query.mechanism.estimate([labels[i] for i in reports])
    given = {"condition": "complete", "n": len(reports), "nothing": 0, "estimate": estimate}
    return Window(query.id, 1, 0, 1_800_000_000, 1_800_003_600, **(given | rest))


READERS: dict[str, Any] = {
    "csv": pd.read_csv, "parquet": pd.read_parquet, "dta": pd.read_stata, "sav": pd.read_spss
}  # fmt: skip


@pytest.mark.parametrize("ending", READERS)
def test_every_format_holds_the_estimates_with_their_labels(
    poll: Poll, tmp_path: Path, ending: str
) -> None:
    """Factor 3 each: 2 x 0.4 - 1/2 of 100; and (0.2 - 1/5) / (3/5 - 1/5) of 200."""
    if ending == "sav":
        pytest.importorskip("pyreadstat")
    path = tmp_path / f"results.{ending}"
    windows = [window_of(poll, 0, (40, 60)), window_of(poll, 1, (40, 40, 120))]
    assert write_results(path, poll, windows) == 5
    table = READERS[ending](path)
    assert list(table["question"].astype(str)) == ["a"] * 2 + ["b"] * 3
    assert list(table["answer"].astype(str)) == ["Yes", "No", "x", "y", "z"]
    assert list(table["proportion"]) == pytest.approx([0.3, 0.7, 0, 0, 1], abs=1e-9)
    assert list(table["answers"]) == [100, 100, 200, 200, 200]
    assert list(table["epsilon"]) == pytest.approx([1.0986] * 5, abs=1e-4)
    assert (table["low"] <= table["proportion"] + 1e-9).all()
    assert table["high"][0] - table["low"][0] == pytest.approx(2 * 1.96 * 0.098, rel=0.05)
    with pytest.raises(ServiceError, match="already exists"):
        write_results(path, poll, windows)


def test_what_is_withheld_is_not_written(poll: Poll, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    withheld = window_of(poll, 0, (4, 6), condition="withheld", estimate=None)
    with pytest.raises(ServiceError, match="below 100 answers nothing is shown"):
        write_results(path, poll, [withheld, None])
    assert not path.exists()
    assert write_results(path, poll, [withheld, window_of(poll, 1, (50, 50, 50))]) == 3
    assert set(pd.read_csv(path)["question"]) == {"b"}


def test_the_command_writes_what_it_shows(
    poll: Poll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = {"p.a": window_of(poll, 0, (40, 60)), "p.b": None}

    class Service:
        """An aggregator's replies."""

        def __enter__(self) -> Service:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def latest(self, query: Query) -> Window | None:
            return windows[query.id]

    monkeypatch.setattr(poll_commands, "connect", lambda *_: Service())
    (tmp_path / "p.toml").write_text(poll_text(poll), encoding="utf-8")
    output = tmp_path / "results.csv"
    arguments = ["poll", "results", str(tmp_path / "p.toml"), "--output", str(output)]
    run = CliRunner().invoke(cli, [*arguments, "--aggregator", "https://count.example"])
    assert run.exit_code == 0, run.output
    assert "Below 100 answers nothing is shown." in run.output
    assert f"Wrote 2 rows to {output}." in run.output.replace("\n", "")
    assert list(pd.read_csv(output)["answer"]) == ["Yes", "No"]
