"""Times of loops on the device: one iteration is recorded, and the others take the same time.

Sources: nki/deep-dives/nki-dynamic-loops.rst (there is one copy of the body; its tensors "are
allocated once and reused across iterations"; live tensors stay in memory "for the entire duration
of the loop"), and kiln on trn1 and spectral-dns on v2 (all engines wait for each other at the end
of every iteration). Costs of instructions are computed as in test_timeline.py. The chip is trn1
unless a test says otherwise.
"""

import itertools

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware

from .conftest import RULE, blocks, check_timeline, recorded, refuses, tile

FLOAT, N = nl.float32, 512
MEMSET, COPY, SEEN = (512 + 48) / 1.12, (512 + 48) / 1.4, 160 / 1.12  # VectorE, ScalarE, latency
BRANCH = 1400.0  # kiln: 64 iterations of one tensor_scalar take 0.257 ms in a loop, 0.161 unrolled
CHIPS = (hardware.TRN1, hardware.TRN2, hardware.TRN3)
COUNTS = ("instructions", "dma_bytes", "dma_descriptors", "hbm_bytes", "hbm_scratch_bytes")
PEAKS = ("sbuf_peak_bytes", "psum_peak_banks")
SHAPE = ((256, N), "float32")


def filled(columns=N):
    t = tile(columns)
    nisa.memset(t, 0.0, engine=nisa.engine.vector)
    return t


def rows(tensor, i):
    """Rows of an HBM tensor from row ``i`` on, a register."""
    n = tensor.shape[1]
    return tensor.ap([[n, 128], [1, n]], scalar_offset=i, indirect_dim=0)


def near(nanoseconds):
    return pytest.approx(nanoseconds, rel=1e-9)


def dry(kernel, *arguments, chip=hardware.TRN1):
    with hardware.select(chip):
        return nki_sim.dry_run(kernel, *arguments)


def loop(body, trips):
    """A kernel that is a loop alone, over ``body(i)``."""

    def kernel():
        nl.fori_loop(0, trips, body)

    return kernel


# Bodies: what they load, compute and store in an iteration.


def steps(count, blocks=1):
    def body(x, out, state, i):
        for _ in range(blocks):
            held = nl.load(rows(x, i))
            for _ in range(count):
                result = tile()
                nisa.tensor_scalar(result, held, nl.multiply, 1.0)
                held = result
            nisa.dma_copy(rows(out, i), held)

    return body


def products(x, out, state, i):
    held = nl.load(rows(x, i))
    for _ in range(12):  # more than the banks of PSUM
        bank = tile(buffer=nl.psum)
        nisa.nc_matmul(bank, stationary=held[:, :128], moving=held)
        held = tile()
        nisa.tensor_copy(held, bank)
    nisa.dma_copy(rows(out, i), held)


def carried(x, out, state, i):
    held = nl.load(rows(x, i))
    nisa.tensor_tensor(state, state, held, op=nl.add)
    nisa.activation(held, nl.tanh, held)


BODIES = {
    "DMA": steps(1),
    "compute": steps(9),
    "buffered": steps(3, blocks=2),
    "products": products,
    "carried": carried,
}


def together(trips, body):
    nl.fori_loop(0, trips, body)


def apart(trips, body):
    """The same iterations, each a loop of one trip."""
    for _ in range(trips):
        nl.fori_loop(0, 1, body)


def deprecated(trips, body):
    for i in nl.dynamic_range(trips):
        body(i)


def kernel_of(name, trips, iterate=together):
    def kernel(x):
        out = nl.zeros(x.shape, FLOAT, nl.shared_hbm)
        state = filled()
        iterate(trips, lambda i: BODIES[name](x, out, state, i))
        nisa.dma_copy(out[0:128], state)
        return out

    return kernel


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
@pytest.mark.parametrize("name", BODIES)
def test_iterations_take_as_long_as_if_each_were_recorded(name, chip):
    for trips in (1, 2, 3, 7, 30):
        found = dry(kernel_of(name, trips), SHAPE, chip=chip)
        expected = dry(kernel_of(name, trips, apart), SHAPE, chip=chip)
        assert found.total_ns == near(expected.total_ns)
        for count in COUNTS + PEAKS:
            assert getattr(found, count) == getattr(expected, count), count
        assert found.engine_busy_ns == pytest.approx(expected.engine_busy_ns, rel=1e-9)


@pytest.mark.parametrize("name", BODIES)
def test_a_run_has_the_timeline_of_a_dry_run(name):
    timeline = recorded(kernel_of(name, 50), np.ones((256, N), np.float32))
    expected = dry(kernel_of(name, 50), SHAPE)
    assert timeline.total_ns == expected.total_ns
    assert timeline.events == expected.events
    assert timeline.engine_busy_ns == expected.engine_busy_ns
    for count in COUNTS + PEAKS:
        assert getattr(timeline, count) == getattr(expected, count), count


