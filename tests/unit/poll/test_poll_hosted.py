"""Snippets for other survey software, and its exports."""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Literal

import pytest
from click.testing import CliRunner

from deniable.cli import cli
from deniable.errors import ParameterError, SurveyError
from deniable.poll.files import poll_of_tree, poll_text, read_poll
from deniable.poll.hosted.exports import read_export
from deniable.poll.hosted.platforms import PLATFORMS
from deniable.poll.hosted.snippet import hosted_mechanism, instructions, snippet
from deniable.poll.poll import Poll

REPORTS = ["Yes"] * 30 + ["No"] * 70
TEXT = 'Ever {{said}} "{x}" or </script><b>?'


def poll_of(*questions: dict[str, Any], factor: float = 3) -> Poll:
    proxies = [{"url": f"https://{name}.example"} for name in ("one", "two")]
    return poll_of_tree({
        "id": "p", "asker": "Council", "title": "A poll", "factor": factor,
        "start": 1_800_000_000, "end": 1_800_600_000, "proxies": proxies,
        "page": "https://poll.example", "aggregator": "https://count.example",
        "questions": list(questions) or [{"text": "Yes?"}],
    })  # fmt: skip


def of_table(
    header: list[str], rows: list[list[str]], delimiter: str = ",", quote: Literal[0, 1] = 0
) -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, quoting=quote).writerows([header, *rows])
    return out.getvalue()


def qualtrics() -> str:
    """Three rows of headings: names, texts, and ids as JSON; one person stopped before."""
    header = ["StartDate", "ResponseId", "answer", "__js_answer"]
    more = [
        ["Start Date", "Response ID", "answer", "__js_answer"],
        [json.dumps({"ImportId": name, "timeZone": "UTC"}) for name in header],
    ]
    rows = [["2026-11-01", f"R_{i}", "", each] for i, each in enumerate(REPORTS)]
    return "\ufeff" + of_table(header, [*more, *rows, ["2026-11-01", "R_x", "", ""]])


def limesurvey() -> str:
    """Question codes as headings, everything quoted, semicolons."""
    rows = [[str(i), "2026-11-01 10:00:00", each] for i, each in enumerate(REPORTS)]
    return of_table(["id", "submitdate", "answer"], [*rows, ["101", "", ""]], ";", csv.QUOTE_ALL)


def redcap() -> str:
    """Raw data, variable names as headings."""
    rows = [[str(i), each, "2"] for i, each in enumerate(REPORTS)]
    return of_table(["record_id", "answer", "survey_complete"], [*rows, ["101", "", "0"]])


def otree() -> str:
    """One row per participant and round; columns of models by their path."""
    rows = [["p", str(i), each, "1"] for i, each in enumerate(REPORTS)]
    header = ["participant.code", "player.id_in_group", "player.answer", "subsession.round_number"]
    return of_table(header, [*rows, ["p", "101", "", "1"]])


def otree_wide() -> str:
    """All apps: the app and the round come first."""
    rows = [["p", each] for each in REPORTS]
    return of_table(["participant.code", "ward.1.player.answer"], [*rows, ["p", ""]])


def jspsych() -> str:
    """One row per trial, everything quoted."""
    rows = [["deniable", "1", each] for each in REPORTS]
    header = ["trial_type", "trial_index", "answer"]
    return of_table(header, [["html-button-response", "0", ""], *rows], quote=csv.QUOTE_ALL)


def surveyjs() -> str:
    """A list of what survey.data holds."""
    return json.dumps([*({"answer": each, "age": 3} for each in REPORTS), {"age": 4}])


EXPORTS = {
    "qualtrics.csv": qualtrics,
    "limesurvey.csv": limesurvey,
    "redcap.csv": redcap,
    "otree.csv": otree,
    "otree-wide.csv": otree_wide,
    "jspsych.csv": jspsych,
    "surveyjs.json": surveyjs,
}


