"""Functions that tell a kernel for which chip it is built."""

from __future__ import annotations

import functools

from nki_sim.base.enums import nc_version
from nki_sim.base.running import chip_of_launch


def get_nc_version() -> nc_version:
    """Returns the generation of the chip on which the kernel runs."""
    return _version(chip_of_launch().generation)


_version = functools.cache(nc_version)


def get_nc_sub_version() -> int:
    """Returns the silicon revision of the chip, which is always 0, the first."""
    return 0
