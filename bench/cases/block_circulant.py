"""Products with block circulant matrices, and a training step: the product and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from bench.cases.case import Arrays, Case, real
from trnfft.ops.block_circulant import block_circulant_product
from trnfft.ops.operand import operand_of
from trnfft.planner.kinds import BlockCirculant
from trnfft.planner.planner import plan_for

# The shapes (p, q, k) of weights, for q k input and p k output features, each with its number of
# rows.
WEIGHTS = {(16, 16, 64): 128, (64, 64, 64): 32}


def product(x: Any, weight: Any, grad: Any) -> Any:
    return block_circulant_product(operand_of(x), weight)


def step(x: Any, weight: Any, grad: Any) -> Any:
    """Returns the product, and the gradients of the rows and of the weight."""
    x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
    y = block_circulant_product(operand_of(x), weight)
    return (y.detach(), *torch.autograd.grad(y, (x, weight), grad))


def spectra(x: np.ndarray, k: int) -> np.ndarray:
    """Returns the spectra [rows, blocks, frequencies] of x [rows, blocks k]."""
    return np.fft.rfft(x.reshape(len(x), -1, k))


def rows_of(spectra: np.ndarray, k: int) -> np.ndarray:
    return np.fft.irfft(spectra, k).reshape(len(spectra), -1)


def exact_product(x: np.ndarray, weight: np.ndarray, grad: np.ndarray) -> np.ndarray:
    k = weight.shape[-1]
    return rows_of(np.einsum("bjf,ijf->bif", spectra(x, k), np.fft.rfft(weight)), k)


def exact_step(x: np.ndarray, weight: np.ndarray, grad: np.ndarray) -> Arrays:
    k = weight.shape[-1]
    of_x, of_weight, of_grad = spectra(x, k), np.fft.rfft(weight), spectra(grad, k)
    by_x = np.einsum("bif,ijf->bjf", of_grad, of_weight.conj())
    by_weight = np.einsum("bif,bjf->ijf", of_grad, of_x.conj())
    return exact_product(x, weight, grad), rows_of(by_x, k), np.fft.irfft(by_weight, k)


def case(weight: tuple[int, int, int], rows: int, is_step: bool) -> Case:
    """Returns a product; its inputs are rows, the weight, and the gradient of the result."""
    p, q, k = weight
    return Case(
        operation="block_circulant",
        name=f"{'step' if is_step else 'product'} {q * k} -> {p * k}, blocks of {k}",
        shape=weight,
        batch=rows,
        inputs=lambda rng: (real(rng, rows, q * k), real(rng, *weight), real(rng, rows, p * k)),
        call=step if is_step else product,
        reference=exact_step if is_step else exact_product,
        candidate=None if is_step else lambda: plan_for(BlockCirculant(*weight), batch=rows).choice,
    )


CASES = tuple(case(*item, is_step) for is_step in (False, True) for item in WEIGHTS.items())
