"""`deniable audit`: attack what is deployed, fail if more can be learnt than was claimed, and sign
the findings."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from deniable.audit.designs import audit_design
from deniable.audit.findings import Audit
from deniable.audit.game import Progress
from deniable.audit.mechanisms import audit_mechanism
from deniable.audit.statements import (
    read_statement,
)
from deniable.checks import check_count
from deniable.cli.analyst.query_file import load_query
from deniable.cli.helping import group
from deniable.cli.operator.audit_deployed import audit_published_figures, audit_running_service
from deniable.cli.operator.audit_program import audit_program
from deniable.cli.operator.audit_runs import FILE, NOT_HELD, audit_options, run_audits, run_of
from deniable.cli.output import emit, output_options, say
from deniable.cli.researcher.plan import number
from deniable.errors import ParameterError
from deniable.mechanisms.designs.text import design_from_text
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.registry import mechanism_by_name, mechanisms_by_epsilon
from deniable.queries.signed.keys import PublicKey
from deniable.registries import is_own
from deniable.survey.columns import read_columns

__all__ = ["audit"]


@group()
def audit() -> None:
    """Attack what is deployed, and fail if it reveals more than is claimed.

    Distinguishing games draw reports of two inputs, choose the event that best distinguishes them
    on some of the reports, and count it in the others: a lower bound on epsilon, with the stated
    confidence.
    """


@audit.command("mechanism")
@click.argument("name")
@click.option(
    "--epsilon",
    type=float,
    default=1.0,
    show_default=True,
    help="The local epsilon the mechanism is made for.",
)
@click.option(
    "--values", type=number, default=8, show_default=True, help="How many values it chooses from."
)
@click.option("--claim", type=float, help="The epsilon to refute [default: the mechanism's own].")
@audit_options(1_000_000)
def audit_one(name: str, epsilon: float, values: int, claim: float | None, **common: Any) -> None:
    """Audit the mechanism NAME, or `all` of them, with cryptographic coins.

    Exit code 1 if a claim is refuted.
    """
    values = check_count("values", values)
    n = check_count("n", common["n"])
    made = (
        _all_mechanisms(epsilon, values)
        if name == "all"
        else {name: mechanism_by_name(name, epsilon, values)}
    )
    runs = {
        each: run_of(audit_mechanism, mechanism, n, claim, common["confidence"])
        for each, mechanism in made.items()
    }
    run_audits(f"mechanism {name}", {"epsilon": epsilon, "values": values, "n": n}, runs, common)


def _all_mechanisms(epsilon: float, values: int) -> dict[str, Mechanism]:
    """Every mechanism at an epsilon; one of another package that cannot be made is left out with a
    warning."""
    made = {}
    for name, kind in mechanisms_by_epsilon().items():
        try:
            made[name] = kind.from_epsilon(epsilon, values=2 if kind.yes_or_no else values)
        except Exception as error:
            if is_own(kind):
                raise
            say(f"{name} is left out: {type(error).__name__}: {error}", err=True)
    return made


@audit.command("survey")
@click.argument("file", type=FILE)
@audit_options(1_000_000)
def audit_survey(file: Path, **common: Any) -> None:
    """Audit the mechanism of each column that FILE describes (the TOML that `deniable randomize`
    writes).

    Exit code 1 if a claim is refuted.
    """
    n = check_count("n", common["n"])
    runs = {
        name: run_of(audit_mechanism, each, n, None, common["confidence"])
        for name, each in read_columns(file).items()
    }
    run_audits(f"survey {file.name}", {"n": n}, runs, common)


@audit.command("design")
@click.argument("design")
@click.option("--claim", type=float, help="The epsilon to refute [default: the design's own].")
@click.option(
    "--u",
    type=float,
    default=0.5,
    show_default=True,
    help="Prevalence of the unrelated question, where it is estimated.",
)
@audit_options(1_000_000)
def audit_survey_design(design: str, claim: float | None, u: float, **common: Any) -> None:
    """Audit a survey design, written as NAME:PARAMETER=VALUE,… such as Crosswise:p=1/6
    (docs/designs.md).

    A design whose epsilon is infinite claims nothing, and the audit says so. Exit code 1 if a claim
    is refuted.
    """
    n = check_count("n", common["n"])
    made = design_from_text(design)

    def run(progress: Progress | None) -> Audit:
        return audit_design(made, n, claim, common["confidence"], progress=progress, u=u)

    run_audits(f"design {design}", {"n": n}, {design: run}, common)


@audit.command("graph")
@click.option(
    "--epsilon",
    type=float,
    default=1.0,
    show_default=True,
    help="The loss of an edge, over all rounds.",
)
@click.option(
    "--rounds",
    type=click.Choice(["1", "2"]),
    default="1",
    show_default=True,
    help="Rounds of reports.",
)
@click.option(
    "--reporting",
    type=click.Choice(["once", "both"]),
    default="once",
    show_default=True,
    help="Who reports a pair in one round: one end of it, or both.",
)
@click.option("--claim", type=float, help="The epsilon to refute [default: the protocol's own].")
@audit_options(200_000)
def audit_graph(
    epsilon: float, rounds: str, reporting: str, claim: float | None, **common: Any
) -> None:
    """Audit the protocols that report a graph's edges, on graphs that differ in one edge.

    A whole graph is reported for each trial of two rounds, some milliseconds each: use --n-reports 4000.
    Exit code 1 if a claim is refuted.
    """
    from deniable.audit.edges import audit_edges  # noqa: PLC0415 - SciPy's sparse matrices are slow to import
    from deniable.graphs.response import EdgeResponse  # noqa: PLC0415
    from deniable.graphs.two_rounds import TwoRounds  # noqa: PLC0415

    n = check_count("n", common["n"])
    if rounds == "2" and reporting == "both":
        raise ParameterError("--reporting", reporting, "must be 'once' with two rounds")
    protocol = TwoRounds(epsilon) if rounds == "2" else EdgeResponse(epsilon, reporting)
    name = f"graph, {rounds} round{'s' if rounds == '2' else ''}, pairs reported {reporting}"
    run_audits(
        name,
        {"epsilon": epsilon, "n": n},
        {name: run_of(audit_edges, protocol, n, claim, common["confidence"])},
        common,
    )


@audit.command("device")
@click.argument("query_file", metavar="QUERY", type=FILE)
@click.option(
    "--vault", type=FILE, help="A vault with one answer [default: made up for the query's SQL]."
)
@click.option(
    "--other", type=FILE, help="A vault that grants the same columns and has another answer."
)
@click.option(
    "--policy",
    "policy_file",
    type=FILE,
    help=(
        "The policy of your devices, as `deniable client` reads it; its keys and tokens are not"
        " used [default: one that allows what is asked]."
    ),
)
@click.option(
    "--lives",
    type=number,
    default=8,
    show_default=True,
    help="Pairs of lives that are compared exactly.",
)
@click.option(
    "--devices",
    type=number,
    default=2000,
    show_default=True,
    help="Whole devices to run with fresh coins; 0 for none.",
)
@audit_options(200_000)
def audit_one_device(
    query_file: Path,
    vault: Path | None,
    other: Path | None,
    policy_file: Path | None,
    lives: int,
    devices: int,
    **common: Any,
) -> None:
    """Audit one device that answers QUERY (a TOML file, or a signed one): everything that leaves
    it.

    Exit code 1 if a claim is refuted, or if two lives that differ only in the data differ in
    anything but the report.
    """
    from deniable.audit.data_leaks import compared_contents  # noqa: PLC0415
    from deniable.audit.devices import audit_device  # noqa: PLC0415 - loads the client and its sandbox
    from deniable.audit.vault_pairs import given_pair, made_pair  # noqa: PLC0415
    from deniable.client.policy import read_policy  # noqa: PLC0415

    if (vault is None) != (other is None):
        raise click.UsageError("--vault and --other must be given together")
    query = load_query(query_file)[0]
    n, lives = check_count("n", common["n"]), check_count("lives", lives)
    devices = check_count("devices", devices) if devices else 0
    policy = None if policy_file is None else read_policy(policy_file)

    def run(progress: Progress | None) -> Audit:
        with tempfile.TemporaryDirectory(prefix="deniable-audit-") as place:
            folder = Path(place)
            pair = (
                made_pair(query, folder)
                if vault is None or other is None
                else given_pair(query, vault, other)
            )
            more = compared_contents(query, pair, folder, policy=policy)
            given = n, lives, devices, common["confidence"]
            return audit_device(
                query, pair, folder, *given, progress=progress, more=more, policy=policy
            )

    run_audits(
        f"device answering {query.id}",
        {"n": n, "lives": lives, "devices": devices},
        {"device": run},
        common,
        query,
    )


@audit.command("pipeline")
@click.argument("query_file", metavar="QUERY", type=FILE)
@audit_options(100_000)
def audit_whole_pipeline(query_file: Path, **common: Any) -> None:
    """Audit what each party sees of people who answer QUERY: network, proxies, all together,
    analyst.

    Shares go through the code of devices, proxies and aggregator, on a simulated clock. Exit code 1
    if a claim is refuted.
    """
    from deniable.audit.parties import audit_pipeline  # noqa: PLC0415 - loads client, proxy and aggregator

    query = load_query(query_file)[0]
    n = check_count("n", common["n"])

    def run(progress: Progress | None) -> Audit:
        with tempfile.TemporaryDirectory(prefix="deniable-audit-") as place:
            return audit_pipeline(query, Path(place), n, common["confidence"], progress=progress)

    run_audits(
        f"pipeline of {query.id}",
        {"n": n, "proxies": len(query.proxies)},
        {"pipeline": run},
        common,
        query,
    )


audit.add_command(audit_program)
audit.add_command(audit_running_service)
audit.add_command(audit_published_figures)


@audit.command("verify")
@click.argument("file", type=FILE)
@click.option("--trusted", type=FILE, help="The public key that must have signed it.")
@output_options
def verify_report(file: Path, trusted: Path | None) -> None:
    """Check the signature of an audit report, JSON or HTML, and say what it found.

    Exit code 1 if the report says that a claim was refuted.
    """
    signed = read_statement(file, None if trusted is None else PublicKey.load(trusted))
    report, key = signed["report"], signed["key"]
    word = "every claim held" if report["holds"] else "A CLAIM WAS REFUTED"
    whose = "" if trusted else "; give --trusted to check that the key is theirs"
    shown = [
        f"{file.name}: {word} (audit of {report['audited']['what']}, {report['made']})",
        f"Signed by {key['owner']}, key {key['id']}{whose}.",
    ]
    emit(report, shown)
    if not report["holds"]:
        raise click.exceptions.Exit(NOT_HELD)
