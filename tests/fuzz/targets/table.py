"""Tables of answers: delimited text, gzip, Excel and Parquet. The first byte says which; text is
compared with the csv module."""

from __future__ import annotations

import csv
import gzip
import io
import zlib

from deniable.survey.reading import read_chunks
from fuzz.files import folder, put

WEIGHT, LONGEST = 1, 6000
DICTIONARY = [
    b'"',
    b'""',
    b",",
    b";",
    b"\t",
    b"\r\n",
    b"\n",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\x1f\x8b",
    b"PK\x03\x04",
    b"PAR1",
    b"\x00",
]
_SUFFIXES = {b"c": ".csv", b"t": ".tsv", b"z": ".csv.gz", b"x": ".xlsx", b"p": ".parquet"}


def seeds() -> list[bytes]:
    text = b'age,city\n31,"Oslo, N"\n58,"a ""b"""\n'
    out = [
        b"c" + text,
        b"t" + text.replace(b",", b"\t"),
        b"z" + text,
        b"c\xef\xbb\xbfa;b\n1;2\n",
        b"c" + "a,b\n1,2\n".encode("utf-16"),
    ]
    out.append(b"Z" + gzip.compress(text, mtime=0))
    import openpyxl  # noqa: PLC0415 - slow to import
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    book = openpyxl.Workbook()
    book.active.append(["age", "city"])
    book.active.append([31, "Oslo"])
    path = folder() / "seed.xlsx"
    book.save(path)
    out.append(b"x" + path.read_bytes())
    held = io.BytesIO()
    pq.write_table(pa.table({"age": [31, 58], "city": ["Oslo", None]}), held, compression="none")
    return [*out, b"p" + held.getvalue()]


def check(data: bytes) -> None:
    kind, content = data[:1], data[1:]
    if kind == b"z":  # compressed here, so that mutations are of the text and not of its checksum
        content = gzip.compress(content, 1, mtime=0)
    suffix = _SUFFIXES.get(kind.lower(), ".csv")
    path = put(f"table{suffix}", content)
    for leftover in () if suffix in (".xlsx", ".parquet") else (content,):
        _compared(kind, leftover)
    rows = 0
    for chunk in read_chunks(path, None):
        lengths = {len(cells) for cells in chunk.columns.values()}
        assert len(lengths) == 1
        rows += len(chunk)
    assert rows


def _compared(kind: bytes, content: bytes) -> None:
    """What the csv module reads of plain UTF-8 with commas, the reader reads too."""
    if kind not in b"cz" or not content:
        return
    try:
        text = (gzip.decompress(content) if kind == b"z" else content).decode("utf-8-sig")
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if True]
    except (csv.Error, UnicodeDecodeError, OSError, EOFError, zlib.error):
        return
    rows = rows[next((i for i, row in enumerate(rows) if row), len(rows)) :]
    if any(mark in text for mark in ";\t|") or len(rows) < 2 or len({len(row) for row in rows}) > 1:
        return
    if len(rows[0]) < 2 or len(set(rows[0])) < len(rows[0]) or text.startswith("\x1f\x8b"):
        return
    path = put("compared.csv", text.encode())
    read = {
        name: cells for chunk in read_chunks(path, None) for name, cells in chunk.columns.items()
    }
    assert [list(row) for row in zip(*read.values(), strict=True)] == rows[1:]
