"""What an organiser prints says what was signed, and a paper form protects no less."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from deniable.cli import cli
from deniable.display import factor_text
from deniable.errors import ParameterError, ServiceError
from deniable.poll.files import read_poll
from deniable.poll.paper.kit import kit
from deniable.poll.paper.paper_designs import paper_design
from deniable.poll.paper.poster import poster
from deniable.poll.paper.signed_file import read_printed_poll
from deniable.poll.paper.words import after_hearing
from deniable.poll.publishing import open_poll
from deniable.poll.questions import PollQuestion, read_question
from deniable.queries.signed.keys import AnalystKey

POLL = """\
id = "ward"
asker = "Council <b>"
title = { en = "Medicine & wards", de = "Medizin" }
start = 2026-11-01T00:00:00Z
end = 2026-11-30T00:00:00Z
factor = 3
population = 600
page = "https://poll.example"
aggregator = "https://count.example"
proxies = [{ url = "https://one.example", by = "one" }, { url = "https://two.example", by = "two" }]
[[questions]]
text = { en = "Taken <any>?", de = "Genommen?" }
"""


def written(folder: Path, text: str = POLL, signed: bool = True) -> Path:
    path = folder / "ward.toml"
    path.write_text(text, encoding="utf-8")
    if signed:
        opened = open_poll(read_poll(path), AnalystKey("Council <b>", bytes(range(32))))
        path.with_suffix(".json").write_bytes(opened.document)
    return path


def question(*options: str, kind: str = "one") -> PollQuestion:
    return read_question("q", {"text": "Q?", "kind": kind, "options": list(options)}, "en")


class Tags(HTMLParser):
    """Every tag, its attributes, and the text outside styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_kit_and_a_poster_say_what_was_signed_and_load_nothing(tmp_path: Path) -> None:
    found = read_printed_poll(written(tmp_path))
    design = paper_design("coins", found.poll.questions[0], ("Yes", "No"), found.epsilon)
    sheets, sheet = kit(found, "en", {"answer": design}), poster(found, "de")
    assert found.epsilon == pytest.approx(math.log(3), abs=1e-9)
    for words in ("Epsilon is 1.0986", "factor of 3.", "at most 25 and at least 3", "factor of 9.",
                  "600 answers give ± 8.0", "150 answers would give", "1 December 2026"):  # fmt: skip
        assert words in Tags(sheets).text
    link = str(found.link)
    assert link in Tags(sheet).text
    assert "Medizin" in sheet
    for page in (sheets, sheet):
        read = Tags(page)
        assert not {"script", "link", "img", "iframe", "b>"} & {tag for tag, _ in read.tags}
        assert not any(name in ("src", "href", "style") or name.startswith("on")
                       for _, given in read.tags for name in given)  # fmt: skip
        assert "Council <b>" in read.text


def test_figures_follow_the_poll(tmp_path: Path) -> None:
    found = read_printed_poll(written(tmp_path, POLL.replace("factor = 3", "factor = 7")))
    said = Tags(kit(found, "en", {})).text
    assert "Epsilon is 1.9459" in said
    assert "600 answers give ± 5.3" in said  # 1.96 / 2 / sqrt(600) / (3/4)
    assert "at most 44 and at least 1 " in said  # 10/90 * 7 = 0.78: 43.75; 10/90 / 7: 1.6
    assert "1.0986" not in said


def test_a_poll_changed_after_it_was_signed_is_not_printed(tmp_path: Path) -> None:
    path = written(tmp_path)
    for old, new in (
        ("factor = 3", "factor = 2"),
        ("Taken", "Took"),
        ("one.example", "on.example"),
    ):
        path.write_text(POLL.replace(old, new), encoding="utf-8")
        with pytest.raises(ServiceError, match="was signed from another poll"):
            read_printed_poll(path)
    path.with_suffix(".json").write_text("{}")
    with pytest.raises(ServiceError, match="is not a poll that deniable poll open wrote"):
        read_printed_poll(path)


