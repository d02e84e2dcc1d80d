"""The one place that imports ``nki``: the real package, or the simulator where it is absent.

``nki``, ``nl`` and ``nisa`` are what kernels use; ``REAL_NKI`` tells which they are. The name
``nki`` on the public index is a placeholder: it is recognised, and the simulator is used. With the
environment variable TRNFFT_SIMULATOR=1 it is used in any case. The real wheel is served by AWS's
index only: `neuron_packages` says how to install it.
"""

from __future__ import annotations

import importlib
from typing import Any

from .neuron_packages import how_to_install
from .simulator.install import real_nki, simulated_nki

_real = real_nki()
REAL_NKI = _real is not None

nki: Any
nl: Any
nisa: Any
if _real is not None:
    nki = _real
    nl = importlib.import_module("nki.language")
    nisa = importlib.import_module("nki.isa")
else:
    _modules = simulated_nki()
    nki = _modules["nki"]
    nl = _modules["nki.language"]
    nisa = _modules["nki.isa"]


def require_real_nki() -> None:
    """Raise ImportError, with where to get it, unless the real ``nki`` is installed."""
    if not REAL_NKI:
        raise ImportError(
            "the real nki package is not installed (the one on the public index is an empty "
            f"placeholder): {how_to_install('nki', 'neuronx-cc')}"
        )
