"""Tests run in as many processes as there are cores: each may use one thread for linear algebra, or they wait for each other."""

import os
import tempfile

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# Devices note elsewhere how new their stores are (`Store.beside`): not among the files of the person who runs the tests.
_STATE = tempfile.TemporaryDirectory(prefix="deniable-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name

pytest_plugins = ["toolkit.brokers", "toolkit.sparks"]
