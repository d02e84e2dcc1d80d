"""The last wait of each instruction, and its reason, with the costs of test_timeline.py."""

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim.timeline import waits

from .conftest import TARGET, tile


def memset(t, engine=nisa.engine.vector):
    return nisa.memset(t, 0.0, engine=engine)


def waits_of(body, *specs):
    """(index of what it waited for, why) of every event."""
    events = nki_sim.dry_run(nki.jit(body), *specs).events
    return [(event.waited_for, event.wait) for event in events]


def test_an_operand_that_another_engine_wrote():
    def kernel():
        t = tile()
        memset(t)
        nisa.activation(tile(), nl.copy, t)

    assert waits_of(kernel)[1] == (0, waits.WRITTEN)


def test_an_operand_that_is_still_read():
    def kernel():
        held = tile()
        memset(held, nisa.engine.gpsimd)
        nisa.activation(tile(), nl.copy, held)
        memset(held)

    assert waits_of(kernel)[2] == (1, waits.READ)


def test_memory_of_a_tile_that_was_done():
    def kernel():
        memset(tile(40 << 10))  # 160 of 192 KiB
        memset(tile(40 << 10), nisa.engine.gpsimd)

    assert waits_of(kernel) == [(None, ""), (0, waits.REUSED)]


def test_engines_and_queues_in_order():
    def kernel(x):
        memset(tile())
        memset(tile())
        for _ in range(2):
            nisa.dma_copy(tile(64), x, dge_mode=nisa.dge_mode.swdge)
        nisa.dma_copy(nl.ndarray((128, 64), nl.float32, nl.private_hbm), x)

    found = waits_of(kernel, ((128, 64), "float32"))
    assert found[1] == (0, waits.ENGINE)
    assert found[3] == (2, waits.DMA_QUEUE)


def test_small_copies_wait_for_the_engines_that_prepare_them():
    def kernel(x):
        for _ in range(2):
            nisa.dma_copy(tile(64), x)

    assert waits_of(kernel, ((128, 64), "float32"))[1] == (0, waits.DMA_COPIES)


def test_gpsimd_writes_descriptors_after_its_instruction():
    def kernel(x):
        memset(tile(4096), nisa.engine.gpsimd)
        nisa.dma_copy(tile(64), x, dge_mode=nisa.dge_mode.swdge)

    assert waits_of(kernel, ((128, 64), "float32"))[1] == (0, waits.DESCRIPTORS)


def test_transfers_of_two_queues_share_the_bandwidth():
    def kernel(x):
        nisa.dma_copy(tile(4096), x)
        nisa.dma_copy(nl.ndarray((128, 4096), nl.float32, nl.private_hbm), x)

    assert waits_of(kernel, ((128, 4096), "float32"))[1][1] in (waits.HBM, waits.DMA_ENGINES)


def test_edges_of_the_kernel():
    def kernel():
        first = nisa.memset(tile(4096), 0.0, engine=nisa.engine.vector)
        nisa.activation(tile(64), nl.copy, tile(64)).depends_on(first)

    assert waits_of(kernel) == [(None, ""), (0, waits.DEPENDS_ON)]


def test_a_block_in_order():
    def kernel():
        with nl.no_reorder():
            memset(tile(4096))
            nisa.activation(tile(64), nl.copy, tile(64))

    assert waits_of(kernel)[1] == (0, waits.NO_REORDER)


def test_a_port_that_two_engines_share():
    def kernel():
        a, b = tile(), tile()
        for t in (a, b):
            memset(t)
        nisa.tensor_tensor(tile(), a, b, nl.add, engine=nisa.engine.vector)
        nisa.tensor_tensor(tile(), a, b, nl.add, engine=nisa.engine.gpsimd)

    assert waits_of(kernel)[3] == (2, waits.SBUF_PORT)


def test_what_follows_a_loop_waits_for_its_iterations():
    def kernel():
        t = tile()
        memset(t)
        nl.fori_loop(0, 3, lambda i: nisa.activation(tile(), nl.copy, t) and None)
        memset(tile())

    # The body's operand is there when all engines are done: the data are said.
    assert waits_of(kernel) == [(None, ""), (0, waits.WRITTEN), (1, waits.LOOP)]


def test_a_barrier_of_two_programs(monkeypatch):
    monkeypatch.setenv(TARGET, "trn2")

    def kernel(x):
        t = tile()
        for _ in range(1 + 3 * nl.program_id()):
            memset(t)
        nisa.core_barrier(x, (0, 1), nisa.engine.vector)
        nisa.dma_copy(t, x)

    events = nki_sim.dry_run(nki.jit(kernel)[2], ((128, 512), "float32")).events
    barrier = next(e for e in events if e.name == "core_barrier" and e.core == 0)
    late = events[barrier.waited_for]
    assert barrier.wait == waits.BARRIER and (late.core, late.name) == (1, "memset")
    load = next(e for e in events if e.name == "dma_copy" and e.core == 0)
    assert load.wait == waits.BARRIER and events[load.waited_for].name == "core_barrier"


def test_indices_count_on_over_launches():
    x = np.ones((128, 64), np.float32)

    def kernel(x):
        t = tile(64)
        nisa.dma_copy(t, x)
        nisa.tensor_scalar(t, t, nl.add, 1.0)

    with nki_sim.record() as timeline:
        for _ in range(2):
            nki_sim.simulate(kernel)(x)
        assert len(timeline.events) == 4
        nki_sim.simulate(kernel)(x)
    found = [(e.index, e.number, e.launch, e.waited_for) for e in timeline.events]
    assert found == [(2 * n + m, m, n, 2 * n if m else None) for n in range(3) for m in range(2)]


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
def test_every_wait_is_named_and_began_before(monkeypatch, chip):
    monkeypatch.setenv(TARGET, chip)

    def kernel(x):
        for _ in range(6):
            t, bank = tile(), tile(buffer=nl.psum)
            nisa.dma_copy(t, x)
            nisa.nc_matmul(bank, t[:, :128], t)
            nisa.tensor_copy(t, bank)
            nisa.dma_copy(nl.ndarray((128, 512), nl.float32, nl.private_hbm), t)

    events = nki_sim.dry_run(nki.jit(kernel), ((128, 512), "float32")).events
    for event in events:
        assert (event.waited_for is None) == (event.wait == "") and event.wait in ("", *waits.KINDS)
        if event.waited_for is not None:
            assert events[event.waited_for].start_ns <= event.start_ns or "busy" in event.wait
