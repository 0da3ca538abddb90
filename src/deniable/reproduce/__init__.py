"""Experiments that compare whole models or papers, using the code of the other packages."""

from deniable.exports import lazy_exports as _lazy_exports

__getattr__, __dir__ = _lazy_exports(__name__)
