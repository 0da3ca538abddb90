"""Polls as TOML files: what is read, written and refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from deniable.errors import SettingsError
from deniable.poll.files import poll_text, read_poll

GOOD = """\
id = "medicine"
asker = "Staff council"
title = { en = "Medicine on the wards", de = "Medikamente auf den Stationen" }
start = 2026-11-01T00:00:00Z
end = 2026-11-30T00:00:00Z
factor = 3
page = "https://poll.example"
aggregator = "https://count.example"

[[proxies]]
url = "https://one.example"
by = "the works council"

[[proxies]]
url = "https://two.example"

[[questions]]
id = "taken"
text = { en = "Have you taken medicine?", de = "Haben Sie Medikamente genommen?" }
statement = { en = "I have taken medicine.", de = "Ich habe Medikamente genommen." }

[[questions]]
id = "nights"
kind = "number"
text = { en = "How many nights?", de = "Wie viele Nächte?" }
low = 0
high = 31
step = 8
unit = { en = "nights", de = "Nächte" }
optional = true

[[questions]]
id = "ward"
kind = "list"
text = { en = "On which ward?", de = "Auf welcher Station?" }
options = { en = ["A", "B"], de = ["A", "B"] }
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "poll.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_poll_is_read_and_comes_back_as_it_was_written(tmp_path: Path) -> None:
    poll = read_poll(written(tmp_path, GOOD))
    assert poll.languages == ("en", "de")
    assert poll.questions[0].options["de"] == ("Ja", "Nein")
    assert poll.questions[1].options["de"] == (
        "0 bis 7",
        "8 bis 15",
        "16 bis 23",
        "24 bis 31",
        "Keine Angabe",
    )
    assert [poll.query_id(each) for each in poll.questions] == [
        "medicine.taken",
        "medicine.nights",
        "medicine.ward",
    ]
    assert read_poll(written(tmp_path, poll_text(poll))) == poll


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("factor = 3", "factor = 1", 6, "factor = 1 must lie between 1.1 and 20000"),
        (
            "factor = 3",
            "factor = 3\nepsilon = 1",
            7,
            "epsilon = 1 or factor must be given, not both",
        ),
        ("factor = 3", "factr = 3", 6, "factr = 3 is not a key here"),
        ('id = "medicine"', 'id = "Medicine!"', 1, "id = 'Medicine!' must be 1 to 40"),
        ("https://two.example", "https://one.example", 15, "must differ from that of the first"),
        ("https://two.example", "https://two.example/x", 15, "without a path"),
        ('id = "nights"', 'id = "taken"', 23, "must differ from the others"),
        ("step = 8", "step = 0", 28, "step = 0 must"),
        ('kind = "number"', 'kind = "numbr"', 24, "kind = 'numbr' must be one of"),
        ('kind = "number"', 'kind = "scale"', 26, "does not belong to a question of kind 'scale'"),
        (', de = "Wie viele Nächte?"', "", 29, "must have the"),
        ("2026-11-30", "2026-10-30", 5, "must be a minute to a year after the start"),
    ],
)
def test_a_mistake_is_refused_with_its_file_line_key_and_rule(
    tmp_path: Path, old: str, new: str, line: int, words: str
) -> None:
    assert old in GOOD
    with pytest.raises(SettingsError) as caught:
        read_poll(written(tmp_path, GOOD.replace(old, new)))
    assert str(caught.value).startswith("poll.toml")
    assert words in str(caught.value)
    assert caught.value.line == line
