"""Convolution by Fourier transforms, and overlap-add for a long signal and a short filter.

Let the input x have n points along a dimension and the filter h have m points. The convolution y,
with x extended to indices below 0 and from n on, is

    y[j] = sum_k h[k] x[j - k],  0 <= k < m,  0 <= j < n + m - 1

By the convolution theorem it is a product of spectra. The transforms are so long that the points
that wrap around lie outside of the result:

    y = F^-1 (F x . F h)

Overlap-add (Stockham, "High-speed convolution and correlation", 1966) cuts x into blocks of B
points and adds their convolutions. Each of these has B + m - 1 points, and they begin B points
apart.

Both functions compute float64 and complex128 in float64, and all smaller floating-point dtypes in
float32. They convert integers and bool to torch's default dtype first. Both operands are computed
in the wider of their dtypes. The result of two real operands is real, all other results are
complex. Both functions are differentiable in both operands.
"""

import math
import operator
from collections.abc import Iterable
from typing import Any

import torch

from trnfft.backends.choice import named
from trnfft.base import cache, config
from trnfft.base.checks import brief
from trnfft.base.devices import backend_for
from trnfft.complex.kinds import with_parts_in
from trnfft.complex.parts import is_sharded
from trnfft.complex.tensor import ComplexTensor
from trnfft.functions.arguments import (
    MOST_DIMENSIONS,
    Input,
    check_choice,
    check_tensor,
    dimension,
    integers,
    to_compute,
)
from trnfft.functions.fft import fftn, ifftn, irfftn, rfft, rfftn
from trnfft.functions.stft import overlap_add
from trnfft.ops import many_devices, traced
from trnfft.ops.convolution import (
    filtered_rows,
    has_rows_kernel_for,
)
from trnfft.ops.many_devices import of_shards
from trnfft.ops.operand import operand_of
from trnfft.planner.factorization import next_smooth_number

MODES = ("full", "same", "valid")
PADDINGS = ("zero", "circular", "mirror")
LONGEST_BLOCK = 2**16  # of oaconvolve: longer transforms take more time for each point

Kept = list[tuple[int, int]]  # where the result starts and stops in y, for each dimension


