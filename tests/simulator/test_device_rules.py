"""Rules from records of real chips: kernels that break them, and kernels that nearly do.

nki_sim/rules/device_rules.py has the sources of the rules.
"""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware
from nki_sim.rules import device_rules

from .conftest import RULE, blocks, copied, new, recorded, refuses, to_hbm

CHIPS = (hardware.TRN1, hardware.TRN2, hardware.TRN3)
every_chip = pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)


def operand(shape, value=1.0):
    tile = new(shape)
    nisa.memset(tile, value=value)
    return tile


def product(stationary, moving, columns=None, **options):
    """One product in a PSUM tile of its own, or in `columns` of a given one."""
    m, n = np.prod(stationary.shape[1:]), np.prod(moving.shape[1:])
    dst = nl.ndarray((int(m), int(n)), nl.float32, nl.psum) if columns is None else columns
    nisa.nc_matmul(dst=dst, stationary=stationary, moving=moving, **options)
    return dst


def in_sbuf(bank):
    tile = new(bank.shape)
    nisa.tensor_copy(tile, bank)
    return tile


def broken_rules(body, chip):
    """The rules that a kernel breaks on a chip, by a run and by a dry run, which must agree."""

    def kernel():
        return to_hbm(body())

    with hardware.select(chip), nki_sim.allow(*device_rules.RULES):
        timeline = recorded(kernel)
        dry = nki_sim.dry_run(kernel)
    assert timeline.waived_rules == dry.waived_rules
    assert all(rule in repr(timeline) for rule in timeline.waived_rules)
    return timeline.waived_rules


def groups(count, terms, banks=1, together=False):
    """Sums of `terms` products, `count` of them side by side in a PSUM tile."""
    stationary, moving = operand((64, 64)), operand((64, 64))
    tile = nl.ndarray((64, count, 64 if banks == 1 else 512), nl.float32, nl.psum)
    order = [(g, t) for g in range(count) for t in range(terms)]
    for group, term in sorted(order, key=lambda item: item[1]) if together else order:
        product(stationary, moving, tile[:, group, :64], accumulate=term > 0)
    return in_sbuf(tile[:, 0, :64])


def transposed_beside_a_sum():
    a = operand((64, 64))
    tile = nl.ndarray((64, 2, 64), nl.float32, nl.psum)
    product(a, a, tile[:, 0], accumulate=False)
    product(a, a, tile[:, 0], accumulate=True)
    nisa.nc_transpose(tile[:, 1], a, engine=nisa.engine.tensor)
    return in_sbuf(tile[:, 0])


def groups_without_accumulate():
    a = operand((64, 64))
    tile = nl.ndarray((64, 2, 64), nl.float32, nl.psum)
    for group in (0, 1, 0, 1):
        product(a, a, tile[:, group])
    return in_sbuf(tile[:, 1])


def loaded(view):
    """A product whose stationary operand is a view of a [64, 8, 16] tile."""
    return in_sbuf(product(view(operand((64, 8, 16))), operand((64, 32))))


def sized(k, m, **tile):
    return in_sbuf(product(operand((k, m)), operand((k, 64)), **tile))


def loops(nested):
    tile = operand((4, 4))

    def step(_):
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)

    nl.fori_loop(0, 2, (lambda _: nl.fori_loop(0, 2, step)) if nested else step)
    nl.fori_loop(0, 2, step)
    return tile


def scaled(scale):
    tile = operand((64, 16))
    nisa.activation(dst=tile, op=nl.copy, data=tile, scale=scale())
    return tile


def added(engine, dtype="float32", op=nl.add):
    tile = new((64, 16), dtype)
    nisa.memset(tile, value=1)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=op, engine=engine)
    return tile


