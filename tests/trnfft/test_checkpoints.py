"""Checkpoints whose backward pass runs with other settings than their forward pass."""

import contextlib

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import trnfft
from tests import sweeps
from tests.tolerances import near, transforms
from tests.trnfft.samples import single

FUNCTIONS = {
    "torch.fft": lambda x: torch.fft.fft(x).abs(),
    "trnfft": lambda x: trnfft.fft(x).abs(),
    "an operator": lambda x: (torch.fft.rfft(x) * 1j).real.sin(),
}
SETTINGS = {
    "none": (),
    "backend": (lambda: trnfft.backend("matmul"),),
    "block": (trnfft.patch_torch,),
    "both": (trnfft.patch_torch, lambda: trnfft.backend("matmul")),
    "precision": (lambda: trnfft.backend("matmul"), lambda: trnfft.precision("kahan")),
}


@contextlib.contextmanager
def entered(name):
    with contextlib.ExitStack() as stack:
        for enter in SETTINGS[name]:
            stack.enter_context(enter())
        yield


@sweeps.pairs(function=FUNCTIONS, forward=SETTINGS, backward=SETTINGS, is_reentrant=[False, True])
def test_gradients(function, forward, backward, is_reentrant):
    run = FUNCTIONS[function]
    x, expected = single(8).requires_grad_(), single(8).requires_grad_()
    run(expected).sum().backward()
    with entered(forward):
        y = checkpoint(run, x, use_reentrant=is_reentrant)
    with entered(backward):
        y.sum().backward()
        kept = trnfft.get_backend(), trnfft.get_precision()
    near(x.grad, expected.grad, 4 * transforms(8))
    with entered(backward):
        assert kept == (trnfft.get_backend(), trnfft.get_precision())


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("is_stopped", [False, True])
def test_gradients_after_a_stop(function, is_stopped):
    x, expected = single(8).requires_grad_(), single(8).requires_grad_()
    FUNCTIONS[function](expected).sum().backward()
    patch = trnfft.patch_torch()
    with trnfft.backend("matmul"):
        patch.start()
        y = checkpoint(FUNCTIONS[function], x, use_reentrant=False)
        if is_stopped:
            patch.stop()
        y.sum().backward()
        if not is_stopped:
            patch.stop()
    near(x.grad, expected.grad, 4 * transforms(8))


def test_the_second_time_has_the_settings_of_the_first():
    seen = []

    def run(x):
        seen.append((trnfft.get_backend(), trnfft.get_precision()))
        return x.sin()

    x = single(3).requires_grad_()
    with trnfft.backend("matmul"), trnfft.precision("kahan"):
        y = checkpoint(run, x, use_reentrant=False)
    y.sum().backward()
    assert seen == [("matmul", "kahan")] * 2
    assert (trnfft.get_backend(), trnfft.get_precision()) == ("auto", "fast")
