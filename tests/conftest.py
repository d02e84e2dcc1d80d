"""Settings for every test."""

import os

# The simulator multiplies many small matrices, and tests run in parallel: one thread each.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
