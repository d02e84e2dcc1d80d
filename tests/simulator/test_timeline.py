"""Timelines of small kernels, compared with times computed by hand from the documented costs.

The chip is trn1 unless a test says otherwise: VectorE runs at 1.12 GHz, ScalarE and GpSimdE at 1.4
GHz, and TensorE processes 2.45 columns a nanosecond. A streaming instruction is busy for N cycles
(at least 64) and 48 more, 150 more on GpSimdE; with two tensor inputs in SBUF it needs 2N cycles.
Other engines see its result 160 cycles later. An fp32 matmul of N columns needs 4N cycles, its
stationary load M cycles, and its result is visible 60 cycles of 2.8 GHz later. Software DGE
occupies GpSimdE for 1000 ns for each DMA (750 on trn2). The DMA starts 700 ns later, pays 21 ns for
each run in HBM and moves 17 bytes/ns on each of 16 engines, 263 in all. Its data is visible 350 ns
after the last byte.
"""

import gc
from dataclasses import replace

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware

from .conftest import blocks, check_timeline, recorded

FLOAT, VECTOR, GPSIMD = nl.float32, nisa.engine.vector, nisa.engine.gpsimd


def tile(shape=(128, 512), buffer=nl.sbuf, dtype=FLOAT):
    return nl.ndarray(shape, dtype=dtype, buffer=buffer)


def filled(shape=(128, 512), dtype=FLOAT, buffer=nl.sbuf):
    t = tile(shape, buffer, dtype)
    nisa.memset(t, 0.0, engine=nisa.engine.vector)
    return t


def loading(columns, rows=128, part=slice(None)):
    """A kernel that loads some columns of a tensor."""
    return lambda x: nisa.dma_copy(tile((rows, columns)), x[:, part]) and None


def run(body, *arguments, chip="trn1"):
    """On a chip, or on one of that name."""
    with hardware.select(hardware.chip(chip) if isinstance(chip, str) else chip):
        return recorded(body, *arguments)


def near(nanoseconds):
    return pytest.approx(nanoseconds, rel=1e-12)


MEMSET = (512 + 48) / 1.12
SEEN = 160 / 1.12
RATE = 2.45  # columns a nanosecond on the Tensor engine
DMA = 64 + 700 + 350  # of a copy with descriptors of the host, beside the bytes


def shown(end, matmul=60 / 2.8):
    """When the result of a matmul that ends at ``end`` cycles is visible."""
    return end / RATE + matmul


