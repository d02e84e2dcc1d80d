"""FFT over three axes in one trip over HBM: between its axes a volume rests in SBUF.

Mathematics.  The transform of a volume [n0, n1, n2] of real or complex numbers transforms n2, then
n0, then n1, each by one product with the axis's DFT matrix. For real data, n2/2 + 1 outputs of the
first are kept. Where n1 = 128, VectorE first computes sums and differences of rows 64 apart: the
outputs k1 = 2 q are products of the 64 sums, and k1 = 2 q + 1 are products of the 64 differences.

Layout on the NeuronCore.  A volume is loaded with n0 on partitions, each with all of its [n1, n2];
two volumes are loaded at once where n0 = 64. The Tensor engine transposes runs of 128 numbers, one
or two rows n1, and multiplies them as its stationary operand. From then on the data is the
stationary operand, too: the partitions of a product are the free run of its stationary operand,
which here is the axis that comes next.

    [n0, (n1, n2)] -> [(n1, n2), n0] -> [n0, (part, k2, n1)] -> [(k2, n1), (part, k0)]
        -> [k0, (part, k1, k2)]

Real and imaginary part are contracted one after the other. Where an axis has 64 numbers, the
partitions form two halves, with one volume or one k2 in each. Both halves are contracted at once,
each on half of the array. Where n1 = 128, sums and differences are the two halves. The result is
stored in two parts along k1, as runs of k1; the first part is stored while the second is computed.

Where transposes mix rows, on NeuronCore-v2, each volume has transposes of its own, so that no
volume reaches another.

Why it is fast.  HBM is read once and written once. A pass for each axis would move three times as
much, in runs of one row of a half spectrum. Real data has half the work from the first axis on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..isa import nisa, nki, nl
from ..packing import unpack
from ..roots import roots
from ..row_blocks import descriptors, share_rows
from ..row_guard import transposes_mix_rows
from ..table_terms import table_spec
from ..tiles import (
    HALF,
    PARTITIONS,
    PSUM_BANK,
    evacuate_in_turn,
    load_identity,
    load_tables,
    multiply_row_tile,
    psum_banks,
    transpose,
    turns_of,
)

SIZES = (HALF, PARTITIONS)  # sizes of an axis
MAX_STATE = 65 * 128  # numbers k2 n1 of a part; the smallest chip holds two states
_TOGETHER = 4  # operands of 128 columns that share a PSUM bank
_PIECE = 4096  # numbers a partition that are loaded at a time
_RING = 12288  # numbers a partition that are loaded and not yet used
_PRODUCED = 32  # outputs of n1 that a product makes
_STEPS = 2  # parts of the result, each with its products of 64 n1
_SPLIT = 4  # outputs k2 whose sums and differences are made at a time


class Volume(nl.NKIObject):
    """What all volumes of a launch share."""

    sizes: Any  # [n0, n1, n2]
    kept: int  # outputs of n2 that are kept
    parts: int  # parts of the input, real and imaginary or real alone
    tables: Any  # [of n2, of n0, of n1] in SBUF, or None until they are loaded
    identity: Any


class Members(nl.NKIObject):
    """Volumes that lie on the partitions together."""

    base: Any  # the register with which a device loop counts, or None
    first: int  # counted from the base
    count: int


class Piece(nl.NKIObject):
    """Rows n1 that are loaded together."""

    members: Members
    first: int
    count: int
    tile: Any  # SBUF [(member, n0), part, n1, n2]


def check_shape(shape: Any, is_real: bool) -> str:
    """Return why volumes of this shape are not transformed, or "" where they are."""
    if len(shape) != 3:
        return f"takes 3 axes, not {len(shape)}"
    for size in shape:
        if size not in SIZES:
            return f"takes axes of {HALF} or {PARTITIONS}"
    state = outputs(shape, is_real) * shape[1]
    return "" if state <= MAX_STATE else f"takes up to {MAX_STATE} outputs k2 times rows n1"


def outputs(shape: Any, is_real: bool) -> int:
    """Return how many outputs of the last axis are kept."""
    return int(shape[2] // 2 + 1 if is_real else shape[2])


def resident_volumes_tables(
    shape: tuple[int, ...], is_real: bool, inverse: bool = False, scale: float = 1.0
) -> tuple[np.ndarray[Any, Any], ...]:
    """Return a table for each axis of ``resident_volumes`` or ``resident_real_volumes``.

    They are computed in float64 and rounded once. Rows are the inputs, which are there twice if
    there are 64, then the part. The table of n2 is [128, 1 or 2, 2 kept], columns (part, k2). The
    table of n0 is [128, 2, 2 n0], columns (part, k0). The table of n1 is [128, 2, 128], columns (q
    in steps of 32, part, q of a step), where k1 is q, or 2 q for sums and 2 q + 1 for differences.

    Args:
        shape: (n0, n1, n2), each 64 or 128.
        is_real: whether the data is real.
        inverse: the sign of the exponent: False for exp(-...), True for exp(+...).
        scale: a factor on the transform.

    Returns:
        Three float32 arrays, of n2, n0 and n1.

    Raises:
        ValueError: the kernel does not accept the shape.
    """
    if reason := check_shape(shape, is_real):
        raise ValueError(f"shape {shape}: the kernel {reason}")
    n0, n1, n2 = shape
    opening = _matrix(n2, inverse, scale)[:, : 1 if is_real else 2, :, : outputs(shape, is_real)]
    last = _matrix(n1, inverse)[:HALF]
    if n1 > HALF:
        last = np.concatenate([last[..., 0::2], last[..., 1::2]])
    last = last.reshape(-1, 2, 2, _STEPS, _PRODUCED).swapaxes(2, 3)
    found = (opening, _matrix(n0, inverse), last)
    return tuple(
        np.tile(table.reshape(*table.shape[:2], -1), (PARTITIONS // len(table), 1, 1)).astype(
            np.float32
        )
        for table in found
    )


def _matrix(n: int, inverse: bool, scale: float = 1.0) -> np.ndarray[Any, Any]:
    """Return the DFT matrix as real [input, part, part', output]."""
    i = np.arange(n)
    w = scale * roots(np.outer(i, i), n, inverse)
    real, imaginary = w.real, w.imag
    rows = [np.stack([real, imaginary], 1), np.stack([-imaginary, real], 1)]
    return np.stack(rows, 1)


def resident_volumes_specs(shape: tuple[int, ...], is_real: bool) -> tuple[Any, ...]:
    """Return the (shape, dtype) of each of ``resident_volumes_tables(shape, is_real, ...)``."""
    opening = (PARTITIONS, 1 if is_real else 2, 2 * outputs(shape, is_real))
    shapes = (opening, (PARTITIONS, 2, 2 * shape[0]), (PARTITIONS, 2, 2 * HALF))
    return tuple(table_spec(each) for each in shapes)


@nki.jit
def resident_volumes(x_re, x_im, tables, places):  # type: ignore[no-untyped-def]
    """Transform the volumes of ``x_re + i x_im`` over three axes.

    Args:
        x_re, x_im: real and imaginary part, float32 HBM [B, n0, n1, n2].
        tables, places: the two results of ``pack(resident_volumes_tables((n0, n1, n2), False,
            ...))``.

    Returns:
        (y_re, y_im), float32 HBM [B, n0, n1, n2].
    """
    return transform_volumes([x_re, x_im], unpack(tables, places))


@nki.jit
def resident_real_volumes(x, tables, places):  # type: ignore[no-untyped-def]
    """Transform real volumes over three axes.

    Args:
        x: float32 HBM [B, n0, n1, n2].
        tables, places: the two results of ``pack(resident_volumes_tables((n0, n1, n2), True,
            ...))``.

    Returns:
        (y_re, y_im), float32 HBM [B, n0, n1, n2/2 + 1].
    """
    return transform_volumes([x], unpack(tables, places))


def transform_volumes(source: Any, tables: Any) -> Any:
    """Transform HBM source, one part or two, by tables in HBM; return both parts of the result."""
    batch, n0, n1, n2 = source[0].shape
    volume = Volume([n0, n1, n2], tables[0].shape[2] // 2, len(source), None, None)
    target = []
    for _ in range(2):
        shape = (batch, n0, n1, volume.kept)
        target.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm))
    share = share_rows(batch, PARTITIONS // n0, group_instructions(volume))
    end = share.first + share.trips * share.step
    if share.trips > 0:
        load_volume(volume, tables)

    def body(base: Any) -> None:
        transform_groups(source, target, volume, groups_of(volume, base, 0, share.step), tables)

    if share.trips > 0:
        nl.fori_loop(share.first, end, body, share.step)
    transform_groups(source, target, volume, groups_of(volume, None, end, share.rest), tables)
    return target[0], target[1]


def groups_of(volume: Any, base: Any, first: int, count: int) -> Any:
    """Return ``count`` volumes from ``first`` on, as many together as fit the partitions."""
    step = PARTITIONS // volume.sizes[0]
    groups = []
    for low in range(0, count, step):
        groups.append(Members(base, first + low, min(step, count - low)))
    return groups


def group_instructions(volume: Any) -> int:
    """Return about how many instructions the volumes on the partitions take."""
    n0, n1, n2 = volume.sizes
    opening = n1 * volume.parts * (2 + PARTITIONS // n0)
    rows = volume.kept * n1 // PARTITIONS + 1
    return opening + rows * 3 * (PARTITIONS // n0) + volume.kept * 3 * n1 // _PRODUCED


def load_volume(volume: Any, tables: Any) -> None:
    """Load the tables into SBUF."""
    volume.identity = load_identity(nl.float32)
    volume.tables = load_tables(tables)


def transform_groups(source: Any, target: Any, volume: Any, groups: Any, tables: Any) -> None:
    """Transform groups one after the other, while rows of the next ones are loaded."""
    if len(groups) == 0:
        if volume.tables == None:
            load_volume(volume, tables)  # both programs allocate the same constants
        return
    pieces = pieces_of(volume, groups)
    ahead = 0
    while ahead < len(pieces) and pieces[ahead].tile != None:
        load_piece(pieces[ahead], source, volume)
        ahead += 1
        if volume.tables == None:
            load_volume(volume, tables)
    # VectorE has the sums and differences, too.
    turns = turns_of(2 if volume.sizes[1] == HALF else 3)
    each = len(pieces) // len(groups)
    for index in range(len(groups)):
        rows = groups[index].count * volume.sizes[0]
        shape = (rows, 2, volume.kept, volume.sizes[1])
        state = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        for number in range(index * each, (index + 1) * each):
            open_piece(pieces[number], state, volume, turns)
            if number + ahead < len(pieces):
                pieces[number + ahead].tile = pieces[number].tile
                load_piece(pieces[number + ahead], source, volume)
        runs = transform_first(state, groups[index], volume, turns)
        for step in range(_STEPS):
            close_rows(target, groups[index], runs, step, volume, turns)


def pieces_of(volume: Any, groups: Any) -> Any:
    """Return all pieces of groups; the first ones have tiles, which later pieces take over."""
    _, n1, n2 = volume.sizes
    count = min(n1, _PIECE // (volume.parts * n2))
    size = count * volume.parts * n2
    pieces: Any = []
    for members in groups:
        for first in range(0, n1, count):
            tile: Any = None
            if len(pieces) < _RING // size:
                shape = (PARTITIONS, volume.parts, count, n2)
                tile = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
            pieces.append(Piece(members, first, count, tile))
    return pieces


def load_piece(piece: Any, source: Any, volume: Any) -> None:
    """Load rows of every member and part."""
    n0, n1, n2 = volume.sizes
    base = piece.members.base
    for part in range(volume.parts):
        for member in range(piece.members.count):
            offset = ((piece.members.first + member) * n0 * n1 + piece.first) * n2
            pattern = [[n1 * n2, n0], [n2, piece.count], [1, n2]]
            data = source[part].ap(pattern, offset, scalar_offset=base)
            place = piece.tile[member * n0 : (member + 1) * n0, part]
            nisa.dma_copy(dst=place, src=data, dge_mode=descriptors(base))


def multiply_part(dst: Any, stationary: Any, moving: Any, low: int, count: int, term: int) -> None:
    """Multiply ``count`` (64 or 128) partitions from ``low`` on, on as much of the array.

    term: the number of the product within its sum; from 1 on, products are added.
    """
    held, moved = stationary[low : low + count], moving[low : low + count]
    multiply_row_tile(dst, held, moved, low, count, term > 0)


def open_piece(piece: Any, state: Any, volume: Any, turns: Any) -> None:
    """Transform n2 in the rows of a piece, into SBUF state [(member, n0), part, k2, n1]."""
    rows = PARTITIONS // volume.sizes[2]  # n1 of a run
    count = min(_TOGETHER, piece.count // rows)
    pending: Any = None
    for first in range(0, piece.count // rows, count):
        turned = []
        for part in range(volume.parts):
            turned.append(turn_runs(piece, part, first, count, volume, turns))
        if first > 0:
            open_runs(pending, state, piece.first + (first - count) * rows, volume, turns)
        pending = turned
    open_runs(pending, state, piece.first + piece.count - count * rows, volume, turns)


def turn_runs(piece: Any, part: int, first: int, count: int, volume: Any, turns: Any) -> Any:
    """Transpose runs from ``first`` on to SBUF [(n1, n2), run, (member, n0)]."""
    n0 = volume.sizes[0]
    rows = piece.members.count * n0
    bank = nl.ndarray((PARTITIONS, count, rows), dtype=nl.float32, buffer=nl.psum)
    data = piece.tile.reshape((PARTITIONS, volume.parts, piece.count * volume.sizes[2]))
    for index in range(count):
        low = (first + index) * PARTITIONS
        run = data[:, part, low : low + PARTITIONS]
        if not transposes_mix_rows() or piece.members.count == 1:
            transpose(bank[:, index], run[0:rows], volume.identity)
        else:
            for member in range(2):
                turn_member(bank[:, index], run, member, volume.identity)
    turned = nl.ndarray(bank.shape, dtype=nl.float32, buffer=nl.sbuf)
    evacuate_in_turn(turned, bank, turns)
    return turned


def turn_member(dst: Any, run: Any, member: int, identity: Any) -> None:
    """Transpose one of two members by half of the array, which does not read the other member."""
    low = member * HALF
    nisa.nc_matmul(
        dst=dst[:, low : low + HALF],
        stationary=run[low : low + HALF],
        moving=identity[low : low + HALF, low : low + HALF],
        is_moving_onezero=True,
        accumulate=False,
        tile_position=(low, 0),
        tile_size=(HALF, PARTITIONS),
    )


def open_runs(turned: Any, state: Any, first: int, volume: Any, turns: Any) -> None:
    """Multiply transposed runs, the first of which has the row n1 = ``first``."""
    n2, kept = volume.sizes[2], volume.kept
    halves, count = PARTITIONS // n2, turned[0].shape[1]
    # A sum of two terms has a bank of its own; single products share a bank, as many as fit evenly.
    together = 1
    while volume.parts == 1 and 2 * together <= count and 4 * together * kept <= PSUM_BANK:
        together *= 2
    for low in range(0, count, together):
        banks = psum_banks(halves, (state.shape[0], 2 * kept, together))
        for index in range(together):
            for part in range(volume.parts):
                table = volume.tables[0][:, part]
                for half in range(halves):
                    run, place = turned[part][:, low + index], banks[half][:, :, index]
                    multiply_part(place, run, table, half * n2, n2, part)
        for half in range(halves):
            n1 = first + low * halves + half
            place = state[:, :, :, n1 : n1 + (together - 1) * halves + 1 : halves]
            evacuate_in_turn(place, banks[half].reshape((state.shape[0], 2, kept, together)), turns)


def transform_first(state: Any, members: Any, volume: Any, turns: Any) -> Any:
    """Transform n0; return a list of SBUF [(k2, n1), part, (member, k0)], of 128 (k2, n1) each."""
    n0, n1, _ = volume.sizes
    width = members.count * n0
    step = _SPLIT * n1 if n1 > HALF else volume.kept * n1
    found: Any = []
    runs = rows_of(state, 0, step, volume)
    for first in range(0, volume.kept * n1, step):
        following: Any = None
        if first + step < volume.kept * n1:
            following = rows_of(state, first + step, step, volume)
        for low in range(0, runs.shape[2], PARTITIONS):
            count = min(PARTITIONS, runs.shape[2] - low)
            made = nl.ndarray((count, 2, width), dtype=nl.float32, buffer=nl.sbuf)
            banks = psum_banks(members.count, (count, 2 * n0))
            for part in range(2):
                for member in range(members.count):
                    run, table = runs[:, part, low : low + count], volume.tables[1][:, part]
                    multiply_part(banks[member], run, table, member * n0, n0, part)
            for member in range(members.count):
                place = made[:, :, member * n0 : (member + 1) * n0]
                evacuate_in_turn(place, banks[member].reshape((count, 2, n0)), turns)
            found.append(made)
        runs = following
    return found


def rows_of(state: Any, first: int, count: int, volume: Any) -> Any:
    """Return ``count`` (k2, n1) of a state from ``first`` on, [(member, n0), part, (k2, n1)].

    Where n1 = 128, they are 64 sums and 64 differences of rows that are 64 apart.
    """
    n1 = volume.sizes[1]
    if n1 == HALF:
        return state.reshape((state.shape[0], 2, volume.kept * n1))
    low = first // n1
    high = min(volume.kept, (first + count) // n1)
    shape = (state.shape[0], 2, high - low, n1)
    rows = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    one, other = state[:, :, low:high, 0:HALF], state[:, :, low:high, HALF:PARTITIONS]
    sums, differences = rows[:, :, :, 0:HALF], rows[:, :, :, HALF:PARTITIONS]
    nisa.tensor_tensor(dst=sums, data1=one, data2=other, op=nl.add, engine=nisa.engine.vector)
    nisa.tensor_tensor(
        dst=differences, data1=one, data2=other, op=nl.subtract, engine=nisa.engine.vector
    )
    return rows.reshape((state.shape[0], 2, (high - low) * n1))


def close_rows(target: Any, members: Any, runs: Any, step: int, volume: Any, turns: Any) -> None:
    """Transform n1 for a part of its outputs, and store them in HBM."""
    n0, n1, _ = volume.sizes
    width, together = members.count * n0, PARTITIONS // n1
    rows = _PRODUCED * n1 // HALF  # k1 of the part
    result = nl.ndarray((width, 2, rows, volume.kept), dtype=nl.float32, buffer=nl.sbuf)
    columns = 2 * step * _PRODUCED
    for index in range(len(runs)):
        halves = runs[index].shape[0] // HALF
        banks = psum_banks(halves, (width, 2 * _PRODUCED))
        for part in range(2):
            table = volume.tables[2][:, part, columns : columns + 2 * _PRODUCED]
            for half in range(halves):
                multiply_part(banks[half], runs[index][:, part], table, half * HALF, HALF, part)
        for half in range(halves):
            made = banks[half].reshape((width, 2, _PRODUCED))
            if together > 1:
                evacuate_in_turn(result[:, :, :, together * index + half], made, turns)
            else:
                evacuate_in_turn(result[:, :, half:rows:2, index], made, turns)
    store_rows(target, members, result, step * rows, volume)


def store_rows(target: Any, members: Any, result: Any, first: int, volume: Any) -> None:
    """Store the outputs k1 from ``first`` on, of every member, in HBM."""
    n0, n1, _ = volume.sizes
    rows, kept = result.shape[2], volume.kept
    for part in range(2):
        for member in range(members.count):
            offset = ((members.first + member) * n0 * n1 + first) * kept
            pattern = [[n1 * kept, n0], [kept, rows], [1, kept]]
            data = target[part].ap(pattern, offset, scalar_offset=members.base)
            place = result[member * n0 : (member + 1) * n0, part]
            nisa.dma_copy(dst=data, src=place, dge_mode=descriptors(members.base))
