"""Enrolment against a running proxy: a device gets its token by an invitation, and can upload with
it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deniable.client.http_transport import HttpTransport
from deniable.client.policy import read_policy
from deniable.client.vaults.vault import Vault
from deniable.errors import UploadError
from deniable.queries.signed.key_ring import KeyRing
from toolkit.servers import loopback
from toolkit.servers.certificates import self_signed
from toolkit.servers.proxies import ProxyProcess, query_of_today
from toolkit.shares import make_columns, records_of


def deniable(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deniable", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)  # noqa: S603 - our own


@pytest.mark.parametrize("workers", [0, 1])
def test_an_invited_device_enrols_uploads_and_rotates_and_a_stranger_does_not(
    tmp_path: Path, workers: int
) -> None:
    proxy = ProxyProcess(
        tmp_path / "proxy",
        f'workers = {workers}\n[enrolment]\nmode = "invitation"\nper_hour_and_address = 6\n',
    )
    address = proxy.start()
    try:
        code = deniable("proxy", "invite", proxy.file).stdout.strip()
        vault = tmp_path / "ann.db"
        Vault.create(vault)
        KeyRing().save(tmp_path / "ring.json")
        assert deniable("client", "policy", vault, "--new").returncode == 0
        refused = deniable("client", "enrol", vault, address, "--invitation", "guessed")
        assert refused.returncode == 2
        assert (
            "answered 403 (the invitation is unknown, already used, or expired)" in refused.stderr
        )
        done = deniable("client", "enrol", vault, address, "--invitation", code)
        assert done.returncode == 0, done.stderr
        token = read_policy(vault.with_name("ann.db.policy.toml")).proxies[address]
        twice = deniable("client", "enrol", vault, address, "--invitation", code)
        assert "is already among your proxies" in twice.stderr
        shown = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/octet-stream",
            "x-deniable-peer": "192.0.2.9",
        }
        # not 401
        assert loopback.post(f"{address}/v1/shares", headers=shown, content=b"x").status_code == 400
        rotated = loopback.post(f"{address}/v1/enrol/rotate", headers=shown)
        assert rotated.status_code == 201
        assert loopback.post(f"{address}/v1/shares", headers=shown, content=b"x").status_code == 401
        fresh = {**shown, "Authorization": f"Bearer {rotated.json()['token']}"}
        assert loopback.post(f"{address}/v1/shares", headers=fresh, content=b"x").status_code == 400
        # A header that only workers may set changes nothing: the limit of the address holds, and is
        # counted.
        statuses = {
            loopback.post(
                f"{address}/v1/enrol", json={}, headers={"x-deniable-peer": f"10.0.0.{i}"}
            ).status_code
            for i in range(6)
        }
        assert statuses == {403, 429}
        metrics = loopback.get(f"{address}/metrics").text
        assert 'deniable_proxy_enrolment_total{outcome="enrolled"} 1.0' in metrics
    finally:
        proxy.stop()


def test_a_certificate_that_is_not_trusted_and_a_port_without_tls_are_named(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path, "proxy")
    tls = f'[tls]\ncertificate = "{certificate}"\nkey = "{certificate.with_suffix(".key")}"\n'
    with (
        ProxyProcess(tmp_path / "tls", tls) as secured,
        ProxyProcess(tmp_path / "plain") as plain,
        HttpTransport() as transport,
    ):
        with pytest.raises(
            UploadError, match=r"its certificate is not trusted: self.signed certificate"
        ) as caught:
            transport.queries(secured.address)
        assert "is the authority that signed it installed here?" in str(caught.value)
        with pytest.raises(UploadError, match="TLS failed: wrong version number"):
            transport.queries(plain.address.replace("http://", "https://"))
        with pytest.raises(UploadError, match="nobody listens there"):
            transport.queries("http://127.0.0.1:9")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_device_that_rotates_its_token_has_one_quota_even_where_enrolment_is_closed(
    tmp_path: Path, workers: int
) -> None:
    proxy = ProxyProcess(tmp_path / "proxy", f"workers = {workers}\n")
    query = query_of_today()
    address = proxy.start()
    try:
        proxy.publish(query)
        epoch = query.schedule.epoch_of(int(time.time()))
        records = records_of(query, epoch, make_columns(query, epoch, 3)[0])
        headers = {**proxy.token("device"), "Content-Type": "application/octet-stream"}
        outcomes = []
        for record in records:
            answer = loopback.post(f"{address}/v1/shares", headers=headers, content=record)
            outcomes.append((answer.status_code, answer.json().get("reason")))
            rotated = loopback.post(f"{address}/v1/enrol/rotate", headers=headers)
            headers["Authorization"] = f"Bearer {rotated.json()['token']}"
        assert outcomes == [(202, None), (429, "quota"), (429, "quota")]
    finally:
        proxy.stop()
