"""Events name the kernel's line and their operands; warnings name their own line."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware

from .conftest import TARGET, line_of, recorded

X = np.ones((256, 64), np.float32)
SPEC = ((256, 64), "float32")


def doubled(tile):
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)  # in the helper


def kernel(x):
    out = nl.ndarray((256, 64), nl.float32, buffer=nl.shared_hbm)
    for first in (0, 128):
        tile = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf, name="rows")
        nisa.dma_copy(tile, x[first : first + 128])  # the load
        doubled(tile)
        nl.store(out[first : first + 128], tile)  # the store
    return out


def lines(events):
    return [(e.source.file, e.source.line, e.source.function) for e in events if e.source]


def test_events_have_the_line_of_the_kernel_or_of_its_helper():
    body = [
        (__file__, line_of(__file__, "the load"), "kernel"),
        (__file__, line_of(__file__, "in the helper"), "doubled"),
    ]
    expected = [*body, (__file__, line_of(__file__, "the store"), "kernel")] * 2
    assert lines(recorded(kernel, X).events) == expected
    with nki_sim.sources():
        assert lines(nki_sim.dry_run(kernel, SPEC).events) == expected


def test_a_dry_run_outside_of_sources_has_no_lines_but_everything_else():
    dry, real = nki_sim.dry_run(kernel, SPEC).events, recorded(kernel, X).events
    assert {(e.source, e.operands) for e in dry} == {(None, "")}
    assert dry == [replace(e, source=None, operands="") for e in real] == real


def test_both_programs_have_lines(monkeypatch):
    monkeypatch.setenv(TARGET, "trn2")

    def mine(x):
        nisa.dma_copy(nl.ndarray((128, 64), nl.float32), x[0:128])  # of a program

    expected = [(__file__, line_of(__file__, "of a program"), "mine")] * 2
    assert lines(recorded(nki.jit(mine)[2], X).events) == expected
    with nki_sim.sources():
        assert lines(nki_sim.dry_run(nki.jit(mine)[2], SPEC).events) == expected


def test_a_device_loop_has_the_lines_of_its_body():
    def looped():
        tile = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        nisa.memset(tile, 1.0)

        def body(i):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)  # in the body

        nl.fori_loop(0, 5, body)

    event = recorded(looped).events[1]
    assert lines([event]) == [(__file__, line_of(__file__, "in the body"), "body")]
    assert event.times == 5 and event.index == event.number == 1


def test_operands_are_told_by_parameter_memory_name_shape_and_dtype():
    load, scale, store = recorded(kernel, X).events[:3]
    assert load.operands == "dst sbuf 'rows' 128x64 float32, src shared_hbm 128x64 float32"
    assert scale.operands == "dst sbuf 'rows' 128x64 float32, data sbuf 'rows' 128x64 float32"
    assert store.operands == "dst shared_hbm 128x64 float32, src sbuf 'rows' 128x64 float32"


def test_events_of_dma_have_queue_bytes_and_descriptors():
    load, scale, store = recorded(kernel, X).events[:3]
    assert (load.queue, scale.queue, store.queue) == ("dma load", "", "dma store")
    assert (load.bytes, load.hbm_bytes) == (128 * 64 * 4, 128 * 64 * 4)
    assert load.descriptors == 16  # a run for each engine
    assert (scale.bytes, scale.descriptors, scale.moves_ns) == (0, 0, 0.0)
    assert load.end_ns - load.start_ns == pytest.approx(64 + 700 + load.moves_ns)


def test_matmuls_have_their_products():
    def product():
        a, b = [nl.ndarray((64, n), nl.bfloat16, buffer=nl.sbuf) for n in (32, 512)]
        for t in (a, b):
            nisa.memset(t, 1.0)
        nisa.nc_matmul(nl.ndarray((32, 512), nl.float32, buffer=nl.psum), a, b)

    timeline = recorded(product)
    assert [e.macs for e in timeline.events] == [0, 0, 64 * 32 * 512]
    assert timeline.macs == 64 * 32 * 512


@pytest.mark.lenient
def test_warnings_of_a_launch_have_their_instruction_and_line():
    def careless(x):
        out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
        tiles = [nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf) for _ in range(3)]
        nisa.dma_copy(tiles[0], x[0:128])
        for tile in tiles[1:]:
            nisa.tensor_copy(tiles[0], tile)  # of nothing
        nisa.dma_copy(out, tiles[0])
        return out

    with pytest.warns(nki_sim.NkiSimulationWarning) as told:
        (warning,) = recorded(careless, X).warnings
    assert warning.message == str(told[0].message) and "nisa.tensor_copy" in warning.message
    line = line_of(__file__, "of nothing")
    assert (warning.rule, warning.number) == (
        f"the instruction at test_instruction_notes.py:{line} reads memory that nothing has "
        f"written, all 128 partitions: write it first",
        1,
    )
    assert str(warning.source) == f"{__file__}:{line}"


@pytest.mark.lenient
def test_a_warning_of_a_device_rule_bears_its_name():
    chip = replace(hardware.TRN1, dma_written_ahead=hardware.CONTESTED)

    def ahead(x):
        for _ in range(2):
            nisa.dma_copy(nl.ndarray((128, 12 << 10), nl.float32), x)  # too much

    x = np.zeros((128, 12 << 10), np.float32)
    with hardware.select(chip), warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        timeline = recorded(ahead, x)
        dry = nki_sim.dry_run(ahead, (x.shape, "float32"))
    found = {(w.rule, w.number, w.source and w.source.line) for w in timeline.warnings}
    assert ("dma-written-ahead", 1, line_of(__file__, "too much")) in found
    assert all(w.source is None for w in dry.warnings)
    assert [w.message for w in dry.warnings] == [w.message for w in timeline.warnings]


def test_timelines_without_warnings_say_so():
    assert recorded(kernel, X).warnings == []
