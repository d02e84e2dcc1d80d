"""A layer that mixes tokens by a Fourier transform."""

import torch
from torch import nn

from trnfft.functions.arguments import check_real
from trnfft.functions.fft import fft2
from trnfft.ops.operand import operand_of
from trnfft.ops.real_fft2 import real_fft2, takes


class FNetMixer(nn.Module):
    """Computes y = Re F_seq(F_hidden(x)), a 2-D Fourier transform in place of self-attention.

    (Lee-Thorp et al., "FNet: mixing tokens with Fourier transforms", 2022.) It has no parameters.
    float16 and bfloat16 are computed in float32. It is the real part of `torch.fft.fft2`. On
    backends with NKI kernels it is one launch, where the planner says so. See `docs/layers.md`.

    Input: a real tensor of shape [B, S, H] or [S, H], with sequences of length S and hidden size H.
    Output: a real tensor of the same shape and dtype.

    Raises:
        IndexError: the input of a call has fewer than two dimensions.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.nn.FNetMixer()(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[10., -2.],
                [-4.,  0.]])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        check_real("input", input)
        if input.ndim < 2:
            raise IndexError(
                f"argument 'input' has shape {tuple(input.shape)}, allowed are [B, S, H] and "
                f"[S, H]; give it dimensions with .reshape"
            )
        x = operand_of(input)
        if takes(x):
            return real_fft2(x.of(input.float())).to(input.dtype)
        mixed = fft2(input).real.to(input.dtype)
        return mixed.clone(memory_format=torch.contiguous_format)  # frees the imaginary part
