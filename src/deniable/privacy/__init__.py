"""Epsilon arithmetic for one answer, several, a sample and a shuffled crowd; and the rules of the
ledger that adds it up."""

from deniable.privacy.blanket import blanket_delta, blanket_epsilon
from deniable.privacy.choosing import belief_epsilon, payment_epsilon
from deniable.privacy.composition import (
    advanced_composition,
    budget_per_answer,
    memoized_epsilon,
    optimal_composition,
    rappor_lifetime_epsilon,
    rappor_report_epsilon,
    repeated_epsilon,
    sequential_composition,
)
from deniable.privacy.crowd import crowd_delta, crowd_epsilon, exact_crowd_delta
from deniable.privacy.ledger import Accountant, Limit, PrivacyEvent
from deniable.privacy.release_accountant import Releases, StatedLoss
from deniable.privacy.response import (
    answer_epsilon,
    bit_epsilon,
    largest_sampling,
    local_epsilon,
    one_pair_channel,
    one_pair_delta,
    participation,
    quoc_one_sided_epsilon,
    sampled_epsilon,
    zero_knowledge_epsilon,
)
from deniable.privacy.shuffling import (
    shuffled_delta,
    shuffled_epsilon,
    shuffled_epsilon_closed_form,
)

__all__ = [
    "Accountant",
    "Limit",
    "PrivacyEvent",
    "Releases",
    "StatedLoss",
    "advanced_composition",
    "answer_epsilon",
    "belief_epsilon",
    "bit_epsilon",
    "blanket_delta",
    "blanket_epsilon",
    "budget_per_answer",
    "crowd_delta",
    "crowd_epsilon",
    "exact_crowd_delta",
    "largest_sampling",
    "local_epsilon",
    "memoized_epsilon",
    "one_pair_channel",
    "one_pair_delta",
    "optimal_composition",
    "participation",
    "payment_epsilon",
    "quoc_one_sided_epsilon",
    "rappor_lifetime_epsilon",
    "rappor_report_epsilon",
    "repeated_epsilon",
    "sampled_epsilon",
    "sequential_composition",
    "shuffled_delta",
    "shuffled_epsilon",
    "shuffled_epsilon_closed_form",
    "zero_knowledge_epsilon",
]
