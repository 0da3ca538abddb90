"""Memory-mapped arrays on disk: the operating system may evict what is in memory."""

from __future__ import annotations

import mmap
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["on_disk"]


def on_disk(array: NDArray[Any], folder: Path) -> NDArray[Any]:
    """The same values, read-only, in an unnamed file of the folder that vanishes with the process.

    >>> on_disk(np.arange(6).reshape(2, 3), Path(tempfile.gettempdir())).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        np.ascontiguousarray(array).tofile(file)
        file.flush()
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(content, dtype=array.dtype).reshape(array.shape)
