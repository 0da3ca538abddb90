"""From what an analyst can afford to parameters; from parameters to what can be detected."""

from deniable.planning.design_power import DesignPower, design_power, design_sample_size
from deniable.planning.grid import GridPoint, lavengood_grid
from deniable.planning.plan import Plan, plan, trade_off
from deniable.planning.power import detectable_difference, two_group_sample_size
from deniable.planning.precision import Spread
from deniable.planning.questionnaire import PlannedQuestion, QuestionnairePlan, plan_questionnaire
from deniable.planning.questions import Question

__all__ = [
    "DesignPower",
    "GridPoint",
    "Plan",
    "PlannedQuestion",
    "Question",
    "QuestionnairePlan",
    "Spread",
    "design_power",
    "design_sample_size",
    "detectable_difference",
    "lavengood_grid",
    "plan",
    "plan_questionnaire",
    "trade_off",
    "two_group_sample_size",
]