def test_a_dry_run_does_not_grow_with_the_trips():
    calls = (call for call in itertools.count())  # a generator shows no state of it

    def body(i):
        next(calls)
        nisa.memset(tile(), 0.0, engine=nisa.engine.vector)

    timeline = dry(loop(body, 10**6))
    assert next(calls) == 2  # the first and the last
    assert timeline.instructions == 10**6
    assert timeline.total_ns == near(10**6 * (MEMSET + SEEN + BRANCH))
    assert len(timeline.events) == 1


@pytest.mark.usefixtures("parsed")
def test_registers_end_as_after_all_iterations():
    def kernel():
        last = nisa.register_alloc(0)
        nl.fori_loop(0, 30, lambda i: nisa.register_move(last, i))
        nl.fori_loop(0, last, lambda i: nisa.memset(tile(), 0.0) and None)

    assert dry(kernel).instructions == 29


# What an iteration waits for.


KERNELS = blocks("""
an iteration begins when all engines have drained: VectorE and GpSimdE take turns on SBUF
    def body(i):
        nisa.memset(tile(), 0.0, engine=nisa.engine.vector)
        nisa.memset(tile(), 0.0, engine=nisa.engine.gpsimd)
    nl.fori_loop(0, 10, body)
  total_ns == 10 * ((512 + 48) / 1.12 + (512 + 150 + 160) / 1.4 + BRANCH)
a buffer inside of the body
    nl.fori_loop(0, 10, lambda i: nisa.activation(tile(), nl.copy, filled()) and None)
  total_ns == 10 * (MEMSET + SEEN + COPY + 160 / 1.4 + BRANCH)
buffers inside of the body overlap
    def body(i):
        for _ in range(2):
            nisa.activation(tile(), nl.copy, filled())
    nl.fori_loop(0, 10, body)
  total_ns == 10 * (2 * MEMSET + SEEN + COPY + 160 / 1.4 + BRANCH)
engines meet before and after a loop
    held = filled()
    held = nl.copy(held)
    nl.fori_loop(0, 3, lambda i: nisa.activation(held, nl.copy, held) and None)
    filled()
  events[2].start_ns == events[1].end_ns + 160 / 1.4
  events[3].start_ns == events[2].start_ns + 3 * (COPY + 160 / 1.4 + BRANCH)
loops in loops multiply
    held = filled()
    def add_one(j):
        nisa.tensor_scalar(held, held, nl.add, 1.0, engine=nisa.engine.vector)
    def body(i):
        nl.fori_loop(0, 3, add_one)
        add_one(i)
    nl.fori_loop(0, 20, body)
  instructions == 1 + 20 * (3 + 1)
  total_ns == MEMSET + SEEN + 20 * (3 * (MEMSET + SEEN + BRANCH) + MEMSET + SEEN + BRANCH)
a loop without iterations changes nothing of the loop before it
    t = tile()
    def body(i):
        nisa.memset(t, 0.0, engine=nisa.engine.vector)
    nl.fori_loop(0, 100, body)
    nl.fori_loop(0, 0, body)
    nl.fori_loop(0, 0, body)
  total_ns == 100 * (MEMSET + SEEN + BRANCH)
  vector == 100 * MEMSET
a tile from outside is held during the loop, though the body's first instruction alone uses it
    early = filled(16 << 10)  # 64 KiB
    def body(i):
        nisa.tensor_scalar(early[:, :8], early[:, :8], nl.add, 1.0)
        nisa.memset(tile(16 << 10), 0.0)
    nl.fori_loop(0, 50, body)
  sbuf_peak_bytes == 128 << 10
memory of the body counts once [x of 128x512]
    def body(i):
        scratch, held = nl.ndarray((128, N), FLOAT, nl.private_hbm), tile()
        nisa.dma_copy(held, x)
        nisa.dma_copy(scratch, held)
        nisa.dma_copy(held, scratch)
    nl.fori_loop(0, 50, body)
  hbm_scratch_bytes == 128 * N * 4
  sbuf_peak_bytes == N * 4
empty loops follow each other
    nl.fori_loop(0, 3, lambda i: None)
    nl.fori_loop(0, 4, lambda i: None)
  total_ns == 7 * BRANCH
stores at unknown addresses of one tensor take turns
    out, held = nl.ndarray((1024, N), FLOAT, nl.private_hbm), filled()
    def body(i):
        for _ in range(2):
            nisa.dma_copy(rows(out, i), held)
    nl.fori_loop(0, 1024, body, 128)
  events[2].start_ns == events[1].end_ns + 350
""")


@pytest.mark.parametrize("heading", KERNELS)
def test_kernels(heading):
    check_timeline(heading, KERNELS[heading], globals())


