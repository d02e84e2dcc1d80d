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

from ..base.arguments import check_dimensions, check_tables
from ..base.engines import PARTITIONS, cuts, hbm, sbuf
from ..base.isa import Tensor, nki
from ..base.launch import Rows, for_rows
from ..base.packing import unpack
from ..base.pipeline import TURN, Block, Single
from ..base.tables import load_identity
from .constants import Loader
from .layer import Layer, check_layer
from .lines import LineAnalysis, LineSynthesis
from .mixing import Mixing, Weight
from .planes import PlaneAnalysis, PlaneSynthesis
from .products import Balance
from .sample_transforms import Analysis, Synthesis
from .volumes import VolumeAnalysis, VolumeSynthesis

# By the number of axes.
_TRANSFORMS = (
    (LineAnalysis, LineSynthesis),
    (PlaneAnalysis, PlaneSynthesis),
    (VolumeAnalysis, VolumeSynthesis),
)


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
        self.balance, self.loader = Balance(), Loader(layer.dtype)
        self.identity = sbuf((PARTITIONS, PARTITIONS), layer.dtype)
        analysis, synthesis = _TRANSFORMS[len(layer.lengths) - 1]
        self.analysis: Analysis = analysis(layer, source, self.balance, self.identity)
        self.synthesis: Synthesis = synthesis(layer, target, self.balance, self.identity)
        self.weight = Weight(weight, self.analysis.modes, layer, is_adjoint, self.loader)
        self.keep = keep
        self.running = 0  # blocks that are on their way
        batch, keeps = source.shape[0], keep is not None
        fitting = self.synthesis.most_samples(self.analysis, self.weight, batch, keeps)
        self.most = max(1, min(PARTITIONS, fitting))

    def split(self, base: object, first: int, count: int) -> list[Rows]:
        """Return samples as blocks of about the same size."""
        found = cuts(first, first + count, -(-count // self.most))
        return [Rows(base, low, 1, end - low) for low, end in found]

    def setup(self) -> None:
        """Load tables, those that come later only if no block is on its way."""
        axes, dtype = len(self.layer.lengths), self.layer.dtype
        self.analysis.setup(self.loader, self.tables[0:axes])
        self.loader.begin()  # before GpSimdE, which clears its tile, waits for the identity
        load_identity(dtype, self.identity)
        self.loader.finish_to(self.analysis.first)
        self.weight.setup()
        self.synthesis.setup(self.loader, self.tables[axes:])
        if self.running == 0:
            self.loader.finish()
            self.loader.restart()

    def block(self, rows: Rows, number: int) -> Block:
        self.running += 1
        self.analysis.load_first(rows)
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
