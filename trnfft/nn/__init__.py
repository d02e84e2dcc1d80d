"""Layers of complex and spectral networks, whose parameters are real tensors.

A complex weight is two parameters, `weight_real` and `weight_imag`, so that optimizers,
`state_dict` and `.to(device)` work on devices without complex dtypes. Where a layer takes complex
numbers it takes a ComplexTensor, or a native complex or real tensor, and returns a ComplexTensor.
`dtype` of a layer is that of the real parameters. FFTConv1d and FFTConv2d are torch.nn.Conv1d and
Conv2d, whose real weights they have, computed by transforms. BlockCirculantLinear is a smaller
torch.nn.Linear of real numbers.
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
