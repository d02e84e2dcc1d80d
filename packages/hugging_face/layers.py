"""Layers that transformers puts in the place of its own, by the rules of the package `kernels`.

A layer has `forward` alone, with the arguments of the one that it replaces, and says by two
attributes what it can be used for.
"""

import torch
from torch import nn

from trnfft.arguments import check_real
from trnfft.ops.transforms import c2c_of_parts


class FourierMixing(nn.Module):
    """In place of FNetBasicFourierTransform: the real part of a transform of tokens and channels.

    Input: real, [B, S, H], of B texts, S tokens and H channels. Output: a tuple of one tensor, of
    the same shape and dtype. float16 and bfloat16 are computed in float32.

    Raises:
        TypeError, IndexError, RuntimeError: on call, the input is no tensor, has not three
            dimensions, or is complex or of integers.
    """

    has_backward = True
    can_torch_compile = True

    def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor]:
        check_real("hidden_states", hidden_states)
        if hidden_states.ndim != 3:
            raise IndexError(
                f"argument 'hidden_states' has shape {tuple(hidden_states.shape)}, allowed is "
                f"[B, S, H]; give it three dimensions with .reshape"
            )
        dtype = hidden_states.dtype
        x = hidden_states.float() if dtype in (torch.float16, torch.bfloat16) else hidden_states
        mixed, _ = c2c_of_parts(x, torch.zeros_like(x), dims=2)
        return (mixed.to(dtype),)


class FourierMixingLayout(nn.Module):
    """What transformers makes in the place of each FNetBasicFourierTransform from then on.

    That class has no name by which `kernels` could replace its forward; this one gets a name. It
    computes by itself, too: transformers takes away the replaced forward in `model.train()`, and
    makes modules of this class in other models, to which it gives none.

    Args:
        config: the model's FNetConfig; the transform has no choices.
    """

    def __init__(self, config: object) -> None:
        super().__init__()

    forward = FourierMixing.forward
