"""Descriptions of documents are made from the types of the code that writes them."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from fastapi import FastAPI

from deniable.aggregator.history.answer_documents import HISTORY_ANSWER
from deniable.aggregator.operations.health import AggregatorHealth
from deniable.aggregator.web.documents import QUERY
from deniable.aggregator.windows.stored import SERVED_WINDOW, Detail, ResultsPage
from deniable.aggregator.windows.window import Window
from deniable.console.design_plans import DesignRequest, design_answer
from deniable.console.drafts import Draft, DraftChecks, DraftColumn, check_draft
from deniable.console.plan_documents import PLAN
from deniable.console.public_queries import PublicDocument, PublicQueries
from deniable.console.type_file import TYPE_FILE, type_file
from deniable.documents import Timestamp, WrittenAs, document_type, jsdoc, json_schema, times_of
from deniable.estimation.tables.table import Table
from deniable.results import Result
from deniable.service.http.openapi import Operation, describe
from toolkit.closed_schemas import problems_of
from toolkit.servers.consoles import SeededConsole, console_query


class Inner(TypedDict):
    """A part."""

    place: int | None


class Outer(TypedDict):
    """A whole.

    More of it.
    """

    made: Timestamp
    ended: Timestamp | None
    kind: Literal["a", "b"]
    parts: list[Inner]
    bounds: tuple[float, float]
    by_name: dict[str, list[str]]
    note: NotRequired[str]
    """What :meth:`x` says, or None."""


@dataclass(frozen=True, eq=False)
class Mean(Result):
    value: float
    weights: tuple[float, ...]
    later: int = 0
    counted: Annotated[Any, WrittenAs(list[int])] = ()


def test_a_type_becomes_a_schema() -> None:
    components: dict[str, Any] = {}
    assert json_schema(Outer, components) == {"$ref": "#/components/schemas/Outer"}
    found = components["Outer"]
    assert found["required"] == [
        *("made", "made_time", "ended", "ended_time", "kind", "parts", "bounds", "by_name")
    ]
    properties = found["properties"]
    assert properties["made_time"] == {"type": "string"}
    assert properties["ended_time"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert properties["kind"] == {"enum": ["a", "b"]}
    assert properties["parts"]["items"] == {"$ref": "#/components/schemas/Inner"}
    assert properties["bounds"]["maxItems"] == 2
    assert properties["by_name"]["additionalProperties"]["type"] == "array"
    assert properties["note"] == {"type": "string", "description": "What `x` says, or null."}
    assert times_of(Outer) == ("made", "ended")
    good = {"made": 1, "made_time": "", "ended": None, "ended_time": None, "kind": "a"}
    good |= {"parts": [{"place": None}], "bounds": [0, 1.5], "by_name": {"x": ["y"]}}
    assert problems_of(Outer, good) == []
    for wrong in ({"kind": "c"}, {"parts": [{"place": "x"}]}, {"more": 1}, {"bounds": [0.0]}):
        assert problems_of(Outer, good | wrong)


def test_a_type_becomes_jsdoc() -> None:
    assert jsdoc({"Whole": Outer}).splitlines() == [
        "/**",
        " * @typedef {object} Whole A whole.",
        " * @property {number} made",
        " * @property {string} made_time",
        " * @property {number|null} ended",
        " * @property {string|null} ended_time",
        " * @property {'a'|'b'} kind",
        " * @property {Inner[]} parts",
        " * @property {[number, number]} bounds",
        " * @property {Record<string, string[]>} by_name",
        " * @property {string} [note] What `x` says, or null.",
        " *",
        " * @typedef {object} Inner A part.",
        " * @property {number|null} place",
        " */",
    ]


def test_a_result_is_described_as_it_is_written_and_an_older_one_may_lack_later_fields() -> None:
    assert problems_of(Mean, Mean(1.0, (2.0,)).to_dict()) == []
    assert problems_of(Mean, {"value": 1.0, "weights": []}) == []
    assert problems_of(Mean, {"value": 1.0})


def test_a_planted_field_appears_in_openapi_and_in_the_types() -> None:
    @dataclass(frozen=True, eq=False)
    class Planted(Window):
        planted: tuple[str, ...] = ()
        """Planted here."""

    described = document_type(Planted).named("Window")
    app = FastAPI()
    app.get("/window")(lambda: None)
    describe(app, {"GET /window": Operation({200: described})})
    published = app.openapi()["components"]["schemas"]["Window"]["properties"]
    components: dict[str, Any] = {}
    json_schema(SERVED_WINDOW, components)
    before = components["Window"]["properties"]
    assert set(published) - set(before) == {"planted", "type"}
    assert published["planted"]["description"] == "Planted here."
    assert " * @property {string[]} [planted] Planted here." in jsdoc({"WindowResult": described})
    assert "planted" not in type_file()


def test_the_consoles_types_are_up_to_date() -> None:
    assert TYPE_FILE.read_text(encoding="utf-8") == type_file(), (
        "run: python -m deniable.console.type_file"
    )


@pytest.fixture
def console(tmp_path: Path) -> Any:
    made = SeededConsole(tmp_path)
    yield made
    made.close()


def test_windows_of_every_condition_queries_and_health_are_as_described(
    console: SeededConsole,
) -> None:
    query = console.publish(console_query(console.proxies))
    console.write(query, range(3), [1 / 11] * 11, 400)
    console.write(query, range(3, 4), [1 / 11] * 11, 5)
    texts = [
        text
        for detail in Detail
        for _, text in console.service.windows.of_query(query.id, detail=detail)
    ]
    assert len(texts) == 12
    for text in texts:
        assert problems_of(SERVED_WINDOW, json.loads(text)) == []
    whole = json.loads(texts[0])
    for condition in ("proxy down", "malformed", "incomplete"):
        assert problems_of(SERVED_WINDOW, whole | {"condition": condition}) == []
    assert problems_of(SERVED_WINDOW, whole | {"condition": "lost"})
    assert problems_of(SERVED_WINDOW, whole | {"invented": 1})
    page = {"windows": [whole], "next": None, "last": 4}
    assert problems_of(ResultsPage, page) == []
    estimate = Window.from_dict(whole).estimate
    assert estimate is not None
    assert problems_of(Table, Table.of(estimate, "miles").to_dict()) == []
    [brief] = console.service.queries.listed(query.id)
    assert problems_of(QUERY, {**brief, "overdue": None, "may": ["read"]}) == []
    assert (
        problems_of(AggregatorHealth, json.loads(json.dumps(console.service.health_report()))) == []
    )
    public, _ = PublicQueries(console.service).document()
    assert problems_of(PublicDocument, json.loads(public)) == []


def test_plans_and_drafts_are_as_described() -> None:
    asked = DesignRequest(population=10_000, epsilon=1.0, proportion=0.1, buckets=4)
    assert problems_of(PLAN, json.loads(json.dumps(design_answer(asked)))) == []
    refused = DesignRequest(population=10, epsilon=0.1, proportion=0.01, buckets=4, margin=None)
    assert problems_of(PLAN, json.loads(json.dumps(design_answer(refused)))) == []
    draft = Draft(
        id="a", columns=[DraftColumn(name="x", buckets=["a", "b"])], sql="SELECT x FROM t"
    )
    found = check_draft(draft, ["https://one.example", "https://two.example"], 1_700_000_000)
    assert problems_of(DraftChecks, dict(found)) == []


def test_types_can_be_joined_and_cut() -> None:
    joined = document_type(Inner).joined(document_type(Outer).optional().without("note"))
    assert "note" not in joined.fields
    assert joined.fields["place"].required
    assert not joined.always("kind").fields["made"].required
    assert joined.always("kind").fields["kind"].required
    assert list(joined.only("kind", "place").fields) == ["kind", "place"]
    assert joined.where(place=str).fields["place"].kind is str
    assert dataclasses.replace(joined, name="Other").fields == joined.fields
    assert {"estimate", "parts", "statement"} <= set(HISTORY_ANSWER.fields)
