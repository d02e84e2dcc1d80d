"""Columns of [A, N, C], shared among the programs of a launch and walked block by block.

This file does for columns what row_blocks.py does for rows. A long batch is a loop on the device,
either over members (indices of A) or over blocks of columns, and the remainder follows unrolled. A
block is cut into chunks, whose results fit into a PSUM bank, and a chunk into groups, each of which
is the stationary operand of one product.
"""

from __future__ import annotations

from typing import Any

from nki_sim.hardware import PARTITIONS

from ..isa import nl
from ..tiles import NARROW, PSUM_BANK, element_count


class HbmColumns(nl.NKIObject):
    """Data [A, N, C] in HBM, whose rows may have a gap behind them."""

    tensor: Any  # HBM [..., N, ...], whole, so that it can be addressed in a device loop
    axis: int  # the axis of the tensor whose size is N
    columns: int  # C, those columns of a row that hold data


class Columns(nl.NKIObject):
    """Some columns of one member, or all columns of several members."""

    member: int  # the first member, counted within the block
    members: int
    low: int  # the first column, counted within the block
    columns: int  # columns of each member


class Block(nl.NKIObject):
    """Columns that are loaded and stored together."""

    base: Any  # the register with which a device loop counts, or None
    dimension: int  # the dimension of [A, N, C] that the register counts
    # who writes the descriptors of its transfers: the host, where there is no base
    descriptors: Any
    place: Columns  # counted from the base
    chunks: Any  # a list of Columns of the block, each of up to a PSUM bank's columns


class Side(nl.NKIObject):
    """The members, or the columns, of this program."""

    first: int
    count: int
    least: int  # how many any program has at least
    most: int  # how many any program has at most


class Walk(nl.NKIObject):
    """This program's part of [A, N, C]: a device loop along one dimension, then the remainder."""

    dimension: int  # 0 for members, 2 for columns
    first: int  # the first member or column of this program
    step: int  # members or columns of an iteration
    trips: int  # number of iterations, the same in every program
    rest: int  # members or columns after the loop
    across: Side  # the share of the other dimension, all of it in every iteration
    size: Columns  # the size of a block


def share_columns(members: int, columns: int) -> Any:
    """Return this program's sides of [A, N, C]: its members and its columns.

    Programs share the members, or the columns where one program would have much less than the
    other.
    """
    programs = nl.num_programs()
    if members % programs == 0 or members >= 8 * programs or columns < PARTITIONS // 2:
        return [side_of(members, programs), side_of(columns, 1)]
    return [side_of(members, 1), side_of(columns, programs)]


