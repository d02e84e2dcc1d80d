"""Tables packed into one tensor: every table is found again in its static place."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_kernels.base.packing import pack, packed_spec, unpack

RNG = np.random.default_rng(7)
SHAPES = ((3, 5), (6, 4096), (128, 2, 7), (1,), (2, 3, 4, 5), (3, 64, 32), (2, 3, 16, 128))


@nki.jit
def copied(packed, places):
    """Each table in HBM of its own."""
    results = []
    for table in unpack(packed, places):
        result = nl.ndarray(table.shape, dtype=table.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=result, src=table)
        results.append(result)
    return tuple(results)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_a_kernel_finds_every_table(dtype):
    tables = tuple(RNG.standard_normal(shape).astype(dtype) for shape in SHAPES)
    packed, places = pack(tables)
    assert packed.ndim == 1 and packed.dtype == dtype
    found = nki_sim.simulate(copied)(packed, places)
    for table, result in zip(tables, found, strict=True):
        np.testing.assert_array_equal(result, table)


def test_tables_of_passes_keep_their_tuples():
    first, second, third = (np.full((2, 2), value, np.float32) for value in (1, 2, 3))
    packed, places = pack(((first,), (second, third)))
    assert [len(item) for item in places] == [1, 2]
    found = nki_sim.simulate(copied)(packed, places[1])
    np.testing.assert_array_equal(found, [second, third])


def test_specs_are_those_of_the_packed_tables():
    tables = tuple(np.zeros(shape, np.float32) for shape in SHAPES)
    packed, places = pack(tables)
    specs = tuple((shape, "float32") for shape in SHAPES)
    assert packed_spec(specs) == ((packed.shape, "float32"), places)


def test_tables_of_two_dtypes_are_refused():
    tables = np.zeros(2, np.float32), np.zeros(2, ml_dtypes.bfloat16)
    with pytest.raises(TypeError, match="argument .tables. has arrays of float32 and bfloat16"):
        pack(tables)
