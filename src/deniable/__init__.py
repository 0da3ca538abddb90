"""Ask a crowd a question and learn the crowd's answer, never a person's.

The public names are loaded when they are first used: a proxy that imports a module of this package
must not load mechanisms, and a device must not load SciPy (docs/architecture.md). They are listed
in ``__init__.pyi``.
"""

from deniable.exports import lazy_exports as _lazy_exports

__version__ = "0.1.0"

__getattr__, __dir__ = _lazy_exports(__name__)
