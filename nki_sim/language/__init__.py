"""The module nki.language: tensors, loops and wrappers, as documented for NKI 0.6 and 0.7."""

from __future__ import annotations

from typing import Any

from nki_sim.base.enums import ON_CHIP, MemoryRegion
from nki_sim.base.operators import OPERATORS
from nki_sim.base.removed_api import no_attribute as _no_attribute
from nki_sim.views.nki_object import NKIObject
from nki_sim.views.register import RunTimeValue as _RunTimeValue
from nki_sim.views.tensor import DynamicSlice, NkiTensor

from . import grids as _grids

# Each of these has in `__all__` the functions that it defines.
from .creation import *  # noqa: F403
from .loops import *  # noqa: F403
from .math import *  # noqa: F403
from .tile_size import TileSize

DType = str

bool_ = "bool"
int8 = "int8"
int16 = "int16"
int32 = "int32"
uint8 = "uint8"
uint16 = "uint16"
uint32 = "uint32"
float16 = "float16"
float32 = "float32"
bfloat16 = "bfloat16"
tfloat32 = "tfloat32"
float8_e4m3 = "float8_e4m3"
float8_e4m3fn = "float8_e4m3fn"
float8_e5m2 = "float8_e5m2"
float8_e5m2_x4 = "float8_e5m2_x4"
float8_e4m3fn_x4 = "float8_e4m3fn_x4"
float8_e8m0fnu = "float8_e8m0fnu"
float4_e2m1fn_x4 = "float4_e2m1fn_x4"

sbuf = MemoryRegion.sbuf
psum = MemoryRegion.psum
private_hbm = MemoryRegion.private_hbm
hbm = private_hbm
shared_hbm = MemoryRegion.shared_hbm

tile_size = TileSize()
average = OPERATORS["average"]
prelu = OPERATORS["prelu"]
bypass = OPERATORS["bypass"]


def ds(start: int | _RunTimeValue | NkiTensor, size: int) -> DynamicSlice:
    """Returns an index for ``size`` elements from ``start``, an int or a register."""
    return DynamicSlice(start, size)


def is_hbm(buffer: MemoryRegion) -> bool:
    """Returns whether a memory is private or shared HBM."""
    return buffer not in ON_CHIP


def is_on_chip(buffer: MemoryRegion) -> bool:
    """Returns whether a memory is SBUF or PSUM."""
    return buffer in ON_CHIP


def is_psum(buffer: MemoryRegion) -> bool:
    """Returns whether a memory is PSUM."""
    return buffer is psum


def is_sbuf(buffer: MemoryRegion) -> bool:
    """Returns whether a memory is SBUF."""
    return buffer is sbuf


# Names that exist since NKI 0.7 only.
_classes = ("NkiBlockGrid", "NkiGrid", "NkiTileGrid")
_functions = ("alloc_blocks", "alloc_tiles", "blocks", "tiles")
_new = {name: getattr(_grids, name) for name in _classes + _functions} | {"int64": "int64"}
__getattr__ = _no_attribute(__name__, "nki.language", _new)


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
