"""The kit: what an ethics board, a data protection officer, an interviewer and a respondent get.

Every figure is computed from the queries that are signed, or from the paper design's channel.
"""

from __future__ import annotations

from deniable.display import factor_text
from deniable.numerics import normal_quantile
from deniable.poll.paper.drawings import flow_picture, odds_picture
from deniable.poll.paper.field_sheets import field_sheets
from deniable.poll.paper.paper_designs import PaperDesign
from deniable.poll.paper.signed_file import PrintedPoll
from deniable.poll.paper.style import page
from deniable.poll.paper.words import (
    after_hearing,
    day,
    escaped,
    odds_sentence,
    points,
)

__all__ = ["kit"]

_PRIOR = 10
_DIRECT = 0.5
_WHO_ANSWERS = {
    "open": "Anyone with the link. A browser answers once; a person with two browsers can answer"
    " twice, and the results say so.",
    "codes": "One answer per code. Each operator sees another text derived from the code, so what"
    " one sees does not tell what the other sees. The person who hands out codes can match them.",
}
_WHEN = {
    "live": "While the poll runs, in steps of at least {0} answers",
    "end": "Once, after the end",
    "private": "Once, after the end, to the organiser alone",
}


def kit(found: PrintedPoll, language: str, designs: dict[str, PaperDesign]) -> str:
    """The sheets as one HTML document; `designs` by question, of those to be asked by hand."""
    poll = found.poll
    sheets = [
        _sheet(found, language, "Consent", _consent(found, language)),
        _sheet(found, language, "Statement for those who approve the poll", _statement(found)),
    ]
    for question in poll.questions:
        if question.id in designs:
            for title, body in field_sheets(poll, question, language, designs[question.id]):
                sheets.append(_sheet(found, language, title, body))
    return page(f"{poll.title[language]}: kit", "<main>\n" + "\n".join(sheets) + "\n</main>")


def _sheet(found: PrintedPoll, language: str, title: str, body: str) -> str:
    shown = escaped(found.poll.title[language])
    draft = "" if found.link else (
        '<p class="draft">Draft: this poll has not been signed and opened yet.</p>'
    )  # fmt: skip
    foot = "" if found.link is None else (
        f'<p class="note">Poll <span class="mono">{found.link.poll}</span>, signed with key <span'
        f' class="mono">{found.link.key}</span> of {escaped(found.poll.asker)}</p>'
    )  # fmt: skip
    return (
        f'<section class="sheet kit"><header><h1>{title}</h1><span lang="{escaped(language)}"'
        f' dir="auto">{shown}</span></header>{draft}{body}{foot}</section>'
    )


def _consent(found: PrintedPoll, language: str) -> str:
    poll = found.poll
    low, high = after_hearing(_PRIOR, found.factor)
    said = f'lang="{escaped(language)}" dir="auto"'
    asked = "".join(f"<li {said}>{escaped(each.text[language])}</li>" for each in poll.questions)
    why = f"<p {said}>{escaped(poll.why[language])}</p>" if poll.why else ""
    results = f"<p {said}>{escaped(poll.results_to[language])}</p>" if poll.results_to else ""
    contact = f"<h2>Questions</h2><p>{escaped(poll.contact)}</p>" if poll.contact else ""
    return f"""<h2>What this is about</h2>
<p dir="auto">{escaped(poll.asker)} asks, until {day(poll.end)}:</p><ul>{asked}</ul>{why}
<h2>What happens to your answer</h2>
<p><b>Coins change it.</b> Coins may replace your answer before anything leaves your phone. Your own
answer never leaves it.</p>
<p><b>Nobody can be sure.</b> Whatever you answer, nobody’s odds about you change by more than a
factor of {factor_text(found.factor)}. Anyone who thought it {_PRIOR} in 100 likely that something
is true of you can come to think at most {high} in 100, and at least {low} in 100.</p>
{odds_picture(_PRIOR, found.factor)}
<p><b>Only the crowd is counted.</b> Results appear once {poll.minimum:,} people have answered.</p>
<p><b>What does show.</b> That you took part. The two operators see your network address, as any
website does.</p>
<h2>Your choice</h2>
<p>Taking part is voluntary. You can stop at any time until you send, without a reason and without a
disadvantage. After that your answer cannot be deleted: nobody can tell which one it is.</p>
<h2>Results</h2>
<p>They are shown with the range in which the true proportion lies.</p>{results}{contact}"""


def _row(name: str, *lines: str) -> str:
    return f'<tr><th scope="row">{name}</th><td dir="auto">{"<br>".join(lines)}</td></tr>'


