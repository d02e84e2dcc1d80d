"""Where chips differ: what a kernel asks about the one that it is traced for.

Every answer comes from a field of `nki_sim.hardware.NeuronCore`, so that no kernel names a chip.
"""

from __future__ import annotations

import functools
from typing import Any

from nki_sim import hardware

from .isa import nisa


def core() -> hardware.NeuronCore:
    """Return the NeuronCore that the kernel is traced for."""
    return _core(nisa.get_nc_version())


@functools.lru_cache(16)
def _core(version: Any) -> hardware.NeuronCore:
    return hardware.chip(version.name)


def transposes_mix_rows() -> bool:
    """Return whether the chip transposes by a product with the identity, where 0 NaN is NaN."""
    return not core().native_transpose


def psum_port_is_shared() -> bool:
    """Return whether VectorE and ScalarE take turns in using PSUM."""
    return core().shared_psum_port


def refuses_narrow_operands() -> bool:
    """Return whether some stationary operands of up to 32 columns are refused."""
    return core().narrow_stationaries != hardware.FINE
