"""Mixing of tokens by a Fourier transform."""

import torch
from torch import nn

from trnfft.arguments import check_real
from trnfft.transforms import fft2


class FNetMixer(nn.Module):
    """y = Re F_seq(F_hidden(x)): the 2-D Fourier transform in place of self-attention.

    (Lee-Thorp et al., "FNet: mixing tokens with Fourier transforms", 2022.) There are
    no parameters. float16 and bfloat16 are computed in float32.

    Input: real, [B, S, H] or [S, H] with sequences of length S and hidden size H. Output: a real
    tensor of the same shape and dtype.

    Raises:
        TypeError, IndexError, RuntimeError: on call, the input is no tensor, has less than two
            dimensions, or is complex or of integers.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        check_real("input", input)
        if input.ndim < 2:
            raise IndexError(
                f"argument 'input' has shape {tuple(input.shape)}, allowed are [B, S, H] and "
                f"[S, H]; give it dimensions with .reshape"
            )
        mixed = fft2(input).real.to(input.dtype)
        return mixed.clone(memory_format=torch.contiguous_format)  # no view of what nobody has