def _statement(found: PrintedPoll) -> str:
    poll = found.poll
    operators = [each.by or each.url for each in poll.operators]
    factor = factor_text(found.factor)
    beliefs = [(prior, *after_hearing(prior, found.factor)) for prior in (_PRIOR, 50)]
    label = f"""<div class="box"><b class="big">Odds change by a factor of {factor} at most</b>
<p>Epsilon is {found.epsilon:.4f} for each person, once. {odds_sentence(found.factor)} This holds
for anyone, whatever else they know, and for all questions of the poll together.</p>
{odds_picture(_PRIOR, found.factor)}</div>"""
    rows = [
        _row("Collected", "One randomized answer per question, in two shares of which each alone is"
             " random. No name, no account, no cookie, no true answer."),
        _row("A reader can infer", *(
            f"A belief of {prior} in 100 becomes at most {high} and at least {low} in 100."
            for prior, low, high in beliefs
        )),
        *([_row("Each question", *(
            f"{escaped(question.text[poll.languages[0]])} Epsilon {query.epsilon:.4f}."
            for question, query in zip(poll.questions, found.queries, strict=True)
        ))] if len(poll.questions) > 1 else []),
        _row("Chance device", "The browser’s cryptographic random generator, with the exact"
             " probabilities that are signed."),
        _row("Who may answer", _WHO_ANSWERS.get(poll.answer, poll.answer)),
        _row("Repetition", "A browser answers once. A second answer by the same person would cost"
             f" another {found.epsilon:.4f}; odds could then change by a factor of"
             f" {factor_text(found.factor**2)}."),
        _row("Withdrawal", "Until the answer is sent. Afterwards nobody can tell which one it is."),
        _row("Small groups", f"Nothing is shown for fewer than {poll.minimum:,} answers."),
        _row("Results", f"{_WHEN[poll.results].format(f'{poll.minimum:,}')}."),
        _row("Accuracy", *_accuracy(found)),
        _row("Not protected", "That a person took part; a person who is watched while answering; a"
             " phone whose software is not trusted; the answer, if both operators and the asker"
             " join everything they see with network addresses: even then the factor above holds."),
        _row("To check this", '<span class="mono">deniable poll verify LINK</span> compares the'
             " page, the poll, the key and the queries with what the link names."),
    ]  # fmt: skip
    return f"""{label}<h2>Where an answer goes</h2>
{flow_picture((operators[0], operators[1]), poll.asker, poll.minimum)}
<table><tbody>{"".join(rows)}</tbody></table>
<h2>What is stored where</h2>{_storage(found, operators)}"""


def _accuracy(found: PrintedPoll) -> list[str]:
    counts = sorted({found.poll.minimum, 300, found.poll.population or 1000})
    expected = "; ".join(f"{n:,} answers give {points(found.half_width(n))} points" for n in counts)
    n = counts[-1]
    direct = min(n, round(n * (_direct_half_width(n) / found.half_width(n)) ** 2))
    return [
        f"At 95 % and at worst: {expected}.",
        f"Asked directly, {direct:,} answers would give as much as {n:,} here, if they were true.",
    ]


def _direct_half_width(n: int) -> float:
    return normal_quantile(0.975) * float(_DIRECT / n**0.5)


def _storage(found: PrintedPoll, operators: list[str]) -> str:
    poll = found.poll
    counted = day(poll.end + (found.queries[0].grace or 0))
    rows = [
        ("The person’s browser", "the randomized answer until it is sent; then a receipt",
         "until sent, or the poll ends; the receipt until it is deleted", "who holds the phone"),
        *((f"Operator: {escaped(name)}", "one share of each answer, each alone random; network"
           " addresses as its web server’s settings say", "7 days by default (intake.retention)",
           "this operator") for name in operators),
        ("The count", "numbers of randomized answers per epoch, never who sent them",
         f"answers count until {counted}; results 30 days, counts 10 years by default",
         f"the aggregator’s operator; results: {escaped(_readers(poll.results))}"),
        ("The person who opened the poll", "the signing key" + (
            " and the codes" if poll.answer == "codes" else ""), "until deleted",
         escaped(poll.asker)),
    ]  # fmt: skip
    body = "".join(
        f'<tr><th scope="row">{place}</th><td>{what}</td><td>{long}</td><td>{who}</td></tr>'
        for place, what, long, who in rows
    )
    heads = "".join(
        f'<th scope="col">{each}</th>' for each in ("Where", "What", "How long", "Who can see it")
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _readers(results: str) -> str:
    return "the asker" if results == "private" else "everyone with the link"
