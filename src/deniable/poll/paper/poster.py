"""The poster: who asks, what, a QR code, and the one sentence that matters."""

from __future__ import annotations

from deniable.display import factor_text
from deniable.errors import ServiceError
from deniable.poll.paper.drawings import coin_picture, qr_picture
from deniable.poll.paper.signed_file import PrintedPoll
from deniable.poll.paper.style import page
from deniable.poll.paper.words import day, escaped

__all__ = ["poster"]

_LONG_TITLE = 40


def poster(found: PrintedPoll, language: str) -> str:
    """One sheet of HTML that prints on A4 and Letter, for a poll that was opened."""
    poll = found.poll
    if found.link is None:
        raise ServiceError("the poll has no link yet: open it with deniable poll open")
    said = f'lang="{escaped(language)}" dir="auto"'
    n = len(poll.questions)
    code = "Have your code at hand. " if poll.answer != "open" else ""
    why = poll.why[language] if poll.why else poll.questions[0].text[language]
    contact = f" Questions: {escaped(poll.contact)}." if poll.contact else ""
    link = escaped(str(found.link))
    long = ' class="long"' if len(poll.title[language]) > _LONG_TITLE else ""
    body = f"""<main class="sheet poster">
<p class="asker" dir="auto"><b>{escaped(poll.asker)}</b> asks</p>
<h1{long} {said}>{escaped(poll.title[language])}</h1>
<p class="why" {said}>{escaped(why)}</p>
<div class="row"><div class="code">{qr_picture(str(found.link))}</div>{coin_picture()}</div>
<p class="scan"><b>{n} question{"s" if n > 1 else ""}.</b> {code}Until {day(poll.end)}.</p>
<p class="sure">Nobody can be sure what you said.</p>
<p class="odds">Coins change your answer before it leaves your phone. Whatever you answer,
nobody’s odds about you change by more than a factor of {factor_text(found.factor)}.</p>
<p class="foot">No trust in a phone’s coins? Ask whether there is a paper form.{contact}<br>
<span class="mono">{link}</span></p>
</main>"""
    return page(f"{poll.title[language]}: poster", body)
