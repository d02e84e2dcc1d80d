"""The probe of complex tensors on the stand-in, which has no storage for them and refuses all."""

import pytest
import torch

from bench.probes import complex_tensors
from bench.probes.report import MODES


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", complex_tensors.OPERATIONS)
def test_a_device_without_complex_storage_refuses(name, mode):
    answer = complex_tensors.ask(name, mode, "0")
    assert answer.verdict == "refused", answer
    assert "no storage" in answer.reason or "has torch.complex64" in answer.reason
