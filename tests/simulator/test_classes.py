"""Classes that kernels may use, after the NKI Language Guide, "Class Support"."""

import dataclasses
from dataclasses import dataclass, field

import pytest

from nki_kernels.base.isa import nl


@dataclass(frozen=True)
class Block(nl.NKIObject):
    rows: int
    columns: int = 4


@dataclass(frozen=True)
class Checked(nl.NKIObject):
    rows: int = 1

    def __post_init__(self):
        assert self.rows > 0, f"rows is {self.rows}"


@dataclass
class Stages(nl.NKIObject):
    radices: tuple = field(default=(4, 2))
    names: list = field(default_factory=list)


# nki-library uses @dataclass(frozen=True) NKIObjects (core/rmsnorm/rmsnorm_quant.py); the guide:
# classes with and without @dataclass are compiled in the same way.
def test_a_frozen_dataclass_can_be_made():
    block = Block(3)
    assert (block.rows, block.columns) == (3, 4)
    assert block == Block(rows=3, columns=4)
    assert dataclasses.replace(block, rows=5).rows == 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        block.rows = 6


def test_a_frozen_dataclass_runs_its_post_init():
    assert Checked(2).rows == 2
    with pytest.raises(AssertionError, match="rows is 0"):
        Checked(0)


def test_fields_of_dataclasses_have_their_defaults():
    first, second = Stages(), Stages()
    first.names.append("a")
    assert (first.radices, first.names, second.names) == ((4, 2), ["a"], [])


# The generated initializer of the guide: __init__(self, x=None, y=False).
def test_a_field_without_default_is_none():
    assert Block().rows is None
