"""Layers of complex and spectral networks, whose parameters are real tensors.

A complex weight is two parameters, `weight_real` and `weight_imag`, so that optimizers,
`state_dict` and `.to(device)` work on devices without complex dtypes. A layer of complex numbers
accepts a ComplexTensor, a native complex tensor or a real tensor. It returns a complex tensor of
the kind that `trnfft.fft` returns for this input. `dtype` of a layer is the dtype of its real
parameters.

`FFTConv1d` and `FFTConv2d` are torch.nn.Conv1d and torch.nn.Conv2d with the same real weights,
computed by transforms. `BlockCirculantLinear` is a smaller torch.nn.Linear of real numbers.
`docs/layers.md` shows how the layers are used.

All layers raise these errors, when they are made or called:

- `ValueError`: a number is less than 1, or another argument is not as described; or the input of a
  call has another shape, too few points, or is on another device than the parameters.
- `TypeError`: a size is not an int, `dtype` is not real, or the input of a call is not a tensor, is
  of integers, or is complex where it must be real.
- `RuntimeError`: the memory is too small. In `ComplexLinear` and `ComplexConv1d` also for an input
  of another dtype or shape, and in `SpectralConv1d` and `SpectralConv` for a complex input.
- `NotImplementedError`: the backend cannot compute a length.
"""

from trnfft.nn.block_circulant import BlockCirculantLinear, convert_linear
from trnfft.nn.complex_batch_norm import ComplexBatchNorm
from trnfft.nn.complex_conv import ComplexConv1d, ComplexConv2d
from trnfft.nn.complex_linear import ComplexLinear
from trnfft.nn.fft_conv import FFTConv1d, FFTConv2d
from trnfft.nn.fnet_mixer import FNetMixer
from trnfft.nn.long_conv import LongConv
from trnfft.nn.mod_relu import ModReLU
from trnfft.nn.neural_operator import SpectralConv
from trnfft.nn.spectral_conv import SpectralConv1d, SpectralConv2d, SpectralConv3d
from trnfft.nn.spectrogram import InverseSpectrogram, MelScale, MelSpectrogram, Spectrogram

__all__ = [
    "BlockCirculantLinear",
    "ComplexBatchNorm",
    "ComplexConv1d",
    "ComplexConv2d",
    "ComplexLinear",
    "FFTConv1d",
    "FFTConv2d",
    "FNetMixer",
    "InverseSpectrogram",
    "LongConv",
    "MelScale",
    "MelSpectrogram",
    "ModReLU",
    "SpectralConv",
    "SpectralConv1d",
    "SpectralConv2d",
    "SpectralConv3d",
    "Spectrogram",
    "convert_linear",
]