@pytest.fixture
def poll_file(tmp_path: Path) -> Path:
    path = tmp_path / "p.toml"
    path.write_text(poll_text(poll_of()), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", EXPORTS)
def test_every_export_gives_the_same_estimate(name: str, tmp_path: Path, poll_file: Path) -> None:
    """30 of 100 said yes, of whom the coins made 25: 2 x 0.30 - 1/2."""
    path = tmp_path / name
    path.write_text(EXPORTS[name](), encoding="utf-8")
    poll = read_poll(poll_file)
    found = read_export(path, poll, poll.questions[0])
    assert found.reports == REPORTS
    assert found.empty == 1
    run = CliRunner().invoke(
        cli, ["estimate", str(path), str(path), "--poll", str(poll_file), "--json"]
    )
    document = json.loads(run.output)["questions"]["answer"]
    assert document["n"] == 200
    assert document["empty_rows"] == 2
    text = (
        CliRunner().invoke(cli, ["estimate", str(path), "--poll", str(poll_file), "--csv"]).output
    )
    yes = next(row for row in csv.DictReader(io.StringIO(text)) if row["label"] == "Yes")
    assert float(yes["estimate"]) == pytest.approx(0.1, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,answer\n1,Yes\n2,secret\n", "row 3 of 'answer' is not one of the poll's answers"),
        ("id,other\n1,Yes\n", "has no column 'answer'"),
        ("id,answer\n1,\n", "'answer' has no answer"),
        ("answer,__js_answer\nYes,No\n", "row 2 has two values"),
        ("", "has no column"),
    ],
)
def test_an_export_that_the_snippet_did_not_write_is_refused_and_not_shown(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text, encoding="utf-8")
    poll = poll_of()
    with pytest.raises(SurveyError, match=words) as caught:
        read_export(path, poll, poll.questions[0])
    assert "secret" not in str(caught.value)


def test_estimating_an_export_takes_no_other_columns(tmp_path: Path, poll_file: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(redcap(), encoding="utf-8")
    run = CliRunner().invoke(cli, ["estimate", str(path), "--poll", str(poll_file), "--by", "a"])
    assert run.exit_code != 0
    assert "--poll and --by cannot be combined" in run.output


class Scripts(HTMLParser):
    """What a browser takes for scripts and for elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)


@pytest.mark.parametrize("name", PLATFORMS)
def test_no_text_of_a_poll_leaves_the_snippet_or_is_an_expression(name: str) -> None:
    poll = poll_of({"id": "q", "text": TEXT, "options": ["{a}", "</script>", "c"]})
    platform = PLATFORMS[name]
    text = snippet(poll, poll.questions[0], platform)
    if platform.ending == "html":
        assert Scripts(text).tags.count("script") == 1
        assert "b" not in Scripts(text).tags
        # LimeSurvey reads {X as an expression unless a space follows, oTree {{ and {%
        assert set(re.findall(r"\{\S+", text)) <= {'{SGQ}");'}
    assert "Math.random" not in text
    page = instructions(poll, {"q": f"q.{platform.ending}"}, platform, "p.toml")
    assert "<b>" not in page.split("<body>")[1].replace('<b class="big">', "")
    assert "FIELD" not in page + text
    assert "SNIPPET" not in page


def test_a_snippet_has_the_probabilities_of_its_share_of_the_budget() -> None:
    poll: Poll = poll_of(
        {"id": "a", "text": "A?"}, {"id": "b", "text": "B?", "options": ["x", "y", "z"]}, factor=9
    )
    for question, truth in zip(poll.questions, (3 / 4, 3 / 5), strict=True):
        text = snippet(poll, question, PLATFORMS["redcap"])
        found = re.search(r"truthful: \[(\d+), (\d+)\]", text)
        assert found is not None
        high, low = map(int, found.groups())
        assert (high * 2**32 + low) / 2**64 == pytest.approx(truth, abs=1e-12)
        assert hosted_mechanism(poll, question).epsilon <= poll.epsilon / 2
    several = poll_of({"text": "?", "kind": "several", "options": ["x", "y"], "most": 2})
    with pytest.raises(ParameterError, match="snippets ask for one"):
        snippet(several, several.questions[0], PLATFORMS["redcap"])


def test_the_command_writes_a_folder_once(poll_file: Path) -> None:
    arguments = ["poll", "snippet", str(poll_file), "--for", "limesurvey"]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    names = {each.name for each in (poll_file.parent / "p-limesurvey").iterdir()}
    assert names == {"answer.html", "instructions.html"}
    again = CliRunner().invoke(cli, arguments)
    assert again.exit_code != 0
    assert "cannot be created" in again.output
