"""Settings in TOML: sizes, durations and paths as people write them, and mistakes told with file,
line, key and rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from deniable.aggregator.settings import AggregatorSettings, read_settings
from deniable.errors import SettingsError

GOOD = """state = "state.db"
ring = "ring.json"
port = 0

[[proxies]]
name = "https://one.example"

[[proxies]]
name = "https://two.example"
url = "https://elsewhere.example"

[limits]
patience = "30 min"
step_bytes = "64 MiB"
workers = 2
"""


def read(folder: Path, text: str) -> AggregatorSettings:
    path = folder / "aggregator.toml"
    path.write_text(text)
    return read_settings(path)


def test_sizes_durations_and_paths_are_read_as_they_are_meant(tmp_path: Path) -> None:
    settings = read(tmp_path, GOOD)
    assert settings.limits.step_bytes == 64 << 20
    assert settings.limits.patience == 1800
    assert settings.state == tmp_path / "state.db"
    assert [proxy.url for proxy in settings.proxies] == [
        "https://one.example",
        "https://elsewhere.example",
    ]
    assert (
        read(tmp_path, GOOD.replace('"64 MiB"', "67108864").replace('"30 min"', "1800")) == settings
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            ('"64 MiB"', '"64 MB"'),
            (
                "line 14: limits.step_bytes = '64 MB' must be a whole number of bytes or a text"
                " such as"
            ),
        ),
        (('"64 MiB"', "6.5"), "line 14: limits.step_bytes = 6.5 must be a whole number of bytes"),
        (
            ('"30 min"', '"30 minutes"'),
            "line 13: limits.patience = '30 minutes' must be a number of whole seconds or a text",
        ),
        (("workers = 2", "workers = 2.0"), "line 15: limits.workers = 2.0 must be a whole number"),
        (
            ("workers = 2", "workers = true"),
            "line 15: limits.workers = True must be a whole number",
        ),
        (
            ("workers = 2", 'garbage = "no"'),
            "line 15: limits.garbage = 'no' must be a whole number",
        ),
        (
            ('url = "https://elsewhere.example"', "url = 5"),
            "line 10: proxies[1].url = 5 must be a text",
        ),
        (('state = "state.db"', "state = 3"), "line 1: state = 3 must be a path"),
        (('name = "https://two.example"', ""), "proxies[1].name = None is missing"),
        (("[limits]", "[limit]"), "limit = {"),
        (
            ("[limits]", "[limits]\npatients = 3"),
            "limits.patients = 3 is not a setting; did you mean 'patience'? There are",
        ),
        (("port = 0", "port = [1]"), "line 3: port = [1] must be a whole number"),
        (("port = 0", "limits = 3"), "line 3: limits = 3 must be a table"),
        (("port = 0", 'tls = "yes"'), "line 3: tls = 'yes' must be a table"),
    ],
)
def test_a_mistake_is_told_with_its_line_its_key_and_what_would_be_accepted(
    tmp_path: Path, change: tuple[str, str], complaint: str
) -> None:
    assert change[0] in GOOD
    text = GOOD.replace(*change)
    if change[1] == "limits = 3":
        text = text[: text.index("[limits]")]
    with pytest.raises(SettingsError) as refused:
        read(tmp_path, text)
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("aggregator.toml")
