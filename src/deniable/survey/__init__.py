"""Survey files: randomize a file of answers, or estimate from a file of randomized ones."""

from deniable.survey.columns import (
    parse_column,
    parse_columns,
    read_columns,
    read_questionnaire,
    write_columns,
    write_questionnaire,
)
from deniable.survey.estimates import Survey
from deniable.survey.estimating import estimate_file
from deniable.survey.files import randomize_file
from deniable.survey.questions_file import read_questions, write_plan
from deniable.survey.synthetic import synthesize_file

__all__ = [
    "Survey",
    "estimate_file",
    "parse_column",
    "parse_columns",
    "randomize_file",
    "read_columns",
    "read_questionnaire",
    "read_questions",
    "synthesize_file",
    "write_columns",
    "write_plan",
    "write_questionnaire",
]
