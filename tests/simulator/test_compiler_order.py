"""The order that the compiler may choose: what it changes, and what it never changes."""

import itertools
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware
from nki_sim.rules.device_rules import RULES

from .conftest import refuses

VECTOR, SCALAR, GPSIMD = nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd
SMALL, SEEN = 64 / 1.12, 160 / 1.12  # ns of VectorE of trn1: a small instruction, until it is seen
START = 48 / 1.12


def tile(columns=8, buffer=nl.sbuf):
    return nl.ndarray((128, columns), dtype=nl.float32, buffer=buffer)


def near(ns):
    return pytest.approx(ns, rel=1e-12)


def chains(count, length, within=None):
    """Runs chains of dependent instructions of VectorE, one chain after the other."""

    def kernel():
        for _ in range(count):
            value = tile()
            nisa.memset(value, 0.0, engine=VECTOR)
            for _ in range(length - 1):
                before, value = value, tile()
                nisa.tensor_scalar(value, before, nl.add, 1.0, engine=VECTOR)

    def ordered():
        with nl.no_reorder():
            kernel()

    return ordered if within else kernel


def test_independent_chains_fill_each_other_s_waits():
    found = nki_sim.dry_run(chains(8, 4))
    # Eight chains take turns. Only the last ones have too few others to fill their waits.
    least = 32 * SMALL + START + SEEN
    assert least <= found.total_ns <= least + 2 * (START + SEEN)
    assert found.written_ns > 2 * found.total_ns
    ordered = nki_sim.dry_run(chains(8, 4, within=True))
    assert ordered.total_ns == ordered.written_ns == near(32 * (SMALL + START + SEEN))


def test_a_dependent_chain_keeps_its_time():
    found = nki_sim.dry_run(chains(1, 16))
    assert found.total_ns == found.written_ns == near(16 * (SMALL + START + SEEN))
    assert found.order_costs == []


def test_the_costs_of_the_order_name_the_lines():
    with nki_sim.sources():
        found = nki_sim.dry_run(chains(4, 4))
    costs = found.order_costs
    assert sum(one.ns for one in costs) <= found.written_ns - found.total_ns + 1e-6
    assert costs[0].ns >= costs[-1].ns > 0
    for one in costs:
        assert one.first is not None and one.first.file == __file__ == one.second.file
        assert set(one.instructions) <= {"nisa.memset", "nisa.tensor_scalar"}
    summary = found.summary()
    assert summary["written_ns"] == found.written_ns
    assert summary["order_costs"][0]["first"]["line"] == costs[0].first.line


def test_loads_run_ahead_as_far_as_sbuf_has_room():
    columns = 12 << 10  # 48 KiB of 192

    def kernel(x):
        for n in range(8):
            loaded, result = tile(columns), tile(columns)
            nisa.dma_copy(loaded, x.select(0, n))
            nisa.tensor_scalar(result, loaded, nl.add, 1.0, engine=VECTOR)

    with nki_sim.allow(*RULES):
        found = nki_sim.dry_run(kernel, ((8, 128, columns), "float32"))
    loads = [event for event in found.events if event.engine == "dma"]
    assert [event.start_ns == 0 for event in loads[:2]] == [True, False]
    held = max(value for _, value in found.sbuf_bytes_over_time())
    assert 2 * 4 * columns < held <= hardware.TRN1.sbuf_partition_bytes


def test_tiles_at_one_address_are_used_one_after_the_other():
    def kernel():
        for _ in range(4):
            a = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf, address=(0, 0))
            nisa.memset(a, 0.0, engine=GPSIMD)
            nisa.tensor_scalar(tile(512), a, nl.add, 1.0, engine=VECTOR)

    with hardware.select(hardware.TRN2):
        events = nki_sim.dry_run(kernel).events
    for before, after in itertools.pairwise([events[n : n + 2] for n in range(0, 8, 2)]):
        assert max(event.end_ns for event in before) <= after[0].start_ns + 1e-6


# Engines.


def copies(count, engine):
    def kernel():
        source = tile(512)
        nisa.memset(source, 0.0, engine=VECTOR)
        for _ in range(count):
            nisa.tensor_copy(tile(512), source, engine=engine)

    return kernel


