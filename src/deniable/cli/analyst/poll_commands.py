"""The commands of `deniable poll` for an organiser whose services are run by others."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path
from typing import Any

import click

from deniable.cli.analyst.connecting import aggregator_options, connect
from deniable.cli.analyst.signing_key import signing_key
from deniable.cli.helping import command
from deniable.cli.output import emit, output_options, write_new
from deniable.cli.tables import TextTable
from deniable.errors import ServiceError
from deniable.poll.asking import expected_half_width, queries_of
from deniable.poll.files import TEMPLATE, read_poll
from deniable.poll.link import Link
from deniable.poll.publishing import invitations_for, open_poll
from deniable.queries.times import iso_time

__all__ = ["check", "close", "codes", "new", "open_command", "results", "verify", "write_codes"]

_FILE = click.argument("file", type=click.Path(path_type=Path))
_DAY = 86_400


@command()
@_FILE
@click.option("--question", default="Have you ever …?", help="The question.")
@click.option("--id", "name", default="my-poll", show_default=True, help="The poll's id.")
@output_options
def new(file: Path, question: str, name: str) -> None:
    """Write a commented poll to FILE, which must not exist yet."""
    now = int(time.time())
    quoted = '"' + question.replace("\\", "\\\\").replace('"', '\\"') + '"'
    content = TEMPLATE.format(
        id=f'"{name}"', title=quoted, start=iso_time(now), end=iso_time(now + 14 * _DAY)
    ).replace('why = ""  #', '# why = "…"  #')
    write_new(file, content, ServiceError)
    emit({"written": str(file)}, f"Wrote {file}: edit it, then run  deniable poll check {file}")


@command()
@_FILE
@output_options
def check(file: Path) -> None:
    """Check the poll in FILE, and say what it costs a person and what can be seen."""
    found = read_poll(file)
    queries = queries_of(found)
    expected = {n: expected_half_width(queries, n) for n in (found.minimum, 300, 1000)}
    epsilon = sum(query.epsilon for query in queries)
    emit(
        {
            "id": found.id,
            "epsilon": epsilon,
            "half_width": {str(n): e for n, e in expected.items()},
        },
        [
            f"{found.id}, asked by {found.asker}: {len(queries)} question"
            f"{'s' if len(queries) > 1 else ''}, until {iso_time(found.end)}",
            f"epsilon {epsilon:.4g} per person, once",
            "± to expect, at 95 %: "
            + ", ".join(f"{100 * half:.1f} at {n:,} answers" for n, half in expected.items()),
        ],
    )


@command("open")
@_FILE
@click.option("--key", required=True, type=click.Path(path_type=Path), help="Your signing key.")
@aggregator_options
@output_options
def open_command(file: Path, key: Path, url: str, token_file: Path | None) -> None:
    """Sign the poll in FILE, publish it, and write what its page serves; prints the link.

    Writes FILE with the ending .json, which `deniable poll serve` serves.
    """
    found = read_poll(file)
    opened = open_poll(found, signing_key(key, found.asker))
    write_new(file.with_suffix(".json"), opened.document.decode(), ServiceError)
    with connect(url, token_file) as analyst:
        for signed in opened.signed:
            analyst.publish(signed)
    emit(
        {"link": str(opened.link), "queries": [query.id for query in opened.queries]},
        [f"Opened {found.id}. Serve its page:  deniable poll serve {file.with_suffix('.json')}",
         f"Link: {opened.link}"],
    )  # fmt: skip


@command()
@_FILE
@aggregator_options
@output_options
def close(file: Path, url: str, token_file: Path | None) -> None:
    """Close the poll in FILE before its end: nobody will be asked any more."""
    queries = queries_of(read_poll(file))
    with connect(url, token_file) as analyst:
        for query in queries:
            analyst.stop(query)
    emit({"closed": [query.id for query in queries]}, "Closed. Answers on their way still count.")


@command()
@_FILE
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="Also write a table to this new file: .csv, .tsv, .parquet, .dta (Stata) or .sav (SPSS).",
)
@aggregator_options
@output_options
def results(file: Path, output: Path | None, url: str, token_file: Path | None) -> None:
    """Show the newest results of the poll in FILE."""
    from deniable.poll.result_files import write_results  # noqa: PLC0415 - slow

    found = read_poll(file)
    shown: list[str | TextTable] = []
    queries = queries_of(found)
    with connect(url, token_file) as analyst:
        windows = [analyst.latest(query) for query in queries]
    for window, question in zip(windows, found.questions, strict=True):
        shown.append(question.text[found.languages[0]])
        shown.append(f"Below {found.minimum} answers nothing is shown."
                     if window is None else str(window))  # fmt: skip
    if output is not None:
        shown.append(f"Wrote {write_results(output, found, windows)} rows to {output}.")
    documents: dict[str, Any] = {
        query.id: None if window is None else window.to_dict()
        for query, window in zip(queries, windows, strict=True)
    }
    emit(documents, shown)


@command()
@click.argument("count", type=click.IntRange(1, 1 << 20))
@_FILE
@click.option("--link", required=True, help="The link that deniable poll open printed.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("codes"),
    show_default=True,
    help="The folder to write, which must not exist yet.",
)
@output_options
def codes(count: int, file: Path, link: str, output: Path) -> None:
    """Make COUNT codes for the poll in FILE, each good for one answer.

    Writes OUTPUT/codes.csv, with a link for each person, and one file for each proxy and question,
    which its operator takes with `deniable proxy invite --codes`. Nothing in one proxy's file says
    which code it belongs to in the other's.
    """
    found = read_poll(file)
    write_codes(output, Link.read(link), *invitations_for(found, count))
    queries = [found.query_id(question) for question in found.questions]
    commands = [
        f"deniable proxy invite proxy.toml --codes proxy-{i}.{query}.txt --query {query} --uses 1"
        for i in (1, 2)
        for query in queries
    ]
    emit(
        {"codes": str(output / "codes.csv"), "operators_run": commands},
        [
            f"Wrote {count:,} codes to {output / 'codes.csv'}. The proxies' operators run:",
            *(f"  {each}" for each in commands),
        ],
    )


def write_codes(
    folder: Path, link: Link, made: list[str], invitations: dict[tuple[str, str], list[str]]
) -> None:
    """Write the codes of people, and the files of the proxies' operators, into a new folder."""
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise ServiceError(f"{folder} cannot be created: {error.strerror}") from None
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["code", "link"])
    table.writerows([code, Link(link.page, link.key, link.poll, code)] for code in made)
    (folder / "codes.csv").write_text(text.getvalue(), encoding="utf-8")
    proxies = list(dict.fromkeys(url for url, _ in invitations))
    for (url, query), listed in invitations.items():
        path = folder / f"proxy-{proxies.index(url) + 1}.{query}.txt"
        path.write_text("\n".join([*listed, ""]), encoding="utf-8")


@command()
@click.argument("link")
@output_options
def verify(link: str) -> None:
    """Compare everything that LINK leads to with what it names, from outside: the page's files, the
    poll, the key, and the queries at both proxies. Exit code 1 if something differs."""
    from deniable.poll.verification import verify_link  # noqa: PLC0415 - httpx

    found = verify_link(Link.read(link), int(time.time()))
    emit(
        {"findings": [each._asdict() for each in found]},
        [f"{each.what}: {each.fault or 'as the link names it'}" for each in found],
    )
    if any(each.fault for each in found):
        raise click.exceptions.Exit(1)
