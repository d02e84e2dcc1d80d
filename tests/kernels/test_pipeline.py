"""The order in which blocks of tasks are issued."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_kernels.base.pipeline import (
    TURN,
    After,
    Beside,
    Order,
    Single,
    by_age,
    early,
    in_turn,
    late,
    pipeline,
)


class Segment(NamedTuple):
    """What a block does between two turns: numbers of tasks and of others, and if it stores."""

    tasks: int
    beside: int
    has_store: bool
    singles: int = 0


SEGMENTS = st.lists(
    st.builds(
        Segment, st.integers(0, 4), st.integers(0, 3), st.booleans(), singles=st.integers(0, 2)
    ),
    max_size=4,
)


def block_of(name, segments, log):
    """A block that logs what is issued: (name, segment, what, index)."""

    def task(segment, index):
        log.append((name, segment, "first", index))
        yield
        log.append((name, segment, "second", index))

    for segment, (tasks, beside, has_store, singles) in enumerate(segments):
        if segment > 0:
            yield TURN
        for index in range(beside):
            event = (name, segment, "beside", index)
            yield Beside(lambda event=event: log.append(event))
        for index in range(tasks):
            yield task(segment, index)
        for index in range(singles):
            event = (name, segment, "single", index)
            yield Single(lambda event=event: log.append(event))
        if has_store:
            event = (name, segment, "after", tasks)
            yield After(lambda event=event: log.append(event))


def issued(blocks, order):
    log = []
    blocks = [[Segment(*each) for each in segments] for segments in blocks]
    made = (block_of(name, segments, log) for name, segments in enumerate(blocks))
    pipeline(in_turn(made, order), order.begun)
    return log


def expected(blocks):
    return sorted(
        (name, segment, what, index)
        for name, segments in enumerate(blocks)
        for segment, (tasks, beside, _, singles) in enumerate(segments)
        for what, count in zip(
            ("first", "second", "beside", "single"), (tasks, tasks, beside, singles), strict=True
        )
        for index in range(count)
    ) + [
        (name, segment, "after", tasks)
        for name, segments in enumerate(blocks)
        for segment, (tasks, _, has_store, _) in enumerate(segments)
        if has_store
    ]


@given(
    st.lists(SEGMENTS, max_size=5),
    st.integers(1, 4),
    st.integers(0, 2),
    st.sampled_from([None, early, late, by_age]),
    st.integers(1, 3),
    st.integers(2, 3),
)
def test_everything_is_issued_once_and_nothing_before_what_it_reads(
    blocks, depth, ahead, spread, apart, begun
):
    log = issued(blocks, Order(depth, ahead, spread, apart, begun))
    assert sorted(log) == sorted(expected(blocks))
    at = {event: place for place, event in enumerate(log)}
    for (name, segment, what, index), place in at.items():
        if what == "second":
            assert at[name, segment, "first", index] < place
        if what == "after":
            assert all(at[name, segment, "second", i] < place for i in range(index))
        if what == "beside":
            tasks = (e for e in at if e[0] == name and e[1] < segment and e[2] == "second")
            assert all(at[event] < place for event in tasks)
        if what in ("first", "single"):
            # A task follows those before it, and what its block did before its last turn.
            assert index == 0 or at[name, segment, what, index - 1] < place
            before = (e for e in at if e[0] == name and e[1] < segment and e[2] != "after")
            assert all(at[event] < place for event in before)


def test_a_task_begins_before_the_one_before_it_ends():
    log = issued([[(3, 0, True)]], Order(1))
    assert [(what, index) for _, _, what, index in log] == [
        ("first", 0),
        ("first", 1),
        ("second", 0),
        ("first", 2),
        ("second", 1),
        ("second", 2),
        ("after", 3),
    ]


def test_a_single_does_not_part_the_halves_of_tasks():
    log = []

    def block():
        yield from block_of(0, [Segment(1, 0, False, 2)], log)
        yield from block_of(1, [Segment(1, 0, False)], log)

    pipeline(in_turn([block()], Order(1)))
    assert [(name, what) for name, _, what, _ in log] == [
        (0, "first"),
        (0, "single"),
        (0, "single"),
        (1, "first"),
        (0, "second"),
        (1, "second"),
    ]


def test_stages_of_blocks_take_turns_the_latest_block_first():
    log = issued([[(0, 0, False), (2, 0, False), (2, 0, False)]] * 3, Order(2))
    firsts = [(name, segment) for name, segment, what, _ in log if what == "first"]
    each = [(0, 1), (1, 1), (0, 2), (2, 1), (1, 2), (2, 2)]
    assert firsts == [place for place in each for _ in range(2)]


def test_tasks_are_spread_over_each_other():
    log = issued([[(0, 0, False), (2, 0, False), (4, 0, False)]] * 2, Order(2, spread=late))
    firsts = [(name, segment) for name, segment, what, _ in log if what == "first"]
    together = firsts[2:8]  # two tasks of block 1 among four of block 0
    assert together == [(0, 2), (1, 1), (0, 2), (0, 2), (1, 1), (0, 2)]


@pytest.mark.parametrize("ahead", [0, 1])
def test_blocks_are_opened_ahead(ahead):
    """What comes before a block's first turn is done while earlier blocks run."""
    log = []

    def block(name):
        log.append(("load", name))
        yield TURN
        yield from block_of(name, [Segment(2, 0, True)], log)

    pipeline(in_turn(map(block, range(4)), Order(1, ahead)))
    for name in range(4):
        began = log.index((name, 0, "first", 0))
        loaded = [each for what, each, *_ in log[:began] if what == "load"]
        assert loaded == list(range(min(4, name + 1 + ahead)))
