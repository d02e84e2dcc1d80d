"""DFT-GEMM: one product with the whole DFT matrix."""

from __future__ import annotations

from typing import Any

from nki_kernels.fft import dft_gemm
from nki_sim.hardware import NeuronCore
from trnfft.planner import accuracy
from trnfft.planner.algorithms.algorithm import Ahead, MatrixAlgorithm, OneMatrix, least_of
from trnfft.planner.plan import Recipe


class DftGemm(OneMatrix, MatrixAlgorithm):
    """One product with the whole DFT matrix."""

    name = "dft_gemm"
    title = "DFT-GEMM"
    kernel = dft_gemm.dft_gemm
    longest = dft_gemm.MAX_LENGTH
    ahead = Ahead(256, 4096, "trn1")

    def table_specs(self, recipe: Recipe) -> tuple[Any, ...]:
        return (dft_gemm.dft_gemm_spec(recipe.n, self.dtype, self.refined),)

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> tuple[Any, ...]:
        options = (inverse, scale, self.dtype, self.refined)
        return (dft_gemm.dft_gemm_matrix(recipe.n, *options),)

    def least_ns(self, recipe: Recipe, rows: float, chip: NeuronCore) -> float:
        cycles = 1.0 if self.dtype == "float32" else 0.25
        return cycles * recipe.n * least_of(50.0, 10.0, rows) / chip.tensor_columns_per_ns

    def error(self, recipe: Recipe) -> float:
        if self.dtype == "float32":
            return accuracy.matrix_error(recipe.n)
        return accuracy.bfloat16_error(1, self.refined)
