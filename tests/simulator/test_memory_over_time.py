"""SBUF, PSUM and transfers over the time of a launch, with the costs of test_timeline.py."""

import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nl

from .conftest import TARGET, blocks, check_timeline, tile

MEMSET, SEEN = (512 + 48) / 1.12, 160 / 1.12


def copied():
    first, second = tile(), tile()
    nisa.memset(first, 0.0, engine=nisa.engine.vector)
    nisa.tensor_copy(second, first, engine=nisa.engine.vector)


def integral(steps):
    return sum([value * (b - a) for (a, value), (b, _) in zip(steps, steps[1:], strict=False)])


def approx(steps):
    return [pytest.approx(step) for step in steps]


KERNELS = blocks("""
a bank of PSUM is used again
    for columns in (512, 8, 8):
        nisa.memset(tile(columns, nl.psum), 0.0, engine=nisa.engine.vector)
  {value for _, value in psum_banks_over_time()} == {0, 1}
two banks of PSUM
    a, b = tile(512, nl.psum), tile(8, nl.psum)
    for t in (a, b):
        nisa.memset(t, 0.0, engine=nisa.engine.vector)
    nisa.tensor_copy(tile(8), a[:, :8])
  max([n for _, n in psum_banks_over_time()]) == 2
a tile from outside is held until the loop ends
    t = tile()
    nisa.memset(t, 0.0, engine=nisa.engine.vector)
    nl.fori_loop(0, 10, lambda i: nisa.tensor_copy(tile(), t) and None)
  [(one.label, one.trips, one.first, one.end) for one in loops] == [("nl.fori_loop", 10, 1, 2)]
  loops[0].end_ns == total_ns
  total_ns - loops[0].start_ns == 10 * (loops[0].iteration_end_ns - loops[0].start_ns)
  sbuf_bytes_over_time()[-2:] == [(events[1].end_ns, 2048), (total_ns, 0)]
each core has its own [trn2] [x of 128x128] [2 programs]
    columns = 64 * (1 + nl.program_id())
    nisa.dma_copy(tile(columns), x[:, :columns])
  {n for _, n in sbuf_bytes_over_time(0)} == {0, 256}
  {n for _, n in sbuf_bytes_over_time(1)} == {0, 512}
  integral(dma_bytes_per_ns_over_time(0)) == 128 * 256
  integral(dma_bytes_per_ns_over_time(1)) == 128 * 512
""")


@pytest.mark.parametrize("heading", KERNELS)
def test_kernels(heading):
    check_timeline(heading, KERNELS[heading], globals())


def test_tiles_hold_sbuf_from_first_to_last_use():
    timeline = nki_sim.dry_run(copied)
    middle, end = MEMSET + SEEN, 2 * MEMSET + SEEN
    assert timeline.sbuf_bytes_over_time() == approx([(0, 2048), (middle, 4096), (end, 0)])
    assert timeline.psum_banks_over_time() == []
    assert max([value for _, value in timeline.sbuf_bytes_over_time()]) == timeline.sbuf_peak_bytes


def test_recorded_launches_follow_each_other():
    with nki_sim.record() as timeline:
        for _ in range(2):
            nki_sim.simulate(copied)()
    once = nki_sim.dry_run(copied)
    again = [(once.total_ns + time, value) for time, value in once.sbuf_bytes_over_time()]
    assert timeline.sbuf_bytes_over_time() == [*once.sbuf_bytes_over_time(), *again]


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
def test_rates_add_up_to_the_bytes_and_stay_within_the_engines(monkeypatch, chip):
    monkeypatch.setenv(TARGET, chip)

    def kernel(x):
        for _ in range(8):
            t = tile(2048)
            nisa.dma_copy(t, x)
            nisa.dma_copy(nl.ndarray((128, 2048), nl.float32, nl.private_hbm), t)

    timeline = nki_sim.dry_run(kernel, ((128, 2048), "float32"))
    moved = timeline.dma_bytes_per_ns_over_time()
    assert integral(moved) == pytest.approx(timeline.dma_bytes)
    assert integral(timeline.hbm_bytes_per_ns_over_time()) == pytest.approx(timeline.hbm_bytes)
    most = timeline.chips[0].dma_total_bytes_per_ns
    assert 0.9 * most < max([rate for _, rate in moved]) <= most * (1 + 1e-9)
    assert moved[-1][1] == 0


def test_an_empty_timeline_has_no_steps():
    timeline = nki_sim.Timeline()
    assert timeline.sbuf_bytes_over_time() == timeline.dma_bytes_per_ns_over_time() == []
