"""Snippets in real pages of jsPsych and SurveyJS, and in pages with the fields that the documents
of Qualtrics, LimeSurvey, REDCap and oTree describe, to the estimate."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import chisquare

from deniable.cli import cli
from deniable.poll.files import poll_of_tree, poll_text
from deniable.poll.hosted.platforms import PLATFORMS
from deniable.poll.hosted.snippet import hosted_mechanism, snippet
from deniable.poll.poll import Poll
from toolkit.servers.browser import Browser

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

ALPHA = 1e-9
STANDARD_ERRORS = 6.2
"""An estimate is further from the truth with a probability below 1e-9."""
ANSWER = """
const answer = (root, option) => {
  root.querySelectorAll("input[type=radio]")[option].click();
  [...root.querySelectorAll("button")].find((each) => each.textContent === "Toss the coins").click();
};
"""


def poll_of(*options: str, factor: float = 3) -> Poll:
    return poll_of_tree({
        "id": "p", "asker": "Council", "title": "A poll", "factor": factor,
        "start": 1_800_000_000, "end": 1_800_600_000, "page": "https://poll.example",
        "aggregator": "https://count.example",
        "proxies": [{"url": f"https://{name}.example"} for name in ("one", "two")],
        "questions": [{"text": "Well?", "options": list(options), "kind": "one"}],
    })  # fmt: skip


def library(path: str) -> str:
    """The address of a library's file, which `.ci/node` installs."""
    found = Path(os.environ.get("DENIABLE_NODE", "/nonexistent")) / "node_modules" / path
    if not found.exists():
        reason = f"{path} is not installed (.ci/node FOLDER, and DENIABLE_NODE=FOLDER)"
        if os.environ.get("DENIABLE_REQUIRE_BROWSER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return found.as_uri()


def opened(browser: Browser, folder: Path, *parts: str) -> None:
    scripts = "".join(
        f'<script src="{each}"></script>' if each.startswith("file:") else each for each in parts
    )
    page = folder / "page.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><body>{scripts}</body>", encoding="utf-8")
    browser.open(page.as_uri())


def reload(browser: Browser) -> None:
    """Load the page anew, to the end: the command can return while the old page is still there."""
    browser.run("window.old = true")
    browser.driver.refresh()
    loaded = "return !window.old && document.readyState === 'complete'"
    browser.wait(lambda: browser.run(loaded), "the page is not loaded again")


def snippet_of(poll: Poll, name: str) -> str:
    text = snippet(poll, poll.questions[0], PLATFORMS[name])
    return text if PLATFORMS[name].ending == "html" else f"<script>{text}</script>"


def estimated(folder: Path, name: str, content: str, poll: Poll) -> dict[str, Any]:
    (folder / "p.toml").write_text(poll_text(poll), encoding="utf-8")
    (folder / name).write_text(content, encoding="utf-8")
    arguments = ["estimate", str(folder / name), "--poll", str(folder / "p.toml"), "--json"]
    run = CliRunner().invoke(cli, arguments)
    assert run.exit_code == 0, run.output
    found: dict[str, Any] = json.loads(run.output)["questions"]["answer"]
    return found


def asking(poll: Poll) -> str:
    """The snippet's core alone, and a function that asks once and returns the option stored."""
    text = snippet_of(poll, "redcap").replace("<script>", "").replace("</script>", "")
    core = text.split("(() => {\n", 1)[1].split("  const start")[0]
    return f"""<script>{core}{ANSWER}
    const once = (option) => {{
      sessionStorage.clear();
      const box = document.body.appendChild(document.createElement("div"));
      let said;
      deniableAsk(box, (value) => {{ said = value; }});
      answer(box, option);
      box.remove();
      return DENIABLE.options.indexOf(said);
    }};</script>"""


def test_coins_fall_exactly_where_the_mechanism_says(browser: Browser, tmp_path: Path) -> None:
    """Scripted words: at the boundary of the truth, and of the draw among the other answers."""
    poll = poll_of("a", "b", "c", "d", factor=4)
    high, low = divmod(hosted_mechanism(poll, poll.questions[0])._truthful, 1 << 32)
    opened(browser, tmp_path, asking(poll))
    script = """
    const [option, words] = arguments;
    let taken = 0;
    crypto.getRandomValues = (array) => { array[0] = words[taken++]; return array; };
    const said = once(option);
    return [said, taken];
    """
    top = 2**32 - 1  # 2**32 = 3 * 1431655765 + 1: one word of all is drawn again
    for option, words, said in [
        (2, [high, low - 1], 2),
        (2, [high - 1, top], 2),
        (2, [0, 0], 2),
        (2, [high, low, 0], 0),
        (2, [high, low, 1], 1),
        (2, [high, low, 2], 3),
        (0, [high + 1, 0, 3], 1),
        (3, [top, top, top, 5], 2),
        (3, [top, top, top - 1, 5], 2),
    ]:
        got, taken = browser.run(script, option, words)
        if words == [top, top, top - 1, 5]:
            assert (got, taken) == ((top - 1) % 3, 3)
        else:
            assert (got, taken) == (said, len(words))


def test_a_browser_s_coins_have_the_channel_that_is_estimated(
    browser: Browser, tmp_path: Path
) -> None:
    """Chi-square, n = 12,000 answers "a", alpha 1e-9; a channel of 0.8 or 1.2 times epsilon is
    rejected by the same sample."""
    n, options = 12_000, ("a", "b", "c")
    poll = poll_of(*options, factor=3)
    opened(browser, tmp_path, asking(poll))
    drawn = browser.run(
        "return Array.from({ length: arguments[0] }, () => once(0))"
        ".reduce((counts, each) => (counts[each]++, counts), [0, 0, 0])", n
    )  # fmt: skip

    def p_value(epsilon: float) -> float:
        other = 1 / (math.exp(epsilon) + 2)
        return float(chisquare(drawn, n * np.array([1 - 2 * other, other, other])).pvalue)

    assert p_value(poll.epsilon) > ALPHA
    assert p_value(0.8 * poll.epsilon) < ALPHA
    assert p_value(1.2 * poll.epsilon) < ALPHA


