"""Convolutions on the CPU, compared with those of SciPy and torch.

OMP_NUM_THREADS=1 pytest bench/test_convolution_bench.py --benchmark-only --benchmark-group-by=group

Compare times within a group: they are times of this computer, not of a NeuronCore. The layers run
without gradients, so that the spectra of their filters are kept.
"""

import pytest
import torch
from scipy import signal

import trnfft
from bench.cases.case import relative_error
from trnfft.nn import FFTConv1d, FFTConv2d

# The shapes of input and filter, and the dimensions of the convolution.
OPERANDS = {
    "4096 * 4096": ((4096,), (4096,), None),
    "64 x 4096 * 1025": ((64, 4096), (1, 1025), (1,)),
    "2^20 * 1001": ((2**20,), (1001,), None),
    "512 x 512 * 31 x 31": ((512, 512), (31, 31), None),
}
# The layer, its channels, the length of the filter, and the shape of the input.
LAYERS = {
    "1-D, 16 channels, 31 taps": (FFTConv1d, 16, 31, (8, 16, 4096)),
    "1-D, 16 channels, 1025 taps": (FFTConv1d, 16, 1025, (8, 16, 4096)),
    "2-D, 8 channels, 7 x 7": (FFTConv2d, 8, 7, (2, 8, 128, 128)),
    "2-D, 8 channels, 31 x 31": (FFTConv2d, 8, 31, (2, 8, 128, 128)),
}


@pytest.mark.parametrize("library", ["trnfft", "scipy"])
@pytest.mark.parametrize("name", ["convolve", "oaconvolve"])
@pytest.mark.parametrize("operands", OPERANDS)
def test_convolve(benchmark, operands, name, library):
    benchmark.group = f"{name} {operands}"
    *shapes, dims = OPERANDS[operands]
    x, h = (torch.randn(shape) for shape in shapes)
    expected = signal.oaconvolve(x.double().numpy(), h.double().numpy(), axes=dims)
    if library == "trnfft":
        result = benchmark(getattr(trnfft, name), x, h, dims=dims).numpy()
    else:
        theirs = signal.fftconvolve if name == "convolve" else signal.oaconvolve
        result = benchmark(theirs, x.numpy(), h.numpy(), axes=dims)
    assert relative_error(result, expected) < 1e-5


@pytest.mark.parametrize("library", ["trnfft", "torch"])
@pytest.mark.parametrize("case", LAYERS)
def test_layer(benchmark, case, library):
    benchmark.group = f"layer {case}"
    layer, channels, size, shape = LAYERS[case]
    ours = layer(channels, channels, size, padding="same")
    theirs = {FFTConv1d: torch.nn.Conv1d, FFTConv2d: torch.nn.Conv2d}[layer](
        channels, channels, size, padding="same"
    )
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(shape)
    with torch.no_grad():
        result = benchmark(ours if library == "trnfft" else theirs, x)
        assert relative_error(result.numpy(), theirs(x).numpy()) < 1e-5


@pytest.mark.parametrize("order", ["planned", "natural"])
@pytest.mark.parametrize("shape", [(4096,), (64, 1024), (1024, 1024), (256, 4096), (4, 2**18)])
def test_circular_convolution(benchmark, shape, order):
    benchmark.group = f"fft, product, ifft by matmul {shape}"
    x, h = torch.randn(shape), torch.randn(shape[-1])
    with torch.no_grad(), trnfft.backend("matmul"):
        spectrum = trnfft.fft(h, order=order)
        result = benchmark(
            lambda: trnfft.ifft(trnfft.fft(x, order=order) * spectrum, order=order)
        ).real
    expected = torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(h), shape[-1])
    assert relative_error(result.numpy(), expected.numpy()) < 1e-5
