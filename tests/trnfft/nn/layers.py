"""One small case of every layer, for tests of what is common to all."""

import torch

from tests.trnfft.samples import random, random_complex
from trnfft import nn

F64 = dict(dtype=torch.float64)

# How to make each with arguments for its dtype and device, and the shape of an input.
COMPLEX_LAYERS = {
    "ComplexLinear": (lambda **kw: nn.ComplexLinear(3, 2, **kw), (4, 3)),
    "ComplexLinear without bias": (lambda **kw: nn.ComplexLinear(3, 2, bias=False, **kw), (3,)),
    "ComplexConv1d": (lambda **kw: nn.ComplexConv1d(2, 4, 3, padding=1, **kw), (2, 2, 5)),
    "ComplexConv2d": (lambda **kw: nn.ComplexConv2d(2, 2, (2, 3), groups=2, **kw), (1, 2, 3, 4)),
    "ComplexBatchNorm": (lambda **kw: nn.ComplexBatchNorm(2, **kw), (4, 2, 3)),
    "ModReLU": (lambda **kw: nn.ModReLU(3, **kw), (2, 3, 4)),
}
REAL_LAYERS = {
    "SpectralConv1d": (lambda **kw: nn.SpectralConv1d(2, 3, 3, **kw), (2, 2, 7)),
    "SpectralConv2d": (lambda **kw: nn.SpectralConv2d(2, 2, 1, 2, **kw), (1, 2, 4, 5)),
    "SpectralConv3d": (lambda **kw: nn.SpectralConv3d(2, 1, 1, 1, 2, **kw), (1, 2, 3, 2, 4)),
    "FNetMixer": (lambda **kw: nn.FNetMixer(), (2, 3, 4)),
    "FFTConv1d": (lambda **kw: nn.FFTConv1d(2, 3, 3, **kw), (2, 2, 7)),
    "FFTConv2d": (lambda **kw: nn.FFTConv2d(2, 2, 3, groups=2, **kw), (1, 2, 5, 7)),
    "BlockCirculantLinear": (lambda **kw: nn.BlockCirculantLinear(5, 7, 4, **kw), (3, 5)),
}
LAYERS = {**COMPLEX_LAYERS, **REAL_LAYERS}


def randomized(layer, seed=5):
    """Returns the layer with random parameters, so that no bias is zero."""
    with torch.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter.copy_(random(*parameter.shape, seed=seed + i))
    return layer


def case(name, **options):
    """Returns a layer in float64, or with these arguments, and an input."""
    make, shape = LAYERS[name]
    x = random_complex(*shape) if name in COMPLEX_LAYERS else random(*shape)
    return randomized(make(**(options or F64))), x
