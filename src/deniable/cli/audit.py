"""`deniable audit`: attack what is deployed, fail if more can be learnt than was claimed, and sign the findings."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from deniable.audit.designs import audit_design
from deniable.audit.findings import Audit
from deniable.audit.game import Progress
from deniable.audit.mechanisms import audit_mechanism
from deniable.audit.statements import make_statement, read_statement, sign_statement, write_statement
from deniable.cli.connecting import read_token
from deniable.cli.output import as_json, progress_bar, say
from deniable.cli.plan import number
from deniable.cli.query import load_query
from deniable.errors import ParameterError
from deniable.mechanisms.by_epsilon import BY_EPSILON, mechanism_by_name
from deniable.mechanisms.designs.text import design_from_text
from deniable.privacy.checks import check_count
from deniable.queries.keys import AnalystKey, PublicKey
from deniable.queries.query import Query
from deniable.survey.columns import read_columns

__all__ = ["audit"]

_NOT_HELD = 1
"""The exit code of a check that did not hold."""
_FILE = click.Path(dir_okay=False, path_type=Path)
Run = Callable[[Progress | None], Audit]


@click.group()
def audit() -> None:
    """Attack what is deployed, and fail if it reveals more than is claimed.

    Distinguishing games draw reports of two inputs, choose the event that best distinguishes them on some of the reports, and
    count it in the others: a lower bound on epsilon, with the stated confidence.
    """


def _common(default_n: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options that all audits have."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        options = [
            click.option("--n", type=number, default=default_n, show_default=True, help="Reports to draw at most, per subject."),
            click.option(
                "--confidence",
                type=float,
                default=0.999,
                show_default=True,
                help="A true claim is refuted with probability at most 1 minus this.",
            ),
            click.option("--report", type=_FILE, help="Write a signed report to this file: .json, or .html to publish."),
            click.option("--key", type=_FILE, help="The key that signs the report (deniable query keygen)."),
            click.option("--json", "wants_json", is_flag=True, help="Print one JSON object."),
        ]
        for option in reversed(options):
            command = option(command)
        return command

    return add


@audit.command("mechanism")
@click.argument("name")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="The local epsilon the mechanism is made for.")
@click.option("--values", type=number, default=8, show_default=True, help="How many values it chooses from.")
@click.option("--claim", type=float, help="The epsilon to refute [default: the mechanism's own].")
@_common(1_000_000)
def audit_one(name: str, epsilon: float, values: int, claim: float | None, **common: Any) -> None:
    """Audit the mechanism NAME, or `all` of them, with cryptographic coins.

    Exit code 1 if a claim is refuted.
    """
    names = BY_EPSILON if name == "all" else (name,)
    values = check_count("values", values)
    n = check_count("n", common["n"])
    made = {each: mechanism_by_name(each, epsilon, 2 if each == "BinaryResponse" and name == "all" else values) for each in names}
    runs = {each: _run_of(audit_mechanism, mechanism, n, claim, common["confidence"]) for each, mechanism in made.items()}
    _run(f"mechanism {name}", {"epsilon": epsilon, "values": values, "n": n}, runs, common)


@audit.command("survey")
@click.argument("file", type=_FILE)
@_common(1_000_000)
def audit_survey(file: Path, **common: Any) -> None:
    """Audit the mechanism of each column that FILE describes (the TOML that `deniable randomize` writes).

    Exit code 1 if a claim is refuted.
    """
    n = check_count("n", common["n"])
    runs = {name: _run_of(audit_mechanism, each, n, None, common["confidence"]) for name, each in read_columns(file).items()}
    _run(f"survey {file.name}", {"n": n}, runs, common)


@audit.command("design")
@click.argument("design")
@click.option("--claim", type=float, help="The epsilon to refute [default: the design's own].")
@click.option(
    "--u", type=float, default=0.5, show_default=True, help="Prevalence of the unrelated question, where it is estimated."
)
@_common(1_000_000)
def audit_survey_design(design: str, claim: float | None, u: float, **common: Any) -> None:
    """Audit a survey design, written as NAME:PARAMETER=VALUE,… such as Crosswise:p=1/6 (docs/designs.md).

    A design whose epsilon is infinite claims nothing, and the audit says so. Exit code 1 if a claim is refuted.
    """
    n = check_count("n", common["n"])
    made = design_from_text(design)

    def run(progress: Progress | None) -> Audit:
        return audit_design(made, n, claim, common["confidence"], progress=progress, u=u)

    _run(f"design {design}", {"n": n}, {design: run}, common)


@audit.command("graph")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="The loss of an edge, over all rounds.")
@click.option("--rounds", type=click.Choice(["1", "2"]), default="1", show_default=True, help="Rounds of reports.")
@click.option(
    "--reporting",
    type=click.Choice(["once", "both"]),
    default="once",
    show_default=True,
    help="Who reports a pair in one round: one end of it, or both.",
)
@click.option("--claim", type=float, help="The epsilon to refute [default: the protocol's own].")
@_common(200_000)
def audit_graph(epsilon: float, rounds: str, reporting: str, claim: float | None, **common: Any) -> None:
    """Audit the protocols that report a graph's edges, on graphs that differ in one edge.

    A whole graph is reported for each trial of two rounds, some milliseconds each: use --n 4000. Exit code 1 if a claim is
    refuted.
    """
    from deniable.audit.edges import audit_edges  # noqa: PLC0415 - SciPy's sparse matrices are slow to import
    from deniable.graphs.response import EdgeResponse  # noqa: PLC0415
    from deniable.graphs.two_rounds import TwoRounds  # noqa: PLC0415

    n = check_count("n", common["n"])
    if rounds == "2" and reporting == "both":
        raise ParameterError("--reporting", reporting, "must be 'once' with two rounds")
    protocol = TwoRounds(epsilon) if rounds == "2" else EdgeResponse(epsilon, reporting)
    name = f"graph, {rounds} round{'s' if rounds == '2' else ''}, pairs reported {reporting}"
    _run(name, {"epsilon": epsilon, "n": n}, {name: _run_of(audit_edges, protocol, n, claim, common["confidence"])}, common)


@audit.command("device")
@click.argument("query_file", metavar="QUERY", type=_FILE)
@click.option("--vault", type=_FILE, help="A vault with one answer [default: made up for the query's SQL].")
@click.option("--other", type=_FILE, help="A vault that shares the same columns and has another answer.")
@click.option("--lives", type=number, default=8, show_default=True, help="Pairs of lives that are compared exactly.")
@click.option(
    "--devices", type=number, default=2000, show_default=True, help="Whole devices to run with fresh coins; 0 for none."
)
@_common(200_000)
def audit_one_device(query_file: Path, vault: Path | None, other: Path | None, lives: int, devices: int, **common: Any) -> None:
    """Audit one device that answers QUERY (a TOML file, or a signed one): everything that leaves it.

    Exit code 1 if a claim is refuted, or if two lives that differ only in the data differ in anything but the report.
    """
    from deniable.audit.data_leaks import compared_contents  # noqa: PLC0415
    from deniable.audit.devices import audit_device  # noqa: PLC0415 - loads the client and its sandbox
    from deniable.audit.vault_pairs import given_pair, made_pair  # noqa: PLC0415

    if (vault is None) != (other is None):
        raise ParameterError("--other", None if other is None else str(other), "and --vault are given together, or neither")
    query = load_query(query_file)[0]
    n, lives = check_count("n", common["n"]), check_count("lives", lives)
    devices = check_count("devices", devices) if devices else 0

    def run(progress: Progress | None) -> Audit:
        with tempfile.TemporaryDirectory(prefix="deniable-audit-") as place:
            folder = Path(place)
            pair = made_pair(query, folder) if vault is None or other is None else given_pair(query, vault, other)
            more = compared_contents(query, pair, folder)
            return audit_device(query, pair, folder, n, lives, devices, common["confidence"], progress=progress, more=more)

    _run(f"device answering {query.id}", {"n": n, "lives": lives, "devices": devices}, {"device": run}, common, query)


@audit.command("pipeline")
@click.argument("query_file", metavar="QUERY", type=_FILE)
@_common(100_000)
def audit_whole_pipeline(query_file: Path, **common: Any) -> None:
    """Audit what each party sees of people who answer QUERY: network, proxies, all together, analyst.

    Shares go through the code of devices, proxies and aggregator, on a simulated clock. Exit code 1 if a claim is refuted.
    """
    from deniable.audit.parties import audit_pipeline  # noqa: PLC0415 - loads client, proxy and aggregator

    query = load_query(query_file)[0]
    n = check_count("n", common["n"])

    def run(progress: Progress | None) -> Audit:
        with tempfile.TemporaryDirectory(prefix="deniable-audit-") as place:
            return audit_pipeline(query, Path(place), n, common["confidence"], progress=progress)

    _run(f"pipeline of {query.id}", {"n": n, "proxies": len(query.proxies)}, {"pipeline": run}, common, query)


@audit.command("service")
@click.argument("url")
@click.option("--token-file", type=_FILE, required=True, help="A token of the aggregator, with the right to publish.")
@click.option("--proxy", help="The address of one of its proxies.")
@click.option("--device-token-file", type=_FILE, help="A device's token at that proxy: it is used up and replaced.")
@click.option("--key", type=_FILE, help="The key of the analyst to whom the token belongs.")
@click.option("--other-key", type=_FILE, help="The key of another analyst.")
@click.option("--other-token-file", type=_FILE, help="A token of that other analyst, with the right to publish.")
@click.option("--query", "query_file", type=_FILE, help="A query that the aggregator would take, to be varied.")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def audit_running_service(
    url: str, token_file: Path, proxy: str | None, device_token_file: Path | None, wants_json: bool, **channel: Path | None
) -> None:
    """Attack the aggregator at URL, and one of its proxies, as the holder of a token could. Only for services that you operate.

    Each attack says what was tried and what was seen. Without --proxy and --device-token-file, or without --key, --other-key,
    --other-token-file and --query (which publish two queries and stop them again), the attacks that need them are not tried. Exit
    code 1 if an attack succeeds.
    """
    from deniable.audit.attempts import ServiceTarget  # noqa: PLC0415 - only here
    from deniable.audit.service_attacks import ForeignChannel, audit_service  # noqa: PLC0415

    if (proxy is None) != (device_token_file is None):
        raise ParameterError("--proxy", proxy, "and --device-token-file must be given together")
    relay = None if proxy is None or device_token_file is None else ServiceTarget(proxy, read_token(device_token_file))
    foreign = None
    key, other_key, other_token = channel["key"], channel["other_key"], channel["other_token_file"]
    if key is not None and other_key is not None and other_token is not None and channel["query_file"] is not None:
        keys = AnalystKey.load(key), AnalystKey.load(other_key)
        foreign = ForeignChannel(*keys, read_token(other_token), load_query(channel["query_file"])[0])
    elif any(channel.values()):
        raise ParameterError("--key", None, "and --other-key, --other-token-file and --query must be given together")
    found = audit_service(ServiceTarget(url, read_token(token_file)), relay, foreign)
    say(as_json(found.to_dict()) if wants_json else str(found))
    if not found.holds:
        raise click.exceptions.Exit(_NOT_HELD)


@audit.command("releases")
@click.argument("url")
@click.option("--token-file", type=_FILE, required=True, help="A token of the aggregator that may read queries.")
@click.option("--query", "queries", multiple=True, help="The id of a query, repeatable [default: all that the token may read].")
@click.option("--epochs", type=number, default=12, show_default=True, help="Newest epochs of which every period is asked for.")
@click.option("--figures", type=_FILE, help="Keep the figures in this file, and subtract those that it has from earlier runs.")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def audit_published_figures(
    url: str, token_file: Path, queries: tuple[str, ...], epochs: int, figures: Path | None, wants_json: bool
) -> None:
    """Subtract everything from everything that a token may read at the aggregator URL: nothing small may remain.

    Windows, counts of epochs, and the history over all periods, cuts and fractions are read. An aggregator shows only the newest
    revision of a window: run this repeatedly with --figures to subtract revisions. Exit code 1 if two figures differ by fewer
    answers than the query's minimum cohort, and not by none.
    """
    from deniable.analyst.analyst import Analyst  # noqa: PLC0415 - only here
    from deniable.audit.releases import audit_releases, read_figures, write_figures  # noqa: PLC0415

    known = [] if figures is None else read_figures(figures)
    with Analyst(url, read_token(token_file)) as analyst:
        found, figures_now = audit_releases(analyst, queries, epochs, known)
    if figures is not None:
        write_figures(figures, figures_now)
    say(as_json(found.to_dict()) if wants_json else str(found))
    if not found.holds:
        raise click.exceptions.Exit(_NOT_HELD)


@audit.command("verify")
@click.argument("file", type=_FILE)
@click.option("--trusted", type=_FILE, help="The public key that must have signed it.")
@click.option("--json", "wants_json", is_flag=True, help="Print the report as one JSON object.")
def verify_report(file: Path, trusted: Path | None, wants_json: bool) -> None:
    """Check the signature of an audit report, JSON or HTML, and say what it found.

    Exit code 1 if the report says that a claim was refuted.
    """
    signed = read_statement(file, None if trusted is None else PublicKey.load(trusted))
    report, key = signed["report"], signed["key"]
    if wants_json:
        say(as_json(report))
    else:
        word = "every claim held" if report["holds"] else "A CLAIM WAS REFUTED"
        say(f"{file.name}: {word} (audit of {report['audited']['what']}, {report['made']})")
        say(f"Signed by {key['owner']}, key {key['id']}{'' if trusted else '; whether that key is theirs, --trusted checks'}.")
    if not report["holds"]:
        raise click.exceptions.Exit(_NOT_HELD)


def _run_of(audit_it: Callable[..., Audit], subject: Any, n: int, claim: float | None, confidence: float) -> Run:
    return lambda progress: audit_it(subject, n, claim, confidence, progress=progress)


def _run(
    what: str, parameters: Mapping[str, Any], runs: Mapping[str, Run], common: Mapping[str, Any], query: Query | None = None
) -> None:
    """Run audits, print what they found, write the report if requested, and exit with the right code."""
    report, key = common["report"], common["key"]
    if (report is None) != (key is None):
        raise ParameterError("--key", None if key is None else str(key), "and --report are given together, or neither")
    signing = None if key is None else AnalystKey.load(key)
    if report is not None and report.suffix not in (".json", ".html"):
        raise ParameterError("--report", str(report), "must end in .json or .html")
    found: dict[str, Audit] = {}
    for name, run in runs.items():
        with progress_bar(name) as progress:
            found[name] = run(progress)
        if not common["wants_json"]:
            say(f"{'' if len(runs) == 1 else f'{name}: '}{found[name]}")
    holds = all(each.holds for each in found.values())
    if common["wants_json"]:
        say(as_json({"holds": holds, "audits": {name: each.to_dict() for name, each in found.items()}}))
    if report is not None and signing is not None:
        asked = None if query is None else {"id": query.id, "version": query.serial, "sha256": query.digest.hex()}
        stated = {**parameters, "confidence": common["confidence"]}
        write_statement(report, sign_statement(make_statement(what, stated, found, asked, time.time()), signing))
        say(f"Wrote {report}, signed with key {signing.public.id}.", err=True)
    if not holds:
        raise click.exceptions.Exit(_NOT_HELD)
