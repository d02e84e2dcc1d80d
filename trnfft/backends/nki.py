"""Transforms by the NKI kernels: on a NeuronCore, or in the CPU simulator of one."""

from typing import Any

import numpy as np
import torch

from nki_kernels import simulator
from trnfft.config import NEURON_DEVICES
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.planner import plan

_uploaded: dict[Any, Any] = {}  # tables on devices, once a plan


def c2c_simulated(
    real: torch.Tensor, imag: torch.Tensor, inverse: bool, scale: float, precision: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `trnfft.ops.c2c`, for float32, by the plan for this length and batch, outside autograd.

    Raises:
        TypeError: the parts are not float32.
        NotImplementedError: no kernel can do the length with this precision.
    """
    _check_float32(real, "nki-sim")
    x_real, x_imag = _rows(real), _rows(imag)
    batch, length = x_real.shape
    recipe = plan(length, batch=batch, inverse=inverse, precision=precision).recipe
    algorithm = ALGORITHMS[recipe.algorithm]
    arguments = algorithm.arguments(recipe, inverse, scale)
    y_real, y_imag = simulator.simulate(algorithm.kernel)(x_real, x_imag, *arguments)
    return _like(real, y_real), _like(imag, y_imag)


def c2c(
    real: torch.Tensor, imag: torch.Tensor, inverse: bool, scale: float, precision: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `c2c_simulated`, on the NeuronCore of an XLA or Neuron device.

    Raises:
        RuntimeError: the tensors are on another device.
        TypeError, NotImplementedError: as `c2c_simulated`.
    """
    if real.device.type not in NEURON_DEVICES:
        raise RuntimeError(
            f"argument 'input' is on device '{real.device}', backend \"nki\" allows "
            f'{", ".join(NEURON_DEVICES)}; move it with .to("xla"), or use backend "nki-sim"'
        )
    _check_float32(real, "nki")
    n = real.shape[-1]
    x = real.reshape(-1, n).contiguous(), imag.reshape(-1, n).contiguous()
    recipe = plan(n, batch=x[0].shape[0], inverse=inverse, precision=precision).recipe
    algorithm = ALGORITHMS[recipe.algorithm]
    key = (recipe, inverse, scale, real.device)
    if key not in _uploaded:
        _uploaded[key] = _on_device(algorithm.arguments(recipe, inverse, scale), real.device)
    y_real, y_imag = algorithm.kernel(*x, *_uploaded[key])
    return y_real.reshape(real.shape), y_imag.reshape(imag.shape)


def _on_device(tables: Any, device: torch.device) -> Any:
    """Nested tuples with tensors on the device in place of the arrays."""
    if isinstance(tables, tuple):
        return tuple(_on_device(item, device) for item in tables)
    return torch.tensor(tables).to(device) if isinstance(tables, np.ndarray) else tables


def _check_float32(real: torch.Tensor, backend: str) -> None:
    if real.dtype != torch.float32:
        raise TypeError(
            f"argument 'input' has {real.dtype} parts, backend \"{backend}\" allows "
            f"torch.float32: the NeuronCore has no float64; use input.float(), for a complex "
            f'tensor input.to(torch.complex64), or trnfft.set_backend("matmul")'
        )


def _rows(x: torch.Tensor) -> np.ndarray:
    """[..., N] to a contiguous NumPy array [B, N]."""
    rows = x.detach().resolve_neg().reshape(-1, x.shape[-1])
    return rows.cpu().contiguous().numpy()


def _like(x: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
    """[B, N] back to the shape and the device of `x`."""
    return torch.from_numpy(rows).reshape(x.shape).to(x.device)