@pytest.mark.parametrize("way", ["free", "depends_on", "with_schedule", "backwards"])
def test_edges_hold_in_every_iteration(way):
    def body(i):
        a = nisa.memset(tile(), 0.0, engine=nisa.engine.vector, name="a")
        b = nisa.activation(tile(), nl.copy, tile(), name="b")
        if way == "depends_on":
            b.depends_on(a)
        elif way == "backwards":
            a.depends_on(b)

    kernel = nki.jit(loop(body, 50))
    if way == "with_schedule":
        kernel = kernel.with_schedule([("b", "a")])
    last = (COPY + 160 / 1.4, MEMSET + SEEN)
    one = {"free": max(last), "backwards": COPY + 160 / 1.4 + last[1]}.get(way, sum(last))
    assert dry(kernel).total_ns == near(50 * (one + BRANCH))


# Other loops.


@pytest.mark.filterwarnings("ignore:nl.dynamic_range:DeprecationWarning")
@pytest.mark.usefixtures("parsed")
def test_dynamic_range_costs_what_fori_loop_does():
    kernel, expected = kernel_of("buffered", 50, deprecated), dry(kernel_of("buffered", 50), SHAPE)
    assert dry(kernel, SHAPE).total_ns == expected.total_ns
    timeline = recorded(kernel, np.ones((256, N), np.float32))
    assert timeline.total_ns == expected.total_ns


@pytest.mark.filterwarnings("ignore:nl.dynamic_range:DeprecationWarning")
@pytest.mark.parametrize("trips", [1, 3, 20])
@pytest.mark.usefixtures("parsed")
def test_a_dynamic_range_that_is_left(trips):
    def kernel():
        held, seen = filled(), itertools.count(1)
        for _ in nl.dynamic_range(30):
            nisa.tensor_scalar(held, held, nl.add, 1.0)
            if next(seen) == trips:
                break
        nisa.tensor_scalar(held, held, nl.add, 1.0)

    timeline = recorded(kernel)
    assert timeline.instructions == trips + 2


def countdown(start, first):
    """A kernel that counts a register down to 0, which a tensor holds."""

    def kernel():
        left, one, state = nl.zeros((1, 1), nl.int32), nl.zeros((1, 1), nl.int32), filled()
        nisa.memset(left, start)
        nisa.memset(one, 1)

        def body(r):
            nisa.tensor_scalar(state, state, nl.add, 1.0)
            nisa.tensor_tensor(left, left, one, op=nl.subtract)
            following = nisa.register_alloc()
            nisa.register_load(following, left)
            return following

        nl.while_loop(nisa.register_alloc(first), body)

    return kernel


def test_a_run_prices_the_trips_of_a_while_loop():
    totals = []
    for start in (20, 40, 60):
        timeline = recorded(countdown(start, start))
        totals.append(timeline.total_ns)
        assert timeline.instructions == 5 + 3 * start
    assert totals[2] - totals[1] == near(totals[1] - totals[0])


def test_a_dry_run_does_not_know_trips_that_depend_on_data():
    says = "dry run has no data, so the value of a loaded register is unknown"
    refuses(says, dry, countdown(20, 20))

    def kernel(bound):
        register, held = nisa.register_alloc(), nl.ndarray((1, 1), nl.int32)
        nisa.dma_copy(held, bound)
        nisa.register_load(register, held)
        nl.fori_loop(0, register, lambda i: None)

    refuses(says, dry, kernel, ((1, 1), "int32"))


# Addresses that the loop variable makes.


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_descriptors_of_dynamic_addresses(chip):
    def kernel(x, mode):
        register = nisa.register_alloc(0)
        for _ in range(3):
            nisa.dma_copy(tile(), rows(x, register), dge_mode=nisa.dge_mode[mode])

    written = dry(kernel, SHAPE, "unknown", chip=chip)
    assert written.engine_busy_ns["gpsimd"] == near(3 * chip.software_dge_ns)
    starts = [event.start_ns for event in written.events]
    assert starts == [0.0, near(chip.software_dge_ns), near(2 * chip.software_dge_ns)]
    if chip is hardware.TRN1:
        refuses("hwdge", dry, kernel, SHAPE, "hwdge", chip=chip)
    else:
        by_hardware = dry(kernel, SHAPE, "hwdge", chip=chip)
        assert by_hardware.engine_busy_ns["gpsimd"] == 0
        assert [event.start_ns for event in by_hardware.events] == [0.0, 600.0, 1200.0]
    refuses("a dynamic address needs a descriptor generator", dry, kernel, SHAPE, "none", chip=chip)


# Two cores.


