"""QR decomposition, eigenvalues of Hermitian matrices and singular values, by reflections.

A Householder reflection H = I - tau v v^H, with v[0] = 1, is unitary, and with LAPACK's choice

    H^H x = beta e1,  beta = -sign(Re x[0]) ||x||  real,  tau = (beta - x[0]) / beta.

Reflections from the left make a matrix triangular: this is QR. Reflections from both sides make a
Hermitian matrix tridiagonal, and any matrix bidiagonal. Because each beta is real, the remaining
matrix is real, and torch computes its eigenvalues and singular values. LAPACK does the same.
"""

from typing import Any, NamedTuple

import torch

from trnfft.complex.dispatch import aten, implements, joined
from trnfft.complex.linear_algebra import identity


class Reflection(NamedTuple):
    """A reflection for each matrix of a batch, of the vectors from element `start` on."""

    start: int
    vector: torch.Tensor  # (..., size - start, 1)
    tau: torch.Tensor  # (..., 1, 1)

    def times(self, x: torch.Tensor, adjoint: bool = False) -> None:
        """Computes H x or H^H x, in place of x."""
        rows = x[..., self.start :, :]
        tau = self.tau.conj() if adjoint else self.tau
        rows -= tau * self.vector @ (self.vector.mH @ rows)

    def after(self, x: torch.Tensor) -> None:
        """Computes x H, in place of x."""
        columns = x[..., self.start :]
        columns -= (columns @ self.vector) @ (self.tau * self.vector.mH)


def _reflection(x: torch.Tensor, start: int) -> Reflection:
    """Returns the reflection that maps vectors x (..., size - start, 1) to multiples of e1."""
    first = x[..., :1, :]
    norm = torch.linalg.vector_norm(x, dim=-2, keepdim=True)
    beta = torch.where(first.real.signbit(), norm, -norm)
    is_done = (torch.linalg.vector_norm(x[..., 1:, :], dim=-2, keepdim=True) == 0) & (
        first.imag == 0
    )
    beta = beta.masked_fill(is_done, 1)
    tau = ((beta - first) / beta).masked_fill(is_done, 0)
    vector = x / (first - beta).masked_fill(is_done, 1)
    vector[..., 0, :].fill_(1)
    return Reflection(start, vector, tau)


def _product(reflections: list[Reflection], x: torch.Tensor) -> torch.Tensor:
    """Computes H0 H1 ... x, in place of x."""
    for reflection in reversed(reflections):
        reflection.times(x)
    return x


# QR


