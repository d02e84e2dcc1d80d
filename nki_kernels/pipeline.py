"""Software pipelining: what kernels issue, in the order that keeps the engines busy.

Each engine runs its instructions in the order of the program, so that this order is all there is to
decide. There are two levels.

A *task* is a generator with one yield: before it transposes, say, and after it the products that
wait for the evacuation of the transposes. ``pipeline`` puts the first half of a task before the
second half of the task before.

A *block* is a generator of tasks, straight down the mathematics: load, TURN, the tasks of a stage,
TURN, the tasks of the next stage, store. TURN says that what follows reads results of what came
before. There ``in_turn`` lets tasks of other blocks come between.

The code of a block up to its next TURN runs before the products of the task before are issued. So
closures of tasks bind what they read when they are made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

Task = Generator[None, None, None]
TURN = None


@dataclass(frozen=True)
class Beside:
    """Work of other engines than the tasks', one beside each of them; all is done by the TURN."""

    run: Callable[[], None]


@dataclass(frozen=True)
class After:
    """What follows the second half of the task before it, such as a store of its results."""

    run: Callable[[], None]


@dataclass(frozen=True)
class Single:
    """A task of one half, such as products of what SBUF holds: it parts no halves of other tasks.

    It is issued where it stands, and not what follows it in its block before it.
    """

    run: Callable[[], None]


Item = Task | Single | Beside | After | None
Block = Iterator[Item]


@dataclass(frozen=True)
class Order:
    """How the blocks of a launch follow each other.

    depth: blocks whose tasks take turns. ahead: blocks that are opened while those run: what comes
    before their first TURN, such as loads, is done early; with 0, not before all tasks and stores of
    the block before. spread: whether the tasks of blocks are
    spread over each other, because they keep different engines busy; else they follow each other,
    those of the latest block first.
    """

    depth: int
    ahead: int = 1
    spread: bool = False


@dataclass
class _Turn:
    """What blocks do from one TURN to the next: tasks with their places, and work beside them."""

    tasks: list[tuple[float, int, Block, Task | Single | After]]
    beside: list[Beside]


def in_turn(blocks: Iterable[Block], order: Order) -> Iterator[Item]:
    """Yield the tasks of blocks, from one TURN to the next of each.

    TURN is left where tasks of the same block would follow each other.
    """
    waiting, running = iter(blocks), list[Block]()  # the latest block first
    opened = list[Block]()  # those whose first TURN is past
    before: Block | None = None  # the block whose task of two halves came last
    while True:
        if not running and before is not None:
            yield TURN  # nothing of the next block is done before this one has ended
        if len(running) < order.depth + order.ahead:
            running[:0] = islice(waiting, 1)
        if not running:
            return
        turn = _Turn([], [])
        going = [block for block in running if block in opened][-order.depth :]
        for number, block in enumerate(tuple(running)):
            if block not in opened:
                opened.append(block)
            elif block not in going:
                continue
            if _take(turn, number, block, order.spread):
                running.remove(block)
                opened.remove(block)
        turn.tasks.sort(key=lambda task: task[:2])
        beside = iter(turn.beside)
        yield from islice(beside, 1)
        begun = list[Block]()
        if turn.tasks and all(isinstance(task, Single | After) for *_, task in turn.tasks):
            yield TURN
        for _, _, block, task in turn.tasks:
            if block is before and block not in begun:
                yield TURN
            begun.append(block)
            yield task
            if not isinstance(task, Single | After):
                before = block
            yield from islice(beside, 1)
        yield from beside


def _take(turn: _Turn, number: int, block: Block, spread: bool) -> bool:
    """Add a block's tasks up to its next TURN; return whether the block has ended."""
    mine, has_ended = list[Task | Single | After](), True
    for item in block:
        if item is TURN:
            has_ended = False
            break
        if isinstance(item, Beside):
            turn.beside.append(item)
        else:
            mine.append(item)
    for index, item in enumerate(mine):
        place = (index + 1) / len(mine) if spread else number
        turn.tasks.append((place, number, block, item))
    return has_ended


def pipeline(items: Iterable[Item], depth: int = 2) -> None:
    """Run tasks: the first half of each before the second half of the one ``depth - 1`` before."""
    begun = deque[Task | After]()

    def finish(most: int) -> None:
        while begun and (isinstance(begun[0], After) or _task_count(begun) > most):
            item = begun.popleft()
            if isinstance(item, After):
                item.run()
            else:
                next(item, None)

    for item in items:
        if isinstance(item, Beside | Single):
            item.run()
            continue
        if item is not TURN:
            begun.append(item)
            if not isinstance(item, After):
                next(item)
        finish(0 if item is TURN else depth - 1)
    finish(0)


def _task_count(items: Iterable[Task | After]) -> int:
    """Return how many tasks there are."""
    return sum(not isinstance(item, After) for item in items)
