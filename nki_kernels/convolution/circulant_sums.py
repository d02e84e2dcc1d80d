"""Gradients of the weight in block circulant kernels: products of spectra, summed over rows."""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nl
from ..row_blocks import share_rows
from ..tiles import NARROW, PARTITIONS, PSUM_BANK, multiply, transpose
from .circulant_areas import (
    BLOCKS,
    LOADED,
    NO_AXIS,
    PASSES,
    ROWS,
    SLOTS,
    WIDE,
    Area,
    Group,
    chunk_size,
    copy,
    in_spectra,
    moved_by,
    part_of,
    size_of,
    slots_of,
)
from .circulant_grid import (
    area_at,
    based_on,
    cut_into_grid,
    equal_part,
    longest_axes,
    positions_of,
    table_of,
)

ROWS_SUMMED = 1024  # rows whose spectra are multiplied and summed at once
_UNROLLED = 8000  # instructions of all sums, up to which no grid is needed
# instructions of a grid's body, which is small because up to fourteen strips have one, too
_SUMMED = 500
_SUMS = 8192  # fp32 numbers a partition that hold sums


class Correlation(nl.NKIObject):
    """Spectra in HBM whose products are summed over rows."""

    of_x: Any  # [q, 2h, pitch]
    of_y: Any  # [p, 2h, pitch]
    target: Any  # [q, 2h, pitch of p]
    side: int  # slots side by side, at most
    first: int  # the first of the blocks of x that are taken
    taken: int  # how many blocks of x are taken
    lefts: int  # chunks of the blocks of y, each of which is the body of a loop


