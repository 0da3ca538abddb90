"""The lazy public names of a package, taken from the stub beside its ``__init__.py``.

A name is written once, in ``__init__.pyi``, where type checkers look for it too. It is imported
when it is first used, and the stub is read when the first name is: importing a package costs
nothing.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from deniable.renames import current_export

__all__ = ["lazy_exports"]


def lazy_exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, from the imports in its stub; they know `__all__`
    too.

    >>> load, names = lazy_exports("deniable")
    >>> load("Schedule").__module__
    'deniable.queries.schedule'
    >>> "Schedule" in names(), "importlib" in names()
    (True, False)
    """

    def load(name: str) -> Any:
        if name == "__all__":
            return sorted(_homes(package))
        home = None if name.startswith("__") else _homes(package).get(name)
        if home is None:
            return load(current_export(package, name))
        value = _defined(home, name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        special = [name for name in vars(sys.modules[package]) if name.startswith("__")]
        return sorted({"__all__", *_homes(package), *special})

    return load, names


def _defined(home: str, name: str) -> Any:
    module = importlib.import_module(home)
    # What a package does not define is one of its modules.
    return vars(module)[name] if name in vars(module) else importlib.import_module(f"{home}.{name}")


@cache
def _homes(package: str) -> dict[str, str]:
    """For each name that the stub exports, the module to import it from."""
    import ast  # noqa: PLC0415 - not needed unless a name is used
    import pkgutil  # noqa: PLC0415

    imports = [
        node
        for node in ast.parse(pkgutil.get_data(package, "__init__.pyi") or b"").body
        if isinstance(node, ast.ImportFrom)
    ]
    return {
        alias.asname: str(node.module) for node in imports for alias in node.names if alias.asname
    }
