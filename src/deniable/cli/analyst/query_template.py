"""The template that `deniable query new` writes, and the query file of a plan."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from deniable.cli.output import say, write_new
from deniable.errors import QueryError
from deniable.queries.files import parse_query

__all__ = ["SELF_TEST", "TEMPLATE", "write_planned"]


TEMPLATE = """\
# A query for deniable. `deniable query check {file}` says in plain words what it asks.

id = "{id}"                 # 1 to 64 of a-z, 0-9, '.', '_' and '-'
serial = 1                  # the version: increase it with every change, and sign again
analyst = "{analyst}"       # who asks; the signing key must be theirs
question = "How long are your trips?"
sql = "SELECT distance FROM trips"
proxies = ["https://proxy-one.example", "https://proxy-two.example"]   # at least two, run by different people

sampling = 0.6              # the probability that a device answers at all
minimum_cohort = 100        # results with fewer answers are not released
rows = "random"             # of several rows: "random" draws one; "aggregate" allows one; "several" sends up to most_rows
# most_rows = 3             # only with rows = "several"; each row costs its own epsilon
# memoize = true            # draw a permanent answer once for each true answer, and answer from it
# instantaneous = false     # with memoize: send it as it is; by default every report randomizes its bits once more
# distinct = 3              # for up to this many different true answers; all are paid for with the first answer
# cover = true              # devices that do not answer send a message of the same length that says so
# size_class = 1            # shares longer than needed, to look like those of other queries
# channel = "trips"         # what proxies see instead of this query: your queries with one channel look alike
# population = 10000        # how many devices there are, if known

[schedule]
origin = {origin}    # when epoch 0 starts
expires = {expires}
every = "10 min"            # how often a device answers
window = "1 h"              # how much a result covers
slide = "10 min"            # how often a result is released

[mechanism]
name = "TwoCoin"            # or a mechanism of the library: "OptimizedUnary", "DirectEncoding", … with its parameters
p = 0.5                     # the probability of telling the truth
q = 0.5                     # otherwise, the probability of saying yes

[budget]
epsilon = 20.0              # the most one person may lose over the query's whole life
# margin = 0.02             # the half-width of the 95 % interval you want for each proportion

[[columns]]                 # one for each column of the SQL's result, in order
name = "distance"
buckets = ["[0,1)", "[1,2)", "[2,5)", "[5,10)", "[10,inf)"]   # for texts: "yes", {{ glob = "New *" }}, {{ regex = "[a-c]+" }}
other = false               # true: adds a last bucket for everything else

# [[strata]]                # parts of the population that are sampled and counted separately
# name = "north"
# sampling = 0.8
# population = 4000
"""
SELF_TEST = {
    "How long are your trips?": (
        "A test of the software that answers: every device has the same answer, 5.5."
    ),
    "SELECT distance FROM trips": "SELECT 5.5",
    'name = "distance"': 'name = "constant"',
    '["[0,1)", "[1,2)", "[2,5)", "[5,10)", "[10,inf)"]': (
        str([f"[{i},{i + 1})" for i in range(13)]).replace("'", '"')
    ),
    "sampling = 0.6 ": "sampling = 1.0 ",
}
"""Replacements that turn the template into a query whose true answer is known. A client that packs
bits from the wrong end fills another bucket."""


def write_planned(file: Path, made: Any) -> None:
    """Write the template to a new file, with the parameters and the budgets of a plan."""
    if made.p is None or made.q is None:
        raise QueryError(
            f"{type(made.mechanism).__name__} is not described by p and q: plan with --mechanism"
            " OptimizedUnary"
        )
    request, day = made.request, 86400
    origin = int(time.time()) // day * day
    every = f'"{round(request.every)} s"' if request.every > 1 else '"1 d"'
    seconds = round(request.every) if request.every > 1 else day
    last = origin + max(request.epochs, 1) * seconds
    times = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)) for moment in (origin, last)]
    text = TEMPLATE.format(
        file=file.name,
        id="planned",
        analyst="City of Exampleton",
        origin=times[0],
        expires=times[1],
    )
    budget = [
        f"epsilon = {made.lifetime_local!r}          # what the plan spends over all epochs",
        f"margin = {made.margin!r}",
    ]
    changes = {
        r"^sampling = .*$": f"sampling = {made.sampling!r}",
        r"^# population = .*$": f"population = {made.population}",
        r"^p = .*$": f"p = {made.p!r}",
        r"^q = .*$": f"q = {made.q!r}",
        r"^epsilon = .*$": budget[0],
        r"^# margin = .*$": budget[1],
        r"^every = .*$": f"every = {every}",
        r"^window = .*$": f"window = {every}",
        r"^slide = .*$": f"slide = {every}",
        r"^minimum_cohort = .*$": f"minimum_cohort = {max(1, min(100, int(made.reports / 2)))}",
    }
    for pattern, line in changes.items():
        text = re.sub(pattern, line, text, count=1, flags=re.MULTILINE)
    parse_query(text, file.name)
    write_new(file, text, QueryError)
    say(f"Wrote {file}: edit its SQL and buckets, then run  deniable query check {file}", err=True)