def test_copies_without_an_engine_are_shared_by_two():
    found = nki_sim.dry_run(copies(20, nisa.engine.unknown))
    named = nki_sim.dry_run(copies(20, VECTOR))
    scalar, vector = found.on_scalar["nisa.tensor_copy"]
    assert scalar + vector == 20
    # 1.4 GHz and 1.12 GHz share the work by their clocks.
    assert scalar == 11 and vector == 9
    assert found.total_ns < 0.6 * named.total_ns
    assert named.on_scalar == {} and named.total_ns == found.written_ns


@pytest.mark.parametrize(
    ("op", "operand", "dtype", "moves"),
    [
        (nl.multiply, 2.0, nl.float32, True),
        (nl.add, 2.0, nl.float32, True),
        (nl.subtract, 2.0, nl.float32, True),
        (nl.maximum, 2.0, nl.float32, False),
        (nl.add, 2, nl.int32, False),
    ],
)
def test_what_scalar_e_computes_may_move_there(op, operand, dtype, moves):
    def kernel():
        source = nl.ndarray((128, 512), dtype=dtype, buffer=nl.sbuf)
        nisa.memset(source, 1, engine=VECTOR)
        nisa.tensor_scalar(nl.ndarray((128, 512), dtype=dtype), source, op, operand)

    assert ("nisa.tensor_scalar" in nki_sim.dry_run(kernel).on_scalar) is moves


def test_the_kernels_of_this_project_name_their_engines():
    """So no choice of the compiler changes their engines, or their price."""
    pytest.importorskip("torch")  # for the planner, whose registry has all kernels
    from simulator_cases import all_cases

    for case, name in itertools.product(all_cases(), hardware.NAMES[:2]):
        with hardware.select(hardware.chip(name)), nki_sim.allow(*RULES):
            assert nki_sim.dry_run(case.kernel, *case.arguments()).on_scalar == {}, case.name


# Random programs: what is true of every order.

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "copy", "load", "store", "product"]),
        st.integers(0, 5),
        st.integers(0, 5),
        st.sampled_from([(0, 8), (0, 4), (4, 8)]),
        st.sampled_from([VECTOR, GPSIMD, nisa.engine.unknown]),
    ),
    min_size=1,
    max_size=40,
)


def program(steps, columns, new):
    """Returns a kernel of the steps, and for each instruction what it reads and writes.

    A tile's name is (number, version): ``new`` tells after how many uses a number gets a new tile.
    """
    accesses = []

    def kernel(x):
        out = nl.ndarray((128, 8 * columns), dtype=nl.float32, buffer=nl.shared_hbm)
        weights = tile(128)
        nisa.memset(weights, 0.0, engine=VECTOR)
        whole = 0, 8 * columns
        accesses.append(([], [(("weights", 0), whole)]))
        nisa.dma_copy(out, x)
        accesses.append(([], [(("out", 0), whole)]))
        tiles, uses, versions = {}, defaultdict(int), defaultdict(int)

        def view(number, span):
            key = number % 6
            if key not in tiles or uses[key] % new == 0:
                versions[key] += key in tiles
                tiles[key] = tile(8 * columns)
                nisa.memset(tiles[key], 0.0, engine=VECTOR)
                accesses.append(([], [((key, versions[key]), whole)]))
            uses[key] += 1
            name = (key, versions[key])
            low, high = span[0] * columns, span[1] * columns
            return tiles[key][:, low:high], (name, (low, high))

        for kind, a, b, span, engine in steps:
            target, written = view(a, span)
            if kind == "load":
                nisa.dma_copy(target, x[:, span[0] * columns : span[1] * columns])
                accesses.append(([], [written]))
                continue
            if kind == "store":
                place = out[:, span[0] * columns : span[1] * columns]
                nisa.dma_copy(place, target)
                accesses.append(([written], [(("out", 0), written[1])]))
                continue
            source, read = view(b, span)
            if kind == "product":
                width = min(512, (span[1] - span[0]) * columns)
                bank = nl.ndarray((128, width), dtype=nl.float32, buffer=nl.psum)
                number = len(accesses)
                nisa.nc_matmul(bank, weights, source[:, 0:width])
                bank_name = ("bank", number), whole
                accesses.append(([_first(read, width), (("weights", 0), whole)], [bank_name]))
                nisa.tensor_copy(target[:, 0:width], bank, engine=VECTOR)
                accesses.append(([bank_name], [_first(written, width)]))
            elif kind == "copy":
                engine = nisa.engine.unknown if engine is GPSIMD else engine
                nisa.tensor_copy(target, source, engine=engine)
                accesses.append(([read], [written]))
            else:
                chosen = VECTOR if engine is nisa.engine.unknown else engine
                nisa.tensor_tensor(target, target, source, op=nl.add, engine=chosen)
                accesses.append(([read, written], [written]))
        return out

    return kernel, accesses


