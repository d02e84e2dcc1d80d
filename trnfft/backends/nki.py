"""Transforms by the NKI kernels, in the CPU simulator of a NeuronCore."""

import numpy as np
import torch

from nki_kernels import simulator
from nki_kernels.dft_gemm import MAX_LENGTH, dft_gemm
from trnfft.planner import tables


def c2c_simulated(
    real: torch.Tensor, imag: torch.Tensor, inverse: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `trnfft.ops.c2c`, for float32 and N <= 256, outside autograd.

    Raises:
        TypeError: the parts are not float32.
        NotImplementedError: N > 256.
    """
    if real.dtype != torch.float32:
        raise TypeError(
            f"argument 'input' has {real.dtype} parts, backend \"nki-sim\" allows torch.float32: "
            f"the NeuronCore has no float64; use input.float(), for a complex tensor "
            f'input.to(torch.complex64), or trnfft.set_backend("torch")'
        )
    length = real.shape[-1]
    if length > MAX_LENGTH:
        raise NotImplementedError(
            f'the transform has length N = {length}, backend "nki-sim" allows at most '
            f'{MAX_LENGTH}; use trnfft.set_backend("auto")'
        )
    matrix = tables.dft_matrix(length, inverse, scale)
    y_real, y_imag = simulator.simulate(dft_gemm)(_rows(real), _rows(imag), matrix)
    return _like(real, y_real), _like(imag, y_imag)


def _rows(x: torch.Tensor) -> np.ndarray:
    """[..., N] to a contiguous NumPy array [B, N]."""
    rows = x.detach().resolve_neg().reshape(-1, x.shape[-1])
    return rows.cpu().contiguous().numpy()


def _like(x: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
    """[B, N] back to the shape and the device of `x`."""
    return torch.from_numpy(rows).reshape(x.shape).to(x.device)
