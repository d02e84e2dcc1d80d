"""Traces for Perfetto, read by the rules of Perfetto's trace processor.

The rules (slice_tracker.cc, flow_tracker.cc, track_event_tokenizer.cc): packets are sorted by time,
and packets of the same time keep their order; an end closes the last slice that its track began; a
slice that begins in another slice and ends after it is dropped; a flow links the slices with its
number.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware
from nki_sim.timeline.critical_path import critical_shares

from .conftest import TARGET, recorded, tile
from .report import kernels
from .report.kernels import softmax

protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")

X = np.random.default_rng(0).standard_normal((1024, 512)).astype(np.float32)


@dataclass
class Slice:
    """A slice as Perfetto has it: the names of its group and track, and the arrows' numbers."""

    name: str
    group: str
    track: str
    uuid: int
    start: int
    end: int
    details: dict[str, Any]
    flows: list[int]


@dataclass
class Trace:
    slices: list[Slice]
    counters: dict[tuple[str, str], list[tuple[int, float]]]
    groups: list[str]

    def of(self, *tracks):
        return [one for one in self.slices if one.track in tracks]

    @property
    def instructions(self):
        return [one for one in self.slices if "number" in one.details]


def saved(timeline, folder):
    path = folder / "trace.pftrace"
    timeline.save_perfetto(path)
    trace = protos.Trace()
    trace.ParseFromString(path.read_bytes())
    return processed(trace)


def processed(trace):
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in trace.packet}
    groups = [t.name for t in tracks.values() if t.uuid and not t.parent_uuid]
    found = Trace([], {}, groups)
    began = defaultdict(list)
    events = [p for p in trace.packet if p.HasField("track_event")]
    assert all(p.trusted_packet_sequence_id and p.HasField("timestamp") for p in events)
    for packet in sorted(events, key=lambda p: p.timestamp):
        event, time = packet.track_event, packet.timestamp
        track = tracks[event.track_uuid]
        names = tracks[track.parent_uuid].name, track.name
        if event.type == event.TYPE_COUNTER:
            value = event.double_counter_value
            found.counters.setdefault(names, []).append((time, value))
        elif event.type == event.TYPE_SLICE_BEGIN:
            details = {a.name: getattr(a, a.WhichOneof("value")) for a in event.debug_annotations}
            flows = list(event.flow_ids)
            one = Slice(event.name, *names, event.track_uuid, time, -1, details, flows)
            began[event.track_uuid].append(one)
            found.slices.append(one)
        else:
            assert event.type == event.TYPE_SLICE_END
            began[event.track_uuid].pop().end = time
    assert not any(began.values())
    return found


def dropped(slices):
    """Those that begin inside of another of their track and end after it."""
    found = []
    stacks = defaultdict(list)
    for one in slices:
        stack = stacks[one.uuid]
        while stack and stack[-1].end <= one.start:
            stack.pop()
        if stack and stack[-1].end < one.end:
            found.append(one)
        stack.append(one)
    return found


def check(timeline, trace):
    """The trace has every event with its time and all that is known of it, and loses none."""
    assert dropped(trace.slices) == []
    expected = [
        (e.name, e.queue or e.engine, round(e.start_ns), round(e.end_ns), e.number, e.operands)
        for e in timeline.events
    ]
    found = [
        (s.name, s.track, s.start, s.end, s.details["number"], s.details.get("operands", ""))
        for s in trace.instructions
    ]
    assert sorted(found) == sorted(expected)
    check_counters(timeline, trace)
    check_flows(timeline, trace)
    if not timeline.loops:  # of which a trace has one iteration
        check_gpsimd(timeline, trace)


def check_gpsimd(timeline, trace):
    """Its slices, those of DMA descriptors too, are what it is busy with, one at a time."""
    busy = []
    for group in trace.groups:
        slices = [one for one in trace.of("gpsimd") if one.group == group]
        assert len({one.uuid for one in slices}) <= 1
        busy.append(sum([one.end - one.start for one in slices]))
    rounding = len(timeline.events)
    assert max(busy) == pytest.approx(timeline.engine_busy_ns["gpsimd"], abs=rounding)


def check_counters(timeline, trace):
    for core, group in enumerate(trace.groups):
        for name, steps in (
            ("SBUF", timeline.sbuf_bytes_over_time(core)),
            ("PSUM", timeline.psum_banks_over_time(core)),
            ("DMA", timeline.dma_bytes_per_ns_over_time(core)),
            ("HBM", timeline.hbm_bytes_per_ns_over_time(core)),
        ):
            expected = [(round(time), value) for time, value in steps]
            assert trace.counters.get((group, name), []) == expected


