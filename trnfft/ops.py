"""The operator that all transforms are made of, and the choice of the backend that runs it."""

from typing import Any

import torch

from trnfft import config
from trnfft.backends import torch_native

COMPLEX_DEVICES = ("cpu", "cuda", "meta")


def c2c(
    real: torch.Tensor, imag: torch.Tensor, inverse: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Discrete Fourier transform of split complex data along the last dimension. Differentiable.

    Args:
        real: real part, float32 or float64, [..., N].
        imag: imaginary part, the same shape, dtype and device.
        inverse: the sign of the exponent: False for exp(-2 pi i j k / N), True for exp(+ ...).
        scale: a factor on the result.

    Returns:
        Real and imaginary part of the result, with the shape and dtype of the input.

    Raises:
        RuntimeError: the backend is "auto" and the device has no complex dtypes.
        TypeError, NotImplementedError: the backend lacks the dtype, the length or the precision.
    """
    if real.numel() == 0:  # Nothing to compute, and MKL rejects an empty batch.
        return real.clone(), imag.clone()
    precision = config.get_precision()
    if precision == "double":
        return torch_native.c2c_double(real, imag, inverse, scale)
    if _backend_for(real.device) == "nki-sim":
        return _SimulatedC2C.apply(real, imag, inverse, scale, precision)
    if precision == "kahan":  # torch.fft has no compensated sums, but float64
        return torch_native.c2c_double(real, imag, inverse, scale)
    return torch_native.c2c(real, imag, inverse, scale)


def _backend_for(device: torch.device) -> str:
    name = config.get_backend()
    if name != "auto":
        return name
    if device.type not in COMPLEX_DEVICES:
        raise RuntimeError(
            f"argument 'input' is on device '{device}', for which backend \"auto\" knows no "
            f"transform, allowed are {', '.join(COMPLEX_DEVICES)}; move it with .to('cpu'), or "
            f'use trnfft.set_backend("torch") if the device has complex dtypes, or '
            f'trnfft.set_backend("nki-sim") for the simulator'
        )
    return "torch"


class _SimulatedC2C(torch.autograd.Function):
    """c2c in the simulator, which autograd cannot look into.

    Y = scale F x with F symmetric, so the gradient is scale conj(F) g: the same transform with
    the opposite sign. It is this Function again, hence differentiable any number of times.
    """

    @staticmethod
    def forward(
        real: torch.Tensor, imag: torch.Tensor, inverse: bool, scale: float, precision: str
    ) -> tuple[torch.Tensor, torch.Tensor]:
        from trnfft.backends import nki  # here, so that only its users load the simulator

        return nki.c2c_simulated(real, imag, inverse, scale, precision)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.inverse, ctx.scale, ctx.precision = inputs[2:]

    @staticmethod
    def backward(
        ctx: Any, grad_real: torch.Tensor, grad_imag: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, None, None, None]:
        real, imag = _SimulatedC2C.apply(
            grad_real, grad_imag, not ctx.inverse, ctx.scale, ctx.precision
        )
        return real, imag, None, None, None
