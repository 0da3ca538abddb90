"""The resources a system needs: from people and epochs to processes, bytes and money, and its
behaviour over time."""

from deniable.exports import lazy_exports as _lazy_exports

__getattr__, __dir__ = _lazy_exports(__name__)
