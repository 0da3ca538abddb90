"""Open a page in the browser of the person who runs a command, if there is one."""

from __future__ import annotations

import contextlib
import os
import sys
import webbrowser

from deniable.cli.output import say

__all__ = ["has_screen", "open_page"]


def open_page(address: str, no_browser: bool, what: str) -> None:
    """Print a page's address, and open it unless `no_browser` is set or there is no screen."""
    say(f"{what} at {address}")
    if no_browser or not has_screen():
        return
    with contextlib.suppress(OSError, webbrowser.Error):  # the address is printed
        webbrowser.open(address)


def has_screen() -> bool:
    """Whether a browser could be shown here."""
    if os.name == "nt" or sys.platform == "darwin":
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
