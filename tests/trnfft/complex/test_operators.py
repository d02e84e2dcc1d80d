"""The operators of docs/complex_operators.md against native complex64, by torch's own samples."""

import pytest

from tests import sweeps
from tests.trnfft.complex import operators_table as table

NAMES = table.names_in_table()

# The table is written from all samples; here are as many of them, spread evenly, for each operator.
SAMPLES, ALL_SAMPLES = 6, 10
# Operators with branches of their own for arguments that few samples have.
OF_MANY_KINDS = {"linalg.qr", "prod", "qr"}


@pytest.mark.parametrize("limit", [SAMPLES, sweeps.whole(ALL_SAMPLES)])
@pytest.mark.parametrize("name", NAMES)
def test_operators_of_the_table(name, limit):
    limit = ALL_SAMPLES if name in OF_MANY_KINDS else limit
    assert table.check(table.entries()[name], limit=limit) > 0


def test_no_operator_is_missing_in_the_table():
    others = {name: entry for name, entry in table.entries().items() if name not in NAMES}
    passing = [name for name, entry in others.items() if table.passes(entry)]
    assert passing == [], "write it: python -m tests.trnfft.complex.operators_table"


def test_the_table_is_long():
    assert len(set(NAMES)) == len(NAMES) >= 200
