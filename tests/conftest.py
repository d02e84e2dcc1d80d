"""Settings and fixtures for every test.

The kernels and their simulator need only NumPy. Where torch is not installed, their tests run, and
pytest ignores the tests that import torch or trnfft.
"""

import gc
import importlib.util
import os
import re
import sys
from functools import cache
from pathlib import Path

# The simulator and torch multiply many small matrices, and tests run in parallel. Each process uses
# one thread, because more threads would wait for each other. These lines come before any import of
# NumPy or torch.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Tests use this project's simulator, even where the real nki is installed. With 0, those tests that
# can do so run in AWS's simulator.
os.environ.setdefault("NKI_SIM_ALWAYS", "1")

import pytest  # noqa: E402

from tests.scheduling import scheduling, starts_processes  # noqa: E402

ROOT = Path(__file__).parents[1]
HAS_TORCH = importlib.util.find_spec("torch") is not None
# Folders whose tests need torch, whatever they import.
OF_TRNFFT = {"fuzz", "planner", "trnfft", "trnfft_demo"}
COMPARES_NUMBERS = re.compile(r"\bnear\(|\bholds\(|check_rows_are_independent|tests\.tolerances")
# Folders with tests of programs around the product, whose sweeps run weekly.
PROGRAMS = ("tests/bench/", "tests/examples/", "tests/scripts/")
GROUPS_OF_PROCESSES = {"two", "four"}  # fixtures of tests/trnfft/distributed


def pytest_ignore_collect(collection_path, config):
    """Returns True for tests/neuron unless named, and without torch for tests that need torch.

    The device that tests/neuron registers stays in the process, so that these tests need a process
    of their own.
    """
    if collection_path.name == "neuron" and not any("neuron" in arg for arg in config.args):
        return True
    is_file = collection_path.suffix == ".py"
    if is_file and config.getoption("numeric"):
        return not COMPARES_NUMBERS.search(collection_path.read_text("utf-8")) or None
    if HAS_TORCH:
        return None
    if collection_path.is_dir():
        return collection_path.name in OF_TRNFFT or None
    if not is_file:
        return None
    return _needs_torch(collection_path) or None


@cache
def _needs_torch(path):
    """Returns whether a file of tests imports torch or trnfft, itself or by files of this tree."""
    text = path.read_text("utf-8")
    if re.search(r"^(from|import) (torch|trnfft)\b", text, re.MULTILINE):
        return True
    for module in re.findall(r"^(?:from|import) ([.\w]+)", text, re.MULTILINE):
        folders = [path.parent] if module.startswith(".") else [ROOT, ROOT / "scripts"]
        files = [folder / f"{module.strip('.').replace('.', '/')}.py" for folder in folders]
        if any(file.is_file() and _needs_torch(file) for file in files):
            return True
    return False


def pytest_addoption(parser):
    parser.addoption(
        "--budgets",
        metavar="LANE",
        help="fail where tests exceed their budget, see tests/budgets.py",
    )
    parser.addoption(
        "--numeric",
        choices=["all", "last"],
        help="only files that compare numbers by tests.tolerances, and all cases of their tests, "
        "or the last case of each",
    )


def pytest_configure(config):
    if HAS_TORCH:  # the unit of costs contains some torch
        from tests.budgets import Accountant

        config.pluginmanager.register(Accountant(config))
        if importlib.util.find_spec("hypothesis"):  # which the environment of tests/xla lacks
            from tests.torch_random import register

            register()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return scheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_itemcollected(item):
    """Marks tests of programs as weekly, before -m chooses."""
    if item.nodeid.startswith(PROGRAMS):
        item.add_marker("weekly")


@pytest.hookimpl(trylast=True)  # after -m has chosen
def pytest_collection_modifyitems(config, items):
    """Checks the names of tests that start processes, and keeps the last cases for --numeric last.

    Raises an error where the name of a test that starts several processes does not say so.
    """
    for item in items:
        uses_group = not GROUPS_OF_PROCESSES.isdisjoint(getattr(item, "fixturenames", ()))
        if uses_group and not starts_processes(item.nodeid):
            raise pytest.UsageError(f"{item.nodeid} runs several processes: name it so")
    if config.getoption("numeric") == "last":
        last = {item.nodeid.partition("[")[0]: item for item in items}
        kept = set(last.values())
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = last.values()


def pytest_collection_finish(session):
    """Excludes all objects of imports and of the collection from garbage collection.

    These objects stay until the end. Python examined some millions of them again and again, which
    needed an eighth of the time of 866 tests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, *gc.get_threshold()[1:])


@pytest.fixture(autouse=True, scope="session")
def own_cache_folder(tmp_path_factory):
    """Redirects the plans that tests remember to a folder of their own."""
    if not HAS_TORCH:  # there is no planner without torch
        yield
        return
    import platformdirs

    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(platformdirs, "user_cache_dir", lambda *names: str(folder / "-".join(names)))
        yield


@pytest.fixture(autouse=True)
def default_settings():
    """Seeds torch before each test, and resets the backend and the precision after it."""
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(0)
    yield
    if config := sys.modules.get("trnfft.base.config"):  # few tests of kernels load this module
        config._backend.set(None)
        config._precision.set("fast")


@pytest.fixture(params=["trn1", "trn2"])
def strict_chip(request):
    """Runs a test on both chips, one after the other; warnings of the simulator are errors."""
    import nki_sim
    from nki_sim import hardware

    with hardware.select(hardware.chip(request.param)), nki_sim.strict():
        yield request.param


@pytest.fixture
def no_complex_dtype():
    """Returns a context that fails where an operation of torch returns a tensor of a complex dtype.

    Together with the "matmul" backend, the context represents a device without complex dtypes.
    """
    from tests.trnfft.complex.strict import NoComplexDtypes

    return NoComplexDtypes()