def test_before_it_is_opened_a_poll_has_a_draft_and_no_poster(tmp_path: Path) -> None:
    found = read_printed_poll(written(tmp_path, signed=False))
    assert "Draft: this poll has not been signed" in kit(found, "en", {})
    with pytest.raises(ServiceError, match="open it with deniable poll open"):
        poster(found, "en")


def test_bounds_are_rounded_to_the_side_that_keeps_them_true() -> None:
    for prior, factor in itertools.product(range(1, 100), (1.2, 2, 2.718, 3, 11)):
        low, high = after_hearing(prior, factor)
        odds = Fraction(prior, 100 - prior)
        most, least = odds * Fraction(factor), odds / Fraction(factor)
        assert Fraction(low, 100) <= least / (1 + least) + Fraction(1, 10**7)
        assert Fraction(high, 100) >= most / (1 + most) - Fraction(1, 10**7)
        assert float(factor_text(factor)) >= factor


def outcome(steps: tuple[str, ...], device: str) -> dict[str, Fraction]:
    """How likely the steps say to answer truthfully, or what: the device thrown in every way."""
    coins = {"two coins": 2, "three coins": 3, "a die and a coin": 1, "a coin and a die": 1}
    text = " ".join(steps)
    throws = list(
        itertools.product(*["HT"] * coins.get(device, 0), *[range(1, 7)] * ("die" in device))
    )
    found: dict[str, Fraction] = {}
    decide = RULES[device]
    kept = [said for throw in throws if (said := decide(text, throw)) is not None]
    for said in kept:
        found[said] = found.get(said, Fraction(0)) + Fraction(1, len(kept))
    return found


def faces(part: str) -> set[int]:
    numbers = [int(each) for each in re.findall(r"\d", part)]
    return set(range(numbers[0], numbers[-1] + 1)) if " to " in part else set(numbers)


def by_faces(text: str, face: int) -> str | None:
    """What "1 or 2: say “x”" tells a person whose die shows this face."""
    for part, said in re.findall(
        r"(\d[\d ort]*)(?:or more)?: (answer truthfully|say “.*?”|“.*?”|roll again)", text
    ):
        if face in faces(part):
            return (
                "truth" if "truth" in said else None if "again" in said else said.split("“")[1][:-1]
            )
    return None


def forced_of(text: str, head: str) -> str:
    found = re.search(rf"{head}[,:] say “(.*?)”", text)
    assert found is not None, text
    return found[1]


def two_coins(text: str, throw: tuple[object, ...]) -> str | None:
    assert "Heads: answer truthfully." in text
    return "truth" if throw[0] == "H" else forced_of(text, "Heads" if throw[1] == "H" else "Tails")


def three_coins(text: str, throw: tuple[object, ...]) -> str | None:
    if len(set(throw)) > 1:
        return "truth"
    return forced_of(text, "Three heads" if throw[0] == "H" else "Three tails")


def die(text: str, throw: tuple[object, ...]) -> str | None:
    return by_faces(text, int(str(throw[0])))


def die_and_coin(text: str, throw: tuple[object, ...]) -> str | None:
    if int(str(throw[1])) in faces("2 to 6"):
        assert "2 to 6: answer truthfully." in text
        return "truth"
    return forced_of(text, "Heads" if throw[0] == "H" else "Tails")


def coin_and_die(text: str, throw: tuple[object, ...]) -> str | None:
    return "truth" if throw[0] == "H" else by_faces(text, int(str(throw[1])))


RULES: dict[str, Callable[[str, tuple[object, ...]], str | None]] = {
    "two coins": two_coins,
    "three coins": three_coins,
    "a die": die,
    "a die and a coin": die_and_coin,
    "a coin and a die": coin_and_die,
}


@pytest.mark.parametrize("factor", [2, 2.9, 3, 4, 5, 6.9, 7, 11, 50])
def test_instructions_by_hand_have_the_channel_that_is_estimated_and_cost_no_more(
    factor: float,
) -> None:
    design = paper_design("coins", question("Aye", "Nay"), ("Aye", "Nay"), math.log(factor))
    said = outcome(design.steps, design.device)
    assert design.epsilon <= math.log(factor) + 1e-9
    assert sum(said.values()) == 1
    assert said["Aye"] == said["Nay"]
    channel = [[float(said["Aye"] + said["truth"]), float(said["Aye"])]]
    channel.append(channel[0][::-1])
    assert design.mechanism.channel() == pytest.approx(np.array(channel))
    assert math.exp(design.epsilon) == pytest.approx(channel[0][0] / channel[0][1])


