"""Signed audit reports: what was audited, when, with what, signed by whom, and what was found; as
JSON or as a page to publish.

The signature covers the canonical bytes of the report under its own prefix, so it is valid for
nothing else. The page contains no script. It embeds the signed JSON, and verification renders the
page again from that: a page that shows anything other than what was signed does not verify.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import platform
import re
import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from deniable.audit.findings import Audit
from deniable.errors import DocumentError, ParameterError
from deniable.queries.signed.keys import AnalystKey, PublicKey

__all__ = ["FORMAT", "make_statement", "read_statement", "sign_statement", "write_statement"]

FORMAT = "deniable audit 1"
_PREFIX = b"deniable audit report 1\0"
_MARK = re.compile(r'<pre id="signed">(.*?)</pre>', re.DOTALL)
_LARGEST = 16 << 20


def make_statement(
    command: str,
    parameters: Mapping[str, Any],
    audits: Mapping[str, Audit],
    query: Mapping[str, Any] | None,
    now: float,
) -> dict[str, Any]:
    """What a report says. `query` names the query that was audited, with its hash."""
    return {
        "format": FORMAT,
        "audited": {
            "what": command,
            "parameters": dict(parameters),
            "query": None if query is None else dict(query),
        },
        "made": datetime.fromtimestamp(int(now), UTC).isoformat(),
        "software": {
            "deniable": version("deniable"),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "sqlite": sqlite3.sqlite_version,
            "platform": platform.system(),
        },
        "holds": all(audit.holds for audit in audits.values()),
        "audits": {name: audit.to_dict() for name, audit in audits.items()},
    }


def sign_statement(statement: Mapping[str, Any], key: AnalystKey) -> dict[str, Any]:
    """The report with its signature, and the public half of the key."""
    public = {"owner": key.owner, "id": key.public.id, "public": key.public.raw.hex()}
    signature = key.sign(_PREFIX + _canonical({"report": statement, "key": public}))
    return {"report": dict(statement), "key": public, "signature": signature.hex()}


def write_statement(path: Path, signed: Mapping[str, Any]) -> None:
    """Write a signed report, as JSON or as a page, depending on the file's suffix."""
    if path.suffix not in (".json", ".html"):
        raise ParameterError("--report", str(path), "must end in .json or .html")
    content = (
        json.dumps(signed, indent=2, ensure_ascii=False) + "\n"
        if path.suffix == ".json"
        else render(signed)
    )
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise ParameterError(
            "--report", str(path), f"cannot be written: {error.strerror}"
        ) from None


def read_statement(path: Path, trusted: PublicKey | None = None) -> dict[str, Any]:
    """The signed report in a file, if its signature is valid and, where a trusted key is given,
    made by that key."""
    try:
        if path.stat().st_size > _LARGEST:
            raise DocumentError(
                f"{path.name} is larger than {_LARGEST >> 20} MiB, too large for an audit report"
            )
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DocumentError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DocumentError(f"{path.name} is not an audit report: it is not text") from None
    is_page = text.lstrip().startswith("<")
    if is_page:
        found = _MARK.search(text)
        if found is None:
            raise DocumentError(
                f"{path.name} is not an audit report: the page contains no signed JSON"
            )
        content = html.unescape(found[1])
    else:
        content = text
    signed = _parsed(path.name, content)
    public = PublicKey(str(signed["key"]["owner"]), bytes.fromhex(signed["key"]["public"]))
    body = {"report": signed["report"], "key": signed["key"]}
    if signed["key"].get("id") != public.id or not public.verifies(
        bytes.fromhex(signed["signature"]), _PREFIX + _canonical(body)
    ):
        raise DocumentError(
            f"{path.name} was changed after it was signed: its signature does not hold"
        )
    if is_page and render(signed) != text:
        made_by = signed["report"].get("software", {}).get("deniable")
        rule = (
            f"or was rendered by another version ({made_by}): verify the JSON report with this one"
        )
        raise DocumentError(f"{path.name} shows something other than what was signed, {rule}")
    if trusted is not None and trusted.raw != public.raw:
        raise DocumentError(f"{path.name} is signed by key {public.id}, and not by {trusted.id}")
    return signed


