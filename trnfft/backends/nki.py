"""Transforms by the NKI kernels, in the CPU simulator of a NeuronCore."""

import numpy as np
import torch

from nki_kernels import simulator
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.planner import plan


def c2c_simulated(
    real: torch.Tensor, imag: torch.Tensor, inverse: bool, scale: float, precision: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `trnfft.ops.c2c`, for float32, by the plan for this length and batch, outside autograd.

    Raises:
        TypeError: the parts are not float32.
        NotImplementedError: no kernel can do the length with this precision.
    """
    if real.dtype != torch.float32:
        raise TypeError(
            f"argument 'input' has {real.dtype} parts, backend \"nki-sim\" allows torch.float32: "
            f"the NeuronCore has no float64; use input.float(), for a complex tensor "
            f'input.to(torch.complex64), or trnfft.set_backend("torch")'
        )
    x_real, x_imag = _rows(real), _rows(imag)
    batch, length = x_real.shape
    recipe = plan(length, batch=batch, inverse=inverse, precision=precision).recipe
    algorithm = ALGORITHMS[recipe.algorithm]
    arguments = algorithm.arguments(recipe, inverse, scale)
    y_real, y_imag = simulator.simulate(algorithm.kernel)(x_real, x_imag, *arguments)
    return _like(real, y_real), _like(imag, y_imag)


def _rows(x: torch.Tensor) -> np.ndarray:
    """[..., N] to a contiguous NumPy array [B, N]."""
    rows = x.detach().resolve_neg().reshape(-1, x.shape[-1])
    return rows.cpu().contiguous().numpy()


def _like(x: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
    """[B, N] back to the shape and the device of `x`."""
    return torch.from_numpy(rows).reshape(x.shape).to(x.device)
