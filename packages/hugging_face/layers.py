"""Layers that replace layers of transformers, by the rules of the package `kernels`.

A layer has only the method `forward`, with the arguments of the method that it replaces. Two
attributes say whether the layer has gradients and whether torch.compile can trace it.
"""

import torch
from torch import nn

from trnfft.functions.arguments import check_real
from trnfft.ops.transforms import c2c_of_parts


class FourierMixing(nn.Module):
    """Returns the real part of a transform over tokens and channels.

    The layer replaces FNetBasicFourierTransform. The input is a real tensor [B, S, H] of B texts,
    S tokens and H channels. The output is a tuple of one tensor with the same shape and dtype.
    float16 and bfloat16 are computed in float32.

    Raises:
        TypeError: on call, the input is not a tensor of real floating-point numbers.
        IndexError: on call, the input does not have three dimensions.
        NotImplementedError: on call, the input is sparse.
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
    """The module that transformers makes in place of each FNetBasicFourierTransform.

    transformers uses this class in all models that it makes after it has loaded the kernel. The
    original class has no name by which `kernels` could replace its forward; this class gets one.
    The class also has a forward of its own: `model.train()` removes the replaced forward, and in
    later models transformers makes modules of this class without replacing their forward.

    Args:
        config: the model's FNetConfig; the transform has no options.
    """

    def __init__(self, config: object) -> None:
        super().__init__()

    forward = FourierMixing.forward
