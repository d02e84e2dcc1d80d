"""``.ap`` of a view: both readings of AWS's documents, and the refusals of strict mode.

nki_sim/views/access_patterns.py quotes the documents.
"""

from dataclasses import replace

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware
from nki_sim.views.access_patterns import RULE as NAME

from .conftest import RULE, index, new, refuses, to_hbm
from .test_views import inspect

DATA = np.arange(24, dtype=np.float32).reshape(4, 6)
READINGS = (hardware.RELATIVE, hardware.ABSOLUTE)


def reading(name):
    """A chip with a reading, inside a ``with`` block."""
    return hardware.select(replace(hardware.TRN1, reading_of_ap=name))


def tile():
    return new((64, 32))


# What is called, and where it begins as each reading has it.
DIFFERENT = {
    "columns": (lambda: tile()[:, 8:24].ap([[32, 64], [1, 4]]), 8, 0),
    "columns and an offset": (lambda: tile()[:, 8:24].ap([[32, 64], [1, 4]], 2), 10, 2),
    "an offset of 0": (lambda: tile()[:, 8:24].ap([[32, 64], [1, 4]], offset=0), 8, 0),
    "partitions": (lambda: tile()[32:64].ap([[32, 32], [1, 4]], 2), 1026, 2),
    "one column": (lambda: tile()[:, 3].ap([[32, 64], [1, 4]]), 3, 0),
    "a pattern of one": (lambda: tile().ap([[32, 64], [1, 8]], 4).ap([[32, 64], [1, 4]], 1), 5, 1),
    "other numbers of a view": (  # 8 of float32 are 16 of bfloat16
        lambda: tile()[:, 8:24].ap([[64, 64], [1, 4]], 2, dtype=nl.bfloat16),
        18,
        2,
    ),
    "rows in HBM": (lambda: new((8, 6), buffer=nl.private_hbm)[2:4].ap([[6, 2], [1, 6]]), 12, 0),
}
ALIKE = {
    "all of it": (lambda: tile().ap([[32, 64], [1, 4]], 2), 2),
    "the first columns": (lambda: tile()[:, 0:8].ap([[32, 64], [1, 4]], 2), 2),
    "every other column": (lambda: tile()[:, ::2].ap([[32, 64], [1, 4]], 2), 2),
    "the first partitions": (lambda: tile()[0:32].ap([[32, 32], [1, 4]]), 0),
    "another shape": (lambda: tile().reshape((64, 8, 4)).ap([[32, 64], [1, 4]], 2), 2),
    "another order": (
        lambda: tile().reshape((64, 8, 4)).permute((0, 2, 1)).ap([[32, 64], [1, 4]], 2),
        2,
    ),
    "other numbers": (lambda: tile().view(nl.bfloat16).ap([[64, 64], [1, 4]], 2), 2),
    "a pattern of a pattern": (lambda: tile().ap([[32, 64], [2, 8]]).ap([[32, 64], [1, 4]]), 0),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_both_readings_of_an_offset(case):
    call, relative, absolute = DIFFERENT[case]
    for name, offset in zip(READINGS, (relative, absolute), strict=True):
        with reading(name), nki_sim.allow(NAME):
            assert inspect(call).offset == offset


@pytest.mark.parametrize("name", READINGS)
@pytest.mark.parametrize("case", DIFFERENT)
def test_strict_mode_refuses_different_readings(case, name):
    call, relative, absolute = DIFFERENT[case]
    where = f"element {relative} or {absolute}, .*call .ap on the tensor as it was allocated"
    with reading(name), pytest.raises(RULE, match=where) as caught:
        inspect(call)
    assert caught.value.name == NAME


@pytest.mark.parametrize("name", READINGS)
@pytest.mark.parametrize("case", ALIKE)
def test_strict_mode_takes_equal_readings(case, name):
    call, offset = ALIKE[case]
    with reading(name):
        assert inspect(call).offset == offset


@pytest.mark.lenient
def test_otherwise_it_warns_and_is_read_as_the_docstring_says():
    call, relative, _ = DIFFERENT["columns"]
    with pytest.warns(nki_sim.NkiSimulationWarning, match=NAME):
        assert inspect(call).offset == relative


def test_a_chip_of_which_it_is_known_does_not_refuse():
    call, _, absolute = DIFFERENT["columns"]
    known = {"reading_of_ap": hardware.ABSOLUTE, "ap_of_views": hardware.FINE}
    with hardware.select(replace(hardware.TRN1, **known)):  # type: ignore[arg-type]
        assert inspect(call).offset == absolute


def test_a_chip_has_one_of_two_readings():
    with pytest.raises(ValueError, match="'reading_of_ap' is 'both', allowed are 'relative'"):
        replace(hardware.TRN1, reading_of_ap="both")


def pair_at(view, dim, place):
    """A kernel that reads two neighbours of DATA, at an index of a view's dimension."""

    def kernel(table):
        found = new((1, 2))
        pattern = [[6, 1], [1, 2]]
        source = view(table).ap(pattern, 1, scalar_offset=index(place), indirect_dim=dim)
        nisa.dma_copy(found, source)
        return to_hbm(found)

    return kernel


INDEXED = {
    # A view, the dimension and the index, and the first number that each reading finds.
    "lines of other lengths": (lambda t: t.reshape((12, 2)), 0, 2, (5, 13)),
    "one long line": (lambda t: t.reshape((24,)), 0, 3, (4, 19)),
    "rows of several dimensions": (lambda t: t.reshape((2, 2, 6)), 1, 3, (19, 4)),
    "another order": (lambda t: t.permute((1, 0)), 0, 2, (3, 13)),
    "every other row": (lambda t: t[0:4:2], 0, 1, (13, 7)),
}
INDEXED_ALIKE = {
    "whole": (lambda t: t, 0, 3, 19),
    "columns": (lambda t: t, 1, 3, 4),
    "rows by the step of columns": (lambda t: t, 1, 18, 19),
    "the first rows": (lambda t: t[0:2], 0, 3, 19),
    "rows of parts": (lambda t: t.reshape((4, 2, 3)), 0, 3, 19),
}


@pytest.mark.parametrize("case", INDEXED)
def test_both_readings_of_an_index(case):
    *arguments, firsts = INDEXED[case]
    kernel = nki.simulate(pair_at(*arguments))
    for name, first in zip(READINGS, firsts, strict=True):
        with reading(name):
            with nki_sim.allow(NAME):
                assert kernel(DATA).tolist() == [[first, first + 1]]
            refuses(r"indirect_dim of ap is .*an index of 1 stands for .*ap-of-views", kernel, DATA)
            refuses(NAME, nki_sim.dry_run, pair_at(*arguments), ((4, 6), "float32"))


@pytest.mark.parametrize("name", READINGS)
@pytest.mark.parametrize("case", INDEXED_ALIKE)
def test_strict_mode_takes_equal_indices(case, name):
    *arguments, first = INDEXED_ALIKE[case]
    with reading(name):
        found = nki.simulate(pair_at(*arguments))(DATA)
    assert found.tolist() == [[first, first + 1]]


def test_a_dimension_that_one_reading_has():
    kernel = nki.simulate(pair_at(lambda t: t.reshape((2, 2, 6)), 2, 3))
    with nki_sim.allow(NAME):
        with reading(hardware.RELATIVE):
            assert kernel(DATA)[0, 0] == 4
        with reading(hardware.ABSOLUTE):
            refuses(r"2, but the shape \(4, 6\) has no such dim", kernel, DATA)
    refuses(r"stands for 1 element \(dimension of size 6\) or nothing", kernel, DATA)


@pytest.mark.parametrize("name", READINGS)
def test_rows_of_a_vector_are_those_of_the_dimension(name):
    """Which of them are skipped, the readings differ on, though they count the same."""

    def kernel(table):
        found = nl.full((2, 6), -1.0, "float32")
        rows = table[0:2].ap([[6, 2], [1, 6]], vector_offset=index(1, 3))
        nisa.dma_copy(found, rows, oob_mode=nisa.oob_mode.skip)
        return to_hbm(found)

    with reading(name):
        refuses("of size 2. or 6 elements .dimension of size 4.", nki.simulate(kernel), DATA)
        with nki_sim.allow(NAME):
            found = nki.simulate(kernel)(DATA)
    last = DATA[3] if name == hardware.ABSOLUTE else np.full(6, -1.0)
    np.testing.assert_array_equal(found, np.stack([DATA[1], last]))
