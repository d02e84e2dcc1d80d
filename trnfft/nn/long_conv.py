"""Convolutions with filters as long as the signal, as in Hyena and its like."""

import torch
from torch import nn

from trnfft.arguments import check_device, check_real
from trnfft.convolution.convolve import convolve
from trnfft.ops.sharded import is_split, of_shards


class LongConv(nn.Module):
    """A causal convolution of each channel with a filter of its own, which the model computes.

        y[b, h, l] = sum_m k[h, m] u[b, h, l - m],  0 <= m <= l

    For a sequence of L points this is FlashFFTConv(2 * L) of Fu et al., "FlashFFTConv: efficient
    convolutions for long sequences with tensor cores", 2024, without its gates. float16 and
    bfloat16 are computed in float32. It has no parameters, and is differentiable in both inputs.

    Input: u, real, [B, H, L] or [H, L]; k, real, [H, M] or [1, M], of whatever length, and on the
    same device. Output: a real tensor of the shape and dtype of u.

    Raises:
        TypeError: an input is no tensor, or complex or of integers.
        ValueError: an input has another shape, or is on another device.
        NotImplementedError: a length is beyond what the backend can do.
    """

    def forward(self, u: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        check_real("u", u)
        check_real("k", k)
        if u.ndim not in (2, 3):
            raise ValueError(
                f"argument 'u' has shape {tuple(u.shape)}, allowed are [B, H, L] and [H, L]; "
                f"bring the channels before the points"
            )
        for name, x in (("u", u), ("k", k)):
            if x.shape[-1:] == (0,):
                raise ValueError(
                    f"argument '{name}' has shape {tuple(x.shape)}, allowed is 1 point or more"
                )
        if k.ndim != 2 or k.shape[0] not in (1, u.shape[-2]):
            raise ValueError(
                f"argument 'k' has shape {tuple(k.shape)}, allowed is [{u.shape[-2]}, M], a filter "
                f"for each channel of 'u', or [1, M]; reshape it"
            )
        check_device("k", k.device, "argument 'u'", u.device)
        if is_split(u, -1):  # of which the end could not be cut off without a gather
            return of_shards(self, u, (-2, -1), k)  # type: ignore[no-any-return]
        length = u.shape[-1]
        return convolve(u, k[:, :length], dims=-1)[..., :length].to(u.dtype)
