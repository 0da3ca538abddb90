"""A backup that somebody else made, or changed: a restore writes nowhere but where the operator's
settings say."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from deniable.aggregator.history.report_files import FileEntry, ReportFolder
from deniable.aggregator.state import State
from deniable.cli import cli
from deniable.errors import ReportFormatError
from deniable.proxy.service import ProxyService
from deniable.proxy.settings import ProxySettings
from toolkit.crowds import RING


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


def seal(backup: Path, **changes: Any) -> None:
    """Make the manifest fit the files: what somebody who changes a backup does too."""
    manifest = json.loads((backup / "manifest.json").read_text())
    found = [
        path
        for path in sorted(backup.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    ]
    files = [
        {"name": str(path.relative_to(backup)), "bytes": 0, "sha256": digest(path)}
        for path in found
    ]
    (backup / "manifest.json").write_text(json.dumps({**manifest, "files": files, **changes}))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(params=["aggregator", "proxy"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def backup(kind: str, tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    RING.save(folder / "ring.json")
    if kind == "aggregator":
        logs = "".join(
            f'[[proxies]]\nname = "{name}"\nlog = "{name}.db"\n' for name in ("one", "two")
        )
        (folder / "service.toml").write_text(
            f'state = "state.db"\nring = "ring.json"\n[history]\nfolder = "history"\n{logs}'
        )
        State(folder / "state.db", ["one", "two"]).close()
    else:
        (folder / "service.toml").write_text('folder = "data"\nring = "ring.json"\n')
        proxy = ProxyService(ProxySettings(folder / "data"))
        proxy.start()
        proxy.stop()
    done = run(kind, "backup", folder / "service.toml", tmp_path / "backup")
    assert done.exit_code == 0, done.output
    return tmp_path / "backup"


def elsewhere(tmp_path: Path) -> Path:
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "elsewhere" / "service.toml"


def test_settings_of_a_backup_write_nowhere_but_in_their_own_folder(
    kind: str, backup: Path, tmp_path: Path
) -> None:
    settings, victim = elsewhere(tmp_path), tmp_path / "victim" / "authorized_keys"
    text = (backup / "settings" / "settings.toml").read_text()
    for path in (str(victim), "../victim/authorized_keys"):
        (backup / "settings" / "settings.toml").write_text(text.replace("ring.json", path))
        seal(backup)
        refused = run(kind, "restore", backup, settings)
        assert refused.exit_code == 2
        assert "the backup's settings would write to" in refused.output
        assert not victim.exists()
        assert list(settings.parent.iterdir()) == [], "nothing is left, not even the settings"
    (backup / "settings" / "settings.toml").write_text(text)
    seal(backup)
    assert run(kind, "restore", backup, settings).exit_code == 0


def test_settings_that_the_operator_wrote_may_say_any_place(
    kind: str, backup: Path, tmp_path: Path
) -> None:
    settings, ring = elsewhere(tmp_path), tmp_path / "keys" / "ring.json"
    settings.write_text(
        (backup / "settings" / "settings.toml").read_text().replace("ring.json", str(ring))
    )
    assert run(kind, "restore", backup, settings).exit_code == 0
    assert ring.is_file()


def test_what_the_manifest_does_not_list_is_not_restored(
    kind: str, backup: Path, tmp_path: Path
) -> None:
    part = {"aggregator": "history/query=a/day=b/x.parquet", "proxy": "spool/extra"}[kind]
    for name in (part, "planted.db"):
        (backup / name).parent.mkdir(parents=True, exist_ok=True)
        (backup / name).write_text("planted")
    settings = elsewhere(tmp_path)
    assert run(kind, "restore", backup, settings).exit_code == 0
    assert not [
        path
        for path in settings.parent.rglob("*")
        if path.is_file() and path.read_bytes() == b"planted"
    ]


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "settings/../../outside"])
def test_names_that_lead_out_of_a_backup_are_refused(
    kind: str, backup: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "outside").write_text("secret")
    files = [*json.loads((backup / "manifest.json").read_text())["files"]]
    files.append({"name": name, "bytes": 6, "sha256": hashlib.sha256(b"secret").hexdigest()})
    seal(backup, files=files)
    refused = run(kind, "restore", backup, elsewhere(tmp_path))
    assert (refused.exit_code, "leads out of it" in refused.output) == (2, True)


def test_links_in_a_backup_are_not_followed(kind: str, backup: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("what the operator can read and the maker of the backup cannot")
    part = {"aggregator": "history", "proxy": "spool"}[kind]
    (backup / part).mkdir(exist_ok=True)
    (backup / part / "link").symlink_to(secret)
    seal(backup)
    settings = elsewhere(tmp_path)
    refused = run(kind, "restore", backup, settings)
    assert (refused.exit_code, "leads out of it" in refused.output) == (2, True)
    assert list(settings.parent.iterdir()) == []


OUTSIDE = [
    "../../victim.parquet",
    "/victim.parquet",
    "query=a/../../day=b/x.parquet",
    "query=a/x.parquet",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_catalogue_of_the_history_names_no_file_outside_its_folder(
    tmp_path: Path, path: str
) -> None:
    folder = ReportFolder(str(tmp_path / "history"))
    victim = tmp_path / "victim.parquet"
    victim.write_text("kept")
    for use in (folder.remove, folder.digest):
        with pytest.raises(ReportFormatError, match="is no path of a file of the history"):
            use(path)
    with pytest.raises(ReportFormatError, match="is no path of a file of the history"):
        folder.open(FileEntry(path, "a", 1, 0, 0, 0, 0, 0, ""))
    assert victim.read_text() == "kept"