def test_two_cores_share_the_iterations():
    def kernel(x, trips):
        out = nl.ndarray(x.shape, FLOAT, nl.shared_hbm)
        mine = 128 * nl.program_id(0)
        state = filled()

        def body(i):
            held = nl.load(x[mine : mine + 128])
            nisa.tensor_tensor(state, state, held, op=nl.add)

        nl.fori_loop(0, trips // nl.num_programs(), body)
        nisa.dma_copy(out[mine : mine + 128], state)
        if nl.num_programs() == 1:
            nisa.dma_copy(out[128:256], state)
        return out

    x = np.ones((256, N), np.float32)
    with hardware.select(hardware.TRN2):
        one, two = (nki_sim.dry_run(nki.jit(kernel)[n], SHAPE, 100) for n in (1, 2))
        with nki_sim.record() as timeline:
            found = nki_sim.simulate(nki.jit(kernel)[2])(x, 100)
    np.testing.assert_array_equal(found, 50 * x)
    assert timeline.total_ns == two.total_ns and timeline.events == two.events
    assert one.instructions == 1 + 200 + 2 and two.instructions == 2 * (1 + 100 + 1)
    assert 0.5 < two.total_ns / one.total_ns < 0.53


def test_cores_that_meet_in_every_iteration():
    def kernel(x, trips):
        out = nl.ndarray(x.shape, FLOAT, nl.shared_hbm)
        mine, state = 128 * nl.program_id(0), filled()

        def body(i):
            nisa.tensor_scalar(state, state, nl.add, 1.0)
            other = tile()
            nisa.sendrecv(state, other, 1 - nl.program_id(0), 1 - nl.program_id(0), 0)
            nisa.tensor_tensor(state, state, other, op=nl.add)

        nl.fori_loop(0, trips, body)
        nisa.dma_copy(out[mine : mine + 128], state)
        return out

    with hardware.select(hardware.TRN2):
        totals = [nki_sim.dry_run(nki.jit(kernel)[2], SHAPE, n).total_ns for n in (1, 2, 5)]
        found = nki_sim.simulate(nki.jit(kernel)[2])(np.zeros((256, N), np.float32), 5)
    assert totals[2] - totals[1] == near(3 * (totals[1] - totals[0]))
    assert (found == 2 * (2**5 - 1)).all()  # s -> 2 (s + 1), five times


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.usefixtures("parsed")
def test_loops_that_run_beside_each_other_are_refused():
    def kernel():
        for _ in zip(nl.dynamic_range(3), nl.dynamic_range(3), strict=True):
            filled()

    refuses("an inner loop on the device must end before the loop around it", dry, kernel)


def test_a_tile_that_no_first_iteration_uses_is_no_error():
    def kernel(x):
        held = tile()

        def outer(i):
            nl.fori_loop(0, i, lambda j: nisa.dma_copy(held, x[:128]) and None)

        nl.fori_loop(0, 2, outer)

    def outer_loop(x):
        held = tile()

        def inner(j):
            filled()
            nisa.dma_copy(held, x[:128])

        nl.fori_loop(0, 2, lambda i: nl.fori_loop(0, i, inner))

    for used in (kernel, outer_loop):
        assert dry(used, SHAPE, chip=hardware.TRN2).total_ns == near(2 * BRANCH)


def alternating(order):
    """One core writes a tensor that the other one reads, in every iteration."""

    def kernel(x):
        shared = nl.ndarray((128, N), FLOAT, nl.shared_hbm)
        held = filled()

        def body(i):
            if order == "before":
                nisa.core_barrier(shared, (0, 1))
            if nl.program_id(0) == 0:
                nisa.dma_copy(shared, held)
            else:
                nisa.memset(held, 0.0, engine=nisa.engine.vector)
            nisa.core_barrier(shared, (0, 1))
            if nl.program_id(0) == 1:
                nisa.dma_copy(held, shared)
            if order == "after":
                nisa.core_barrier(shared, (0, 1))

        nl.fori_loop(0, 3, body)
        out = nl.ndarray(x.shape, FLOAT, nl.shared_hbm)
        mine = 128 * nl.program_id(0)
        nisa.dma_copy(out[mine : mine + 128], held)
        return out

    return kernel


@pytest.mark.parametrize("order", ["before", "after"])
def test_iterations_of_two_cores_that_meet_twice_have_no_hazard(order):
    with hardware.select(hardware.TRN2):
        nki_sim.dry_run(nki.jit(alternating(order))[2], SHAPE)
        nki_sim.simulate(nki.jit(alternating(order))[2])(np.zeros((256, N), np.float32))


def test_a_write_races_with_the_other_cores_read_in_the_iteration_before():
    for run in (
        lambda kernel: nki_sim.dry_run(kernel, SHAPE),
        lambda kernel: nki_sim.simulate(kernel)(np.zeros((256, N), np.float32)),
    ):
        with hardware.select(hardware.TRN2), pytest.raises(RULE, match="no nisa.core_barrier"):
            run(nki.jit(alternating("once"))[2])
