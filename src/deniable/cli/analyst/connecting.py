"""How an analyst's commands reach an aggregator: its address and the token, from options or the
environment."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from deniable.analyst.analyst import Analyst
from deniable.errors import ParameterError

__all__ = ["aggregator_options", "connect", "read_token"]


def aggregator_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--aggregator` and `--token-file`, which can also be set in the environment."""
    command = click.option(
        "--token-file",
        type=click.Path(path_type=Path),
        envvar="DENIABLE_TOKEN_FILE",
        help=(
            "The file with your token [environment: DENIABLE_TOKEN_FILE, or the token itself in"
            " DENIABLE_TOKEN]."
        ),
    )(command)
    return click.option(
        "--aggregator",
        "url",
        envvar="DENIABLE_AGGREGATOR",
        required=True,
        help=(
            "The aggregator's address, such as https://aggregator.example [environment:"
            " DENIABLE_AGGREGATOR]."
        ),
    )(command)


def connect(url: str, token_file: Path | None) -> Analyst:
    """An analyst at that aggregator."""
    if token_file is None:
        token = os.environ.get("DENIABLE_TOKEN", "")
        if not token:
            raise ParameterError(
                "--token-file", None, "is missing: the aggregator requires a token"
            )
    else:
        token = read_token(token_file)
    return Analyst(url, token)


def read_token(file: Path) -> str:
    """The token in a file."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError("--token-file", str(file), f"cannot be read: {error}") from None