@implements(aten.geqrf.default)
def geqrf(self: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    a = self.clone(memory_format=torch.contiguous_format)
    taus = a.new_zeros(*a.shape[:-2], min(a.shape[-2:]))
    for k in range(taus.shape[-1]):
        reflection = _reflection(a[..., k:, k : k + 1], k)
        reflection.times(a[..., k:], adjoint=True)
        a[..., k + 1 :, k] = reflection.vector[..., 1:, 0]
        taus[..., k] = reflection.tau[..., 0, 0]
    return a, taus


def _reflections(packed: torch.Tensor, taus: torch.Tensor) -> list[Reflection]:
    """Returns the reflections that `geqrf` has written below the diagonal."""
    reflections = []
    for k in range(taus.shape[-1]):
        vector = packed[..., k:, k : k + 1].clone()
        vector[..., 0, :].fill_(1)
        reflections.append(Reflection(k, vector, taus[..., k, None, None]))
    return reflections


@implements(aten.linalg_householder_product.default)
def householder_product(input: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
    return _product(_reflections(input, tau), identity(input, *input.shape[-2:]))


@implements(aten.ormqr.default)
def ormqr(
    self: torch.Tensor,
    input2: torch.Tensor,
    input3: Any,
    left: bool = True,
    transpose: bool = False,
) -> torch.Tensor:
    if not left:
        return ormqr(self, input2, input3.mH, True, not transpose).mH.contiguous()
    x = input3.clone(memory_format=torch.contiguous_format)
    reflections = _reflections(self, input2)
    if not transpose:
        return _product(reflections, x)
    for reflection in reflections:
        reflection.times(x, adjoint=True)
    return x


@implements(aten.linalg_qr.default)
def qr(A: torch.Tensor, mode: str = "reduced") -> tuple[torch.Tensor, torch.Tensor]:
    packed, taus = geqrf(A)
    rows, columns = A.shape[-2:]
    size = rows if mode == "complete" else min(rows, columns)
    triangle = packed[..., :size, :].triu()
    if mode == "r":
        return A.new_empty(0), triangle
    return _product(_reflections(packed, taus), identity(A, rows, size)), triangle


# Eigenvalues and singular values


@implements(aten._linalg_eigh.default)
def eigh(
    A: torch.Tensor, UPLO: str = "L", compute_v: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns eigenvalues and vectors of the Hermitian matrix of which A holds one triangle."""
    lower = A.tril(-1) if UPLO.upper() == "L" else A.triu(1).mH
    diagonal = A.diagonal(dim1=-2, dim2=-1).real
    a = lower + lower.mH + torch.diag_embed(diagonal)
    reflections = []
    for k in range(a.shape[-1] - 1):
        reflection = _reflection(a[..., k + 1 :, k : k + 1], k + 1)
        reflection.times(a, adjoint=True)
        reflection.after(a)
        reflections.append(reflection)
    tridiagonal = a.real.tril(1).triu(-1)
    if not compute_v:
        return torch.linalg.eigvalsh(tridiagonal), A.new_empty(0)
    values, vectors = torch.linalg.eigh(tridiagonal)
    return values, _product(reflections, _of_real(vectors))


def _of_real(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    return joined(x, torch.zeros_like(x))


@implements(aten._linalg_svd.default)
def svd(
    A: torch.Tensor,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: str | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rows, columns = A.shape[-2:]
    if rows < columns:
        u, values, vh = svd(A.mH, full_matrices, compute_uv)
        return (vh.mH.contiguous(), values, u.mH.contiguous()) if compute_uv else (u, values, vh)
    a = A.clone(memory_format=torch.contiguous_format)
    left, right = _make_bidiagonal(a)
    bidiagonal = a.real[..., :columns, :].triu().tril(1)
    if not compute_uv:
        return A.new_empty(0), torch.linalg.svdvals(bidiagonal), A.new_empty(0)
    real_u, values, real_vh = torch.linalg.svd(bidiagonal)
    u = identity(A, rows, rows if full_matrices else columns)
    u[..., :columns, :columns] = real_u
    return _product(left, u), values, _product(right, _of_real(real_vh.mT)).mH.contiguous()


def _make_bidiagonal(a: torch.Tensor) -> tuple[list[Reflection], list[Reflection]]:
    """Applies reflections to a, with rows >= columns; returns those from the left and the right."""
    left, right = [], []
    for k in range(a.shape[-1]):
        left.append(_reflection(a[..., k:, k : k + 1], k))
        left[-1].times(a, adjoint=True)
        if k + 1 < a.shape[-1]:
            right.append(_reflection(a[..., k : k + 1, k + 1 :].mH, k + 1))
            right[-1].after(a)
    return left, right


@implements(aten.linalg_pinv.atol_rtol_tensor)
def pinv(
    self: torch.Tensor, *, atol: Any = None, rtol: Any = None, hermitian: bool = False
) -> torch.Tensor:
    rows, columns = self.shape[-2:]
    if hermitian:
        values, vectors = eigh(self)
        left, right = vectors, vectors.mH
    else:
        u, values, vh = svd(self)
        left, right = vh.mH, u.mH
    sizes = values.abs()
    if rtol is None:
        default = torch.finfo(values.dtype).eps * max(rows, columns)
        rtol = values.new_tensor(default if atol is None else 0.0)
        if atol is not None:
            rtol = torch.where(atol > 0, 0.0, default).to(values.dtype)
    atol = values.new_zeros(()) if atol is None else atol
    largest = sizes.amax(-1) if sizes.shape[-1] else values.new_zeros(values.shape[:-1])
    bound = torch.maximum(atol, rtol * largest)[..., None]
    inverses = torch.where(sizes > bound, 1 / values, 0.0)
    return (left * inverses[..., None, :]) @ right
