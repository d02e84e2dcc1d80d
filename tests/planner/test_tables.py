"""The cache of tables: its contents are read-only, counted, and computed once."""

import numpy as np
import pytest

from nki_kernels.fft.dft_gemm import dft_gemm_matrix
from trnfft.planner import tables


def test_arrays_in_nested_tuples_are_found_counted_and_frozen():
    arrays = [np.zeros(size) for size in (1, 2, 3)]
    nested = (arrays[0], "text", (arrays[1], (4, arrays[2])))
    assert [id(array) for array in tables.arrays_of(nested)] == [id(array) for array in arrays]
    assert tables.bytes_of(nested) == 48
    assert tables.read_only(nested) is nested
    assert not any(array.flags.writeable for array in arrays)


def test_tables_are_computed_once_and_read_only():
    found = tables.cached(dft_gemm_matrix, 5, True, 0.25)
    assert np.array_equal(found, dft_gemm_matrix(5, True, 0.25))
    assert tables.cached(dft_gemm_matrix, 5, True, 0.25) is found
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 1


def test_small_tables_of_many_lengths_take_a_quarter_of_the_bound(monkeypatch):
    tables.cached.cache_clear()
    monkeypatch.setattr(tables.cached.cache, "_Cache__maxsize", 1 << 20)
    for n in range(2, 100):
        tables.cached(dft_gemm_matrix, n, False, 1.0)
    kept = sum(map(tables.bytes_of, tables.cached.cache.values()))
    tables.cached.cache_clear()
    assert 1 << 17 < kept <= 1 << 18
