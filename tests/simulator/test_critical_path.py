"""The shares of the critical path add up to the whole time."""

import json
from dataclasses import asdict

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware
from nki_sim.report.bottlenecks import bottlenecks
from nki_sim.report.causes import TABLES
from nki_sim.timeline.critical_path import critical_shares

from .conftest import TARGET, recorded, tile

X = np.ones((128, 512), np.float32)
SPEC = ((128, 512), "float32")


def rows(out):
    """Those of this program."""
    first = 128 * nl.program_id()
    return out[first : first + 128]


def stored(t):
    """An output whose rows of this program are those of a tile."""
    out = nl.ndarray((128 * nl.num_programs(), 512), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(rows(out), t)
    return out


def pipeline(x):
    out = nl.ndarray((128 * nl.num_programs(), 512), nl.float32, buffer=nl.shared_hbm)
    for _ in range(4):
        t, bank = tile(), tile(buffer=nl.psum)
        nisa.dma_copy(t, x)
        nisa.nc_matmul(bank, t[:, :128], t)
        nisa.tensor_copy(t, bank)
        nisa.dma_copy(rows(out), t)
    return out


def looped(x):
    t = nl.load(x)

    def body(i):
        nisa.tensor_scalar(t, t, nl.add, 1.0)
        nisa.activation(t, nl.exp, t)

    nl.fori_loop(0, 20, body)
    return stored(t)


def two_loops(x):
    """The first instruction of each loop waits while ScalarE loads its tables, once."""
    t = tile()

    def load(i):
        nisa.dma_copy(t, x)
        nisa.activation(t, nl.exp, t)

    def sine(i):
        nisa.activation(t, nl.sin, t)
        nisa.tensor_scalar(t, t, nl.add, 1.0)

    nl.fori_loop(0, 8, load)
    nl.fori_loop(0, 5, sine)
    return stored(t)


@pytest.mark.parametrize("kernel", [pipeline, looped, two_loops])
@pytest.mark.parametrize(("chip", "cores"), [("trn1", 1), ("trn2", 1), ("trn2", 2)])
def test_shares_are_the_whole_time(monkeypatch, kernel, chip, cores):
    monkeypatch.setenv(TARGET, chip)
    timeline = nki_sim.dry_run(nki.jit(kernel)[cores], SPEC)
    shares = critical_shares(timeline)
    assert [share.event for share in shares] == timeline.critical_path
    assert sum([share.ns for share in shares]) == pytest.approx(timeline.total_ns, rel=1e-9)
    assert min([share.ns for share in shares]) >= 0


def test_a_loop_s_instructions_have_the_time_of_all_iterations():
    timeline = nki_sim.dry_run(looped, SPEC)
    inside = [share for share in critical_shares(timeline) if share.event.times == 20]
    (loop,) = timeline.loops
    assert sum([share.ns for share in inside]) == pytest.approx(loop.end_ns - loop.start_ns)


def test_tables_that_are_loaded_before_loops_count_once():
    timeline = nki_sim.dry_run(two_loops, SPEC)
    once = [share.once_ns for share in critical_shares(timeline) if share.once_ns]
    assert len(once) == 2 and min(once) >= hardware.TRN1.activation_table_ns
    assert sum(one.share for one in bottlenecks(timeline)) == pytest.approx(1)
    (tables,) = [one.ns for one in bottlenecks(timeline) if one.cause == TABLES]
    assert tables == pytest.approx(2 * hardware.TRN1.activation_table_ns, rel=0.2)


def test_several_launches_are_one_path():
    with nki_sim.record() as timeline:
        for _ in range(3):
            nki_sim.simulate(pipeline)(X)
    assert sum([s.ns for s in critical_shares(timeline)]) == pytest.approx(timeline.total_ns)


def test_the_summary_is_json_with_the_timeline_s_numbers():
    timeline = recorded(pipeline, X)
    found = timeline.summary()
    assert json.loads(json.dumps(found)) == found
    assert found["modelled"] is True
    for name in ("total_ns", "engine_busy_ns", "hbm_bytes", "macs", "sbuf_peak_bytes", "where"):
        assert found[name] == getattr(timeline, name)
    assert found["low_ns"] < found["total_ns"] < found["high_ns"]
    assert found["chips"] == json.loads(json.dumps([asdict(hardware.TRN1)]))
    busy = timeline.engine_busy_ns["vector"]
    assert found["utilisation"]["vector"] == busy / timeline.total_ns
    path = found["critical_path"]
    assert sum([entry["ns"] for entry in path]) == pytest.approx(timeline.total_ns)
    assert sum([entry["events"] for entry in path]) == len(timeline.critical_path)
    assert {entry["source"]["function"] for entry in path} == {"pipeline"}


def test_floors_are_those_of_the_bytes_and_of_the_products():
    floors = nki_sim.dry_run(pipeline, SPEC).floors_ns()
    assert floors["hbm"] == pytest.approx(hardware.TRN1.dma_floor_ns(8 * 128 * 512, 4))
    assert floors["tensor"] == pytest.approx(4 * 512 / 2.45)  # a column of all cells at a time


def test_an_empty_timeline_has_a_summary():
    found = nki_sim.Timeline().summary()
    assert found["total_ns"] == 0 and found["critical_path"] == [] and found["warnings"] == []
    assert set(found["utilisation"].values()) == {0.0}
