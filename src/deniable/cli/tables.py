"""The one writer of terminal tables: it wraps at words, aligns wide characters, draws whisker bars,
and makes a list of a table that is too wide.

A line is a list of pieces, each a text and its style, so that widths are counted on the text alone
and colour is added last.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deniable.display import Bar, Display, pad, text_width

__all__ = ["Line", "Piece", "TextTable", "bar_scale", "display_parts", "whisker", "wrap_line"]

_GAP = 2
_LEAST_TEXT = 12
"""A column of text is not made narrower than this, if its words allow it: a table of slivers reads
worse than a list."""
_SHORTEST_BAR, _LONGEST_BAR = 10, 40
_ROWS_SHOWN = 24
_BREAKS = re.compile(r"(?<!±) +(?![%±])")
"""Spaces at which a line may be broken: not within "50 ± 2 %"."""
_FIGURE = r"[-+±]?(\d|inf)"
_KEPT = "\u00a0"
"""A space that stays within its line."""
_UNSPACED = re.compile(r"[^\u2e80-\uffef]+|[\u2e80-\uffef][\u0300-\u036f]*")
"""What is kept together where no space says so: a wide character stands for a word."""


class Piece(NamedTuple):
    """A text and how it is painted: "" or a colour, "bold", "dim"."""

    text: str
    style: str = ""


Line = list[Piece]
Cell = str | Line


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else "".join(piece.text for piece in cell)


def _words(text: str) -> list[str]:
    """What must not be cut: words, and single characters of scripts that are written without
    spaces.

    >>> _words("about 5 % of Tokyo 東京")
    ['about', '5 %', 'of', 'Tokyo', '東', '京']
    """
    words = []
    for word in _BREAKS.split(text):
        words += _UNSPACED.findall(word) or [word]
    return words


def wrap_line(text: str, width: int, indent: str = "") -> list[str]:
    """The text in lines of at most so many columns, broken between words; a longer word has a line
    of its own.

    Lines after the first are indented as the first one is, and by `indent` more.

    >>> wrap_line("  epsilon 1.5 per answer, 20 % of the people", 24)
    ['  epsilon 1.5 per', '  answer, 20 % of the', '  people']
    """
    if text_width(text) <= width:
        return [text]
    start = text[: len(text) - len(text.lstrip())]
    lines, line, gap = [], start, ""
    for piece in re.split(rf"({_BREAKS.pattern})", text.strip()):
        if not piece.strip():  # as many spaces as there were: they may align something
            gap = piece
            continue
        for word in _UNSPACED.findall(piece):
            if line.strip() and text_width(line + gap + word) > width:
                lines.append(line)
                line, gap = start + indent, ""
            line += gap + word
            gap = ""
    return [*lines, line]


def _longest_word(text: str) -> int:
    return max(map(text_width, _words(text)), default=0)


@dataclass(frozen=True)
class TextTable:
    """Rows of cells below their headings. Columns of figures are aligned to the right and never
    broken.

    >>> table = TextTable(("city", "people", "what is known of it"),
    ...                   [("東京", "14,100,000", "the largest"), ("Oslo", "720,000", "in the north")])
    >>> print("\\n".join(table.plain_lines(60)))
    city      people  what is known of it
    東京  14,100,000  the largest
    Oslo     720,000  in the north
    >>> print("\\n".join(table.plain_lines(30)))
    city      people  what is
                      known of it
    東京  14,100,000  the largest
    Oslo     720,000  in the north
    >>> print("\\n".join(table.plain_lines(20)))
    city: 東京
      people: 14,100,000
      what is known of
        it: the largest
    city: Oslo
      people: 720,000
      what is known of
        it: in the north
    """

    columns: Sequence[str]
    """Their headings; none is printed if all are empty."""
    rows: Sequence[Sequence[Cell]]
    right: Sequence[bool] | None = None
    """Which columns are aligned to the right; by default those that hold figures only."""
    indent: int = 0

    def plain_lines(self, width: int | None) -> list[str]:
        """The lines without colour."""
        return [_text(line) for line in self.lines(width)]

    def lines(self, width: int | None) -> list[Line]:
        """The table within so many columns, or as wide as it is; as a list, if its words do not fit
        side by side."""
        right = self.right or [self._is_figures(place) for place in range(len(self.columns))]
        widths = self._widths(right, None if width is None else width - self.indent)
        found = self._list(width or 0, right) if widths is None else self._grid(widths, right)
        start = " " * self.indent
        return [[Piece(start), *line] if start else line for line in found]

    def _is_figures(self, place: int) -> bool:
        texts = [_text(row[place]).strip() for row in self.rows]
        return (
            place > 0
            and all(not text or text == "-" or re.match(_FIGURE, text) for text in texts)
            and any(texts)
        )

    def _widths(self, right: Sequence[bool], width: int | None) -> list[int] | None:
        """How wide each column is; None if the table must become a list."""
        columns = [[_text(row[place]) for row in self.rows] for place in range(len(self.columns))]
        natural, least = [], []
        for place, (heading, cells) in enumerate(zip(self.columns, columns, strict=True)):
            whole = max(map(text_width, cells), default=0)
            drawn = any(not isinstance(row[place], str) for row in self.rows)
            natural.append(max(whole, text_width(heading)))
            narrow = whole if right[place] or drawn else max(map(_longest_word, cells), default=0)
            narrow = max(narrow, text_width(heading) if drawn else _longest_word(heading))
            least.append(
                min(natural[-1], narrow if right[place] or drawn else max(narrow, _LEAST_TEXT))
            )
        room = None if width is None else width - _GAP * (len(self.columns) - 1)
        if room is None or sum(natural) <= room:
            return natural
        if sum(least) > room:
            return None
        widths = list(natural)
        while sum(widths) > room:  # take from the widest column that can give
            giving = max(
                (place for place in range(len(widths)) if widths[place] > least[place]),
                key=lambda p: widths[p],
            )
            widths[giving] -= 1
        return widths

    def _grid(self, widths: Sequence[int], right: Sequence[bool]) -> list[Line]:
        lines: list[Line] = []
        if any(self.columns):
            lines += self._row(self.columns, widths, right, "bold")
        for row in self.rows:
            lines += self._row(row, widths, right)
        return lines

    def _row(
        self, row: Sequence[Cell], widths: Sequence[int], right: Sequence[bool], style: str = ""
    ) -> Iterator[Line]:
        wrapped = [
            wrap_line(cell, width) if isinstance(cell, str) else [cell]
            for cell, width in zip(row, widths, strict=True)
        ]
        for level in range(max(map(len, wrapped))):
            line: Line = []
            for place, (cells, width) in enumerate(zip(wrapped, widths, strict=True)):
                cell = cells[level] if level < len(cells) else ""
                gap = " " * _GAP if place else ""
                if isinstance(cell, str):
                    line.append(Piece(gap + pad(cell, width, right[place]), style))
                else:
                    line += [Piece(gap), *cell, Piece(" " * (width - text_width(_text(cell))))]
            yield _stripped(line)

    def _list(self, width: int, right: Sequence[bool]) -> list[Line]:
        """One block per row: its first cell, and below it each other one that is not empty; figures
        follow each other."""
        lines: list[Line] = []
        room = max(width - self.indent, 1)
        for row in self.rows:
            texts: list[tuple[bool, str | Line]] = []
            for place, (heading, cell) in enumerate(zip(self.columns, row, strict=True)):
                if not isinstance(cell, str):
                    texts.append((False, _stripped([Piece("  "), *cell])))
                elif cell.strip() or not place:
                    named = f"{heading}: {cell}" if heading else cell
                    if right[place]:
                        named = named.replace(" ", _KEPT)
                    before = texts[-1] if texts else (False, "")
                    if right[place] and before[0]:
                        texts[-1] = True, f"{before[1]}; {named}"
                    else:
                        texts.append((right[place], f"  {named}" if place else named))
            for place, (_, text) in enumerate(texts):
                if isinstance(text, str):
                    style = "" if place else "bold"
                    lines += [
                        [Piece(line.replace(_KEPT, " "), style)]
                        for line in wrap_line(text, room, "  ")
                    ]
                else:
                    lines.append(text)
        return lines


def _stripped(line: Line) -> Line:
    """The line without spaces at its end."""
    while line and not line[-1].text.strip():
        line = line[:-1]
    return [*line[:-1], line[-1]._replace(text=line[-1].text.rstrip())] if line else []


# --- bars


def _marks() -> tuple[str, str, str]:
    """What bars, intervals and marks are drawn with: ASCII where the output cannot show more."""
    try:
        "█▒┃".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return "#", "=", "|"
    return "█", "▒", "┃"


def bar_scale(values: Iterable[float]) -> tuple[float, float]:
    """The ends of an axis that has room for these values and 0, at round numbers.

    >>> bar_scale([3.1, 24.0]), bar_scale([-0.7, 0.4])
    ((0.0, 25.0), (-0.8, 0.4))
    """
    known = [value for value in values if math.isfinite(value)]
    low, high = min([0.0, *known]), max([0.0, *known])
    span = high - low
    if span == 0:
        return 0.0, 1.0
    step = 10.0 ** math.floor(math.log10(span))
    step = next(step * part for part in (0.1, 0.2, 0.5, 1.0) if span / (step * part) <= 10)
    ends = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    return float(f"{ends[0]:.6g}"), float(f"{ends[1]:.6g}")


def whisker(
    low: float,
    high: float,
    mark: float,
    scale: tuple[float, float],
    n_cells: int,
    style: str = "cyan",
) -> Line:
    """A bar from 0 to where the interval begins, the interval shaded, and a mark.

    >>> "".join(piece.text for piece in whisker(30, 50, 40, (0, 100), 20))
    '██████▒▒┃▒          '
    """
    full, shaded, line = _marks()
    start, end = scale
    cell = (end - start) / n_cells
    at = min(n_cells - 1, max(0, int((mark - start) / cell + 1e-9)))
    pieces: Line = []
    for place in range(n_cells):
        middle = start + (place + 0.5) * cell
        if place == at:
            pieces.append(Piece(line, style))
        elif low <= middle <= high:
            pieces.append(Piece(shaded, "blue"))
        else:
            filled = 0 <= middle < low or high < middle <= 0
            pieces.append(Piece(full if filled else " ", "blue" if filled else ""))
    return pieces


def _bar_column(bars: Sequence[Bar], room: int | None) -> tuple[str, list[Cell]] | None:
    """The heading and the cells of a column of bars that fits the room; None if there is no room,
    or no interval to draw."""
    n_cells = _LONGEST_BAR if room is None else min(_LONGEST_BAR, room)
    ends = [
        end
        for bar in bars
        for end in (bar.low, bar.high, bar.value)
        if end is not None and math.isfinite(end)
    ]
    if n_cells < _SHORTEST_BAR or not ends or all(bar.low is None for bar in bars):
        return None
    scale = bar_scale(ends)
    cells: list[Cell] = []
    for bar in bars:
        low, high = (bar.value if end is None else end for end in (bar.low, bar.high))
        drawable = all(map(math.isfinite, (low, bar.value, high)))
        cells.append(whisker(low, high, bar.value, scale, n_cells) if drawable else "")
    first, last = f"{scale[0]:g}", f"{scale[1]:g}"
    return first + last.rjust(n_cells - len(first)), cells


def display_parts(shown: Display, width: int | None, title: str = "") -> list[str | TextTable]:
    """What a result shows in a terminal: its title, its table with bars where there is room, and
    its notes."""
    header, *rows = shown.texts or [shown.columns, *(tuple(map(str, row)) for row in shown.rows)]
    n_shown = len(rows) if len(rows) <= _ROWS_SHOWN else _ROWS_SHOWN - 4
    bars = shown.bars[:n_shown] if len(shown.bars) == len(rows) else ()
    indent = 2 if title else 0
    parts: list[str | TextTable] = [title] if title else []
    if rows:
        parts.append(_drawn_table(header, rows[:n_shown], bars, width, indent))
    if n_shown < len(rows):
        parts.append(
            f"{' ' * indent}… and {len(rows) - n_shown:,} more, which --csv and --json print"
        )
    return [
        *parts,
        *(f"{' ' * indent}{line}" for note in shown.notes for line in note.splitlines()),
    ]


def _drawn_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    bars: Sequence[Bar],
    width: int | None,
    indent: int,
) -> TextTable:
    """The columns that say anything, and the bars, if there are any and there is room for them."""
    told = [place for place in range(len(header)) if not place or any(row[place] for row in rows)]
    columns = [header[place] for place in told]
    cells: list[list[Cell]] = [[row[place] for place in told] for row in rows]
    table = TextTable(columns, cells, _right(columns, cells), indent)
    taken = max(map(text_width, table.plain_lines(None)), default=0)
    drawn = _bar_column(bars, None if width is None else width - taken - _GAP)
    if drawn is None:
        return table
    columns = [*columns, drawn[0]]
    cells = [[*row, bar] for row, bar in zip(cells, drawn[1], strict=True)]
    return TextTable(columns, cells, _right(columns, cells), indent)


def _right(columns: Sequence[str], cells: Sequence[Sequence[Cell]]) -> list[bool]:
    """Columns with figures are aligned to the right, the first one and those of texts and bars to
    the left."""
    return [
        place > 0
        and any(isinstance(row[place], str) and re.match(_FIGURE, str(row[place])) for row in cells)
        for place in range(len(columns))
    ]