def _first(access, width):
    name, (low, high) = access
    return name, (low, min(high, low + width))


def touch(one, other):
    (name, span), (another, place) = one, other
    return name == another and span[0] < place[1] and place[0] < span[1]


@pytest.mark.lenient
@settings(deadline=None, max_examples=60)
@given(STEPS, st.sampled_from([1, 64, 700]), st.integers(2, 5), st.sampled_from(["trn1", "trn2"]))
def test_every_order_keeps_data_engines_and_memory(steps, columns, new, chip):
    kernel, accesses = program(steps, columns, new)
    with hardware.select(hardware.chip(chip)), nki_sim.allow(*RULES):
        found = nki_sim.dry_run(kernel, ((128, 8 * columns), "float32"))
    events = found.events
    assert len(events) == len(accesses)
    for (one, first), (two, second) in itertools.combinations(enumerate(accesses), 2):
        reads, writes = first
        conflicts = any(touch(a, b) for a in writes for b in (*second[0], *second[1])) or any(
            touch(a, b) for a in reads for b in second[1]
        )
        if conflicts:
            assert events[one].end_ns <= events[two].start_ns + 1e-6, (one, two)
    for engine in ("vector", "scalar", "gpsimd"):
        spans = sorted((e.start_ns, e.end_ns) for e in events if e.engine == engine)
        assert all(a[1] <= b[0] + 1e-6 for a, b in itertools.pairwise(spans))
    core = hardware.chip(chip)
    held = [value for _, value in found.sbuf_bytes_over_time()]
    assert max(held) <= core.sbuf_partition_bytes
    assert max([0, *[banks for _, banks in found.psum_banks_over_time()]]) <= core.psum_banks
    orders = found.written_ns, found.reordered_ns
    assert found.low_ns <= found.total_ns == min(orders) <= max(orders) <= found.high_ns


# Found by attacks.


def test_an_instruction_may_write_two_parts_of_the_tile_that_it_reads():
    def kernel():
        t = tile(32)
        nisa.memset(t, 1.0, engine=VECTOR)
        nisa.activation_reduce(t[:, 0:8], nl.exp, t[:, 8:16], nl.add, t[:, 16:17])
        nisa.tensor_scalar(t[:, 24:32], t[:, 24:32], nl.add, 1.0, engine=VECTOR)

    events = nki_sim.dry_run(kernel).events
    assert events[0].end_ns <= events[1].start_ns and events[1].end_ns <= events[2].start_ns


def test_edges_against_the_dependencies_of_whole_tiles_are_an_error():
    def kernel():
        t, b, o = tile(8), tile(4), tile(4)
        nisa.memset(t, 0.0, engine=VECTOR)
        one = nisa.memset(b, 0.0, engine=GPSIMD)
        nisa.tensor_copy(t[:, 4:8], b, engine=VECTOR)
        last = nisa.tensor_copy(o, t[:, 0:4], engine=SCALAR)
        one.depends_on(last)

    with hardware.select(hardware.TRN2):
        refuses("the graph of waits is circular", nki_sim.dry_run, kernel)