def side_of(total: int, programs: int) -> Any:
    """Return this program's share of ``total`` members or columns among ``programs``."""
    program = nl.program_id(0) % programs
    first = total * program // programs
    count = total * (program + 1) // programs - first
    return Side(first, count, total // programs, -(-total // programs))


def walk_of(sides: Any, size: Any, blocks: int) -> Any:
    """Return the walk over both sides in blocks of a size; the loop runs along the side with more.

    blocks: how many blocks an iteration may have.
    """
    counts = [-(-sides[0].most // size.members), -(-sides[1].most // size.columns)]
    along = 0 if counts[0] >= counts[1] else 1
    step = max(1, blocks // counts[1 - along])
    step *= size.columns if along > 0 else size.members
    side = sides[along]
    trips = side.least // step
    if trips < 2:
        trips = 0
    rest = side.count - trips * step
    return Walk(2 * along, side.first, step, trips, rest, sides[1 - along], size)


def block_size(sides: Any, most: int, together: int) -> Any:
    """Return the size of a block: columns of one member, or several whole members.

    most: the largest number of columns of one member, though at least 128. together: the largest
    number of columns of several members.
    """
    members, columns = sides[0].most, sides[1].most
    if columns > max(PARTITIONS, most):
        width = group_width(columns)
        return Columns(0, 1, 0, width * max(1, most // width))
    each = max(1, PARTITIONS // columns)
    return Columns(0, min(members, each * max(1, together // (each * columns))), 0, columns)


def group_width(columns: int) -> int:
    """Return how many columns of a member one product takes as stationary operand."""
    return -(-columns // -(-columns // PARTITIONS))


def blocks_of(walk: Any, base: Any, descriptors: Any, first: int, count: int) -> Any:
    """Return the blocks of ``count`` members or columns of a walk, and of all of the other side."""
    sides = [[first, first + count], [walk.across.first, walk.across.first + walk.across.count]]
    if walk.dimension > 0:
        sides = [sides[1], sides[0]]
    blocks = []
    for member in range(sides[0][0], sides[0][1], walk.size.members):
        members = min(walk.size.members, sides[0][1] - member)
        for low in range(sides[1][0], sides[1][1], walk.size.columns):
            columns = min(walk.size.columns, sides[1][1] - low)
            place = Columns(member, members, low, columns)
            chunks = chunks_of(members, columns)
            blocks.append(Block(base, walk.dimension, descriptors, place, chunks))
    return blocks


def chunks_of(members: int, columns: int) -> Any:
    """Return chunks of a block, whose results fit a PSUM bank: whole members or parts of one."""
    chunks = []
    if columns <= PSUM_BANK:
        together = PSUM_BANK // columns
        if 2 * columns <= PARTITIONS:  # one product takes several members
            together = PSUM_BANK // PARTITIONS * (PARTITIONS // columns)
        for member in range(0, members, together):
            chunks.append(Columns(member, min(together, members - member), 0, columns))
        return chunks
    width = group_width(columns)
    width *= PSUM_BANK // width
    for member in range(members):
        for low in range(0, columns, width):
            chunks.append(Columns(member, 1, low, min(width, columns - low)))
    return chunks


def groups_of(chunk: Any) -> Any:
    """Return groups of a chunk's columns, each the stationary operand of one product."""
    groups = []
    end = chunk.member + chunk.members
    if 2 * chunk.columns <= PARTITIONS:
        together = PARTITIONS // chunk.columns
        for member in range(chunk.member, end, together):
            members = min(together, end - member)
            groups.append(Columns(member, members, chunk.low, chunk.columns))
        return groups
    width = group_width(chunk.columns)
    for member in range(chunk.member, end):
        for low in range(0, chunk.columns, width):
            columns = min(width, chunk.columns - low)
            groups.append(Columns(member, 1, chunk.low + low, columns))
    return groups


def columns_of(place: Any) -> int:
    """Return the number of columns of all members together."""
    return int(place.members * place.columns)


def member_count(part: Any) -> int:
    """Return A of [A, N, C]."""
    return element_count(part.tensor.shape[0 : part.axis])


def rows_apart(part: Any) -> int:
    """Return the numbers from one row of [A, N, C] to the next."""
    return element_count(part.tensor.shape[part.axis + 1 :])


def rows_in_hbm(part: Any, block: Any, first: int, partitions: int, step: int, count: int) -> Any:
    """Return a view of a block's rows in HBM, [partitions, members, count, columns].

    Partition p has ``count`` rows from row ``first + p step`` on.
    """
    n, pitch = part.tensor.shape[part.axis], rows_apart(part)
    place = block.place
    pattern = [[step * pitch, partitions], [n * pitch, place.members]]
    pattern += [[pitch, count], [1, place.columns]]
    offset = (place.member * n + first) * pitch + place.low
    # The register counts members or columns of several dimensions, so it moves by the step of the
    # last of these dimensions.
    dimension = part.axis - 1 if block.dimension == 0 else len(part.tensor.shape) - 1
    return part.tensor.ap(pattern, offset, scalar_offset=block.base, indirect_dim=dimension)


def is_narrow(block: Any) -> bool:
    """Return whether a group of columns is too narrow for a stationary operand."""
    for chunk in block.chunks:
        for group in groups_of(chunk):
            if columns_of(group) <= NARROW:
                return True
    return False
