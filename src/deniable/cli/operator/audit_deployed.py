"""`deniable audit service` and `deniable audit releases`: attack an aggregator that runs."""

from __future__ import annotations

from pathlib import Path

import click

from deniable.cli.analyst.connecting import read_token
from deniable.cli.analyst.query_file import load_query
from deniable.cli.helping import command
from deniable.cli.operator.audit_runs import FILE, NOT_HELD
from deniable.cli.output import emit, output_options
from deniable.cli.researcher.plan import number
from deniable.queries.signed.keys import AnalystKey

__all__ = ["audit_published_figures", "audit_running_service"]


@command("service")
@click.argument("url")
@click.option(
    "--token-file",
    type=FILE,
    required=True,
    help="A token of the aggregator, with the right to publish.",
)
@click.option("--proxy", help="The address of one of its proxies.")
@click.option(
    "--device-token-file",
    type=FILE,
    help="A device's token at that proxy: it is used up and replaced.",
)
@click.option("--key", type=FILE, help="The key of the analyst to whom the token belongs.")
@click.option("--other-key", type=FILE, help="The key of another analyst.")
@click.option(
    "--other-token-file",
    type=FILE,
    help="A token of that other analyst, with the right to publish.",
)
@click.option(
    "--query",
    "query_file",
    type=FILE,
    help="A query that the aggregator would take, to be varied.",
)
@output_options
def audit_running_service(
    url: str,
    token_file: Path,
    proxy: str | None,
    device_token_file: Path | None,
    **channel: Path | None,
) -> None:
    """Attack the aggregator at URL, and one of its proxies, as the holder of a token could. Only
    for services that you operate.

    Each attack says what was tried and what was seen. Without --proxy and --device-token-file, or
    without --key, --other-key, --other-token-file and --query (which publish two queries and stop
    them again), the attacks that need them are not tried. Exit code 1 if an attack succeeds.
    """
    from deniable.audit.deployed.attempts import ServiceTarget  # noqa: PLC0415 - only here
    from deniable.audit.deployed.channel_attacks import ForeignChannel  # noqa: PLC0415
    from deniable.audit.deployed.service_attacks import audit_service  # noqa: PLC0415

    if (proxy is None) != (device_token_file is None):
        raise click.UsageError("--proxy and --device-token-file must be given together")
    relay = (
        None
        if proxy is None or device_token_file is None
        else ServiceTarget(proxy, read_token(device_token_file))
    )
    foreign = None
    key, other_key, other_token = channel["key"], channel["other_key"], channel["other_token_file"]
    if (
        key is not None
        and other_key is not None
        and other_token is not None
        and channel["query_file"] is not None
    ):
        keys = AnalystKey.load(key), AnalystKey.load(other_key)
        foreign = ForeignChannel(
            *keys, read_token(other_token), load_query(channel["query_file"])[0]
        )
    elif any(channel.values()):
        raise click.UsageError(
            "--key, --other-key, --other-token-file and --query must be given together"
        )
    found = audit_service(ServiceTarget(url, read_token(token_file)), relay, foreign)
    emit(found.to_dict(), found)
    if not found.holds:
        raise click.exceptions.Exit(NOT_HELD)


@command("releases")
@click.argument("url")
@click.option(
    "--token-file",
    type=FILE,
    required=True,
    help="A token of the aggregator that may read queries.",
)
@click.option(
    "--query",
    "queries",
    multiple=True,
    help="The id of a query, repeatable [default: all that the token may read].",
)
@click.option(
    "--epochs",
    type=number,
    default=12,
    show_default=True,
    help="Newest epochs of which every period is asked for.",
)
@click.option(
    "--figures",
    type=FILE,
    help="Keep the figures in this file, and subtract those that it has from earlier runs.",
)
@output_options
def audit_published_figures(
    url: str, token_file: Path, queries: tuple[str, ...], epochs: int, figures: Path | None
) -> None:
    """Subtract everything from everything that a token may read at the aggregator URL: nothing
    small may remain.

    Windows, counts of epochs, and the history over all periods, cuts and fractions are read. An
    aggregator shows only the newest revision of a window: run this repeatedly with --figures to
    subtract revisions. Exit code 1 if two figures differ by fewer answers than the query's minimum
    cohort, and not by none.
    """
    from deniable.analyst.analyst import Analyst  # noqa: PLC0415 - only here
    from deniable.audit.deployed.releases import audit_releases, read_figures, write_figures  # noqa: PLC0415

    known = [] if figures is None else read_figures(figures)
    with Analyst(url, read_token(token_file)) as analyst:
        found, figures_now = audit_releases(analyst, queries, epochs, known)
    if figures is not None:
        write_figures(figures, figures_now)
    emit(found.to_dict(), found)
    if not found.holds:
        raise click.exceptions.Exit(NOT_HELD)
