from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deniable.client.policy import DEFAULT_LIMITS, Policy, read_policy
from deniable.errors import KeyFileError, ParameterError, PolicyError
from deniable.privacy.ledger import Limit
from deniable.queries.columns.column import Column
from deniable.queries.signed.key_ring import KeyRing, TrustedKey
from deniable.queries.strata import Stratum
from toolkit.devices import KEY, asked, make_policy

GOOD = """\
ring = "ring.json"
analysts = ["City of Exampleton"]
epsilon_per_answer = 2.5
strata = ["north"]
queue_messages = 20
queue_age = "3 d"
upload_within = 0
deadline = 0.5
max_rows = 50

[[limits]]
epsilon = 7
period = "30 d"
each_analyst = true

[[limits]]
epsilon = 100

[[proxies]]
address = "https://one.example"
token = "first secret"

[[proxies]]
address = "https://two.example"
token = "second secret"
"""


def write(folder: Path, text: str, mode: int = 0o600) -> Path:
    if not (folder / "ring.json").exists():
        KeyRing([TrustedKey(KEY.public)]).save(folder / "ring.json")
    path = folder / "policy.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_a_file_says_what_python_says(tmp_path: Path) -> None:
    policy = read_policy(write(tmp_path, GOOD))
    assert policy.proxies == {
        "https://one.example": "first secret",
        "https://two.example": "second secret",
    }
    assert policy.limits == (Limit(7, period=30 * 86_400, each_analyst=True), Limit(100))
    assert (policy.analysts, policy.strata) == (("City of Exampleton",), ("north",))
    assert (policy.queue_messages, policy.queue_age, policy.upload_within) == (20, 3 * 86_400, 0)
    assert (policy.deadline, policy.max_rows, policy.epsilon_per_answer) == (0.5, 50, 2.5)
    assert [trusted.key.id for trusted in policy.ring] == [KEY.public.id]


def test_what_a_file_leaves_out_is_careful(tmp_path: Path) -> None:
    policy = read_policy(write(tmp_path, 'ring = "ring.json"\nproxies = []\n'))
    assert policy.limits == DEFAULT_LIMITS
    assert policy.check(asked()) == (
        "proxy not allowed",
        "it would send a share to https://one.example, which is not among the proxies you allow",
    )


@pytest.mark.parametrize(
    ("before", "after", "key", "line"),
    [
        ("queue_messages = 20", "queue_messages = 0", "queue_messages", 5),
        ('queue_age = "3 d"', 'queue_age = "3 moons"', "queue_age", 6),
        ("deadline = 0.5", "deadline = -1", "deadline", 8),
        ("epsilon_per_answer = 2.5", 'epsilon_per_answer = "much"', "epsilon_per_answer", 3),
        ('strata = ["north"]', 'strata = "north"', "strata", 4),
        ('analysts = ["City of Exampleton"]', "analysts = [1]", "analysts", 2),
        ("max_rows = 50", "most_rows = 50", "most_rows", 9),
        ('period = "30 d"', 'period = "soon"', "limits[0].period", 13),
        ("epsilon = 100", "epsilon = -100", "limits[1].epsilon", 17),
        ("epsilon = 100", "", "limits[1].epsilon", 16),
        (
            "each_analyst = true",
            'each_analyst = true\nanalyst = "City"',
            "limits[0].each_analyst",
            14,
        ),
        ("each_analyst = true", "every_analyst = true", "limits[0].every_analyst", 14),
        ('ring = "ring.json"', "", "ring", None),
        ('token = "second secret"', "", "proxies[1]", 23),
    ],
)
def test_a_wrong_setting_is_named_with_its_line_and_no_token_is_shown(
    tmp_path: Path, before: str, after: str, key: str, line: int | None
) -> None:
    assert before in GOOD
    with pytest.raises(PolicyError) as error:
        read_policy(write(tmp_path, GOOD.replace(before, after, 1)))
    assert error.value.name == key
    assert error.value.line == line
    assert "secret" not in str(error.value)


def test_a_file_that_others_can_read_is_refused_for_it_holds_tokens(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="mode 0644"):
        read_policy(write(tmp_path, GOOD, 0o644))


@pytest.mark.parametrize("text", ["ring = ", "ring = 'a'\nring = 'b'"])
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(PolicyError, match="not TOML"):
        read_policy(write(tmp_path, text))


def test_a_missing_file_or_ring_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"nowhere\.toml.*cannot be read"):
        read_policy(tmp_path / "nowhere.toml")
    path = write(tmp_path, GOOD.replace("ring.json", "lost.json"))
    with pytest.raises(KeyFileError, match=r"lost\.json"):
        read_policy(path)


def test_tokens_are_not_shown_when_a_policy_is_printed() -> None:
    policy = make_policy(asked(), proxies={"https://one.example": "very secret"})
    assert "secret" not in repr(policy) + str(policy)


def test_the_ceiling_is_on_all_rows_together_and_on_what_is_kept_for_life() -> None:
    query = asked()
    epsilon = query.epsilon
    assert make_policy(query, epsilon_per_answer=epsilon).check(query) is None
    several = asked(rows="several", most_rows=2)
    assert make_policy(query, epsilon_per_answer=epsilon).check(several) == (
        "over the ceiling",
        f"an answer would cost {2 * epsilon:.6g}, but your ceiling for one answer is {epsilon:.6g}",
    )
    rappor: dict[str, Any] = {
        "mechanism": {"name": "BasicRappor", "f": 0.5, "p": 0.5, "q": 0.75},
        "columns": [Column("distance", ["[0,1)"], other=True)],
    }
    assert make_policy(query, epsilon_per_answer=1).check(asked(**rappor)) is None
    refusal = make_policy(query, epsilon_per_answer=1).check(asked(**rappor, memoize=True))
    assert refusal is not None
    assert refusal[0] == "over the ceiling"


def test_a_person_is_in_the_first_stratum_that_they_named() -> None:
    query = asked(strata=[Stratum("north"), Stratum("old"), Stratum("south")])
    assert make_policy(query, strata=("south", "old")).stratum(query) == 1
    assert make_policy(query).stratum(query) is None
    assert make_policy(query).stratum(asked()) == 0


def test_a_policy_needs_a_ring() -> None:
    with pytest.raises(ParameterError, match="ring"):
        Policy("ring.json", {})  # type: ignore[arg-type]
