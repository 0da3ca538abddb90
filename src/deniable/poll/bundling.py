"""Our own JavaScript modules as one file: a page that loads over a slow network asks once.

It is for modules in this project's style: named imports with relative paths on top, `export` before
a declaration at the start of a line, no cycle, `/**` for comments alone, no text over a line's end.
Anything else is refused. Each module becomes a function that returns its exports, in the order in
which they are needed; nothing else is changed, so that the file can be read.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from deniable.errors import ServiceError

__all__ = ["bundled", "without_comments"]

_COMMENT = re.compile(r"/\*\*.*?\*/ ?", re.DOTALL)
_IMPORT = re.compile(r'^import (?:\{([^}]*)\}|(\w+)) from "([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|class|function) (\w+))", re.MULTILINE)
_DEFAULT = re.compile(r"^export default ", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)\b", re.MULTILINE)


def without_comments(text: str) -> str:
    """A module without JSDoc comments, lines that are a comment, and indentation."""
    lines = (line.strip() for line in _COMMENT.sub("", text).splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//")) + "\n"


def bundled(modules: Mapping[str, str], entry: str) -> str:
    """The module `entry` and all that it imports, of modules by their paths.

    >>> first = 'import { b } from "./b.js";\\nb();\\n'
    >>> modules = {"a.js": first, "b.js": "export const b = 1;\\n"}
    >>> print(bundled(modules, "a.js"), end="")
    const $0 = (() => {
    const b = 1;
    return { b };
    })();
    const { b } = $0;
    b();
    """
    names: dict[str, str] = {}
    out: list[str] = []
    _add(entry, modules, names, out, ())
    return "".join(out)


def _add(
    path: str,
    modules: Mapping[str, str],
    names: dict[str, str],
    out: list[str],
    above: tuple[str, ...],
) -> None:
    if path in above or path not in modules:
        raise ServiceError(f"{path} cannot be bundled: it is missing, or imports itself")
    text = without_comments(modules[path])
    imports = []
    for listed, default, place in _IMPORT.findall(text):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), place))
        if target not in names:
            _add(target, modules, names, out, (*above, path))
        absent = {
            name.split(" as ")[0].strip() for name in listed.split(",") if name.strip()
        } - set(_EXPORT.findall(without_comments(modules[target])))
        if absent:
            what = ", ".join(sorted(absent))
            raise ServiceError(f"{path} cannot be bundled: {target} does not export {what}")
        wanted = f"default: {default}" if default else listed.strip().replace(" as ", ": ")
        imports.append(f"const {{ {wanted} }} = {names[target]};\n")
    exported = _EXPORT.findall(text)
    body = _DEFAULT.sub("const $default = ", _EXPORT.sub("", _IMPORT.sub("", text)))
    if "const $default = " in body:
        exported.append("default: $default")
    if _LEFT.search(body):
        raise ServiceError(f"{path} cannot be bundled: it imports or exports in another way")
    content = "".join(imports) + body
    if above:
        names[path] = f"${len(names)}"
        given = f"return {{ {', '.join(exported)} }};\n"
        content = f"const {names[path]} = (() => {{\n{content}{given}}})();\n"
    out.append(content)
