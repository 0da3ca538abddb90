"""The pictures of what is printed, as SVG inside the page."""

from __future__ import annotations

import io
import math

from deniable.errors import MissingExtraError
from deniable.poll.paper.words import after_hearing, escaped

__all__ = ["coin_picture", "flow_picture", "odds_picture", "qr_picture"]

_BOX = (
    '<g transform="translate({x} {y})"><rect width="{w}" height="74" rx="6"/>'
    '<text x="10" y="23" class="b">{title}</text>{lines}</g>'
)


def _box(x: int, y: int, width: int, title: str, *lines: str) -> str:
    texts = "".join(
        f'<text x="10" y="{42 + 17 * i}">{escaped(line)}</text>' for i, line in enumerate(lines)
    )
    return _BOX.format(x=x, y=y, w=width, title=escaped(title), lines=texts)


def _arrow(x1: int, y1: int, x2: int, y2: int) -> str:
    return f'<path d="M{x1} {y1}L{x2} {y2}" class="a" marker-end="url(#tip)"/>'


def flow_picture(operators: tuple[str, str], asker: str, minimum: int) -> str:
    """Where an answer goes: from the phone, in two shares, to two operators, and to the count."""
    one, two = (name if len(name) < 30 else f"{name[:28]}…" for name in operators)
    asker = asker if len(asker) < 22 else f"{asker[:20]}…"
    parts = [
        _box(0, 80, 150, "Person’s browser", "coins change the", "answer, then erased"),
        _box(212, 20, 196, "Operator one", one, "sees noise, address"),
        _box(212, 140, 196, "Operator two", two, "sees noise, address"),
        _box(470, 80, 130, "The count", "joins the shares,", "no address"),
        _box(652, 80, 168, asker, f"sees counts of {minimum:,}", "or more, with ±"),
        _arrow(150, 106, 208, 66),
        _arrow(150, 128, 208, 172),
        _arrow(408, 62, 466, 104),
        _arrow(408, 172, 466, 130),
        _arrow(600, 117, 648, 117),
        '<text x="166" y="78" text-anchor="middle">share</text>',
        '<text x="166" y="168" text-anchor="middle">share</text>',
    ]
    return (
        '<svg class="flow" viewBox="-2 0 826 234" role="img" aria-label="The browser changes the'
        " answer by coins and sends one share each to two operators; the count joins the shares and"
        ' shows the asker totals"><defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4"'
        ' markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'
        f"{''.join(parts)}</svg>"
    )


def odds_picture(prior: int, factor: float) -> str:
    """A hundred squares each: before an answer was seen, and at most after."""
    _, after = after_hearing(prior, factor)

    def squares(left: int, filled: int, says: str) -> str:
        cells = "".join(
            f'<rect x="{left + 9 * (i % 20)}" y="{9 * (i // 20)}" width="7.5" height="7.5"'
            f' class="{"on" if i < filled else "off"}"/>'
            for i in range(100)
        )
        return f'{cells}<text x="{left}" y="62">{says}</text>'

    return (
        f'<svg class="odds" viewBox="0 0 410 68" role="img" aria-label="{prior} in 100 before, at'
        f' most {after} in 100 after">{squares(0, prior, f"before: {prior} in 100")}'
        f"{squares(225, after, f'after: at most {after} in 100')}</svg>"
    )


def qr_picture(link: str) -> str:
    """The link as a QR code, with its quiet zone."""
    try:
        import segno  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("segno", "poll", "a poster's QR code") from None
    out = io.BytesIO()
    segno.make(link, error="m", micro=False).save(
        out, kind="svg", border=4, xmldecl=False, svgns=False, omitsize=True, svgclass="qr",
        title="QR code of the link",
    )  # fmt: skip
    return out.getvalue().decode()


def coin_picture() -> str:
    """The undecided coin: half hatched, half solid."""
    hatches = "".join(
        f'<path d="M{x} {100 - _reach(x):.1f}V{100 + _reach(x):.1f}"/>' for x in range(10, 100, 6)
    )
    return (
        '<svg class="coin" viewBox="0 0 200 200" aria-hidden="true"><g fill="none" stroke="#17191c"'
        f' stroke-width="0.9">{hatches}<circle cx="100" cy="100" r="98" stroke-width="2.4"/></g>'
        '<path d="M100 2a98 98 0 0 1 0 196z" fill="#17191c"/></svg>'
    )


def _reach(x: int) -> float:
    return math.sqrt(96**2 - (x - 100) ** 2)
