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


class Turn:
    """The type of TURN."""


TURN = Turn()


@dataclass(frozen=True)
class Beside:
    """Work of other engines than the tasks', one beside each of them; all is done by the TURN."""

    run: Callable[[], None]


@dataclass(frozen=True)
class After:
    """What follows the second half of the task before it, such as a store of its results."""

    run: Callable[[], object]


@dataclass(frozen=True)
class Single:
    """A task of one half, such as products of what is in SBUF already.

    It is issued in its place, and does not part the halves of the tasks around it.
    """

    run: Callable[[], object]


Item = Task | Single | Beside | After | Turn
Block = Iterator[Item]


@dataclass(frozen=True)
class Order:
    """How the blocks of a launch follow each other.

    depth: blocks whose tasks take turns. ahead: blocks that are opened while those run: what comes
    before their first TURN, such as loads, is done early; with 0, not before all tasks and stores
    of the block before. spread: whether the tasks of blocks are spread over each other, because
    they keep different engines busy; else they follow each other, those of the latest block first.
    """

    depth: int
    ahead: int = 1
    spread: bool = False


@dataclass
class _Round:
    """What blocks do from one turn to the next: tasks with their places, and work beside them."""

    tasks: list[tuple[float, int, _Running, Task | Single | After]]
    beside: list[Beside]

    @property
    def is_single(self) -> bool:
        """Whether there are tasks, all of one half."""
        tasks = [task for *_, task in self.tasks if not isinstance(task, After)]
        return bool(tasks) and all(isinstance(task, Single) for task in tasks)


@dataclass(eq=False)
class _Running:
    """A block on its way."""

    items: Block
    is_opened: bool = False  # whether its first turn is past
    has_ended: bool = False


def in_turn(blocks: Iterable[Block], order: Order) -> Iterator[Item]:
    """Yield the tasks of blocks, from one TURN to the next of each.

    TURN is left where tasks of the same block would follow each other.
    """
    waiting, running = iter(blocks), list[_Running]()  # the latest block first
    before: _Running | None = None  # the block whose task of two halves came last
    while True:
        if not running and before is not None:
            yield TURN  # nothing of the next block is done before this one has ended
        if len(running) < order.depth + order.ahead:
            running[:0] = map(_Running, islice(waiting, 1))
        if not running:
            return
        this = _round(running, order)
        beside = iter(this.beside)
        yield from islice(beside, 1)
        if this.is_single:
            yield TURN  # no other task comes before the second half of the last one
        begun = set[_Running]()
        for _, _, block, task in this.tasks:
            if not isinstance(task, After):
                if block is before and block not in begun:
                    yield TURN
                begun.add(block)
                before = before if isinstance(task, Single) else block
            yield task
            yield from islice(beside, 1)
        yield from beside
        running = [block for block in running if not block.has_ended]


def _round(running: list[_Running], order: Order) -> _Round:
    """Return what blocks do next: those that are new, and the ``depth`` oldest others."""
    this = _Round([], [])
    going = [block for block in running if block.is_opened][-order.depth :]
    for number, block in enumerate(running):
        if not block.is_opened or block in going:
            block.is_opened = True
            mine = _take(this, block)
            for index, item in enumerate(mine):
                place = (index + 1) / len(mine) if order.spread else number
                this.tasks.append((place, number, block, item))
    this.tasks.sort(key=lambda task: task[:2])
    return this


def _take(this: _Round, block: _Running) -> list[Task | Single | After]:
    """Return a block's tasks up to its next turn."""
    mine = list[Task | Single | After]()
    for item in block.items:
        if isinstance(item, Turn):
            return mine
        if isinstance(item, Beside):
            this.beside.append(item)
        else:
            mine.append(item)
    block.has_ended = True
    return mine


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
        if not isinstance(item, Turn):
            begun.append(item)
            if not isinstance(item, After):
                next(item)
        finish(0 if isinstance(item, Turn) else depth - 1)
    finish(0)


def _task_count(items: Iterable[Task | After]) -> int:
    """Return how many tasks there are."""
    return sum(not isinstance(item, After) for item in items)
