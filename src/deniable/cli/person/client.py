"""`deniable client`: the owner's side of answering. What was asked, what was sent, what is left."""

from __future__ import annotations

import itertools
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from deniable.cli.helping import group
from deniable.cli.opening import open_page
from deniable.cli.output import emit, output_options, progress_bar, say
from deniable.cli.person.client_options import (
    VAULT,
    counted,
    open_device,
    policy_option,
    policy_path,
    read_vault_policy,
)
from deniable.cli.person.client_records import log, status, verify
from deniable.client.cadence import Cadence, rounds
from deniable.client.conformance import compare, read_vectors
from deniable.client.device import Device
from deniable.client.http_transport import HttpTransport
from deniable.client.policy import read_policy
from deniable.client.upload import Uploaded
from deniable.client.vaults.vault import Vault
from deniable.errors import MissingExtraError, PolicyError, QueryError, UploadError
from deniable.toml_file import TomlFile

__all__ = ["client"]

_TEMPLATE = """\
# What you allow. Anything not named here is refused. `deniable client policy VAULT` says it in plain words.

ring = "ring.json"              # the file of the keys you trust
# analysts = ["City of Exampleton"]   # who may ask; without this line, everyone with a key on the ring
epsilon_per_answer = 3.0        # the most that one answer may cost
# strata = ["north"]            # the parts of populations you belong to
queue_messages = 1000           # how many answers are queued when there is no network
queue_age = "14 d"              # and for how long
upload_within = "10 min"        # answers leave at a random time within this span after the end of their slot
clock_tolerance = "5 min"       # how far your clock may be from the proxies' clocks
deadline = 1.0                  # seconds an analyst's SQL may run on your data

[[limits]]                      # the most that all answers together may cost
epsilon = 10
period = "30 d"                 # in any 30 days; without this line, for life
each_analyst = true             # for each analyst; without this line, for all together

[[limits]]
epsilon = 30
period = "30 d"

# [[proxies]]                   # at least two: where shares may go, and the token you were given
# address = "https://proxy-one.example"
# token = "..."
"""

_SHOWN = 20  # differences of a port


@group()
def client() -> None:
    """Answer queries about your vault, and see what was asked, answered and refused.

    What a device remembers (its ledger, its receipts, the shares on their way) is in a file beside
    the vault, VAULT.client.
    """


for each in (log, status, verify):
    client.add_command(each)


@client.command()
@VAULT
@policy_option
@click.option(
    "--new", is_flag=True, help="Write a commented file of cautious settings, to be filled in."
)
@output_options
def policy(vault: Path, policy_file: Path | None, new: bool) -> None:
    """Say in plain words what your settings allow."""
    if not new:
        text = str(read_vault_policy(vault, policy_file))
        emit({"policy": text.splitlines()}, text)
        return
    path = policy_file or policy_path(vault)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise PolicyError(
            "file", str(path), f"cannot be written: {error.strerror}", path.name
        ) from None
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(_TEMPLATE)
    said = (
        f"Wrote {path}: name the ring of keys and the proxies, then run  deniable client policy"
        f" {vault}"
    )
    emit({"file": str(path)}, said)


@client.command()
@VAULT
@policy_option
@click.argument("queries", nargs=-1, required=True, type=click.Path(path_type=Path))
@output_options
def answer(vault: Path, policy_file: Path | None, queries: tuple[Path, ...]) -> None:
    """Answer the signed QUERIES for the current epoch, if your settings allow them. Answers wait
    for `upload`."""
    device = open_device(vault, policy_file)
    contents = []
    for path in queries:
        try:
            contents.append(path.read_bytes())
        except OSError as error:
            raise QueryError(f"{path} cannot be read: {error.strerror}") from None
    receipts = device.answer_all(contents)
    emit([receipt.to_dict() for receipt in receipts], [str(receipt) for receipt in receipts])


@client.command()
@VAULT
@policy_option
@output_options
def upload(vault: Path, policy_file: Path | None) -> None:
    """Upload the shares that are due to their proxies."""
    device = open_device(vault, policy_file)
    with HttpTransport() as transport:
        uploaded = device.upload(transport)
    emit(_uploaded_dict(uploaded), _uploaded_text(uploaded))
    _say_problems(device, uploaded)


@client.command()
@VAULT
@policy_option
@output_options
def once(vault: Path, policy_file: Path | None) -> None:
    """Ask the proxies for queries, upload what is due, and answer the queries. Answers are sent by
    a later `once` or `upload`. The exit code is 1 if no proxy could be asked."""
    device = open_device(vault, policy_file)
    with HttpTransport() as transport:
        found = device.fetch(transport)
        uploaded = device.upload(transport)
    # connections are closed by now: when they close would show how long the SQL took
    receipts = device.answer_all(found)
    if not device.policy.upload_within:
        with HttpTransport() as transport:
            uploaded = device.upload(transport)
    with device.store.transaction() as transaction:  # the new answers wait as well
        uploaded = replace(uploaded, waiting=transaction.outbox.n_queued())
    answered = [receipt.to_dict() for receipt in receipts]
    emit(
        {
            "receipts": answered,
            "uploaded": _uploaded_dict(uploaded),
            "poll_problems": list(device.poll_problems),
        },
        [*map(str, receipts), _uploaded_text(uploaded)],
    )
    _say_problems(device, uploaded)
    if found is None:
        raise SystemExit(1)


