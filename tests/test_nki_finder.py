"""The module that ``import nki`` finds with the simulator's finder in front of the others."""

import importlib
import sys

import pytest

import nki_sim
from nki_sim.base.installed_nki import find_nki, is_simulated
from nki_sim.import_nki.nki_finder import NkiFinder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Returns a folder to import from, in a state where no nki is imported or installed."""
    monkeypatch.delenv("NKI_SIM_ALWAYS", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "nki"]:
        monkeypatch.delitem(sys.modules, name)
    before = set(sys.modules)
    monkeypatch.setattr(sys, "meta_path", [NkiFinder(), *sys.meta_path])
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == "nki":
            del sys.modules[name]


def package(folder, body):
    (folder / "nki").mkdir()
    (folder / "nki" / "__init__.py").write_text(body)
    importlib.invalidate_caches()


def test_the_simulator_answers_where_nothing_is_installed(folder):
    import nki
    import nki.isa
    import nki.language as nl
    from nki.isa import engine

    assert nki.__simulator__ and is_simulated()
    assert nl is nki_sim.language and nki.isa is nki_sim.isa and engine.vector
    assert nki.jit is nki_sim.jit
    assert nki_sim.language.__spec__.name == "nki_sim.language"
    with pytest.raises(ModuleNotFoundError, match=r"nki\.absent"):
        importlib.import_module("nki.absent")


def test_a_real_package_is_never_shadowed(folder):
    package(folder, "def jit(f): return f\n")
    import nki

    assert nki.__file__ == str(folder / "nki" / "__init__.py")
    assert not is_simulated()
    assert find_nki().state == "real"
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("nki.language")


def test_a_real_package_that_is_broken_says_so_itself(folder):
    package(folder, "raise OSError('libnrt.so.1: no such file')\n")
    with pytest.raises(OSError, match="libnrt"):
        importlib.import_module("nki")


def test_the_variable_chooses_the_simulator(folder, monkeypatch):
    package(folder, "def jit(f): return f\n")
    monkeypatch.setenv("NKI_SIM_ALWAYS", "1")
    assert importlib.import_module("nki").__simulator__


def test_the_placeholder_of_the_public_index_is_no_package(folder):
    package(folder, 'raise ImportError("WRONG PACKAGE. Please install the package from ...")\n')
    assert importlib.import_module("nki").__simulator__


def test_modules_of_a_folder_without_init_stay_importable(folder):
    """A repository may keep its kernels in a folder of the name nki."""
    (folder / "nki").mkdir()
    (folder / "nki" / "kernels.py").write_text("import nki.language as nl\n")
    importlib.invalidate_caches()
    kernels = importlib.import_module("nki.kernels")
    assert kernels.nl is nki_sim.language


def test_what_the_finder_answers_is_no_real_nki(folder):
    assert find_nki().state == "absent"
    assert "nki" not in sys.modules
    importlib.import_module("nki")
    assert find_nki().state == "absent"
