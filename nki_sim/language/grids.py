"""Grids of NKI 0.7, which index a tensor by coordinates of tiles, or of blocks of tiles.

Sources: the pages nki/api/generated/nki.language.tiles, blocks, alloc_tiles, alloc_blocks,
NkiTileGrid and NkiBlockGrid of the Neuron SDK 2.33, of which only the beginnings could be read. A
grid moves no data, and only alloc_tiles and alloc_blocks allocate memory. Tiles cut the last
dimensions of a tensor. The dimensions before these are indexed one slab at a time. The last tile of
a dimension ends with the tensor. What the pages say of ``data`` of more than one tile, of slabs, of
remainders and of ``tile_shape=None`` could not be read, so these are refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from nki_sim.base.dtypes import Dtype
from nki_sim.base.enums import ON_CHIP, MemoryRegion
from nki_sim.errors import NkiValidationError
from nki_sim.views.tensor import NkiTensor

from .creation import ndarray

_Grid = TypeVar("_Grid", bound="NkiGrid")
_UNREAD = (
    "the documentation of NKI 0.7 could be read only in part, and the simulator refuses what that "
    "part does not define"
)


@dataclass(frozen=True)
class _Backing:
    """The tensor behind a grid, and how it is cut.

    Attributes:
        tensor: the tensor of the elements; if ``is_packed``, a tensor with all tiles side by side.
        sizes: the number of elements along each dimension.
        tile: the number of elements of a whole tile along each of the last dimensions.
        is_packed: whether the tiles lie side by side in SBUF or PSUM.
    """

    tensor: NkiTensor
    sizes: tuple[int, ...]
    tile: tuple[int, ...]
    is_packed: bool = False

    @property
    def slabs(self) -> int:
        """The number of dimensions before those that tiles cut."""
        return len(self.sizes) - len(self.tile)

    def steps(self, block: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the elements between coordinates: 1 for slabs, then those of blocks of tiles."""
        cut = [size * tiles for size, tiles in zip(self.tile, block, strict=True)]
        return (1,) * self.slabs + tuple(cut)

    def tile_at(self, starts: tuple[int, ...], extents: tuple[int, ...]) -> NkiTensor:
        """Returns the tile that begins at the elements ``starts``."""
        if not self.is_packed:
            key = [slice(a, a + n) for a, n in zip(starts, extents, strict=True)]
            return self.tensor[tuple(key)]
        counts = [-(-size // tile) for size, tile in zip(self.sizes, self.tile, strict=True)]
        number = starts[0] // self.tile[0] * counts[1] + starts[1] // self.tile[1]
        first = number * self.tile[1]
        return self.tensor[0 : extents[0], first : first + extents[1]]


class NkiGrid:
    """The base class of grids, which ``nl.tiles``, ``nl.blocks`` and others return."""

    _block: tuple[int, ...]

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError(
            f"{type(self).__name__}(...) cannot be called: use nl.tiles, nl.blocks, "
            f"nl.alloc_tiles or nl.alloc_blocks"
        )

    @classmethod
    def _of(
        cls: type[_Grid],
        backing: _Backing,
        block: tuple[int, ...],
        region: tuple[tuple[int, int], ...] = (),
    ) -> _Grid:
        """Returns a grid over ``region``, (first, end) along each dimension; by default all."""
        grid = object.__new__(cls)
        grid._backing, grid._block = backing, block
        grid._region = region or tuple([(0, size) for size in backing.sizes])
        grid._open = tuple(range(len(backing.sizes)))
        return grid

    _backing: _Backing
    _region: tuple[tuple[int, int], ...]
    _open: tuple[int, ...]  # dimensions that have no coordinate yet

    @property
    def buffer(self) -> MemoryRegion:
        """The memory of the elements."""
        return self._backing.tensor.buffer

    @property
    def dtype(self) -> str:
        """The dtype of the elements."""
        return self._backing.tensor.dtype

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """The elements of a whole tile along each dimension that tiles cut."""
        return self._backing.tile

    @property
    def element_shape(self) -> tuple[int, ...]:
        """The elements of the selection along each dimension of the tensor."""
        return tuple([end - first for first, end in self._region])

    @property
    def index_step_elements(self) -> tuple[int, ...]:
        """The elements from one coordinate of the whole grid to the next."""
        self._needs_whole("index_step_elements")
        return self._backing.steps(self._block)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of slabs, then of tiles or blocks, along each dimension of the whole grid."""
        self._needs_whole("shape")
        return self._counts()

    def _needs_whole(self, name: str) -> None:
        if len(self._open) < len(self._region):
            self._refuse(name, "that of a selection")

    def _counts(self) -> tuple[int, ...]:
        steps = self._backing.steps(self._block)
        found = zip(self.element_shape, steps, strict=True)
        return tuple([-(-size // step) for size, step in found])

    @property
    def is_remainder(self) -> bool:
        """Raises NkiValidationError, as its meaning could not be read."""
        self._refuse("is_remainder", "an attribute whose meaning could not be read")

    def _refuse(self, operand: str, value: str) -> NoReturn:
        name = type(self).__name__
        raise NkiValidationError(f"nl.{name}", operand, value, _UNREAD)

    def __getitem__(self, key: object) -> Any:
        """Returns the part at coordinates, which are ints, or ``:`` for a whole dimension."""
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) > len(self._open):
            rule = f"must have at most {len(self._open)} coordinates"
            raise NkiValidationError(f"nl.{type(self).__name__}", "the index", key, rule)
        steps, counts, region = self._backing.steps(self._block), self._counts(), [*self._region]
        left = [*self._open]
        for dim, item in zip(self._open, keys, strict=False):
            if isinstance(item, slice) and item == slice(None):
                continue
            if type(item) is not int or item < 0:
                self._refuse("a coordinate", f"{item!r}, not an int of at least 0 or `:`")
            if item >= counts[dim]:
                rule = f"must be from 0 to {counts[dim] - 1}"
                label = f"nl.{type(self).__name__}"
                raise NkiValidationError(label, f"the coordinate of dimension {dim}", item, rule)
            first, end = region[dim]
            region[dim] = first + item * steps[dim], min(first + (item + 1) * steps[dim], end)
            left.remove(dim)
        part = type(self)._of(self._backing, self._block, tuple(region))
        part._open = tuple(left)
        return part

    __iter__ = None  # a grid is indexed by coordinates only

    @property
    def is_data_representable(self) -> bool:
        """Whether ``data`` is one tensor, which is True for one tile and refused for others."""
        self._single_tile("is_data_representable")
        return True

    @property
    def data(self) -> NkiTensor:
        """The selected tile as a tensor, which ends where the source ends."""
        starts = self._single_tile("data")
        return self._backing.tile_at(starts, self.element_shape)

    def _single_tile(self, name: str) -> tuple[int, ...]:
        """Returns where the selection begins; raises NkiValidationError unless it is one tile."""
        backing = self._backing
        if backing.slabs:
            self._refuse(name, "that of a slab, which has more dimensions than its tile")
        whole = zip(self.element_shape, backing.tile, strict=True)
        if any(size > tile for size, tile in whole):
            self._refuse(name, "that of more than one tile, unlike grid[i, j].data")
        return tuple([first for first, _ in self._region])

    def __repr__(self) -> str:
        whole = "x".join(map(str, self._backing.sizes))
        return f"{type(self).__name__}(elements {self.element_shape} of {whole} {self.dtype})"


class NkiTileGrid(NkiGrid):
    """A grid of tiles, indexed by their coordinates: ``grid[i, j]``."""


class NkiBlockGrid(NkiGrid):
    """A grid of blocks of tiles. ``nl.tiles(grid[i, j])`` returns the tiles of a block."""

    @property
    def block_shape(self) -> tuple[int, ...]:
        """The tiles of a whole block along each dimension that tiles cut."""
        return self._block


def tiles(
    source: NkiTensor | NkiBlockGrid, *, tile_shape: tuple[int, ...] | None = None
) -> NkiTileGrid:
    """Returns a grid of the tiles of a tensor, or of a block.

    Raises NkiValidationError if the tile shape does not fit, or if the use is not documented.
    """
    if isinstance(source, NkiBlockGrid) and tile_shape is None:
        block = (1,) * len(source.tile_shape)
        return NkiTileGrid._of(source._backing, block, source._region)
    backing = _cut("tiles", source, tile_shape)
    return NkiTileGrid._of(backing, (1,) * len(backing.tile))


def blocks(
    source: NkiTensor, *, tile_shape: tuple[int, ...] | None = None, block_shape: tuple[int, ...]
) -> NkiBlockGrid:
    """Returns a grid of the blocks of a tensor, each of which has ``block_shape`` tiles."""
    backing = _cut("blocks", source, tile_shape)
    block = _sizes("blocks", "block_shape", block_shape)
    _same_rank("blocks", block, backing.tile)
    return NkiBlockGrid._of(backing, block)


def alloc_tiles(
    *,
    tile_shape: tuple[int, ...],
    element_shape: tuple[int, ...],
    buffer: MemoryRegion,
    dtype: Dtype,
    address: tuple[int, int] | None = None,
    name: str = "",
) -> NkiTileGrid:
    """Allocates a tensor of ``element_shape``, and returns a grid of its tiles.

    In SBUF and PSUM the tiles lie side by side.

    Raises:
        TypeError: a shape is not a tuple of ints, or ``buffer`` is not a memory.
        ValueError: a size is below 1, or the tile shape has fewer than two dimensions or more than
            ``element_shape``.
    """
    backing = _allocated("alloc_tiles", tile_shape, element_shape, buffer, dtype, address, name)
    return NkiTileGrid._of(backing, (1,) * len(backing.tile))


def alloc_blocks(
    *,
    tile_shape: tuple[int, ...],
    block_shape: tuple[int, ...],
    element_shape: tuple[int, ...],
    buffer: MemoryRegion,
    dtype: Dtype,
    address: tuple[int, int] | None = None,
    name: str = "",
) -> NkiBlockGrid:
    """Allocates a tensor like ``alloc_tiles``, and returns a grid of its blocks of tiles."""
    block = _sizes("alloc_blocks", "block_shape", block_shape)
    backing = _allocated("alloc_blocks", tile_shape, element_shape, buffer, dtype, address, name)
    _same_rank("alloc_blocks", block, backing.tile)
    return NkiBlockGrid._of(backing, block)


def _cut(function: str, source: object, tile_shape: object) -> _Backing:
    label = f"nl.{function}"
    if isinstance(source, NkiGrid):
        raise NkiValidationError(label, "source", f"{source!r}, which is already cut", _UNREAD)
    if not isinstance(source, NkiTensor):
        rule = "must be a tensor (NkiTensor) or a grid"
        raise NkiValidationError(label, "source", repr(source), rule)
    if tile_shape is None:
        raise NkiValidationError(label, "tile_shape", "None for a tensor", _UNREAD)
    tile = _sizes(function, "tile_shape", tile_shape)
    if len(tile) > source.ndim:
        rule = f"must have at most the {source.ndim} dimensions of the tensor"
        raise NkiValidationError(label, "tile_shape", tile, rule)
    if source._free and len(tile) < source.ndim:
        value = f"{tile} for a tensor of shape {source.shape} in {source.buffer.value}"
        raise NkiValidationError(label, "tile_shape", value, _UNREAD)
    return _Backing(source, source.shape, tile)


def _allocated(
    function: str,
    tile_shape: tuple[int, ...],
    element_shape: tuple[int, ...],
    buffer: MemoryRegion,
    dtype: Dtype,
    address: tuple[int, int] | None,
    name: str,
) -> _Backing:
    tile = _sizes(function, "tile_shape", tile_shape)
    sizes = _sizes(function, "element_shape", element_shape)
    if not isinstance(buffer, MemoryRegion):
        raise TypeError(
            f"argument 'buffer' of nl.{function} is {buffer!r}, allowed are memories such as "
            f"nl.sbuf"
        )
    if not 2 <= len(tile) <= len(sizes):
        raise ValueError(
            f"argument 'tile_shape' of nl.{function} is {tile}, allowed are at least 2 dimensions, "
            f"and at most the {len(sizes)} of element_shape"
        )
    if buffer not in ON_CHIP:
        return _Backing(ndarray(sizes, dtype, buffer, name, address), sizes, tile)
    if len(sizes) != 2:
        value = f"{sizes} in {buffer.value}, with other than two dimensions"
        raise NkiValidationError(f"nl.{function}", "element_shape", value, _UNREAD)
    count = math.prod([-(-size // each) for size, each in zip(sizes, tile, strict=True)])
    tensor = ndarray((min(tile[0], sizes[0]), count * tile[1]), dtype, buffer, name, address)
    return _Backing(tensor, sizes, tile, is_packed=True)


def _sizes(function: str, argument: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, tuple) or any(type(n) is not int for n in value):
        raise TypeError(
            f"argument {argument!r} of nl.{function} is {value!r}, allowed is a tuple of ints"
        )
    if not value or min(value) < 1:
        raise ValueError(
            f"argument {argument!r} of nl.{function} is {value}, allowed are sizes of at least 1"
        )
    return value


def _same_rank(function: str, block: tuple[int, ...], tile: tuple[int, ...]) -> None:
    if len(block) != len(tile):
        raise ValueError(
            f"argument 'block_shape' of nl.{function} is {block}, allowed is one size for each of "
            f"the {len(tile)} dimensions of tile_shape {tile}"
        )