def convolve(
    input: Input,
    filter: Input,
    mode: str = "full",
    dims: int | Iterable[int] | None = None,
    padding: str = "zero",
) -> torch.Tensor | ComplexTensor:
    """Returns the convolution of two tensors, as `scipy.signal.fftconvolve`.

    `trnfft.convolution` defines y. See `docs/convolution.md`.

    Args:
        input: a real tensor, a native complex tensor or a ComplexTensor of any shape with at least
            one dimension.
        filter: the same. Dimensions that are not in `dims` broadcast, and so do dimensions of size
            1. With `dims`, missing first dimensions count as dimensions of size 1, as in torch.
        mode: which points of y to return along `dims`. "full": all n + m - 1 points. "same": n
            points, from point (m - 1) // 2 on. "valid": the n - m + 1 points from point m - 1 on,
            which need no extension of the input; a filter longer than the input changes places with
            it. A dimension in which one operand has size 1 keeps the size of the other in this
            mode.
        dims: the dimensions to convolve along, counted in the operand that has more of them.
            Default: all.
        padding: how the input continues beyond its borders. "zero": with zeros. "circular": as a b
            c | a b c | a b c. "mirror": as d c b | a b c d | c b a. With mode "same" these are the
            modes "constant", "wrap" and "mirror" of `scipy.ndimage.convolve` (with origin=-1 along
            a dimension where m is even).

    Returns:
        A real tensor in float32 or float64. Where an operand is complex, a complex tensor of the
        kind that `trnfft.fft` returns.

    Raises:
        TypeError: an argument has the wrong type, or the dtype of an operand cannot be transformed.
        IndexError: a dimension is out of range.
        ValueError: `mode` or `padding` is unknown; `dims` is empty or repeats a dimension; the
            operands differ in their number of dimensions and `dims` is None; the operands do not
            broadcast, are on different devices, or have no points along `dims`; or, for "valid",
            neither operand is the longer one along all of `dims`.
        NotImplementedError: the backend cannot compute a length or the precision.

    Examples:
        >>> import torch, trnfft
        >>> x, h = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([1.0, -1.0])
        >>> trnfft.convolve(x, h).round(decimals=4)
        tensor([ 1.,  1.,  1.,  1., -4.])
        >>> trnfft.convolve(x, h, mode="valid").round(decimals=4)
        tensor([1., 1., 1.])
        >>> trnfft.convolve(x, h, mode="same", padding="circular").round(decimals=4)
        tensor([-3.,  1.,  1.,  1.])
    """
    if is_sharded(input):
        return _sharded(input, filter, mode, dims, padding)
    x, h, axes = operands(input, filter, mode, dims)
    check_choice("padding", padding, PADDINGS)
    kept = kept_of(mode, x, h, axes)
    if padding == "circular" and mode != "valid":
        return _wrapped(x, h, axes, kept)
    if padding == "mirror" and mode != "valid":
        for i, (dim, (start, stop)) in enumerate(zip(axes, kept, strict=True)):
            before = h.shape[dim] - 1
            x = periodic(_mirrored(x, dim), start - before, stop, dim)
            kept[i] = before, before + stop - start
    # One point times others is a product, which needs no transform.
    many = [i for i, dim in enumerate(axes) if x.shape[dim] > 1 and h.shape[dim] > 1]
    are_rows = len(many) == 1 and _are_real(x, h)
    sizes = []
    for i in many:
        n, m, (start, stop) = x.shape[axes[i]], h.shape[axes[i]], kept[i]
        # y from the size on wraps around to its beginning, which must come before `start`.
        least = max(n, m, stop, n + m - 1 - start)
        sizes.append(fast_length(least, x.device, are_rows))
    if are_rows:
        (i,), (size,) = many, sizes
        start, stop = kept[i]
        y = _filtered(x, h, axes[i], size, start, stop - start)
        kept[i] = 0, stop - start
    else:
        y = _circular(x, h, [axes[i] for i in many], sizes) if many else x * h
    return _cropped(y, axes, kept)


def _sharded(input: Input, filter: Input, mode: str, dims: object, padding: str) -> Any:
    """Returns `convolve` of DTensors."""
    check_choice("padding", padding, PADDINGS)
    if padding != "zero":
        along = _mixed(input, filter, dims)
        return of_shards(convolve, input, along, filter, mode, dims, padding)
    return many_devices.call("convolve", input, filter, mode, dims)


def _mixed(input: Input, filter: Input, dims: object) -> list[int]:
    """Returns the dimensions of a DTensor that each device needs as a whole.

    These are the dimensions of the convolution, and those along which the filter is not of size 1,
    because each device has all of the filter.
    """
    check_tensor("filter", filter)
    if filter.ndim > input.ndim:
        raise NotImplementedError(
            f"argument 'filter' has {filter.ndim} dimensions and argument 'input', a DTensor, "
            f"{input.ndim}, allowed are at most as many; give 'input' more dimensions of size 1"
        )
    along = range(input.ndim) if dims is None else integers("dims", dims)
    return [*along, *(-i for i, size in enumerate(reversed(filter.shape), 1) if size > 1)]