@pytest.mark.parametrize("is_ordered", [False, True])
def test_a_loop_holds_its_tiles_whatever_their_last_use(is_ordered):
    def kernel():
        held, o = tile(20000), tile()
        nisa.memset(held, 0.0, engine=VECTOR)
        one = nisa.memset(o, 0.0, engine=VECTOR)
        two = nisa.memset(tile(), 0.0, engine=GPSIMD)
        if is_ordered:
            one.depends_on(two)

        def body(i):
            b = tile(20000)
            nisa.memset(b, 0.0, engine=GPSIMD)
            nisa.memset(b, 1.0, engine=GPSIMD)
            nisa.memset(tile(25000), 0.0, engine=VECTOR)
            nisa.activation(o, nl.copy, held[:, 0:8])  # the last instruction, which is repeated

        nl.fori_loop(0, 10, body)

    with hardware.select(hardware.TRN2):
        found = nki_sim.dry_run(kernel)
        limit = hardware.TRN2.sbuf_partition_bytes
    assert max(value for _, value in found.sbuf_bytes_over_time()) <= limit
    orders = [launch.schedule.reordered.total_ns for launch in found._launches]
    assert min(orders) >= 0.99 * found.written_ns  # there is nothing to gain


@nki.jit
def crossing(x):
    """Two exchanges whose instructions could be put in the other order on one of the cores."""
    me = nl.program_id()
    sent = [tile(512), tile(512)]
    got = [tile(512), tile(512)]
    late, other, out = tile(4096), tile(512), nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    nisa.memset(sent[1], 1.0, engine=VECTOR)
    if me == 1:
        nisa.memset(late, 1.0, engine=VECTOR)
        nisa.activation(sent[0], nl.copy, late[:, 0:512])
    else:
        nisa.memset(sent[0], 1.0, engine=VECTOR)
    for pipe in range(2):
        nisa.sendrecv(sent[pipe], got[pipe], 1 - me, 1 - me, pipe)
        if pipe == me:
            nisa.activation(other, nl.copy, got[pipe])
    nisa.dma_copy(out.select(0, me), other)
    return out


def test_both_programs_meet_in_the_same_order():
    with hardware.select(hardware.TRN2):
        kernel = nki_sim.simulate(crossing).with_programs(2)
        found = nki_sim.dry_run(kernel, ((2, 128, 512), "float32"))
    meetings = [event for event in found.events if event.instruction == "nisa.sendrecv"]
    first, second = meetings[:2], meetings[2:]
    assert [a.number < b.number for a, b in (first, second)] == [True, True]
    assert found.reordered_ns > 0


def test_a_write_waits_for_reads_before_a_covering_write():
    def kernel(x):
        t, a, b = tile(8192), tile(8192), tile()
        nisa.memset(t, 0.0, engine=VECTOR)
        nisa.tensor_scalar(a, t, nl.add, 1.0, engine=VECTOR)  # reads all of the tile
        nisa.tensor_copy(b, t[:, 0:8], engine=VECTOR)
        nisa.memset(t[:, 0:8], 1.0, engine=VECTOR)
        nisa.dma_copy(t[:, 4096:4104], x)

    events = nki_sim.dry_run(kernel, ((128, 8), "float32")).events
    assert events[1].end_ns <= events[4].start_ns


@pytest.mark.lenient
def test_memory_in_many_pieces_has_few_waits():
    """One tile with many users leaves its memory to many small tiles."""

    def effort(count):
        def kernel(x):
            big = tile(40000)
            nisa.memset(big, 0.0, engine=VECTOR)
            for n in range(count):
                nisa.dma_copy(big[:, n : n + 1], x)
            for _ in range(count):
                small = tile(2000)
                nisa.memset(small, 0.0, engine=VECTOR)
                nisa.tensor_scalar(small, small, nl.add, 1.0, engine=VECTOR)

        with hardware.select(hardware.TRN1), nki_sim.allow(*RULES):
            found = nki_sim.dry_run(kernel, ((128, 1), "float32"))
        schedule = found._launches[0].schedule
        assert found.low_ns > 0
        return sum(map(len, schedule._compiled._waits().values())) / found.event_count

    few, many = effort(100), effort(800)
    assert many < 1.5 * few + 2
