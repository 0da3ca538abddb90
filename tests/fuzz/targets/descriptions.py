"""What stands beside tables: mechanisms, questions, records of earlier randomizations, hierarchies.
First byte: which."""

from __future__ import annotations

from deniable.release.hierarchy_files import parse_hierarchy, read_hierarchy
from deniable.survey.columns import parse_column, read_questionnaire, write_questionnaire
from deniable.survey.questions_file import read_questions
from deniable.survey.record import _entries, _refusal
from deniable.toml_file import TomlFile
from fuzz.files import put

WEIGHT, LONGEST = 2, 500
DICTIONARY = [
    b"[columns.a]",
    b"[questionnaire]",
    b"[questions.a]",
    b"[[randomized]]",
    b'mechanism = "',
    b"epsilon = ",
    b"values = [",
    b"1e400",
    b"nan",
]
DICTIONARY += [
    b"value,parent",
    b"numbers:low=",
    b"dates:",
    b"masked:length=",
    b"categories:labels=a|b",
    b",high=",
    b"width=",
    b"ask = 1",
    b"fake = true",
]


def seeds() -> list[bytes]:
    return [
        (
            b'm[columns.smokes]\nmechanism = "BinaryResponse"\np = 0.5\nq ='
            b' 0.5\n[columns.city]\nmechanism = "DirectEncoding"\nvalues = ["Oslo",'
            b' "Rome"]\nepsilon = 1.0\n'
        ),
        (
            b"m[questionnaire]\nask = 1\nweights = { a = 1.0, b = 2.0 }\n[columns.a]\nmechanism ="
            b' "OptimizedUnary"\nvalues = 3\nepsilon = 1\n[columns.b]\nmechanism ='
            b' "SquareWave"\nlow = 0\nhigh = 9\nepsilon = 1.0\nbins = 8\n'
        ),
        (
            b'q[questions.smokes]\nlabels = ["no", "yes"]\nimportance = 2\n[questions.age]\nlow ='
            b" 18\nhigh = 95\nintegers = true\n"
        ),
        b'r[[randomized]]\noutput = "x.csv"\nat = 2026-01-01T00:00:00Z\nepsilon = { age = 1.5 }\n',
        b"hOslo,Norway,Europe\nRome,Italy,Europe\n",
        b"hvalue,parent\nOslo,Norway\nNorway,Europe\n",
        b"oage=numbers:low=0,high=100,width=5",
        b"oborn=dates:low=1900-01-01,high=2000-12-31",
        b"ccity=DirectEncoding:values=Oslo|Paris|Rome,epsilon=1",
    ]


def check(data: bytes) -> None:
    kind, content = data[:1], data[1:]
    if kind == b"q":
        questions = read_questions(put("questions.toml", content))
        assert questions
        return
    if kind == b"r":
        entries = TomlFile.read(put("record.toml", content), _refusal).made(_entries)
        assert all(isinstance(loss, float) for _, losses in entries for loss in losses.values())
        return
    if kind == b"h":
        tree = read_hierarchy(put("hierarchy.csv", content))
        assert repr(tree)
        return
    text = content.decode("utf-8", "replace")
    if kind == b"o":
        if not text.lower().endswith(".csv"):
            parse_hierarchy(text)
        return
    if kind == b"c":
        parse_column(text)
        return
    read = read_questionnaire(put("columns.toml", content))
    again = read_questionnaire(put("columns.toml", write_questionnaire(read).encode()))
    assert dict(again.mechanisms) == dict(read.mechanisms)
    assert again.rule() == read.rule()
