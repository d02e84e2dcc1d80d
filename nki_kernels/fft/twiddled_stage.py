"""Names of twiddles.py, for kernels that import them from here."""

from .twiddles import Sums, finish_sums, product_tile, twiddle  # noqa: F401
