"""Attacks that run: distinguishing games that bound a privacy loss from below, and fail where the
bound exceeds the claim."""

from deniable.exports import lazy_exports as _lazy_exports

__getattr__, __dir__ = _lazy_exports(__name__)
