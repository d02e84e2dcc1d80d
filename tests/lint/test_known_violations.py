"""No kernel breaks a rule of either release of NKI, contested rules included."""

import importlib
import importlib.util
import pkgutil

import pytest

import nki_kernels
from nki_sim import Kernel
from nki_sim.base.releases import TRACED
from nki_sim.lint import lint


def kernels():
    """Yields every kernel of the package, by module and name."""
    for module in pkgutil.walk_packages(nki_kernels.__path__, "nki_kernels."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, Kernel) and value.func.__module__ == module.name:
                yield f"{module.name.rpartition('.')[2]}.{name}", value


KERNELS = dict(kernels())


def violations(kernel):
    """Returns the text of each violation of a kernel and of its helpers."""
    return [str(found) for found in lint(kernel, contested=True, release=TRACED)]


@pytest.mark.weekly
@pytest.mark.sweep
@pytest.mark.parametrize("name", KERNELS)
def test_no_kernel_breaks_a_rule(name):
    assert violations(KERNELS[name]) == []


def test_no_helper_of_all_kernels_breaks_a_rule(tmp_path):
    """A function that calls all kernels, so that each of their helpers is checked once."""
    path = tmp_path / "all_kernels.py"
    names = [name.replace(".", "_of_") for name in KERNELS]
    path.write_text(
        "def all_kernels(x):\n" + "".join(f"    {name}(x)\n" for name in names), "utf-8"
    )
    spec = importlib.util.spec_from_file_location("all_kernels", path)
    module = importlib.util.module_from_spec(spec)
    vars(module).update(zip(names, KERNELS.values(), strict=True))
    spec.loader.exec_module(module)
    assert violations(module.all_kernels) == []
