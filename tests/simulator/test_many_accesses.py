"""Many accesses of one tensor: the index and the joint waits change nothing but the effort.

What an instruction waits for follows from the views alone, so that the schedule must be the same
whether each earlier access is looked at or not.
"""

import functools
import itertools
import sys
from dataclasses import replace

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nl
from nki_sim import hardware
from nki_sim.launch import session
from nki_sim.rules import hazards
from tests import sweeps

SPEC = ((128, 4), "float32")
WIDTH = 48


def random_kernel(seed):
    """Returns a kernel that reads and writes random parts of a tensor in HBM and of two tiles."""

    def kernel(x):
        rng = np.random.default_rng(seed)
        out = nl.ndarray((128, WIDTH), nl.float32, buffer=nl.shared_hbm)
        tiles = [nl.ndarray((128, WIDTH), nl.float32) for _ in range(2)]
        nisa.memset(tiles[0], 0.0)
        nisa.memset(tiles[1], 0.0)
        nisa.dma_copy(out, tiles[0])
        for _ in range(150):
            width, step = int(rng.integers(1, 6)), int(rng.integers(1, 4))
            a, b, c = [
                slice(first, first + step * width, step)
                for first in rng.integers(0, WIDTH - step * width, 3).tolist()
            ]
            tile, other = tiles[:: rng.choice([-1, 1])]
            kind = rng.integers(0, 4)
            if kind == 0:
                nisa.dma_copy(out[:, a], tile[:, b])
            elif kind == 1:
                nisa.dma_copy(tile[:, a], out[:, b])
            elif kind == 2:
                nisa.tensor_copy(tile[:, a], other[:, c])
            else:
                nisa.activation(tile[:, a], nl.copy, other[:, b])
        return out

    return kernel


@sweeps.some(
    "seed, whole", itertools.product(range(6), [True, False]), [(0, True), (0, False), (1, True)]
)
def test_an_index_changes_no_schedule(monkeypatch, seed, whole):
    chip = replace(hardware.TRN2, tracks_whole_tensors=whole)
    found = []
    for few in (1, 5, 10**9):
        monkeypatch.setattr(hazards, "FEW", few)
        with hardware.select(chip):
            timeline = nki_sim.dry_run(random_kernel(seed), SPEC)
        found.append((timeline.events, timeline.critical_path, timeline.high_ns))
    assert found[0] == found[1] == found[2]
    assert {event.wait for event in found[0][0]} >= {"operand written by", "operand still read by"}


def written_by_engines(x):
    """Writes parts of tiles on several engines, long ones and short ones, and reads them."""
    rng = np.random.default_rng(3)  # one that needs all waits for loads
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    tiles = [nl.ndarray((128, 512), nl.float32) for _ in range(2)]
    nisa.memset(tiles[0], 0.0)
    nisa.memset(tiles[1], 0.0)
    nisa.dma_copy(out, tiles[0])
    for _ in range(100):
        width = int(rng.choice([1, 8, 128, 500]))
        a, b = [slice(n, n + width) for n in rng.integers(0, 512 - width, 2).tolist()]
        tile, other = tiles[:: rng.choice([-1, 1])]
        kind = rng.integers(0, 6)
        if kind == 0:
            nisa.memset(tile[:, a], 0.0, engine=nisa.engine.gpsimd)
        elif kind == 1:
            nisa.tensor_tensor(tile[:, a], tile[:, b], other[:, b], nl.add)
        elif kind == 2:
            nisa.tensor_copy(tile[:, a], other[:, b])  # on VectorE or ScalarE
        elif kind == 3:
            nisa.activation(tile[:, a], nl.copy, other[:, b])
        elif kind == 4:
            nisa.dma_copy(tile[:, a], out[:, b])
        else:
            nisa.dma_copy(out[:, a], tile[:, b])
    return out


@pytest.mark.parametrize("chip", [hardware.TRN1, hardware.TRN2])
def test_the_last_write_of_each_engine_is_enough(monkeypatch, chip):
    """A read of a tile waits for no other write, if no edges may change the order."""
    found = []

    def all_writes(issued, keeps_order):
        hazards.note_accesses(issued, False)

    for _ in range(2):
        with hardware.select(replace(chip, tracks_whole_tensors=True)):
            timeline = nki_sim.dry_run(written_by_engines, SPEC)
        ns = timeline.low_ns, timeline.high_ns, timeline.written_ns, timeline.reordered_ns
        found.append((ns, timeline.events, timeline.critical_path))
        monkeypatch.setattr(session, "note_accesses", all_writes)
    assert found[0] == found[1]


