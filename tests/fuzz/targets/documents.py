"""JSON files and answers: key rings, budgets, witnesses, results, requests for history, lists of
queries. First byte: which."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deniable.aggregator.history.request import HistoryRequest
from deniable.client.http_transport import read_list
from deniable.client.witness import Witness
from deniable.curator.budget import CuratorBudget
from deniable.errors import DocumentError
from deniable.estimation.estimate import Estimate
from deniable.mechanisms.protocols.direct import DirectEncoding
from deniable.queries.signed.key_ring import KeyRing, TrustedKey
from deniable.queries.signed.keys import AnalystKey, PublicKey
from deniable.queries.signed.signing import SignedQuery
from deniable.randomness import seeded_source
from fuzz.files import put

WEIGHT, LONGEST = 2, 900
DICTIONARY = [
    b'"format":',
    b'"keys":',
    b'"epsilon":',
    b'"ledger":',
    b'"from":',
    b'"merge":',
    b"null",
    b"true",
    b"-1",
    b"1e400",
    b'"1/3"',
    b"[]",
    b"{}",
]
DICTIONARY += [
    b'"valid_from":',
    b'"revoked":',
    b'"spent":',
    b"NaN",
    b"Infinity",
    b'"labels":',
    b'"covariance":',
    b'"type":',
    b'"f64"',
    b"\\ud800",
    b"1e-400",
]


def seeds() -> list[bytes]:
    path = put("ring.json", b"")
    path.unlink()
    KeyRing([TrustedKey(AnalystKey("City", bytes(32)).public, 5, 10)]).save(path)
    mechanism = DirectEncoding(["a", "b"], 1.0)
    estimate = mechanism.estimate(mechanism.privatize(["a", "b", "b"] * 4, source=seeded_source(1)))
    ledger = {
        "version": 1,
        "spent": {"a": "1/3"},
        "drawn": [["a", "q"]],
        "history": [[5, "a", "1/3"]],
    }
    budget = {
        "format": "deniable curator budget 1",
        "epsilon": "3/2",
        "basis": {"table": "ab"},
        "ledger": ledger,
    }
    return [
        b"k" + path.read_bytes(),
        b"b" + json.dumps(budget).encode(),
        b'w{"store": "ab", "changes": 4}',
        b"e" + json.dumps(estimate.to_dict()).encode(),
        (
            b'h{"from": "2026-01-01", "to": "1750000000", "fraction": "0.5", "merge": ["a=b"],'
            b' "by": "x"}'
        ),
        (
            b'l[{"format": "deniable signed query 1", "query": "{}", "key": "0123456789abcdef",'
            b' "signature": "00"}]'
        ),
    ]


def check(data: bytes) -> None:
    kind, content = data[:1], data[1:]
    if kind == b"k":
        ring = KeyRing.load(put("ring.json", content))
        path = put("again.json", b"")
        ring.save(path)
        again = KeyRing.load(path)
        assert {trusted.key.id: trusted for trusted in again} == {
            trusted.key.id: trusted for trusted in ring
        }
        assert all(isinstance(trusted.key, PublicKey) for trusted in ring)
    elif kind == b"b":
        budget = CuratorBudget.at(put("budget.json", content))
        assert 0 <= budget.spent <= budget.epsilon
    elif kind == b"w":
        Witness(put("witness.json", content)).check(Path("store.db"), "ab", 4)
        assert int(_tree(content)["changes"]) <= 4
    elif kind == b"e":
        estimate = Estimate.from_dict(_tree(content))
        assert Estimate.from_dict(json.loads(json.dumps(estimate.to_dict()))) == estimate
    elif kind == b"h":
        request = HistoryRequest.from_parameters(_tree(content))
        assert HistoryRequest.from_parameters(request.to_parameters()) == request
    else:
        for each in read_list(content):
            SignedQuery.from_bytes(each)


def _tree(content: bytes) -> dict[str, Any]:
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        tree = None
    if not isinstance(tree, dict):
        raise DocumentError("no JSON object")
    return tree