KERNELS = blocks("""
two dependent instructions
    nisa.tensor_copy(tile(), filled(), engine=VECTOR)
  vector == 2 * MEMSET
  total_ns == 2 * (MEMSET + SEEN)
  instructions == 2
  critical_path == events
two inputs double the streaming part
    a = filled()
    nisa.tensor_tensor(tile(), a, a, op=nl.add)
  vector == MEMSET + (2 * 512 + 48) / 1.12
inputs in both memories are read at once
    nisa.tensor_tensor(tile(), filled(), filled(buffer=nl.psum), op=nl.add)
  vector == 3 * MEMSET
inputs in both memories are read at once [trn2]
    nisa.tensor_tensor(tile(), filled(), filled(buffer=nl.psum), op=nl.add)
  vector == 3 * (512 + 48) / 0.96
an innermost stride of 16 bytes has the full rate
    nisa.tensor_copy(tile((128, 128)), filled()[:, ::4], engine=VECTOR)
  vector == MEMSET + (128 + 48) / 1.12
an innermost stride above 16 bytes halves the rate
    nisa.tensor_copy(tile((128, 64)), filled()[:, ::8], engine=VECTOR)
  vector == MEMSET + (2 * 64 + 48) / 1.12
a reciprocal takes a cycle an element
    nisa.reciprocal(tile(), filled())
  vector == 2 * MEMSET
a matmul of fp32 and its stationary load
    a = filled()
    nisa.nc_matmul(tile(buffer=nl.psum), a[:, 0:128], a)
  tensor == 4 * 512 / RATE
  total_ns == MEMSET + SEEN + shown(128 + 4 * 512)
  psum_peak_banks == 1
a matmul of bf16 of few columns takes 64 cycles
    a = filled(dtype=nl.bfloat16)
    nisa.nc_matmul(tile((128, 32), nl.psum), a[:, 0:128], a[:, 0:32])
  tensor == 64 / RATE
  total_ns == MEMSET + SEEN + shown(128 / 4 + 64)
zeros and ones halve a matmul of fp32
    a = filled((128, 128))
    nisa.nc_matmul(tile((128, 128), nl.psum), a, a, is_moving_onezero=True)
  tensor == 2 * 128 / RATE
row tiles of the array run side by side, as soon as the second stationary (128 cycles) is loaded
    a = filled()
    for row in (0, 64):
        rows, place = a[row : row + 64], {"tile_position": (row, 0), "tile_size": (64, 128)}
        nisa.nc_matmul(tile(buffer=nl.psum), rows[:, 0:128], rows, **place)
  total_ns == MEMSET + SEEN + shown(128 + 128 + 2048)
rows of the whole array run one after the other
    a = filled()
    for row in (0, 64):
        rows = a[row : row + 64]
        nisa.nc_matmul(tile(buffer=nl.psum), rows[:, 0:128], rows)
  total_ns == MEMSET + SEEN + shown(128 + 2 * 2048)
a DMA of 128 partitions uses all engines: eight rows in HBM are a run [x of 128x512]
    nisa.dma_copy(tile(), x)
  total_ns == DMA + 128 * 2048 / 263
  dma == 128 * 2048 / 263
  gpsimd == 0
  dma_descriptors == 16
  dma_bytes == hbm_bytes == 128 * 2048
runs of few bytes take 25 ns [x of 128x601]
    nisa.dma_copy(tile((128, 300)), x[:, 0:600:2])
  total_ns == DMA + 8 * 300 * 25
every break in memory is a descriptor: single numbers in HBM, and rows [x of 128x601]
    nisa.dma_copy(tile((128, 300)), x[:, 0:600:2])
    nisa.dma_copy(tile((128, 600))[:, 0:300], x[:, 0:300])
  dma_descriptors == 128 * 300 + 128
from HBM to HBM both sides count [x of 128x512]
    nisa.dma_copy(tile(buffer=nl.private_hbm), x)
  hbm_bytes == 2 * dma_bytes == 2 * 128 * 2048
  total_ns == DMA + 128 * 2048 / 263
descriptors by software and instructions of GpSimdE take turns [x of 128x16]
    nisa.iota(tile(dtype=nl.int32), [[1, 512]])
    nisa.dma_copy(tile((128, 16)), x, dge_mode=nisa.dge_mode.swdge)
  gpsimd == 662 / 1.4 + 1000
  total_ns == 662 / 1.4 + 1000 + 1050 + 21 + 512 / 17
VectorE and GpSimdE take turns on SBUF on v2
    nisa.memset(tile(), 0.0, engine=VECTOR)
    nisa.memset(tile(), 0.0, engine=GPSIMD)
  total_ns == 560 / 1.12 + 662 / 1.4 + 160 / 1.4
VectorE and GpSimdE run beside each other [trn2]
    nisa.memset(tile(), 0.0, engine=VECTOR)
    nisa.memset(tile(), 0.0, engine=GPSIMD)
  total_ns == max(662 / 1.2 + 160 / 1.2, 560 / 0.96 + 160 / 0.96)
VectorE and ScalarE take turns on PSUM on v2
    zeros = filled()
    nisa.tensor_copy(tile(buffer=nl.psum), zeros, engine=VECTOR)
    nisa.activation(tile(buffer=nl.psum), nl.copy, zeros)
  total_ns == MEMSET + SEEN + 560 / 1.12 + 560 / 1.4 + 160 / 1.4
VectorE and ScalarE run beside each other [trn2]
    zeros = filled()
    nisa.tensor_copy(tile(buffer=nl.psum), zeros, engine=VECTOR)
    nisa.activation(tile(buffer=nl.psum), nl.copy, zeros)
  total_ns == 720 / 0.96 + max(720 / 0.96, 720 / 1.2)
the peak of SBUF counts what is live at once [x of 128x512]
    for _ in range(4):
        t = tile()
        nisa.dma_copy(t, x)
        nisa.tensor_copy(tile(), t)
  sbuf_peak_bytes == 2 * 2048
instructions without dependencies wait for their engine only
    nisa.memset(tile(), 0.0, engine=VECTOR)
    nisa.memset(tile((1, 512)), 0.0, engine=VECTOR)
    nisa.register_store(tile((1, 1), dtype=nl.int32), nisa.register_alloc(1))
  total_ns == 2 * MEMSET + SEEN
a block without reordering adds waits
    with nl.no_reorder():
        nisa.memset(tile(), 0.0, engine=VECTOR)
        nisa.memset(tile((1, 512)), 0.0, engine=VECTOR)
        nisa.register_store(tile((1, 1), dtype=nl.int32), nisa.register_alloc(1))
  total_ns > 2 * MEMSET + SEEN
an edge adds a wait
    first = nisa.memset(tile(), 0.0, engine=VECTOR)
    nisa.register_store(tile((1, 1), dtype=nl.int32), nisa.register_alloc(1))
    nisa.iota(tile(dtype=nl.int32), [[1, 512]]).depends_on(first)
  total_ns == MEMSET + SEEN + (512 + 150 + 160) / 1.4
a write waits for the reader of a tile whose other part was written before [x of 128x256]
    held, result = tile(), tile()
    nisa.memset(held, 1.0)
    nisa.tensor_tensor(result, held, held, nl.add, engine=GPSIMD)
    nisa.memset(held[:, :64], 0.0, engine=VECTOR)
    nisa.dma_copy(held[:, 256:], x)
  events[3].start_ns >= events[1].end_ns
a writer waits for the slower of two array tiles side by side, the second one shorter
    a, bank, other = filled(), tile(buffer=nl.psum), tile((128, 64), nl.psum)
    size = {"tile_size": (64, 128)}
    nisa.nc_matmul(bank, a[0:64, 0:128], a[0:64], tile_position=(0, 0), **size)
    nisa.nc_matmul(other, a[64:, 0:128], a[64:, 0:64], tile_position=(64, 0), **size)
    nisa.memset(a, 1.0, engine=VECTOR)
  events[2].end_ns < events[1].end_ns
  events[3].start_ns == events[1].end_ns
a writer waits for the slower of a product and a transpose beside it [trn3]
    a, bank, other = filled(), tile(buffer=nl.psum), tile((128, 128), nl.psum)
    nisa.nc_matmul(bank, a[:, 0:128], a)
    nisa.nc_transpose(other, a[:, 0:128], engine=nisa.engine.tensor)
    nisa.memset(a, 1.0, engine=VECTOR)
  events[2].end_ns < events[1].end_ns
  events[3].start_ns == events[1].end_ns
transfers of one queue fill a tile without waiting, and its first reader waits for all of them
    whole = tile((128, 3 * 512))
    for part in range(3):
        nisa.dma_copy(whole[:, 512 * part : 512 * part + 512], nl.shared_constant(ONES))
    nisa.activation(tile(), nl.copy, whole[:, 0:512])
  events[-1].start_ns == DMA + 3 * 128 * 2048 / 263
a matmul waits for the eighth bank before it, and loads its weights (32 cycles) then
    a, out = filled(dtype=nl.bfloat16), tile()
    for _ in range(20):
        bank = tile(buffer=nl.psum)
        nisa.nc_matmul(bank, a[:, 0:128], a)
        nisa.activation(out, nl.copy, bank)
  matmuls(events)[7].start_ns - matmuls(events)[6].start_ns == 512 / RATE
  matmuls(events)[19].start_ns == events[2 * 11 + 2].end_ns + 128 / 4 / RATE
  psum_peak_banks == 1
rows a power of two apart cost nothing [x of 128x512]
    nisa.dma_copy(tile((128, 256)), x[:, 0:256])
  total_ns == DMA + 8 * (21 + 1024 / 17)
rows that are padded cost the same [x of 128x513]
    nisa.dma_copy(tile((128, 256)), x[:, 0:256])
  total_ns == DMA + 8 * (21 + 1024 / 17)
rows a power of two apart cost nothing either [trn2] [x of 128x512]
    nisa.dma_copy(tile((128, 256)), x[:, 0:256])
  total_ns == 745 + 700 + 350 + 8 * (6 + 1024 / 23)
array tiles that write one bank follow each other
    a, bank = filled((128, 256)), tile(buffer=nl.psum)
    for row in (0, 64):
        rows, place = a[row : row + 64], {"tile_position": (row, 0), "tile_size": (64, 128)}
        nisa.nc_matmul(bank[:, 4 * row : 4 * row + 256], rows[:, 0:128], rows, **place)
  events[2].start_ns == events[1].end_ns
  tensor == events[2].end_ns - events[1].start_ns
array tiles that write two banks run side by side, which is one time
    a, bank = filled((128, 256)), tile((128, 1024), nl.psum)
    for row in (0, 64):
        rows, place = a[row : row + 64], {"tile_position": (row, 0), "tile_size": (64, 128)}
        nisa.nc_matmul(bank[:, 8 * row : 8 * row + 256], rows[:, 0:128], rows, **place)
  events[2].start_ns == events[1].start_ns + 128 / RATE
  tensor == events[2].end_ns - events[1].start_ns
""")
ONES = np.ones((128, 512), np.float32)


