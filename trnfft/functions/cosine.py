"""Cosine and sine transforms of types I to IV, with the names and the arguments of `scipy.fft`.

`trnfft.ops.real_transforms` has the definitions, and how Fourier transforms compute them. Types I,
II and III along all dimensions, and type IV along one dimension, are a single Fourier transform,
hence a single launch.

All transforms compute float64 and complex128 in float64, and all smaller floating-point dtypes in
float32. They convert integers and bool to torch's default dtype first. The parts of complex input
are transformed together, in one call. `n` and `s` trim the input, or pad it with zeros, at the end
of a dimension. -1 in `s` keeps the size of a dimension.

With `norm` "backward", the default, `dct` and `dst` have no factor and their inverses have the
factor 1/N. With "ortho", both have 1/sqrt(N). With "forward", `dct` and `dst` have 1/N and their
inverses have none. N is the logical length: 2 (n - 1) for DCT-I, 2 (n + 1) for DST-I and 2 n for
the other types. For several dimensions, N is the product of the logical lengths. With
`orthogonalize`, the numbers at the edges have factors of sqrt(2) or 1/sqrt(2), which make the
matrix of the transform orthogonal up to a factor, and exactly orthogonal with norm "ortho".

All transforms raise these errors:

- `TypeError`: an argument has the wrong type, or the backend lacks the dtype.
- `IndexError`: an axis is out of range.
- `ValueError`: `type` is not 1, 2, 3 or 4.
- `RuntimeError`: a length is less than 1, or less than 2 for DCT-I; axes repeat, or differ in
  number from the lengths; `norm` is unknown; or `x` has a dtype that cannot be transformed.
- `NotImplementedError`: the backend cannot compute the length or the precision.
"""

import operator
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from trnfft.backends.backend import scale_of
from trnfft.complex.kinds import made_of
from trnfft.complex.parts import parts_of_values
from trnfft.complex.tensor import ComplexTensor
from trnfft.functions.arguments import (
    Input,
    check_choice,
    check_flags,
    check_length,
    dimension,
    dimensions,
    integer,
    integers,
    normalization,
    to_compute,
)
from trnfft.functions.fft import Sizes, check_longest, check_result
from trnfft.ops.many_devices import of_shards
from trnfft.ops.operand import Operand, operand_of
from trnfft.ops.real_transforms import RealTransform, transformed

TYPES = (1, 2, 3, 4)
_INVERSE_TYPE = {1: 1, 2: 3, 3: 2, 4: 4}


@dataclass(frozen=True)
class _Kind:
    """A kind of transform: sine or cosine, forward or inverse."""

    is_sine: bool
    is_inverse: bool

    def logical_length(self, type: int, n: int) -> int:
        """Returns the period of n points that are continued by their mirror images."""
        if type == 1:
            return 2 * (n + 1) if self.is_sine else 2 * (n - 1)
        return 2 * n

    def check_logical_length(self, type: int, n: int, x: Operand) -> None:
        """Raises RuntimeError for a DCT-I of one point, NotImplementedError for too many points."""
        logical = self.logical_length(type, n)
        if logical == 0:
            raise RuntimeError(
                "the length is 1, allowed is 2 or more for a DCT of type 1, which has a point at "
                "either edge; pass another argument 'type'"
            )
        check_longest(logical if type == 1 else n, x)


_DCT, _IDCT = _Kind(False, False), _Kind(False, True)
_DST, _IDST = _Kind(True, False), _Kind(True, True)