@pytest.mark.parametrize("k", [3, 6])
def test_a_coin_and_a_die_give_each_of_several_answers_alike(k: int) -> None:
    options = tuple("ABCDEF"[:k])
    design = paper_design("coins", question(*options), options, math.log(k + 1) + 0.1)
    said = outcome(design.steps, design.device)
    assert said == {"truth": Fraction(1, 2)} | dict.fromkeys(options, Fraction(1, 2 * k))
    assert math.exp(design.epsilon) == pytest.approx(k + 1)
    a, b = design.mechanism.support()
    assert (a[0], b[0]) == pytest.approx((1 / 2 + 1 / (2 * k), 1 / (2 * k)))


@pytest.mark.parametrize("name", ["crosswise", "extended-crosswise"])
@pytest.mark.parametrize("factor", [1.5, 2, 3, 7, 40])
def test_digits_of_a_crosswise_card_have_the_chance_that_is_estimated(
    name: str, factor: float
) -> None:
    design = paper_design(name, question("Yes", "No"), ("Yes", "No"), math.log(factor))
    spans = [tuple(map(int, each.split(" and "))) for each in design.ranges]
    chances = [Fraction(high - low + 1, 100) for low, high in spans]
    assert len(chances) == (2 if name.startswith("extended") else 1)
    assert sum(chances) in (chances[0], 1)
    assert design.mechanism.p == chances[0]
    assert design.epsilon <= math.log(factor) + 1e-9


def test_a_crosswise_card_shows_the_statement_if_the_poll_has_one(tmp_path: Path) -> None:
    stated = POLL + 'statement = { en = "I <took> it.", de = "Ich nahm es." }\n'
    for text, first, other in (
        (stated, "A I <took> it.", "My answer to"),
        (POLL, "A My answer to “Taken <any>?” is “Yes”.", "I <took>"),
    ):
        found = read_printed_poll(written(tmp_path, text))
        design = paper_design("crosswise", found.poll.questions[0], ("Yes", "No"), found.epsilon)
        said = Tags(kit(found, "en", {"answer": design})).text
        assert first in said
        assert other not in said


@pytest.mark.parametrize(
    ("name", "options", "kind", "factor", "words"),
    [
        ("coins", ("Yes", "No"), "one", 1.9, "is below 2"),
        ("coins", ("A", "B", "C"), "one", 3.9, "is below 4"),
        ("crosswise", ("A", "B", "C"), "one", 9, "needs two answers"),
        ("coins", tuple("ABCDEFG"), "one", 50, "has no paper form"),
        ("coins", ("A", "B"), "several", 50, "has no paper form"),
        ("cards", ("A", "B"), "one", 3, "must be one of 'coins'"),
    ],
)
def test_what_a_hand_cannot_toss_is_refused(
    name: str, options: tuple[str, ...], kind: str, factor: float, words: str
) -> None:
    with pytest.raises(ParameterError, match=words):
        paper_design(name, question(*options, kind=kind), options, math.log(factor))


def test_the_commands_write_a_file_once_and_name_what_is_wrong(tmp_path: Path) -> None:
    path = str(written(tmp_path))
    run = CliRunner().invoke
    assert run(cli, ["poll", "kit", path, "--design", "crosswise"]).exit_code == 0
    assert "00 and 24" in (tmp_path / "ward.kit.html").read_text(encoding="utf-8")
    assert run(cli, ["poll", "poster", path]).exit_code == 0
    again = run(cli, ["poll", "poster", path])
    assert again.exit_code != 0
    assert "already exists" in again.output
    wrong = run(cli, ["poll", "kit", path, "--language", "fr", "-o", str(tmp_path / "x")])
    assert "must be one of en, de" in wrong.output
