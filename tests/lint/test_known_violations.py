"""Which contested constructs the kernels use today: `known_violations.txt`, a list to be emptied.

A line is a kernel and a rule. A violation that is not listed fails, and so does an entry that no
longer violates. Uncontested rules have no list: no kernel may break them.
"""

import importlib
import pkgutil
from pathlib import Path

import pytest

import nki_kernels.kernels
from nki_kernels.lint import CONTESTED, lint
from nki_kernels.simulator import Kernel

LISTED = Path(__file__).with_name("known_violations.txt").read_text().splitlines()


def kernels():
    """Every kernel of the package, by module and name."""
    for module in pkgutil.iter_modules(nki_kernels.kernels.__path__, "nki_kernels.kernels."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, Kernel) and value.func.__module__ == module.name:
                yield f"{module.name.rpartition('.')[2]}.{name}", value


KERNELS = dict(kernels())


@pytest.mark.parametrize("name", KERNELS)
def test_contested_constructs_are_listed(name):
    found = lint(KERNELS[name], contested=True)
    assert [str(v) for v in found if v.severity == "error"] == []
    listed = {line.split()[1] for line in LISTED if line.split()[0] == name}
    unlisted = [str(v) for v in found if v.rule not in listed]
    assert not unlisted, "mend these, or list them in known_violations.txt"
    mended = listed - {v.rule for v in found}
    assert not mended, f"{name} no longer violates these: take them out of known_violations.txt"


def test_the_list_holds_kernels_and_contested_rules():
    pairs = [tuple(line.split()) for line in LISTED]
    assert pairs == sorted(set(pairs))
    assert {name for name, _ in pairs} <= set(KERNELS)
    assert {rule for _, rule in pairs} <= set(CONTESTED)