def oaconvolve(
    input: Input,
    filter: Input,
    mode: str = "full",
    dims: int | Iterable[int] | None = None,
) -> torch.Tensor | ComplexTensor:
    """Returns the convolution of two tensors, of which one is much longer, by overlap-add.

    The counterpart in SciPy is `scipy.signal.oaconvolve`. The longer operand is cut into blocks
    along each dimension. The length of the blocks is the one for which all transforms together take
    the least time. See `docs/convolution.md`.

    Args:
        input, filter, mode, dims: as for `convolve`.

    Examples:
        >>> import torch, trnfft
        >>> x, h = torch.arange(1000.0), torch.tensor([0.5, 0.5])  # means of two neighbours
        >>> y = trnfft.oaconvolve(x, h, mode="valid")
        >>> y.shape, y[:3].round(decimals=2)
        (torch.Size([999]), tensor([0.5000, 1.5000, 2.5000]))
    """
    if is_sharded(input):
        along = _mixed(input, filter, dims)
        return of_shards(oaconvolve, input, along, filter, mode, dims)
    x, h, axes = operands(input, filter, mode, dims)
    axes = sorted(axes)
    kept = kept_of(mode, x, h, axes)
    sizes = [_block_size(x.shape[dim], h.shape[dim], x.device) for dim in axes]
    hops = [
        size - min(x.shape[dim], h.shape[dim]) + 1 for dim, size in zip(axes, sizes, strict=True)
    ]
    for dim, hop in reversed(list(zip(axes, hops, strict=True))):
        x, h = _blocks(x, dim, hop), _blocks(h, dim, hop)
    # Each dimension is now two, blocks and points, so the i dimensions before it move it back.
    points = [dim + i + 1 for i, dim in enumerate(axes)]
    y = _circular(x, h, points, sizes)
    for dim, hop in reversed(list(zip(points, hops, strict=True))):
        y = overlap_add(y.movedim((dim - 1, dim), (-2, -1)), hop).movedim(-1, dim - 1)
    return _cropped(y, axes, kept)


def fast_length(least: int, device: torch.device, rows: bool = False) -> int:
    """Returns a length from `least` on with which the device's backend is fast.

    Args:
        least: the least length.
        device: of the tensors.
        rows: whether real rows are convolved, for which some backends have a kernel.
    """
    # operator.index makes torch.compile fix and guard a symbolic size.
    return _fast_length(operator.index(least), device, rows, config.LATEST_PRECISION)


