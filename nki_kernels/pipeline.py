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
from itertools import chain, count, islice

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

    run: Callable[[], None]


Item = Task | Beside | After | Turn
Block = Iterator[Item]


@dataclass(frozen=True)
class Order:
    """How the blocks of a launch follow each other.

    depth: blocks whose tasks take turns. ahead: blocks that are opened while those run: what comes
    before their first TURN, such as loads, is done early; with 0, not before all tasks and stores
    of the block before. spread: whether the tasks of blocks are spread over each other, because
    they keep different engines busy; else they follow each other, those of the latest block first.
    is_settled: whether all tasks up to a turn end before any block goes on, as scarce memory asks.
    begun: tasks that begin before the first of them ends.
    """

    depth: int
    ahead: int = 1
    spread: bool = False
    is_settled: bool = False
    begun: int = 2


@dataclass
class _Round:
    """What blocks do from one turn to the next: tasks with their places, and work beside them."""

    tasks: list[tuple[float, int, _Running, Task | After]]
    beside: list[Beside]


@dataclass(eq=False)
class _Running:
    """A block on its way."""

    items: Block
    is_opened: bool = False  # whether its first turn is past
    has_ended: bool = False


def in_turn(blocks: Iterable[Block], order: Order) -> Iterator[Item]:
    """Yield the tasks of blocks, from one TURN to the next of each.

    TURN is left where a block goes on before its tasks have ended.
    """
    waiting, running = iter(blocks), list[_Running]()  # the latest block first
    begun = _Begun()
    for number in count():
        if not running and number > 0:
            yield TURN  # nothing of the next block is done before this one has ended
        if len(running) < order.depth + order.ahead:
            running[:0] = map(_Running, islice(waiting, 1))
        if not running:
            return
        this = _round(running, order)
        beside = iter(this.beside)
        yield from islice(beside, 1)
        for _, _, block, task in this.tasks:
            if not isinstance(task, After) and begun.holds(block, number):
                yield TURN
                begun = _Begun()
            yield task
            begun.add(task, block, number)
            deque(begun.ending(order.begun - 1), maxlen=0)
            yield from islice(beside, 1)
        yield from beside
        if order.is_settled:
            yield TURN
            begun = _Begun()
        running = [block for block in running if not block.has_ended]


def _round(running: list[_Running], order: Order) -> _Round:
    """Return what blocks do next: those that are new, and the ``depth`` oldest others."""
    this = _Round([], [])
    going = [block for block in running if block.is_opened][-order.depth :]
    for number, block in enumerate(running):
        if not block.is_opened or block in going:
            block.is_opened = True
            mine = _take(this, block)
            begun, tasks = 0, max(1, _task_count(mine))
            for item in mine:
                begun += not isinstance(item, After)  # which stays with the task before it
                place = begun / tasks if order.spread else number
                this.tasks.append((place, number, block, item))
    this.tasks.sort(key=lambda task: task[:2])
    return this


def _take(this: _Round, block: _Running) -> list[Task | After]:
    """Return a block's tasks up to its next turn."""
    mine = list[Task | After]()
    for item in block.items:
        if isinstance(item, Turn):
            return mine
        if isinstance(item, Beside):
            this.beside.append(item)
        else:
            mine.append(item)
    block.has_ended = True
    return mine


class _Begun:
    """Tasks that have begun and not ended, and what follows them."""

    def __init__(self) -> None:
        self._items = deque[tuple[Task | After, _Running | None, int]]()

    def add(self, item: Task | After, block: _Running | None = None, number: int = 0) -> None:
        """Add an item of a block, of the ``number``-th round."""
        self._items.append((item, block, number))

    def holds(self, block: _Running, number: int) -> bool:
        """Return whether items of a block are left from rounds before this one."""
        return any(one is block and its < number for _, one, its in self._items)

    def ending(self, most: int) -> Iterator[Task | After]:
        """Yield what ends so that so many tasks are left."""
        while self._items and (isinstance(self._items[0][0], After) or self._tasks() > most):
            yield self._items.popleft()[0]

    def _tasks(self) -> int:
        """Return how many tasks there are."""
        return _task_count([item for item, _, _ in self._items])


def pipeline(items: Iterable[Item], depth: int = 2) -> None:
    """Run tasks: the first half of each before the second half of the one ``depth - 1`` before."""
    begun = _Begun()
    for item in chain(items, [TURN]):
        if isinstance(item, Beside):
            item.run()
            continue
        if not isinstance(item, Turn):
            begun.add(item)
            if not isinstance(item, After):
                next(item)
        for one in begun.ending(0 if isinstance(item, Turn) else depth - 1):
            if isinstance(one, After):
                one.run()
            else:
                next(one, None)


def _task_count(items: Iterable[Task | After]) -> int:
    """Return how many tasks there are."""
    return sum(not isinstance(item, After) for item in items)
