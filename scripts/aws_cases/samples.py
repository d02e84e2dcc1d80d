"""Cases of nki-samples: its matrix products, which the documentation of the SDK has as well."""

from __future__ import annotations

from types import ModuleType

from .case import Build, Case, Launch, normal, wide

_MATMUL = "src/nki_samples/tutorials/matrix_multiplication/matrix_multiplication_nki_kernels.py"
_TENSOR_COPY_DTYPE = "tensor_copy.*unexpected keyword argument 'dtype'"
_WITH_DTYPE = ("nki_matmul_basic_", "nki_matmul_tiled_", "nki_matmul_hoist_load_")
_SIZES = {  # k, m and n
    "nki_matmul_basic_": (128, 64, 512),
    "nki_matmul_tiled_": (256, 256, 1024),
    "nki_matmul_hoist_load_": (256, 256, 1024),
    "nki_matmul_block_free_dimension_": (256, 256, 1024),
    "nki_matmul_fully_optimized_": (1024, 2048, 1024),
}


def _product(name: str, k: int, m: int, n: int) -> Build:
    def build(module: ModuleType) -> Launch:
        left, right = normal(k, m, seed=1), normal(k, n, seed=2)
        return Launch(getattr(module, name), (left, right), (wide(left).T @ wide(right),))

    return build


def products(
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


CASES = products(
    _MATMUL,
    refused=_WITH_DTYPE,
    because="the kernel passes a dtype to tensor_copy, an argument that NKI 0.3 to 0.6 do not have",
)
