"""A whole study, from a plan to the report, on statsmodels' survey of affairs, beside the same
analysis of the true data."""

from __future__ import annotations

import csv
import re
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import statsmodels.api as sm
from click.testing import CliRunner, Result

from deniable import seeded_source
from deniable.cli import cli
from deniable.planning import Question, plan_questionnaire
from deniable.survey import estimate_file, randomize_file
from deniable.survey.regression_file import regress_file

RELIGION = (1, 2, 3, 4)


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The plan, the randomized file and the true columns."""
    folder = tmp_path_factory.mktemp("study")
    data = sm.datasets.fair.load_pandas().data
    truth = {
        "affair": np.where(data["affairs"] > 0, "yes", "no"),
        "religious": data["religious"].astype(int).to_numpy(),
        "years": data["yrs_married"].to_numpy(),
    }
    questions = [
        Question("affair", ("no", "yes"), importance=3, proportion=0.3),
        Question("religious", RELIGION),
    ]
    plan = plan_questionnaire(questions, population=len(data), epsilon=5.0, way="split")
    with (folder / "answers.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([list(truth), *zip(*truth.values(), strict=True)])
    randomize_file(
        folder / "answers.csv",
        folder / "reports.csv",
        plan.questionnaire,
        keep=["years"],
        source=seeded_source(1),
    )
    (folder / "survey.toml").write_text(
        'title = "Affairs & marriage"\nfile = "reports.csv"\ninvited = 10000\ntables ='
        ' [["religious", "affair"]]\nregressions = ["affair ~ years"]\n\n[questions.asked]\ndesign'
        ' = "Crosswise:p=1/6"\nsame = 512\nn = 730\n',
        encoding="utf-8",
    )
    return folder, truth | {"plan": plan}


def test_the_study_finds_what_the_true_data_say_within_what_the_plan_promised(
    study: tuple[Path, dict[str, Any]],
) -> None:
    folder, truth = study
    found = estimate_file(folder / "reports.csv", tables=[("religious", "affair")])
    said = truth["affair"] == "yes"
    promised = {planned.question.name: planned.stderr for planned in truth["plan"].expected}
    assert abs(found["affair"].proportions[1] - said.mean()) < 4 * promised["affair"]
    assert found["affair"].stderr[1] == pytest.approx(promised["affair"], rel=0.05)
    religious = np.array([(truth["religious"] == level).mean() for level in RELIGION])
    assert (
        np.abs(found["religious"].proportions - religious) < 4 * found["religious"].stderr
    ).all()
    crossed = np.array(
        [
            [((truth["religious"] == level) & (said == yes)).mean() for yes in (False, True)]
            for level in RELIGION
        ]
    )
    assert (np.abs(found.tables[0].proportions - crossed) < 4 * found.tables[0].stderr).all()
    fit = regress_file(folder / "reports.csv", "affair ~ years")
    true_fit = sm.Logit(said.astype(float), sm.add_constant(truth["years"])).fit(disp=0)
    assert (np.abs(fit.coefficients[0] - true_fit.params) < 4 * fit.stderr[0]).all()
    assert (fit.stderr[0] > true_fit.bse).all()  # the coins cost something


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in {"meta", "img"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


EXPECTED = (
    "Affairs & marriage",
    "6,366 of 10,000 people invited took part (63.7 %)",
    "by more than a factor of",
    "direct encoding",
    "religious by affair",
    "affair ~ years",
    "crosswise (p = 1/6)",
    "Limitations",
)


@pytest.mark.slow
def test_the_report_is_a_page_a_document_and_a_text_with_the_same_contents(
    study: tuple[Path, dict[str, Any]],
) -> None:
    folder, _ = study
    for name in ("report.html", "report.docx", "report.md"):
        ran = run("survey", "report", folder / "survey.toml", "-o", folder / name)
        assert (ran.exit_code, ran.output) == (0, f"Wrote {folder / name}.\n")
    page = _Text()
    page.feed((folder / "report.html").read_text(encoding="utf-8"))
    assert page.open == []
    assert "data:image/png;base64,iVBOR" in (folder / "report.html").read_text(encoding="utf-8")
    with zipfile.ZipFile(folder / "report.docx") as package:
        parts = {part: package.read(part) for part in package.namelist()}
    assert parts["word/media/image1.png"].startswith(b"\x89PNG")
    for part in (part for part in parts if part.endswith((".xml", ".rels"))):
        ElementTree.fromstring(parts[part])  # noqa: S314 - written a moment ago
    document = "".join(ElementTree.fromstring(parts["word/document.xml"]).itertext())  # noqa: S314
    for text in (page.text, document, (folder / "report.md").read_text(encoding="utf-8")):
        for expected in EXPECTED:
            assert expected in text, expected
        assert not re.search(r"<[A-Za-z_.]+ object|np\.float|Fraction\(", text)
    found = estimate_file(folder / "reports.csv")
    assert f"{100 * found['affair'].proportions[1]:.2f} %" in page.text


@pytest.mark.parametrize(
    ("content", "output", "message"),
    [
        ('title = "x"', "r.html", "must have a file of randomized answers, or [questions.NAME]"),
        ('fiel = "x"', "r.html", "fiel is not known; a report has title, file"),
        ('file = "nothing.csv"', "r.html", "nothing.csv: say how its columns were randomized"),
        ("invited = true", "r.html", "invited = True must be a whole number"),
        ('title = "x"', "r.pdf", "a report is written as .html, .md, .docx"),
    ],
)
def test_a_report_that_cannot_be_written_says_why(
    tmp_path: Path, content: str, output: str, message: str
) -> None:
    (tmp_path / "s.toml").write_text(content, encoding="utf-8")
    ran = run("survey", "report", tmp_path / "s.toml", "-o", tmp_path / output)
    assert ran.exit_code == 2
    assert message in ran.stderr
    assert not (tmp_path / output).exists()


def test_an_existing_report_is_not_replaced_without_being_told(
    study: tuple[Path, dict[str, Any]],
) -> None:
    folder, _ = study
    (folder / "kept.md").write_text("mine", encoding="utf-8")
    assert run("survey", "report", folder / "survey.toml", "-o", folder / "kept.md").exit_code == 2
    assert (folder / "kept.md").read_text(encoding="utf-8") == "mine"
    assert (
        run(
            "survey", "report", folder / "survey.toml", "-o", folder / "kept.md", "--force"
        ).exit_code
        == 0
    )
