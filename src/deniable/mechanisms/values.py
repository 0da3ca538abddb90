"""Reports that are one of the domain's own values, or one of a mechanism's numbered outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import AnswerError, ReportFormatError
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.reports import Reports

__all__ = ["IndexReports", "ValueReports"]


class IndexReports(Mechanism):
    """A report is a number from 0 to `n_outputs` - 1, in as few bytes as possible."""

    @property
    def n_outputs(self) -> int:
        """How many different reports there are."""
        return len(self.report_domain)

    @property
    def report_domain(self) -> Domain:
        """What can be reported: by default the values themselves."""
        return self.domain

    @property
    def layout(self) -> tuple[np.dtype[Any], tuple[int, ...]]:
        return np.dtype(np.min_scalar_type(self.n_outputs - 1)).newbyteorder("<"), ()

    @property
    def cells(self) -> int:
        return self.n_outputs

    def check(self, data: NDArray[Any]) -> None:
        if data.size and data.max() >= self.n_outputs:
            raise ReportFormatError(f"a report lies outside 0 to {self.n_outputs - 1}")

    def check_counts(self, counts: NDArray[np.int64], n: int) -> None:
        super().check_counts(counts, n)
        if sum(counts.tolist()) != n:  # not in 64 bits, where forged counts could wrap around
            raise ReportFormatError(f"a tally of {n} reports has counts that do not sum to {n}")

    def count(self, data: NDArray[Any]) -> NDArray[np.int64]:
        return np.bincount(data, minlength=self.n_outputs)


class ValueReports(IndexReports):
    """The outputs have labels, so a column of labels that were randomized elsewhere can be read as
    reports."""

    def _from_column(self, values: Any) -> Reports:
        try:
            indices = self.report_domain.indices(values)
        # it is a report, not an answer; and the caller asked about reports
        except AnswerError as error:
            raise ReportFormatError(
                f"{error.rule}, so it is not a report of {self!r}", error.position
            ) from None
        return Reports(self, indices.astype(self.layout[0]))

    def report_labels(self, reports: Any) -> list[Any]:
        """The reports as the labels of what can be reported."""
        return [self.report_domain.labels[i] for i in self.reports(reports).data]
