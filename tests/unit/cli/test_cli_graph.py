"""`deniable graph`: files in, files out, and nothing written where something is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from deniable.cli import cli
from deniable.graphs import Graph, read_graph, read_reports, write_edges

GRAPH = nx.powerlaw_cluster_graph(50, 3, 0.5, seed=1)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def write_edge_list(path: Path) -> Path:
    path.write_text("from,to\n" + "".join(f"p{i},p{j}\n" for i, j in GRAPH.edges))
    return path


def write_roster(path: Path) -> Path:
    path.write_text("node,team\n" + "".join(f"p{i},{'red' if i % 2 else 'blue'}\n" for i in GRAPH))
    return path


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_edge_lists_go_through_files_unchanged(tmp_path: Path, suffix: str) -> None:
    graph = Graph.of(GRAPH)
    write_edges(graph, tmp_path / f"edges.{suffix}")
    again = read_graph(tmp_path / f"edges.{suffix}", 50)
    np.testing.assert_array_equal(again.edges, graph.edges)
    assert again.labels is None


@pytest.mark.parametrize("rounds", ["1", "2", "auto"])
def test_what_is_randomized_here_is_estimated_there(tmp_path: Path, rounds: str) -> None:
    edges, roster = write_edge_list(tmp_path / "edges.csv"), write_roster(tmp_path / "roster.csv")
    more = ["--mean-degree", 6] if rounds == "auto" else []
    made = run(
        "graph",
        "randomize",
        edges,
        "-o",
        tmp_path / "reports.dng",
        "--epsilon",
        12,
        "--nodes",
        roster,
        "--rounds",
        rounds,
        *more,
    )
    assert made.exit_code == 0, made.output
    assert "50 nodes" in made.output
    command = [
        "graph",
        "estimate",
        tmp_path / "reports.dng",
        "--group",
        f"{roster}:team",
        "--distribution",
    ]
    found = run(
        *command,
        "--json",
        "--synthetic",
        tmp_path / "synthetic.csv",
        "--plot",
        tmp_path / "degrees.png",
    )
    assert found.exit_code == 0, found.output
    content = json.loads(found.stdout)
    # System coins. At epsilon 12 a pair flips with probability 6e-6 in one round, one of 1,225 pairs
    # in 0.75 % of runs: their number is no normal one, but five flips are rarer than 1e-12.
    allowed = max(7 * content["edges"]["stderr"], 4.5)
    assert abs(content["edges"]["value"] - GRAPH.number_of_edges()) <= allowed
    assert content["labels"] == [f"p{i}" for i in range(50)]
    assert -1 <= content["assortativity"]["value"] <= 1
    assert read_graph(tmp_path / "synthetic.csv", roster).nodes == 50
    assert (tmp_path / "degrees.png").read_bytes().startswith(b"\x89PNG")
    rows = run(*command, "--csv").stdout.splitlines()
    assert rows[0] == "figure,node,estimate,stderr,low,high,coverage"
    assert sum(row.startswith("degree,") for row in rows) == 50
    assert all(
        row.rpartition(",")[2] in {"as stated", "at least", "all possible"} for row in rows[1:]
    )
    assert "; intervals cover 95 %" in run(*command).output


def test_methods_are_compared_on_a_graph_one_holds(tmp_path: Path) -> None:
    edges = write_edge_list(tmp_path / "edges.csv")
    found = run(
        "graph",
        "compare",
        edges,
        "--epsilon",
        2,
        "--trials",
        2,
        "--json",
        "--plot",
        tmp_path / "errors.png",
    )
    assert found.exit_code == 0, found.output
    methods = {row["method"]: row for row in json.loads(found.stdout)["errors"]}
    assert set(methods) == {
        "response",
        "response-both",
        "laplace-local",
        "two-rounds",
        "curator-global",
        "curator-smooth",
    }
    assert methods["curator-smooth"]["trusted"]
    assert not methods["response"]["trusted"]
    assert (tmp_path / "errors.png").exists()
    assert "not private" in run("graph", "compare", edges, "--trials", 1).output.lower()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a,b\n0,1\n2,2\n", "row 2 is a self-loop"),
        ("a,b\n0,1\n1,2\n1,0\n", "row 3 is a pair that was listed before"),
        ("a,b\n0,1\n0,9\n", "row 2: a node that is not on the roster"),
        ("a,b\n0\n", "row 1: there must be 2 fields"),
        ("a,b\n0,\n", "row 1: there must be 2 fields"),
        ("a\n0\n", "has 1 columns, but 2 are needed"),
        ("", "is empty"),
        ('a,b\n0,"1\n', "not a CSV file"),
    ],
)
def test_an_edge_list_that_is_none_is_refused_in_one_line_and_nothing_is_written(
    tmp_path: Path, lines: str, message: str
) -> None:
    edges, output = tmp_path / "edges.csv", tmp_path / "reports.dng"
    edges.write_text(lines)
    refused = run("graph", "randomize", edges, "-o", output, "--epsilon", 1, "--nodes", 4)
    assert refused.exit_code == 2
    assert message in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["edges.csv"]


def test_bad_arguments_are_refused_in_one_line_and_files_stay_as_they_are(tmp_path: Path) -> None:
    edges, roster, output = (
        write_edge_list(tmp_path / "edges.csv"),
        write_roster(tmp_path / "roster.csv"),
        tmp_path / "reports.dng",
    )
    output.write_bytes(b"precious")
    good = ("graph", "randomize", edges, "--epsilon", 1, "--nodes", roster)
    assert "exists already" in run(*good, "-o", output).stderr
    assert output.read_bytes() == b"precious"
    fresh = tmp_path / "fresh.dng"
    for arguments, message in (
        ((*good, "-o", fresh, "--epsilon", -1), "epsilon = -1.0"),
        ((*good, "-o", fresh, "--rounds", "auto"), "--rounds auto needs --mean-degree"),
        ((*good, "-o", tmp_path / "nowhere" / "x.dng"), "cannot be written"),
        (
            ("graph", "randomize", tmp_path / "none.csv", "-o", fresh, "--epsilon", 1),
            "cannot be read",
        ),
        (("graph", "estimate", output), "not reports about a graph"),
        (("graph", "estimate", tmp_path / "none"), "cannot be read"),
        (("graph", "compare", edges, "--trials", 0), "trials = 0"),
        (("graph", "compare", edges, "--delta", 2), "delta = 2"),
    ):
        refused = run(*arguments)
        assert refused.exit_code == 2, arguments
        assert message in refused.stderr
        assert refused.stderr.count("\n") == 1
    assert not fresh.exists()
    assert run(*good, "-o", output, "--force").exit_code == 0
    assert read_reports(output).nodes == 50
    bad = run(
        "graph",
        "estimate",
        output,
        "--group",
        f"{roster}:height",
        "--synthetic",
        tmp_path / "s.csv",
    )
    assert "no column 'height'" in bad.stderr
    assert not (tmp_path / "s.csv").exists()


def test_parquet_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "edges.parquet").write_bytes(b"nothing of the kind")
    refused = run("graph", "compare", tmp_path / "edges.parquet")
    assert refused.exit_code == 2
    assert "is not a Parquet file" in refused.stderr
    pq.write_table(pa.table({"a": [0, None], "b": [1, 2]}), tmp_path / "holes.parquet")
    assert "empty cell" in run("graph", "compare", tmp_path / "holes.parquet").stderr
