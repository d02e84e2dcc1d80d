"""What the tests on the stand-in for TorchNeuron share. They run by ./scripts/test.sh --neuron.

The device, once registered, stays in the process: these tests have one of their own. Without a C++
compiler they fail.
"""

import os

import pytest

# Small plans, on the chip that TorchNeuron runs on. Set before anything reads them.
os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = "trn2"
os.environ.pop("NEURON_LOGICAL_NC_CONFIG", None)


@pytest.fixture(scope="session", autouse=True)
def library(tmp_path_factory, pytestconfig):
    """The device "neuron", for the whole session."""
    from trnfft import config

    from .stand_in import compile_backend, device, nki_hop

    folder = pytestconfig.cache.mkdir("neuron_device")
    library = device.install(folder)
    nki_hop.device = library
    compile_backend.install()
    config.has_nki = lambda: True  # the simulator's kernels stand for those of the real package
    return library


@pytest.fixture(autouse=True, scope="session")
def torch_neuronx(library):
    """TorchNeuron's package is there, but where a test asks for the other one."""
    from .stand_in import packages

    with packages.installed("torch_neuronx"):
        yield


@pytest.fixture
def counted(library):
    """A context manager: `with counted() as counts`."""
    from .stand_in import device

    return lambda: device.counted(library)


@pytest.fixture
def launches():
    """Names of the kernels that ran since, with their degrees of LNC."""
    from .stand_in import nki_hop

    nki_hop.LAUNCHES.clear()
    return nki_hop.LAUNCHES
