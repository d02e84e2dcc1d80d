"""Transforms on the CPU, compared with torch.fft: overhead, the matmul backend, and gradients.

OMP_NUM_THREADS=1 pytest bench/test_transforms_bench.py --benchmark-only --benchmark-group-by=group

Compare times within a group: they are times of this computer, not of a NeuronCore.
"""

import pytest
import torch

import trnfft

SHAPES = [(8,), (1024,), (128, 1024), (2**18,), (64, 4096), (2**20,)]
INPUTS = {"real": torch.float32, "complex": torch.complex64}


def plain(x):
    return trnfft.as_native(x)


@pytest.mark.parametrize("library", ["torch.fft", "torch", "matmul"])
@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_fft(benchmark, shape, kind, library):
    benchmark.group = f"fft {kind} {shape}"
    x = torch.randn(shape, dtype=INPUTS[kind])
    if library == "torch.fft":
        result = benchmark(torch.fft.fft, x)
    else:
        with trnfft.backend(library):
            result = plain(benchmark(trnfft.fft, x))
    expected = torch.fft.fft(x)
    assert torch.linalg.norm(result - expected) <= 1e-6 * torch.linalg.norm(expected)


@pytest.mark.parametrize("library", ["torch.fft", "torch", "matmul"])
@pytest.mark.parametrize("shape", [(8,), (128, 1024), (64, 4096)], ids=str)
def test_forward_and_backward(benchmark, shape, library):
    benchmark.group = f"rfft, irfft, backward {shape}"
    x = torch.randn(shape, requires_grad=True)

    def step(fft):
        x.grad = None
        y = fft.irfft(fft.rfft(x) * 0.5, n=shape[-1])
        y.square().sum().backward()
        return x.grad

    if library == "torch.fft":
        grad = benchmark(step, torch.fft)
    else:
        with trnfft.backend(library):
            grad = benchmark(step, trnfft)
    torch.testing.assert_close(grad, 0.5 * x.detach(), atol=1e-4, rtol=1e-4)
