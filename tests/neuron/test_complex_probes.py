"""The probe of complex tensors on the stand-in, in both of its modes."""

import pytest
import torch

from bench.probes import complex_tensors

from .stand_in.device import stores_complex

REFUSED_IN_GRAPHS = ("_fft_r2c", "_fft_c2c")  # which the decomposition leaves complex


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


@pytest.mark.parametrize("mode", complex_tensors.MODES)
@pytest.mark.parametrize("name", complex_tensors.OPERATIONS)
def test_what_the_device_stores_is_right_and_the_rest_refused(name, mode):
    answer = complex_tensors.ask(name, mode, "1")
    if stores_complex() and not (mode == "compiled" and name in REFUSED_IN_GRAPHS):
        assert answer.verdict == "right" and not answer.reason, answer
    else:
        assert answer.verdict == "refused" and answer.kernel.relative_error is None, answer
        assert answer.reason
