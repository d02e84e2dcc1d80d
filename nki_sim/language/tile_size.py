"""nl.tile_size: the sizes of the simulated chip."""

from __future__ import annotations

from nki_sim import hardware
from nki_sim.base.running import chip_of_launch
from nki_sim.views.nki_object import NKIObject


class TileSize(NKIObject):
    """Sizes of tiles on the chip of the launch."""

    pmax = hardware.PARTITIONS
    gemm_stationary_fmax = 128
    bn_stats_fmax = 512
    psum_min_align = hardware.PSUM_ALIGNMENT_BYTES
    sbuf_min_align = 1

    @property
    def gemm_moving_fmax(self) -> int:
        """The largest free size of nc_matmul's moving operand that every chip supports."""
        return 512

    @property
    def psum_bank_fmax(self) -> int:
        """The float32 elements of one partition of a PSUM bank."""
        return self.psum_bank_fmax_bytes // 4

    @property
    def psum_fmax(self) -> int:
        """The deprecated name of ``psum_bank_fmax``."""
        return self.psum_bank_fmax

    @property
    def psum_bank_fmax_bytes(self) -> int:
        """The bytes of one partition of a PSUM bank."""
        return chip_of_launch().psum_bank_bytes

    @property
    def psum_num_banks(self) -> int:
        """The number of PSUM banks."""
        return chip_of_launch().psum_banks

    @property
    def sbuf_size_bytes(self) -> int:
        """The bytes of all partitions of SBUF."""
        return hardware.PARTITIONS * self.sbuf_fmax_bytes

    @property
    def sbuf_fmax(self) -> int:
        """The float32 elements of one partition of SBUF."""
        return self.sbuf_fmax_bytes // 4

    @property
    def sbuf_fmax_bytes(self) -> int:
        """The bytes of one partition of SBUF."""
        return chip_of_launch().sbuf_partition_bytes

    @property
    def total_available_sbuf_size(self) -> int:
        """The deprecated name of ``sbuf_fmax_bytes``."""
        return self.sbuf_fmax_bytes
