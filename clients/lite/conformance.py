"""The lite client as `deniable client conformance` runs it: one JSON object per line in and out.

`deniable client conformance tests/vectors/client-v1.json -- python clients/lite/conformance.py`
"""

from __future__ import annotations

import json
import sys

import deniable_lite as lite


class ConformingDevice:
    """A device that answers the questions of vectors."""

    def answer(self, question):
        """What comes of one question."""
        if question["fresh"]:
            settings = dict(question["policy"])
            self.policy = lite.Policy(settings, settings.pop("proxies"))
            self.ring = lite.Ring(question["ring"])
            self.state = {**lite.fresh_state(None), "secret": question["secret"]}
        words = lite.Words(bytes.fromhex(question["random"]))
        now, text = question["now"], question["query"]
        rows = question["rows"]
        _, out = lite.answer(
            self.state, self.ring, self.policy, text, now, words, lambda _: rows, None
        )
        for name in ("reports", "messages"):
            if name in out:
                out[name] = [each.hex() for each in out[name]]
        for proxy, records in out.get("shares", {}).items():
            out["shares"][proxy] = [each.hex() for each in records]
        return out


if __name__ == "__main__":
    device = ConformingDevice()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(device.answer(json.loads(line))) + "\n")
        sys.stdout.flush()
