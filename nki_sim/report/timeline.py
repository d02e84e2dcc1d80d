"""The timeline of a kernel: when each instruction runs on a model of one or two NeuronCores.

`schedule` and `pair_schedule` model the order and the waits of instructions, `engines` the engines
and DMA queues, and `memory_reuse` SBUF and PSUM. The costs are in ``nki_sim.hardware``.
"""

from __future__ import annotations

import os
from typing import Any

from nki_sim.report import save_html
from nki_sim.timeline.recording import Recording

from .budget import assert_within
from .perfetto import save_perfetto
from .timeline_summary import summary


class Timeline(Recording):
    """The modelled costs of recorded kernels. A launch is added when its kernel returns.

    A launch of two programs ends when the later core ends. Of its ``engine_busy_ns``,
    ``sbuf_peak_bytes`` and ``psum_peak_banks`` the timeline has the larger value of the two cores.
    Bytes, descriptors and instructions are sums over both cores.

    Attributes:
        total_ns: modelled time of all launches, in nanoseconds, each in the faster of two orders:
            ``written_ns`` has the time as written, ``reordered_ns`` as the compiler may order it.
        engine_busy_ns: for tensor, vector, scalar, gpsimd and dma, how long the engine was busy;
            the value of dma is that of the busiest of the 16 DMA engines.
        dma_bytes: bytes that DMA moves.
        dma_descriptors: descriptors of DMA.
        hbm_bytes: bytes that are read and written in HBM.
        hbm_scratch_bytes: bytes allocated in HBM beside the outputs, the maximum of all launches.
        macs: multiply-accumulate operations of matmuls.
        instructions: instructions; those of a loop on the device count in every iteration.
        sbuf_peak_bytes: the most bytes a partition of SBUF in use at once.
        psum_peak_banks: the most banks of PSUM in use at once.
        launches: the number of launches.
        where: the chip and the degree of LNC, such as "trn2, LNC=2"; several if launches differ.
        waived_rules: names of ``device_rules`` that were broken and waived.
        warnings: the warnings of the launches.
    """

    def summary(self) -> dict[str, Any]:
        """Returns the numbers as types that JSON can hold. Times are modelled, in nanoseconds.

        The keys are the attributes of the timeline and these: ``written_ns``, ``reordered_ns``,
        ``order_costs`` and ``on_scalar`` tell what the compiler's order changes, ``chips`` has the
        figures of the model, ``utilisation`` the fraction of the time for which each engine is
        busy, ``floors_ns`` the lower bounds, and ``critical_path`` the time of its events by line,
        engine and wait.
        """
        return summary(self)

    assert_within = assert_within

    def save_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace for ui.perfetto.dev, in Perfetto's binary format.

        The trace has tracks for the engines, DMA queues and loops of each core, the details of each
        instruction, SBUF, PSUM and bandwidth over time, and arrows along the critical path. The
        file is written whole or not at all.

        Args:
            path: the file, such as "launch.pftrace".

        Raises:
            ImportError: the package perfetto, which the extra "report" installs, is missing.
            OSError: the file cannot be written.
        """
        save_perfetto(self, path)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes a report, a single HTML file that needs no network."""
        save_html(self, path)

    def __repr__(self) -> str:
        waived = f", waived: {', '.join(sorted(self.waived_rules))}" if self.waived_rules else ""
        where = f" on {self.where}" if self.where else ""
        time = f"{self.total_ns:.0f} ns modelled{where}"
        return f"Timeline({self.instructions} instructions, {time}{waived})"
