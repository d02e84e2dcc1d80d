"""`nki_kernels.kernels.dft_gemm` under the name that early users import it by."""

from .kernels.dft_gemm import dft_gemm, dft_gemm_matrix

__all__ = ["dft_gemm", "dft_gemm_matrix"]
