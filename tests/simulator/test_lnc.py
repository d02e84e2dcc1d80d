"""Launches on two NeuronCores: kernel[2] (LNC = 2).

Facts: nki/get-started/about/lnc.rst; core_barrier and sendrecv in nki/api/nki/isa/__init__.py;
about-neuron/arch/neuron-features/logical-neuroncore-config.rst ("LNC can only be set to 1 or 2",
"only to Trn2 and Trn3 instances").
"""

import random
import textwrap
import threading
from dataclasses import replace

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware
from nki_sim.rules import core_hazards, device_rules
from nki_sim.timeline.pair_schedule import SharedHbm

from .conftest import (
    CHOICE,
    RULE,
    TARGET,
    blocks,
    broken,
    check_timeline,
    kernel_of,
    legal,
    new,
    refuses,
    sample,
)

TRN2 = hardware.chip("trn2")
ROWS = sample((256, 64))
SPECS = ((256, 64), "float32")


@pytest.fixture(autouse=True)
def trn2(monkeypatch):
    """On trn2 unless a test says otherwise; no thread outlives its launch."""
    monkeypatch.setenv(TARGET, "trn2")
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def shared(shape, dtype="float32", name=""):
    return nl.ndarray(shape, dtype, buffer=nl.shared_hbm, name=name)


def mine(tensor, other=False):
    """The rows of a tensor that belong to this program, or to the other one."""
    half = tensor.shape[0] // 2
    first = half * (nl.program_id(0) ^ other)
    return tensor[first : first + half]


def launch(body, *arguments):
    """On the arrays among the arguments, or on ROWS; the others are of the body."""
    arrays = [one for one in arguments if isinstance(one, np.ndarray)] or [ROWS]
    rest = [one for one in arguments if not isinstance(one, np.ndarray)]
    kernel = nki.jit((lambda *tensors: body(*tensors, *rest)) if rest else body)
    return nki_sim.simulate(kernel).with_programs(2)(*arrays)


def recorded(body, *arguments):
    with nki_sim.record() as timeline:
        launch(body, *arguments)
    return timeline