@client.command()
@VAULT
@policy_option
@click.option(
    "--every", default=60, show_default=True, type=click.IntRange(1), help="Seconds per round."
)
@click.option(
    "--rounds", "n", type=click.IntRange(1), help="How many rounds [default: until stopped]."
)
def run(vault: Path, policy_file: Path | None, every: int, n: int | None) -> None:
    """Fetch, answer and upload in rounds, at times drawn in advance. It can be stopped or killed at
    any moment."""
    device = open_device(vault, policy_file)
    cadence = Cadence(every, device.policy.slot)
    with HttpTransport() as transport:
        lived = rounds(device, transport, cadence, clock=time.monotonic, sleep=time.sleep)
        for receipts, uploaded in itertools.islice(lived, n):
            _follow_ring(device, vault, policy_file)
            for receipt in receipts:
                if receipt.outcome not in ("again", "waiting"):
                    say(str(receipt))
            if uploaded.sent or uploaded.problems:
                say(_uploaded_text(uploaded))
            _say_problems(device, uploaded)


def _follow_ring(device: Device, vault: Path, policy_file: Path | None) -> None:
    """Trust the keys that the ring holds now: one that its owner has revoked is refused from the
    next round on."""
    try:
        device.policy = replace(device.policy, ring=read_vault_policy(vault, policy_file).ring)
    # it is being written, or is damaged: go on with the keys of before
    except (PolicyError, QueryError) as error:
        say(str(error), err=True)


@client.command()
@VAULT
@click.argument("proxy")
@click.option("--invitation", help="The code that the proxy's operator gave you.")
@click.option(
    "--ticket",
    type=click.Path(path_type=Path),
    help="A file with a ticket and its signature, as JSON.",
)
@policy_option
@output_options
def enrol(
    vault: Path, proxy: str, invitation: str | None, ticket: Path | None, policy_file: Path | None
) -> None:
    """Get a token from the proxy at the address PROXY and add it to your settings, so that shares
    can go there."""
    path = policy_file or policy_path(vault)
    settings = TomlFile.read(path, PolicyError)
    if any(
        isinstance(table, dict) and table.get("address") == proxy
        for table in settings.tree.get("proxies", [])
    ):
        raise PolicyError("proxies", proxy, "is already among your proxies", path.name)
    request = {"invitation": invitation} if invitation else {}
    if ticket is not None:
        try:
            request = json.loads(ticket.read_bytes())
        except (OSError, ValueError) as error:
            raise click.UsageError(
                f"{ticket} cannot be read as JSON: {getattr(error, 'strerror', None) or error}"
            ) from None
    with HttpTransport() as transport:
        try:
            token = transport.enrol(proxy, request)
        except UploadError as error:
            raise UploadError(f"{proxy}: {error.detail}") from None
    with path.open("a", encoding="utf-8") as file:
        file.write(f"\n[[proxies]]\naddress = {json.dumps(proxy)}\ntoken = {json.dumps(token)}\n")
    emit({"proxy": proxy, "file": str(path)}, f"{proxy} gave you a token; it is in {path.name}.")


@client.command(context_settings={"ignore_unknown_options": True})
@click.argument("vectors", type=click.Path(path_type=Path))
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@output_options
def conformance(vectors: Path, command: tuple[str, ...]) -> None:
    """Compare a client in another language with VECTORS (tests/vectors/client-v1.json in the
    source).

    COMMAND is started once. It reads one JSON object per line and prints one for each
    (docs/wire.md); put -- before it. The exit code is 1 if any step differs.
    """
    found = read_vectors(vectors)
    n_steps = sum(len(case["steps"]) for case in found["cases"])
    wrong = []
    with progress_bar("comparing") as advance:
        for done, difference in compare(found, command):
            if difference is not None:
                wrong.append(difference)
            if advance is not None:
                advance(done / n_steps)
    differences = [
        {"case": each.case, "step": each.step, "fields": list(each.fields)} for each in wrong
    ]
    shown = [str(difference) for difference in wrong[:_SHOWN]]
    if len(wrong) > _SHOWN:
        shown.append(f"… and {len(wrong) - _SHOWN:,} more")
    shown.append(f"{n_steps - len(wrong):,} of {n_steps:,} steps agree.")
    emit({"steps": n_steps, "different": differences}, shown)
    if wrong:
        raise SystemExit(1)


@client.command()
@VAULT
@policy_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="The port on this machine [default: any free port].",
)
@click.option("--no-browser", is_flag=True, help="Print the address and open nothing.")
def ui(vault: Path, policy_file: Path | None, port: int, no_browser: bool) -> None:
    """Open a page that shows what was asked, what it cost and what is left, and lets you refuse an
    analyst. Runs until Ctrl-C.

    It can be reached only from this machine, and only at the printed address.
    """
    path = Vault.open(vault).path
    file = policy_file or policy_path(vault)
    read_policy(file)
    try:
        from deniable.console.person_page import serve_person  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError(str(error.name), "service", "deniable client ui") from None
    serve_person(path, file, port, lambda address: open_page(address, no_browser, "your page"))


def _uploaded_dict(uploaded: Uploaded) -> dict[str, Any]:
    names = ("sent", "waiting", "refused", "expired")
    return {name: getattr(uploaded, name) for name in names} | {
        "problems": [str(each) for each in uploaded.problems]
    }


def _uploaded_text(uploaded: Uploaded) -> str:
    lost = uploaded.refused + uploaded.expired
    rest = f"{counted(uploaded.waiting, 'share')} still waiting" + (
        f", {lost} given up" if lost else ""
    )
    return f"{counted(uploaded.sent, 'share')} sent, {rest}."


def _say_problems(device: Device, uploaded: Uploaded) -> None:
    """Why proxies could not be asked or sent to; what is wrong with one is said once."""
    for problem in dict.fromkeys((*device.poll_problems, *uploaded.problems)):
        say(str(problem), err=True)
