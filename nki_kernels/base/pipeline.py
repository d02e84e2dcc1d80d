"""Software pipelining: what kernels issue, in the order that keeps the engines busy.

A kernel that is fast in the order of its program needs no compiler to mend that order
(docs/timing_model.md: two orders). So the order is decided here, on two levels.

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


# The place of a block's ``done``-th task of ``count`` in a round, from 0 to 1, by the age of the
# block: 0 for the latest one, 1 for the oldest.
Spread = Callable[[int, int, float], float]


def early(done: int, count: int, _: float) -> float:
    """Return the beginning of a task's share of the round."""
    return (done - 1) / count


def late(done: int, count: int, _: float) -> float:
    """Return the end of a task's share of the round."""
    return done / count


def by_age(done: int, count: int, age: float) -> float:
    """Return the beginning for the latest block and the end for the oldest one."""
    return (done - 1 + age) / count - _TIE * age


_TIE = 1e-9  # by which the older of two blocks comes first


@dataclass(frozen=True)
class Order:
    """How the blocks of a launch follow each other.

    depth: blocks whose tasks take turns. ahead: blocks that are opened while those run: what comes
    before their first TURN, such as loads, is done early; with 0, not before all tasks and stores
    of the block before. spread: how the tasks of blocks are spread over each other, because they
    keep different engines busy; without it they follow each other, those of the latest block first.
    apart: turns from the opening of a block to that of the next, at least. begun: tasks that are
    begun when the first of them is finished, as for ``pipeline``. is_even: whether work beside
    tasks is spread evenly over them; else one comes beside each task, and the rest after the last.
    is_settled: whether all tasks up to a turn end before any block goes on, as scarce memory asks.
    """

    depth: int
    ahead: int = 1
    spread: Spread | None = None
    apart: int = 1
    begun: int = 2
    is_even: bool = False
    is_settled: bool = False


@dataclass(frozen=True)
class _Placed:
    """A task of a round, or what follows one."""

    place: tuple[float, int]  # where it comes in the round
    block: _Running
    item: Task | Single | After
    is_first: bool  # whether no task of this block comes before


@dataclass
class _Round:
    """What blocks do from one turn to the next: tasks in their order, and work beside them."""

    tasks: list[_Placed]
    beside: list[Beside]
    blocks: list[_Running]  # those of the work beside tasks

    @property
    def is_single(self) -> bool:
        """Whether there are tasks, all of one half."""
        tasks = [task.item for task in self.tasks if not isinstance(task.item, After)]
        return bool(tasks) and all(isinstance(task, Single) for task in tasks)


@dataclass(eq=False)
class _Running:
    """A block on its way."""

    items: Block
    is_opened: bool = False  # whether its first turn is past
    has_ended: bool = False


def in_turn(blocks: Iterable[Block], order: Order) -> Iterator[Item]:
    """Yield the tasks of blocks, from one TURN to the next of each.

    TURN is left where a block would go on before its last tasks are finished.
    """
    waiting, running = iter(blocks), list[_Running]()  # the latest block first
    # Tasks that may not be finished: the blocks of each, and of what follows it.
    before = deque[set[_Running]](maxlen=order.begun - 1)
    turns = order.apart  # since a block was opened
    while True:
        if not running and before:
            yield TURN  # nothing of the next block is done before this one has ended
        if not running or (len(running) < order.depth + order.ahead and turns >= order.apart):
            running[:0] = map(_Running, islice(waiting, 1))
            turns = 0
        turns += 1
        if not running:
            return
        this = _round(running, order)
        # Where tasks have one half, none comes before the second halves that are left.
        held = any(_holds(before, block) for block in this.blocks)
        if held or (before and this.is_single):
            yield TURN
            before.clear()
        beside, most = iter(this.beside), 1
        if order.is_even:
            most = -(-len(this.beside) // (len(this.tasks) + 1))
        for number, task in enumerate(this.tasks):
            if number == 0 or (task.is_first and not order.is_even):
                yield from islice(beside, most)
            if not isinstance(task.item, After):
                if task.is_first and _holds(before, task.block):
                    yield TURN
                    before.clear()
                if not isinstance(task.item, Single):
                    before.append({task.block})
            elif before:
                before[-1].add(task.block)
            yield task.item
            yield from islice(beside, most)
        yield from beside
        if order.is_settled:
            yield TURN
            before.clear()
        running = [block for block in running if not block.has_ended]


def _holds(before: Iterable[set[_Running]], block: _Running) -> bool:
    """Return whether one of these tasks is of a block, or something of the block follows it."""
    return any(block in blocks for blocks in before)


def _round(running: list[_Running], order: Order) -> _Round:
    """Return what blocks do next: those that are new, and the ``depth`` oldest others."""
    this = _Round([], [], [])
    going = [block for block in running if block.is_opened][-order.depth :]
    taken = list[tuple[_Running, list[Task | Single | After]]]()
    for block in running:
        if not block.is_opened or block in going:
            block.is_opened = True
            if mine := _take(this, block):
                taken.append((block, mine))
    for number, (block, mine) in enumerate(taken):
        count, done, age = max(1, _task_count(mine)), 0, number / max(1, len(taken) - 1)
        for item in mine:
            done += not isinstance(item, After)  # which stays with the task before it
            place = number if order.spread is None else order.spread(done, count, age)
            is_first = done == 1 and not isinstance(item, After)
            this.tasks.append(_Placed((place, number), block, item, is_first))
    this.tasks.sort(key=lambda task: task.place)
    return this


def _take(this: _Round, block: _Running) -> list[Task | Single | After]:
    """Return a block's tasks up to its next turn."""
    mine = list[Task | Single | After]()
    for item in block.items:
        if isinstance(item, Turn):
            return mine
        if isinstance(item, Beside):
            this.beside.append(item)
            this.blocks.append(block)
        else:
            mine.append(item)
    block.has_ended = True
    return mine


def pipeline(items: Iterable[Item], depth: int = 2) -> None:
    """Run tasks: the first half of each before the second half of the one ``depth - 1`` before."""
    begun, count = deque[Task | After](), 0  # what is not finished, and how many tasks of it

    def finish(most: int) -> None:
        nonlocal count
        while begun and (count > most or isinstance(begun[0], After)):
            item = begun.popleft()
            if isinstance(item, After):
                item.run()
            else:
                count -= 1
                next(item, None)

    for item in items:
        if isinstance(item, Beside | Single):
            item.run()
            continue
        if not isinstance(item, Turn):
            begun.append(item)
            if not isinstance(item, After):
                count += 1
                next(item)
        finish(0 if isinstance(item, Turn) else depth - 1)
    finish(0)


def _task_count(items: Iterable[Task | Single | After]) -> int:
    return sum(not isinstance(item, After) for item in items)
