"""Fixtures for tests on the stand-in for TorchNeuron, which ./scripts/test.sh --neuron runs.

The device stays in the process once it is registered, so that these tests need a process of their
own. They fail without a C++ compiler.
"""

import os
from pathlib import Path

import pytest

# Plans are small, for the chip that TorchNeuron runs on. These lines come before any code reads the
# variables.
os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = "trn2"
os.environ.pop("NEURON_LOGICAL_NC_CONFIG", None)


# Files of tests on native complex tensors, and calls of which one of each kind runs with them.
OF_COMPLEX_STORAGE = {
    *("test_complex_probes.py", "test_complex_storage.py", "test_models.py", "test_patch.py"),
    *("test_split_results.py", "test_stand_in.py", "test_torch_func.py"),
}
OF_BOTH_MODES = {"fft", "irfft", "stft", "ComplexLinear", "SpectralConv1d"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Marks as sweeps, on a device that stores complex numbers, tests that have none."""
    from .stand_in.device import stores_complex

    for item in items if stores_complex() else ():
        arguments = getattr(item, "callspec", None)
        name = arguments and arguments.params.get("name")
        if item.path.parent != Path(__file__).parent:
            continue
        if item.path.name not in OF_COMPLEX_STORAGE and name not in OF_BOTH_MODES:
            item.add_marker(pytest.mark.sweep)


@pytest.fixture(scope="session", autouse=True)
def library(tmp_path_factory, pytestconfig):
    """Installs the device "neuron" for the whole session."""
    from trnfft.base import config

    from .stand_in import compile_backend, device, nki_hop

    folder = pytestconfig.cache.mkdir("neuron_device")
    library = device.install(folder)
    nki_hop.device = library
    compile_backend.install()
    config.has_nki = lambda: True  # the simulator's kernels represent those of the real package
    return library


@pytest.fixture(autouse=True, scope="session")
def torch_neuronx(library):
    """Installs a stand-in for TorchNeuron's package, unless a test asks for the other package."""
    from .stand_in import packages

    with packages.installed("torch_neuronx"):
        yield


@pytest.fixture
def counted(library):
    """Returns a context manager: `with counted() as counts`."""
    from .stand_in import device

    return lambda: device.counted(library)


@pytest.fixture
def launches():
    """Returns the names of the kernels that run during the test, with their degrees of LNC."""
    from .stand_in import nki_hop

    nki_hop.LAUNCHES.clear()
    return nki_hop.LAUNCHES
