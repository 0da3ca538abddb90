"""A client written from docs/wire.md alone: bytes, integers and loops, and nothing of the library.

It answers the steps of `tests/vectors/client-v1.json`. A port in another language is this program
written again.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from toolkit.references.reference_mechanisms import ONE, TwoSteps, Words, loss, mechanism
from toolkit.references.wire_reference import message, record, xor

# --- queries


def canonical(value: Any) -> bytes:
    def written(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: written(each) for key, each in part.items()}
        if isinstance(part, list):
            return [written(each) for each in part]
        return {"f64": struct.pack(">d", part).hex()} if isinstance(part, float) else part

    return json.dumps(
        written(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    ).encode()


def read_canonical(content: bytes, written: str) -> Any:
    def read(part: Any) -> Any:
        if isinstance(part, list):
            return [read(each) for each in part]
        if not isinstance(part, dict):
            return part
        if set(part) == {"f64"}:
            return struct.unpack(">d", bytes.fromhex(part["f64"]))[0]
        return {key: read(each) for key, each in part.items()}

    value = read(json.loads(content))
    if canonical(value) != content or value["format"] != written:
        raise ValueError("not canonical")
    return value


def glob_to_regex(glob: str) -> str:
    out, at = "", 0
    while at < len(glob):
        if glob[at] == "[":
            end = glob.index("]", at + 2 + (glob[at + 1] == "!"))
            inside = glob[at + 1 : end].replace("\\", "\\\\")
            out += f"[^{inside[1:]}]" if inside[0] == "!" else f"[{inside}]"
            at = end
        else:
            out += {"*": ".*", "?": "."}.get(glob[at], re.escape(glob[at]))
        at += 1
    return out


def in_range(text: Any, value: float) -> bool:
    if not isinstance(text, str):
        return bool(value == text)
    low, high = (float(part) for part in text[1:-1].split(","))
    return (value >= low if text[0] == "[" else value > low) and (
        value <= high if text[-1] == "]" else value < high
    )


def in_bucket(kind: str, bucket: Any, value: Any) -> bool:
    if kind == "number":
        return isinstance(value, int | float) and in_range(bucket, value)
    if not isinstance(value, str):
        return False
    if isinstance(bucket, str):
        return value == bucket
    pattern = glob_to_regex(bucket["glob"]) if "glob" in bucket else bucket["regex"]
    flags = re.ASCII | (re.DOTALL if "glob" in bucket else 0)
    return len(value) <= 4096 and re.fullmatch(pattern, value, flags) is not None


def buckets_of(columns: list[dict[str, Any]], row: list[Any]) -> list[int]:
    """All buckets that a row is in, ascending: several where columns overlap."""
    totals = [0]
    for column, value in zip(columns, row, strict=True):
        n = len(column["buckets"])
        places = [
            i for i, each in enumerate(column["buckets"]) if in_bucket(column["kind"], each, value)
        ]
        if not column.get("overlapping"):
            places = places[:1]
        if not places and column["other"]:
            places = [n]
        totals = [total * (n + column["other"]) + place for total in totals for place in places]
    return totals


def bucket_of(columns: list[dict[str, Any]], row: list[Any]) -> int:
    return next(iter(buckets_of(columns, row)), -1)


def applied(query: dict[str, Any], version: dict[str, Any]) -> dict[str, Any]:
    """The query with the numbers of a controller's version in their places."""
    coins = dict(version["mechanism"])
    kept = {
        name: value
        for name, value in query["mechanism"].items()
        if name != "inverted" or "inverted" not in coins
    }
    if not coins.get("inverted", True):
        del coins["inverted"]
    out = {
        **query,
        "serial": version["serial"],
        "sampling": version["sampling"],
        "mechanism": {**kept, **coins},
    }
    if version["strata"] is not None:
        if len(version["strata"]) != len(query["strata"]):
            raise Stop("refused", "unusable query")
        out["strata"] = [
            {**each, "sampling": s}
            for each, s in zip(query["strata"], version["strata"], strict=True)
        ]
    return out


