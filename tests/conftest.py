"""Tests run in as many processes as there are cores: each may use one thread for linear algebra, or they wait for each other."""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

pytest_plugins = ["toolkit.brokers", "toolkit.sparks"]
