"""How four-step transforms of a batch are spread, and which tables stay in SBUF: see four_step.py.

Twiddles and the matrices of the turn (the last stage before the twiddles) are streamed where they
do not fit into SBUF, and where only one transform reads them.
"""

from __future__ import annotations

from typing import Any

from ..isa import nl
from ..tiles import PARTITIONS, PSUM_BANK, SMALLEST_SBUF, WHOLE_RADIX, load_identity, load_tables
from .four_step_tables import last_turn, middle_stages
from .spread_lines import LOADED, RING, RING_LENGTH, Spread, ring_size, start_loads
from .stockham_shared import Shared, table_pieces, tiles_by_piece
from .stockham_stages import length_of
from .twiddled_stage import Streamed, pieces_to_hold, streamed_of

STORED = 1024  # numbers of each part of an output tile
SIDE_BY_SIDE = STORED // 2  # A, up to which transforms lie side by side on the partitions of a tile
LONG = 2048  # k_a of a bundle, beyond which a bundle is closed before the next one's stages
_WORKING = 24 << 10  # bytes of a partition for operands, results and small tables
_STREAMED = 32 << 10  # bytes of a partition for pieces of streamed tables
_STREAMED_ONCE = 512  # A, from which on the tables of a single transform are streamed
_FEWEST = 16  # bundles of a batch, if it is long enough: nothing overlaps the first and the last


class Tables(nl.NKIObject):
    """A plan's tables in SBUF, and what else stays there."""

    shared: Shared  # the Shared of Stockham's stages between the first one and the turn
    turn: Any  # the stage before the twiddles, or None where it is the first stage
    matrices: Any  # the turn's matrices, a Streamed
    # [2 r1, 1, 2 r1], for r1 <= 32 again from partition 64 on; [r1, 2, 2 r1] for r1 > 64
    first: Any
    twiddle: Streamed  # [C, 2 A]
    last: Any  # Wr, Wi and -Wi: [C, 3, columns], with zeros from column C on


def spread_of(radices: Any, batch: int) -> Spread:
    """Return how transforms of a batch are spread."""
    first, columns = radices[0], radices[len(radices) - 1]
    length = length_of(radices) // columns
    parts = 1 if first <= WHOLE_RADIX else 2
    places = 2 if 4 * first <= PARTITIONS and length <= SIDE_BY_SIDE else 1
    width = LOADED // parts
    each = min(width * first // (columns * length), STORED // (places * length))
    few = -(-batch // (_FEWEST * nl.num_programs()))
    rows = min(places * max(1, each), max(places, few))
    return Spread(radices, length, columns, parts, places, rows, width // columns * columns)


def result_tiles(spread: Spread) -> Any:
    """Allocate tiles for results of a long bundle, where SBUF has room for several, or return None.

    Several tiles let results wait for their stores. Fresh tiles would be in memory that the next
    state needs, and this state would wait for the stores.
    """
    if not is_long(spread) or spread.length > RING_LENGTH:
        return None
    tiles = []
    for _ in range(RING):
        shape = (spread.columns, 2, 1, PSUM_BANK)
        tiles.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    return tiles


def hold_tables(tables: Any, spread: Spread, loads: Any = None) -> Tables:
    """Load the tables into SBUF, except for those that are streamed.

    Tables are streamed that do not fit, or that only one transform reads. loads: all inputs of the
    launch, which begin between the tables, or None.
    """
    stages, turn = middle_stages(spread.radices), last_turn(spread.radices)
    ends = load_tables([tables[0], tables[len(tables) - 1]])
    is_once = False
    if loads != None and len(loads.bundles) > 0:
        is_once = len(loads.bundles) == 1 and spread.length >= _STREAMED_ONCE
        start_loads(loads, len(loads.bundles[0].chunks))
    wanted: Any = []
    begins = []
    for index in range(len(stages)):
        stages[index].table = tables[index + 1]
        begins.append(len(wanted))
        for piece in table_pieces(stages[index]):
            wanted.append(piece)
    streamed = streamed_tables(tables, spread, turn)
    room = 0 if is_once else room_of(spread, wanted, streamed)
    resident: Any = []
    for table in streamed:
        if 4 * table.source.shape[1] <= room:
            room -= 4 * table.source.shape[1]
            resident.append(table)
    identity = None if turn == None else load_identity(nl.float32)
    owners = in_turn(resident, wanted)
    loaded = load_tables(wanted)
    for index in range(len(owners)):
        owners[index].tiles.append(loaded[len(wanted) - len(owners) + index])
    for index in range(len(stages)):
        stages[index].tiles = tiles_by_piece(stages[index], loaded, begins[index])
    # ScalarE evacuates everything, because VectorE has the twiddles.
    shared = Shared(stages, identity, nl.float32, 0, 0, 0, None, True)
    matrices = streamed[1] if turn != None else None
    return Tables(shared, turn, matrices, ends[0], streamed[0], ends[1])


def streamed_tables(tables: Any, spread: Spread, turn: Any) -> Any:
    """Return tables that need not stay in SBUF: the twiddles and, if any, the turn's matrices."""
    source = tables[len(tables) - 2].reshape((spread.columns, 2 * spread.length))
    if turn == None:
        return [streamed_of(source, 2 * spread.length, 1)]
    twiddle = streamed_of(source, 2 * turn.stage.slabs * turn.stage.produced, turn.together)
    table = tables[len(tables) - 3]
    rows, products, width = table.shape
    source = table.reshape((rows, products * width))
    return [twiddle, streamed_of(source, width, turn.together)]


def in_turn(tables: Any, wanted: Any) -> Any:
    """Append the pieces of tables to ``wanted``, a piece of each in turn; return their tables.

    The first bundle reads some of the pieces while others arrive.
    """
    pieces: Any = []
    most = 0
    for table in tables:
        found = pieces_to_hold(table)
        pieces.append(found)
        most = max(most, len(found))
    owners: Any = []
    for index in range(most):
        for number in range(len(tables)):
            if index < len(pieces[number]):
                owners.append(tables[number])
                wanted.append(pieces[number][index])
    return owners


def room_of(spread: Spread, wanted: Any, streamed: Any) -> int:
    """Return the bytes of a partition for tables that need not stay in SBUF."""
    room = SMALLEST_SBUF - _WORKING - 4 * spread.loaded * ring_size(spread, RING)
    room -= 16 * spread.rows * spread.length
    for table in wanted:
        room -= 4 * table.shape[1] * table.shape[2]
    all_of_them = 0
    for table in streamed:
        all_of_them += 4 * table.source.shape[1]
    return room if all_of_them <= room else room - _STREAMED


def is_long(spread: Spread) -> bool:
    """Return whether SBUF holds no more than two states of a bundle."""
    return bool(spread.rows * spread.length > LONG)
