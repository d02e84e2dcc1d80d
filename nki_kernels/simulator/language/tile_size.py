"""nl.tile_size: sizes of the chosen chip."""

from __future__ import annotations

from nki_kernels import hardware

from ..session import chip_of_launch
from ..tensor import NKIObject


class TileSize(NKIObject):
    """Hardware tile sizes; they follow NEURON_PLATFORM_TARGET_OVERRIDE."""

    pmax = hardware.PARTITIONS
    gemm_stationary_fmax = 128
    bn_stats_fmax = 512
    psum_min_align = 4
    sbuf_min_align = 1

    @property
    def gemm_moving_fmax(self) -> int:
        """Free size of nc_matmul's moving operand that every chip takes."""
        return 512

    @property
    def psum_bank_fmax(self) -> int:
        """fp32 elements of a PSUM bank, a partition."""
        return self.psum_bank_fmax_bytes // 4

    @property
    def psum_fmax(self) -> int:
        """Deprecated name of ``psum_bank_fmax``."""
        return self.psum_bank_fmax

    @property
    def psum_bank_fmax_bytes(self) -> int:
        """Bytes of a PSUM bank, a partition."""
        return chip_of_launch().psum_bank_bytes

    @property
    def psum_num_banks(self) -> int:
        """PSUM banks a partition."""
        return chip_of_launch().psum_banks

    @property
    def sbuf_size_bytes(self) -> int:
        """SBUF of all partitions, in bytes."""
        return hardware.PARTITIONS * self.sbuf_fmax_bytes

    @property
    def sbuf_fmax(self) -> int:
        """fp32 elements of SBUF, a partition."""
        return self.sbuf_fmax_bytes // 4

    @property
    def sbuf_fmax_bytes(self) -> int:
        """Bytes of SBUF, a partition."""
        return chip_of_launch().sbuf_partition_bytes

    @property
    def total_available_sbuf_size(self) -> int:
        """Deprecated name of ``sbuf_fmax_bytes``."""
        return self.sbuf_fmax_bytes
