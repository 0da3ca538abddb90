"""Mistakes that show when a service is started: one line with the setting, exit code 2, and nothing
that claims to listen."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from deniable.cli import cli
from deniable.local.services import free_ports
from toolkit.crowds import RING
from toolkit.servers.certificates import self_signed

SERVICES = ("proxy", "aggregator", "collector")
SOURCE = Path(__file__).parents[3] / "src"


@pytest.fixture(autouse=True)
def _process_as_before() -> Iterator[None]:
    """A service sets these for its process, which here is that of the tests."""
    mask, interval = os.umask(0o022), sys.getswitchinterval()
    loggers = [
        logging.getLogger(name)
        for name in (*(f"deniable.{each}" for each in SERVICES), "uvicorn.error")
    ]
    before = [(each.handlers, each.propagate, each.level) for each in loggers]
    yield
    os.umask(mask)
    sys.setswitchinterval(interval)
    for each, (handlers, propagate, level) in zip(loggers, before, strict=True):
        each.handlers, each.propagate, each.level = handlers, propagate, level


def settings(folder: Path, service: str, rest: str = "", port: int = 0) -> Path:
    """A good file, and all that it names, with more lines at its end."""
    RING.save(folder / "ring.json")
    (folder / "a.token").write_text("deniable_token")
    text = {
        "proxy": f'folder = "data"\nport = {port}\n',
        "collector": f'proxy = "http://127.0.0.1:9"\ntoken_file = "a.token"\nport = {port}\n',
        "aggregator": (
            f'state = "state.db"\nring = "ring.json"\nport = {port}\n'
            + "".join(
                f'[[proxies]]\nname = "http://127.0.0.1:{i}"\ntoken_file = "a.token"\n'
                for i in (9, 10)
            )
        ),
    }[service]
    path = folder / f"{service}.toml"
    path.write_text(text + rest)
    return path


def refused(path: Path, service: str) -> str:
    """What a start says that must fail."""
    result = CliRunner().invoke(cli, [service, "run", str(path)])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith(f"deniable: {path.name}, line ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def missing(folder: Path) -> None:
    self_signed(folder, "cert")
    (folder / "cert.pem").unlink()


def no_certificate(folder: Path) -> None:
    self_signed(folder, "cert")
    (folder / "cert.pem").write_text(
        "-----BEGIN CERTIFICATE-----\nnope\n-----END CERTIFICATE-----\n"
    )


def a_folder(folder: Path) -> None:
    self_signed(folder, "cert")
    (folder / "cert.key").unlink()
    (folder / "cert.key").mkdir()


def no_key(folder: Path) -> None:
    self_signed(folder, "cert")
    (folder / "cert.key").write_text((folder / "cert.pem").read_text())


def wrong_key(folder: Path) -> None:
    self_signed(folder, "other")
    self_signed(folder, "cert")
    (folder / "cert.key").write_bytes((folder / "other.key").read_bytes())


def locked(folder: Path) -> None:
    self_signed(folder, "cert", password=b"right")


def wrong_password(folder: Path) -> None:
    self_signed(folder, "cert", password=b"right")
    (folder / "password").write_text("wrong\n")


def expired(folder: Path) -> None:
    self_signed(folder, "cert", days=-1)


TLS_MISTAKES: list[tuple[Callable[[Path], None], str]] = [
    (missing, "cert.pem' cannot be read: No such file or directory"),
    (no_certificate, "cert.pem' must hold a certificate in PEM"),
    (a_folder, "cert.key' cannot be read: Is a directory"),
    (no_key, "cert.key' must hold a private key in PEM"),
    (wrong_key, "cert.key' must be the key of the certificate"),
    (locked, "cert.key' is encrypted: tls.password_file must name its password"),
    (wrong_password, "tls.password_file = "),
    (expired, "cert.pem' expired at 20"),
]


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize(
    ("mistake", "words"), TLS_MISTAKES, ids=[each.__name__ for each, _ in TLS_MISTAKES]
)
def test_a_mistake_in_tls_is_one_line_before_anything_listens(
    service: str, mistake: Callable[[Path], None], words: str, tmp_path: Path
) -> None:
    mistake(tmp_path)
    password = 'password_file = "password"\n' if mistake is wrong_password else ""
    tls = f'[tls]\ncertificate = "cert.pem"\nkey = "cert.key"\n{password}'
    assert words in refused(settings(tmp_path, service, tls), service)
    assert not (tmp_path / "data").exists()  # nothing was opened
    assert not (tmp_path / "state.db").exists()


def test_a_proxy_with_workers_finds_a_mistake_in_tls_too(tmp_path: Path) -> None:
    expired(tmp_path)
    path = settings(
        tmp_path, "proxy", 'workers = 2\n[tls]\ncertificate = "cert.pem"\nkey = "cert.key"\n'
    )
    assert "expired at" in refused(path, "proxy")


@pytest.mark.parametrize("service", SERVICES)
def test_a_port_that_is_in_use_is_named(service: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f": port = {port} is already in use on 127.0.0.1\n" in refused(
            settings(tmp_path, service, port=port), service
        )


@pytest.mark.parametrize("service", SERVICES)
def test_a_host_that_is_not_this_machine_is_named(service: str, tmp_path: Path) -> None:
    path = settings(tmp_path, service)
    path.write_text('host = "192.0.2.1"\n' + path.read_text())
    assert "line 1: host = '192.0.2.1' must be a name or address of this machine" in refused(
        path, service
    )


def test_a_collector_without_its_token_or_with_a_bad_authority_says_so(tmp_path: Path) -> None:
    path = settings(tmp_path, "collector", 'ca = "a.token"\n')
    assert "ca = " in refused(path, "collector")
    (tmp_path / "a.token").unlink()
    assert "a.token' cannot be read: No such file or directory" in refused(path, "collector")


ON_A_SMALL_DISK = """
import subprocess
from click.testing import CliRunner
from deniable.cli import cli
for options in ("size=1m", "ro"):
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", "disk"], check=True)
    if options != "ro":
        try:
            with open("disk/junk", "wb", buffering=0) as junk:
                while junk.write(bytes(4096)):
                    pass
        except OSError:
            pass
    for service in ("proxy", "aggregator"):
        result = CliRunner().invoke(cli, [service, "run", f"{service}.toml"])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        print(result.exit_code, repr(result.stdout), result.stderr.strip())
"""


@pytest.mark.slow
def test_a_full_or_read_only_disk_is_called_that(tmp_path: Path) -> None:
    """On small file systems of its own, which only the process sees."""
    for service in ("proxy", "aggregator"):
        path = settings(tmp_path, service, port=free_ports(1)[0])
        path.write_text(
            path.read_text()
            .replace('"data"', '"disk/data"')
            .replace('"state.db"', '"disk/state.db"')
        )
    (tmp_path / "disk").mkdir()
    result = subprocess.run(  # noqa: S603 - our own command
        ["unshare", "--map-root-user", "--mount", sys.executable, "-c", ON_A_SMALL_DISK],  # noqa: S607 - of util-linux
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.stdout.splitlines() == [
        "2 '' deniable: disk/data/lock cannot be written: the disk is full",
        "2 '' deniable: disk/state.db cannot be used as the aggregator's state: the disk is full",
        "2 '' deniable: proxy.toml, line 1: folder = 'disk/data' cannot be used: it is read-only",
        "2 '' deniable: disk/state.db cannot be used as the aggregator's state: it is read-only",
    ], result.stderr
