"""A report as HTML, as Markdown, or as a Word document that people can edit: the same blocks,
written three ways."""

from __future__ import annotations

import base64
import html
import io
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

__all__ = ["Heading", "Paragraph", "Picture", "ReportTable", "as_docx", "as_html", "as_markdown"]


@dataclass(frozen=True)
class Heading:
    """A title (level 1) or the heading of a part."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Plain text."""

    text: str


@dataclass(frozen=True)
class ReportTable:
    """Rows of texts below their headings, and lines of notes."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A PNG, and what it shows."""

    png: bytes
    caption: str


Block = Heading | Paragraph | ReportTable | Picture

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0"
    " 1rem;color:#1b1b1b}"
    "table{border-collapse:collapse;margin:.8rem 0}th,td{padding:.2rem"
    " .8rem;text-align:right;border-bottom:1px solid #ddd}"
    "th:first-child,td:first-child{text-align:left}img{max-width:100%}figcaption,.note{font-size:.85rem;color:#555}"
)


def as_html(blocks: Sequence[Block]) -> bytes:
    """One page with everything in it."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "Report")
    body = "\n".join(map(_html_block, blocks))
    page = (
        '<!doctype html>\n<html lang="en"><head><meta'
        f' charset="utf-8"><title>{html.escape(title)}</title>'
    )
    return f"{page}<style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n".encode()


def _html_block(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level}>{html.escape(block.text)}</h{block.level}>"
    if isinstance(block, Paragraph):
        return f"<p>{html.escape(block.text)}</p>"
    if isinstance(block, Picture):
        data = base64.b64encode(block.png).decode()
        caption = html.escape(block.caption)
        return (
            f'<figure><img alt="{caption}"'
            f' src="data:image/png;base64,{data}"><figcaption>{caption}</figcaption></figure>'
        )
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in block.header)
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in block.rows
    )
    notes = "".join(f'<div class="note">{html.escape(note)}</div>' for note in block.notes)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table>{notes}"


def as_markdown(blocks: Sequence[Block]) -> bytes:
    """Text without the pictures."""
    parts = []
    for block in blocks:
        if isinstance(block, Heading):
            parts.append(f"{'#' * block.level} {block.text}")
        elif isinstance(block, Paragraph):
            parts.append(block.text)
        elif isinstance(block, ReportTable):
            lines = [
                _markdown_row(block.header),
                _markdown_row(("---",) * len(block.header)),
                *map(_markdown_row, block.rows),
            ]
            parts.append("\n".join([*lines, *(f"\n{note}" for note in block.notes)]))
    return ("\n\n".join(parts) + "\n").encode()


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in cells)} |"


# --- Word: the smallest package that word processors open

_NAMES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"'
)
_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
_TYPES = (
    f'{_XML}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels"'
    ' ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="png" ContentType="image/png"/><Override PartName="/word/document.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
_RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELATIONS = (
    f'{_XML}<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
)
_EMU_A_POINT = 12_700
_PAGE_WIDTH = 450 * _EMU_A_POINT


def as_docx(blocks: Sequence[Block]) -> bytes:
    """An Office Open XML document: headings, paragraphs, tables and pictures."""
    pictures = [block for block in blocks if isinstance(block, Picture)]
    numbers = {id(picture): number for number, picture in enumerate(pictures, 1)}
    body = "".join(_docx_block(block, numbers) for block in blocks)
    rels = "".join(
        f'<Relationship Id="rId{n}" Type="{_RELATION}/image" Target="media/image{n}.png"/>'
        for n in numbers.values()
    )
    start = (
        f'<Relationship Id="rId1" Type="{_RELATION}/officeDocument" Target="word/document.xml"/>'
    )
    parts: dict[str, bytes] = {
        "[Content_Types].xml": _TYPES.encode(),
        "_rels/.rels": f"{_RELATIONS}{start}</Relationships>".encode(),
        "word/document.xml": (
            f"{_XML}<w:document {_NAMES}><w:body>{body}<w:sectPr/></w:body></w:document>".encode()
        ),
        "word/_rels/document.xml.rels": f"{_RELATIONS}{rels}</Relationships>".encode(),
        **{
            f"word/media/image{number}.png": picture.png
            for number, picture in enumerate(pictures, 1)
        },
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in parts.items():
            package.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)
    return out.getvalue()


def _run(text: str, style: str = "") -> str:
    return (
        f"<w:p><w:r><w:rPr>{style}</w:rPr><w:t"
        f' xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'
    )


def _docx_block(block: Block, numbers: dict[int, int]) -> str:
    if isinstance(block, Heading):
        return _run(block.text, f'<w:b/><w:sz w:val="{40 if block.level == 1 else 28}"/>')
    if isinstance(block, Paragraph):
        return _run(block.text)
    if isinstance(block, Picture):
        return _docx_picture(block, numbers[id(block)]) + _run(
            block.caption, '<w:i/><w:sz w:val="18"/>'
        )
    sides = ("top", "left", "bottom", "right", "insideH", "insideV")
    lines = "".join(f'<w:{side} w:val="single" w:sz="4" w:color="BBBBBB"/>' for side in sides)
    rows = "".join(
        "<w:tr>"
        + "".join(
            f"<w:tc>{_run(cell, '<w:b/>' if row is block.header else '')}</w:tc>" for cell in row
        )
        + "</w:tr>"
        for row in (block.header, *block.rows)
    )
    notes = "".join(_run(note, '<w:i/><w:sz w:val="18"/>') for note in block.notes)
    return f"<w:tbl><w:tblPr><w:tblBorders>{lines}</w:tblBorders></w:tblPr>{rows}</w:tbl>{_run('')}{notes}"


def _docx_picture(picture: Picture, number: int) -> str:
    width, height = struct.unpack(">II", picture.png[16:24])  # of the PNG's first chunk
    wide, high = _PAGE_WIDTH, _PAGE_WIDTH * height // width
    name = escape(picture.caption, {'"': "&quot;"})
    size = f'<a:xfrm><a:off x="0" y="0"/><a:ext cx="{wide}" cy="{high}"/></a:xfrm>'
    drawn = (
        f'<pic:pic><pic:nvPicPr><pic:cNvPr id="{number}"'
        f' name="{name}"/><pic:cNvPicPr/></pic:nvPicPr><pic:blipFill><a:blip'
        f' r:embed="rId{number}"/><a:stretch><a:fillRect/></a:stretch></pic:blipFill><pic:spPr>{size}<a:prstGeom'
        ' prst="rect"><a:avLst/></a:prstGeom></pic:spPr></pic:pic>'
    )
    data = (
        "<a:graphicData"
        f' uri="http://schemas.openxmlformats.org/drawingml/2006/picture">{drawn}</a:graphicData>'
    )
    inline = (
        f'<wp:extent cx="{wide}" cy="{high}"/><wp:docPr id="{number}" name="{name}"'
        f' descr="{name}"/>'
    )
    return f"<w:p><w:r><w:drawing><wp:inline>{inline}<a:graphic>{data}</a:graphic></wp:inline></w:drawing></w:r></w:p>"