def turned(rows, columns, place, dtype="bfloat16"):
    """A DMA that transposes zeros to `place` of a tile of such rows and columns a partition."""
    tile = new((64, rows, columns), dtype)
    nisa.memset(tile, value=0.0)
    dst = place(tile)
    source = new(dst.shape[::-1], dtype, nl.shared_hbm)
    nisa.dma_copy(source.reshape((source.size // 64, 64)), operand((source.size // 64, 64)))
    nisa.dma_transpose(dst, source)
    return tile


def registers(count, together, store=False, mode=None):
    """Rows at addresses in registers, `together` of which are loaded before their uses."""
    table, tile = new((count, 8), buffer=nl.private_hbm), operand((1, 8))
    for row in range(count):
        nisa.dma_copy(table[row : row + 1], tile)
    rows = new((1, 8))
    for first in range(0, count, together):
        held = [nisa.register_alloc(row) for row in range(first, min(first + together, count))]
        for each in held:
            if store:
                nisa.register_store(tile[:, 0:1], each)
            else:
                options = {} if mode is None else {"dge_mode": mode}
                row = table.ap([[8, 1], [1, 8]], scalar_offset=each, indirect_dim=0)
                nisa.dma_copy(rows, row, **options)
    return tile


def unused_registers():
    for number in range(100):
        nisa.register_alloc(number)
    return operand((4, 8))


def registers_written_again():
    """They are free in between."""
    table, tile = new((4, 8), buffer=nl.shared_hbm), operand((4, 8))
    nisa.dma_copy(table, tile)
    held = [nisa.register_alloc() for _ in range(100)]
    for each in held + held:
        nisa.register_move(each, 1)
        row = table.ap([[8, 1], [1, 8]], scalar_offset=each, indirect_dim=0)
        nisa.dma_copy(tile[0:1], row)
    return tile


def transposed_again():
    """A view's place in a partition is no part of what decides whether an issue is reused."""
    tile, source = operand((64, 64)), new((16, 64), buffer=nl.shared_hbm)
    nisa.dma_copy(source, operand((16, 64)))
    for first in (0, 16, 20):
        nisa.dma_transpose(tile[:, first : first + 16], source)
    return tile


FLOATS = ("float32", "tfloat32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
GPSIMD, VECTOR = nisa.engine.gpsimd, nisa.engine.vector
# Kernels that break a rule on every chip, and below "nothing" kernels that nearly do.
CASES = [
    (expression, rule)
    for rule, text in blocks("""
psum-bank-groups
    groups(2, 2)
    groups(4, 4)
    groups(2, 3)
    groups(2, 2, together=True)
    groups(4, 4, together=True)
    groups(2, 3, together=True)
    transposed_beside_a_sum()
    groups_without_accumulate()
nothing
    groups(1, 8)
    groups(8, 1)
    groups(2, 4, banks=2)
    loaded(lambda t: t)
    loaded(lambda t: t[:, 2:7, :])
    loaded(lambda t: t.reshape((64, 128))[:, 0:128:2])
    sized(64, 64, tile_position=(0, 0), tile_size=(64, 128))
    loops(False)
    scaled(lambda: 2.0)
    added(GPSIMD, "int32")
    added(GPSIMD, op=nl.power)
    turned(4, 32, lambda t: t[:, :, 0:20])
    turned(4, 20, lambda t: t)
    turned(1, 16, lambda t: t[:, 0])
    turned(1, 48, lambda t: t[:, 0, 16:32])
    turned(1, 40, lambda t: t[:, 0, 8:24], "float32")
    registers(64, 64)
    registers(64, 64, store=True)
    registers(200, 50)
    registers(200, 50, store=True)
    unused_registers()
    registers_written_again()
stationary-dimensions
    loaded(lambda t: t[:, :, 0:8])
    loaded(lambda t: t.permute((0, 2, 1)))
    loaded(lambda t: t[:, 0:8:2, 0:12])
column-tiles
    sized(64, 64, tile_position=(0, 0), tile_size=(64, 64))
nested-device-loops
    loops(True)
activation-column-scale
    scaled(lambda: operand((64, 1)))
transposed-lines
    turned(4, 24, lambda t: t[:, :, 0:16])
    turned(4, 20, lambda t: t[:, :, 0:16], "float32")
    turned(1, 48, lambda t: t[:, 0, 8:24])
    transposed_again()
live-registers
    registers(65, 65)
    registers(65, 65, store=True)
""").items()
    for expression in text.splitlines()
]
CASES += [(f'added(GPSIMD, "{dtype}")', "gpsimd-float32") for dtype in FLOATS]
CASES += [(f'added(VECTOR, "{dtype}")', "nothing") for dtype in FLOATS]
ODD_PITCH = {
    "rows without gaps": lambda: turned(3, 20, lambda t: t),
    "one row": lambda: turned(1, 20, lambda t: t[:, 0]),
    "a part of a row": lambda: turned(1, 40, lambda t: t[:, 0, 16:32]),
    "float32": lambda: turned(1, 20, lambda t: t[:, 0], "float32"),
}


@every_chip
@pytest.mark.parametrize(("expression", "rule"), CASES)
def test_what_breaks_a_rule_and_what_nearly_does(expression, rule, chip):
    contested = ("activation_column_scale", "gpsimd_float32")
    chip = replace(chip, **dict.fromkeys(contested, hardware.CONTESTED))
    found = broken_rules(lambda: eval(expression, globals()), chip)
    assert found == ({rule} - {"nothing"})


@every_chip
@pytest.mark.parametrize("name", ODD_PITCH)
def test_transposes_to_partitions_that_are_no_multiple_of_32_bytes(name, chip):
    """It is doubtful, and so a warning only: AWS's kernels have such tiles."""

    def kernel():
        return to_hbm(ODD_PITCH[name]())

    with nki_sim.strict(), hardware.select(chip), pytest.warns(match="'transposed-pitch'"):
        nki_sim.simulate(kernel)()
    refused = replace(chip, transposed_pitch=hardware.WRONG)
    assert broken_rules(ODD_PITCH[name], refused) == {"transposed-pitch"}


@pytest.mark.parametrize("k, m", [(32, 32), (1, 1), (16, 32), (32, 8)])
def test_small_tiles_of_the_array_are_refused_on_v2(k, m):
    assert broken_rules(lambda: sized(k, m), hardware.TRN1) == {"small-array-tile"}
    assert broken_rules(lambda: sized(k, m), hardware.TRN2) == set()
    refuses("small-array-tile", nki_sim.simulate(lambda: to_hbm(sized(k, m))))


@pytest.mark.parametrize("k, m", [(33, 33), (64, 16), (32, 33), (128, 8)])
def test_larger_tiles_are_not(k, m):
    assert broken_rules(lambda: sized(k, m), hardware.TRN1) == set()


@pytest.mark.parametrize("k, m", [(33, 17), (128, 32)])
def test_narrow_stationaries_warn_even_in_strict_mode(k, m):
    with pytest.warns(nki_sim.NkiSimulationWarning, match="narrow-stationary"):
        nki_sim.simulate(lambda: to_hbm(sized(k, m)))()


@nki.jit
def first_of(tensors, count):
    return copied(tensors[0])


@nki.jit
def only(tensor, counts):
    return copied(tensor)


def test_tensors_in_tuples_at_launch():
    x = np.ones((4, 8), np.float32)
    for launch in (lambda: first_of((x, x), 2), lambda: first_of(((x,), 3)[0], 2)):
        refuses("argument 'tensors' is a tuple.*tensors-in-sequences", launch)
    spec = ((4, 8), "float32")
    refuses("tensors-in-sequences", nki_sim.dry_run, first_of, (spec, spec, spec), 2)
    np.testing.assert_array_equal(only(x, (1, 2, (3,))), x)
    assert nki_sim.dry_run(only, spec, (1, 2)).waived_rules == set()


def loads(count, waits):
    """`count` loads of 16 KiB a partition, each summed up; `waits`: a load after the sum before."""

    def kernel(x):
        total = operand((128, 4096), 0.0)
        added = None
        for _ in range(count):
            tile = new((128, 4096))
            loaded = nisa.dma_copy(tile, x)
            if waits and added is not None:
                loaded.depends_on(added)
            added = nisa.tensor_tensor(total, total, tile, nl.add)
        return to_hbm(total)

    return kernel


@every_chip
@pytest.mark.parametrize("count, waits", [(4, False), (12, True), (12, False)])
def test_loads_that_run_ahead_fill_no_more_than_64_kib(count, waits, chip):
    spec = ((128, 4096), "float32")
    with hardware.select(chip), nki_sim.allow("dma-written-ahead"):
        waived = nki_sim.dry_run(loads(count, waits), spec).waived_rules
    # In program order one tile is live at a time, or two.
    assert waived == ({"dma-written-ahead"} if count == 12 and not waits else set())


def copies(count, is_loop):
    tile = operand((1, 1))

    def copy(_):
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)

    if is_loop:
        nl.fori_loop(0, count, copy)
    else:
        for _ in range(count):
            copy(None)
    return tile


def test_many_instructions(monkeypatch):
    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", 50)
    monkeypatch.setattr(device_rules, "MOST_INSTRUCTIONS", 100)
    trn1 = hardware.TRN1
    assert broken_rules(lambda: copies(40, False), trn1) == set()
    assert broken_rules(lambda: copies(60, False), trn1) == {"instruction-count"}
    assert broken_rules(lambda: copies(120, False), trn1) == {"instruction-limit"}
    assert broken_rules(lambda: copies(500, True), trn1) == set()
    with pytest.raises(RULE, match="instructions is 101, but a launch can have at most 5 million"):
        nki_sim.simulate(lambda: to_hbm(copies(120, False)))()


def test_nested_loops_count_their_bodies_once(monkeypatch):
    def body():
        tile = operand((1, 1))
        for _ in range(10):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)

        def inner(_):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)

        def outer(_):
            nl.fori_loop(0, 7, inner)

        nl.fori_loop(0, 9, outer)
        return tile

    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", 15)  # 1 + 10 + 1, and two for the result
    assert broken_rules(body, hardware.TRN1) == {"nested-device-loops"}


@pytest.mark.parametrize("again", [False, True])
def test_sums_of_scalars_take_registers_between_uses(again):
    """In a loop of 6 iterations, whose scalars end with each iteration."""

    def body():
        table, tile = new((1, 4096), buffer=nl.shared_hbm), operand((1, 8))
        nisa.dma_copy(table, operand((1, 4096)))

        def step(i):
            held = [i * 8 + number for number in range(65)]
            for each in held + held if again else held:
                nisa.dma_copy(tile, table.ap([[8, 1], [1, 8]], scalar_offset=each, indirect_dim=1))

        nl.fori_loop(0, 6, step)
        return tile

    assert broken_rules(body, hardware.TRN2) == ({"live-registers"} if again else set())


def test_scalars_of_64_bits_take_two_registers():
    """A dry run does not know loaded numbers, so only the run shows this."""

    def kernel(count):
        table, tile = new((64, 8), buffer=nl.shared_hbm), new((1, 8))
        nisa.dma_copy(table, operand((64, 8)))
        index = new((1, 1), "int64")
        nisa.memset(index, value=3)
        held = [nisa.scalar_load(index) for _ in range(count)]
        for each in held:
            nisa.dma_copy(tile, table.ap([[8, 1], [1, 8]], scalar_offset=each))
        return to_hbm(tile)

    nki_sim.simulate(lambda: kernel(32))()
    refuses("registers in use at once is 66", nki_sim.simulate(lambda: kernel(33)))


def test_the_message_names_limit_engine_and_number():
    kernel = nki_sim.simulate(lambda: to_hbm(registers(70, 70)))
    refuses("in use at once is 70 on GpSimdE, but .* 64 registers", kernel)


def test_what_hardware_triggers_counts_for_its_engine():
    """SyncE and ScalarE have registers of their own; the compiler chooses between them."""
    body = partial(registers, 65, 65, mode=nisa.dge_mode.hwdge)
    assert broken_rules(body, hardware.TRN2) == set()


def at_dynamic_addresses(pitch):
    """Rows of 8 numbers, so far apart, of an HBM tensor, from addresses that a loop has."""
    table = new((64 * pitch,), buffer=nl.shared_hbm)
    tile, total = operand((4, 8), 0.0), operand((4, 8), 0.0)
    for row in range(4):
        nisa.dma_copy(
            table[row * pitch : row * pitch + pitch].reshape((1, pitch)), operand((1, pitch))
        )

    def step(i):
        nisa.dma_copy(tile, table.ap([[pitch, 4], [1, 8]], scalar_offset=i))

    nl.fori_loop(0, 1, step)
    return total


def test_several_rows_at_a_dynamic_address():
    doubtful = replace(hardware.TRN1, dynamic_rows=hardware.CONTESTED)
    assert broken_rules(lambda: at_dynamic_addresses(pitch=16), doubtful) == {"dynamic-rows"}
    assert broken_rules(lambda: at_dynamic_addresses(pitch=8), doubtful) == set()  # one run
    assert broken_rules(lambda: at_dynamic_addresses(pitch=16), hardware.TRN1) == set()


@pytest.mark.parametrize(
    ("dtype", "field", "factor"),
    [
        ("bfloat16", "rounds_bf16_products", 1 + 2**-7),
        ("tfloat32", "rounds_tfloat32_products", 1 + 2**-10),
    ],
)
def test_products_are_rounded_on_chips_that_round_them(dtype, field, factor):
    """The square of a number whose last bit is set needs more bits than the number has."""

    def kernel():
        tile = new((1, 64), dtype)
        nisa.memset(tile, value=factor)
        total = new((64, 64))
        nisa.tensor_copy(total, product(tile, tile))
        return to_hbm(total)

    assert (nki_sim.simulate(kernel)() == factor**2).all()
    with hardware.select(replace(hardware.TRN1, **{field: True})):
        assert (nki_sim.simulate(kernel)() == 2 * factor - 1).all()


# Verdicts


def verdict(body, chip):
    """What a run of a kernel comes to on a chip: "error", "warning" or "nothing"."""
    with hardware.select(chip), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            nki_sim.simulate(lambda: to_hbm(body()))()
        except RULE:
            return "error"
    return "warning" if caught else "nothing"


def onto_zeros():
    """Two times the product of ones, of which the first is added to zeros."""
    tile, total = operand((64, 64), 1.0), nl.zeros((64, 64), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, tile, tile, accumulate=True)
    nisa.nc_matmul(total, tile, tile, accumulate=True)
    result = new((64, 64))
    nisa.tensor_copy(result, total)
    return result


def into_float32():
    tile, turned = new((64, 32), "bfloat16"), new((32, 64), buffer=nl.psum)
    nisa.memset(tile, value=1.5)
    nisa.nc_transpose(turned, tile)
    result = new((32, 64))
    nisa.tensor_copy(result, turned)
    return result


@pytest.mark.parametrize(
    ("body", "rule", "value"),
    [(onto_zeros, "accumulate-onto-others", 128.0), (into_float32, "transpose-dtype", 1.5)],
)
def test_values_where_a_rule_is_waived(body, rule, value):
    for chip in CHIPS:
        with hardware.select(chip), nki_sim.strict(), device_rules.allow(rule):
            assert (nki_sim.simulate(lambda: to_hbm(body()))() == value).all()


BREAKS = {
    "zeros": (onto_zeros, ("warning", "warning", "nothing")),
    "transposed dtype": (into_float32, ("warning", "error", "error")),
    "groups": (lambda: groups(2, 2), ("error", "error", "warning")),  # no record speaks of trn3
    "dimensions": (
        lambda: loaded(lambda t: t.permute((0, 2, 1))),
        ("warning", "warning", "warning"),
    ),
    "small": (lambda: sized(16, 16), ("warning", "nothing", "nothing")),
    "narrow": (lambda: sized(64, 32), ("warning", "nothing", "nothing")),
    "nested": (
        lambda: loops(True),
        ("error", "warning", "warning"),
    ),  # AWS says that trn2 takes them
    "gpsimd": (lambda: added(nisa.engine.gpsimd, "bfloat16"), ("error", "warning", "warning")),
    "lines": (lambda: turned(4, 20, lambda t: t[:, :, 0:16]), ("warning", "error", "error")),
    "registers": (lambda: registers(65, 65), ("error", "error", "error")),
}


@pytest.mark.lenient
@pytest.mark.parametrize("name", BREAKS)
def test_verdicts(name):
    body, expected = BREAKS[name]
    assert tuple(verdict(body, chip) for chip in CHIPS) == expected


@pytest.mark.parametrize("name", BREAKS)
def test_strict_verdicts(name):
    body, expected = BREAKS[name]
    if name not in ("narrow", "gpsimd"):  # which are hints only
        expected = tuple("error" if each == "warning" else each for each in expected)
    assert tuple(verdict(body, chip) for chip in CHIPS) == expected


def test_every_rule_has_a_verdict_on_every_chip_and_a_source():
    verdicts = {hardware.WRONG, hardware.CONTESTED, hardware.DOUBTFUL, hardware.FINE}
    for rule in device_rules.RULES.values():
        assert rule.source and rule.says
        assert {getattr(chip, rule.field) for chip in CHIPS} <= verdicts


def test_only_rules_can_be_allowed():
    with pytest.raises(ValueError, match="'psum-banks'.*psum-bank-groups"):
        nki_sim.allow("psum-banks").__enter__()


def test_a_rule_is_allowed_inside_the_block_only():
    kernel = nki_sim.simulate(lambda: to_hbm(groups(2, 2)))
    with nki_sim.allow("psum-bank-groups"):
        kernel()
    refuses("psum-bank-groups", kernel)
