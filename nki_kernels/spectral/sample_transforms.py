"""The transforms of a Fourier layer's samples: from HBM to kept frequencies, and back.

An analysis takes samples from HBM to their kept frequencies in SBUF, where channels are mixed. A
synthesis takes mixed frequencies back to HBM. There is one of each for samples with one axis
(lines.py), with two (planes.py) and with three (volumes.py). A launch passes its blocks of samples
through both, one block after the other, so that what a block holds is let go before the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..base import chip
from ..base.engines import PARTITIONS
from ..base.isa import Tensor, nl
from ..base.launch import Rows
from ..base.pipeline import Item
from .constants import STAGED_BYTES, Loader
from .layer import Layer, Operand, operands
from .mixing import Mixed, Modes, Weight
from .products import Balance
from .row_tiles import Spectra

# bytes a partition of small things, of transposed runs, and of spectra that are stored
_OTHERS, _TURNED, _KEPT = 4 << 10, 16 << 10, 40 << 10


@dataclass(frozen=True)
class Held:
    """Bytes a partition of SBUF that the way back of a block holds.

    tables: always. mixed: of mixed spectra, while channels are mixed. turned: of the transposed
    ones, until the end. results: of what is computed from these.
    """

    tables: int
    mixed: int
    turned: int
    results: int


def modes_of(layer: Layer) -> Modes:
    """Return how the frequencies of a layer are cut."""
    halves = PARTITIONS // operands(layer.inputs)[0].rows
    inner = layer.counts[-1] if len(layer.counts) > 1 else 1
    outer = layer.frequencies // inner
    return Modes(outer, inner, halves, -(-outer // halves))


class Analysis(Protocol):
    """From samples in HBM to spectra [(half, part, i), b, f] in SBUF.

    identity: SBUF [128, 128], with which runs are transposed. first: the jobs of the loader that
    come before all others. work_bytes: those a partition of what lives only while spectra are made.
    """

    layer: Layer
    balance: Balance
    identity: Tensor
    modes: Modes
    spectra: Spectra
    first: int
    work_bytes: int

    def __init__(self, layer: Layer, balance: Balance, identity: Tensor) -> None:
        self.layer, self.balance, self.identity = layer, balance, identity
        self.modes = modes_of(layer)
        self.spectra = Spectra(layer, self.modes, balance)
        self.first = self.work_bytes = 0

    @property
    def held_bytes(self) -> int:
        """The bytes a partition of rows, of what lies between their transforms, and of tables."""

    def setup(self, loader: Loader, tables: Sequence[Tensor]) -> None:
        """Ask for the tables into spectra, HBM, that of the last axis first."""

    def load_first(self, rows: Rows) -> None:
        """Load the first tile of a block, which is all that is loaded before the block begins."""

    def run(self, rows: Rows, loader: Loader) -> Iterator[Item]:
        """Yield the tasks of a block, whose first tile is loaded."""


class Synthesis(Protocol):
    """From mixed spectra to samples in HBM.

    identity: SBUF [128, 128], with which spectra are transposed. over: how outputs lie on the
    partitions. batch: the samples of the block.
    """

    layer: Layer
    target: Tensor
    balance: Balance
    identity: Tensor
    over: Sequence[Operand]
    batch: int

    def __init__(self, layer: Layer, target: Tensor, balance: Balance, identity: Tensor) -> None:
        self.layer, self.target = layer, target
        self.balance, self.identity = balance, identity
        self.over = operands(layer.outputs)
        self.batch = 0

    def setup(self, loader: Loader, tables: Sequence[Tensor]) -> None:
        """Ask for the tables back, HBM, that of the last axis first."""

    def most_samples(self, analysis: Analysis, weight: Weight, batch: int, keeps: bool) -> int:
        """Return how many samples of a batch of all programs fit into SBUF at once.

        keeps: whether spectra are stored, too.
        """

    def open(self, batch: int) -> None:
        """Begin a block of so many samples."""

    def put(self, mixed: Mixed) -> None:
        """Move mixed spectra [(part, o), inner, outer, b] to where they are transposed."""

    def follow(self, first: int, count: int) -> Iterator[Item]:
        """Yield what can be done once so many inner frequencies from ``first`` on are mixed.

        That is nothing where all frequencies of a sample are transposed together.
        """
        yield from ()

    def run(self, rows: Rows) -> Iterator[Item]:
        """Yield the tasks of a block, after all of its spectra are mixed."""

    def close(self) -> None:
        """Let go of the spectra of a block."""


class RowSynthesis(Synthesis, Protocol):
    """From mixed spectra to samples whose lines or planes are rows on the partitions."""

    def held(self, batch: int, inner: int) -> Held:
        """Return what so many samples hold, with so many inner frequencies of mixed spectra."""

    def most_samples(self, analysis: Analysis, weight: Weight, batch: int, keeps: bool) -> int:
        share = -(-batch // nl.num_programs())
        room = chip.core().sbuf_partition_bytes - _OTHERS
        for count in range(min(PARTITIONS, share), 0, -1):
            back, rows = self.held(count, weight.inner_behind(count)), analysis.held_bytes
            if _held_bytes(rows, back, weight, count, keeps, count == share) <= room:
                return count
        return 1


def _held_bytes(
    rows: int, back: Held, weight: Weight, batch: int, keeps: bool, is_only: bool
) -> int:
    """Return the most bytes a partition that blocks of so many samples hold at once.

    is_only: whether there is one block, after which no weight and no rows are needed.
    """
    modes = weight.modes
    of_x = 4 * modes.each * modes.inner * len(weight.inputs) * batch
    opening = weight.held_bytes + rows + of_x + _TURNED + STAGED_BYTES
    mixing = weight.held_bytes + of_x + back.mixed + (0 if weight.is_resident else STAGED_BYTES)
    closing = back.results
    if keeps:
        mixing = max(mixing, weight.held_bytes + of_x + _KEPT)
    if not is_only:
        mixing, closing = mixing + rows, closing + weight.held_bytes + rows
    return back.tables + back.turned + max(opening, mixing, closing)
