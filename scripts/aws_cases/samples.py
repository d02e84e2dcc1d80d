"""Cases of nki-samples."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from .case import Case, Launch, normal, wide

_TUTORIALS = "src/nki_samples/tutorials"
_MATMUL = f"{_TUTORIALS}/matrix_multiplication/matrix_multiplication_nki_kernels.py"
_TENSOR_COPY_DTYPE = "tensor_copy.*unexpected keyword argument 'dtype'"


def _product(name: str, k: int, m: int, n: int, seed: int) -> Callable[[ModuleType], Launch]:
    def build(module: ModuleType) -> Launch:
        left, right = normal(k, m, seed=seed), normal(k, n, seed=seed + 1)
        return Launch(getattr(module, name), (left, right), (wide(left).T @ wide(right),))

    return build


_WITH_DTYPE = ("nki_matmul_basic_", "nki_matmul_tiled_", "nki_matmul_hoist_load_")
CASES = [
    Case(
        name,
        _MATMUL,
        name,
        f"{k}x{m} by {k}x{n}",
        _product(name, k, m, n, 1),
        refused=_TENSOR_COPY_DTYPE if name in _WITH_DTYPE else "",
        because="the kernel passes a dtype to tensor_copy, an argument that NKI 0.3 to 0.6 do not "
        "have",
    )
    for name, k, m, n in (
        ("nki_matmul_basic_", 128, 64, 512),
        ("nki_matmul_tiled_", 256, 256, 1024),
        ("nki_matmul_hoist_load_", 256, 256, 1024),
        ("nki_matmul_block_free_dimension_", 256, 256, 1024),
        ("nki_matmul_fully_optimized_", 1024, 2048, 1024),
    )
]