# The last argument of this function and of `_cost` is there for torch.compile, which keeps their
# results as constants, and compiles again when it changes.
@cache.constant_when_compiled
def _fast_length(least: int, device: torch.device, rows: bool, _latest: str) -> int:
    if not _is_planned(device):
        return next_smooth_number(least)
    from trnfft.planner.lengths import next_fast_len  # imported here, because it loads the kernels

    if rows and named(backend_for(device)).has_kernels:
        n = next_fast_len(least, real=True)
        # The kernel for rows accepts a length that is n or slightly more.
        return next((m for m in range(n, n + n // 16 + 4) if has_rows_kernel_for(m)), n)
    return next_fast_len(least)


def _block_size(n: int, m: int, device: torch.device) -> int:
    """Returns the length of the transforms that convolve n points with m points in blocks."""
    n, m = operator.index(n), operator.index(m)  # as in fast_length
    longer, shorter, whole = max(n, m), min(n, m), n + m - 1
    sizes = [1 << bits for bits in range(LONGEST_BLOCK.bit_length())]
    sizes = [size for size in sizes if 2 * shorter <= size < whole]
    if not sizes:
        return fast_length(whole, device)

    def cost(size: int) -> float:
        return -(-longer // (size - shorter + 1)) * _cost(size, device, config.LATEST_PRECISION)

    best = min(sizes, key=cost)
    return best if best < longer else fast_length(whole, device)


@cache.constant_when_compiled
def _cost(size: int, device: torch.device, _latest: str) -> float:
    """Returns the cost of a transform of this length, a power of two up to `LONGEST_BLOCK`."""
    if not _is_planned(device):
        return size * math.log2(size)
    from trnfft.planner.planner import plan

    # trnfft ships these plans for the precision "fast", so no search is needed.
    batch = 8192 if size <= 4096 else 128
    try:
        return (plan(size, batch=batch).predicted_ns or 0.0) / batch
    except NotImplementedError:  # no kernel is accurate enough for so long a transform
        return math.inf


def _is_planned(device: torch.device) -> bool:
    return config.get_precision() != "double" and backend_for(device) != "torch"


def _circular(x: torch.Tensor, h: torch.Tensor, axes: list[int], sizes: list[int]) -> Any:
    """Returns the circular convolution of x and h, in which the dimensions have the given sizes."""
    if not _are_real(x, h):
        return ifftn(fftn(x, sizes, axes) * fftn(h, sizes, axes), sizes, axes)
    if len(axes) > 1:
        return irfftn(rfftn(x, sizes, axes) * rfftn(h, sizes, axes), sizes, axes)
    return _filtered(x, h, axes[0], sizes[0], 0, sizes[0])


def _filtered(x: torch.Tensor, h: torch.Tensor, dim: int, size: int, start: int, count: int) -> Any:
    """Returns `count` numbers, from `start` on, of a circular convolution of real operands."""
    taps = lengthened(h.transpose(dim, -1), -1, size)
    # A kernel keeps the first numbers only, so the filter is moved back by `start` numbers.
    spectrum = rfft(periodic(taps, start, start + size, -1))
    rows = operand_of(x.transpose(dim, -1))
    return filtered_rows(rows, spectrum, size, count).transpose(dim, -1)


def _are_real(x: torch.Tensor, h: torch.Tensor) -> bool:
    return not x.is_complex() and not h.is_complex()


def _wrapped(x: torch.Tensor, h: torch.Tensor, axes: list[int], kept: Kept) -> Any:
    """Returns the convolution of x, continued periodically, with h wound onto circles of x."""
    sizes = [x.shape[dim] for dim in axes]
    for dim, size in zip(axes, sizes, strict=True):
        blocks = -(-h.shape[dim] // size)
        h = _blocks(h, dim, size).sum(dim) if blocks > 1 else h
    y = _circular(x, h, axes, sizes)
    for dim, (start, stop) in zip(axes, kept, strict=True):
        y = periodic(y, start, stop, dim)
    return y.contiguous()


def periodic(x: torch.Tensor, start: int, stop: int, dim: int) -> Any:
    """Returns the numbers from `start` to `stop` of x continued periodically along a dimension."""
    first = start % x.shape[dim]
    last = first + stop - start
    repeats = -(-last // x.shape[dim])
    repeated = torch.cat([x] * repeats, dim) if repeats > 1 else x
    return repeated.narrow(dim, first, last - first)


def _mirrored(x: torch.Tensor, dim: int) -> Any:
    """Returns a period of x and its mirror images: a b c d | c b of ... c b a b c d c b a ..."""
    if x.shape[dim] <= 2:
        return x
    return torch.cat([x, x.narrow(dim, 1, x.shape[dim] - 2).flip(dim)], dim)


def _blocks(x: torch.Tensor, dim: int, size: int) -> Any:
    """Returns x in blocks of `size` points: [..., blocks, size, ...] in place of the dimension."""
    if x.ndim == MOST_DIMENSIONS:
        raise ValueError(
            f"arguments 'input' and 'filter' have {MOST_DIMENSIONS} dimensions with those of the "
            f"blocks that they are cut into, allowed are fewer; flatten dimensions outside 'dims'"
        )
    count = -(-x.shape[dim] // size)
    return torch.unflatten(lengthened(x, dim, count * size), dim, (count, size))


def lengthened(x: torch.Tensor, dim: int, size: int) -> Any:
    """Returns x with zeros at the end of a dimension."""
    after = x.ndim - 1 - dim % x.ndim
    return torch.nn.functional.pad(x, (0, 0) * after + (0, size - x.shape[dim]))


def _cropped(y: torch.Tensor, axes: list[int], kept: Kept) -> Any:
    for dim, (start, stop) in zip(axes, kept, strict=True):
        y = y.narrow(dim, start, stop - start)
    return y.contiguous()


def kept_of(mode: str, x: torch.Tensor, h: torch.Tensor, axes: list[int]) -> Kept:
    """Returns where the result of a mode starts and stops in y, for each dimension."""
    kept = []
    for dim in axes:
        n, m = x.shape[dim], h.shape[dim]
        start = {"full": 0, "same": (m - 1) // 2, "valid": m - 1}[mode]
        size = {"full": n + m - 1, "same": n, "valid": n - m + 1}[mode]
        if mode == "valid" and n == 1:  # a size of 1 broadcasts in either operand
            start, size = 0, m
        kept.append((start, start + size))
    return kept


def operands(
    input: Input, filter: Input, mode: str, dims: int | Iterable[int] | None
) -> tuple[Any, Any, list[int]]:
    """Returns both operands in one dtype, and the dimensions counted from 0.

    For "valid", the longer operand comes first.
    """
    x, h = (
        traced.held(to_compute(name, operand, TypeError))
        for name, operand in (("input", input), ("filter", filter))
    )
    check_choice("mode", mode, MODES)
    if is_sharded(h) and not is_sharded(x):
        raise NotImplementedError(
            "argument 'filter' is a DTensor and argument 'input' is not, allowed is 'input' alone "
            "or both; distribute 'input' with torch.distributed.tensor.distribute_tensor"
        )
    if x.device != h.device:
        raise ValueError(
            f"argument 'filter' is on device '{h.device}' and argument 'input' on '{x.device}'; "
            f"move one with .to(device)"
        )
    if x.ndim != h.ndim and dims is None:
        raise ValueError(
            f"argument 'filter' has {h.ndim} dimensions and argument 'input' has {x.ndim}, they "
            f"must have as many where argument 'dims' is None; pass the dimensions to convolve "
            f"along, such as dims=-1, or add dimensions of size 1, for example with .reshape"
        )
    most = max(x.ndim, h.ndim)
    if x.ndim != h.ndim:
        x, h = (operand.reshape((1,) * (most - operand.ndim) + operand.shape) for operand in (x, h))
    axes = _axes(dims, x.ndim)
    for name, operand in (("input", x), ("filter", h)):
        if not all(operand.shape[dim] for dim in axes):
            raise ValueError(
                f"argument '{name}' has shape {tuple(operand.shape)}, which has no points to "
                f"convolve; allowed is a size of 1 or more along the dimensions {tuple(axes)}"
            )
    _check_others(x, h, axes)
    x, h = traced.held(x, axes), traced.held(h, axes)
    dtype = torch.promote_types(x.real.dtype, h.real.dtype)
    x, h = with_parts_in(x, dtype), with_parts_in(h, dtype)
    if mode == "valid":
        x, h = longer_first(x, h, axes)
    return x, h, axes


def _axes(dims: int | Iterable[int] | None, ndim: int) -> list[int]:
    """Returns the dimensions to convolve along, counted from 0."""
    chosen = tuple(range(ndim)) if dims is None else integers("dims", dims)
    axes = [dimension("dims", dim, ndim) for dim in chosen]
    if not axes or len(set(axes)) < len(axes):
        raise ValueError(
            f"argument 'dims' is {brief(dims)} for operands of {ndim} dimensions, allowed are "
            f"distinct dimensions, at least one"
        )
    return axes


def _check_others(x: torch.Tensor, h: torch.Tensor, axes: list[int]) -> None:
    """Raises ValueError where dimensions that are not convolved along do not broadcast."""
    for dim, (n, m) in enumerate(zip(x.shape, h.shape, strict=True)):
        if dim not in axes and n != m and 1 not in (n, m):
            raise ValueError(
                f"argument 'filter' has size {m} along dimension {dim} and argument 'input' {n}, "
                f"allowed are equal sizes or 1, as 'dims' does not have {dim}"
            )


def longer_first(x: torch.Tensor, h: torch.Tensor, axes: list[int]) -> tuple[Any, Any]:
    """Returns both operands, the longer one first; ValueError where neither is longer along all."""
    sizes = [(x.shape[dim], h.shape[dim]) for dim in axes]
    sizes = [pair for pair in sizes if 1 not in pair]  # the others broadcast
    if all(n >= m for n, m in sizes):
        return x, h
    if all(n <= m for n, m in sizes):
        return h, x
    raise ValueError(
        f"argument 'mode' is 'valid', for which one operand must be the longer one along all "
        f"of 'dims', but argument 'input' has shape {tuple(x.shape)} and argument 'filter' "
        f"{tuple(h.shape)}; use mode 'same' or 'full'"
    )
