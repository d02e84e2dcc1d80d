"""Every public name has a row in the table, or a reason for having none."""

import trnfft
from tests.fuzz.functions import EXCEPTIONS, FUNCTIONS

PUBLIC = [*trnfft.__all__, *(f"nn.{name}" for name in trnfft.nn.__all__)]


def test_every_public_name_has_a_row_or_a_reason():
    rows = {name.partition(".")[0] for name in FUNCTIONS if not name.startswith("nn.")}
    rows |= {name for name in FUNCTIONS if name.startswith("nn.")}
    assert [name for name in PUBLIC if name not in rows and name not in EXCEPTIONS] == []


def test_exceptions_are_names_without_a_row():
    assert [name for name in EXCEPTIONS if name in FUNCTIONS or name not in PUBLIC] == []
