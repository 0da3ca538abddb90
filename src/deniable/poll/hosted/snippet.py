"""Snippets: one question of a poll, for somebody else's survey software."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from deniable.display import factor_text
from deniable.errors import ParameterError
from deniable.mechanisms.protocols.direct import DirectEncoding
from deniable.poll.hosted.platforms import Platform
from deniable.poll.paper.style import page
from deniable.poll.paper.words import escaped
from deniable.poll.poll import Poll
from deniable.poll.questions import PollQuestion

__all__ = ["hosted_mechanism", "instructions", "snippet"]

_WORD = 1 << 32
_WORDS = {
    "before": "Coins may change your answer before anything is stored. Your own answer is not.",
    "toss": "Toss the coins",
    "choose": "Choose an answer first.",
    "said": "What is stored:",
    "nobody": "Yours or the coins’? Nobody can tell.",
    "next": "Continue",
}


def hosted_mechanism(poll: Poll, question: PollQuestion) -> DirectEncoding:
    """How a snippet randomizes a question: labels in the poll's first language are stored."""
    if question.kind == "several":
        rule = "has several answers per person; snippets ask for one"
        raise ParameterError("question", question.id, rule)
    return DirectEncoding(list(question.options[poll.languages[0]]), epsilon=poll.epsilon_each)


def snippet(poll: Poll, question: PollQuestion, platform: Platform) -> str:
    """The text to paste into the survey software."""
    mechanism = hosted_mechanism(poll, question)
    language = poll.languages[0]
    described: dict[str, Any] = {
        "key": f"deniable {poll.id} {question.id}",
        "text": question.text[language],
        "options": list(question.options[language]),
        "truthful": list(divmod(mechanism._truthful, _WORD)),
        "words": _WORDS,
    }
    core = (Path(__file__).parent / "static" / "ask.js").read_text(encoding="utf-8")
    script = f"const DENIABLE = {_literal(described)};\n{core}"
    return platform.frame.replace("FIELD", question.id).replace("SCRIPT\n", script)


def _literal(value: Any) -> str:
    """The value in JavaScript. No text in it can end a script element, and no brace is followed by
    what template languages of survey software take for an expression."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name}: {_literal(each)}' for name, each in value.items())} }}"
    written = json.dumps(value)
    for character in "<{}":
        written = written.replace(character, f"\\u{ord(character):04x}")
    return written


def instructions(poll: Poll, names: dict[str, str], platform: Platform, file: str) -> str:
    """A page that says what to do with the snippets, given their files by question."""
    parts = []
    for question in poll.questions:
        if question.id not in names:
            continue
        given = (
            step.replace("FIELD", question.id).replace("SNIPPET", names[question.id])
            for step in platform.steps
        )
        steps = "".join(f"<li>{escaped(step)}</li>" for step in given)
        factor = factor_text(math.exp(poll.epsilon_each))
        parts.append(
            f'<h2 dir="auto">{escaped(question.text[poll.languages[0]])}</h2><ol>{steps}</ol><p>One'
            f" answer costs epsilon {poll.epsilon_each:.4f}: odds about a person change by a factor"
            f" of {factor} at most.</p>"
        )
    body = f"""<main class="sheet kit"><header><h1>{escaped(platform.title)}</h1><span
dir="auto">{escaped(poll.title[poll.languages[0]])}</span></header>
<p>Each respondent’s browser tosses the coins, and the survey’s own field stores what they said.
No proxy and no count of this project takes part.</p>{"".join(parts)}
<h2>To estimate</h2><p class="mono">deniable estimate EXPORT.csv --poll {escaped(file)}</p>
<h2>What this does not do</h2><ul>
<li>The survey software serves the page, and could change the script. It sees who answered,
from which address and when, beside the randomized answer. The factor above holds all the same,
if the script is unchanged.</li>
<li>Ask each person once. The toss is remembered in the tab; in a new one the coins fall again.</li>
<li>Other questions of the survey are not randomized. If their answers tell the same thing, so does
the survey.</li>
<li>Turn off recordings of clicks and screens on this page, if your survey software has any.</li>
</ul>
</main>"""
    return page(f"{poll.title[poll.languages[0]]}: {platform.title}", body)
