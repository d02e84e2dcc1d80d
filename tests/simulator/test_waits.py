"""The last wait of each instruction, and its reason, with the costs of test_timeline.py."""

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim.timeline import waits

from .conftest import TARGET, blocks, check_timeline, tile


def memset(t, engine=nisa.engine.vector):
    return nisa.memset(t, 0.0, engine=engine)


def wait(event):
    """The index of what it waited for, and why."""
    return event.waited_for, event.wait


KERNELS = blocks("""
an operand that another engine wrote
    t = tile()
    memset(t)
    nisa.activation(tile(), nl.copy, t)
  wait(events[1]) == (0, waits.WRITTEN)
an operand that is still read
    held = tile()
    memset(held, GPSIMD)
    nisa.activation(tile(), nl.copy, held)
    memset(held)
  wait(events[2]) == (1, waits.READ)
memory of a tile that was done
    memset(tile(40 << 10))  # 160 of 192 KiB
    memset(tile(40 << 10), GPSIMD)
  wait(events[0]) == (None, "")
  wait(events[1]) == (0, waits.REUSED)
engines and queues in order [x of 128x64]
    memset(tile())
    memset(tile())
    for _ in range(2):
        nisa.dma_copy(tile(64), x, dge_mode=nisa.dge_mode.swdge)
    nisa.dma_copy(nl.ndarray((128, 64), nl.float32, nl.private_hbm), x)
  wait(events[1]) == (0, waits.ENGINE)
  wait(events[3]) == (2, waits.DMA_QUEUE)
small copies and the engines that prepare them [x of 128x64]
    for _ in range(2):
        nisa.dma_copy(tile(64), x)
  wait(events[1]) == (0, waits.DMA_COPIES)
descriptors of GpSimdE after its instruction [x of 128x64]
    memset(tile(4096), GPSIMD)
    nisa.dma_copy(tile(64), x, dge_mode=nisa.dge_mode.swdge)
  wait(events[1]) == (0, waits.DESCRIPTORS)
the bandwidth of transfers of two queues [x of 128x4096]
    nisa.dma_copy(tile(4096), x)
    nisa.dma_copy(nl.ndarray((128, 4096), nl.float32, nl.private_hbm), x)
  events[1].wait in (waits.HBM, waits.DMA_ENGINES)
edges of the kernel
    first = memset(tile(4096))
    memset(tile(64), GPSIMD).depends_on(first)
  wait(events[0]) == (None, "")
  wait(events[1]) == (0, waits.DEPENDS_ON)
a block in order
    with nl.no_reorder():
        memset(tile(4096))
        memset(tile(64), GPSIMD)
  wait(events[1]) == (0, waits.NO_REORDER)
a port that two engines share
    a, b = tile(), tile()
    for t in (a, b):
        memset(t)
    nisa.tensor_tensor(tile(), a, b, nl.add, engine=nisa.engine.vector)
    nisa.tensor_tensor(tile(), a, b, nl.add, engine=GPSIMD)
  wait(events[3]) == (2, waits.SBUF_PORT)
iterations, and a body's operand that is there when all engines are done
    t = tile()
    memset(t)
    nl.fori_loop(0, 3, lambda i: nisa.activation(tile(), nl.copy, t) and None)
    memset(tile())
  wait(events[0]) == (None, "")
  wait(events[1]) == (0, waits.WRITTEN)
  wait(events[2]) == (1, waits.LOOP)
""")
GPSIMD = nisa.engine.gpsimd


@pytest.mark.parametrize("heading", KERNELS)
def test_what_an_instruction_waits_for(heading):
    check_timeline(heading, KERNELS[heading], globals())


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
