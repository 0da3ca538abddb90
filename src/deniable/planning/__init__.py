"""From what an analyst can afford to parameters; from parameters to what can be detected."""

from deniable.planning.design_power import DesignPower, design_power, design_sample_size
from deniable.planning.grid import GridPoint, lavengood_grid
from deniable.planning.plan import Plan, plan, trade_off
from deniable.planning.power import detectable_difference, two_group_sample_size
from deniable.planning.precision import ProportionVariance
from deniable.planning.questionnaire import plan_questionnaire
from deniable.planning.questionnaire_plan import PlannedQuestion, QuestionnairePlan
from deniable.planning.questions import Question
from deniable.planning.study import (
    DesignComparison,
    compare_designs,
    people_to_invite,
    regression_sample_size,
)

__all__ = [
    "DesignComparison",
    "DesignPower",
    "GridPoint",
    "Plan",
    "PlannedQuestion",
    "ProportionVariance",
    "Question",
    "QuestionnairePlan",
    "compare_designs",
    "design_power",
    "design_sample_size",
    "detectable_difference",
    "lavengood_grid",
    "people_to_invite",
    "plan",
    "plan_questionnaire",
    "regression_sample_size",
    "trade_off",
    "two_group_sample_size",
]
