"""Cases of nki-samples, and of the examples in the documentation of the SDK for NKI 0.6.

Both have the same matrix products.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from .case import BFLOAT16, BFLOAT16_ERROR, Case, Launch, builder, language, normal, wide

_EXAMPLES = "nki/examples"
_MX = "nki/deep-dives/src/mxfp-matmul/mx_kernels.py"
_MAMBA = f"{_EXAMPLES}/fused_mamba/mamba_nki_kernels.py"
_MATMUL = f"{_EXAMPLES}/matrix_multiplication/matrix_multiplication_nki_kernels.py"

_SAMPLES = "src/nki_samples/tutorials/matrix_multiplication/matrix_multiplication_nki_kernels.py"
_TENSOR_COPY_DTYPE = "tensor_copy.*unexpected keyword argument 'dtype'"
_WITH_DTYPE = ("nki_matmul_basic_", "nki_matmul_tiled_", "nki_matmul_hoist_load_")
_SIZES = {  # k, m and n
    "nki_matmul_basic_": (128, 64, 512),
    "nki_matmul_tiled_": (256, 256, 1024),
    "nki_matmul_hoist_load_": (256, 256, 1024),
    "nki_matmul_block_free_dimension_": (256, 256, 1024),
    "nki_matmul_fully_optimized_": (1024, 2048, 1024),
}


@builder
def _product(module: ModuleType, name: str, k: int, m: int, n: int) -> Launch:
    left, right = normal(k, m, seed=1), normal(k, n, seed=2)
    return Launch(getattr(module, name), (left, right), (wide(left).T @ wide(right),))


def _products(
    file: str, suffix: str = "", refused: tuple[str, ...] = (), because: str = ""
) -> list[Case]:
    """Returns cases of the matrix products in a file, some of which are refused."""
    return [
        Case(
            f"{name}{suffix}",
            file,
            name,
            f"{k}x{m} by {k}x{n}",
            _product(name, k, m, n),
            refused=_TENSOR_COPY_DTYPE if name in refused else "",
            because=because,
        )
        for name, (k, m, n) in _SIZES.items()
    ]


@builder
def _pooled(module: ModuleType, name: str, largest: bool) -> Launch:
    x = normal(64, 24, 32)
    windows = wide(x).reshape(64, 12, 2, 16, 2)
    expected = windows.max(axis=(2, 4)) if largest else windows.mean(axis=(2, 4))
    return Launch(getattr(module, name), (x, 2), (expected,))


def _transposed(module: ModuleType) -> Launch:
    x = normal(16, 12 * 8)
    expected = wide(x).reshape(16, 12, 8).transpose(0, 2, 1).reshape(16, 96)
    return Launch(module.tensor_transpose2D_kernel_, (x, (12, 8)), (expected,))


def _split(module: ModuleType) -> Launch:
    x = normal(100, 31)
    return Launch(module.tensor_split_kernel_, (x,), (wide(x)[:, 0::2], wide(x)[:, 1::2]))


@builder
def _added(module: ModuleType, name: str, shape: tuple[int, int]) -> Launch:
    a, b = normal(*shape), normal(*shape, seed=1)
    return Launch(getattr(module, name), (a, b), (wide(a) + wide(b),))


@builder
def _state_space(module: ModuleType, name: str) -> Launch:
    """Returns a case of a selective scan of 256 channels, 4 states and 1024 steps."""
    channels, states, steps = 256, 4, 1024
    rng = np.random.default_rng(0)
    delta = rng.uniform(0.001, 0.1, (1, channels, steps)).astype(np.float32)
    a = -rng.uniform(0.5, 2, (channels, states)).astype(np.float32)
    u = normal(1, channels, steps, seed=1)
    b, c = normal(1, states, steps, seed=2), normal(1, states, steps, seed=3)
    state, expected = np.zeros((channels, states)), np.zeros((1, channels, steps))
    for i in range(steps):
        decay = np.exp(wide(delta)[0, :, i, None] * wide(a))
        given = wide(delta)[0, :, i] * wide(u)[0, :, i]
        state = decay * state + given[:, None] * wide(b)[0, :, i]
        expected[0, :, i] = state @ wide(c)[0, :, i]
    return Launch(getattr(module, name), (delta, u, a, b, c), (expected,))


def _packed(k: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns (k, 4 n) numbers of float8_e5m2 as (k, n) words, their scales, and their values."""
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal((k, 4 * n)).astype(np.float32).astype(ml_dtypes.float8_e5m2)
    scales = rng.integers(120, 132, (k // 8, n)).astype(np.uint8)
    powers = np.exp2(np.repeat(scales.astype(np.float64), 8, axis=0) - 127)
    values = wide(numbers).reshape(k, n, 4) * powers[..., None]
    return numbers.view(np.uint32), scales, values


def _offline(module: ModuleType) -> Launch:
    _, nl, _ = language()
    (a, a_scales, left), (b, b_scales, right) = _packed(128, 128, 1), _packed(128, 512, 2)
    arguments = (a, a_scales, b, b_scales, nl.float8_e5m2_x4)
    expected = np.einsum("kmj,knj->mn", left, right)
    return Launch(module.kernel_offline_quantized_mx_matmul, arguments, (expected,))


def _quantised_moving(module: ModuleType) -> Launch:
    _, nl, _ = language()
    a, a_scales, left = _packed(128, 128, 1)
    moving = normal(128, 4 * 512, seed=2, dtype=BFLOAT16)
    arguments = (a, a_scales, moving, nl.float8_e5m2_x4, nl.float8_e4m3fn_x4)
    expected = np.einsum("kmj,knj->mn", left, wide(moving).reshape(128, 512, 4))
    return Launch(module.kernel_on_device_quantize_matmul_mx, arguments, (expected,))


@builder
def _quantised_both(module: ModuleType, name: str, by_copies: bool) -> Launch:
    """Returns a case in which another kernel copies the arguments to nl.hbm.

    The example's kernel asserts that its arguments are there.
    """
    nki, nl, nisa = language()

    @nki.jit
    def kernel(a: Any, b: Any) -> Any:
        copies = []
        for t in (a, b):
            copy = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.hbm)
            nisa.dma_copy(dst=copy, src=t)
            copies.append(copy)
        return getattr(module, name)(*copies, nl.float8_e4m3fn_x4, by_copies)

    a, b = (normal(512, n, seed=n, dtype=BFLOAT16) for n in (128, 512))
    return Launch(kernel, (a, b), (wide(a).T @ wide(b),))


_STRIDED = "kernel_copy_strided_quantize_matmul_mx"
_PLAIN = [
    ("tensor_avgpool_kernel", "average_pool2d/average_pool2d_nki_kernels.py", "2x2 of 64x24x32",
     _pooled("tensor_avgpool_kernel", False)),
    ("tensor_maxpool_kernel_", "index-case-3.py", "2x2 of 64x24x32",
     _pooled("tensor_maxpool_kernel_", True)),
    ("tensor_split_kernel_", "index-case-1.py", "100x31", _split),
    ("tensor_transpose2D_kernel_", "transpose2d/transpose2d_nki_kernels.py", "16 of 12x8",
     _transposed),
    ("nki_tensor_add", "tensor_addition/tensor_addition_nki_kernels.py", "256x1024",
     _added("nki_tensor_add", (256, 1024))),
    ("add_kernel", "simulate/nki_simulate_example.py", "128x512", _added("add_kernel", (128, 512))),
]  # fmt: skip
CASES = [
    *_products(
        _SAMPLES,
        refused=_WITH_DTYPE,
        because="the kernel passes a dtype to tensor_copy, an argument that NKI 0.3 to 0.6 do not "
        "have",
    ),
    *[Case(name, f"{_EXAMPLES}/{file}", name, shows, build) for name, file, shows, build in _PLAIN],
    *_products(_MATMUL, " of the SDK"),
    *[
        Case(name, _MAMBA, name, "256 channels, 1024 steps", _state_space(name))
        for name in ("mamba_v1", "mamba_v2", "mamba_v3")
    ],
    Case(
        "mx offline",
        _MX,
        "kernel_offline_quantized_mx_matmul",
        "MXFP8, both given",
        _offline,
        BFLOAT16_ERROR,
        "trn3",
    ),
    Case(
        "mx one quantised",
        _MX,
        "kernel_on_device_quantize_matmul_mx",
        "MXFP8, one quantised",
        _quantised_moving,
        0.05,
        "trn3",
    ),
    *[
        Case(
            f"mx {name} {by_copies}",
            _MX,
            name,
            f"both quantised, from nl.hbm, laid out by {'copies' if by_copies else 'DMA'}",
            _quantised_both(name, by_copies),
            0.05,
            "trn3",
        )
        for name in (_STRIDED, f"{_STRIDED}_packed_scale")
        for by_copies in (True, False)
    ],
]
