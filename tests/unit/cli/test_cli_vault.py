from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from deniable.cli import COMMANDS, cli, main
from deniable.cli.person.vault import vault

CSV = "started,km,city\n2026-03-01 08:15,3.5,Lyon\n2026-03-02 19:40,1.2,Lyon\n"


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def deniable(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """The command as a person runs it in that folder: exit code, standard output, standard
    error."""
    monkeypatch.chdir(folder)

    def command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["deniable", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return code, captured.out, captured.err

    return command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rides.csv").write_text(CSV)
    return tmp_path


def test_a_vault_is_made_filled_shared_and_shown(deniable: Command) -> None:
    steps = [
        (("init", "ann.db"), "ann.db is an empty vault. Nothing is granted.\n"),
        (("show", "ann.db"), "The vault is empty.\n"),
        (
            ("import", "ann.db", "--table", "rides", "rides.csv"),
            "2 rows added to rides. Nothing is granted.\n",
        ),
        (
            ("grant", "ann.db", "rides", "km"),
            "rides (2 rows): Granted: km. Withheld: started, city.\n",
        ),
        (
            ("grant", "ann.db", "rides", "city", "started"),
            "rides (2 rows): Granted: started, km, city. Nothing is withheld.\n",
        ),
        (
            ("withdraw", "ann.db", "rides", "started"),
            "rides (2 rows): Granted: km, city. Withheld: started.\n",
        ),
        (("withdraw", "ann.db", "rides"), "rides (2 rows): Nothing is granted.\n"),
    ]
    for arguments, printed in steps:
        assert deniable("vault", *arguments) == (0, printed, "")


def test_show_gives_json_to_programs(deniable: Command) -> None:
    for arguments in (
        ("init", "a.db"),
        ("import", "a.db", "--table", "rides", "rides.csv"),
        ("grant", "a.db", "rides", "km"),
    ):
        deniable("vault", *arguments)
    code, out, _ = deniable("vault", "show", "a.db", "--json")
    assert code == 0
    table = {"table": "rides", "rows": 2, "granted": ["km"], "withheld": ["started", "city"]}
    assert json.loads(out) == {"file": "a.db", "tables": [table]}


def test_an_error_is_one_line_and_changes_nothing(deniable: Command, folder: Path) -> None:
    deniable("vault", "init", "a.db")
    deniable("vault", "import", "a.db", "--table", "rides", "rides.csv")
    (folder / "bad.csv").write_text("started,km,city\nx,swordfish,y\n")
    (folder / "notes.txt").write_text("x")
    before = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    for arguments, words in (
        (("init", "a.db"), "a.db exists already"),
        (("show", "b.db"), "b.db cannot be opened: No such file or directory"),
        (("grant", "b.db", "rides", "km"), "b.db cannot be opened"),
        (("grant", "a.db", "rides", "speed"), "column 'speed' is not an ordinary column of rides"),
        (("grant", "a.db", "walks", "km"), "there is no ordinary table 'walks'"),
        (("withdraw", "a.db", "rides"), "nothing of table 'rides' is granted"),
        (
            ("import", "a.db", "--table", "rides", "bad.csv"),
            "row 1, column 'km': the cell is not REAL",
        ),
        (("import", "a.db", "--table", "x y", "rides.csv"), "table 'x y' must be a name"),
        (("import", "a.db", "--table", "rides", "absent.csv"), "absent.csv cannot be read"),
    ):
        code, out, err = deniable("vault", *arguments)
        assert (code, out) == (2, "")
        assert re.fullmatch(rf"deniable: .*{re.escape(words)}.*\n", err), err
        assert "swordfish" not in err
    code, _, err = deniable("vault", "import", "a.db", "--table", "rides", "notes.txt")
    assert code == 2
    assert "must end in .csv or .parquet" in err
    assert {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()
    } == before


def test_every_command_of_the_vault_explains_itself() -> None:
    assert set(vault.commands) == {
        "init",
        "import",
        "record",
        "keep",
        "grant",
        "withdraw",
        "show",
        "sandbox",
    }
    for command in vault.commands.values():
        assert command.help
        out = CliRunner().invoke(cli, ["vault", command.name or "", "--help"])
        assert out.exit_code == 0
        assert command.help.split(".")[0].split()[0] in out.output
        for option in command.params:
            assert not isinstance(option, click.Option) or option.help


def test_the_page_shows_what_the_commands_print(deniable: Command, folder: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "vault.md").read_text(encoding="utf-8")
    sessions = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    n_commands = 0
    for step in re.split(r"^\$ ", "".join(sessions), flags=re.MULTILINE)[1:]:
        command, _, printed = step.partition("\n")
        if command.startswith("cat "):
            assert (folder / command.split()[1]).read_text() == printed
            continue
        n_commands += 1
        program, *arguments = command.split()
        assert program == "deniable"
        _, out, err = deniable(*arguments)
        assert out + err == printed
    assert n_commands >= 6


def test_a_command_is_loaded_only_when_it_runs(deniable: Command) -> None:
    code = (
        "import sys; from deniable.cli import cli; print(sorted(m for m in sys.modules if"
        " m.startswith('deniable.cli')))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    granted = [
        "deniable.cli",
        *(f"deniable.cli.{name}" for name in ("examples", "helping", "output", "tables")),
    ]
    assert out.stdout.strip() == str(granted)
    assert "vault" in COMMANDS
    code_unknown, _, err = deniable("vaults")
    assert code_unknown == 2
    assert "No such command 'vaults'" in err
    assert "vault" in deniable("--help")[1]