def correlate_spectra(correlation: Any, tools: Any, rows: int) -> None:
    """Compute the spectra of dw, HBM [q, 2h, pitch of p]: conj X times dY, summed over the rows."""
    q, height, _ = correlation.of_x.shape
    p = correlation.of_y.shape[0]
    # The sums run over rows, so areas have the blocks of x in the place of rows.
    whole = Area(None, NO_AXIS, 0, p, 0, height // 2, 0, q)
    if unrolled_instructions(correlation, whole, rows) <= _UNROLLED:
        correlate_area(correlation, tools, whole, rows)
        return
    left: Any = [part_of(whole, SLOTS, 0, 1)]
    if height > 2:
        left.append(part_of(whole, SLOTS, 1, height // 2 - 1))
    index = 0
    while index < len(left):
        cut = cut_sums(correlation, left[index], rows)
        if positions_of(cut) > 1:
            sum_grid(correlation, tools, cut, rows)
            left = left + cut.strips
        else:
            correlate_area(correlation, tools, left[index], rows)
        index += 1


def cut_sums(correlation: Any, area: Any, rows: int) -> Any:
    """Cut an area into a grid along as many axes as keep the body short, the longest axis first."""
    of_x, of_y, target = correlation.of_x.shape, correlation.of_y.shape, correlation.target.shape
    work = taken_of(correlation, area, 1)
    group = group_of_sums(work, summed(area, rows), 0)
    slots = group.side * equal_part(area.slots // group.side, group.together)
    unit = [chunk_size(of_y[0]), slots, chunk_size(of_x[0])]
    counts = []
    for axis in range(3):
        counts.append(-(-size_of(area, axis) // unit[axis]))
    axes: Any = []
    once = area
    for axis in longest_axes(counts):
        work = taken_of(correlation, once, -(-once.blocks // unit[BLOCKS]))
        is_long = sums_instructions(work, summed(once, rows), once.slots) > _SUMMED
        if is_long and size_of(area, axis) >= 2 * unit[axis]:
            axes.append(axis)
            once = part_of(once, axis, 0, unit[axis])
    if len(axes) > 0:
        last = axes[len(axes) - 1]
        work = taken_of(correlation, once, -(-once.blocks // unit[BLOCKS]))
        most = _SUMMED // sums_instructions(work, summed(once, rows), once.slots)
        unit[last] *= equal_part(size_of(area, last) // unit[last], most)
    steps = [
        [0, of_x[2], of_x[1] * of_x[2]],
        [of_y[1] * of_y[2], of_y[2], 0],
        [1, target[2], target[1] * target[2]],
    ]
    return cut_into_grid(area, axes, unit, steps)


def sum_grid(correlation: Any, tools: Any, cut: Any, rows: int) -> None:
    """Compute the sums of an area that was cut into a grid."""
    table = table_of(cut)
    wide = chunk_size(correlation.of_y.shape[0])
    work = taken_of(correlation, cut.once, -(-cut.once.blocks // wide))

    def body(position: Any) -> None:
        area = summed(area_at(table, position, cut.once), rows)
        for left in range(0, area.blocks, wide):
            sum_slots(work, tools, part_of(area, BLOCKS, left, min(wide, area.blocks - left)))

    nl.fori_loop(0, positions_of(cut), body)


def summed(area: Any, rows: int) -> Any:
    """Return an area with rows in the place of blocks of x."""
    found = part_of(area, ROWS, 0, rows)
    found.row = 0
    return found


def taken_of(correlation: Any, area: Any, lefts: int) -> Any:
    """Return the sums of those blocks of x that an area has in the place of rows."""
    return Correlation(
        correlation.of_x,
        correlation.of_y,
        correlation.target,
        correlation.side,
        area.row,
        area.rows,
        lefts,
    )


def correlate_area(correlation: Any, tools: Any, area: Any, rows: int) -> None:
    """Compute the sums of an area, which has blocks of x in the place of rows.

    Programs share the slots. Few rows are summed slots by slots; many rows are a loop on the
    device.
    """
    wide = chunk_size(correlation.of_y.shape[0])
    work = taken_of(correlation, area, -(-area.blocks // wide))
    for left in range(0, area.blocks, wide):
        part = part_of(area, BLOCKS, left, min(wide, area.blocks - left))
        whole = summed(part, rows)
        if rows > 4 * sums_at_once(work):
            sum_by_rows(work, tools, whole)
        else:
            first = 1 if area.slot == 0 else 0
            if first > 0 and nl.program_id(0) == 0:
                sum_slots(work, tools, part_of(whole, SLOTS, 0, 1))
            if area.slots > first:
                sum_by_slots(work, tools, part_of(whole, SLOTS, first, area.slots - first))


def unrolled_instructions(correlation: Any, area: Any, rows: int) -> int:
    """Return about how many instructions ``correlate_area`` takes, every loop's body once."""
    work = taken_of(correlation, area, -(-area.blocks // chunk_size(area.blocks)))
    whole = summed(area, rows)
    step = sums_at_once(work)
    if rows > 4 * step:
        loops = -(-area.slots // slots_fitting(work))
        slots = -(-area.slots // loops)
        return 2 * loops * sums_instructions(work, part_of(whole, ROWS, 0, step), slots)
    later = part_of(whole, SLOTS, min(1, area.slots - 1), 1)
    return 2 * sums_instructions(work, later, 1)


def sums_at_once(correlation: Any) -> int:
    """Return how many rows are summed at once: fewer where there are many blocks."""
    chunks = tops_of(correlation) * correlation.lefts
    return PARTITIONS * max(1, ROWS_SUMMED // (PARTITIONS * chunks))


def tops_of(correlation: Any) -> int:
    """Return how many chunks the blocks of x that are taken have."""
    return -(-correlation.taken // chunk_size(correlation.of_x.shape[0]))


def slots_fitting(correlation: Any) -> int:
    """Return how many slots' sums fit into SBUF, for one chunk of the blocks of y."""
    wide = chunk_size(correlation.of_y.shape[0])
    return max(1, _SUMS // (2 * wide * tops_of(correlation)))


def sum_by_slots(correlation: Any, tools: Any, area: Any) -> None:
    """Sum this program's share of an area's slots over the rows."""
    group = group_of_sums(correlation, area, 0)
    unit = group.side * group.together
    once = sums_instructions(correlation, area, unit)
    share = share_rows(area.slots, unit, PASSES * once * 2 // 3)
    end = share.first + share.trips * share.step

    def body(base: Any) -> None:
        sum_slots(correlation, tools, moved_by(base, area, SLOTS, share.step))

    if share.trips > 0:
        nl.fori_loop(share.first, end, body, step=share.step)
    sum_slots(correlation, tools, part_of(area, SLOTS, end, share.rest))


def sum_slots(correlation: Any, tools: Any, area: Any) -> None:
    """Sum an area's slots over the rows, one group of slots after the other."""
    slot = 0
    while slot < area.slots:
        group = group_of_sums(correlation, area, slot)
        taken = part_of(area, SLOTS, slot, group.side * group.together)
        sums = clear_sums(correlation, taken)
        add_products(correlation, tools, taken, sums)
        store_sums(correlation, taken, sums)
        slot += taken.slots


def sum_by_rows(correlation: Any, tools: Any, area: Any) -> None:
    """Sum this program's share of an area's slots by loops over the rows.

    Each loop has as many slots as fit; both programs have the same number of loops.
    """
    most = -(-area.slots // nl.num_programs())
    loops = -(-most // slots_fitting(correlation))
    step = -(-most // loops)
    share = share_rows(area.slots, area.slots, 1)
    for slot in range(0, loops * step, step):
        held = max(0, min(step, share.rest - slot))
        loop_over_rows(correlation, tools, part_of(area, SLOTS, share.first + slot, held), step)


def loop_over_rows(correlation: Any, tools: Any, area: Any, slots: int) -> None:
    """Sum up to ``slots`` slots over the rows by a loop on the device."""
    step = min(area.rows, sums_at_once(correlation))
    once = sums_instructions(correlation, part_of(area, ROWS, 0, step), slots)
    share = share_rows(area.rows * nl.num_programs(), step, PASSES * once * 2 // 3)
    end = share.trips * share.step
    sums = clear_sums(correlation, area)

    def body(base: Any) -> None:
        add_products(correlation, tools, moved_by(base, area, ROWS, share.step), sums)

    if share.trips > 0:
        nl.fori_loop(0, end, body, step=share.step)
    add_products(correlation, tools, part_of(area, ROWS, end, area.rows - end), sums)
    store_sums(correlation, area, sums)


def group_of_sums(correlation: Any, area: Any, first: int) -> Any:
    """Return the slots that are summed together, from the area's slot ``first`` on."""
    left = area.slots - first
    if area.axis != SLOTS and area.slot + first == 0:
        return Group(first, 1, 1, True)
    q, p = correlation.of_x.shape[0], correlation.of_y.shape[0]
    side = min(correlation.side, left)
    rows = min(area.rows, sums_at_once(correlation))
    widest = side * max(chunk_size(q), chunk_size(p))
    sums = 2 * side * chunk_size(p) * tops_of(correlation)
    fitting = min(LOADED // (4 * widest), _SUMS // sums)
    together = max(1, min(LOADED // rows, fitting, left // side))
    return Group(first, side, together, False)


def sums_instructions(correlation: Any, area: Any, slots: int) -> int:
    """Return about how many instructions sums of so many slots take over an area's rows, at most.

    The count covers all chunks of the blocks of y that share the launch.
    """
    q, p = correlation.of_x.shape[0], correlation.of_y.shape[0]
    tops = tops_of(correlation)
    later = part_of(area, SLOTS, 1 if area.slot == 0 and slots > 1 else 0, slots)
    group = group_of_sums(correlation, later, 0)
    at_once = sums_at_once(correlation)
    steps = -(-area.rows // at_once)
    tiles = -(-min(area.rows, at_once) // PARTITIONS)
    height = 2 * group.side * max(chunk_size(q), chunk_size(p))
    moves = 2 * -(-group.together // (PSUM_BANK // height)) + 1
    turned = 2 + tiles * (group.together + moves)
    whole = group.side * group.together
    groups = -(-slots // whole) + (2 if slots > whole else 0)
    products = slots * (2 * tiles + 1)
    return correlation.lefts * (steps * (groups * (tops + 1) * turned + tops * products) + 2 * tops)


def clear_sums(correlation: Any, area: Any) -> Any:
    """Allocate zeros, SBUF [j, part, slots, i], for each chunk of blocks of x."""
    tall = chunk_size(correlation.of_x.shape[0])
    sums: Any = []
    if area.slots == 0:
        return sums
    for top in range(0, correlation.taken, tall):
        shape = (min(tall, correlation.taken - top), 2, area.slots, area.blocks)
        tile = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=0.0)
        sums.append(tile)
    return sums


def store_sums(correlation: Any, area: Any, sums: Any) -> None:
    """Store the sums of an area's slots in HBM."""
    target = correlation.target
    _, height, pitch = target.shape
    first = correlation.first
    for tile in sums:
        held, _, slots, width = tile.shape
        box = Area(area.base, area.axis, first, held, area.slot, slots, area.block, width)
        pattern = [[height * pitch, held], [height // 2 * pitch, 2], [pitch, slots], [1, width]]
        copy(in_spectra(target, pattern, based_on(box, 2)), tile, box)
        first += held


def add_products(correlation: Any, tools: Any, area: Any, sums: Any) -> None:
    """Add the products of an area's slots, rows and blocks of y to their sums."""
    tall = chunk_size(correlation.of_x.shape[0])
    step = sums_at_once(correlation)
    slot = 0
    while slot < area.slots and area.rows > 0:
        group = group_of_sums(correlation, area, slot)
        for row in range(0, area.rows, step):
            rows = part_of(area, ROWS, row, min(step, area.rows - row))
            right = load_turned(correlation.of_y, tools, based_on(rows, 1), group, 0)
            x = based_on(rows, 0)
            x.block = correlation.first
            for top in range(0, correlation.taken, tall):
                box = part_of(x, BLOCKS, top, min(tall, correlation.taken - top))
                turned = load_turned(correlation.of_x, tools, box, group, 1)
                correlate_slots(turned, right, group, sums[top // tall], slot)
        slot += group.side * group.together


def load_turned(spectra: Any, tools: Any, area: Any, group: Any, turn: int) -> Any:
    """Load a group's slots of an area's blocks as tiles [<= 128 rows, (slots, u, part, block)].

    turn: which loaded tile is used; with 0, the tiles have a third part, minus the real part.
    """
    height = 2 * group.side * area.blocks
    size = group.together * area.rows
    memory = tools.loaded[turn]
    tile = memory[0:height, 0:size].reshape((height, group.together, area.rows))
    nisa.memset(dst=memory[0:height, size : size + WIDE], value=0.0)
    copy(tile, slots_of(spectra, area, group, area.blocks), area)
    parts = 3 if turn == 0 else 2
    tiles = []
    for low in range(0, area.rows, PARTITIONS):
        length = min(PARTITIONS, area.rows - low)
        tiles.append(turn_rows(tile, tools.identity, low, length, group.side, parts))
    return tiles


def turn_rows(loaded: Any, identity: Any, low: int, length: int, side: int, parts: int) -> Any:
    """Transpose rows of spectra [(u part block), slots, rows] to [rows, (slots, u, part, block)].

    64 zeros follow at the end, because stationary operands must be wide.
    """
    height, together, count = loaded.shape
    width = height // (2 * side)
    columns = length if length > NARROW else WIDE
    total = together * side * parts * width
    memory = nl.ndarray((length, total + WIDE), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=memory[:, total : total + WIDE], value=0.0)
    tile = memory[:, 0:total].reshape((length, together, side, parts * width))
    group = PSUM_BANK // height
    for first in range(0, together, group):
        number = min(group, together - first)
        bank = nl.ndarray((columns, number, height), dtype=nl.float32, buffer=nl.psum)
        for index in range(number):
            at = (first + index) * count + low
            data = loaded.ap([[LOADED + WIDE, height], [1, columns]], at)
            transpose(bank[:, index], data, identity)
        result = tile[:, first : first + number]
        made = bank[0:length].reshape_dim(2, (side, 2 * width))
        nisa.tensor_copy(dst=result[:, :, :, 0 : 2 * width], src=made, engine=nisa.engine.vector)
        if parts == 3:
            nisa.activation(
                dst=result[:, :, :, 2 * width : 3 * width],
                op=nl.copy,
                data=made[:, :, :, 0:width],
                scale=-1.0,
            )
    return tile


def correlate_slots(left: Any, right: Any, group: Any, sums: Any, start: int) -> None:
    """Add to sums [j, part, slots, i]: over rows of (Xr, Xi) with (Yr, Yi) and (Yi, -Yr)."""
    side, together = group.side, group.together
    held, _, _, width = sums.shape
    columns = held if held > NARROW else WIDE
    parts = 1 if group.is_first else 2  # parts that one sum makes
    for index in range(side * together):
        own, slot = index // together, index % together
        for half in range(2 if group.is_first else 1):
            bank = nl.ndarray((columns, parts, width), dtype=nl.float32, buffer=nl.psum)
            for tile in range(len(left)):
                length, _, _, row = left[tile].shape
                for part in range(half, half + parts):
                    at = (slot * side + own) * row + part * held
                    pitch = together * side * row + WIDE
                    data = left[tile].ap([[pitch, length], [1, columns]], at)
                    other = right[tile][:, slot, own, part * width : (part + parts) * width]
                    is_more = tile + part - half > 0
                    multiply(bank, data, other, is_more)
            total = sums[:, half : half + parts, start + index]
            nisa.tensor_tensor(dst=total, data1=total, data2=bank[0:held], op=nl.add)
