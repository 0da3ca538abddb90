"""From counts of reports to proportions with error bars."""

from importlib.util import find_spec

from deniable.errors import MissingExtraError

if find_spec("scipy") is None:  # devices install without it, and never come here
    raise MissingExtraError("SciPy", "estimation", "estimating")