def matmuls(events):
    return [event for event in events if event.engine == "tensor"]


@pytest.mark.parametrize("heading", KERNELS)
def test_kernels(heading):
    with nki_sim.allow("psum-bank-groups"):
        check_timeline(heading, KERNELS[heading], globals())


@pytest.mark.parametrize("columns", [1, 8, 16, 17, 64])
def test_tiny_instructions_hide_their_start_up_behind_the_one_before(columns):
    def kernel(count):
        for _ in range(count):
            nisa.memset(tile((128, columns)), 0.0, engine=nisa.engine.vector)

    one, two = run(kernel, 1), run(kernel, 2)
    assert one.engine_busy_ns["vector"] == near(max(64, columns + 48) / 1.12)
    assert one.total_ns == near((64 + 48) / 1.12 + SEEN)  # whoever needs the result waits as long
    assert two.total_ns - one.total_ns == near(one.engine_busy_ns["vector"])


def test_scalar_engine_loads_each_function_once():
    def kernel(*functions):
        operand = filled((128, 512))
        for function in functions:
            nisa.activation(tile((128, 512)), function, operand)

    plain = run(kernel, nl.copy, nl.copy, nl.copy).total_ns
    assert run(kernel, nl.exp, nl.exp, nl.exp).total_ns == near(plain + 1300)
    assert run(kernel, nl.exp, nl.tanh, nl.exp).engine_busy_ns["scalar"] == near(3 * 560 / 1.4)
    assert run(kernel, nl.exp, nl.tanh, nl.exp).total_ns == near(plain + 2600)


