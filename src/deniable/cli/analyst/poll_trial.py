"""`deniable poll QUESTION ANSWER…`: a whole poll on this machine by one command."""

from __future__ import annotations

import io
import math
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deniable.cli.helping import command
from deniable.cli.output import say
from deniable.display import factor_text
from deniable.errors import MissingExtraError, ParameterError, ServiceError
from deniable.poll.asking import expected_half_width, queries_of
from deniable.poll.files import poll_text
from deniable.poll.poll import Poll, epsilon_of_factor
from deniable.poll.publishing import OpenPoll, invitations_for, open_poll
from deniable.poll.questions import read_question
from deniable.queries.schedule import duration
from deniable.queries.signed.keys import AnalystKey

if TYPE_CHECKING:
    from deniable.local.services import Services

__all__ = ["ask"]

_FEW = 50
_FACTORS = (2, 3, 5, 7, 11)
"""Factors that a hand can reach too: a die, two coins, a die, three coins, a die and a coin."""
_REFRESH = 0.5
_TRIAL = (
    "Trial: this machine runs both proxies and the count. That protects from readers of the"
    " results, not from the person who runs this machine."
)


@command("ask")
@click.argument("question")
@click.argument("answers", nargs=-1)
@click.option("--epsilon", type=float, help="What one answer may cost [default: ln 3 = 1.1].")
@click.option("--margin", type=float, help="The wanted ± in points, of --population answers.")
@click.option("--within", default="7 d", show_default=True, help="How long the poll is open.")
@click.option("--population", type=click.IntRange(1), help="How many people are asked.")
@click.option("--asker", default="The organiser", show_default=True, help="Who asks.")
@click.option(
    "--codes", type=click.IntRange(1, 100_000), help="One answer per code: so many codes."
)
@click.option("--minimum", type=int, help="Nothing is shown below so many answers.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where its files go; must be new.")
@click.option("--seconds", type=click.IntRange(1), help="Stop by itself after so long.")
def ask(
    question: str,
    answers: tuple[str, ...],
    epsilon: float | None,
    margin: float | None,
    within: str,
    population: int | None,
    asker: str,
    codes: int | None,
    minimum: int | None,
    folder: Path | None,
    seconds: int | None,
) -> None:
    """Ask QUESTION with the given ANSWERS (yes and no by default) in a poll on this machine, until
    Ctrl-C.

    Starts two proxies, the aggregator with its console, and the page, and prints the link.
    """
    try:
        import fastapi  # noqa: F401, PLC0415 - an extra that the services need
        import uvicorn  # noqa: F401, PLC0415
    except ImportError as error:
        raise MissingExtraError(str(error.name), "poll", "deniable poll") from None
    from deniable.local.services import free_ports  # noqa: PLC0415 - slow to import
    from deniable.poll.trial import TrialPlaces, services_of  # noqa: PLC0415

    named = re.sub(r"[^a-z0-9]+", "-", question.lower()).strip("-")[:40].strip("-") or "poll"
    folder = (folder or Path(f"poll-{named}")).absolute()
    places = TrialPlaces(free_ports(4))
    now = int(time.time())
    asked = read_question("question", _tree(question, answers), "en")
    crowd = population or codes

    def made(cost: float) -> Poll:
        return Poll(
            id=named,
            asker=asker,
            title=asked.text,
            questions=(asked,),
            operators=places.operators,
            aggregator=places.aggregator.url,
            page=places.page.url,
            start=now,
            end=now + duration("--within", within),
            epsilon=cost,
            answer="open" if codes is None else "codes",
            minimum=minimum or _minimum(crowd),
            population=crowd,
        )

    poll = made(_chosen_epsilon(epsilon, margin, crowd, made))
    if crowd is not None and crowd < _FEW:
        half = expected_half_width(queries_of(poll), crowd)
        say(
            f"With {crowd} people little can be seen: ± {100 * half:.0f} points if all of them"
            " answer. Ask more people, or a larger --epsilon."
        )
    key = AnalystKey.generate(asker)
    opened = open_poll(poll, key)
    _write(folder, poll, key, opened)
    invitations = None
    if codes is not None:
        from deniable.cli.analyst.poll_commands import write_codes  # noqa: PLC0415 - slow

        listed, invitations = invitations_for(poll, codes)
        write_codes(folder / "codes", opened.link, listed, invitations)
    _run(services_of(folder, places, opened, key.public), opened, folder, invitations, seconds)


