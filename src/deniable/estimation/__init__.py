"""From counts of reports to proportions with error bars."""

from importlib.util import find_spec

from deniable.errors import MissingExtraError

if find_spec("scipy") is None:  # devices are installed without it and never import this package
    raise MissingExtraError("SciPy", "estimation", "estimating")