def _parsed(name: str, content: str) -> dict[str, Any]:
    try:
        signed = json.loads(content)
        if signed["report"]["format"] != FORMAT:
            raise DocumentError(
                f"{name} has the format {signed['report']['format']!r}, and must have {FORMAT!r}"
            )
        (
            bytes.fromhex(signed["signature"]),
            bytes.fromhex(signed["key"]["public"]),
            signed["key"]["owner"],
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DocumentError(f"{name} is not an audit report written by this library") from None
    if not isinstance(signed, dict):
        raise DocumentError(f"{name} is not an audit report written by this library")
    return signed


def _canonical(content: Any) -> bytes:
    return json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


# --- the page

_STYLE = """
body { margin: 0 auto; max-width: 960px; padding: 32px 24px; background: var(--page); color: var(--ink);
  font: 400 var(--t-m)/20px var(--sans); font-variant-numeric: tabular-nums; }
h1 { font-size: var(--t-xl); line-height: 28px; font-weight: 600; margin: 0 0 8px; }
h2 { font-size: var(--t-m); font-weight: 600; margin: 32px 0 8px; }
p, dl { margin: 0 0 8px; } dt { color: var(--ink-2); } dd { margin: 0 0 8px; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; } th { text-align: start; font-weight: 400; color: var(--ink-2); }
th.num { text-align: end; }
th, td { padding: 6px 12px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.num { text-align: end; white-space: nowrap; } .good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; }
.quiet { color: var(--ink-3); } .wide { overflow-x: auto; margin-bottom: 8px; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: 400 var(--t-xs)/16px var(--mono); }
"""


def render(signed: Mapping[str, Any]) -> str:
    """The page of a signed report."""
    report, key = signed["report"], signed["key"]
    style = _tokens() + _STYLE
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    audited, software = report["audited"], report["software"]
    word = (
        '<span class="good">Every claim held</span>'
        if report["holds"]
        else '<span class="bad">A claim was refuted</span>'
    )
    facts = [
        ("Made", report["made"]),
        ("Signed by", f"{key['owner']}, key {key['id']}"),
        ("Software", ", ".join(f"{name} {number}" for name, number in software.items())),
        (
            "Parameters",
            ", ".join(f"{name} {value}" for name, value in audited["parameters"].items()),
        ),
    ]
    if audited["query"] is not None:
        facts.insert(
            0, ("Query", ", ".join(f"{name} {value}" for name, value in audited["query"].items()))
        )
    listed = "".join(f"<dt>{_safe(name)}</dt><dd>{_safe(value)}</dd>" for name, value in facts)
    sections = "".join(_section(name, audit) for name, audit in report["audits"].items())
    raw = html.escape(json.dumps(signed, indent=1, ensure_ascii=False))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Audit: {_safe(audited['what'])}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"<h1>Audit: {_safe(audited['what'])}</h1>\n<p>{word}. Bounds are lower bounds on what is"
        " lost, with the stated"
        " confidence; events too rare to be seen stay unseen, and the exact channel speaks for"
        " those.</p>\n"
        f"<dl>{listed}</dl>\n{sections}\n<h2>The signed report</h2>\n"
        "<p>Check it with <code>deniable audit verify FILE</code>.</p>\n"
        "<details><summary>JSON</summary><pre"
        f' id="signed">{raw}</pre></details>\n</body>\n</html>\n'
    )


def _section(name: str, audit: Mapping[str, Any]) -> str:
    rows = "".join(_row(game) for game in audit["games"])
    compared = "".join(
        f'<tr><td colspan="4">{_safe(each["name"])}</td><td'
        f' class="{"good" if each["holds"] else "bad"}">'
        f"{'holds' if each['holds'] else 'FAILS'}</td><td>{_safe(each['detail'])}</td></tr>"
        for each in audit["comparisons"]
    )
    notes = "".join(f'<p class="quiet">{_safe(note)}</p>' for note in audit["notes"])
    titles = (
        "attack",
        "claimed",
        "shown at least",
        "of the claim",
        "",
        "a leak would be seen from",
    )
    aligned = [
        ("" if place in (0, 4, 5) else ' class="num"', title) for place, title in enumerate(titles)
    ]
    head = f"<tr>{''.join(f'<th{how}>{title}</th>' for how, title in aligned)}</tr>"
    confidence = f"{100 * audit['confidence']:g} %"
    return (
        f"<h2>{_safe(name)}</h2><p>{_safe(audit['subject'])}; {audit['n']:,} reports, confidence"
        f" {confidence}</p>"
        f'<div class="wide"><table>{head}{rows}{compared}</table></div>{notes}'
    )


def _row(game: Mapping[str, Any]) -> str:
    claim = "none" if game["claim"] == "inf" else f"{game['claim']:.4f}"
    shown = max(float(game["lower_bound"]), 0.0)
    part = "" if game["tightness"] is None else f"{100 * game['tightness']:.0f} %"
    seen = game["leak_seen_from"]
    power = "" if seen is None else f"1 in {1 / seen:,.0f} reports"
    word = '<td class="good">holds</td>' if game["holds"] else '<td class="bad">REFUTED</td>'
    return (
        f'<tr><td>{_safe(game["game"])}</td><td class="num">{claim}</td><td'
        f' class="num">{shown:.4f}</td><td class="num">{part}</td>{word}<td>{power}</td></tr>'
    )


def _tokens() -> str:
    """The console's colours, sizes and fonts."""
    return files("deniable.console").joinpath("static/css/tokens.css").read_text(encoding="utf-8")


def _safe(text: Any) -> str:
    return html.escape(str(text))
