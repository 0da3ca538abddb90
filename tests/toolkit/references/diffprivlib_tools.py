"""IBM's diffprivlib, to compare a curator's errors with.

Its package imports its machine-learning models, and these do not load beside scikit-learn 1.9
(diffprivlib 0.6.6). Only its statistics are compared, so an empty module stands in for the models.
"""

from __future__ import annotations

import sys
import types
from typing import Any

__all__ = ["tools"]

if "diffprivlib" not in sys.modules:
    sys.modules["diffprivlib.models"] = types.ModuleType("diffprivlib.models")

from diffprivlib import tools as _tools

tools: Any = _tools
