"""Fixtures for tests on the stand-in for TorchNeuron, which ./scripts/test.sh --neuron runs.

The device stays in the process once it is registered, so that these tests need a process of their
own. They fail without a C++ compiler.
"""

import os

import pytest

# Plans are small, for the chip that TorchNeuron runs on. These lines come before any code reads the
# variables.
os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = "trn2"
os.environ.pop("NEURON_LOGICAL_NC_CONFIG", None)


@pytest.fixture(scope="session", autouse=True)
def library(tmp_path_factory, pytestconfig):
    """Installs the device "neuron" for the whole session."""
    from trnfft import config

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
