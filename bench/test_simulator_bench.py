"""Speed of the simulator: pytest bench --benchmark-only.

Compare ratios within one run. ``numpy`` is the arithmetic of one 128x512 fp32 instruction, written
into existing memory. An instruction of the simulator should cost at most three times as much. A dry
run should be at least five times as fast as a recorded run of 1000 instructions of 128x512.
"""

from __future__ import annotations

import numpy as np
import pytest

import nki_sim
from nki_kernels.fft.dft_gemm import dft_gemm, dft_gemm_matrix
from nki_kernels.isa import nisa, nl

REPEATS = 1000
RNG = np.random.default_rng(0)
A = RNG.standard_normal((128, 512)).astype(np.float32)
B = RNG.standard_normal((128, 512)).astype(np.float32)
OUT = np.empty_like(A)
COLUMN = np.empty((128, 1), np.float32)

NUMPY = {
    "dma_copy": lambda: np.copyto(OUT, A),
    "tensor_copy": lambda: np.copyto(OUT, A),
    "tensor_tensor": lambda: np.add(A, B, out=OUT),
    "tensor_scalar": lambda: np.multiply(A, np.float32(2), out=OUT),
    "activation": lambda: np.exp(A, out=OUT),
    "tensor_reduce": lambda: np.add.reduce(A, axis=1, out=COLUMN[:, 0]),
    "nc_matmul": lambda: np.matmul(A[:, :128].T, A, out=OUT),
}


def repeated(name):
    """Returns a kernel that issues the instruction ``REPEATS`` times."""

    def kernel(x, y):
        a, b = nl.load(x), nl.load(y)
        out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        bank = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        for _ in range(REPEATS):
            if name == "dma_copy":
                nisa.dma_copy(out, x)
            elif name == "tensor_copy":
                nisa.tensor_copy(out, a)
            elif name == "tensor_tensor":
                nisa.tensor_tensor(out, a, b, op=nl.add)
            elif name == "tensor_scalar":
                nisa.tensor_scalar(out, a, nl.multiply, 2.0)
            elif name == "activation":
                nisa.activation(out, nl.exp, a)
            elif name == "tensor_reduce":
                nisa.tensor_reduce(out[:, 0:1], nl.add, a, axis=1)
            else:
                nisa.nc_matmul(bank, a[:, 0:128], a, accumulate=False)

    return nki_sim.simulate(kernel)


def pipeline(x, w):
    """Issues 1000 instructions of 128x512: load, multiply, evacuate, add, store."""
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    table = nl.load(w)
    for _ in range(REPEATS // 5):
        t = nl.load(x)
        bank = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(bank, table, t)
        result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(result, nl.copy, bank)
        nisa.tensor_tensor(result, result, t, op=nl.add)
        nl.store(out, result)
    return out


@pytest.mark.benchmark(group="one instruction")
@pytest.mark.parametrize("name", NUMPY)
def test_numpy(benchmark, name):
    benchmark.extra_info["per"] = f"{REPEATS} times"
    benchmark(lambda: [NUMPY[name]() for _ in range(REPEATS)])


@pytest.mark.benchmark(group="one instruction")
@pytest.mark.parametrize("name", NUMPY)
def test_instruction(benchmark, name):
    benchmark(repeated(name), A, B)


@pytest.mark.benchmark(group="dry run")
def test_recorded_run(benchmark):
    def run():
        with nki_sim.record() as timeline:
            nki_sim.simulate(pipeline)(A, A[:, :128].copy())
        return timeline.total_ns

    assert benchmark(run) == nki_sim.dry_run(pipeline, A, A[:, :128]).total_ns


@pytest.mark.benchmark(group="dry run")
def test_dry_run(benchmark):
    assert benchmark(lambda: nki_sim.dry_run(pipeline, A, A[:, :128]).total_ns) > 0


@pytest.mark.benchmark(group="dft")
def test_dft_128_of_batch_8192(benchmark):
    x = RNG.standard_normal((2, 8192, 128)).astype(np.float32)
    y_re, y_im = benchmark(nki_sim.simulate(dft_gemm), x[0], x[1], dft_gemm_matrix(128))
    expected = np.fft.fft(x[0] + 1j * x[1].astype(np.float64))
    assert np.linalg.norm(y_re + 1j * y_im - expected) <= 5e-7 * np.linalg.norm(expected)
