"""Products of spectra in block circulant kernels, by a matrix of the weight's spectra per slot."""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nl
from ..row_blocks import Share, share_rows
from ..tiles import NARROW, PSUM_BANK, multiply, transpose
from .circulant_areas import (
    BLOCKS,
    LOADED,
    NO_AXIS,
    PASSES,
    ROWS,
    SLOTS,
    STAGED,
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
    WALKED,
    area_at,
    based_on,
    cut_into_grid,
    equal_part,
    longest_axes,
    positions_of,
    table_of,
)


class Product(nl.NKIObject):
    """Spectra in HBM, and the spectra of the weight by which they are multiplied."""

    source: Any  # [blocks, 2h, pitch]
    weights: Any  # [q, 2h, pitch of p]
    target: Any  # [blocks, 2h, pitch]
    side: int  # slots side by side, at most
    is_turned: bool  # whether matrices are transposed, for spectra of dx from spectra of dy


class Columns(nl.NKIObject):
    """A stationary matrix for each of some slots: SBUF [K, slots, columns], zeros past ``used``."""

    tile: Any
    used: int


class Chunk(nl.NKIObject):
    """Blocks of the result that one product makes, as columns of its matrix."""

    first: int
    blocks: int


def step_of_rows(product: Any, rows: int) -> int:
    """Return how many rows are multiplied at once."""
    taken = product.source.shape[0]
    pieces = -(-taken // chunk_size(taken))
    return max(1, min(rows, PSUM_BANK, LOADED // pieces))


def multiply_spectra(product: Any, tools: Any, rows: int) -> None:
    """Multiply spectra of x by spectra of the weight, giving y; or spectra of dy, giving dx."""
    made, height, _ = product.target.shape
    whole = Area(None, NO_AXIS, 0, made, 0, height // 2, 0, rows)
    # Slot 0 is multiplied alone, because its matrix has another form.
    left: Any = [part_of(whole, SLOTS, 0, 1)]
    if height > 2:
        left.append(part_of(whole, SLOTS, 1, height // 2 - 1))
    index = 0
    while index < len(left):
        unit = units_of(product, left[index])
        axes = axes_of(product, left[index], unit)
        cut = cut_into_grid(left[index], axes, unit, steps_of(product))
        if len(axes) > 1 and positions_of(cut) > 0:
            multiply_grid(product, tools, cut)
            left = left + cut.strips
        else:
            multiply_along(product, tools, left[index], axes[0])
        index += 1


def units_of(product: Any, area: Any) -> Any:
    """Return the blocks, slots and rows of an area that are multiplied at once."""
    side = min(product.side, area.slots)
    return [chunk_size(product.target.shape[0]), side, step_of_rows(product, area.rows)]


def axes_of(product: Any, area: Any, unit: Any) -> Any:
    """Return the axes of a loop on the device: the longest, and others if its body is too long.

    Along the last of these axes the unit grows until the body is as long as it may be.
    """
    counts = []
    for axis in range(3):
        counts.append(-(-size_of(area, axis) // unit[axis]))
    axes: Any = []
    once = area
    for axis in longest_axes(counts):
        is_long = products_instructions(product, once) > WALKED
        if len(axes) == 0 or (is_long and size_of(area, axis) >= 2 * unit[axis]):
            axes.append(axis)
            once = part_of(once, axis, 0, unit[axis])
    if len(axes) > 1:
        last = axes[len(axes) - 1]
        most = WALKED // products_instructions(product, once)
        unit[last] *= equal_part(size_of(area, last) // unit[last], most)
    return axes


def multiply_grid(product: Any, tools: Any, cut: Any) -> None:
    """Make the products of an area that was cut into a grid."""
    table = table_of(cut)

    def body(position: Any) -> None:
        multiply_area(product, tools, area_at(table, position, cut.once))

    nl.fori_loop(0, positions_of(cut), body)


def steps_of(product: Any) -> Any:
    """Return the numbers in HBM from one block, slot and row to the next.

    There is a list for each of source, weights and target.
    """
    taken, weight, made = product.source.shape, product.weights.shape, product.target.shape
    block = weight[1] * weight[2] if product.is_turned else 1
    return [[0, taken[2], 1], [block, weight[2], 0], [made[1] * made[2], made[2], 1]]


def multiply_along(product: Any, tools: Any, area: Any, axis: int) -> None:
    """Make the products of an area by a loop along one axis."""
    wide = chunk_size(product.target.shape[0])
    unit = units_of(product, area)[axis]
    one = products_instructions(product, part_of(area, axis, 0, unit))
    two = products_instructions(product, part_of(area, axis, 0, 2 * unit))
    once = max(1, two - one)
    if axis == BLOCKS:
        share = share_chunks(area.blocks, wide, PASSES * once)
    else:
        share = share_rows(size_of(area, axis), unit, PASSES * once)
    end = share.first + share.trips * share.step

    def body(base: Any) -> None:
        multiply_area(product, tools, moved_by(base, area, axis, share.step))

    if share.trips > 0:
        nl.fori_loop(share.first, end, body, step=share.step)
    multiply_area(product, tools, part_of(area, axis, end, share.rest))


def share_chunks(blocks: int, chunk: int, instructions: int) -> Any:
    """Return this program's share of blocks, in whole chunks except for the last."""
    share = share_rows(blocks // chunk, 1, instructions)
    rest = share.rest * chunk
    if nl.program_id(0) == nl.num_programs() - 1:
        rest += blocks % chunk
    return Share(share.first * chunk, share.step * chunk, share.trips, rest)


def group_of(product: Any, area: Any, first: int) -> Any:
    """Return the slots that are multiplied together, from the area's slot ``first`` on."""
    taken, made = product.source.shape[0], product.target.shape[0]
    chunk, wide = chunk_size(taken), chunk_size(made)
    pieces = -(-taken // chunk)
    left = area.slots - first
    side = min(product.side, left)
    columns = max(WIDE, 2 * side * max(chunk, wide))
    rows = step_of_rows(product, area.rows)
    fitting = min(LOADED // (pieces * rows), STAGED // (2 * max(chunk, wide)))
    together = max(1, min(fitting, LOADED // (pieces * columns), left // side))
    is_first = area.axis != SLOTS and area.slot + first == 0
    return Group(first, side, together, is_first)


def products_instructions(product: Any, area: Any) -> int:
    """Return about how many instructions the products of an area take, at most."""
    taken, made = product.source.shape[0], product.target.shape[0]
    pieces = -(-taken // chunk_size(taken))
    group = group_of(product, area, 0)
    groups = -(-area.slots // (group.side * group.together))
    steps = -(-area.rows // step_of_rows(product, area.rows))
    chunks = -(-area.blocks // chunk_size(made))
    spans = -(-area.blocks // span_of(product, group))
    masks = 2 + min(group.together, 2 * group.side)
    masks += 2 * group.together + 2 if product.is_turned else 0
    matrices = pieces * (spans * 3 * group.side + chunks * masks) * (1 if spans == 1 else steps)
    product_count = group.together * (pieces + 1) + 2
    return groups * (matrices + steps * (2 * pieces + chunks * product_count))


def span_of(product: Any, group: Any) -> int:
    """Return how many blocks of the result have their matrices loaded at once, in whole chunks.

    Long runs of DMA are faster.
    """
    taken, made = product.source.shape[0], product.target.shape[0]
    chunk, wide = chunk_size(taken), chunk_size(made)
    pieces = -(-taken // chunk)
    if product.is_turned:
        return wide
    columns = max(WIDE, 2 * group.side * wide)
    held = min(
        STAGED // (2 * group.together * wide), 4 * LOADED // (pieces * group.together * columns)
    )
    return wide * max(1, held)


def multiply_area(product: Any, tools: Any, area: Any) -> None:
    """Make the products of an area, as many slots, and as many of their rows, at a time as fit."""
    wide = chunk_size(product.target.shape[0])
    step = step_of_rows(product, area.rows)
    turn = 0 if area.axis != SLOTS and area.slot == 0 else 1
    staged = turn
    slot = 0
    while slot < area.slots and area.rows > 0 and area.blocks > 0:
        group = group_of(product, area, slot)
        span = span_of(product, group)
        matrices = []
        if area.blocks <= span:
            matrices = load_matrices(product, tools, area, group, staged)
        for row in range(0, area.rows, step):
            rows = part_of(area, ROWS, row, min(step, area.rows - row))
            loaded = load_spectra(product.source, tools, rows, group, turn)
            turn += 1
            for block in range(0, area.blocks, span):
                box = part_of(rows, BLOCKS, block, min(span, area.blocks - block))
                if area.blocks > span:
                    matrices = load_matrices(product, tools, box, group, block // span)
                for inner in range(0, box.blocks, wide):
                    own = part_of(box, BLOCKS, inner, min(wide, box.blocks - inner))
                    multiply_group(product, matrices[inner // wide], loaded, own, group)
        staged += 1
        slot += group.side * group.together


def load_spectra(spectra: Any, tools: Any, area: Any, group: Any, turn: int) -> Any:
    """Load a group's slots of all blocks, [(u part block), slots, rows] for each chunk of these."""
    blocks = spectra.shape[0]
    chunk = chunk_size(blocks)
    rows = Area(area.base, area.axis, 0, 0, area.slot, area.slots, area.row, area.rows)
    if area.axis == BLOCKS:
        rows.base = None
        rows.axis = NO_AXIS
    rows = based_on(rows, 0)
    size = group.together * area.rows
    loaded = []
    for first in range(0, blocks, chunk):
        held = min(chunk, blocks - first)
        height = 2 * group.side * held
        at = first // chunk * size
        tile = tools.loaded[turn % len(tools.loaded)][0:height, at : at + size]
        tile = tile.reshape((height, group.together, area.rows))
        source = slots_of(spectra, part_of(rows, BLOCKS, first, held), group, held)
        copy(tile, source, rows)
        loaded.append(tile)
    return loaded


def load_matrices(product: Any, tools: Any, area: Any, group: Any, turn: int) -> Any:
    """Make the matrices of a group's slots, for each chunk of an area's blocks.

    Each chunk has a list of matrices, one for every chunk of the blocks that are contracted.
    """
    taken = product.source.shape[0]
    chunk, wide = chunk_size(taken), chunk_size(product.target.shape[0])
    found: Any = []
    for _ in range(0, area.blocks, wide):
        found.append([])
    for first in range(0, taken, chunk):
        held = min(chunk, taken - first)
        weights = Area(None, NO_AXIS, first, held, area.slot, area.slots, area.block, area.blocks)
        if product.is_turned:
            weights = Area(
                None, NO_AXIS, area.block, area.blocks, area.slot, area.slots, first, held
            )
        axis = ROWS if area.axis == BLOCKS and not product.is_turned else area.axis
        if area.axis != ROWS:
            weights.base = area.base
            weights.axis = axis
        weights = based_on(weights, 1)
        staged = stage_weights(product.weights, tools, weights, group, turn + first // chunk)
        for index in range(len(found)):
            left = index * wide
            width = held if product.is_turned else min(wide, area.blocks - left)
            columns = Chunk(left, width)
            matrix = mask_weights(product.weights, tools, weights, group, staged, columns)
            if product.is_turned:
                matrix = turn_matrices(matrix, group, tools.identity)
            found[index].append(matrix)
    return found


def stage_weights(weights: Any, tools: Any, area: Any, group: Any, turn: int) -> Any:
    """Load an area's weights: SBUF [(u taken j), made, slots, i], with part taken + made."""
    _, height, pitch = weights.shape
    half = height // 2
    together = group.together
    size = 2 * together * area.rows
    rows = 2 * group.side * area.blocks
    tile = tools.staged[turn % 2][0:rows, 0:size].reshape((rows, 2, together, area.rows))
    lines = [height * pitch, area.blocks]
    for own in range(group.side):
        for taken in range(2):
            at = (2 * own + taken) * area.blocks
            part = tile[at : at + area.blocks]
            slots = part_of(area, SLOTS, group.slot + own * together, 0)
            rest = [pitch, together]
            if taken == 0 or group.is_first:
                pattern = [lines, [half * pitch, 2], rest, [1, area.rows]]
                copy(part, in_spectra(weights, pattern, slots), area)
            else:
                for made in range(2):
                    other = part_of(slots, SLOTS, (1 - made) * half, 0)
                    pattern = [lines, rest, [1, area.rows]]
                    copy(part[:, made], in_spectra(weights, pattern, other), area)
    return tile


def mask_weights(weights: Any, tools: Any, area: Any, group: Any, staged: Any, chunk: Any) -> Any:
    """Make matrices of slots, with columns (u part i), from staged weights.

    Masks give each number its sign, and put zeros where a row belongs to another slot.
    """
    rows, _, together, total = staged.shape
    width = chunk.blocks
    side = group.side
    used = 2 * side * width
    columns = max(used, WIDE) if used <= NARROW else used
    tile = nl.ndarray((rows, together, columns), dtype=nl.float32, buffer=nl.sbuf)
    if used < columns:
        nisa.memset(dst=tile[:, :, used:columns], value=0.0)
    masks = tools.masks.shape[1]
    # The last chunk of blocks has masks of its own, where it is shorter.
    is_last = area.axis != BLOCKS and area.block + area.blocks == weights.shape[0]
    is_other = area.blocks != chunk_size(weights.shape[0])
    first = masks // 2 if is_last and is_other else 0
    if not group.is_first:
        first += 2
    if side > together:
        mask = tools.masks.ap([[masks, rows], [2, side], [1, 2], [0, width]], first)
        for slot in range(together):
            made = tile[:, slot, 0:used].reshape_dim(1, (side, 2, width))
            pattern = [[STAGED, rows], [0, side], [together * total, 2], [1, width]]
            data = staged.ap(pattern, slot * total + chunk.first)
            nisa.tensor_tensor(dst=made, data1=data, data2=mask, op=nl.multiply)
        return Columns(tile, used)
    for column in range(2 * side):
        nisa.activation(
            dst=tile[:, :, column * width : (column + 1) * width],
            op=nl.copy,
            data=staged[:, column % 2, :, chunk.first : chunk.first + width],
            scale=tools.masks[0:rows, first + column : first + column + 1],
        )
    return Columns(tile, used)


def turn_matrices(matrix: Any, group: Any, identity: Any) -> Any:
    """Transpose matrices [(u part j), slots, (u part i)]."""
    height, together, columns = matrix.tile.shape
    wide = max(height, WIDE) if height <= NARROW else height
    shape = (matrix.used, together, wide)
    result = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    if wide > height:
        nisa.memset(dst=result[:, :, height:wide], value=0.0)
    number = PSUM_BANK // height
    for first in range(0, together, number):
        taken = min(number, together - first)
        bank = nl.ndarray((columns, taken, height), dtype=nl.float32, buffer=nl.psum)
        for index in range(taken):
            transpose(bank[:, index], matrix.tile[:, first + index], identity)
        nisa.tensor_copy(
            dst=result[:, first : first + taken, 0:height],
            src=bank[0 : matrix.used],
            engine=nisa.engine.vector,
        )
    return Columns(result, height)


def multiply_group(product: Any, matrices: Any, loaded: Any, area: Any, group: Any) -> None:
    """Multiply a group's slots, sum over all chunks of contracted blocks, and store the results."""
    count = area.rows
    used = matrices[0].used
    together = group.together
    made = nl.ndarray((used, together, count), dtype=nl.float32, buffer=nl.sbuf)
    # A sum of several products needs a bank of its own.
    number = max(1, PSUM_BANK // count) if len(loaded) == 1 else 1
    for first in range(0, together, number):
        taken = min(number, together - first)
        columns = matrices[0].tile.shape[2]
        bank = nl.ndarray((columns, taken, count), dtype=nl.float32, buffer=nl.psum)
        for index in range(taken):
            for piece in range(len(loaded)):
                matrix = matrices[piece].tile[:, first + index]
                multiply(bank[:, index], matrix, loaded[piece][:, first + index], piece > 0)
        result = made[:, first : first + taken]
        if first // number % 2 == 0:
            nisa.tensor_copy(dst=result, src=bank[0:used], engine=nisa.engine.vector)
        else:
            nisa.activation(dst=result, op=nl.copy, data=bank[0:used])
    copy(slots_of(product.target, based_on(area, 2), group, area.blocks), made, area)
