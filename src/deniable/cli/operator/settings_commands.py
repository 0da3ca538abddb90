"""What the commands of all services have in common: `new`, `check`, `show` and `run` of a settings
file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from deniable.cli.output import emit, output_options, plain, write_new
from deniable.cli.tables import TextTable
from deniable.errors import MissingExtraError, ParameterError, ServiceError, SettingsError
from deniable.toml_file import TomlFile, line_of

__all__ = [
    "FILE",
    "add_settings_commands",
    "endpoint_options",
    "opened_settings",
    "quoted",
    "tls_table",
    "write_settings",
]

FILE = click.argument("file", type=click.Path(path_type=Path))
_T = TypeVar("_T")
_COLUMN = 29
"""The column at which comments start in a written file, if there is room."""


def endpoint_options(port: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options of `new` that all services share."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in (
            click.option("--key", help="The certificate's key, a PEM file; with --certificate."),
            click.option("--certificate", help="A certificate chain, a PEM file: turns on TLS."),
            click.option(
                "--port",
                type=click.IntRange(0, 65535),
                default=port,
                show_default=True,
                help="The port to listen on.",
            ),
            click.option(
                "--host", default="127.0.0.1", show_default=True, help="The address to listen on."
            ),
            output_options,
        ):
            command = option(command)
        return command

    return add


def tls_table(certificate: str | None, key: str | None) -> str:
    """The table [tls] of a settings file, commented out if there is no certificate."""
    if (certificate is None) != (key is None):
        raise ParameterError(
            "--key" if key is None else "--certificate",
            None,
            "is missing: TLS needs a certificate and its key",
        )
    mark = "# " if certificate is None else ""
    note = "  # TLS 1.3; an ECDSA certificate (P-256) costs a fifth of an RSA one" if mark else ""
    lines = [f"{mark}[tls]{note}", f"{mark}certificate = {quoted(certificate or 'chain.pem')}"]
    lines += [
        f"{mark}key = {quoted(key or 'key.pem')}",
        '# password_file = "key.password"  # if the key is encrypted',
        "",
    ]
    return "\n".join(lines)


def quoted(text: str) -> str:
    """A string as a TOML literal."""
    return json.dumps(text, ensure_ascii=False)


def write_settings(file: Path, template: str, next_steps: str, **values: str) -> None:
    """Write a new settings file, with its comments in one column, and say what to do next."""
    lines = template.format(file=file.name, **values).splitlines()
    write_new(file, "\n".join([*map(_aligned, lines), ""]), ServiceError)
    emit({"file": str(file), "next": next_steps.split("; ")}, f"Wrote {file}. Next: {next_steps}")


def _aligned(line: str) -> str:
    found = re.fullmatch(r"((?:# )?[a-z_]+ = (?:\"[^\"]*\"|[^\"#]*?)) +(# .*)", line)
    return line if found is None else f"{found[1]:<{_COLUMN - 1}} {found[2]}"


@contextmanager
def opened_settings(file: Path, kind: type[_T], purpose: str) -> Iterator[_T]:
    """The settings in a file. An error in a setting is reported with its line, even if it only
    shows up later."""
    from deniable.service.files.settings import settings_of  # noqa: PLC0415 - needs pydantic

    opened = TomlFile.read(file)
    try:
        with opened.located():
            yield opened.made(lambda tree: settings_of(tree, kind, file.parent))
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "service", purpose) from None


def _origin_option(wanted: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    help_text = "The origin of a web page, such as https://poll.example: may it use the service?"
    return click.option("--origin", help=help_text) if wanted else lambda command: command


def add_settings_commands(
    group: click.Group,
    kind: type[_T],
    check: Callable[[_T, Any, str | None], None],
    check_origin: Callable[[_T, Any, str | None, str], None] | None = None,
) -> None:
    """Add `check` and `show` to the commands of a service whose settings are of this kind.

    `check_origin` tries whether pages of an origin can use the service, for those that pages use.
    """

    @group.command("check")
    @FILE
    @click.option("--url", help="The address that clients use: is the certificate valid for it?")
    @_origin_option(check_origin is not None)
    @output_options
    def check_command(file: Path, url: str | None, origin: str | None = None) -> None:
        """Check FILE and everything it refers to: files, certificates, disks, ports, and the
        services it must reach.

        Prints one line per finding. Exit code 2 if one of them is an error. Nothing is changed, and
        each check takes a few seconds at most.
        """
        from deniable.service.files.settings import checked_settings  # noqa: PLC0415
        from deniable.service.inspection import Inspection  # noqa: PLC0415 - needs pydantic and cryptography

        found = Inspection()
        opened = None
        try:
            opened = TomlFile.read(file)
            settings, problems = checked_settings(opened.tree, kind, file.parent)
            found.checked.append("settings")
            for each in problems:
                found.error(each.name, each.value, each.rule or each.message)
            if settings is not None:
                check(settings, found, url)
                if origin is not None and check_origin is not None:
                    check_origin(settings, found, url, origin)
        except SettingsError as error:  # the file itself is wrong, so nothing else can be checked
            found.error(error.name, error.value, error.rule or error.message)
        _report(file, opened.text if opened else "", found)

    @group.command("show")
    @FILE
    @output_options
    def show_command(file: Path) -> None:
        """Print every setting in force, including defaults, and the line of FILE that sets it.
        Secrets are hidden."""
        from deniable.service.files.effective_settings import effective_settings  # noqa: PLC0415 - needs pydantic

        opened = TomlFile.read(file)
        with opened_settings(file, kind, "a file of settings") as settings:
            rows = effective_settings(opened, settings)
        listed = [
            {
                "key": each.key,
                "value": each.value,
                "source": "default" if each.line is None else "file",
                "line": each.line,
            }
            for each in rows
        ]
        header = ["key", "value", "source", "line"]
        shown = [
            (
                each.key,
                "(not set)" if each.value is None else json.dumps(each.value, ensure_ascii=False),
                "default" if each.line is None else f"{opened.name}, line {each.line}",
            )
            for each in rows
        ]
        emit(
            {"file": str(file), "settings": listed},
            TextTable(("setting", "value", "source"), shown, [False] * 3),
            (header, [[each[name] for name in header] for each in listed]),
        )


def _report(file: Path, text: str, found: Any) -> None:
    errors = sum(each.level == "error" for each in found.findings)
    rows = [(each, line_of(text, each.key)) for each in found.findings]
    listed = [
        {
            "level": each.level,
            "line": line,
            "key": each.key,
            "value": each.value,
            "message": each.text,
        }
        for each, line in rows
    ]
    shown = []
    for each, line in rows:
        at = f"{file.name}, line {line}" if line else file.name
        message = (
            ParameterError(each.key, each.value, each.text)
            if each.value is not None
            else f"{each.key} {each.text}"
        )
        shown.append(f"{each.level}: {at}: {plain(str(message), lines=False)}")
    counts = f"{_number(errors, 'error')}, {_number(len(listed) - errors, 'warning')}"
    shown.append(f"{file.name}: {counts} in {_number(len(found.checked), 'check')}.")
    header = ["level", "line", "key", "value", "message"]
    emit(
        {"file": str(file), "ok": not errors, "checked": found.checked, "findings": listed},
        shown,
        (header, [[each[name] for name in header] for each in listed]),
    )
    if errors:
        click.get_current_context().exit(2)


def _number(n: int, what: str) -> str:
    return f"{n or 'no'} {what}{'' if n == 1 else 's'}"
