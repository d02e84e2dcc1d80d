"""ComplexTensor on the CPU, compared with native complex tensors and torch's own ComplexTensor.

OMP_NUM_THREADS=1 pytest bench/test_complex_tensor_bench.py --benchmark-only

Compare times within a group: they are times of this computer, not of a NeuronCore.
"""

import pytest
import torch

import trnfft

KINDS = ["native", "ComplexTensor", "torch's own"]


def complex_numbers(kind, n, seed):
    real, imag = torch.randn(2, n, generator=torch.Generator().manual_seed(seed))
    if kind == "native":
        return torch.complex(real, imag)
    if kind == "ComplexTensor":
        return trnfft.ComplexTensor(real, imag)
    return pytest.importorskip("torch._subclasses.complex_tensor").ComplexTensor(real, imag)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [8, 4096, 2**18])
def test_product(benchmark, n, kind):
    benchmark.group = f"z * w, {n} numbers"
    z, w = complex_numbers(kind, n, 0), complex_numbers(kind, n, 1)
    product = benchmark(lambda: z * w)
    expected = complex_numbers("native", n, 0) * complex_numbers("native", n, 1)
    torch.testing.assert_close(product.real, expected.real)


@pytest.mark.parametrize("library", ["torch.fft", "trnfft"])
@pytest.mark.parametrize("n", [256, 4096])
def test_step_of_burgers_equation(benchmark, n, library):
    benchmark.group = f"a step of Burgers' equation, {n} points"
    fft = torch.fft if library == "torch.fft" else trnfft
    k = torch.arange(n // 2 + 1.0)
    u = torch.sin(torch.linspace(0, 6.28, n))

    def step():
        spectrum = fft.rfft(u)
        slope = fft.irfft(1j * k * spectrum, n)
        return u - 1e-4 * (u * slope - 0.01 * fft.irfft(-(k * k) * spectrum, n))

    spectrum = torch.fft.rfft(u.double())
    slope = torch.fft.irfft(1j * k * spectrum, n)
    expected = u - 1e-4 * (u * slope - 0.01 * torch.fft.irfft(-(k * k) * spectrum, n))
    torch.testing.assert_close(benchmark(step), expected.float(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("written", ["by hand", "ComplexTensor"])
def test_compiled(benchmark, written):
    benchmark.group = "compiled (z * w).exp() of 2^18 numbers"
    parts = torch.randn(4, 2**18, generator=torch.Generator().manual_seed(0))

    def by_hand(a, b, c, d):
        real, imag = a * c - b * d, a * d + b * c
        size = real.exp()
        return size * imag.cos(), size * imag.sin()

    def by_tensors(a, b, c, d):
        result = (trnfft.ComplexTensor(a, b) * trnfft.ComplexTensor(c, d)).exp()
        return result.real, result.imag

    run = torch.compile(by_hand if written == "by hand" else by_tensors, fullgraph=True)
    real, _ = benchmark(run, *parts)
    torch.testing.assert_close(real, by_hand(*parts)[0], rtol=1e-3, atol=1e-3)
