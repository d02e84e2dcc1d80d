"""Grids of NKI 0.7: a tensor by the coordinates of its tiles, or of blocks of tiles.

nki/api/generated/nki.language.tiles, blocks, alloc_tiles, alloc_blocks, NkiTileGrid and
NkiBlockGrid of the Neuron SDK 2.33, of which the beginnings could be read. A grid moves nothing and
allocates nothing, but for alloc_tiles and alloc_blocks. Its tiles cut the last dimensions of a
tensor; those before are indexed one slab at a time. The last tile of a dimension ends with the
tensor. What these pages say of ``data`` of more than one tile, of slabs, of remainders and of
``tile_shape=None`` was not read: these are refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from ..enums import ON_CHIP, MemoryRegion
from ..errors import NkiValidationError
from ..tensor import NkiTensor
from .creation import ndarray

_Grid = TypeVar("_Grid", bound="NkiGrid")
_UNREAD = "is not in what could be read of the documentation of NKI 0.7"


@dataclass(frozen=True)
class _Backing:
    """The tensor behind a grid, and how it is cut.

    Attributes:
        tensor: in HBM the elements themselves; on the chip their tiles side by side.
        sizes: elements along each dimension.
        tile: elements of a whole tile along each of the last dimensions.
    """

    tensor: NkiTensor
    sizes: tuple[int, ...]
    tile: tuple[int, ...]
    is_packed: bool = False

    @property
    def slabs(self) -> int:
        """Dimensions before those that tiles cut."""
        return len(self.sizes) - len(self.tile)

    def steps(self, block: tuple[int, ...]) -> tuple[int, ...]:
        """Elements from one coordinate to the next: of slabs 1, then of blocks of tiles."""
        cut = [size * tiles for size, tiles in zip(self.tile, block, strict=True)]
        return (1,) * self.slabs + tuple(cut)

    def tile_at(self, starts: tuple[int, ...], extents: tuple[int, ...]) -> NkiTensor:
        """The tile that begins at these elements."""
        if not self.is_packed:
            key = [slice(a, a + n) for a, n in zip(starts, extents, strict=True)]
            return self.tensor[tuple(key)]
        counts = [-(-size // tile) for size, tile in zip(self.sizes, self.tile, strict=True)]
        number = starts[0] // self.tile[0] * counts[1] + starts[1] // self.tile[1]
        first = number * self.tile[1]
        return self.tensor[0 : extents[0], first : first + extents[1]]


class NkiGrid:
    """What tiles and blocks have in common; ``nl.tiles`` and ``nl.blocks`` make them."""

    _block: tuple[int, ...]

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError(
            f"{type(self).__name__} is made by nl.tiles, nl.blocks, nl.alloc_tiles or "
            f"nl.alloc_blocks"
        )

    @classmethod
    def _of(
        cls: type[_Grid],
        backing: _Backing,
        block: tuple[int, ...],
        region: tuple[tuple[int, int], ...] = (),
    ) -> _Grid:
        """A grid over elements ``region``, (first, end) along each dimension; all by default."""
        grid = object.__new__(cls)
        grid._backing, grid._block = backing, block
        grid._region = region or tuple([(0, size) for size in backing.sizes])
        grid._open = tuple(range(len(backing.sizes)))
        return grid

    _backing: _Backing
    _region: tuple[tuple[int, int], ...]
    _open: tuple[int, ...]  # dimensions whose coordinate was not given yet

    @property
    def buffer(self) -> MemoryRegion:
        """The memory of its elements."""
        return self._backing.tensor.buffer

    @property
    def dtype(self) -> str:
        """The dtype of its elements."""
        return self._backing.tensor.dtype

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """Elements of a whole tile along each dimension that tiles cut."""
        return self._backing.tile

    @property
    def element_shape(self) -> tuple[int, ...]:
        """Elements of the selection along each dimension of the tensor."""
        return tuple([end - first for first, end in self._region])

    @property
    def index_step_elements(self) -> tuple[int, ...]:
        """Elements from one coordinate of the whole grid to the next."""
        self._needs_whole("index_step_elements")
        return self._backing.steps(self._block)

    @property
    def shape(self) -> tuple[int, ...]:
        """Slabs, then tiles or blocks, along each dimension of the whole grid."""
        self._needs_whole("shape")
        return self._counts()

    def _needs_whole(self, name: str) -> None:
        if len(self._open) < len(self._region):
            self._refuse(name, f"{name} of a selection")

    def _counts(self) -> tuple[int, ...]:
        steps = self._backing.steps(self._block)
        found = zip(self.element_shape, steps, strict=True)
        return tuple([-(-size // step) for size, step in found])

    @property
    def is_remainder(self) -> bool:
        """Not documented as far as could be read."""
        self._refuse("is_remainder", "what it means")

    def _refuse(self, operand: str, value: str) -> NoReturn:
        name = type(self).__name__
        raise NkiValidationError(f"nl.{name}", operand, value, _UNREAD)

    def __getitem__(self, key: Any) -> Any:
        """The part at coordinates: ints, or ``:`` for all along a dimension."""
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) > len(self._open):
            rule = f"at most {len(self._open)} coordinates are open"
            raise NkiValidationError(f"nl.{type(self).__name__}", "index", key, rule)
        steps, counts, region = self._backing.steps(self._block), self._counts(), [*self._region]
        left = [*self._open]
        for dim, item in zip(self._open, keys, strict=False):
            if isinstance(item, slice) and item == slice(None):
                continue
            if type(item) is not int or item < 0:
                self._refuse("index", f"{item!r}; int >= 0 and `:` are, and what it does")
            if item >= counts[dim]:
                rule = f"dimension {dim} has coordinates 0 to {counts[dim] - 1}"
                raise NkiValidationError(f"nl.{type(self).__name__}", "index", item, rule)
            first, end = region[dim]
            region[dim] = first + item * steps[dim], min(first + (item + 1) * steps[dim], end)
            left.remove(dim)
        part = type(self)._of(self._backing, self._block, tuple(region))
        part._open = tuple(left)
        return part

    __iter__ = None  # by its coordinates only

    @property
    def is_data_representable(self) -> bool:
        """Whether ``data`` is one tensor: of a single tile it is; of others that is not read."""
        self._single_tile("is_data_representable")
        return True

    @property
    def data(self) -> NkiTensor:
        """The selected tile as a tensor, which ends where the source does."""
        starts = self._single_tile("data")
        return self._backing.tile_at(starts, self.element_shape)

    def _single_tile(self, name: str) -> tuple[int, ...]:
        """Where the selection begins, which is one tile."""
        backing = self._backing
        if backing.slabs:
            self._refuse(name, "that of a slab of more dimensions than its tile, whose shape")
        whole = zip(self.element_shape, backing.tile, strict=True)
        if any(size > tile for size, tile in whole):
            self._refuse(
                name, "that of more than one tile; of one, as grid[i, j].data, it is, and it"
            )
        return tuple([first for first, _ in self._region])

    def __repr__(self) -> str:
        whole = "x".join(map(str, self._backing.sizes))
        return f"{type(self).__name__}(elements {self.element_shape} of {whole} {self.dtype})"


class NkiTileGrid(NkiGrid):
    """Tiles by their coordinates, as ``grid[i, j]``."""


class NkiBlockGrid(NkiGrid):
    """Blocks of tiles by their coordinates; ``nl.tiles(grid[i, j])`` are the tiles of one."""

    @property
    def block_shape(self) -> tuple[int, ...]:
        """Tiles of a whole block along each dimension that tiles cut."""
        return self._block


def tiles(source: Any, *, tile_shape: tuple[int, ...] | None = None) -> NkiTileGrid:
    """The tiles of a tensor, or of a block.

    Raises NkiValidationError for tile shapes that do not fit, and for what is not documented.
    """
    if isinstance(source, NkiBlockGrid) and tile_shape is None:
        block = (1,) * len(source.tile_shape)
        return NkiTileGrid._of(source._backing, block, source._region)
    backing = _cut("tiles", source, tile_shape)
    return NkiTileGrid._of(backing, (1,) * len(backing.tile))


def blocks(
    source: Any, *, tile_shape: tuple[int, ...] | None = None, block_shape: tuple[int, ...]
) -> NkiBlockGrid:
    """Blocks of ``block_shape`` tiles each of a tensor."""
    backing = _cut("blocks", source, tile_shape)
    block = _sizes("blocks", "block_shape", block_shape)
    _same_rank("blocks", block, backing.tile)
    return NkiBlockGrid._of(backing, block)


def alloc_tiles(
    *,
    tile_shape: tuple[int, ...],
    element_shape: tuple[int, ...],
    buffer: MemoryRegion,
    dtype: Any,
    address: tuple[int, int] | None = None,
    name: str = "",
) -> NkiTileGrid:
    """A fresh tensor of ``element_shape``, cut into tiles; on the chip they lie side by side.

    Raises TypeError for a shape that is no tuple of ints, or a buffer that is none; ValueError for
    sizes below 1, and tile shapes of fewer than two dimensions or more than the elements have.
    """
    backing = _allocated("alloc_tiles", tile_shape, element_shape, buffer, dtype, address, name)
    return NkiTileGrid._of(backing, (1,) * len(backing.tile))


def alloc_blocks(
    *,
    tile_shape: tuple[int, ...],
    block_shape: tuple[int, ...],
    element_shape: tuple[int, ...],
    buffer: MemoryRegion,
    dtype: Any,
    address: tuple[int, int] | None = None,
    name: str = "",
) -> NkiBlockGrid:
    """A fresh tensor as of ``alloc_tiles``, in blocks of ``block_shape`` tiles each."""
    block = _sizes("alloc_blocks", "block_shape", block_shape)
    backing = _allocated("alloc_blocks", tile_shape, element_shape, buffer, dtype, address, name)
    _same_rank("alloc_blocks", block, backing.tile)
    return NkiBlockGrid._of(backing, block)


def _cut(function: str, source: Any, tile_shape: Any) -> _Backing:
    label = f"nl.{function}"
    if isinstance(source, NkiGrid):
        raise NkiValidationError(label, "source", f"of {source!r}, another cut", _UNREAD)
    if not isinstance(source, NkiTensor):
        rule = "must be a tensor (NkiTensor) or a grid"
        raise NkiValidationError(label, "source", repr(source), rule)
    if tile_shape is None:
        raise NkiValidationError(label, "tile_shape", "None for a tensor", _UNREAD)
    tile = _sizes(function, "tile_shape", tile_shape)
    if len(tile) > source.ndim:
        rule = f"at most the {source.ndim} dimensions of the tensor"
        raise NkiValidationError(label, "tile_shape", tile, rule)
    if source._free and len(tile) < source.ndim:
        raise NkiValidationError(label, "tile_shape", f"{tile} of a tensor on the chip", _UNREAD)
    return _Backing(source, source.shape, tile)


def _allocated(
    function: str,
    tile_shape: Any,
    element_shape: Any,
    buffer: Any,
    dtype: Any,
    address: tuple[int, int] | None,
    name: str,
) -> _Backing:
    tile = _sizes(function, "tile_shape", tile_shape)
    sizes = _sizes(function, "element_shape", element_shape)
    if not isinstance(buffer, MemoryRegion):
        raise TypeError(
            f"argument 'buffer' of nl.{function} is {buffer!r}, allowed is nl.sbuf, say"
        )
    if not 2 <= len(tile) <= len(sizes):
        raise ValueError(
            f"argument 'tile_shape' of nl.{function} is {tile}, allowed are two dimensions up to "
            f"the {len(sizes)} of element_shape"
        )
    if buffer not in ON_CHIP:
        return _Backing(ndarray(sizes, dtype, buffer, name, address), sizes, tile)
    if len(sizes) != 2:
        value = f"{sizes} on the chip, where two dimensions are documented; more"
        raise NkiValidationError(f"nl.{function}", "element_shape", value, _UNREAD)
    count = math.prod([-(-size // each) for size, each in zip(sizes, tile, strict=True)])
    tensor = ndarray((min(tile[0], sizes[0]), count * tile[1]), dtype, buffer, name, address)
    return _Backing(tensor, sizes, tile, is_packed=True)


def _sizes(function: str, argument: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, tuple) or any(type(n) is not int for n in value):
        raise TypeError(
            f"argument {argument!r} of nl.{function} is {value!r}, allowed is a tuple of ints"
        )
    if not value or min(value) < 1:
        raise ValueError(
            f"argument {argument!r} of nl.{function} is {value}, allowed are sizes >= 1"
        )
    return value


def _same_rank(function: str, block: tuple[int, ...], tile: tuple[int, ...]) -> None:
    if len(block) != len(tile):
        raise ValueError(
            f"argument 'block_shape' of nl.{function} is {block}, allowed is one size for each of "
            f"the {len(tile)} dimensions of tile_shape {tile}"
        )
