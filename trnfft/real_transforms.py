"""Cosine and sine transforms of types I to IV: arguments as in scipy.fft, on tensors of torch.

`trnfft/ops/real_transforms.py` has their definitions, and how they lie on the Fourier transforms:
types I, II and III along all dimensions, and IV along one, are one transform, hence one launch.

Of every transform here: float64 and complex128 are computed in float64, float16, bfloat16 and
everything smaller in float32; integers and bool are converted to torch's default dtype first.
Complex input is transformed part by part, in one go. `n` and `s` trim the input, or pad it with
zeros, at the end of a dimension; -1 in `s` keeps the size.

`norm` is "backward" (the default: no factor on dct and dst, 1/N on their inverses), "ortho"
(1/sqrt(N) on both) or "forward" (1/N and none). N is the logical length: 2 (n-1) for DCT-I,
2 (n+1) for DST-I and 2 n for the others, of several dimensions the product. With `orthogonalize`
numbers at the edges have factors of sqrt(2) or 1/sqrt(2), with which the matrix of the transform
is orthogonal but for a factor, and with norm "ortho" without one. All raise

    TypeError: an argument is of the wrong type, or the backend lacks the dtype.
    IndexError: an axis is out of range.
    ValueError: `type` is none of 1, 2, 3 and 4.
    RuntimeError: a length is less than 1, or than 2 for DCT-I, axes are not distinct or not as many
        as lengths, `norm` is unknown, or `x` has a dtype that cannot be transformed.
    NotImplementedError: the length or the precision is beyond what the backend can do.
"""

import operator
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from trnfft.arguments import (
    DTYPE_ERROR,
    Input,
    check_choice,
    check_flags,
    check_length,
    dimension,
    dimensions,
    floating_point,
    integer,
    integers,
    normalization,
    of_given_kind,
    widened,
)
from trnfft.complex.kinds import made_of
from trnfft.complex.tensor import ComplexTensor
from trnfft.ops.real_transforms import RealTransform, transformed
from trnfft.ops.sharded import is_sharded, of_shards
from trnfft.ops.transforms import scale_of
from trnfft.transforms import Sizes, check_longest, check_result

TYPES = (1, 2, 3, 4)
_INVERSE_TYPE = {1: 1, 2: 3, 3: 2, 4: 4}


