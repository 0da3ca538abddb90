"""`deniable estimate EXPORT --poll FILE`: what survey software exported of a poll's snippets."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from deniable.cli.output import Part, emit, show_display
from deniable.poll.files import read_poll
from deniable.poll.hosted.exports import read_export
from deniable.poll.hosted.snippet import hosted_mechanism

__all__ = ["estimate_exports", "refuse_other_options"]

_ALLOWED = {"files", "poll", "confidence", "as_json", "as_csv"}


def refuse_other_options() -> None:
    """Refuse options that mean nothing for an export; the poll says what its columns are."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in _ALLOWED and parameter.opts[0] not in ("--json", "--csv"):
            raise click.UsageError(f"--poll and {parameter.opts[0]} cannot be combined")


def estimate_exports(files: tuple[Path, ...], poll: Path, confidence: float) -> None:
    """Estimate each question of the poll from one or several exports together."""
    found = read_poll(poll)
    parts: list[Part] = []
    rows: list[list[object]] = []
    document: dict[str, object] = {}
    for question in found.questions:
        exports = [read_export(file, found, question) for file in files]
        reports = [each for export in exports for each in export.reports]
        empty = sum(export.empty for export in exports)
        estimate = hosted_mechanism(found, question).estimate(reports)
        document[question.id] = estimate.to_dict(confidence) | {"empty_rows": empty}
        parts += [*([""] if parts else []),
                  *show_display(estimate._display(confidence), question.id)]  # fmt: skip
        if empty:
            parts.append(f"{empty:,} rows without an answer were skipped.")
        rows += [
            [question.id, label, proportion, stderr, low, high]
            for label, proportion, stderr, (low, high) in zip(
                estimate.labels, estimate.proportions, estimate.stderr,
                estimate.interval(confidence), strict=True,
            )
        ]  # fmt: skip
    header = ["question", "label", "estimate", "stderr", "low", "high"]
    emit({"questions": document}, lambda: parts, lambda: (header, rows))
