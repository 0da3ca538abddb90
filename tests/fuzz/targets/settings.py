"""Settings files of every service, and the owner's policy of a device. The first byte says
which."""

from __future__ import annotations

import tempfile
from dataclasses import is_dataclass
from pathlib import Path

from deniable.aggregator.settings import AggregatorSettings
from deniable.client.policy import _from_tree as policy_of
from deniable.errors import SettingsError
from deniable.local import up_settings
from deniable.proxy.collecting.settings import CollectorSettings
from deniable.proxy.settings import ProxySettings
from deniable.service.files.settings import settings_of
from deniable.toml_file import TomlFile

WEIGHT, LONGEST = 2, 900
DICTIONARY = [
    b"[intake]",
    b"[limits]",
    b"[tls]",
    b"[kafka]",
    b"[enrolment]",
    b"[[proxies]]",
    b"[history]",
    b"[spark]",
    b" = ",
    b'"10 min"',
    b"nan",
]
DICTIONARY += [
    b'"64 MiB"',
    b"folder",
    b"port = ",
    b"-1",
    b"1e999",
    b"true",
    b'"\\u0000"',
    b"2026-01-01",
    b"[[",
    b"]]",
    b"inf",
    b"workers = 3",
]
FOLDER = Path(tempfile.gettempdir()) / "deniable-fuzz"
_KINDS = {b"p": ProxySettings, b"c": CollectorSettings, b"a": AggregatorSettings}


def seeds() -> list[bytes]:
    return [
        b'pfolder = "x"\nport = 0\n[intake]\ngrace = "10 min"\n[limits]\nmost_waiting = "64 MiB"\n',
        (
            b'pfolder = "x"\n[kafka]\nbrokers = "localhost:9092"\ntopic = "t"\npartitions ='
            b' 4\n[tls]\ncertificate = "c"\nkey = "k"\n'
        ),
        b'pfolder = "x"\n[enrolment]\nmode = "ticket"\nticket_key = "' + b"ab" * 32 + b'"\n',
        b'cproxy = "https://one.example:8600"\ntoken_file = "t"\nrefresh = 3\n',
        (
            b'astate = "s"\nring = "r"\n[[proxies]]\nname ='
            b' "https://one.example"\n[[proxies]]\nname = "two"\nlog = "l"\n[history]\nfolder ='
            b' "h"\n[limits]\n'
        ),
        b'oanalysts = ["City"]\nepsilon_per_answer = 2\n[[limits]]\nepsilon = "1/2"\nper = "1 d"\n',
        b'umode = "simulation"\n[query]\nid = "x"\n[data]\n',
        b"p",
    ]


def check(data: bytes) -> None:
    file = TomlFile.parse(data[1:].decode("utf-8", "replace"), "fuzz.toml")
    kind = _KINDS.get(data[:1])
    try:
        if kind is not None:
            made: object = file.made(lambda tree: settings_of(tree, kind, FOLDER))
        elif data[:1] == b"u":
            made = file.made(lambda tree: up_settings._settings(tree, FOLDER, None, []))
        else:
            made = file.made(lambda tree: policy_of(tree, FOLDER))
    except SettingsError as error:
        assert "\n" not in str(error), "an error is one line"
        raise
    assert is_dataclass(made)
    if kind is not None:
        assert made == file.made(lambda tree: settings_of(tree, kind, FOLDER)), (
            "read twice, it says two things"
        )