def test_an_index_changes_no_launch_on_two_cores(monkeypatch):
    """The first access of a tile waits for several parts of another, and for reused memory."""

    def kernel(x):
        out = nl.ndarray((128, 2 * WIDTH), nl.float32, buffer=nl.shared_hbm)
        first = WIDTH * nl.program_id(0)
        state = nl.ndarray((128, 8), nl.float32)
        nisa.memset(state, 0.0)
        for n in range(WIDTH):
            nisa.dma_copy(state[:, 0:4], x)
            for part in range(4, 8):
                nisa.memset(state[:, part : part + 1], 0.0)
            tile = nl.ndarray((128, 20_000), nl.float32)
            nisa.activation(tile[:, 0:8], nl.copy, state)
            nisa.tensor_copy(tile[:, 8:16], tile[:, 0:8])
            nisa.dma_copy(out[:, first + n : first + n + 1], tile[:, 8:9])
        return out

    found = []
    for few in (1, 10**9):
        monkeypatch.setattr(hazards, "FEW", few)
        with hardware.select(hardware.TRN2):
            two = nki_sim.simulate(kernel).with_programs(2)
            found.append(nki_sim.dry_run(two, SPEC).events)
    assert found[0] == found[1]
    assert "operand written by" in {event.wait for event in found[0]}


def rows_of_hbm(x, count):
    """Stores parts of a tensor in HBM, and loads them."""
    out = nl.ndarray((128, count, 4), nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for n in range(count):
        nisa.dma_copy(out[:, n], tile)
    for n in range(count):
        nisa.dma_copy(tile, out[:, n])
    return out


def parts_of_tile(x, count):
    """Loads parts of a tile, and stores each of them in turn."""
    out = nl.ndarray((count, 128, 4), nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, count, 4), nl.float32)
    for n in range(count):
        nisa.dma_copy(tile[:, n], x)
        nisa.dma_copy(out[n], tile[:, n])
    for n in range(count):
        nisa.dma_copy(out[n], tile[:, n])
    return out


def tiles_of_two_cores(x, count):
    """Loads parts of a tile, and reads each of them in turn, on each of two cores."""
    out = nl.ndarray((2, 128, 4), nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, count, 4), nl.float32)
    read = nl.ndarray((128, 4), nl.float32)
    for n in range(count):
        nisa.dma_copy(tile[:, n], x)
    for n in range(count):
        nisa.tensor_copy(read, tile[:, n])
    nisa.dma_copy(out[nl.program_id(0)], read)
    return out


def lines_run(run, folder=""):
    """Returns the result of a function, and how many lines it runs of files in a folder."""
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        lines += event == "line" and folder in frame.f_code.co_filename
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return run(), lines
    finally:
        sys.settrace(before)


@pytest.mark.lenient
@pytest.mark.parametrize("kernel", [rows_of_hbm, parts_of_tile])
def test_the_effort_for_an_instruction_does_not_grow(kernel):
    """The work is counted in the lines of the simulator that run, which no other work disturbs."""
    efforts = []
    for count in (100, 400):
        nki_sim.dry_run(kernel, SPEC, count)  # fills the caches
        run = functools.partial(nki_sim.dry_run, kernel, SPEC, count)
        found, lines = lines_run(run)
        efforts.append(lines / found.event_count)
    assert efforts[1] < 1.3 * efforts[0]


@pytest.mark.lenient
def test_the_effort_of_scheduling_two_cores_does_not_grow():
    efforts = []
    kernel = nki_sim.simulate(tiles_of_two_cores).with_programs(2)
    for count in (100, 400):
        with hardware.select(hardware.TRN2):
            run = functools.partial(nki_sim.dry_run, kernel, SPEC, count)
            found, lines = lines_run(run, folder="timeline")
        efforts.append(lines / found.event_count)
    assert efforts[1] < 1.3 * efforts[0]
