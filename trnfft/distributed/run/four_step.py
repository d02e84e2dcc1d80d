"""A transform that many devices hold together: the four-step algorithm across p devices.

Mathematics.  With n = P Q points, j = j1 Q + j2 and k = k1 + P k2,

    X[k1 + P k2] = sum_j2 W_Q^(j2 k2) W_n^(j2 k1) sum_j1 W_P^(j1 k1) x[j1 Q + j2],

with W_n = exp(-2 pi i / n). These are columns of P points, twiddle factors, and rows of Q points,
of the matrix x[j1, j2].

Layout.  A device has some rows of the matrix, which are the chunks of DTensor where p divides P.
One exchange makes them columns, and another exchange makes them rows again. After these two
exchanges frequency k1 + P k2 is at k1 Q + k2: this is the planned order. For the natural order, a
third exchange brings all k1 of some k2 together. An inverse from the planned order takes the same
steps backwards. Chunks that are not rows, because they have other lengths or are to be padded, are
aligned by exchanges between neighbours.

Other lengths.  A length n without such factors is Bluestein's convolution, of a length m >= 2n - 1
that has them:  X[k] = c[k] sum_j (c[j] x[j]) conj c[k - j],  c[j] = e^(-pi i j^2 / n).  Both
transforms of length m are in planned order, because the product does not depend on the order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch.distributed import ProcessGroup

from trnfft.backends.backend import scale_of
from trnfft.complex.parts import join, parts_of
from trnfft.distributed.layout import Box, Interval
from trnfft.distributed.run import blocks, overlap
from trnfft.distributed.run.blocks import Held, Rows, of_last, taken
from trnfft.distributed.run.exchange import Boxes, Exchange, exchanged, kept
from trnfft.distributed.run.overlap import Work
from trnfft.distributed.run.phases import Chirp, Twiddles, factors, rotated
from trnfft.distributed.run.rows_and_columns import has_rows_and_columns, rows_and_columns
from trnfft.functions.arguments import check_positive
from trnfft.ops import transforms as ops
from trnfft.planner.factorization import next_smooth_number

LONGEST = 2**40  # points; products of indices need 64 bits


@dataclass(frozen=True)
class Devices:
    """The devices that hold a transform together.

    Attributes:
        group: the process group of these devices.
        rank: the rank of this device.
        mesh: the shape of the mesh of all devices.
        along: the dimension of the mesh along which these devices lie.
    """

    group: ProcessGroup
    rank: int
    mesh: tuple[int, ...]
    along: int

    @property
    def count(self) -> int:
        """Returns the number of devices."""
        return self.mesh[self.along]


@dataclass(frozen=True)
class Long:
    """The transform along the last dimension.

    Attributes:
        n: the length.
        inverse: the sign of the exponent, as in `trnfft.ops.transforms`.
        norm: as there.
        planned: whether the frequencies are in planned order.
        rows: the number of such transforms on the devices with the most of them.
    """

    n: int
    inverse: bool
    norm: str
    planned: bool = False
    rows: int = 1


def frequencies(n: int, devices: int) -> torch.Tensor:
    """Returns the frequency at each position of the planned order across devices.

    See `docs/distributed.md`; `trnfft.order` is about the planned order on one device.

    Args:
        n: length of the transform.
        devices: how many devices split its dimension.

    Returns:
        An int64 tensor of shape [n], for planned = natural[frequencies(n, devices)].

    Raises:
        TypeError: an argument is not an int.
        ValueError: an argument is less than 1.

    Examples:
        >>> import trnfft
        >>> trnfft.distributed.frequencies(16, devices=4)
        tensor([ 0,  4,  8, 12,  1,  5,  9, 13,  2,  6, 10, 14,  3,  7, 11, 15])
    """
    check_positive(n=n, devices=devices)
    if devices == 1 or not has_rows_and_columns(n, devices):
        return torch.arange(n)
    rows, columns = rows_and_columns(n, devices)
    return torch.arange(n).reshape(columns, rows).T.reshape(-1)


def transformed(parts: Held, given: int, long: Long, devices: Devices) -> Held:
    """Transforms along the last dimension, which the devices hold in chunks.

    Args:
        parts: real and imaginary part [..., chunk of `given`]; the list is emptied.
        given: the length of the input, which is trimmed or padded to that of the transform.
        long: the transform.
        devices: the devices that have the chunks.

    Returns:
        Both parts [..., chunk of long.n].
    """
    if has_rows_and_columns(long.n, devices.count):
        return _four_steps(parts, given, long, devices)
    return _bluestein(parts, given, long, devices)


def check_longest(n: int) -> None:
    """Checks that indices of a length have few enough bits."""
    if n > LONGEST:
        raise NotImplementedError(
            f"the length of a transform is {n}, allowed across devices are lengths up to "
            f"2^40 = {LONGEST}; split the transform"
        )


def chunks(n: int, count: int) -> list[Interval]:
    """Returns what each of `count` devices has of a dimension, as DTensor splits it."""
    return [Interval(0, n).chunk(index, count) for index in range(count)]


def aligned(
    parts: Held, sources: list[Interval], targets: list[Interval], devices: Devices
) -> Held:
    """Exchanges from some intervals of the last dimension to others."""
    if sources == targets:
        return taken(parts)
    lead = _whole(parts[0].shape[:-1])
    boxes = _boxes_of_intervals(devices.rank, lead, tuple(sources), tuple(targets))
    return exchanged(parts, Exchange(devices.group, boxes))


@kept
def _boxes_of_intervals(
    rank: int, lead: Box, sources: tuple[Interval, ...], targets: tuple[Interval, ...]
) -> Boxes:
    """Returns the boxes of an exchange between intervals of the dimension after `lead`."""
    return Boxes(
        rank, *(tuple((*lead, own) for own in intervals) for intervals in (sources, targets))
    )


@functools.lru_cache(1024)
def padded_length(n: int, devices: int) -> int:
    """Returns the length of Bluestein's convolution: p^2 times a number with small factors."""
    square = devices * devices
    return square * next_smooth_number(-(-(2 * n - 1) // square))


def _four_steps(parts: Held, given: int, long: Long, devices: Devices) -> Held:
    rows, columns = rows_and_columns(long.n, devices.count)
    matrix = _Matrix(rows, columns, devices)
    as_given, wanted = chunks(given, devices.count), chunks(long.n, devices.count)
    x = matrix.of_flat(aligned(parts, as_given, matrix.flat_rows(), devices))
    lead = _whole(x[0].shape[:-2])
    to_columns, to_rows = matrix.to_columns(lead), matrix.to_rows(lead)  # exchanges
    like, (row, column) = x[0], (x[0].ndim - 2, x[0].ndim - 1)  # dimensions
    mesh = devices.mesh, devices.along
    first, second = _chunks(long, *mesh, like.device.type, like.element_size())
    if long.inverse and long.planned:
        by_rows = Rows(_along(-1, long, matrix), (row, row), second)
        x = blocks.transformed(x, by_rows, after=to_columns)
        by_columns = Rows(_along(-2, long), (column, column), first)
        x = blocks.transformed(x, by_columns, after=to_rows)
        return aligned(_flat(x), matrix.flat_rows(), wanted, devices)
    by_columns = Rows(_along(-2, long, matrix), (column, column), first)
    to_columns = replace(to_columns, last=(row,))  # because these are transformed
    x = blocks.transformed(x, by_columns, before=to_columns, after=to_rows)
    by_rows = Rows(_along(-1, long), (row, row), second)
    if long.planned:
        x = blocks.transformed(x, by_rows)
        return aligned(_flat(x), matrix.flat_rows(), wanted, devices)
    transposed = matrix.transposed()  # its rows are k2, and its columns k1
    by_rows = Rows(_transposed(by_rows.function), (row, column), second)
    x = blocks.transformed(x, by_rows, after=transposed.to_rows(lead))
    return aligned(_flat(x), transposed.flat_rows(), wanted, devices)


def chunks_of_exchanges(
    long: Long, mesh: tuple[int, ...], along: int, device: str, itemsize: int
) -> tuple[int, ...]:
    """Returns into how many chunks the exchanges of a transform are cut."""
    arguments = mesh, along, device, itemsize
    if has_rows_and_columns(long.n, mesh[along]):
        return _chunks(long, *arguments)
    forward, backward = _transforms_of_bluestein(long, mesh[along])
    return _chunks(forward, *arguments) + _chunks(backward, *arguments)


def _chunks(
    long: Long, mesh: tuple[int, ...], along: int, device: str, itemsize: int
) -> tuple[int, int]:
    """Returns the numbers of chunks of the exchanges around transforms of columns, and of rows."""
    rows, columns = rows_and_columns(long.n, mesh[along])
    own_rows, own_columns = (Interval(0, n).chunk(0, mesh[along]).size for n in (rows, columns))

    def chunks_around(exchanges: int, length: int, own: int) -> int:
        moved = (along, 2 * itemsize * long.rows * length * own)
        rows = long.rows * own
        return overlap.chunks_of(
            Work(device, mesh, (moved,) * exchanges, (length,), rows, False, own)
        )

    of_columns = chunks_around(1 if long.inverse and long.planned else 2, rows, own_columns)
    is_last = long.planned and not long.inverse
    return of_columns, chunks_around(0 if is_last else 1, columns, own_rows)


@dataclass(frozen=True)
class _Matrix:
    """A length as rows and columns, and how devices split these."""

    rows: int
    columns: int
    devices: Devices

    def transposed(self) -> _Matrix:
        return replace(self, rows=self.columns, columns=self.rows)

    def own_rows(self) -> Interval:
        return Interval(0, self.rows).chunk(self.devices.rank, self.devices.count)

    def own_columns(self) -> Interval:
        return self.transposed().own_rows()

    def flat_rows(self) -> list[Interval]:
        """Returns the rows of each device, as intervals of the length."""
        return [
            Interval(interval.start * self.columns, interval.stop * self.columns)
            for interval in chunks(self.rows, self.devices.count)
        ]

    def of_flat(self, parts: Held) -> Held:
        """Returns numbers [..., rows * columns] as matrices."""
        own = self.own_rows().size
        return [part.reshape(*part.shape[:-1], own, self.columns) for part in parts]

    def to_columns(self, lead: Box) -> Exchange:
        """Returns the exchange from whole rows to whole columns, after the dimensions `lead`."""
        devices = self.devices
        boxes = _boxes_of_matrix(devices.rank, devices.count, lead, self.rows, self.columns)
        return Exchange(devices.group, boxes)

    def to_rows(self, lead: Box) -> Exchange:
        """Returns the exchange in the opposite direction."""
        return self.to_columns(lead).back()

    def twiddles(self, dim: int, own: Interval, inverse: bool) -> Twiddles:
        """Returns the twiddles after transforms of rows (dim -1) or columns (dim -2)."""
        rows = own if dim == -1 else Interval(0, self.rows)
        columns = own if dim == -2 else Interval(0, self.columns)
        return Twiddles(rows, columns, self.rows * self.columns, 1 if inverse else -1)


@kept
def _boxes_of_matrix(rank: int, count: int, lead: Box, rows: int, columns: int) -> Boxes:
    """Returns the boxes of an exchange from whole rows to whole columns, after `lead`."""
    whole_rows, whole_columns = Interval(0, rows), Interval(0, columns)
    by_rows = tuple((*lead, own, whole_columns) for own in chunks(rows, count))
    by_columns = tuple((*lead, whole_rows, own) for own in chunks(columns, count))
    return Boxes(rank, by_rows, by_columns)


def _bluestein(parts: Held, given: int, long: Long, devices: Devices) -> Held:
    n, padded = long.n, padded_length(long.n, devices.count)
    as_given, wanted = chunks(given, devices.count), chunks(n, devices.count)
    own = wanted[devices.rank]
    chirp = Chirp(own, n, 1 if long.inverse else -1)
    forward, backward = _transforms_of_bluestein(long, devices.count)
    x = _times(aligned(parts, as_given, wanted, devices), chirp)
    spectrum = transformed(x, n, forward, devices)
    filter = _filter_spectrum(spectrum[0], n, chirp.sign, forward, devices)
    product = list(parts_of(join(*spectrum) * join(*filter)))
    del spectrum, filter
    y = aligned(
        transformed(product, padded, backward, devices),
        chunks(padded, devices.count),
        wanted,
        devices,
    )
    scale = scale_of(long.norm, (n,), long.inverse)
    return [part * scale for part in _times(y, chirp)]


def _transforms_of_bluestein(long: Long, devices: int) -> tuple[Long, Long]:
    """Returns both transforms of the convolution's length; `norm` is a factor elsewhere."""
    padded = padded_length(long.n, devices)
    forward = Long(padded, False, "backward", planned=True, rows=long.rows)
    return forward, replace(forward, inverse=True)


@torch.no_grad()
def _filter_spectrum(
    like: torch.Tensor, n: int, sign: int, forward: Long, devices: Devices
) -> Held:
    """Returns the transform of the conjugate chirp, around the circle of the convolution."""
    own = chunks(forward.n, devices.count)[devices.rank]
    chirp = Chirp(own, n, -sign, period=forward.n)
    parts = [part[:, 0] for part in factors(chirp, like.dtype, like.device)]
    return transformed(parts, forward.n, replace(forward, rows=1), devices)


def _times(parts: Held, chirp: Chirp) -> Held:
    made = rotated([part.unsqueeze(-1) for part in parts], chirp)
    return [part.squeeze(-1) for part in made]


def _along(dim: int, long: Long, matrix: _Matrix | None = None) -> Callable[[Held, Interval], Held]:
    """Returns a function that transforms columns (dim -2) or rows (dim -1) by the chosen backend.

    It also multiplies by the twiddles of a matrix, if one is given.
    """

    def function(x: torch.Tensor) -> torch.Tensor:
        return ops.c2c(x, (x.shape[-1],), (x.ndim - 1,), long.inverse, long.norm)

    def with_twiddles(parts: Held, own: Interval) -> Held:
        y = of_last(function, (dim,))(parts, own)
        return rotated(y, matrix.twiddles(dim, own, long.inverse)) if matrix else y

    return with_twiddles


def _transposed(function: Callable[[Held, Interval], Held]) -> Callable[[Held, Interval], Held]:
    return lambda parts, own: [part.mT for part in function(parts, own)]


def _flat(parts: Held) -> Held:
    made = [part.flatten(-2) for part in parts]
    parts.clear()
    return made


def _whole(shape: torch.Size) -> Box:
    return tuple(Interval(0, size) for size in shape)
