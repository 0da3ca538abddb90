"""The respondent's card and the interviewer's script, for paper and telephone."""

from __future__ import annotations

import math

from deniable.display import factor_text
from deniable.poll.paper.paper_designs import PaperDesign
from deniable.poll.paper.words import day, escaped, points
from deniable.poll.poll import Poll
from deniable.poll.questions import PollQuestion

__all__ = ["field_sheets"]

_COLOURS = ("White", "Grey")


def field_sheets(
    poll: Poll, question: PollQuestion, language: str, design: PaperDesign
) -> list[tuple[str, str]]:
    """The titles and contents of the sheets for one question."""
    factor = factor_text(math.exp(design.epsilon))
    if design.ranges:
        cards = [
            _statements(question, language, factor, colour, digits)
            for colour, digits in zip(_COLOURS, design.ranges, strict=False)
        ]
    else:
        cards = [_coins(question, language, factor, design)]
    return [
        ("Cards for respondents" if len(cards) > 1 else "Card for respondents", "".join(cards)),
        ("Interviewer’s script", _script(poll, question, language, design, factor)),
    ]


def _promise(factor: str) -> str:
    return (
        '<p class="note">No tick says what is true of you. Nobody’s odds about you change by more'
        f" than a factor of {factor}.</p>"
    )


def _ticks(options: tuple[str, ...], said: str = "") -> str:
    boxes = "".join(f"<span><i></i><b {said}>{escaped(each)}</b></span>" for each in options)
    return f'<div class="ticks">{boxes}</div>'


def _coins(question: PollQuestion, language: str, factor: str, design: PaperDesign) -> str:
    said = f'lang="{escaped(language)}" dir="auto"'
    steps = "".join(f"<li>{escaped(step)}</li>" for step in design.steps)
    return f"""<div class="card"><header><b>Chance speaks too</b><span class="note">You need
{escaped(design.device)}</span></header>
<p class="say" {said}>{escaped(question.text[language])}</p>
<ol>{steps}<li>Tick one box. Tell nobody what you tossed.</li></ol>
{_ticks(question.options[language], said)}{_promise(factor)}</div>"""


def _statements(
    question: PollQuestion, language: str, factor: str, colour: str, digits: str
) -> str:
    said = f'lang="{escaped(language)}" dir="auto"'
    yes = escaped(question.options[language][0])
    first = (
        f"<span {said}>{escaped(question.statement[language])}</span>"
        if question.statement
        else f"My answer to “<span {said}>{escaped(question.text[language])}</span>” is “<span"
        f" {said}>{yes}</span>”."
    )
    return f"""<div class="card {colour.lower()}"><header><b>Two statements, one tick</b><span
class="note">{colour} card</span></header>
<ol><li>Think of somebody’s phone number. Tell nobody whose it is.</li>
<li>Read both statements. Do not mark them.
<div class="say"><b>A</b> {first}</div>
<div class="say"><b>B</b> The last two digits of that number are between {digits}.</div></li>
<li>Tick one box.</li></ol>
{_ticks(("Exactly one of A and B is true", "Both are true, or both are false"))}
{_promise(factor)}</div>"""


def _script(
    poll: Poll, question: PollQuestion, language: str, design: PaperDesign, factor: str
) -> str:
    crosswise = bool(design.ranges)
    asker = escaped(poll.asker)
    rows = [
        ("Begin", f"“{asker} asks one question. It takes two minutes. You can stop at any time.”")
    ]
    if crosswise:
        shuffled = len(design.ranges) > 1
        rows += [
            ("Hand over", "Offer the shuffled cards face down. The person takes one. Note the"
             " colour, white or grey, and nothing else." if shuffled
             else "Hand over the card."),
            ("Explain", "“Please think of somebody’s phone number, and do not tell me whose. On"
             " your card there are two statements. I do not want to know which of them is true. I"
             " only ask: is exactly one of them true, or are both true or both false?”"),
            ("Rehearse", "“For practice: ‘Snow is white’ and ‘Five is more than nine’. One is true,"
             " one is not. So: exactly one.”"),
            ("By telephone", "Ask for the phone number to be chosen before you read B. Read out A"
             f" and B.{' Toss a coin for white or grey before you call.' if shuffled else ''}"),
        ]  # fmt: skip
    else:
        steps = " ".join(escaped(step) for step in design.steps)
        rows += [
            ("Hand over", f"The card and {escaped(design.device)}. Turn away."),
            ("Explain", f"“{steps} Do not tell me what you tossed.”"),
            ("Rehearse", "“For practice, is snow white? Toss, and tell me only what the toss lets"
             " you say.”"),
            ("By telephone", "The person uses a device of their own. Read out the question first,"
             " then the steps."),
        ]  # fmt: skip
    rows += [
        ("If asked “Why?”", "“Because even I must not know. From many such replies the proportion"
         " can be worked out, but not who it was.”"),
        ("If they refuse", "Write “refused”. Do not persuade. Do not offer to ask directly."),
        ("Never", "Never ask what was tossed or whose number it was. Never look at a ticked card;"
         " it goes into the box folded. Never repeat the question to the same person: two replies"
         f" tell more than one. The last card goes into the box by {day(poll.end)}."),
    ]  # fmt: skip
    table = "".join(f'<tr><th scope="row">{a}</th><td>{b}</td></tr>' for a, b in rows)
    counts = ", ".join(f"{points(design.half_width(n))} points at {n:,} cards" for n in (100, 300))
    lines = "<br>".join(escaped(line) for line in design.estimate)
    command = (
        "Count the ticks, fill in the numbers, and run <span"
        ' class="mono">deniable survey estimate paper.toml</span> on'
        f'<br><span class="mono">[questions.{escaped(question.id)}]<br>{lines}</span>'
        if len(question.options[language]) == 2
        else f'Write one line per card into paper.csv, and run <span class="mono">{lines}</span>'
    )
    return f"""<p lang="{escaped(language)}" dir="auto"><b>
{escaped(question.text[language])}</b></p>
<table><tbody>{table}</tbody></table>
<h2>What this design protects, and what it can show</h2>
<p>Epsilon {design.epsilon:.4f}, factor {factor}, per person, once. At 95 % and at worst:
{counts}.</p>
<h2>To estimate</h2><p>{command}</p>"""