def read(x, *views):
    """The argument x, after reads of shared tensors, which are scratch memory therefore."""
    for view in views:
        nisa.dma_copy(new((view.shape[0], view.size // view.shape[0])), view)
    return x


def doubled(x):
    """2 x, the rows split among the programs."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0] // nl.num_programs()
    for start in range(rows * nl.program_id(), rows * (nl.program_id() + 1), 128):
        tile = nl.load(x[start : start + 128])
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        nisa.dma_copy(out[start : start + 128], tile)
    return out


# The launch.


@pytest.mark.parametrize("chip", ["trn2", "trn3"])
def test_two_cores_halve_the_time_of_a_kernel_bound_by_dma(chip):
    x = sample((4096, 1024))
    with hardware.select(hardware.chip(chip)), nki_sim.allow("dma-written-ahead"):
        times = []
        for kernel in (nki.jit(doubled), nki.jit(doubled)[1], nki.jit(doubled)[2]):
            with nki_sim.record() as timeline:
                np.testing.assert_array_equal(nki_sim.simulate(kernel)(x), 2 * x)
            assert nki_sim.dry_run(kernel, x).total_ns == timeline.total_ns
            times.append(timeline.total_ns)
    assert times[0] == times[1]
    # Together they get 566 of 736 B/ns, or 917 of 1056.
    least = {"trn2": 368 / 566, "trn3": 528 / 917}[chip]
    assert least < times[2] / times[0] < least + 0.03


def test_each_program_knows_which_it_is():
    seen = []

    def kernel(x):
        seen.append((nl.program_id(), nl.num_programs(), nl.num_programs((0,)), nl.program_ndim()))

    launch(kernel)
    assert seen == [(0, 2, 2, 1), (1, 2, 2, 1)]
    nki.jit(kernel)[1](ROWS)
    nki.jit(kernel)(ROWS)
    assert seen[2:] == [(0, 1, 1, 1), (0, 1, 1, 0)]


@pytest.mark.parametrize("axis", [1, -1, True, 0.0, None, "0"], ids=str)
def test_an_axis_is_one_of_the_grid(axis):
    for function, argument in ((nl.program_id, "axis"), (nl.num_programs, "axes")):
        with pytest.raises(RULE, match=rf"nl.{function.__name__}: {argument} is .*from 0 to 0"):
            launch(lambda x, function=function: function(axis), ROWS)
    assert nki.jit(lambda: nl.program_id(1))[1, 1]() == 0


@pytest.mark.parametrize(
    ("chip", "grid", "allowed"),
    [
        ("trn1", 2, "trn1 has 1 core .* set NEURON_PLATFORM_TARGET_OVERRIDE to trn2 or trn3"),
        ("trn2", 3, "trn2 has 1 or 2 cores"),
        ("trn2", 8, "trn2 has 1 or 2 cores"),
        ("trn3", (3,), "trn3 has 1 or 2 cores"),
    ],
)
def test_a_launch_has_as_many_programs_as_the_chip_allows(chip, grid, allowed):
    kernel = nki.jit(doubled)[grid]  # the chip is known at the launch
    says = f"launch: the number of cores is ., but a launch on {allowed}"
    with hardware.select(hardware.chip(chip)):
        refuses(says, kernel, ROWS)
        refuses(says, nki_sim.dry_run, kernel, SPECS)
    np.testing.assert_array_equal(nki.jit(doubled)[(2,)](ROWS), 2 * ROWS)


def test_a_kernel_writes_its_arguments():
    def kernel(pair, factor, more=None):
        for x in (pair[0], more):
            tile = nl.load(mine(x))
            nisa.tensor_scalar(tile, tile, nl.multiply, factor)
            nisa.dma_copy(mine(x), tile)

    x, more = ROWS.copy(), ROWS.T.copy().T  # the second one has to be copied for the launch
    nki.jit(kernel)[2]((x,), 2.0, more=more)
    np.testing.assert_array_equal(x, 2 * ROWS)
    np.testing.assert_array_equal(more, 2 * ROWS)


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("meets", [False, True])
def test_an_error_of_a_program_is_that_of_the_launch(failing, meets):
    def kernel(x):
        if meets:
            nisa.core_barrier(x, (0, 1))
        if nl.program_id() == failing:
            raise KeyError("of the kernel")
        nisa.core_barrier(x, (0, 1))

    with pytest.raises(KeyError, match="of the kernel"):
        launch(kernel)
    np.testing.assert_array_equal(launch(doubled), 2 * ROWS)


@pytest.mark.parametrize("launches", [lambda k: k(ROWS), lambda k: nki_sim.dry_run(k, SPECS)])
def test_a_kernel_that_launches_itself_ends(launches):
    """Each launch has a thread, so that Python's limit of recursions would not end it."""
    begun = []

    def recursive(x):
        begun.append(x)
        assert len(begun) < 9
        if nl.program_id(0) == 1:
            launches(nki.jit(recursive).with_programs(2))
        return shared((4, 4))

    with pytest.raises(RuntimeError, match="launches kernel recursive, but a kernel cannot"):
        launch(recursive)


def test_programs_run_by_turns():
    seen = []

    def kernel(x, meetings):
        for n in range(meetings):
            seen.append((nl.program_id(), n))
            nisa.core_barrier(x, (0, 1))
        seen.append((nl.program_id(), "end"))
        assert meetings

    launch(kernel, 2)
    assert seen == [(0, 0), (1, 0), (1, 1), (0, 1), (0, "end"), (1, "end")]
    del seen[:]
    with pytest.raises(AssertionError):
        launch(kernel, 0)
    assert seen == [(0, "end")]  # the second program has not begun


# Memory.


@pytest.mark.parametrize(
    "kernel",
    [
        lambda x: (shared((256, 64 + nl.program_id())), None)[1],
        lambda x: (shared((256, 64), ("int32", "float32")[nl.program_id()]), None)[1],
        lambda x: (nl.program_id() and shared((256, 64), name="extra"), None)[1],
    ],
    ids=["shape", "dtype", "one alone"],
)
def test_both_programs_allocate_the_same_shared_tensors(kernel):
    refuses("nl.private_hbm", launch, kernel)


def test_programs_may_have_different_private_tensors():
    def kernel(x):
        for _ in range(1 + nl.program_id()):
            scratch = nl.ndarray((128, 64), nl.float32, buffer=nl.private_hbm)
            nisa.dma_copy(scratch, mine(x))
        out = shared(x.shape)
        nisa.dma_copy(mine(out), scratch)
        return out

    np.testing.assert_array_equal(launch(kernel), ROWS)
    assert recorded(kernel).hbm_scratch_bytes == 3 * 128 * 64 * 4


def test_both_programs_return_the_same():
    def two(x):
        made = [shared(x.shape), shared(x.shape)]
        for tensor in made:
            nisa.dma_copy(mine(tensor), mine(x))
        return made

    kernels = [
        lambda x: two(x)[nl.program_id()],
        lambda x: two(x)[: 1 + nl.program_id()],
        lambda x: (doubled(x), None)[nl.program_id()],
        lambda x: mine(doubled(x)),
        lambda x: {f"{nl.program_id()}": doubled(x)},
    ]
    for kernel in kernels:
        refuses("return: the result is .* in program 0, .* in program 1", launch, kernel)
    found = launch(lambda x: {"y": (two(x), 7)})
    np.testing.assert_array_equal(found["y"][0][1], ROWS)


# core_barrier.


def swapped(x, barrier=lambda t: nisa.core_barrier(t, (0, 1))):
    """The halves of x in the other order, by scratch in shared HBM."""
    scratch, out = shared(x.shape), shared(x.shape)
    nisa.dma_copy(mine(scratch), nl.load(mine(x)))
    barrier(scratch)
    nisa.dma_copy(mine(out), nl.load(mine(scratch, other=True)))
    return out


HAZARD = "no nisa.core_barrier orders"


def test_a_program_reads_what_the_other_wrote_before_the_barrier():
    expected = np.roll(ROWS, 128, axis=0)
    # aws-neuron/nki-library passes lists, too.
    for cores in ((0, 1), [0, 1]):
        found = launch(swapped, lambda t, cores=cores: nisa.core_barrier(t, cores=cores))
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(RULE) as failure:
        launch(swapped, lambda t: None)
    text = str(failure.value)
    assert "shared_hbm tile 256x64" in text and HAZARD in text
    assert "instruction 1 of program 0 writes it by nisa.dma_copy" in text
    assert "instruction 2 of program 1 reads it by nisa.dma_copy" in text
    refuses(HAZARD, nki_sim.dry_run, nki.jit(swapped)[2], SPECS, lambda t: None)


def test_both_may_write_the_same_bytes():
    """Whichever is the last leaves them; who reads them has written them before."""

    def kernel(x, other, last):
        out, again = shared(x.shape), shared(x.shape)
        tiles = nl.load(x[0:128]), nl.load(x[128:256])
        for start, tile in zip((0, 128), tiles, strict=True):
            if not (other and start == 128 * nl.program_id()):
                nisa.dma_copy(out[start : start + 128], tile)
        if last:
            nisa.memset(tiles[0], float(nl.program_id()))
            nisa.dma_copy(out[0:128], tiles[0])
        nisa.dma_copy(mine(again), nl.load(mine(out)))
        return out, again

    for found in launch(kernel, False, False):
        np.testing.assert_array_equal(found, ROWS)
    refuses(HAZARD, launch, kernel, True, False)  # reads what the other writes
    refuses(HAZARD, launch, kernel, False, True)  # other bytes at last
    # A dry run has no bytes.
    refuses(HAZARD, nki_sim.dry_run, nki.jit(kernel)[2], SPECS, False, False)


def test_edges_order_what_does_not_touch_the_data():
    """depends_on: the barrier waits for the read of x, and the write of x for the barrier.

    That a DMA is issued after another one does not order what they do.
    """

    def kernel(x, before, after):
        b = shared(x.shape)
        read = nisa.dma_copy(new((128, 64)), mine(x, other=True))
        nisa.dma_copy(mine(b), nl.load(mine(x)))
        met = nisa.core_barrier(b, (0, 1))
        write = nisa.dma_copy(mine(x), nl.zeros((128, 64), "float32"))
        if before:
            met.depends_on(read)
        if after:
            write.depends_on(met)
        return b

    x = ROWS.copy()
    launch(kernel, x, True, True)
    assert not x.any()
    for edges in ((False, False), (True, False), (False, True)):
        refuses(HAZARD, launch, kernel, ROWS.copy(), *edges)


BOTH_WRITE = "0 writes it by .* program 1 writes it"

# Messages and the kernels that cause them, ``{broken | legal}``, or kernels that are right. Below a
# kernel stands what the legal one returns.
KERNELS = blocks("""
229376 bytes a partition
    # 224 KiB and 16 KiB a partition on trn2 [v3]: full in both programs, too much in one.
    nisa.memset(new((128, (224 + {1 | 0} * me()) << 8)), 0.0)
    nisa.memset(new((128, 512), buffer=nl.psum), 0.0)
  None
nl.shared_constant: .* same in both programs
    # nl.shared_constant: "the data must not diverge across cores".
    constant, out = nl.shared_constant(ROWS + {me() | 0}), shared(x.shape)
    nisa.dma_copy(mine(out), mine(constant))
    return out
  ROWS
return: .* nothing has written
    # Both programs together write an output.
    out = shared(x.shape)
    rows = mine(out)[0 : 128 - {me() | 0}]
    nisa.dma_copy(rows, mine(x)[0 : rows.shape[0]])
    return out
  ROWS
0 writes it by nl.full, .* program 1 writes it by nl.full
    # nl.full writes, in each program that calls it; the barrier makes one of them enough.
    value = float(me())
    out = {nl.full(x.shape, value, "float32", nl.shared_hbm) | shared(x.shape)}
    if {False | me() == 0}:
        nisa.dma_copy(out, x)
    nisa.core_barrier(out, (0, 1))
    nisa.dma_copy(mine(out)[0:1], nl.load(mine(x)[1:2]))
    return out
  ROWS[[1, *range(1, 128), 129, *range(129, 256)]]
0 of program 0 reads it
    # Program 0 reads x, then b, c and d carry a tile to and fro until program 1 writes x.
    engines = nisa.engine.gpsimd, nisa.engine.vector, nisa.engine.scalar
    tile = nl.load(x[0:128]) if me() == 0 else nl.zeros((128, 64), "float32")
    for n in range(3):
        link = shared((128, 64))
        if n % 2 == me():
            nisa.dma_copy(link, tile if n >= {1 | 0} else nl.zeros((128, 64), "float32"))
        nisa.core_barrier(link, (0, 1), engines[n])  # no order by the barriers' engine
        if n % 2 != me():
            tile = nl.load(link)
    if me() == 1:
        nisa.dma_copy(x[0:128], tile)
    return x
  ROWS
instruction 4 of program 0 writes it.*1 of program 1 reads it
    # Ping-pong: x is read before b is written, and written after b was read.
    b, tile = shared(x.shape), nl.load(mine(x))
    nisa.dma_copy(mine(b), nl.load(mine(x, other=True)))
    nisa.core_barrier(b, (0, 1))
    nisa.dma_copy(mine(x), {tile | nl.load(mine(b, other=True))})
    return x
  ROWS
a program's own half of b does not tell it that the other has read x, but what reads b waits
    b = shared(x.shape)
    nisa.dma_copy(mine(b), nl.load(mine(x, other=True)))
    nisa.core_barrier(b, (0, 1))
    nisa.dma_copy(mine(x), nl.load(mine(b)))
    return x
  np.roll(ROWS, 128, axis=0)
shared tensors belong together by name or order
    made = {name: shared((256, 64), name=name) for name in ("ab" if me() == 0 else "ba")}
    third = shared((256, 64))
    for factor, tensor in ((1.0, made["a"]), (2.0, made["b"]), (3.0, third)):
        tile = nl.load(mine(x))
        nisa.tensor_scalar(tile, tile, nl.multiply, factor)
        nisa.dma_copy(mine(tensor), tile)
    return made["a"], made["b"], third
  (ROWS, 2 * ROWS, 3 * ROWS)
code without loops may differ, as in the example of core_barrier
    out, tile = shared(x.shape), nl.load(x[0:128])
    fori(2)
    if me() == 0:
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nisa.dma_copy(out[0:128], tile)
        nisa.dma_copy(out[128:256], tile)
    fori(3)
    return out
  np.tile(ROWS[:128] + np.float32(1), (2, 1))
0 writes it by .* program 1 writes it
    # Addresses known at run time: rows 0 to 3 and 4 to 7; 0 to 4 and 4 to 8 share one.
    out = shared((9, 64))
    def body(i):
        nisa.dma_copy(out.ap([[64, 1], [1, 64]], scalar_offset=i), nl.load(x[0:1]))
    nl.fori_loop(4 * me(), 4 * me() + {5 | 4}, body)
    return out[0:8]
  np.tile(ROWS[0], (8, 1))
""")
me = nl.program_id


@pytest.mark.parametrize("message", KERNELS)
def test_kernels(message):
    *lines, expected = KERNELS[message].splitlines()
    code = textwrap.dedent("\n".join(lines))
    if CHOICE.search(code):
        refuses(message, launch, kernel_of(broken(code), globals(), "x"), ROWS.copy())
    found = launch(kernel_of(legal(code), globals(), "x"), ROWS.copy())
    np.testing.assert_equal(found, eval(expected))


def test_what_nothing_wrote_is_said_at_the_end():
    """Program 0 reads what program 1 would write later: a hazard. What nobody writes: unwritten."""

    def kernel(x, writes):
        out = shared(x.shape)
        if nl.program_id() == 0:
            nl.load(out[0:128])
        elif writes:
            nisa.dma_copy(out[0:128], x[0:128])

    refuses(HAZARD, launch, kernel, True)
    refuses("reads memory that nothing has written", launch, kernel, False)


def writes_by_patterns(x, *patterns):
    """Each program writes what its pattern selects, the second one from element 64 on."""
    me = nl.program_id()
    view = shared((128, 128)).ap(patterns[me], offset=64 * me)
    nisa.dma_copy(view, nl.ones((view.shape[0], view.size // view.shape[0]), "float32"))
    return read(x, view)


@pytest.mark.parametrize(
    ("patterns", "is_disjoint"),
    [
        (([[128, 128], [1, 64]], [[128, 128], [1, 64]]), True),  # columns: left and right half
        (([[128, 128], [1, 65]], [[128, 128], [1, 64]]), False),
        (([[3, 4]], [[2, 3]]), True),  # elements 0, 3, 6, 9 and 64, 66, 68
        (([[3, 30]], [[2, 3]]), False),  # ... 66 ...
        (([[3, 23]], [[2, 3]]), False),
        (([[3, 22], [1, 1]], [[6, 3], [1, 1]]), True),  # 0 .. 63 and 64, 70, 76
        (([[3, 40]], [[6, 3]]), True),  # 0, 3, .. 117 and 64, 70, 76: by their strides
        (([[3, 40]], [[4, 2]]), True),  # 0, 3, .. 117 and 64, 68: by their elements
        (([[3, 40]], [[5, 3]]), False),  # ... 69 ...
    ],
)
def test_hazards_are_known_to_the_element(patterns, is_disjoint):
    if is_disjoint:
        launch(writes_by_patterns, *patterns)
    else:
        refuses(BOTH_WRITE, launch, writes_by_patterns, *patterns)


def test_views_of_large_tensors_are_told_apart_by_their_strides(monkeypatch):
    """As elements 0, 3, .. 117 and 64, 68 above: where no one looks, they may meet."""
    monkeypatch.setattr(core_hazards, "_COMPARED_BYTES", 400)
    launch(writes_by_patterns, [[3, 22]], [[4, 2]])
    refuses(BOTH_WRITE, launch, writes_by_patterns, [[3, 40]], [[4, 2]])


def test_many_accesses_are_compared_at_once(monkeypatch):
    """Even and odd columns; with step 1 neighbours, which both programs write."""
    monkeypatch.setattr(core_hazards, "_MANY_PAIRS", 1)

    def kernel(x, step):
        out = shared((128, 64))
        tile = nl.load(mine(x)[:, 0:1])
        columns = [out[:, n : n + 1] for n in range(nl.program_id(), 60, step)]
        for column in columns:
            nisa.dma_copy(column, tile)
        return read(x, columns[0])

    refuses(BOTH_WRITE, launch, kernel, 1)
    monkeypatch.setattr(core_hazards, "_touching", None)  # not needed
    launch(kernel, 2)


def random_steps(seed):
    """For each program reads, writes and sums of rows, between meetings of both."""
    rng = random.Random(seed)
    steps = ([], [])
    for _ in range(rng.randint(1, 4)):
        for program in steps:
            for _ in range(rng.randint(0, 3)):
                first = rng.randint(0, 6)
                rows = slice(first, rng.randint(first + 1, 8))
                program.append((rng.choice("rw+"), rng.randrange(3), rows, rng.randrange(4)))
        meeting = (rng.choice(("barrier", "barrier", "sendrecv")), rng.randrange(3), None, 3)
        for program in steps:
            program.append(meeting)
    return steps


def random_kernel(seed, flip):
    """Three shared tensors, four tiles of each program; ``flip``: programs change places."""
    steps = random_steps(seed)

    def kernel(x):
        me, other = nl.program_id() ^ flip, 1 - nl.program_id()
        tensors = [shared((8, 4)) for _ in range(3)]
        held = [nl.full((8, 4), float(n + 10 * me), "float32") for n in range(4)]
        for t in tensors:
            if me == 0:
                nisa.dma_copy(t, x)
            nisa.core_barrier(t, (0, 1))
        for what, n, rows, to in steps[me]:
            if what == "barrier":
                nisa.core_barrier(tensors[n], (0, 1))
            elif what == "sendrecv":
                nisa.sendrecv(held[n], held[to], other, other, 0)
            elif what == "+":
                nisa.tensor_scalar(held[to], held[n], nl.add, 1.5)
            else:
                place, tile = tensors[n][rows], held[to][0 : rows.stop - rows.start]
                nisa.dma_copy(*((tile, place) if what == "r" else (place, tile)))
        out = shared((4, 8, 4))
        nisa.dma_copy(out[me], held[0])
        nisa.dma_copy(out[2 + me], held[3])
        return out, *tensors

    return kernel


def test_without_hazards_it_is_the_same_which_program_goes_first():
    x = sample((8, 4))
    results = []
    for seed in range(60):
        found = []
        for flip in range(2):
            try:
                found.append(launch(random_kernel(seed, flip), x))
            except RULE as error:
                assert HAZARD in str(error)
        assert len(found) in (0, 2)
        if found:
            for one, other in zip(*found, strict=True):
                np.testing.assert_array_equal(one, other)
        results.append(bool(found))
    assert 10 < sum(results) < 50


def test_scattered_rows_are_those_of_the_run():
    def kernel(x, index):
        out = shared((64, 64))
        rows = nl.load(index[nl.program_id()])
        nisa.dma_copy(out.vector_select(0, rows), nl.load(x[0:8]))
        return read(x, out.vector_select(0, rows))

    evens = 2 * np.arange(8, dtype=np.int32)
    odd, even = [np.stack([evens, evens + shift])[..., None] for shift in (1, 2)]
    launch(kernel, ROWS, odd)
    refuses(BOTH_WRITE, launch, kernel, ROWS, even)


SETTINGS = [
    (lambda x: nisa.core_barrier(x, (1, 0)), r"cores is \(1, 0\), but it must be \(0, 1\)"),
    (lambda x: nisa.core_barrier(x, (0,)), r"must be \(0, 1\), both cores"),
    (lambda x: nisa.core_barrier(x, 0), "cores is 0, but it must be a tuple of ints"),
    (lambda x: nisa.core_barrier(nl.load(x[0:4]), (0, 1)), "data is .*in shared HBM"),
    (
        lambda x: nisa.core_barrier(nl.ndarray((2, 2), "float32", buffer=nl.hbm), (0, 1)),
        "data is private_hbm tile 2x2 float32, but it must be in shared HBM",
    ),
    (
        lambda x: nisa.core_barrier(x.select(0, nisa.register_alloc(0)), (0, 1)),
        "must have an address known at compile time",
    ),
    (lambda x: nisa.core_barrier(x, (0, 1), nisa.engine.dma), "engine is dma"),
    (lambda x: nisa.core_barrier(x, (0, 1), 3), "member of nki.isa.engine"),
]


@pytest.mark.parametrize(("call", "message"), SETTINGS)
def test_arguments_of_core_barrier(call, message):
    refuses(f"nisa.core_barrier: .*{message}", launch, call)


@pytest.mark.parametrize("engine", ["gpsimd", "vector", "scalar", "tensor", "unknown"])
def test_engines_of_core_barrier(engine):
    chosen = nisa.engine[engine]
    timeline = recorded(lambda x: nisa.core_barrier(x, (0, 1), chosen) and None, ROWS)
    expected = "gpsimd" if engine == "unknown" else engine
    assert {event.engine for event in timeline.events} == {expected}
    # A semaphore is taken to cross in the 700 ns in which a DMA's does.
    assert timeline.total_ns == TRN2.core_barrier_ns == 700
    with pytest.raises(NotImplementedError, match="Sync engine"):
        launch(lambda x: nisa.core_barrier(x, (0, 1), nisa.engine.sync), ROWS)


@pytest.mark.parametrize("name", ["core_barrier", "sendrecv"])
def test_two_cores_are_needed_to_meet(name):
    def kernel(x):
        if name == "core_barrier":
            nisa.core_barrier(x, (0, 1))
        else:
            nisa.sendrecv(new((4, 4)), new((4, 4)), 1, 1, 0)

    refuses(
        rf"nisa.{name}: the number of programs is 1, .* set NEURON_LOGICAL_NC_CONFIG=2",
        nki.jit(kernel)[1],
        ROWS,
    )
    with hardware.select(hardware.chip("trn1")):
        refuses(
            f"{name}: the chip is trn1, but this needs NeuronCore-v3 or newer",
            nki.jit(kernel),
            ROWS,
        )


# sendrecv.


def exchanged(x, **settings):
    """The halves of x in the other order, from SBUF to SBUF."""
    out = shared(x.shape, x.dtype)
    other = 1 - nl.program_id()
    given = {"send_to_rank": other, "recv_from_rank": other, "pipe_id": 0, **settings}
    received = new(mine(x).shape, x.dtype)
    nisa.sendrecv(nl.load(mine(x)), received, **given)
    nisa.dma_copy(mine(out), received)
    return out


@pytest.mark.parametrize("way", ["dma", "gpsimd_dma"])
@pytest.mark.parametrize("chip", ["trn2", "trn3"])
def test_tiles_change_places(chip, way):
    kernel = nki.jit(lambda x: exchanged(x, dma_engine=nisa.dma_engine[way]))[2]
    with hardware.select(hardware.chip(chip)):
        with nki_sim.record() as timeline:
            found = nki_sim.simulate(kernel)(ROWS)
        np.testing.assert_array_equal(found, np.roll(ROWS, 128, axis=0))
        assert nki_sim.dry_run(kernel, SPECS).total_ns == timeline.total_ns


def test_a_tile_may_stay_where_it_is():
    """Ranks are 0 or 1: both programs may name their own."""

    def kernel(x):
        return exchanged(x, send_to_rank=nl.program_id(), recv_from_rank=nl.program_id())

    np.testing.assert_array_equal(launch(kernel), ROWS)


def tiles(shape=(8, 8), dtype="float32"):
    return [nl.zeros(shape, dtype) for _ in range(2)]


SENDRECV = [
    (lambda x: nisa.sendrecv(*tiles(), 2, 1, 0), "send_to_rank is 2, but it must be 0"),
    (lambda x: nisa.sendrecv(*tiles(), 1, -1, 0), "recv_from_rank is -1, but it must be"),
    (lambda x: nisa.sendrecv(*tiles(), 1, 1, 0.5), "pipe_id is 0.5, but it must be an int"),
    (lambda x: nisa.sendrecv(x, x, 1, 1, 0), "src is shared_hbm .*must be in SBUF"),
    (
        lambda x: nisa.sendrecv(tiles()[0], tiles(dtype="int32")[1], 1, 1, 0),
        "dtype is .*must have the same dtype",
    ),
    (
        lambda x: nisa.sendrecv(tiles()[0], tiles((4, 16))[1], 1, 1, 0),
        r"\(8, 8\) for src, \(4, 16\) for dst, .*must have the same shape",
    ),
    (
        lambda x: nisa.sendrecv(tiles()[0], tiles()[1].ap([[8, 8], [0, 8]]), 1, 1, 0),
        "dst is .*cannot be written",
    ),
    (lambda x: nisa.sendrecv(*tiles(), 1, 1, 0, 2), "member of nki.isa.dma_engine"),
]


@pytest.mark.parametrize(("call", "message"), SENDRECV)
def test_arguments_of_sendrecv(call, message):
    refuses(f"nisa.sendrecv: .*{message}", launch, call)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 1024), ("bfloat16", 512), ("uint8", 256)])
def test_gpsimd_moves_so_many_bytes_a_partition(dtype, size):
    """1024 bytes for 32-bit types, 512 for 16-bit, 256 for 8-bit."""

    def kernel(x, more, way):
        pair = tiles((8, size // {"float32": 4, "bfloat16": 2, "uint8": 1}[dtype] + more), dtype)
        nisa.sendrecv(*pair, 1 - nl.program_id(), 1 - nl.program_id(), 0, way)

    launch(lambda x: kernel(x, 0, nisa.dma_engine.gpsimd_dma), ROWS)
    launch(lambda x: kernel(x, 1, nisa.dma_engine.dma), ROWS)
    with pytest.raises(RULE, match=f"moves at most {size} bytes a partition"):
        launch(lambda x: kernel(x, 1, nisa.dma_engine.gpsimd_dma), ROWS)


# Programs that miss each other.


def barrier(x):
    nisa.core_barrier(x, (0, 1))


def send(pipe=0, to=None, shape=(8, 8), **settings):
    other = 1 - nl.program_id()
    pair = tiles(shape, settings.pop("dtype", "float32"))
    nisa.sendrecv(*pair, other if to is None else to, other, pipe, **settings)


MISSES = {
    "none": (lambda x: barrier(x), lambda x: None, "program 1 has ended without this"),
    "first has none": (lambda x: None, lambda x: barrier(x), "program 0 has ended without this"),
    "instructions": (lambda x: barrier(x), lambda x: send(), "wait at the same instruction"),
    "data": (
        lambda x: [barrier(shared((2, 2))), shared((2, 2))],
        lambda x: [shared((2, 2)), barrier(shared((2, 2)))],
        "data is the same tensor",
    ),
    "pipes": (lambda x: send(0), lambda x: send(1), "pipe_id 0 in program 0, pipe_id 1 in prog"),
    "ranks": (lambda x: send(to=0), lambda x: send(), "receives from the program that sends"),
    "shapes": (lambda x: send(), lambda x: send(shape=(8, 4)), "the same dtype and shape"),
    "dtypes": (lambda x: send(), lambda x: send(dtype="int32"), "the same dtype and shape"),
    "ways": (
        lambda x: send(),
        lambda x: send(dma_engine=nisa.dma_engine.gpsimd_dma),
        "the same dma_engine",
    ),
    "a second one": (lambda x: [barrier(x), barrier(x)], lambda x: barrier(x), "waits forever"),
}


@pytest.mark.parametrize("case", MISSES)
@pytest.mark.parametrize("dry", [False, True])
def test_programs_that_miss_each_other(case, dry):
    first, second, message = MISSES[case]
    kernel = nki.jit(lambda x: ((second if nl.program_id() else first)(x), x)[1])[2]
    with pytest.raises(RULE, match=message):
        nki_sim.dry_run(kernel, SPECS) if dry else kernel(ROWS)
    for same in (first, second):
        nki.jit(lambda x, same=same: (same(x) if case != "ranks" else send(), x)[1])[2](ROWS)


# One control flow.


def fori(trips):
    nl.fori_loop(0, trips, lambda i: nisa.memset(new((4, 4)), 0.0) and None)


def while_loop(trips):
    counter = nl.full((1, 1), trips, "int32")
    register = nisa.register_alloc(trips)

    def body(register):
        nisa.tensor_scalar(counter, counter, nl.subtract, 1)
        result = nisa.register_alloc(0)
        nisa.register_load(result, counter)
        return result

    nl.while_loop(register, body)


def bare_while(trips):
    counter = nl.full((1, 1), trips, "int32")
    register = nisa.register_alloc(trips)
    while register:
        nisa.tensor_scalar(counter, counter, nl.subtract, 1)
        nisa.register_load(register, counter)


def dynamic(trips):
    for _ in nl.dynamic_range(trips):
        nisa.memset(new((4, 4)), 0.0)


@pytest.mark.filterwarnings("ignore:nl.dynamic_range:DeprecationWarning")
@pytest.mark.parametrize("loop", [fori, while_loop, bare_while, dynamic])
@pytest.mark.usefixtures("parsed")
def test_both_programs_loop_as_often(loop):
    launch(lambda x: loop(3))
    says = "loop.* is .* in program 0, .* in program 1, but .*NCC_IXGM0"
    refuses(says, launch, lambda x: loop(3 - nl.program_id()))


def test_both_programs_have_the_same_loops():
    def nested(x):
        nl.fori_loop(0, 1, lambda i: fori(1))

    def flat(x):
        fori(1)
        fori(1)

    cases = [
        (nested, flat),
        (lambda x: fori(2), lambda x: while_loop(2)),
        (flat, lambda x: fori(1)),
    ]
    for first, second in cases:
        launch(first)
        launch(second)
        with pytest.raises(RULE, match="NCC_IXGM002"):
            launch(lambda x, pair=(first, second): pair[nl.program_id()](x), ROWS)


def test_loops_that_differ_are_named_before_the_deadlock_they_make():
    def kernel(x):
        nl.fori_loop(0, 2 + nl.program_id(), lambda i: barrier(x))

    refuses("2 iterations in program 0, nl.fori_loop of 3", launch, kernel)

    def other(x):
        fori(2 + nl.program_id())
        (barrier, lambda x: send())[nl.program_id()](x)

    refuses("2 iterations in program 0, nl.fori_loop of 3", launch, other)


# Rules of the whole launch.


@pytest.mark.lenient
def test_warnings_are_given_once():
    def kernel(x):
        tile = new((128, 64))
        nisa.tensor_scalar(tile, tile, nl.multiply, 0.0)
        return doubled(x)

    with pytest.warns(nki_sim.NkiSimulationWarning) as found:
        launch(kernel)
    assert ["nothing has written" in str(w.message) for w in found] == [True]


def test_waived_rules_of_both_programs_are_in_the_timeline():
    def kernel(x):
        stationary = nl.zeros((128, 8, 8), nl.float32)
        product = new((32, 64), buffer=nl.psum)
        nisa.nc_matmul(product, stationary[:, 0:8, 0:4], nl.zeros((128, 64), nl.float32))

    refuses("stationary-dimensions", launch, kernel)
    with nki_sim.allow("stationary-dimensions"):
        first = recorded(kernel)
        second = recorded(lambda x: kernel(x) if nl.program_id() else None, ROWS)
    assert first.waived_rules == second.waived_rules == {"stationary-dimensions"}


def test_each_program_has_its_own_instructions(monkeypatch):
    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", 3)
    assert recorded(doubled).instructions == 6
    refuses("instructions is 6, .*instruction-count", launch, doubled, sample((512, 64)))


@pytest.mark.parametrize(("first", "second"), ["ab", "ba"])
def test_edges_by_name_hold_in_both_programs(first, second):
    def kernel(x):
        nisa.memset(new((128, 512)), 0.0, engine=nisa.engine.vector, name="a")
        # Behind the first on its engine: then the edge changes the order of the two.
        engine = nisa.engine.gpsimd if first == "a" else nisa.engine.vector
        nisa.memset(new((128, 512)), 0.0, engine=engine, name="b")

    with nki_sim.record() as timeline:
        nki.jit(kernel)[2].with_schedule([(second, first)])(ROWS)
    starts = {(event.core, event.name): event.start_ns for event in timeline.events}
    assert starts[0, first] == starts[1, first] == 0
    assert starts[0, second] == starts[1, second] > (512 + 64) / 0.96


# The timeline.


TIMELINES = blocks("""
a barrier (700 ns) waits for the later core; VectorE: 48 + N cycles at 0.96 GHz, seen 160 later
    t = new((128, 960))
    for _ in range(1 + 3 * me()):
        nisa.memset(t, 0.0, engine=nisa.engine.vector)
    nisa.core_barrier(x, (0, 1), nisa.engine.vector)
    nisa.memset(t, 1.0, engine=nisa.engine.vector)
    nisa.memset(new((128, 960)), 0.0, engine=nisa.engine.gpsimd)
  span(events, 0, 1) == span(events, 1, 4) == (4 * STEP, 4 * STEP + 700)
  span(events, 0, 2) == span(events, 1, 5) == (4 * STEP + 700, 5 * STEP + 700)
  span(events, 0, 3)[0] == span(events, 1, 6)[0] == 0
  total_ns == 5 * STEP + 700 + 160 / 0.96
  [(e.core, e.name) for e in critical_path][:4] == [(1, "memset")] * 4
  [e.name for e in critical_path][4:] == ["core_barrier", "memset"]
  vector == 5 * STEP + 700
sendrecv is a DMA after a barrier: 2 KiB an engine at 23 B/ns; 8 runs of 25 ns between partitions
    return exchanged(x)
  span(events, 0, 1) == span(events, 1, 1) == (LOAD + 350 + 700, LOAD + SEND + 1050)
  span(events, 0, 2)[0] == span(events, 1, 2)[0] == LOAD + SEND + 1050 + 350
  instructions == 6
  launches == 1
  dma_bytes == 6 * 128 * 256
  hbm_bytes == 4 * 128 * 256
GpSimdE sends by itself: 153 B/ns [v3]; 150 cycles at 1.2 GHz and a semaphore before
    nisa.sendrecv(*tiles((128, 256)), 1 - me(), 1 - me(), 0, nisa.dma_engine.gpsimd_dma)
  {e.engine for e in events if "sendrecv" in e.name} == {"gpsimd"}
  events[-1].end_ns - events[-1].start_ns == 700 + 150 / 1.2 + 128 * 1024 / 153
""")
STEP = 1008 / 0.96
LOAD, SEND = 745 + 700 + 8 * 256 / 23 + 6, 745 + 700 + 8 * 25


def span(events, core, number):
    (event,) = [event for event in events if (event.core, event.number) == (core, number)]
    return event.start_ns, event.end_ns


@pytest.mark.parametrize("heading", TIMELINES)
def test_timelines(heading):
    check_timeline(f"{heading} [trn2] [x of 256x64] [2 programs]", TIMELINES[heading], globals())


@pytest.mark.parametrize("kernel", [swapped, exchanged, lambda x: (doubled(x), fori(3))[0]])
def test_a_dry_run_gives_the_timeline_of_a_run(kernel):
    real, dry = recorded(kernel), nki_sim.dry_run(nki.jit(kernel)[2], SPECS)
    assert dry.events == real.events and dry.critical_path == real.critical_path
    for name in ("total_ns", "engine_busy_ns", "dma_bytes", "hbm_bytes", "instructions"):
        assert getattr(dry, name) == getattr(real, name)
    for name in ("hbm_scratch_bytes", "sbuf_peak_bytes", "psum_peak_banks", "dma_descriptors"):
        assert getattr(dry, name) == getattr(real, name)


def test_pipes_do_not_wait_for_each_other():
    """ "Operations with different pipe_id values can progress independently"."""

    def kernel(x, pipe):
        fast, slow = tiles((128, 8)), new((128, 8))
        for _ in range(50):
            nisa.memset(slow, 0.0, engine=nisa.engine.vector)
        other = 1 - nl.program_id()
        nisa.sendrecv(slow, new((128, 8)), other, other, 0)
        nisa.sendrecv(*fast, other, other, pipe)

    same, other = [recorded(lambda x, p=p: kernel(x, p), ROWS).events for p in (0, 1)]
    sent = [[e.start_ns for e in events if e.name == "sendrecv"] for events in (same, other)]
    assert sent[0][1] >= sent[0][0] and sent[1][1] < sent[1][0]


def test_both_wait_for_the_later_transfer():
    """ "All operations in the group must complete before any can proceed"."""

    def kernel(x):
        if nl.program_id():
            nisa.dma_copy(new((128, 8192)), x)
        pair = tiles((128, 64))
        other = 1 - nl.program_id()
        nisa.sendrecv(*pair, other, other, 0)
        nisa.tensor_copy(new((128, 64)), pair[1], engine=nisa.engine.vector)

    events = recorded(kernel, sample((128, 8192))).events
    ends = {e.core: e.end_ns for e in events if e.name == "sendrecv"}
    copies = {e.core: e.start_ns for e in events if e.name == "tensor_copy"}
    assert ends[1] > ends[0] + 10_000
    assert copies[0] == copies[1] == pytest.approx(ends[1] + 350)


def test_two_cores_share_the_bandwidth_of_hbm():
    """From HBM to HBM every byte is read and written: twice 368 B/ns a core, 566 a stack."""

    def kernel(x, copies):
        targets = [shared((1024, 1024)) for _ in range(8)]
        for n, target in enumerate(targets):
            if n % 2 == nl.program_id() or copies == 2:
                half = target if copies == 1 else mine(target)
                nisa.dma_copy(half, x if copies == 1 else mine(x))
        return targets if copies == 2 else targets[::2]

    spec = ((1024, 1024), "float32")
    split = nki_sim.dry_run(nki.jit(lambda x: kernel(x, 2))[2], spec)
    moved = split.hbm_bytes
    assert moved == 16 * 2 * 2 << 20
    # Bandwidth is counted by the microsecond.
    assert split.total_ns - 2000 == pytest.approx(moved / 566, abs=1000)
    assert split.engine_busy_ns["dma"] == pytest.approx(moved / 566, abs=1000)
    alone = nki_sim.dry_run(nki.jit(lambda x: kernel(x, 1))[1], spec)
    assert alone.total_ns - 2000 == pytest.approx(alone.hbm_bytes / 736, rel=0.02)


def test_what_waits_for_hbm_holds_its_dma_engines():
    def kernel(x):
        out = shared((1024, 1024))
        nisa.dma_copy(mine(out), mine(x))
        nisa.dma_copy(new((128, 64)), nl.zeros((128, 64), "float32"))
        return out

    timeline = nki_sim.dry_run(nki.jit(kernel)[2], ((1024, 1024), "float32"))
    slow, fast = [e.end_ns for e in timeline.events if e.name == "dma_copy" and e.core == 1]
    assert slow == pytest.approx(1450 + 8 * (1 << 20) / 566, abs=1000)  # with what core 0 takes
    assert fast > slow


def test_cores_that_share_nothing_run_as_one_alone():
    def kernel(x):
        tile = new((128, 4096))
        for _ in range(6):
            nisa.dma_copy(tile[0:64], x)
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
            large = new((128, 20 << 10))  # two fit at a time
            for _ in range(2):
                nisa.memset(large, 0.0, engine=nisa.engine.gpsimd)
            product = new((128, 512), buffer=nl.psum)
            nisa.nc_matmul(product, tile[:, 0:128], tile[:, 0:512])
            nisa.tensor_copy(tile[:, 0:512], product, engine=nisa.engine.scalar)

    with hardware.select(replace(hardware.TRN2, hbm_stack_bytes_per_ns=1e6)):
        one, two = [
            nki_sim.dry_run(nki.jit(kernel)[n], ((64, 4096), "float32")).events for n in (1, 2)
        ]
    for core in range(2):
        found = [(e.start_ns, e.end_ns) for e in two if e.core == core]
        assert found == [(e.start_ns, e.end_ns) for e in one]


def test_a_stack_gives_what_it_has_left():
    hbm = SharedHbm(100.0)
    assert hbm.take(500.0, 2500.0, 100_000) == 2500.0  # 50 B/ns
    assert hbm.take(500.0, 2500.0, 100_000) == 2500.0  # the other half
    # The microsecond from 0 has 50,000 bytes left, that from 1000 none, that from 2000 50,000.
    assert hbm.take(0.0, 1500.0, 75_000) == pytest.approx(2500.0)
    assert hbm.take(7000.0, 7500.0, 50_000) == 7500.0


def test_launches_of_one_and_two_cores_follow_each_other():
    with nki_sim.record() as timeline:
        nki.jit(doubled)(ROWS)
        first = timeline.total_ns
        nki.jit(doubled)[2](ROWS)
    assert timeline.launches == 2 and timeline.instructions == 12
    assert timeline.where == "trn2, LNC=1; trn2, LNC=2"
    assert min(e.start_ns for e in timeline.events[6:]) == first
    assert [e.core for e in timeline.events] == [0] * 9 + [1] * 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.usefixtures("parsed")
def test_deprecated_loops_differ_by_depth_and_where_they_do_not_run():
    def run(trips, inside):
        for _ in nl.dynamic_range(trips):
            for _ in range(inside):
                run(trips, inside - 1)

    def nested(x):  # two loops of one trip each
        if nl.program_id():
            run(1, 0)
            run(1, 0)
        else:
            run(1, 1)

    def unused(x):
        if nl.program_id():
            nl.dynamic_range(2)
        else:
            run(2, 0)

    for kernel in (nested, unused):
        refuses("NCC_IXGM002", recorded, kernel, ROWS)
