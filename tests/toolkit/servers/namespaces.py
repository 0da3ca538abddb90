"""Two hosts on one machine: network namespaces with a cable between them that can be cut. Needs
root."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from toolkit.servers.disks import REQUIRED

ADDRESSES = ("10.213.7.1", "10.213.7.2")


class Cable:
    """What lies between two hosts."""

    def __init__(self, hosts: tuple[str, str]) -> None:
        self.hosts = hosts

    def cut(self) -> None:
        _ip("-n", self.hosts[0], "link", "set", "cable", "down")

    def mend(self) -> None:
        _ip("-n", self.hosts[0], "link", "set", "cable", "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)  # noqa: S603, S607 - our own words


@contextmanager
def two_hosts() -> Iterator[Cable]:
    """Namespaces with the two addresses; the test is skipped where none may be made, unless that is
    required."""
    name = f"dn{os.getpid() % 10_000}{uuid.uuid4().hex[:4]}"
    hosts = (f"{name}a", f"{name}b")
    try:
        _ip("netns", "add", hosts[0])
    except (OSError, subprocess.CalledProcessError):
        if REQUIRED:
            raise
        pytest.skip("network namespaces can only be made by root, with ip(8)")
    try:
        _ip("netns", "add", hosts[1])
        _ip(
            "-n",
            hosts[0],
            "link",
            "add",
            "cable",
            "type",
            "veth",
            "peer",
            "name",
            "cable",
            "netns",
            hosts[1],
        )
        for host, address in zip(hosts, ADDRESSES, strict=True):
            _ip("-n", host, "address", "add", f"{address}/30", "dev", "cable")
            for link in ("lo", "cable"):
                _ip("-n", host, "link", "set", link, "up")
        yield Cable(hosts)
    finally:
        for host in hosts:
            subprocess.run(["ip", "netns", "delete", host], check=False, capture_output=True)  # noqa: S603, S607
