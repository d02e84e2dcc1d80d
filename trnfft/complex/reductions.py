"""Functions that make one number of many, named as in torch: products, variances and norms."""

from collections.abc import Iterable
from typing import Any

import torch

from trnfft.complex.creation import full_like
from trnfft.complex.tensor import ComplexTensor, dtype_of_parts


def prod(
    input: ComplexTensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> ComplexTensor:
    """By products of halves: log2(size) roundings, and gradients that are exact at zeros."""
    input = input if dtype is None else input.to(dtype)
    x = input.reshape(-1) if dim is None else input.movedim(dim, -1)
    while (size := x.shape[-1]) > 1:
        product = x[..., : size // 2] * x[..., size // 2 : size // 2 * 2]
        x = torch.cat([product, x[..., size // 2 * 2 :]], dim=-1)  # type: ignore[list-item]
    x = x[..., 0] if x.shape[-1] else full_like(x.sum(-1), 1)
    return x.unsqueeze(dim) if keepdim else x


def var(input: ComplexTensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return torch.var(input.real, *args, **kwargs) + torch.var(input.imag, *args, **kwargs)


def std(input: ComplexTensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return torch.sqrt(var(input, *args, **kwargs))


def norm(
    input: ComplexTensor,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    out: torch.Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    _check_norm("p", p, is_matrix=False)
    return torch.norm(input.abs(), p, dim, keepdim, out, dtype_of_parts(dtype))


def linalg_norm(
    A: ComplexTensor,
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    dims = range(A.ndim) if dim is None else dim
    _check_norm("ord", ord, is_matrix=isinstance(dims, Iterable) and len(list(dims)) == 2)
    return torch.linalg.norm(A.abs(), ord, dim, keepdim, dtype=dtype_of_parts(dtype))


def vector_norm(
    x: ComplexTensor,
    ord: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    return torch.linalg.vector_norm(x.abs(), ord, dim, keepdim, dtype=dtype_of_parts(dtype))


def _check_norm(name: str, order: Any, is_matrix: bool) -> None:
    if order == "nuc" or (is_matrix and order in (2, -2)):
        raise TypeError(
            f"argument '{name}' is {order!r}, a norm of singular values, which ComplexTensor has "
            f"not; allowed are the norms of absolute values; call it on x.to_complex()"
        )
