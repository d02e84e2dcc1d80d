"""Systems of equations: triangular ones, LU and Cholesky decompositions and what follows from them.

The algorithms are LAPACK's without blocks, one column at a time, on ComplexTensors: about ten
operations of whole matrices for each column. Pivots are chosen as in LAPACK, which compares |a| +
|b|. Everything that torch computes from a decomposition, and the derivatives, follow.

The exponential is that of a real matrix of twice the size: replacing A + iB by [[A, -B], [B, A]]
maps sums to sums and products to products.

The host computes eigenvalues of matrices that are not Hermitian, least squares and LDL
decompositions. Their algorithms are not written here: LAPACK's iterate until the numbers converge,
or take another step for other numbers, and the program would wait for the device each time.
"""

from typing import Any

import torch

from trnfft.complex.dispatch import TABLE, Parts, aten, both, implements, joined
from trnfft.complex.on_the_host import below_autograd
from trnfft.complex.shape import conj

# PyTorch-XLA copies a tensor where torch conjugates it lazily.
implements(aten._conj_copy.default)(conj)

# Triangular systems


@implements(aten.linalg_solve_triangular.default)
def solve_triangular(
    self: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> torch.Tensor:
    if not left:
        return solve_triangular(
            self.mT, B.mT, upper=not upper, unitriangular=unitriangular
        ).mT.contiguous()
    batch = torch.broadcast_shapes(self.shape[:-2], B.shape[:-2])
    matrix = self.expand(*batch, *self.shape[-2:])
    B = B.expand(*batch, *B.shape[-2:])
    if not upper:
        return _forward(matrix, B, unitriangular)
    return _forward(matrix.flip(-2, -1), B.flip(-2), unitriangular).flip(-2)


def _forward(lower: Any, b: Any, is_unit: bool) -> Any:
    """Solves for the first half of the unknowns, then the second, by products and quotients."""
    size = lower.shape[-1]
    if size <= 1:
        return b.clone() if is_unit or not size else b / lower
    half = size // 2
    first = _forward(lower[..., :half, :half], b[..., :half, :], is_unit)
    rest = b[..., half:, :] - lower[..., half:, :half] @ first
    return torch.cat([first, _forward(lower[..., half:, half:], rest, is_unit)], dim=-2)


@implements(aten.triangular_solve.default)
def triangular_solve_old(
    self: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    matrix = A.mT if transpose else A
    solution = solve_triangular(matrix, self, upper=upper != transpose, unitriangular=unitriangular)
    return solution, A.expand(*solution.shape[:-2], *A.shape[-2:]).clone()


# LU


@implements(aten.linalg_lu_factor_ex.default)
def lu_factor_ex(
    A: torch.Tensor, *, pivot: bool = True, check_errors: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if not pivot:
        raise NotImplementedError(
            "argument 'pivot' is False, allowed is True for a ComplexTensor: torch has an LU "
            "decomposition without pivots on CUDA devices only"
        )
    lu = A.clone(memory_format=torch.contiguous_format)
    rows, columns = lu.shape[-2:]
    pivots, info = [], _zeros(lu.shape[:-2], lu, torch.int32)
    for k in range(min(rows, columns)):
        below = lu[..., k:, k]
        chosen = k + (both(below).real.abs() + both(below).imag.abs()).argmax(-1)
        pivots.append(chosen + 1)
        lu = _with_rows_swapped(lu, k, chosen)
        value = lu[..., k, k]
        is_zero = value == 0
        info = torch.where((info == 0) & is_zero, k + 1, info)
        factors = lu[..., k + 1 :, k] / value.masked_fill(is_zero, 1)[..., None]
        lu[..., k + 1 :, k] = factors
        lu[..., k + 1 :, k + 1 :] -= factors[..., None] * lu[..., k, None, k + 1 :]
    _check(info, "torch.linalg.lu_factor_ex", check_errors)
    if not pivots:
        return lu, _zeros((*lu.shape[:-2], 0), lu, torch.int32), info.to(torch.int32)
    return lu, torch.stack(pivots, dim=-1).to(torch.int32), info.to(torch.int32)


def _with_rows_swapped(x: torch.Tensor, k: int, chosen: torch.Tensor) -> torch.Tensor:
    order = torch.arange(x.shape[-2], device=x.device).expand(*chosen.shape, -1)
    order = order.where(order != chosen[..., None], k).clone()
    order[..., k] = chosen
    return _rows(x, order)


def _rows(x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    batch = torch.broadcast_shapes(x.shape[:-2], order.shape[:-1])
    index = order[..., None].expand(*batch, x.shape[-2], x.shape[-1])
    return x.expand(*batch, *x.shape[-2:]).gather(-2, index)


def _zeros(shape: Any, like: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype, device=like.device)


def _check(info: torch.Tensor, name: str, wanted: bool) -> None:
    if wanted:
        aten._linalg_check_errors(info, name, is_matrix=not info.ndim)


def identity(like: torch.Tensor, rows: int, columns: int | None = None) -> torch.Tensor:
    columns = rows if columns is None else columns
    eye = torch.eye(rows, columns, dtype=both(like).real.dtype, device=like.device)
    eye = eye.expand(*like.shape[:-2], rows, columns).contiguous()
    return joined(eye, torch.zeros_like(eye))


@implements(aten.lu_unpack.default)
def lu_unpack(
    LU_data: torch.Tensor,
    LU_pivots: torch.Tensor,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rows, columns = LU_data.shape[-2:]
    size = min(rows, columns)
    permutation, lower, upper = (LU_data.new_empty(0) for _ in range(3))
    if unpack_pivots:
        real = aten.lu_unpack(both(LU_data).real, LU_pivots, False, True)[0]
        permutation = joined(real, torch.zeros_like(real))
    if unpack_data:
        lower = LU_data[..., :, :size].tril(-1) + identity(LU_data, rows, size)
        upper = LU_data[..., :size, :].triu()
    return permutation, lower, upper


@implements(aten.linalg_lu.default)
def lu(A: torch.Tensor, *, pivot: bool = True) -> tuple[torch.Tensor, ...]:
    factors, pivots, _ = lu_factor_ex(A, pivot=pivot)
    return lu_unpack(factors, pivots)


@implements(aten.linalg_lu_solve.default)
def lu_solve(
    LU: torch.Tensor, pivots: torch.Tensor, B: Any, *, left: bool = True, adjoint: bool = False
) -> torch.Tensor:
    if not left:
        return lu_solve(LU, pivots, B.mH, adjoint=not adjoint).mH.contiguous()
    if not LU.numel():
        return B.expand(*torch.broadcast_shapes(LU.shape[:-2], B.shape[:-2]), *B.shape[-2:]).clone()
    # A = P L U, so that row i of P^T B is row order[i] of B.
    order = aten.lu_unpack(both(LU).real, pivots, False, True)[0].argmax(-2)
    if adjoint:
        x = solve_triangular(LU.mH, B, upper=False)
        x = solve_triangular(LU.mH, x, upper=True, unitriangular=True)
        return _rows(x, order.argsort(-1))
    x = solve_triangular(LU, _rows(B, order), upper=False, unitriangular=True)
    return solve_triangular(LU, x, upper=True)


@implements(aten._linalg_solve_ex.default)
def solve_ex(
    A: Any, B: Any, *, left: bool = True, check_errors: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    A, B = joined(*both(A)), joined(*both(B))
    factors, pivots, info = lu_factor_ex(A)
    _check(info, "torch.linalg.solve_ex", check_errors)
    is_vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1])
    solution = lu_solve(factors, pivots, B[..., None] if is_vector else B, left=left)
    return solution[..., 0] if is_vector else solution, factors, pivots, info


@implements(aten.linalg_inv_ex.default)
def inv_ex(A: torch.Tensor, *, check_errors: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    factors, pivots, info = lu_factor_ex(A)
    _check(info, "torch.linalg.inv_ex", check_errors)
    return lu_solve(factors, pivots, identity(A, A.shape[-1])), info


@implements(aten._linalg_det.default)
def det(A: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    factors, pivots, _ = lu_factor_ex(A)
    diagonal = factors.diagonal(dim1=-2, dim2=-1)
    return diagonal.prod(-1) * sign_of_pivots(pivots), factors, pivots


@implements(aten._linalg_slogdet.default)
def slogdet(A: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    factors, pivots, _ = lu_factor_ex(A)
    diagonal = factors.diagonal(dim1=-2, dim2=-1)
    return (
        diagonal.sgn().prod(-1) * sign_of_pivots(pivots),
        diagonal.abs().log().sum(-1),
        factors,
        pivots,
    )


def sign_of_pivots(pivots: torch.Tensor) -> torch.Tensor:
    """Returns 1 after an even number of swaps, and -1 after an odd number."""
    places = torch.arange(1, pivots.shape[-1] + 1, device=pivots.device)
    return 1 - 2 * ((pivots != places).sum(-1) % 2)


# Cholesky


@implements(aten.linalg_cholesky_ex.default)
def cholesky_ex(
    self: torch.Tensor, *, upper: bool = False, check_errors: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    rest = (self.mH if upper else self).clone(memory_format=torch.contiguous_format)
    size = rest.shape[-1]
    factor = torch.zeros_like(rest)
    info = _zeros(rest.shape[:-2], rest, torch.int32)
    for k in range(size):
        pivot = rest[..., k, k].real
        info = torch.where((info == 0) & ~(pivot > 0), k + 1, info)
        column = rest[..., k:, k] / pivot.sqrt()[..., None]
        column[..., 0] = pivot.sqrt()
        factor[..., k:, k] = column
        below = column[..., 1:]
        rest[..., k + 1 :, k + 1 :] -= below[..., None] * below[..., None, :].conj()
    _check(info, "torch.linalg.cholesky_ex", check_errors)
    return (factor.mH.contiguous() if upper else factor), info.to(torch.int32)


def cholesky_old(self: torch.Tensor, upper: bool = False) -> torch.Tensor:
    factor, info = cholesky_ex(self, upper=upper)
    _check(info, "cholesky", True)
    return factor


if hasattr(aten, "cholesky"):  # torch 2.14 no longer has torch.cholesky
    implements(aten.cholesky.default)(cholesky_old)


@implements(aten.cholesky_solve.default)
def cholesky_solve(self: Any, input2: Any, upper: bool = False) -> torch.Tensor:
    lower = input2.mH if upper else input2
    x = solve_triangular(lower, self, upper=False)
    return solve_triangular(lower.mH, x, upper=True)


@implements(aten.cholesky_inverse.default)
def cholesky_inverse(self: torch.Tensor, upper: bool = False) -> torch.Tensor:
    return cholesky_solve(identity(self, self.shape[-1]), self, upper)


# Functions of matrices


@implements(aten.linalg_matrix_exp.default)
def matrix_exp(self: torch.Tensor) -> torch.Tensor:
    return joined(*complex_matrix_exp(both(self)))


def complex_matrix_exp(z: Parts) -> Parts:
    a, b = z
    size = a.shape[-1]
    rows = [torch.cat([a, -b], dim=-1), torch.cat([b, a], dim=-1)]
    exponential = torch.linalg.matrix_exp(torch.cat(rows, dim=-2))[..., :size]
    return Parts(exponential[..., :size, :], exponential[..., size:, :])


# On the host

for _overload, _name in (
    (aten.linalg_eig.default, "torch.linalg.eig"),
    (aten._linalg_eigvals.default, "torch.linalg.eigvals"),
    (aten.linalg_ldl_factor_ex.default, "torch.linalg.ldl_factor"),
    (aten.linalg_ldl_solve.default, "torch.linalg.ldl_solve"),
    (aten.linalg_lstsq.default, "torch.linalg.lstsq"),
):
    TABLE[_overload] = below_autograd(_overload, _name)
