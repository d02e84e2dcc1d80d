"""The only place that imports ``nki``: the real package, or the simulator if that is absent.

Kernels use the names ``nki``, ``nl``, ``nisa`` and ``Tensor`` of this module. ``REAL_NKI`` says
whether the first three are those of the real package. ``nisa`` can count instructions
(counting.py). The package ``nki`` on the public index is a placeholder, in place of which the
simulator is used. With the environment variable NKI_SIM_ALWAYS=1 the simulator is always used. Only
AWS's index has the real package; `nki_sim.base.neuron_packages` says how to install it.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from nki_sim.base.installed_nki import COPIES, real_nki

from .counting import counted_isa
from .simulator_copy import simulator_copy
from .tensor import Tensor as Tensor

_real = real_nki()
REAL_NKI = _real is not None

nki: Any
nl: Any
nisa: ModuleType
if _real is not None:
    nki = _real
    COPIES.append(simulator_copy)
    nl = importlib.import_module("nki.language")
    nisa = counted_isa(importlib.import_module("nki.isa"))
else:
    from nki_sim.import_nki.modules import simulated_nki

    _modules = simulated_nki()
    nki = _modules["nki"]
    nl = _modules["nki.language"]
    nisa = counted_isa(_modules["nki.isa"])
