"""DFT-GEMM of real data: one product with half of the DFT matrix, or with that of the inverse."""

from __future__ import annotations

from nki_kernels.fft import dft_gemm
from nki_kernels.real import real_dft_gemm
from trnfft.planner.algorithms.algorithm import Ahead, LengthAlgorithm, OneMatrix
from trnfft.planner.kinds import C2R, R2C
from trnfft.planner.plan import Recipe


class RealDftGemm(OneMatrix, LengthAlgorithm):
    """One product of real data with half of the DFT matrix, or of a half spectrum with its own."""

    longest = dft_gemm.MAX_LENGTH
    ahead = Ahead(256, 4096, "trn1")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.name = "real_dft_gemm" if kind == R2C else "inverse_real_dft_gemm"
        self.kernel = getattr(real_dft_gemm, self.name)
        self.make_tables = getattr(real_dft_gemm, f"{self.name}_matrix")
        self.make_specs = getattr(real_dft_gemm, f"{self.name}_spec")

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[object, ...]:
        return (recipe.n,) if self.kind == C2R else ()
