"""DFT-GEMM: one product with the whole DFT matrix."""

from __future__ import annotations

from nki_kernels.fft import dft_gemm
from trnfft.planner.algorithms.algorithm import Ahead, MatrixAlgorithm, OneMatrix


class DftGemm(OneMatrix, MatrixAlgorithm):
    """One product with the whole DFT matrix."""

    name = "dft_gemm"
    title = "DFT-GEMM"
    kernel = dft_gemm.dft_gemm
    make_tables = staticmethod(dft_gemm.dft_gemm_matrix)
    make_specs = staticmethod(dft_gemm.dft_gemm_spec)
    longest = dft_gemm.MAX_LENGTH
    moved = (50.0, 10.0)
    ahead = Ahead(256, 4096, "trn1")
