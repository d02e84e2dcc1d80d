"""No kernel breaks a rule of either release of NKI, contested rules included."""

import importlib
import pkgutil

import pytest

import nki_kernels
from nki_sim import Kernel
from nki_sim.lint import lint
from nki_sim.releases import TRACED


def kernels():
    """Every kernel of the package, by module and name."""
    for module in pkgutil.walk_packages(nki_kernels.__path__, "nki_kernels."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, Kernel) and value.func.__module__ == module.name:
                yield f"{module.name.rpartition('.')[2]}.{name}", value


KERNELS = dict(kernels())


@pytest.mark.parametrize("name", KERNELS)
def test_no_kernel_breaks_a_rule(name):
    found = lint(KERNELS[name], contested=True, release=TRACED)
    assert [str(violation) for violation in found] == []
