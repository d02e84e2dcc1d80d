"""Convolutions with filters as long as the signal, as in Hyena and similar models."""

import torch
from torch import nn

from trnfft.complex.sharded import is_split_over_devices
from trnfft.functions.arguments import check_device, check_real
from trnfft.functions.convolve import convolve
from trnfft.ops.many_devices import of_shards


class LongConv(nn.Module):
    """Computes a causal convolution of each channel with its own filter, which the model provides.

        y[b, h, l] = sum_m k[h, m] u[b, h, l - m],  0 <= m <= l

    For a sequence of L points it is FlashFFTConv(2 * L) of Fu et al., "FlashFFTConv: efficient
    convolutions for long sequences with tensor cores", 2024, without its gates. float16 and
    bfloat16 are computed in float32. The layer has no parameters and is differentiable in both
    inputs. It computes the same as `torch.nn.functional.conv1d` with a reversed filter and zeros
    before the signal. See `docs/layers.md`.

    Input: u, a real tensor of shape [B, H, L] or [H, L]; and k, a real tensor of shape [H, M] or
    [1, M] with any M, on the same device. Output: a real tensor with the shape and dtype of u.

    Examples:
        >>> import torch, trnfft
        >>> u = torch.tensor([[1.0, 0.0, 0.0, 2.0, 0.0]])
        >>> k = torch.tensor([[1.0, 0.5, 0.25]])
        >>> trnfft.nn.LongConv()(u, k).round(decimals=3).abs()
        tensor([[1.0000, 0.5000, 0.2500, 2.0000, 1.0000]])
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
        if is_split_over_devices(u, -1):  # its end could not be cut off without a gather
            return of_shards(self, u, (-2, -1), k)
        length = u.shape[-1]
        return convolve(u, k[:, :length], dims=-1)[..., :length].to(u.dtype)
