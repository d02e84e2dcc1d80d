"""Spectral convolution in one launch.

Mathematics.  y = F^-1 (W . F x): a real transform of each channel, of which a few frequencies are
kept; for each of them a complex matrix that mixes the channels; and the inverse transform, with
zeros for all other frequencies. This is the Fourier layer of neural operators (Li et al., "Fourier
neural operator for parametric partial differential equations", 2021, section 4). Its derivative in
x is the same operation with the adjoint weight.

Layout on the NeuronCore.  A block of samples is transformed, mixed and transformed back while its
spectra stay in SBUF:

    x -> lines: spectra [(half, part, i), b, f] -> mixing: [(part, o), f, b] -> lines: y

Planes and volumes take the place of lines where a layer has two or three axes.

Precision.  The dtype of the tables decides: float32 or bfloat16. With bfloat16, DMA rounds data and
weight on their way in, and engines round what they move out of PSUM and what is multiplied again;
sums and results are float32.

Why it is fast.  Transforms are products with the columns of the kept frequencies alone. HBM is read
once and written once, and no spectrum passes through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from nki_sim.hardware import PARTITIONS

from .. import chip
from ..arguments import check_dimensions, check_tables
from ..engines import cuts, hbm, sbuf
from ..isa import nki, nl
from ..launch import Rows, for_rows
from ..packing import unpack
from ..pipeline import TURN, Block, Single
from ..tables import load_identity
from ..tensor import Tensor
from . import lines, planes, volumes
from .constants import STAGED_BYTES, Loader
from .evacuation import Balance
from .layer import Layer, check_layer
from .mixing import Mixing, Weight

# bytes a partition of small things, of transposed runs, and of spectra that are stored
_OTHERS, _TURNED, _KEPT = 4 << 10, 16 << 10, 40 << 10


@nki.jit
def spectral_convolution(x, w_re, w_im, tables, places, layer):  # type: ignore[no-untyped-def]
    """Convolve real data by a weight for each kept frequency.

    Args:
        x: float32 HBM [B, Ci, points].
        w_re, w_im: the parts of the weight, float32 HBM [Ci, Co, frequencies].
        tables, places: the two results of ``pack(spectral_tables(...))``.
        layer: (lengths, counts, is_adjoint, keeps): tuples of ints; whether the weight is the
            adjoint of the given one, so that x has Co channels and y has Ci; and whether the
            spectra are a result, too.

    Returns:
        y, float32 HBM [B, Co, points]; or (y, spectra), the kept frequencies of x, float32 HBM
        [B, frequencies, part, Ci].
    """
    check_dimensions("x", x, ("B", "channels", "points"))
    check_dimensions("w_re", w_re, ("Ci", "Co", "frequencies"))
    check_dimensions("w_im", w_im, ("Ci", "Co", "frequencies"))
    check_layer(layer, 4)
    lengths, counts, is_adjoint, keeps = layer
    channels = w_re.shape[0:2]
    if is_adjoint:
        channels = channels[1], channels[0]
    sizes = Layer(channels[0], channels[1], lengths, counts, tables.dtype)
    batch = x.shape[0]
    y = hbm((batch, sizes.outputs, sizes.points))
    kept = (batch, sizes.frequencies, 2, sizes.inputs)
    spectra = hbm(kept) if keeps else None
    data = unpack(tables, places)
    work = Convolution(sizes, x, y, (w_re, w_im), data, is_adjoint, spectra)
    for_rows(batch, work, work.most, work.split, None)
    return y if spectra is None else (y, spectra)


class Convolution:
    """What all blocks of a launch share."""

    def __init__(
        self,
        layer: Layer,
        source: Tensor,
        target: Tensor,
        weight: Sequence[Tensor],
        tables: Sequence[Tensor],
        is_adjoint: bool,
        keep: Tensor | None,
    ) -> None:
        """Describe a launch; keep: HBM for the spectra of the source, or None."""
        self.layer, self.tables = layer, tables
        check_tables(tables, 2 * len(layer.lengths))
        balance = self.balance = Balance()
        axes = (lines, planes, volumes)[len(layer.lengths) - 1]
        self.analysis = axes.Analysis(layer, source, balance)
        self.synthesis = axes.Synthesis(layer, target, balance)
        self.modes = self.analysis.modes
        self.weight = Weight(weight, self.modes, layer, is_adjoint)
        self.keep = keep
        self.running = 0  # blocks that are on their way
        self.most = max(1, min(PARTITIONS, self._fitting_samples(source.shape[0])))

    def _fitting_samples(self, batch: int) -> int:
        """Return how many samples of a batch fit into SBUF at once."""
        if len(self.layer.lengths) == 3:
            free = chip.core().sbuf_partition_bytes - self.weight.held_bytes
            return volumes.most_samples(self.analysis, self.synthesis, free)
        share = -(-batch // nl.num_programs())
        room = chip.core().sbuf_partition_bytes - _OTHERS
        fitting = (
            count
            for count in range(min(PARTITIONS, share), 0, -1)
            if self._held_bytes(count, count == share) <= room
        )
        return next(fitting, 1)

    def _held_bytes(self, batch: int, is_only: bool) -> int:
        """Return the most bytes a partition that blocks of so many samples hold at once.

        is_only: whether there is one block, after which no weight and no rows are needed.
        """
        weight, rows = self.weight.held_bytes, self.analysis.held_bytes
        modes = self.modes
        of_x = 4 * modes.each * modes.inner * len(self.weight.inputs) * batch
        held = self.synthesis.held(batch, self.weight.inner_behind(batch))
        opening = weight + rows + of_x + _TURNED + STAGED_BYTES
        mixing = weight + of_x + held.mixed + (0 if self.weight.is_resident else STAGED_BYTES)
        closing = held.results
        if self.keep is not None:
            mixing = max(mixing, weight + of_x + _KEPT)
        if not is_only:
            mixing, closing = mixing + rows, closing + weight + rows
        return held.tables + held.turned + max(opening, mixing, closing)

    def split(self, base: Any, first: int, count: int) -> list[Rows]:
        """Return samples as blocks of about the same size."""
        found = cuts(first, first + count, -(-count // self.most))
        return [Rows(base, low, 1, end - low) for low, end in found]

    def setup(self) -> None:
        """Load tables, those that come later only if no block is on its way."""
        axes, dtype = len(self.layer.lengths), self.layer.dtype
        self.identity, self.loader = sbuf((PARTITIONS, PARTITIONS), dtype), Loader(dtype)
        self.analysis.setup(self.loader, self.tables[0:axes], self.identity)
        self.loader.begin()  # before GpSimdE, which clears its tile, waits for the identity
        load_identity(dtype, self.identity)
        self.loader.finish_to(self.analysis.first)
        self.weight.setup(self.loader)
        self.synthesis.setup(self.loader, self.tables[axes:], self.identity)
        if self.running == 0:
            self.loader.finish()
            self.loader.restart()

    def block(self, rows: Rows, number: int) -> Block:
        """A block of samples, from HBM to HBM."""
        self.running += 1
        self.analysis.rows.load(rows, 0)
        yield TURN
        spectra = self.analysis.spectra.open(rows.each)
        self.synthesis.open(rows.each)
        yield from self.analysis.run(rows, self.loader)
        yield Single(self.loader.finish)
        yield TURN
        if self.keep is not None:
            store = self.analysis.spectra.store
            yield Single(partial(store, self.identity, self.keep, rows))
        yield from Mixing(self.weight, spectra, self.synthesis.put, self.synthesis.follow).run()
        del spectra
        self.analysis.spectra.close()
        yield from self.synthesis.run(rows)
        self._close()

    def _close(self) -> None:
        """Leave everything as it was before a block, as an iteration of a loop has to."""
        self.synthesis.close()
        self.balance.restart()
        self.loader.restart()
        self.running -= 1
