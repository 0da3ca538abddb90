"""One question of a poll: its kind, its text and its options in each language."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deniable.checks import whole
from deniable.errors import ParameterError
from deniable.queries.columns.column import Column
from deniable.queries.texts import check_text, first_repeated

__all__ = ["KINDS", "Options", "PollQuestion", "Texts", "read_question", "read_texts"]

KINDS = ("yesno", "one", "several", "scale", "number", "list")
Texts = Mapping[str, str]
"""A text by language."""
Options = Mapping[str, tuple[str, ...]]
"""What a person may choose, by language, in the same order in each."""
_YES_NO = {
    "ar": ("نعم", "لا"),
    "de": ("Ja", "Nein"),
    "en": ("Yes", "No"),
    "es": ("Sí", "No"),
    "fr": ("Oui", "Non"),
    "it": ("Sì", "No"),
    "nl": ("Ja", "Nee"),
    "pt": ("Sim", "Não"),
}
_RATHER_NOT = {
    "ar": "أفضّل ألّا أجيب",
    "de": "Keine Angabe",
    "en": "Rather not say",
    "es": "Prefiero no responder",
    "fr": "Je préfère ne pas répondre",
    "it": "Preferisco non rispondere",
    "nl": "Zeg ik liever niet",
    "pt": "Prefiro não responder",
}
_TO = {"en": "{} to {}", "de": "{} bis {}", "fr": "{} à {}", "es": "{} a {}", "ar": "{} – {}"}
_LONGEST = 500
_NAME = re.compile(r"[a-z][a-z0-9]{0,19}", re.ASCII)
_MOST_OPTIONS = 50
_LONGEST_LIST = 1000
_KEYS = (
    "id", "kind", "text", "statement", "options", "optional", "most", "low", "high", "step", "unit",
)  # fmt: skip


@dataclass(frozen=True)
class PollQuestion:
    """A question, and what a person may answer."""

    id: str
    kind: str
    text: Texts
    options: Options
    most: int = 1
    """Of `several`, how many may be chosen."""
    low: int = 0
    """Of a `number`: the smallest, the largest, and how many numbers count as one answer."""
    high: int = 0
    step: int = 1
    unit: Texts | None = None
    optional: bool = False
    """Whether the last option says that a person rather does not answer. It is an answer like any
    other, so that skipping does not show."""
    statement: Texts | None = None
    """Of `yesno`: what is true of people whose answer is the first option. With it, a person may
    compare two statements instead of tossing coins."""

    @property
    def n_options(self) -> int:
        """How many answers there are."""
        return len(next(iter(self.options.values())))

    def column(self) -> Column:
        """The column of its query. Where one is chosen, the last option is the bucket `other`, so
        that every answer is in a bucket."""
        first = next(iter(self.options.values()))
        single = self.kind != "several"
        return Column(
            self.id,
            first[: len(first) - single],
            other=single,
            kind="text",
            question=self.text,
            labels={language: list(each) for language, each in self.options.items()},
        )

    def page_document(self) -> dict[str, Any]:
        """What the page needs to ask it, beside the signed texts."""
        document: dict[str, Any] = {"kind": self.kind}
        if self.optional:
            document["optional"] = True
        if self.statement is not None:
            document["statement"] = dict(self.statement)
        if self.kind == "several":
            document["most"] = self.most
        if self.kind == "number":
            document |= {"low": self.low, "high": self.high, "step": self.step}
            if self.unit is not None:
                document["unit"] = dict(self.unit)
        return document


def read_texts(name: str, given: Any, language: str) -> Texts:
    """A text in one or several languages: a text is in the poll's own language."""
    texts = {language: given} if isinstance(given, str) else given
    if not isinstance(texts, Mapping) or not texts:
        rule = "must be a text, or a table of texts by language such as { en = '…', de = '…' }"
        raise ParameterError(name, given, rule)
    for tag, text in texts.items():
        check_text(f"{name}.{tag}", text, _LONGEST, "what a person reads", lines=True)
    return dict(texts)


