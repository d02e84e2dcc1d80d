"""Which chip the kernel is built for."""

from __future__ import annotations

from ..enums import nc_version
from ..session import chip_of_launch


def get_nc_version() -> nc_version:
    """Generation of the target, from NEURON_PLATFORM_TARGET_OVERRIDE."""
    return nc_version(chip_of_launch().generation)


def get_nc_sub_version() -> int:
    """Silicon revision of the target: 0, the first."""
    return 0