@dataclass(frozen=True)
class _Kind:
    """Sine or cosine, forward or inverse."""

    is_sine: bool
    is_inverse: bool

    def logical_length(self, type: int, n: int) -> int:
        """The period of what continues n points by their mirror images."""
        if type == 1:
            return 2 * (n + 1) if self.is_sine else 2 * (n - 1)
        return 2 * n

    def check_logical_length(self, type: int, n: int, device: torch.device) -> None:
        """RuntimeError for a DCT-I of one point, NotImplementedError for what no kernel can do."""
        logical = self.logical_length(type, n)
        if logical == 0:
            raise RuntimeError(
                "the length is 1, allowed is 2 or more for a DCT of type 1, which has a point at "
                "either edge; pass another argument 'type'"
            )
        check_longest(logical if type == 1 else n, device)


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
    """Discrete cosine transform, along one dimension.

    Args:
        x: real, native complex or ComplexTensor, of any shape with at least one dimension.
        type: 1, 2, 3 or 4.
        n: length of the transform. Default: the size of `axis`.
        axis: the dimension to transform.
        norm: "backward", "ortho" or "forward", see `trnfft.real_transforms`.
        orthogonalize: whether the matrix is orthogonal up to a factor. Default: with norm "ortho".

    Returns:
        torch.Tensor of the shape of `x` with `n` in place of `axis`; a ComplexTensor for complex
        `x`.

    Raises:
        TypeError, IndexError, ValueError, RuntimeError, NotImplementedError: see
            `trnfft.real_transforms`.
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
    """Inverse discrete cosine transform, along one dimension.

    Args:
        x: real, native complex or ComplexTensor, of any shape with at least one dimension.
        type: 1, 2, 3 or 4, of the transform that this one inverts.
        n: length of the transform. Default: the size of `axis`.
        axis: the dimension to transform.
        norm: "backward", "ortho" or "forward", see `trnfft.real_transforms`.
        orthogonalize: whether the matrix is orthogonal up to a factor. Default: with norm "ortho".

    Returns:
        torch.Tensor of the shape of `x` with `n` in place of `axis`; a ComplexTensor for complex
        `x`.

    Raises:
        TypeError, IndexError, ValueError, RuntimeError, NotImplementedError: see
            `trnfft.real_transforms`.
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
    """Discrete sine transform, along one dimension.

    Args:
        x: real, native complex or ComplexTensor, of any shape with at least one dimension.
        type: 1, 2, 3 or 4.
        n: length of the transform. Default: the size of `axis`.
        axis: the dimension to transform.
        norm: "backward", "ortho" or "forward", see `trnfft.real_transforms`.
        orthogonalize: whether the matrix is orthogonal up to a factor. Default: with norm "ortho".

    Returns:
        torch.Tensor of the shape of `x` with `n` in place of `axis`; a ComplexTensor for complex
        `x`.

    Raises:
        TypeError, IndexError, ValueError, RuntimeError, NotImplementedError: see
            `trnfft.real_transforms`.
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
    """Inverse discrete sine transform, along one dimension.

    Args:
        x: real, native complex or ComplexTensor, of any shape with at least one dimension.
        type: 1, 2, 3 or 4, of the transform that this one inverts.
        n: length of the transform. Default: the size of `axis`.
        axis: the dimension to transform.
        norm: "backward", "ortho" or "forward", see `trnfft.real_transforms`.
        orthogonalize: whether the matrix is orthogonal up to a factor. Default: with norm "ortho".

    Returns:
        torch.Tensor of the shape of `x` with `n` in place of `axis`; a ComplexTensor for complex
        `x`.

    Raises:
        TypeError, IndexError, ValueError, RuntimeError, NotImplementedError: see
            `trnfft.real_transforms`.
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
    """`dct` along several dimensions.

    Args:
        x: real, native complex or ComplexTensor, of any shape with these dimensions.
        type: 1, 2, 3 or 4.
        s: lengths of the transforms. Default: the sizes of `axes`.
        axes: the dimensions to transform. Default: all, or the last ones if `s` is given.
        norm: as for one dimension, with N the product of the logical lengths.
        orthogonalize: as for one dimension.

    Returns:
        torch.Tensor of the shape of `x` with the lengths in place of `axes`; a ComplexTensor for
        complex `x`.

    Raises:
        TypeError, IndexError, ValueError, RuntimeError, NotImplementedError: see
            `trnfft.real_transforms`.
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
    """`idct` along several dimensions.

    Args:
        x: real, native complex or ComplexTensor, of any shape with these dimensions.
        type: 1, 2, 3 or 4, of the transform that this one inverts.
        s: lengths of the transforms. Default: the sizes of `axes`.
        axes: the dimensions to transform. Default: all, or the last ones if `s` is given.
        norm: as for one dimension, with N the product of the logical lengths.
        orthogonalize: as for one dimension.

    Returns:
        torch.Tensor of the shape of `x` with the lengths in place of `axes`; a ComplexTensor for
        complex `x`.

    Raises:
        TypeError, IndexError, ValueError, RuntimeError, NotImplementedError: see
            `trnfft.real_transforms`.
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
    """`dst` along several dimensions.

    Args:
        x: real, native complex or ComplexTensor, of any shape with these dimensions.
        type: 1, 2, 3 or 4.
        s: lengths of the transforms. Default: the sizes of `axes`.
        axes: the dimensions to transform. Default: all, or the last ones if `s` is given.
        norm: as for one dimension, with N the product of the logical lengths.
        orthogonalize: as for one dimension.

    Returns:
        torch.Tensor of the shape of `x` with the lengths in place of `axes`; a ComplexTensor for
        complex `x`.

    Raises:
        TypeError, IndexError, ValueError, RuntimeError, NotImplementedError: see
            `trnfft.real_transforms`.
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
    """`idst` along several dimensions.

    Args:
        x: real, native complex or ComplexTensor, of any shape with these dimensions.
        type: 1, 2, 3 or 4, of the transform that this one inverts.
        s: lengths of the transforms. Default: the sizes of `axes`.
        axes: the dimensions to transform. Default: all, or the last ones if `s` is given.
        norm: as for one dimension, with N the product of the logical lengths.
        orthogonalize: as for one dimension.

    Returns:
        torch.Tensor of the shape of `x` with the lengths in place of `axes`; a ComplexTensor for
        complex `x`.

    Raises:
        TypeError, IndexError, ValueError, RuntimeError, NotImplementedError: see
            `trnfft.real_transforms`.
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
    """A transform along one dimension."""
    x = _prepared(x)
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
    """A transform along several dimensions."""
    x = _prepared(x)
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
    """The transform of these lengths, which the argument `name` has, or of those of the input."""
    if is_sharded(x):
        rest = (type, name, lengths, dims, norm, orthogonalize)
        return of_shards(_transformed, x, dims, kind, *rest)
    type = integer("type", type)
    check_choice("type", type, TYPES)
    if orthogonalize is not None:
        check_flags(orthogonalize=orthogonalize)
    sizes = tuple(x.shape[dim] for dim in dims) if lengths is None else lengths
    # operator.index: torch.compile shall take a symbolic size as it is now, for the tables.
    sizes = tuple(operator.index(n) for n in sizes)
    for n, dim in zip(sizes, dims, strict=True):
        check_length(name, None if lengths is None else n, n, x.shape[dim])
        kind.check_logical_length(type, n, x.device)
    if lengths is not None:
        given = dict(zip(dims, sizes, strict=True))
        shape = [given.get(dim, size) for dim, size in enumerate(x.shape)]
        check_result(name, lengths, shape, x)
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
        real, imag = _resized_and_transformed(torch.stack([x.real, x.imag]), asked)
        return made_of(real, imag, x)
    return _resized_and_transformed(x, asked)


def _resized_and_transformed(x: torch.Tensor, asked: RealTransform) -> torch.Tensor:
    if not asked.dims:
        return x.clone()
    for dim, n in zip(asked.dims, asked.sizes, strict=True):
        if n != x.shape[dim]:  # a negative width of the padding trims
            x = torch.nn.functional.pad(x, (0, 0) * (-dim - 1) + (0, n - x.shape[dim]))
    return transformed(x, asked)


def _prepared(x: Input) -> torch.Tensor | ComplexTensor:
    """`x` with a dtype to compute in."""
    return widened(of_given_kind(floating_point("x", x, DTYPE_ERROR)))