def check_flows(timeline, trace):
    """Each arrow has two ends, and they are the steps of the critical path."""
    ends = defaultdict(list)
    for one in trace.instructions:
        for flow in one.flows:
            ends[flow].append((one.group, one.details["number"], one.start))
    keys = [(trace.groups[e.core], e.number, round(e.start_ns)) for e in timeline.critical_path]
    steps = [sorted(step) for step in pairwise(keys)]
    assert sorted([sorted(step) for step in ends.values()]) == sorted(steps)


def test_a_softmax_loses_no_transfer(tmp_path):
    timeline = recorded(softmax, X)
    trace = saved(timeline, tmp_path)
    check(timeline, trace)
    assert trace.groups == [f"NeuronCore of {timeline.where} (modelled)"]
    transfers = trace.of("dma load", "dma store")
    assert len(transfers) == 16
    as_one_track = [Slice(s.name, s.group, "dma", 1, s.start, s.end, {}, []) for s in transfers]
    assert len(dropped(as_one_track)) > 4  # what lanes are for


def test_a_slice_tells_everything_of_its_instruction(tmp_path):
    timeline = recorded(softmax, X)
    trace = saved(timeline, tmp_path)
    load, reduction = trace.instructions[0], trace.of("vector")[0]
    source = timeline.events[0].source
    assert load.details == {
        "number": 0,
        "instruction": "nisa.dma_copy",
        "source": f"{kernels.__file__}:{source.line} (softmax)",
        "operands": "dst sbuf 128x512 float32, src shared_hbm 128x512 float32",
        "bytes": 128 * 512 * 4,
        "descriptors": 16,
        "hbm_bytes": 128 * 512 * 4,
        "moves_ns": timeline.events[0].moves_ns,
    }
    assert reduction.details["wait"] == "operand written by"
    assert reduction.details["waited_for"] == "dma_copy 0"


def test_descriptors_name_their_transfer(tmp_path):
    with hardware.select(hardware.TRN2):
        timeline = recorded(softmax, X[:128])
    slices = saved(timeline, tmp_path).of("gpsimd")
    written = [one.details["descriptors_of"] for one in slices if one.name == "descriptors"]
    assert written == ["dma_copy 0", "dma_copy 6"]


def test_array_tiles_that_run_side_by_side(tmp_path):
    def kernel():
        data = tile(128)
        nisa.memset(data, 1.0)
        for row in (0, 64):
            bank, rows = tile(512, nl.psum), data[row : row + 64]
            nisa.nc_matmul(bank[:, :128], rows, rows, tile_position=(row, 0), tile_size=(64, 128))

    timeline = recorded(kernel)
    trace = saved(timeline, tmp_path)
    check(timeline, trace)
    assert len({one.uuid for one in trace.of("tensor")}) == 2


def test_each_core_has_a_group(tmp_path, monkeypatch):
    monkeypatch.setenv(TARGET, "trn2")

    def kernel(x):
        held = tile()
        for _ in range(2 + nl.program_id()):
            nisa.dma_copy(held, x[:128])
            nisa.tensor_scalar(held, held, nl.add, 1.0)
        nisa.core_barrier(x, (0, 1), nisa.engine.vector)
        nisa.tensor_scalar(held, held, nl.add, 1.0)

    timeline = recorded(nki.jit(kernel)[2], X)
    trace = saved(timeline, tmp_path)
    check(timeline, trace)
    assert trace.groups == [f"NeuronCore {core} of trn2, LNC=2 (modelled)" for core in (0, 1)]
    assert any(" of core 1" in s.details.get("waited_for", "") for s in trace.instructions)


def test_launches_follow_each_other(tmp_path):
    with nki_sim.record() as timeline:
        for _ in range(3):
            nki_sim.simulate(softmax)(X[:128])
    trace = saved(timeline, tmp_path)
    check(timeline, trace)
    launches = trace.of("launches")
    assert [(one.name, one.details["launch"]) for one in launches] == [
        ("softmax", number) for number in range(3)
    ]
    assert [one.end for one in launches[:2]] == [one.start for one in launches[1:]]
    assert launches[-1].end == round(timeline.total_ns)