def read_question(place: str, tree: Mapping[str, Any], language: str) -> PollQuestion:
    """The question in a table; `place` is what errors call the table."""
    for key in tree:
        if key not in _KEYS:
            rule = f"is not a key of a question; there are {', '.join(_KEYS)}"
            raise ParameterError(f"{place}.{key}", tree[key], rule)
    kind = tree.get("kind", "one" if "options" in tree else "yesno")
    if kind not in KINDS:
        raise ParameterError(f"{place}.kind", kind, f"must be one of {', '.join(map(repr, KINDS))}")
    allowed = {
        "yesno": ("options", "optional", "statement"),
        "several": ("options", "most"),
        "number": ("low", "high", "step", "unit", "optional"),
    }.get(kind, ("options", "optional"))
    for key in _KEYS[3:]:
        if key in tree and key not in allowed:
            raise ParameterError(
                f"{place}.{key}", tree[key], f"does not belong to a question of kind {kind!r}"
            )
    text = read_texts(f"{place}.text", tree.get("text"), language)
    name = tree.get("id", "answer")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        rule = "must be 1 to 20 of a-z and 0-9, starting with a letter"
        raise ParameterError(f"{place}.id", name, rule)
    if kind == "number":
        return _with_skip(place, tree, _number(place, name, tree, text, language))
    options = _options(f"{place}.options", kind, tree.get("options"), text, language)
    n = len(next(iter(options.values())))
    most = whole(f"{place}.most", tree.get("most", 1), 1, n) if kind == "several" else 1
    statement = None
    if "statement" in tree:
        statement = read_texts(f"{place}.statement", tree["statement"], language)
        if set(statement) != set(text):
            rule = "must have the question's languages"
            raise ParameterError(f"{place}.statement", sorted(statement), rule)
    found = PollQuestion(name, kind, text, options, most, statement=statement)
    return _with_skip(place, tree, found)


def _with_skip(place: str, tree: Mapping[str, Any], question: PollQuestion) -> PollQuestion:
    """The question, with an option more if it is optional."""
    optional = tree.get("optional", False)
    if not isinstance(optional, bool):
        raise ParameterError(f"{place}.optional", optional, "must be true or false")
    if not optional:
        return question
    if question.statement is not None:
        rule = "does not go with a statement, which is true or false"
        raise ParameterError(f"{place}.optional", optional, rule)
    options = {}
    for tag, each in question.options.items():
        words = _RATHER_NOT.get(tag.partition("-")[0])
        if words is None or words in each:
            rule = f"is not known in {tag!r}: write it as the last of options instead"
            raise ParameterError(f"{place}.optional", optional, rule)
        options[tag] = (*each, words)
    return replace(question, options=options, optional=True)


def _options(name: str, kind: str, given: Any, text: Texts, language: str) -> Options:
    if given is None and kind == "yesno":
        missing = next((tag for tag in text if tag.partition("-")[0] not in _YES_NO), None)
        if missing is None:
            return {tag: _YES_NO[tag.partition("-")[0]] for tag in text}
    listed = {language: given} if isinstance(given, Sequence) else given
    if not isinstance(listed, Mapping) or set(listed) != set(text):
        rule = (
            "must be a list of texts, or a table of lists in the languages of the question,"
            f" {', '.join(sorted(text))}"
        )
        raise ParameterError(name, given, rule)
    first = listed[next(iter(text))]
    least, most = 2, {"yesno": 2, "list": _LONGEST_LIST}.get(kind, _MOST_OPTIONS)
    for tag, each in listed.items():
        if not isinstance(each, list | tuple) or not least <= len(each) <= most:
            rule = f"must be a list of {least if least == most else f'{least} to {most}'} texts"
            raise ParameterError(f"{name}.{tag}", each, rule)
        if len(each) != len(first):
            rule = f"must have {len(first)} texts, as in the first language"
            raise ParameterError(f"{name}.{tag}", len(each), rule)
        for i, option in enumerate(each):
            check_text(f"{name}.{tag}[{i}]", option, 200, "an answer")
        twice = first_repeated(each)
        if twice is not None:
            raise ParameterError(f"{name}.{tag}[{twice}]", each[twice], "is repeated")
    return {tag: tuple(listed[tag]) for tag in text}


def _number(
    place: str, name: str, tree: Mapping[str, Any], text: Texts, language: str
) -> PollQuestion:
    low = whole(f"{place}.low", tree.get("low", 0), -(1 << 31), 1 << 31)
    high = whole(f"{place}.high", tree.get("high"), low + 1, 1 << 31)
    step = whole(f"{place}.step", tree.get("step", 1), 1, high - low)
    n = -(-(high - low + 1) // step)
    if n > _MOST_OPTIONS:
        rule = f"makes {n} ranges; there may be {_MOST_OPTIONS}"
        raise ParameterError(f"{place}.step", step, rule)
    unit = None if "unit" not in tree else read_texts(f"{place}.unit", tree["unit"], language)
    if unit is not None and set(unit) != set(text):
        raise ParameterError(f"{place}.unit", sorted(unit), "must have the question's languages")
    ranges = [(low + i * step, min(high, low + (i + 1) * step - 1)) for i in range(n)]

    def labels(tag: str) -> tuple[str, ...]:
        between = _TO.get(tag.partition("-")[0], "{} – {}")
        return tuple(str(a) if a == b else between.format(a, b) for a, b in ranges)

    return PollQuestion(
        name, "number", text, {tag: labels(tag) for tag in text}, 1, low, high, step, unit
    )
