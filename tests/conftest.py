"""Settings and fixtures for every test.

The kernels and their simulator need NumPy only. Where torch is not installed, their tests run and
those of files that import torch or trnfft are left out.
"""

import gc
import importlib.util
import os
import re
import sys

# The simulator and torch multiply many small matrices, and tests run in parallel: one thread each,
# as more of them wait for each other. Set before anything imports NumPy or torch.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# The tests are of our simulator, also where the real nki is; 0 runs those that can under AWS's.
os.environ.setdefault("TRNFFT_SIMULATOR", "1")

import pytest  # noqa: E402

HAS_TORCH = importlib.util.find_spec("torch") is not None
OF_TRNFFT = {"fuzz", "planner", "trnfft"}  # folders: their tests need torch, whatever they import
GROUPS_OF_PROCESSES = {"two", "four", "eight"}  # fixtures of tests/trnfft/distributed


def pytest_ignore_collect(collection_path, config):
    """True for tests/neuron, unless asked for, and for what needs torch where it is not installed.

    The device that tests/neuron registers stays in the process: they need one of their own.
    """
    if collection_path.name == "neuron" and not any("neuron" in arg for arg in config.args):
        return True
    if HAS_TORCH:
        return None
    if collection_path.is_dir():
        return collection_path.name in OF_TRNFFT or None
    if collection_path.suffix != ".py":
        return None
    needs_torch = re.compile(r"^(from|import) (torch|trnfft)\b", re.MULTILINE)
    return bool(needs_torch.search(collection_path.read_text("utf-8"))) or None


def starts_processes(nodeid):
    """Whether a test starts several processes, as its folder, its file or its name says."""
    return re.search(r"/distributed/(?!test_plan\.py)|/test_distributed\.py|_processes", nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With --dist loadgroup tests of several processes run one after the other, on one worker.

    So that no more processes than those of two groups run at a time. The mark of pytest-xdist 3.8
    for that is without effect since pytest 9.2 (pytest-xdist's issue 1386).
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class Scheduling(LoadGroupScheduling):
        def _split_scope(self, nodeid):
            return "processes" if starts_processes(nodeid) else super()._split_scope(nodeid)

    return Scheduling(config, log)


def pytest_collection_modifyitems(items):
    """An error where a test of several processes has no name of one."""
    for item in items:
        uses_group = not GROUPS_OF_PROCESSES.isdisjoint(getattr(item, "fixturenames", ()))
        if uses_group and not starts_processes(item.nodeid):
            raise pytest.UsageError(f"{item.nodeid} runs several processes: name it so")


def pytest_collection_finish(session):
    """The collector of cycles skips what was imported and collected, which stays to the end.

    It looked at some millions of objects again and again: of 866 tests that took an eighth.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, *gc.get_threshold()[1:])


@pytest.fixture(autouse=True, scope="session")
def own_cache_folder(tmp_path_factory):
    """Plans that tests find are remembered in a folder of their own."""
    if not HAS_TORCH:  # and so no planner
        yield
        return
    import platformdirs

    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(platformdirs, "user_cache_dir", lambda *names: str(folder / "-".join(names)))
        yield


@pytest.fixture(autouse=True)
def default_settings():
    """No test sees the backend or the precision that another one chose and left."""
    yield
    if config := sys.modules.get("trnfft.config"):  # few tests of kernels load it
        config._backend.set(None)
        config._precision.set("fast")


@pytest.fixture(params=["trn1", "trn2"])
def strict_chip(request):
    """A test on both chips, one after the other; warnings of the simulator are errors."""
    from nki_kernels import hardware, simulator

    with hardware.select(hardware.chip(request.param)), simulator.strict():
        yield request.param


@pytest.fixture
def no_complex_dtype():
    """A context that fails where an operation of torch returns a tensor of a complex dtype.

    It stands for a device without complex dtypes, with the "matmul" backend.
    """
    from tests.trnfft.complex.strict import NoComplexDtypes

    return NoComplexDtypes()