def dct(
    x: Input,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> torch.Tensor | ComplexTensor:
    """Returns the discrete cosine transform along one dimension.

    The counterpart in SciPy is `scipy.fft.dct`. See `docs/more_transforms.md`.

    Args:
        x: a real tensor, a native complex tensor or a ComplexTensor of any shape with at least one
            dimension.
        type: type of the transform, 1, 2, 3 or 4.
        n: length of the transform. Default: the size of `axis`.
        axis: the dimension to transform.
        norm: "backward" (the default), "ortho" or "forward", see `trnfft.functions.cosine`.
        orthogonalize: whether the matrix is orthogonal up to a factor. Default: True with norm
            "ortho".

    Returns:
        A tensor with the shape of `x`, in which `n` replaces the size of `axis`. It is real for
        real `x` and complex for complex `x`.

    Raises:
        TypeError, IndexError, ValueError, RuntimeError, NotImplementedError: the opening of
            `trnfft.functions.cosine` says when, for all transforms.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.dct(torch.tensor([1.0, 2.0, 3.0, 4.0]), norm="ortho").round(decimals=4)
        tensor([ 5.0000, -2.2304,  0.0000, -0.1585])
    """
    return _one(_DCT, x, type, n, axis, norm, orthogonalize)


def idct(
    x: Input,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> torch.Tensor | ComplexTensor:
    """Returns the inverse discrete cosine transform along one dimension.

    Args:
        type: type of the transform that is inverted, 1, 2, 3 or 4.
        x, n, axis, norm, orthogonalize: as for `dct`.

    Examples:
        >>> import torch, trnfft
        >>> y = trnfft.dct(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        >>> trnfft.idct(y).round(decimals=4)
        tensor([1., 2., 3., 4.])
    """
    return _one(_IDCT, x, type, n, axis, norm, orthogonalize)


def dst(
    x: Input,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> torch.Tensor | ComplexTensor:
    """Returns the discrete sine transform along one dimension.

    Args:
        x, type, n, axis, norm, orthogonalize: as for `dct`.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.dst(torch.tensor([1.0, 2.0, 3.0, 4.0]), norm="ortho").round(decimals=4)
        tensor([ 4.6194, -2.0000,  1.9134, -1.0000])
    """
    return _one(_DST, x, type, n, axis, norm, orthogonalize)


def idst(
    x: Input,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> torch.Tensor | ComplexTensor:
    """Returns the inverse discrete sine transform along one dimension.

    Args:
        type: type of the transform that is inverted, 1, 2, 3 or 4.
        x, n, axis, norm, orthogonalize: as for `dct`.

    Examples:
        >>> import torch, trnfft
        >>> y = trnfft.dst(torch.tensor([1.0, 2.0, 3.0, 4.0]), type=4)
        >>> trnfft.idst(y, type=4).round(decimals=4)
        tensor([1., 2., 3., 4.])
    """
    return _one(_IDST, x, type, n, axis, norm, orthogonalize)


def dctn(
    x: Input,
    type: int = 2,
    s: Sizes = None,
    axes: int | Iterable[int] | None = None,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> torch.Tensor | ComplexTensor:
    """Returns the discrete cosine transform along several dimensions.

    Args:
        x: a real tensor, a native complex tensor or a ComplexTensor of any shape that has the
            dimensions `axes`.
        s: lengths of the transforms. -1 stands for the size of the dimension. Default: the sizes of
            `axes`.
        axes: the dimensions to transform. Default: the last dimensions, as many as `s` has lengths,
            or all of them without `s`.
        type, norm, orthogonalize: as for `dct`.

    Returns:
        A tensor with the shape of `x`, in which the lengths replace the sizes of `axes`. It is real
        for real `x` and complex for complex `x`.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.dctn(torch.ones(2, 2), norm="ortho").round(decimals=4)
        tensor([[2., 0.],
                [0., 0.]])
    """
    return _many(_DCT, x, type, s, axes, norm, orthogonalize)


def idctn(
    x: Input,
    type: int = 2,
    s: Sizes = None,
    axes: int | Iterable[int] | None = None,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> torch.Tensor | ComplexTensor:
    """Returns the inverse discrete cosine transform along several dimensions.

    Args:
        type: type of the transform that is inverted, 1, 2, 3 or 4.
        x, s, axes, norm, orthogonalize: as for `dctn`.

    Examples:
        >>> import torch, trnfft
        >>> y = trnfft.dctn(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> trnfft.idctn(y).round(decimals=4)
        tensor([[1., 2.],
                [3., 4.]])
    """
    return _many(_IDCT, x, type, s, axes, norm, orthogonalize)


def dstn(
    x: Input,
    type: int = 2,
    s: Sizes = None,
    axes: int | Iterable[int] | None = None,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> torch.Tensor | ComplexTensor:
    """Returns the discrete sine transform along several dimensions.

    Args:
        x, type, s, axes, norm, orthogonalize: as for `dctn`.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.dstn(torch.ones(3, 4), s=(4, 8)).shape
        torch.Size([4, 8])
    """
    return _many(_DST, x, type, s, axes, norm, orthogonalize)


def idstn(
    x: Input,
    type: int = 2,
    s: Sizes = None,
    axes: int | Iterable[int] | None = None,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> torch.Tensor | ComplexTensor:
    """Returns the inverse discrete sine transform along several dimensions.

    Args:
        type: type of the transform that is inverted, 1, 2, 3 or 4.
        x, s, axes, norm, orthogonalize: as for `dctn`.

    Examples:
        >>> import torch, trnfft
        >>> y = trnfft.dstn(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> trnfft.idstn(y).round(decimals=4)
        tensor([[1., 2.],
                [3., 4.]])
    """
    return _many(_IDST, x, type, s, axes, norm, orthogonalize)


def _one(
    kind: _Kind,
    x: Input,
    type: int,
    n: int | None,
    axis: int,
    norm: str | None,
    orthogonalize: bool | None,
) -> torch.Tensor | ComplexTensor:
    """Returns a transform along one dimension."""
    x = to_compute("x", x)
    dim = dimension("axis", integer("axis", axis), x.ndim)
    lengths = None if n is None else (integer("n", n),)
    return _transformed(x, kind, type, "n", lengths, (dim,), norm, orthogonalize)


def _many(
    kind: _Kind,
    x: Input,
    type: int,
    s: Sizes,
    axes: int | Iterable[int] | None,
    norm: str | None,
    orthogonalize: bool | None,
) -> torch.Tensor | ComplexTensor:
    """Returns a transform along several dimensions."""
    x = to_compute("x", x)
    lengths = None if s is None else integers("s", s)
    dims = dimensions("axes", axes, lengths, x.ndim)
    if lengths is not None:
        pairs = zip(lengths, dims, strict=True)
        lengths = tuple(x.shape[dim] if n == -1 else n for n, dim in pairs)
    return _transformed(x, kind, type, "s", lengths, dims, norm, orthogonalize)


def _transformed(
    x: torch.Tensor | ComplexTensor,
    kind: _Kind,
    type: int,
    name: str,
    lengths: tuple[int, ...] | None,
    dims: tuple[int, ...],
    norm: str | None,
    orthogonalize: bool | None,
) -> torch.Tensor | ComplexTensor:
    """Returns the transform with the given lengths, or with the sizes of the input.

    `name` is the argument that holds the lengths.
    """
    given = operand_of(x)
    if given.is_sharded:
        rest = (type, name, lengths, dims, norm, orthogonalize)
        return of_shards(_transformed, x, dims, kind, *rest)
    type = integer("type", type)
    check_choice("type", type, TYPES)
    if orthogonalize is not None:
        check_flags(orthogonalize=orthogonalize)
    sizes = tuple(x.shape[dim] for dim in dims) if lengths is None else lengths
    # operator.index makes torch.compile fix a symbolic size, which the tables depend on.
    sizes = tuple(operator.index(n) for n in sizes)
    for n, dim in zip(sizes, dims, strict=True):
        check_length(name, None if lengths is None else n, n, x.shape[dim])
        kind.check_logical_length(type, n, given)
    if lengths is not None:
        changed = dict(zip(dims, sizes, strict=True))
        shape = [changed.get(dim, size) for dim, size in enumerate(x.shape)]
        check_result(name, lengths, shape, given)
    norm = normalization(norm)
    logical = tuple(kind.logical_length(type, n) for n in sizes)
    asked = RealTransform(
        type=_INVERSE_TYPE[type] if kind.is_inverse else type,
        is_sine=kind.is_sine,
        sizes=sizes,
        dims=tuple(dim - x.ndim for dim in dims),
        scale=scale_of(norm, logical, kind.is_inverse),
        is_orthogonal=norm == "ortho" if orthogonalize is None else bool(orthogonalize),
    )
    if x.is_complex():  # both parts in one launch
        both = given.of(torch.stack(parts_of_values(given.parts)))
        real, imag = _resized_and_transformed(both, asked)
        return made_of(real, imag, x)
    return _resized_and_transformed(given, asked)


def _resized_and_transformed(given: Operand, asked: RealTransform) -> torch.Tensor:
    x = given.like
    if not asked.dims:
        return x.clone()
    for dim, n in zip(asked.dims, asked.sizes, strict=True):
        if n != x.shape[dim]:  # a negative width of the padding trims
            x = torch.nn.functional.pad(x, (0, 0) * (-dim - 1) + (0, n - x.shape[dim]))
    return transformed(given.of(x), asked)
