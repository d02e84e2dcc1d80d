"""Precision modes: the setting, the plans and the accuracy of transforms."""

import itertools
import threading

import numpy as np
import pytest
import torch

import trnfft
from tests import sweeps
from tests.sweeps import whole
from tests.tolerances import near, relative_error, transforms
from trnfft.planner.accuracy import MAX_ERRORS


def test_the_setting():
    assert trnfft.get_precision() == "fast"
    with trnfft.precision("kahan"):
        assert trnfft.get_precision() == "kahan"
        trnfft.set_precision("double")
        assert trnfft.get_precision() == "double"
    assert trnfft.get_precision() == "fast"
    with pytest.raises(ValueError, match='"fast".*"kahan".*"double".*"bf16".*"bf16_refined"'):
        trnfft.set_precision("quad")
    with pytest.raises(ValueError, match="quad"), trnfft.precision("quad"):
        pass


def test_a_thread_changes_it_for_itself():
    seen = []

    def work():
        trnfft.set_precision("kahan")
        seen.append(trnfft.get_precision())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert (seen, trnfft.get_precision()) == (["kahan"], "fast")


def test_plans_follow_the_setting():
    assert trnfft.plan(256).algorithm != "butterfly_kahan"
    with trnfft.precision("kahan"):
        plan = trnfft.plan(256)
    assert plan.algorithm == "butterfly_kahan"
    assert plan == trnfft.plan(256, precision="kahan")
    assert trnfft.plan(256, precision="kahan", max_error=1e-6).algorithm != "butterfly_kahan"
    host = trnfft.plan(1000, precision="double")
    assert (host.algorithm, host.launches, host.predicted_ns) == ("host", 0, None)


def transformed(x, precision, backend):
    """Returns the transform in a mode on a backend, and the exact one."""
    with trnfft.precision(precision), trnfft.backend(backend):
        y = trnfft.fft(x)
    assert y.real.dtype == x.real.dtype
    return y, np.fft.fft(x.numpy().astype(complex))


@pytest.mark.parametrize("backend", ["torch", "nki-sim"])
def test_accuracy_of_transforms(backend):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 512, dtype=torch.complex64, generator=generator)
    near(*transformed(x, "fast", backend), transforms(512))
    near(*transformed(x, "kahan", backend), MAX_ERRORS["kahan"])
    near(*transformed(x, "double", backend), MAX_ERRORS["kahan"])  # rounded once
    near(*transformed(x.to(torch.complex128), "double", backend), transforms(512, dtype="float64"))


def test_gradients_have_the_precision_of_their_forward_pass():
    x = torch.randn(512, dtype=torch.complex64, requires_grad=True)
    weight = torch.randn(512)
    with trnfft.backend("nki-sim"), trnfft.precision("kahan"):
        y = trnfft.fft(x)
    (y.real * weight).sum().backward()
    near(x.grad, np.fft.fft(weight.double().numpy()).conj(), MAX_ERRORS["kahan"])


@pytest.mark.weekly
@sweeps.some(
    "name, n, backend",
    itertools.product(["bf16", "bf16_refined"], [8, 128, 509, 1000, 4096], ["torch", "nki-sim"]),
    [
        *[("bf16", n, "nki-sim") for n in (8, 128, 509)],
        ("bf16", 1000, "torch"),
        ("bf16_refined", 128, "nki-sim"),
        ("bf16_refined", 509, "torch"),
    ],
)
def test_bfloat16_modes_keep_their_budgets(name, n, backend):
    x = torch.randn(130, n, dtype=torch.complex64, generator=torch.Generator().manual_seed(n))
    found, exact = transformed(x, name, backend)
    if backend != "nki-sim":
        near(found, exact, transforms(4 * n, 2))
        return
    algorithm = trnfft.plan(n, batch=130, precision=name).algorithm
    assert algorithm == f"stockham_{name}" or n != 128
    if algorithm.endswith(name):
        near(found, exact, MAX_ERRORS[name])
        # Operands of bfloat16, or of pairs of them: no float32 would be so far off.
        error = relative_error(found, exact)
        assert error > {"bf16": 5e-4, "bf16_refined": 1e-6}[name]
    else:
        near(found, exact, MAX_ERRORS["fast"])


@pytest.mark.parametrize(
    "n, target",
    [(128, "trn1"), whole(128, "trn2"), whole(128, "trn3"), (1024, "trn2"), whole(1024, "trn3")],
)
def test_bfloat16_is_taken_where_the_tensor_engine_binds(n, target):
    prices = {}
    for mode in ("fast", "bf16_refined", "bf16"):
        plan = trnfft.plan(n, batch=2**17 // n, precision=mode, target=target, cores=1)
        prices[mode] = plan.predicted_ns
    assert plan.algorithm in ("dft_gemm_bf16", "stockham_bf16")
    assert prices["bf16"] <= prices["bf16_refined"] <= prices["fast"]
