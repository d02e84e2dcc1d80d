"""How many samples fit into SBUF, where their lines or planes are rows on the partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nki_sim.hardware import PARTITIONS

from ..base import chip
from ..base.isa import nl
from .constants import STAGED_BYTES
from .mixing import Weight

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


def most_samples(
    rows: int, held: Callable[[int, int], Held], weight: Weight, batch: int, keeps: bool
) -> int:
    """Return how many samples of a batch fit into SBUF at once, or 1 where none fits.

    Args:
        rows: bytes a partition of rows, and of the tables into spectra.
        held: returns what so many samples hold, with so many inner frequencies of mixed spectra.
        weight: the weight of the layer.
        batch: the samples of all programs.
        keeps: whether spectra are stored, too.
    """
    share = -(-batch // nl.num_programs())
    room = chip.core().sbuf_partition_bytes - _OTHERS
    for count in range(min(PARTITIONS, share), 0, -1):
        back = held(count, weight.inner_behind(count))
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
