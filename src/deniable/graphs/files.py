"""Files: edge lists and node lists as CSV or Parquet, and reports."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deniable.errors import GraphError, MissingExtraError
from deniable.graphs.graph import Graph
from deniable.graphs.reports import GraphReports, unpack
from deniable.graphs.two_rounds import TwoRoundReports
from deniable.table_file import TableFormat, kind_of, open_parquet, open_text

__all__ = ["read_column", "read_graph", "read_reports", "write_edges", "write_reports"]


def read_graph(path: Path | str, nodes: Path | str | int | None = None) -> Graph:
    """The graph of an edge list: the first two columns of a CSV or Parquet file are the ends of an
    edge.

    `nodes` is the roster: a file whose first column lists the nodes, or a number, if they are named
    0 … n - 1. Without it, the nodes are those with an edge, and whether somebody has one is then no
    longer hidden. Errors name a row, never its nodes.
    """
    path = Path(path)
    left, right = _columns(path, 2)
    if isinstance(nodes, int):
        labels: list[str] = [str(node) for node in range(nodes)]
    elif nodes is not None:
        labels = _columns(Path(nodes), 1)[0]
    else:
        labels = sorted(set(left) | set(right), key=_natural)
    places = {label: place for place, label in enumerate(labels)}
    if len(places) != len(labels):
        raise GraphError(f"{nodes}: a node is listed twice")
    pairs = np.empty((len(left), 2), dtype=np.int64)
    for column, names in enumerate((left, right)):
        for row, name in enumerate(names):
            if name not in places:
                raise GraphError(f"{path}, row {row + 1}: a node that is not on the roster")
            pairs[row, column] = places[name]
    try:
        return Graph.of(pairs, nodes=len(labels), labels=None if _numbered(labels) else labels)
    except GraphError as error:
        where = ":" if error.position is None else f", row {error.position + 1}"
        raise GraphError(f"{path}{where} {error.rule}") from None


def read_column(path: Path | str, name: str, labels: Sequence[Any]) -> list[str]:
    """A public attribute of the nodes, from a file whose first column lists them, in the order of
    `labels`."""
    path = Path(path)
    header, columns = _table(path)
    if name not in header:
        raise GraphError(f"{path} has no column {name!r}; it has {', '.join(map(repr, header))}")
    values = dict(zip(columns[0], columns[header.index(name)], strict=True))
    missing = next((label for label in labels if str(label) not in values), None)
    if missing is not None:
        raise GraphError(f"{path} has no row for node {missing!r}")
    return [values[str(label)] for label in labels]


def write_edges(graph: Graph, path: Path | str, *, overwrite: bool = False) -> None:
    """An edge list with the columns `source` and `target`, as CSV or, by the file's name,
    Parquet."""
    path = Path(path)
    names = range(graph.nodes) if graph.labels is None else graph.labels
    ends = [[names[i] for i in column] for column in graph.edges.T.tolist()]
    if kind_of(path) == "parquet":
        pa, pq = _arrow()
        buffer = io.BytesIO()
        pq.write_table(pa.table({"source": ends[0], "target": ends[1]}), buffer)
        content = buffer.getvalue()
    else:
        rows = [["source", "target"], *zip(*ends, strict=True)]
        content = "".join(",".join(_field(cell) for cell in row) + "\n" for row in rows).encode()
    _write(path, content, overwrite)


def write_reports(
    reports: GraphReports | TwoRoundReports, path: Path | str, *, overwrite: bool = False
) -> None:
    """The reports as one file; nothing is left behind if it cannot be written whole."""
    _write(Path(path), reports.to_bytes(), overwrite)


def read_reports(path: Path | str) -> GraphReports | TwoRoundReports:
    """The reports that :func:`write_reports` wrote, of one round or two."""
    path = Path(path)
    content = _read(path)
    try:
        kind = unpack(content)[0].get("kind")
        return (TwoRoundReports if kind == "two rounds" else GraphReports).from_bytes(content)
    except ValueError as error:
        raise GraphError(f"{path}: {error}") from None


def _write(path: Path, content: bytes, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise GraphError(f"{path} exists already")
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise GraphError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise GraphError(f"{path} cannot be read: {os.strerror(error.errno or 0)}") from None


def _columns(path: Path, count: int) -> list[list[str]]:
    header, columns = _table(path)
    if len(header) < count:
        raise GraphError(f"{path} has {len(header)} columns, but {count} are needed")
    return columns[:count]


def _table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Header and columns, all as texts."""
    if kind_of(path) == "parquet":
        with open_parquet(path, GraphError) as file:
            table = file.read()
            columns = [column.to_pylist() for column in table.columns]
        if any(None in column for column in columns):
            raise GraphError(f"{path} has an empty cell")
        return list(table.column_names), [[str(cell) for cell in column] for column in columns]
    with open_text(path, GraphError, TableFormat(delimiter=",")) as text:
        columns = [[] for _ in text.header]
        for place, row in enumerate(text.rows, 1):
            if len(row) != len(columns) or not all(cell.strip() for cell in row):
                raise GraphError(
                    f"{path}, row {place}: there must be {len(columns)} fields, none of them empty"
                )
            for column, cell in zip(columns, row, strict=True):
                column.append(cell)
        return text.header, columns


def _field(cell: Any) -> str:
    text = str(cell)
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"\n\r') else text


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("pyarrow", "frames", "writing Parquet") from None
    return pa, pq


def _natural(label: str) -> tuple[int, int, str]:
    return (0, int(label), label) if label.isdecimal() else (1, 0, label)


def _numbered(labels: Sequence[str]) -> bool:
    return all(label == str(place) for place, label in enumerate(labels))
