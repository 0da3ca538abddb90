"""A whole poll on this machine: two proxies, the aggregator with its console, and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deniable.local.services import Address, Aggregator, LocalProxy, Services, publish_everywhere
from deniable.poll.poll import Operator, Poll
from deniable.poll.publishing import OpenPoll
from deniable.proxy.enrolment import add_invitations
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import PublicKey
from deniable.service.tokens import Bound

__all__ = ["TrialPlaces", "add_codes", "services_of", "start_poll"]

_NAMES = ("one", "two")


class TrialPlaces:
    """The addresses of a poll that this machine runs alone."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.addresses = [Address(port=port) for port in ports]

    @property
    def operators(self) -> tuple[Operator, ...]:
        """Its two proxies."""
        return tuple(Operator(each.url, "this machine") for each in self.addresses[:2])

    @property
    def aggregator(self) -> Address:
        """Its aggregator."""
        return self.addresses[2]

    @property
    def page(self) -> Address:
        """Its page."""
        return self.addresses[3]


def services_of(folder: Path, places: TrialPlaces, opened: OpenPoll, key: PublicKey) -> Services:
    """The services of the poll, ready to be started; the page reads `poll.json` in the folder."""
    enrolment: Mapping[str, Any] = (
        {"mode": "invitation"}
        if opened.poll.answer == "codes"
        # everyone in a school or a firm may come from one address
        else {"mode": "open", "per_hour_and_address": 10_000}
    )
    proxies = [
        LocalProxy(
            name,
            address,
            enrolment=enrolment,
            browser={"origins": [places.page.url]},
            intake={"deadline": 2},
        )
        for name, address in zip(_NAMES, places.addresses[:2], strict=True)
    ]
    page = ("poll", "serve", str(folder / "poll.json"), "--port", str(places.page.port))
    return Services(
        folder / "services",
        KeyRing().add(key),
        proxies,
        Aggregator(places.aggregator, limits={"early": 1}),
        {"page": page},
    )


def start_poll(services: Services, opened: OpenPoll) -> None:
    """Publish the poll's queries, once the services run."""
    with services.analyst() as analyst:
        for signed in opened.signed:
            publish_everywhere(analyst, signed)


def add_codes(
    services: Services, poll: Poll, invitations: Mapping[tuple[str, str], list[str]]
) -> None:
    """Give each proxy the invitations that are derived from the codes for it."""
    for proxy in services.proxies:
        for (url, query), codes in invitations.items():
            if url == proxy.address.url:
                bound = Bound(query, 1, None)
                add_invitations(services.folder / proxy.name, codes, poll.end, bound)
