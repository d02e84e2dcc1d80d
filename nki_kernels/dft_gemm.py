"""The name by which early users import `nki_kernels.kernels.dft_gemm`."""

from .kernels.dft_gemm import dft_gemm, dft_gemm_matrix

__all__ = ["dft_gemm", "dft_gemm_matrix"]
