"""The operators of docs/complex_operators.md, compared with native complex64 by torch's samples."""

import pytest

from tests.tolerances import MARGINS
from tests.trnfft.complex import operators_table as table

NAMES = [*table.names_in_table(), *table.names_on_host()]

# The table is written from all samples; here are as many of them, spread evenly, for each operator.
SAMPLES = 4
GONE = {"cholesky", "qr"}  # with torch 2.14


@pytest.mark.parametrize("name", NAMES)
def test_operators_of_the_table(name):
    if name in GONE and name not in table.entries():
        pytest.skip("this torch has it no longer")
    count, of_host = table.check(table.entries()[name], limit=SAMPLES)
    assert count > 0
    assert not of_host or name in table.names_on_host()


# Operators that write, but for those that change what views are of.
RESHAPING = {"as_strided", "as_strided partial_views", "squeeze", "squeeze multiple"}
RESHAPING |= {"t", "transpose", "unsqueeze"}
UNCHECKED = {
    **dict.fromkeys(("abs", "float_power"), "torch writes no complex numbers"),
    **dict.fromkeys(("acosh", "asinh", "atanh"), "torch has no derivative"),
    "addbmm": "torch enlarges the tensor that it writes into",
    "sinc": "makes a native complex number",
}
IN_PLACE = [
    name
    for name in NAMES
    if name in table.entries() and table.entries()[name].inplace_variant and name not in UNCHECKED
]


@pytest.mark.parametrize("name", IN_PLACE)
def test_operators_in_place(name):
    entry = table.entries()[name]
    if name in RESHAPING:
        with pytest.raises(NotImplementedError, match="of a ComplexTensor is not allowed"):
            table.check(entry, SAMPLES, table.in_place(entry))
    else:
        assert table.check(entry, SAMPLES, table.in_place(entry))[0] > 0


def test_no_operator_is_missing_in_the_table(monkeypatch):
    monkeypatch.delenv(MARGINS, raising=False)  # what is not in the table may be wrong
    others = {name: entry for name, entry in table.entries().items() if name not in NAMES}
    passing = [name for name, entry in others.items() if table.passes(entry)]
    assert passing == [], "write it: python -m tests.trnfft.complex.operators_table"


def test_the_operators_of_the_host_are_in_a_table_of_their_own():
    assert "linalg.eig" in table.names_on_host()
    assert set(table.names_on_host()).isdisjoint(table.names_in_table())


def test_the_table_is_long():
    assert len(set(NAMES)) == len(NAMES) >= 200
