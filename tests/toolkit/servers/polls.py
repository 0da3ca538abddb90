"""A whole poll for tests: two proxies, an aggregator and the page, as `deniable poll` starts
them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deniable.local.services import Services, free_ports
from deniable.poll.link import Link
from deniable.poll.poll import Poll, epsilon_of_factor
from deniable.poll.publishing import OpenPoll, invitations_for, open_poll
from deniable.poll.questions import read_question
from deniable.poll.trial import TrialPlaces, add_codes, services_of, start_poll
from deniable.queries.signed.keys import AnalystKey
from toolkit.servers import loopback

__all__ = ["YES_NO", "RunningPoll"]

YES_NO: Mapping[str, Any] = {"kind": "yesno", "text": "Have you ever driven drunk?"}


class RunningPoll:
    """A context manager that runs a poll."""

    def __init__(
        self,
        folder: Path,
        *questions: Mapping[str, Any],
        n_codes: int = 0,
        factor: float = 3,
        life: int = 3600,
        minimum: int = 10,
        **rest: Any,
    ) -> None:
        self.key = AnalystKey.generate("Staff council")
        self.places = TrialPlaces(free_ports(4))
        now = int(time.time())
        asked = tuple(
            read_question(f"questions[{i}]", {"id": f"q{i}", **each}, "en")
            for i, each in enumerate(questions or [YES_NO])
        )
        self.poll = Poll(
            id="test-poll",
            asker="Staff council",
            questions=asked,
            operators=self.places.operators,
            aggregator=self.places.aggregator.url,
            page=self.places.page.url,
            start=now,
            end=now + life,
            epsilon=epsilon_of_factor(factor),
            answer="codes" if n_codes else "open",
            minimum=minimum,
            contact="council@hospital.example",
            **{"title": {"en": "A test poll"}, **rest},
        )
        self.opened: OpenPoll = open_poll(self.poll, self.key)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "poll.json").write_bytes(self.opened.document)
        self.services: Services = services_of(folder, self.places, self.opened, self.key.public)
        self.codes: list[str] = []
        self._n_codes = n_codes

    def __enter__(self) -> RunningPoll:
        self.services.__enter__()
        if self._n_codes:
            self.codes, invitations = invitations_for(self.poll, self._n_codes)
            add_codes(self.services, self.poll, invitations)
        start_poll(self.services, self.opened)
        return self

    def __exit__(self, *_: object) -> None:
        self.services.stop()

    def link(self, code: str = "") -> str:
        """The link, with a code if there is one."""
        link = self.opened.link
        return str(Link(link.page, link.key, link.poll, code))

    def accepted(self) -> list[int]:
        """How many shares each proxy has taken."""
        counts = []
        for proxy in self.services.proxies:
            text = loopback.get(f"{proxy.address.url}/metrics").text
            name = "deniable_proxy_shares_accepted_total "
            found = [line for line in text.splitlines() if line.startswith(name)]
            counts.append(int(float(found[0].split()[-1])))
        return counts
