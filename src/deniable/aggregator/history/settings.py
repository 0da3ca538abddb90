"""How long reports are kept, and where."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deniable.checks import whole
from deniable.errors import ParameterError
from deniable.service.files.settings import Seconds

__all__ = ["HistorySettings"]


@dataclass(frozen=True)
class HistorySettings:
    """Where reports are kept, for how long, and of which queries."""

    folder: str
    """A folder, or its address; with Spark, one that its executors can also reach."""
    keep: Seconds = 400 * 86400
    """Seconds for which reports are kept, counted from the end of their day."""
    keep_by_query: Mapping[str, Seconds] = field(default_factory=dict)
    """The same for individual queries, by id."""
    never: Sequence[str] = ()
    """Queries whose reports are not kept at all."""
    publish_every: Seconds = 600
    """Seconds after which reports of closed epochs are moved to a file, if there are too few to be
    moved earlier."""
    most_scans: int = 2
    """How many HTTP clients may read the history at the same time."""

    def __post_init__(self) -> None:
        if not isinstance(self.folder, str) or not self.folder:
            raise ParameterError("folder", self.folder, "must be a path or an address")
        for name in ("keep", "publish_every", "most_scans"):
            whole(name, getattr(self, name), 0 if name == "publish_every" else 1, 1 << 40)
        for query, seconds in dict(self.keep_by_query).items():
            whole(f"keep_by_query.{query}", seconds, 1, 1 << 40)
        if isinstance(self.never, str) or not all(isinstance(each, str) for each in self.never):
            raise ParameterError("never", self.never, "must be a list of query ids")

    def within(self, folder: Path) -> HistorySettings:
        """The same settings, with a relative path resolved against the folder of the settings
        file."""
        remote = "://" in self.folder
        return (
            self
            if remote
            else dataclasses.replace(self, folder=str((folder / self.folder).absolute()))
        )

    def keeps(self, query: str) -> bool:
        """Whether reports of a query are kept."""
        return query not in self.never

    def keep_of(self, query: str) -> int:
        """Seconds for which a query's reports are kept."""
        return self.keep_by_query.get(query, self.keep)
