"""Products with block circulant matrices, by transforms: what BlockCirculantLinear computes.

    y_i = sum_j w_ij * x_j = F^-1 (sum_j F w_ij . F x_j)        * circular, for blocks of k numbers

Three things keep the number of transforms low (Dong, "Exploring GPU acceleration of DNNs using
block circulant matrices", 2020): sums are taken between transforms, one inverse for each block of
the result; the derivatives take conjugate spectra where the formula has reversed blocks; and they
take the spectra that the forward direction made, which are kept in place of x and w.

    dx_j = F^-1 (sum_i conj F w_ij . F dy_i)      dw_ij = F^-1 (sum_b conj F x_bj . F dy_bi)

A matrix [rows, blocks k] of real numbers has the spectra [blocks, 2, k // 2 + 1, rows]: for every
block real and imaginary parts, frequency by frequency.
"""

from typing import Any

import torch

from trnfft import ops
from trnfft.complex_tensor import ComplexTensor
from trnfft.transforms import irfft, rfft


def block_circulant_product(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Rows times a block circulant matrix, plus a bias. Differentiable, twice, too.

    Args:
        x: float32 or float64, [B, q k].
        weight: [p, q, k]: for each pair of blocks the first column of a circulant matrix.
        bias: [p k], or None.

    Returns:
        [B, p k].
    """
    return _Product.apply(x, weight, bias)[0]


def saved_bytes(rows: int, blocks_in: int, blocks_out: int, k: int, itemsize: int = 4) -> int:
    """Bytes that a product keeps for its derivatives: the spectra of x and of the weight."""
    return 2 * (k // 2 + 1) * blocks_in * (rows + blocks_out) * itemsize


def spectra_of(matrix: torch.Tensor, k: int) -> torch.Tensor:
    """Spectra [blocks, 2, k // 2 + 1, rows] of a real matrix [rows, blocks k]."""
    spectra = rfft(matrix.unflatten(-1, (-1, k)))
    parts = [part.permute(1, 2, 0) for part in (spectra.real, spectra.imag)]
    return torch.stack(parts, 1)


def matrix_of(spectra: torch.Tensor, k: int) -> torch.Tensor:
    """The inverse of `spectra_of`."""
    return irfft(_complex(spectra).permute(2, 0, 1), k).flatten(1)


class _Product(torch.autograd.Function):
    """The product and both spectra, which are results so that derivatives of derivatives exist."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> tuple[torch.Tensor, ...]:
        k = weight.shape[-1]
        x_spectra, w_spectra = spectra_of(x, k), spectra_of(weight.flatten(1), k)
        y = matrix_of(_mixed("jfi,jfb->ifb", w_spectra, x_spectra), k)
        return (y if bias is None else y + bias), x_spectra, w_spectra

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        _, weight, _ = inputs
        _, x_spectra, w_spectra = output
        ctx.shape = weight.shape
        by_x, by_weight = ctx.needs_input_grad[:2]
        ctx.save_for_backward(x_spectra if by_weight else None, w_spectra if by_x else None)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Any, of_x: Any, of_w: Any) -> tuple[Any, ...]:  # type: ignore[override]
        x_spectra, w_spectra = ctx.saved_tensors
        k = ctx.shape[-1]
        by_x = by_weight = by_bias = None
        if grad is not None:
            spectra = spectra_of(grad, k)
            if ctx.needs_input_grad[0]:
                by_x = matrix_of(_mixed("jfi,ifb->jfb", w_spectra, spectra, True), k)
            if ctx.needs_input_grad[1]:
                by_weight = matrix_of(_mixed("jfb,ifb->jfi", x_spectra, spectra, True), k)
            if ctx.needs_input_grad[2]:
                by_bias = grad.sum(0)
        if of_x is not None:
            by_x = _sum(by_x, _derivative_of_spectra(of_x, k))
        if of_w is not None:
            by_weight = _sum(by_weight, _derivative_of_spectra(of_w, k))
        return by_x, None if by_weight is None else by_weight.view(ctx.shape), by_bias


def _complex(spectra: torch.Tensor) -> ComplexTensor:
    return ComplexTensor(spectra[:, 0], spectra[:, 1])


def _mixed(sum: str, x: torch.Tensor, y: torch.Tensor, conj: bool = False) -> torch.Tensor:
    """Products of spectra, or of the conjugate of x and y, summed over blocks or rows."""
    first = _complex(x).conj() if conj else _complex(x)
    product = torch.einsum(sum, first, _complex(y))
    return torch.stack([product.real, product.imag], 1)


def _derivative_of_spectra(grad: torch.Tensor, k: int) -> torch.Tensor:
    """What `spectra_of` makes of a gradient of its result. Of the second derivative only."""
    return matrix_of(grad * (k * ops._interior(grad, k, 0.5))[:, None], k)


def _sum(x: torch.Tensor | None, y: torch.Tensor) -> torch.Tensor:
    return y if x is None else x + y
