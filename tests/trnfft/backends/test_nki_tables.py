"""The backend "nki" with the simulator's kernels instead of a device's: tables and devices."""

import pytest
import torch

import nki_sim
import trnfft
from nki_sim.hardware import TARGET_VARIABLE
from tests.tolerances import near, transforms
from trnfft.backends import nki, torch_neuron
from trnfft.backends.device_tables import uploaded
from trnfft.base import config, neuron_launchers

from ..samples import random_complex


@pytest.fixture
def on_cpu(monkeypatch):
    """The host's memory is that of a device, and the real nki is here."""
    monkeypatch.setenv(TARGET_VARIABLE, "trn1")
    monkeypatch.setattr(config, "has_nki", lambda: True)
    monkeypatch.setattr(nki, "NEURON_DEVICES", ("cpu",))
    monkeypatch.setattr(neuron_launchers, "launcher", lambda name: nki_sim.simulate)
    monkeypatch.setattr(torch_neuron, "_first_degree", [])
    uploaded.cache_clear()


def test_uploaded_tables_are_those_of_direction_and_norm(on_cpu):
    z = random_complex(3, 12, dtype=torch.complex64)
    with trnfft.backend("nki"):
        for name in ("fft", "ifft", "fft"):
            for norm in ("backward", "ortho", "forward"):
                expected = getattr(torch.fft, name)(z.to(torch.complex128), norm=norm)
                near(getattr(trnfft, name)(z, norm=norm), expected, transforms(12))


def test_tensors_that_are_on_no_neuron_device_are_refused(monkeypatch):
    monkeypatch.setattr(config, "has_nki", lambda: True)
    with trnfft.backend("nki"):
        for call in (trnfft.fft, trnfft.rfft, trnfft.irfft, trnfft.fft2):
            with pytest.raises(RuntimeError, match="'input' is on device 'cpu'.*xla, neuron"):
                call(torch.ones(4, 8))