@pytest.mark.parametrize(("rows", "engines"), [(4, 1), (5, 2), (32, 8), (64, 16), (128, 16)])
def test_an_engine_takes_four_rows_or_more(rows, engines):
    timeline = run(loading(8192, rows), np.zeros((rows, 8192), np.float32))
    own = 21 + -(-rows // engines) * 32768 / 17
    assert timeline.total_ns == near(DMA + max(own, rows * 32768 / 263))
    assert timeline.dma_descriptors == engines


@pytest.mark.parametrize(
    ("mode", "engine", "trigger"),
    [("swdge", None, 745), ("hwdge", None, 600), ("hwdge", "sync", 600), ("none", None, 64)],
)
def test_who_writes_descriptors_is_what_a_queue_waits_for(mode, engine, trigger):
    named = {} if engine is None else {"engine": nisa.engine[engine]}

    def kernel(x):
        for _ in range(4):
            nisa.dma_copy(tile((128, 16)), x, dge_mode=nisa.dge_mode[mode], **named)

    timeline = run(kernel, np.zeros((128, 16), np.float32), chip="trn2")
    interval = max(trigger, 230)  # a DMA engine prepares one copy after the other
    assert timeline.total_ns == near(trigger + 3 * interval + 1050 + 6 + 512 / 23)
    assert timeline.engine_busy_ns["gpsimd"] == (near(4 * 745) if mode == "swdge" else 0)


@pytest.mark.parametrize(("chip", "interval"), [("trn1", 340), ("trn2", 480)])
def test_an_engine_prepares_one_copy_after_the_other(chip, interval):
    def kernel(x, starts):
        whole = tile((128, 1))
        for start in starts:
            nisa.dma_copy(whole[start : start + 1], x)

    def total(*starts):
        return run(kernel, np.zeros((1, 1), np.float32), starts, chip=chip).total_ns

    # Copies of a number use one engine: the interval is that of copies on some engines only.
    assert total(0, 1, 2) - total(0) == near(2 * interval)
    assert total(0, 32, 64) - total(0) == near(2 * 64)  # engines of their own: the queue's trigger


def test_a_register_s_address_needs_descriptors_of_gpsimd_on_trn1_too():
    def kernel(x, is_dynamic):
        row = nisa.register_alloc(1)
        source = x.select(0, row) if is_dynamic else x[1]
        nisa.dma_copy(tile((128, 16)), source)

    x = np.zeros((4, 128, 16), np.float32)
    dynamic, static = run(kernel, x, True), run(kernel, x, False)
    assert dynamic.engine_busy_ns["gpsimd"] - static.engine_busy_ns["gpsimd"] >= 1000
    assert static.engine_busy_ns["gpsimd"] < 1000


@pytest.mark.parametrize("engine", [None, "sync"])
def test_a_store_that_waits_holds_back_what_its_queue_has_behind_it(engine):
    named = {} if engine is None else {"engine": nisa.engine[engine]}
    hardware_dge = {"dge_mode": nisa.dge_mode.hwdge, **named}

    def kernel(x):
        out = tile((128, 512), nl.shared_hbm)
        result = filled((128, 512))
        for _ in range(8):
            nisa.tensor_tensor(result, result, result, op=nl.add)
        nisa.dma_copy(out, result, **hardware_dge)
        nisa.dma_copy(tile((128, 512)), x, **hardware_dge)
        return out

    timeline = run(kernel, np.zeros((128, 512), np.float32), chip="trn2")
    load, store = [
        next(e.start_ns for e in timeline.events if e.number == number) for number in (10, 9)
    ]
    assert load == 0 < store  # the compiler may put the load in front of the store
    # As written, a load on the queue of the store waits for the store's trigger.
    assert (timeline.written_ns > timeline.total_ns + 600) is (engine == "sync")


@pytest.mark.parametrize(("chip", "background"), [("trn2", False), ("trn3", True)])
def test_transposes_run_beside_products_on_v4_only(chip, background):
    def kernel(count):
        a = filled((128, 128))
        for _ in range(count):
            nisa.nc_transpose(tile((128, 128), nl.psum), a, engine=nisa.engine.tensor)

    passes = [run(kernel, count, chip=chip).total_ns for count in (2, 6)]
    one = 2 * 128 / 2.4  # float32 in transpose mode: two cycles a column
    loads = 4 * 128 / 4 / 2.4  # of the stationary operand: one after the other
    assert (passes[1] - passes[0]) / 4 == near(max(one / 2, loads) if background else one)


@pytest.mark.parametrize("is_same", [True, False])
def test_vector_and_scalar_take_turns_on_a_bank_on_v3(is_same):
    def kernel():
        zeros = filled((128, 256))
        both = tile((128, 1024), nl.psum)
        nisa.tensor_copy(both[:, 0:256], zeros, engine=nisa.engine.vector)
        first = 256 if is_same else 512
        nisa.activation(both[:, first : first + 256], nl.copy, zeros)

    chip = replace(hardware.TRN2, tracks_whole_tensors=False)
    scalar = run(kernel, chip=chip).events[-1]
    begin = (304 + 160) / 0.96
    assert scalar.start_ns == near(begin + (304 / 0.96 if is_same else 0))


REGIONS = replace(hardware.TRN1, tracks_whole_tensors=False)


@pytest.mark.parametrize("chip", [hardware.TRN1, REGIONS])
@pytest.mark.parametrize("part", ["same", "other half", "columns between"])
def test_a_writer_waits_for_readers_of_its_tile(chip, part):
    def kernel():
        a = filled((128, 1024))
        read, written = {
            "same": (a[:, 0:512], a[:, 0:512]),
            "other half": (a[:, 0:512], a[:, 512:1024]),
            "columns between": (a[:, 0:1024:2], a[:, 1:1024:2]),
        }[part]
        nisa.activation(tile((128, 512)), nl.copy, read)
        nisa.memset(written, 1.0, engine=nisa.engine.vector)

    timeline = run(kernel, chip=chip)
    fill = (1024 + 48) / 1.12
    read = fill + SEEN + 560 / 1.4
    # kiln: slices of one tensor wait for each other, whatever parts they are.
    waits = part == "same" or chip.tracks_whole_tensors
    late = (read if waits else fill) + MEMSET + SEEN
    assert timeline.total_ns == near(max(read + 160 / 1.4, late))


def pipeline(x, w):
    out = tile((128, 512), nl.shared_hbm)
    table = nl.load(w)
    for _ in range(5):
        t = nl.load(x)
        bank = tile((128, 512), nl.psum)
        nisa.nc_matmul(bank, table, t)
        result = tile((128, 512))
        nisa.tensor_copy(result, bank)
        nisa.activation(result, nl.exp, result)
        nl.store(out, result)
    return out


def test_hbm_scratch_is_what_a_launch_allocates_beside_its_outputs():
    def kernel(x, rows):
        scratch = [tile((rows, 512), nl.private_hbm) for _ in range(2)]
        nl.store(scratch[0][0:128], nl.load(x))
        nl.shared_identity_matrix(128, dtype=FLOAT)  # from a constant in HBM
        out = tile((64, 512), nl.shared_hbm)
        nl.store(out, nl.load(scratch[0][0:64]))
        return out

    x = np.zeros((128, 512), np.float32)
    assert run(kernel, x, 128).hbm_scratch_bytes == 2 * x.nbytes + 4 * 128 * 128
    with nki_sim.record() as timeline:  # what a launch allocated is free for the next one
        for rows in (128, 256, 128):
            nki_sim.simulate(kernel)(x, rows)
    assert timeline.hbm_scratch_bytes == 4 * x.nbytes + 4 * 128 * 128


NUMBERS = ("total_ns", "engine_busy_ns", "dma_bytes", "dma_descriptors", "hbm_bytes")
NUMBERS += ("hbm_scratch_bytes", "instructions", "sbuf_peak_bytes", "psum_peak_banks")


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
def test_a_dry_run_gives_the_same_timeline(chip):
    x, w = np.zeros((128, 512), np.float32), np.zeros((128, 128), np.float32)
    real = run(pipeline, x, w, chip=chip)
    with hardware.select(hardware.chip(chip)):
        dry = nki_sim.dry_run(pipeline, ((128, 512), nl.float32), ((128, 128), nl.float32))
    assert dry.critical_path == real.critical_path and dry.events == real.events
    for name in NUMBERS:
        assert getattr(dry, name) == getattr(real, name), name


def test_events_of_all_launches_are_counted_a_loops_body_once():
    def repeated(x):
        tile = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)

        def body(_):
            nisa.memset(tile, 0.0)

        nl.fori_loop(0, 3, body)

    x, w = np.zeros((128, 512), np.float32), np.zeros((128, 128), np.float32)
    with nki_sim.record() as timeline:
        nki.simulate(pipeline)(x, w)
        nki.simulate(repeated)(x)
    assert timeline.event_count == len(timeline.events) == 27
    assert timeline.instructions == 29


def test_a_time_is_said_with_its_chip_and_degree():
    assert repr(nki_sim.Timeline()) == "Timeline(0 instructions, 0 ns modelled)"
    timeline = run(pipeline, np.zeros((128, 512), np.float32), np.zeros((128, 128), np.float32))
    where = f"{hardware.current().name}, LNC=1"
    assert timeline.where == where and repr(timeline).endswith(f"ns modelled on {where})")


@pytest.mark.parametrize("is_enabled", [True, False])
def test_a_dry_run_leaves_the_collector_of_garbage_as_it_was(is_enabled):
    found = []

    def body(x):
        found.append(gc.isenabled())
        raise KeyError("x")

    (gc.enable if is_enabled else gc.disable)()
    try:
        with pytest.raises(KeyError):
            nki_sim.dry_run(nki.jit(body), ((128, 4), "float32"))
        assert found == [False] and gc.isenabled() is is_enabled
    finally:
        gc.enable()