def adding(trips, inner=0):
    """A kernel that adds 1 in a loop, which may have a loop inside of it, and after it."""

    def kernel():
        held = tile()
        nisa.memset(held, 0.0)

        def body(i):
            nisa.tensor_scalar(held, held, nl.add, 1.0)

        nl.fori_loop(0, trips, (lambda i: nl.fori_loop(0, inner, body)) if inner else body)
        nisa.tensor_scalar(held, held, nl.add, 1.0)

    return kernel


def test_a_device_loop_is_shown_as_a_whole(tmp_path):
    timeline = recorded(adding(30))
    trace = saved(timeline, tmp_path)
    check(timeline, trace)
    (loop,) = trace.of("loops on the device")
    (found,) = timeline.loops
    assert loop.name == "nl.fori_loop, 30 iterations" and loop.details["trips"] == 30
    assert (loop.start, loop.end) == (round(found.start_ns), round(found.end_ns))
    _, inside, last = trace.instructions
    assert inside.details["times"] == 30 and "times" not in last.details
    assert last.start >= loop.end


def test_loops_inside_of_loops(tmp_path):
    timeline = nki_sim.dry_run(adding(4, inner=3))
    trace = saved(timeline, tmp_path)
    check(timeline, trace)
    assert len(trace.of("loops on the device")) == 2


@pytest.mark.lenient
def test_a_warning_is_told_by_its_instruction(tmp_path):
    def kernel():
        nisa.tensor_copy(tile(), tile())

    with pytest.warns(nki_sim.NkiSimulationWarning, match="nothing has written"):
        timeline = recorded(kernel)
    (one,) = saved(timeline, tmp_path).instructions
    assert one.details["warning"] == timeline.warnings[0].message


@pytest.mark.parametrize(("name", "shown"), [("Größe ∑ 行列", "Größe ∑ 行列"), ("\udcff", "?")])
def test_names_may_have_any_letters_of_utf_8(tmp_path, name, shown):
    def kernel():
        nisa.memset(tile(), 0.0, name=name)

    (one,) = saved(recorded(kernel), tmp_path).instructions
    assert one.name == shown


def test_a_dry_run_has_a_trace_without_lines(tmp_path):
    timeline = nki_sim.dry_run(softmax, (X.shape, "float32"))
    trace = saved(timeline, tmp_path)
    check(timeline, trace)
    assert not any({"source", "operands"} & one.details.keys() for one in trace.slices)


ALGORITHMS = ("stockham", "folded_dft", "long_bluestein", "resident_planes", "axes")


@pytest.mark.parametrize(("chip", "cores"), [("trn1", 1), ("trn2", 2)])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_kernels_of_this_repository(tmp_path, monkeypatch, name, chip, cores):
    pytest.importorskip("torch")  # for the planner, whose registry has all kernels
    from simulator_cases import all_cases

    monkeypatch.setenv(TARGET, chip)
    (case,) = [case for case in all_cases() if case.name == name]
    kernel = nki_sim.simulate(case.kernel)[cores]
    with nki_sim.sources():
        timeline = nki_sim.dry_run(kernel, *case.arguments())
    check(timeline, saved(timeline, tmp_path))
    files = {event.source and event.source.file for event in timeline.events}
    assert None not in files and not any("/simulator/" in file for file in files)
    assert all(event.operands for event in timeline.events)
    shares = sum([share.ns for share in critical_shares(timeline)])
    assert shares == pytest.approx(timeline.total_ns, rel=1e-9)
    most = timeline.chips[0].dma_total_bytes_per_ns
    for core in range(cores):
        rates = [rate for _, rate in timeline.dma_bytes_per_ns_over_time(core)]
        assert max(rates) <= most * (1 + 1e-9)


def test_an_empty_timeline_is_an_empty_trace(tmp_path):
    trace = saved(nki_sim.Timeline(), tmp_path)
    assert (trace.slices, trace.counters) == ([], {})
    assert trace.groups == ["NeuronCore (modelled)"]


def test_a_trace_is_whole_or_absent(tmp_path):
    timeline = recorded(softmax, X[:128])
    with pytest.raises(FileNotFoundError):
        timeline.save_perfetto(tmp_path / "missing" / "trace.pftrace")
    assert list(tmp_path.iterdir()) == []


def test_the_package_is_named_where_it_is_absent(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "perfetto.trace_builder.proto_builder", None)
    with pytest.raises(ImportError, match=r"which the extra \"report\" of"):
        nki_sim.Timeline().save_perfetto(tmp_path / "trace.pftrace")
    assert list(tmp_path.iterdir()) == []
