"""Every class of results, and an example of each, with labels that pages must escape."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

import deniable
from deniable import (
    BinaryResponse,
    Crosswise,
    DirectEncoding,
    DirectQuestion,
    Rappor,
    SquareWave,
    agreement_test,
    compare,
    compare_groups,
    fit_test,
    guess,
    independence_test,
    joint,
    regress,
    seeded_source,
    statistics,
)
from deniable.aggregator.windows.window import Window
from deniable.audit.deployed.attempts import Attempt, ServiceAudit
from deniable.audit.mechanisms import audit_mechanism
from deniable.audit.rehearsal.rehearsal import Rehearsal, ScenarioOutcome
from deniable.audit.rehearsal.scoring import Accuracy
from deniable.curator.error_laws import NoError
from deniable.curator.law import DiscreteLaplace
from deniable.curator.protection import Protection
from deniable.curator.results import Choice, Grouped, Histogram, Preview, Release
from deniable.estimation.regression.linear import regress_linear
from deniable.graphs import EdgeResponse, Graph, plan_graph
from deniable.graphs.baselines import CuratorRelease
from deniable.planning import Question, compare_designs, design_power, plan_questionnaire
from deniable.release.guarantee import Guarantee
from deniable.release.histogram import ReleasedHistogram
from deniable.reproduce.models import compare_models
from deniable.reproduce.protocols import compare_protocols
from deniable.survey import Survey
from deniable.survey.synthetic import SyntheticSummary

ROOMS = (
    "estimation",
    "planning",
    "survey",
    "curator",
    "graphs",
    "release",
    "reproduce",
    "audit",
    "sizing",
    "aggregator.windows",
)
NOT_RESULTS = {"Filter", "Protection", "ExactCheck", "Attempt", "PublishedFigure"}
"""Parts of what was asked or of a result, which print themselves but are not results."""
NASTY = '<script>alert("x")</script> & co'


def classes() -> list[type]:
    """Every public class of these rooms that prints itself."""
    found: list[Any] = []
    for room in ROOMS:
        package = importlib.import_module(f"deniable.{room}")
        names = [package.__name__]
        if hasattr(package, "__path__"):
            names += [
                module.name
                for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
            ]
        for name in names:
            for label, kind in vars(importlib.import_module(name)).items():
                own = (
                    inspect.isclass(kind) and kind.__module__ == name and not label.startswith("_")
                )
                if (
                    own
                    and any("__str__" in vars(base) for base in kind.__mro__[:-1])
                    and dataclasses.is_dataclass(kind)
                ):
                    found.append(kind)
    return [kind for kind in found if kind.__name__ not in NOT_RESULTS]


@cache
def examples() -> dict[type, Any]:
    return {type(example): example for example in made_examples()}


def made_examples() -> list[Any]:
    coins = seeded_source(1)
    survey = DirectEncoding([NASTY, "b", "c"], 2.0)
    answers = [NASTY] * 300 + ["b"] * 500 + ["c"] * 200
    reports = survey.privatize(answers, coins)
    estimate = survey.estimate(reports)
    yes_no = BinaryResponse(epsilon=2.0, labels=("no", NASTY))
    smokes = yes_no.privatize(["no", NASTY] * 500, coins)
    table = joint({"answer": survey, NASTY: yes_no}, {"answer": reports, NASTY: smokes})
    rappor = Rappor(16, 2, 4, 0.25, 0.25, 0.75)
    texts = rappor.privatize([NASTY, "other"] * 300, coins)
    design = Crosswise(p=0.25).estimate_counts([520, 480])
    rng = np.random.default_rng(1)
    age = rng.normal(size=1000)
    protection = Protection()
    release = Release(NASTY, 10.0, 1.0, 100, epsilon=1.0, protection=protection, error=NoError())
    histogram = Histogram(
        labels=(NASTY, "b"),
        proportions=np.array([0.6, 0.4]),
        variance=np.array([1e-4, 1e-4]),
        n=1000,
        mechanism="Laplace",
        epsilon=1.0,
        noisy_counts=np.array([600.0, 400.0]),
        law=DiscreteLaplace(1.0),
        total=1000,
    )
    window = Window(
        NASTY, 1, 0, 1_700_000_000, 1_700_000_060, "complete", 1000, 0, estimate, influence=0.01
    )
    graph = Graph.of([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 0)], nodes=5)
    edges = EdgeResponse(2.0)
    graph_reports = edges.privatize(graph, coins)
    graph_estimate = graph_reports.estimate()
    guarantee = Guarantee.of(1.0, 1e-5, sampling=0.5)
    released = ReleasedHistogram(
        labels=(NASTY, "b"),
        proportions=np.array([0.6, 0.4]),
        variance=np.array([1e-4, 1e-4]),
        n=500,
        population=1000,
        mechanism="release",
        epsilon=1.0,
        kept=np.array([300, 200]),
        guarantee=guarantee,
    )
    questions = [Question(NASTY, ("no", "yes")), Question("age", low=18, high=95, integers=True)]
    regression = regress(yes_no, smokes, age, names=[NASTY])
    accuracy = Accuracy(2, 4, 0.75, 0.11, 0.01, 0.02, NASTY, False, False, False)
    played = ScenarioOutcome(
        "honest",
        NASTY,
        100,
        99,
        1,
        0.0,
        0,
        0,
        {"complete": 2},
        0,
        600,
        {NASTY: 1},
        accuracy,
        None,
        (NASTY,),
    )
    return [
        estimate,
        rappor.estimate(texts, candidates=[NASTY, "other", "absent"]),
        table,
        statistics.mean(
            SquareWave(2.0, 8).estimate(SquareWave(2.0, 8).privatize(rng.random(500), coins))
        ),
        design,
        design.test("pi", 0.5),
        deniable.prevalence_posterior(Crosswise(p=0.25), same=520, n=1000),
        agreement_test(design, DirectQuestion().estimate_counts([900, 100])),
        fit_test(yes_no, smokes),
        independence_test(table),
        compare(estimate, survey.estimate(survey.privatize(answers, coins))),
        compare_groups({NASTY: estimate, "b": estimate}, NASTY),
        SyntheticSummary(
            9, 9, 2.0, {NASTY: "b"}, {NASTY: 0.1, "b": 0.2}, {f"{NASTY} by b": 0.1}, 2.0
        ),
        guess(survey),
        regression,
        regression.wald(NASTY),
        regress_linear((yes_no, smokes), age, names=[NASTY]),
        deniable.plan(population=5000, epsilon=1.0),
        design_power(Crosswise(p=0.25), 0.2, 500),
        compare_designs(0.1, 1.5, direct_denial=0.4),
        deniable.ExtendedCrosswise(0.25).fit(same=(330, 180), n=(500, 500)),
        deniable.pool_imputations([0.3, 0.32], [1e-4, 1e-4], name=NASTY),
        plan_questionnaire(questions, population=5000, epsilon=3.0),
        Survey(1000, {NASTY: estimate}, (table,)),
        release,
        histogram,
        Choice("most frequent", NASTY, 1.0, protection, 2.0, 5),
        Grouped("region", {NASTY: release, "south": release}, 1.0),
        Preview(NASTY, 1.0, 2.0, protection, "Laplace", NoError()),
        CuratorRelease(np.array([3, 5]), Fraction(2), 1.0),
        graph_estimate,
        graph_estimate.edges,
        graph_reports.degree_distribution(),
        plan_graph(500, 2.0, mean_degree=10),
        released,
        compare_protocols(
            [0.5, 0.5], 50, [1.0], trials=2, protocols=["DirectEncoding", "OptimizedUnary"]
        ),
        compare_models(
            {"city": [NASTY] * 600 + ["b"] * 400}, "city", labels=[NASTY, "b"], trials=2
        ),
        audit_mechanism(DirectEncoding(2, 1.0), n=40_000, source=seeded_source(1)),
        window,
        ServiceAudit(
            NASTY,
            (
                Attempt(NASTY, "two tokens", "400", "holds"),
                Attempt("headers", "none", "nothing", "not tried"),
            ),
        ),
        Rehearsal(NASTY, 100, 2, 1, (NASTY, "b"), np.array([0.6, 0.4]), 1, (), (played,)),
    ]