def _tree(question: str, answers: tuple[str, ...]) -> dict[str, object]:
    yes_no = not answers or [each.lower() for each in answers] == ["yes", "no"]
    if yes_no:
        return {"kind": "yesno", "text": question}
    return {"kind": "one", "text": question, "options": list(answers)}


def _minimum(crowd: int | None) -> int:
    return 100 if crowd is None else min(100, max(10, crowd // 4))


def _chosen_epsilon(
    epsilon: float | None, margin: float | None, crowd: int | None, made: Callable[[float], Poll]
) -> float:
    if epsilon is not None and margin is not None:
        raise click.UsageError("--epsilon and --margin cannot be combined")
    if margin is None:
        return epsilon_of_factor(3) if epsilon is None else epsilon
    if crowd is None:
        raise click.UsageError("--margin needs --population")
    halves = {
        f: 100 * expected_half_width(queries_of(made(epsilon_of_factor(f))), crowd)
        for f in _FACTORS
    }
    found = next((factor for factor, half in halves.items() if half <= margin), None)
    if found is None:
        rule = f"cannot be met: {crowd:,} answers give ± {min(halves.values()):.1f} at best"
        raise ParameterError("--margin", margin, rule)
    return epsilon_of_factor(found)


def _write(folder: Path, poll: Poll, key: AnalystKey, opened: OpenPoll) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise ServiceError(f"{folder} cannot be created: {error.strerror}") from None
    (folder / "poll.toml").write_text(poll_text(poll), encoding="utf-8")
    (folder / "poll.json").write_bytes(opened.document)
    key.save(folder / "organiser.key")


def _run(
    services: Services,
    opened: OpenPoll,
    folder: Path,
    invitations: Mapping[tuple[str, str], list[str]] | None,
    seconds: int | None,
) -> None:
    from deniable.cli.demonstration.live import ending_in_order  # noqa: PLC0415 - slow to import
    from deniable.poll.trial import add_codes, start_poll  # noqa: PLC0415

    with ending_in_order():
        try:
            with services:
                if invitations is not None:
                    add_codes(services, opened.poll, invitations)
                start_poll(services, opened)
                _announce(services, opened, folder)
                stop = None if seconds is None else time.monotonic() + seconds
                while stop is None or time.monotonic() < stop:
                    services.check()
                    time.sleep(_REFRESH)
        except KeyboardInterrupt:
            pass  # this is how it ends
    say("Stopped.")


def _announce(services: Services, opened: OpenPoll, folder: Path) -> None:
    poll = opened.poll
    counts = [100, 300, 1000] if poll.population is None else [poll.minimum, poll.population]
    halves = [(n, 100 * expected_half_width(opened.queries, n)) for n in counts]
    say(
        f"  Coins    epsilon {opened.epsilon:.2f}: odds change by a factor of"
        f" {factor_text(math.exp(opened.epsilon))} at most"
    )
    say(
        "  Expect   "
        + ", ".join(f"± {half:.1f} at {n:,} answers" for n, half in halves)
        + " (95 %)"
    )
    say(f"  Shown    from {poll.minimum:,} answers on, to everyone with the link")
    if poll.answer == "codes":
        say(f"  Codes    {folder / 'codes' / 'codes.csv'}: each good for one answer")
    say(f"  Results  {poll.aggregator}/console/ (token: {services.analyst_token_file})")
    say(f"  Link     {opened.link}")
    say(_qr(str(opened.link)))
    say(_TRIAL)


def _qr(text: str) -> str:
    """The link as a QR code in half blocks; empty without segno."""
    try:
        import segno  # noqa: PLC0415 - an extra
    except ImportError:
        return "(pip install 'deniable[poll]' shows the link as a QR code here)"
    out = io.StringIO()
    segno.make(text, error="m", micro=False).terminal(out, compact=True, border=2)
    return re.sub("\x1b\\[[0-9;]*m", "", out.getvalue()).rstrip("\n")