# --- a device


class Stop(Exception):  # noqa: N818 - the end of a walk, not an error
    pass


@dataclass
class ReferenceDevice:
    """What a device keeps, and the walk of one answer."""

    policy: dict[str, Any]
    ring: list[dict[str, Any]]
    secret: bytes
    seen: dict[tuple[str, str], tuple[int, bytes]] = field(default_factory=dict)
    decided: set[tuple[str, str, int]] = field(default_factory=set)
    answered: set[tuple[str, str]] = field(default_factory=set)
    charges: list[tuple[int, str, str, Fraction, bytes | None]] = field(default_factory=list)
    memo: list[dict[str, Any]] = field(default_factory=list)
    reserves: dict[tuple[bytes, int], int] = field(default_factory=dict)
    waiting: list[tuple[float, Any]] = field(default_factory=list)
    """Of each share that waits, when it is too old, and the charge that is then given back: none
    was ever sent here."""

    def answer(self, step: dict[str, Any], signed: str) -> dict[str, Any]:
        """What comes of one signed query at one time."""
        unsent = [
            charge
            for expires, charge in self.waiting
            if expires <= step["now"] and charge and charge[4] is None
        ]
        self.charges = [
            charge for charge in self.charges if not any(charge is each for each in unsent)
        ]
        self.waiting = [each for each in self.waiting if each[0] > step["now"]]
        words = Words(bytes.fromhex(step["random"]))
        out: dict[str, Any] = {}
        try:
            self._walk(signed, step["now"], step["rows"], words, out)
            out["outcome"] = "answered"
        except Stop as stop:
            out["outcome"], out["reason"] = stop.args
        out["used"] = words.at
        return out

    def _walk(
        self, signed: str, now: int, rows: list[list[Any]], words: Words, out: dict[str, Any]
    ) -> None:
        query, digest = self._verified(signed, now)
        tag = int.from_bytes(digest[:8], "little")
        name = (query["analyst"], query["id"])
        n_buckets = math.prod(len(c["buckets"]) + c["other"] for c in query["columns"])
        method = mechanism(query["mechanism"], n_buckets)
        if query.get("instantaneous") is not None:
            method = TwoSteps(method, query["instantaneous"])
        memoized, distinct, most = query["memoize"], query.get("distinct", 1), query["most_rows"]
        ones = query.get("ones", 1)
        row_cost = (
            method.lifetime_loss if memoized and hasattr(method, "lifetime_loss") else method.loss
        )
        if ones > 1:
            row_cost = loss(method.ratio, ones)
        stratum = self._allowed(query, row_cost * most * distinct)
        schedule = query["schedule"]
        epoch = (now - schedule["origin"]) // schedule["every"]
        if not 0 <= epoch < (schedule["expires"] - schedule["origin"]) // schedule["every"]:
            raise Stop("waiting", "")
        self._undecided(query, epoch, rows)
        out["epoch"] = epoch
        if len(self.waiting) + most * len(query["proxies"]) > self.policy["queue_messages"] * len(
            query["proxies"]
        ):
            self.decided.add((*name, epoch))
            raise Stop("refused", "queue full")
        named = [query[each] for each in ("analyst", "id", "sql", "columns", "mechanism")] + (
            [ones] if ones > 1 else []
        )
        named += [query["ask"], query.get("value")] if "ask" in query else []
        scope = canonical(named) if memoized else None
        total, cost, slots = self._payment(query, row_cost, scope, distinct, now)
        end = schedule["origin"] + (epoch + 1) * schedule["every"]
        ready = now + self.policy["slot"]
        out["due"] = ready + words.below(max(1, min(self.policy["upload_within"], end - ready)))
        self.decided.add((*name, epoch))
        self.answered |= {name} if query.get("once") else set()
        sampling = query["sampling"]
        if query["strata"] and query["strata"][stratum]["sampling"] is not None:
            sampling = query["strata"][stratum]["sampling"]
        chosen = words.coin(math.floor(Fraction(sampling) * ONE))
        reports: list[bytes] = []
        charge = None
        if chosen:
            complete = all(column["other"] for column in query["columns"])
            nothing = n_buckets - 1 if complete else -1
            truth: list[Any]
            if ones > 1:
                found = self._several(query, rows, scope, ones, words)
                found = sorted(found) if found or not complete else [nothing]
                truth = [found + [-1] * (ones - len(found))]
            else:
                truth = self._truth(query, rows, scope, most, words)
                truth = [nothing if v < 0 else v for v in truth] + [nothing] * (most - len(truth))
            if total is not None:
                charge = self._charge(query, total, scope, now, slots)
            out["cost"] = str(cost)
            draw: Any = getattr(method, "draw_sets" if ones > 1 else "draw", None)
            reports = (
                self._memoized(method, draw, scope, truth, distinct, epoch, words)
                if scope
                else draw(truth, words)
            )
            out["reports"] = [report.hex() for report in reports]
        if chosen or query["cover"]:
            keeps = min(self.policy["queue_age"], query.get("grace") or inf)
            self._messages(query, tag, epoch, stratum, reports, words, out)
            n_shares = most * len(query["proxies"])
            self.waiting += [(end + keeps, charge)] * n_shares
        if not chosen:
            raise Stop("sampled out", "")

    def _undecided(self, query: dict[str, Any], epoch: int, rows: list[list[Any]] | None) -> None:
        name = (query["analyst"], query["id"])
        if (*name, epoch) in self.decided or name in self.answered:
            raise Stop("again", "")
        if query.get("ask") == "form" and rows is None:
            raise Stop("waiting", "")

    def _messages(
        self,
        query: dict[str, Any],
        tag: int,
        epoch: int,
        stratum: int,
        reports: list[bytes],
        words: Words,
        out: dict[str, Any],
    ) -> None:
        """Make a message of each report, or as many of cover, and let its shares wait."""
        schedule, most = query["schedule"], query["most_rows"]
        size, n = query["size_class"], len(query["proxies"])
        named = {
            "name": (
                query["channel"]
                if query["channel"] is not None
                else f"{query['analyst']}/{query['id']}"
            ),
            "origin": schedule["origin"],
            "every": schedule["every"],
            "size_class": size,
        }
        separator = b"deniable channel 1\0"
        if "channel_owner" in query:
            separator, named["owner"] = b"deniable channel 2\0", query["channel_owner"]
        channel = int.from_bytes(
            hashlib.sha256(separator + canonical(named)).digest()[:8], "little"
        )
        out["messages"], out["shares"] = [], {proxy: [] for proxy in query["proxies"]}
        for report in reports or [b""] * most:
            identity, key = words.bytes(16), words.bytes(16)
            content = message(size, 0 if reports else 1, stratum, epoch, tag, report, key)
            pads = [words.bytes(len(content)) for _ in range(n - 1)]
            out["messages"].append(content.hex())
            for proxy, payload in zip(query["proxies"], [*pads, xor(content, *pads)], strict=True):
                share = record(size, epoch, channel, identity, payload)
                out["shares"][proxy].append(share.hex())

    def _verified(self, signed: str, now: int) -> tuple[dict[str, Any], bytes]:
        try:
            fields = json.loads(signed)
            names = set(fields) - (
                {"version", "version_signature"} if "version" in fields else set()
            )
            if (
                names != {"format", "query", "key", "signature"}
                or fields["format"] != "deniable signed query 1"
            ):
                raise ValueError
            if not re.fullmatch("[0-9a-f]{16}", fields["key"]):
                raise ValueError
        except ValueError:
            raise Stop("refused", "unusable query") from None
        content = b"deniable query 1\0" + fields["query"].encode()
        key = next((k for k in self.ring if _key_id(k["public"]) == fields["key"]), None)
        if key is None:
            raise Stop("refused", "unknown key")
        if key["revoked"]:
            raise Stop("refused", "revoked key")
        if not key["valid_from"] <= now < key["valid_until"]:
            raise Stop("refused", "key not valid")
        try:
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(key["public"])).verify(
                bytes.fromhex(fields["signature"]), content
            )
        except (InvalidSignature, ValueError):
            raise Stop("refused", "bad signature") from None
        try:
            named = b'"channel_owner":' in fields["query"].encode()
            query = read_canonical(
                fields["query"].encode(), "deniable query 2" if named else "deniable query 1"
            )
        except (ValueError, KeyError, TypeError):
            raise Stop("refused", "unusable query") from None
        if query["analyst"] != key["owner"]:
            raise Stop("refused", "bad signature")
        self._check_channel(query, key, now)
        if "version" in fields:
            query = self._delegated(query, hashlib.sha256(content).hexdigest(), fields, now)
            content = b"deniable query 1\0" + canonical(query)
        if now >= query["schedule"]["expires"]:
            raise Stop("refused", "expired query")
        digest = hashlib.sha256(content).digest()
        name = (query["analyst"], query["id"])
        newest = self.seen.get(name)
        if newest and (
            query["serial"] < newest[0] or (query["serial"] == newest[0] and digest != newest[1])
        ):
            raise Stop("refused", "rolled-back query")
        self.seen[name] = (query["serial"], digest)
        return query, digest

    def _check_channel(self, query: dict[str, Any], key: dict[str, Any], now: int) -> None:
        """Refuse a channel of another key, unless it is an earlier one of the analyst's, or its
        owner permits it."""
        owner, permission = query.get("channel_owner"), query.get("permission")
        if permission is None:
            held = {each["public"] for each in self.ring if each["owner"] == query["analyst"]}
            if owner is not None and owner != key["public"] and owner not in held:
                raise Stop("refused", "foreign channel")
            return
        terms = {name: value for name, value in permission.items() if name != "signature"}
        try:
            signer = Ed25519PublicKey.from_public_bytes(bytes.fromhex(permission["owner"]))
            signer.verify(
                bytes.fromhex(permission["signature"]),
                b"deniable channel permission 1\0" + canonical(terms),
            )
        except (InvalidSignature, ValueError):
            raise Stop("refused", "foreign channel") from None
        allowed = permission["owner"] == owner and permission["channel"] == query["channel"]
        allowed = (
            allowed
            and permission["guest"] == key["public"]
            and query["most_rows"] <= permission["messages"]
        )
        allowed = allowed and query.get("grace", 0) <= permission["grace"]
        if not allowed or query["schedule"]["expires"] > permission["end"]:
            raise Stop("refused", "foreign channel")
        known = next((each for each in self.ring if each["public"] == owner), None)
        if known is not None and known["revoked"]:
            raise Stop("refused", "revoked key")
        if known is not None and not known["valid_from"] <= now < known["valid_until"]:
            raise Stop("refused", "key not valid")

    def _delegated(
        self, query: dict[str, Any], digest: str, fields: dict[str, str], now: int
    ) -> dict[str, Any]:
        """The query as a controller's version has it, if the version is inside the analyst's
        envelope."""
        envelope = query.get("envelope")
        if envelope is None:
            raise Stop("refused", "outside the envelope")
        known = next((key for key in self.ring if key["public"] == envelope["controller"]), None)
        if known is not None and known["revoked"]:
            raise Stop("refused", "revoked key")
        if envelope["until"] is not None and now >= envelope["until"]:
            raise Stop("refused", "key not valid")
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(envelope["controller"]))
            key.verify(
                bytes.fromhex(fields["version_signature"]),
                b"deniable version 1\0" + fields["version"].encode(),
            )
        except (InvalidSignature, ValueError):
            raise Stop("refused", "bad signature") from None
        version = read_canonical(fields["version"].encode(), "deniable version 1")
        inside = (
            version["query"] == digest
            and query["serial"] < version["serial"] <= query["serial"] + envelope["versions"]
        )
        for value in (version["sampling"], *(version["strata"] or ())):
            inside = inside and envelope["sampling"][0] <= value <= envelope["sampling"][1]
        for name, value in version["mechanism"].items():
            if name == "inverted":
                inside = inside and (envelope["inversion"] or not value)
            else:
                inside = (
                    inside
                    and envelope[name] is not None
                    and envelope[name][0] <= value <= envelope[name][1]
                )
        if not inside:
            raise Stop("refused", "outside the envelope")
        effective = applied(query, version)
        n_buckets = math.prod(len(c["buckets"]) + c["other"] for c in query["columns"])
        if mechanism(effective["mechanism"], n_buckets).loss * query["most_rows"] > Fraction(
            envelope["epsilon_per_answer"]
        ):
            raise Stop("refused", "outside the envelope")
        return effective

    def _allowed(self, query: dict[str, Any], cost: Fraction) -> int:
        """The stratum, if the owner's policy lets the query be answered."""
        policy = self.policy
        if policy["analysts"] is not None and query["analyst"] not in policy["analysts"]:
            raise Stop("refused", "analyst not allowed")
        if any(proxy not in policy["proxies"] for proxy in query["proxies"]):
            raise Stop("refused", "proxy not allowed")
        stratum = next(
            (i for i, each in enumerate(query["strata"]) if each["name"] in policy["strata"]), None
        )
        if query["strata"] and stratum is None:
            raise Stop("refused", "not in a stratum")
        if cost > Fraction(policy["epsilon_per_answer"]):
            raise Stop("refused", "over the ceiling")
        return stratum or 0

    def _payment(
        self,
        query: dict[str, Any],
        row_cost: Fraction,
        scope: bytes | None,
        distinct: int,
        now: int,
    ) -> tuple[Fraction | None, Fraction, dict[int, int]]:
        total, before, slots = row_cost * query["most_rows"] * distinct, Fraction(0), {}
        if scope is not None:
            before = sum((c[3] for c in self.charges if c[4] == scope), Fraction(0))
            slots = {slot: paid for (where, slot), paid in self.reserves.items() if where == scope}
            for slot in range(query["most_rows"]):
                slots[slot] = max(distinct, slots.get(slot, 0))
            total = row_cost * sum(slots.values())
        cost = total - before
        if cost <= 0 and distinct == 1:
            return None, cost, slots
        spent = sum(
            (c[3] for c in self.charges if (c[1], c[2]) == (query["analyst"], query["id"])),
            Fraction(0),
        )
        own = query["budget"]["epsilon"]
        if own is not None and spent + cost > Fraction(repr(own)):
            raise Stop("refused", "budget")
        others = [c for c in self.charges if scope is None or c[4] != scope]
        for limit in self.policy["limits"]:
            if limit["analyst"] not in (None, query["analyst"]):
                continue
            counted = sum(
                (
                    c[3]
                    for c in others
                    if (limit["period"] is None or c[0] > now - limit["period"])
                    and (
                        c[1] == query["analyst"]
                        if limit["each_analyst"]
                        else limit["analyst"] in (None, c[1])
                    )
                ),
                Fraction(0),
            )
            if counted + total > Fraction(limit["epsilon"]):
                raise Stop("refused", "budget")
        return total, cost, slots

    def _charge(
        self,
        query: dict[str, Any],
        total: Fraction,
        scope: bytes | None,
        now: int,
        slots: dict[int, int],
    ) -> Any:
        if scope is not None:
            self.charges = [c for c in self.charges if c[4] != scope]
            self.reserves.update({(scope, slot): paid for slot, paid in slots.items()})
        self.charges.append((now, query["analyst"], query["id"], total, scope))
        return self.charges[-1]

    def _truth(
        self,
        query: dict[str, Any],
        rows: list[list[Any]],
        scope: bytes | None,
        most: int,
        words: Words,
    ) -> list[int]:
        if query["rows"] == "aggregate" and len(rows) > 1:
            return []
        if scope is None:
            places = list(range(len(rows)))
            for i in range(min(len(rows), most)):
                if len(rows) - i > 1:
                    j = i + words.below(len(rows) - i)
                    places[i], places[j] = places[j], places[i]
            return [bucket_of(query["columns"], rows[i]) for i in places[:most]]
        return self._ranked(scope, [bucket_of(query["columns"], row) for row in rows], most)

    def _several(
        self,
        query: dict[str, Any],
        rows: list[list[Any]],
        scope: bytes | None,
        ones: int,
        words: Words,
    ) -> list[int]:
        """Up to `ones` of the buckets of one row, or of all."""
        columns = query["columns"]
        if query["rows"] == "aggregate" and len(rows) > 1:
            rows = []
        if query["rows"] != "all" and len(rows) > 1:
            if scope is None:
                rows = [rows[words.below(len(rows))]]
            else:
                firsts = {bucket_of(columns, row): row for row in reversed(rows)}
                rows = [firsts[v] for v in self._ranked(scope, sorted(firsts), 1)]
        inside = sorted({v for row in rows for v in buckets_of(columns, row)})
        if scope is not None:
            return self._ranked(scope, inside, ones)
        for i in range(min(len(inside), ones)):
            if len(inside) - i > 1:
                j = i + words.below(len(inside) - i)
                inside[i], inside[j] = inside[j], inside[i]
        return inside[:ones]

    def _ranked(self, scope: bytes, found: list[int], most: int) -> list[int]:
        ranked, twins = [], dict[int, int]()
        for v in found:
            place = (
                b"row"
                + v.to_bytes(8, "little", signed=True)
                + twins.get(v, 0).to_bytes(8, "little")
            )
            twins[v] = twins.get(v, 0) + 1
            ranked.append((self._hash(scope + place), v))
        return [v for _, v in sorted(ranked)[:most]]

    def _hash(self, content: bytes) -> bytes:
        return hashlib.blake2b(content, digest_size=32, key=self.secret).digest()

    def _memoized(
        self,
        method: Any,
        draw: Any,
        scope: bytes,
        truth: list[Any],
        distinct: int,
        epoch: int,
        words: Words,
    ) -> list[bytes]:
        sets = [v if isinstance(v, list) else [v] for v in truth]
        names = [
            self._hash(scope + b"".join(v.to_bytes(8, "little", signed=True) for v in each))
            for each in sets
        ]
        kept: list[dict[str, Any] | None] = []
        for slot, name in enumerate(names):
            mine = [
                entry for entry in self.memo if (entry["scope"], entry["slot"]) == (scope, slot)
            ]
            found = next((entry for entry in mine if entry["name"] == name), None)
            if found is None and len(mine) >= distinct:
                found = max(mine, key=lambda entry: (entry["spoke"], self.memo.index(entry)))
            kept.append(found)
        fresh = [slot for slot, found in enumerate(kept) if found is None]
        two_steps = hasattr(method, "permanent")
        draw = method.permanent if two_steps else draw
        for slot, row in zip(fresh, draw([truth[slot] for slot in fresh], words), strict=True):
            kept[slot] = {"scope": scope, "slot": slot, "name": names[slot], "row": row, "spoke": 0}
            self.memo.append(kept[slot])  # type: ignore[arg-type]
        rows = []
        for entry in kept:
            assert entry is not None
            entry["spoke"] = epoch
            rows.append(entry["row"])
        return method.replay(rows, words) if two_steps else rows


def _key_id(public: str) -> str:
    return hashlib.sha256(b"deniable key 1\0" + bytes.fromhex(public)).hexdigest()[:16]
