"""Files of answers: randomize one for its owners, estimate from one that is randomized already."""

from deniable.survey.columns import parse_column, parse_columns, read_columns, write_columns
from deniable.survey.files import Survey, estimate_file, randomize_file

__all__ = ["Survey", "estimate_file", "parse_column", "parse_columns", "randomize_file", "read_columns", "write_columns"]