def check(found: dict[str, Any], n: int, truth: float) -> None:
    """The estimate is near the truth. Had the truth itself been stored, it would be 2 truth - 1/2,
    which is further away than that."""
    assert found["n"] == n
    within = STANDARD_ERRORS * math.sqrt(0.25 / n) / 0.5
    assert abs(found["estimate"][0] - truth) < within < abs(2 * truth - 1 / 2 - truth)


def test_a_poll_in_jspsych_from_the_timeline_to_the_estimate(
    browser: Browser, tmp_path: Path
) -> None:
    poll, n = poll_of("Yes", "No"), 400
    opened(
        browser, tmp_path, library("jspsych/dist/index.browser.js"), snippet_of(poll, "jspsych"),
        f"<script>{ANSWER}</script>",
    )  # fmt: skip
    content = browser.run_async(
        """
        const [n, done] = arguments;
        const jsPsych = initJsPsych();
        const trial = (i) => ({
          type: DeniableTrial,
          on_start: () => sessionStorage.clear(),
          on_load: () => {
            const display = jsPsych.getDisplayElement();
            answer(display, i % 10 ? 1 : 0);
            [...display.querySelectorAll("button")].find((b) => b.textContent === "Continue").click();
          },
        });
        jsPsych.run(Array.from({ length: n }, (_, i) => trial(i)))
          .then(() => done(jsPsych.data.get().csv()));
        """,
        n,
    )
    check(estimated(tmp_path, "jspsych.csv", content, poll), n, 0.1)
    assert browser.complaints() == []


def test_a_poll_in_surveyjs_from_the_page_to_the_estimate(browser: Browser, tmp_path: Path) -> None:
    poll, n = poll_of("Yes", "No"), 300
    opened(
        browser, tmp_path, library("survey-core/survey.core.js"),
        library("survey-js-ui/survey-js-ui.js"), '<div id="survey"></div>',
        snippet_of(poll, "surveyjs"), f"<script>{ANSWER}</script>",
    )  # fmt: skip
    rows = browser.run_async(
        """
        const [n, done] = arguments;
        const definition = { elements: [
          { type: "html", name: "answer", html: "<div data-deniable></div>" },
          { type: "text", name: "age" },
        ] };
        const person = (i) => new Promise((resolve) => {
          sessionStorage.clear();
          const host = document.getElementById("survey");
          const survey = new Survey.Model(definition);
          deniableQuestion(survey);
          survey.onComplete.add((each) => { survey.destroy?.(); resolve(each.data); });
          survey.onAfterRenderSurvey.add(() => setTimeout(() => {
            survey.setValue("age", 30);
            answer(host, i % 10 ? 1 : 0);
            survey.completeLastPage();
          }));
          survey.render(host);
        });
        (async () => {
          const rows = [];
          for (let i = 0; i < n; i++) rows.push(await person(i));
          done(rows);
        })();
        """,
        n,
    )
    assert {tuple(sorted(row)) for row in rows} == {("age", "answer")}
    check(estimated(tmp_path, "surveyjs.json", json.dumps(rows), poll), n, 0.1)


QUALTRICS = """<script>
const stored = {}, question = {
  disabled: 0, disableNextButton() { this.disabled++; }, enableNextButton() { this.disabled--; },
  getQuestionContainer: () => document.body,
};
const Qualtrics = { SurveyEngine: {
  addOnReady(start) { addEventListener("load", () => start.call(question)); },
  setJSEmbeddedData(name, value) { stored[name] = value; },
} };
</script>"""
PAGES = {
    "qualtrics": (QUALTRICS, "return [stored.answer, question.disabled]", 0),
    "limesurvey": (
        '<input type="text" id="answer1X2X3">',
        "const f = document.getElementById('answer1X2X3'); return [f.value, f.hidden]",
        True,
    ),
    "redcap": (
        '<input type="text" name="answer">',
        "const f = document.querySelector('[name=answer]'); return [f.value, f.style.display]",
        "none",
    ),
    "otree": (
        "",
        "const f = document.querySelector('[name=answer]'); return [f.value, f.type]",
        "hidden",
    ),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_field_holds_what_the_coins_said_and_nothing_else_is_in_the_form(
    browser: Browser, tmp_path: Path, name: str
) -> None:
    """Once for coins that tell the truth and once for coins that do not; a reload tosses no more."""
    poll = poll_of("Yes", "No")
    fields, script, state = PAGES[name]
    text = snippet_of(poll, name).replace("{SGQ}", "1X2X3")
    for word, said in ((0, "Yes"), (2**32 - 1, "No")):
        coins = f"<script>crypto.getRandomValues = (a) => a.fill({word})</script>"
        opened(
            browser,
            tmp_path,
            "<form>",
            fields,
            coins,
            text,
            "</form>",
            f"<script>{ANSWER}</script>",
        )
        browser.run("sessionStorage.clear()")
        reload(browser)
        browser.run("answer(document, 0)")
        assert browser.run(script) == [said, state]
        assert browser.run("return document.querySelectorAll('input[type=radio]').length") == 0
        form = browser.run("return Object.fromEntries(new FormData(document.forms[0]))")
        assert set(form) <= {"answer"}
        reload(browser)
        assert browser.run(script) == [said, state]
    assert browser.complaints() == []
