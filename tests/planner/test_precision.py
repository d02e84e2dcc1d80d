"""Precision modes: the setting, the plans and the accuracy of transforms."""

import itertools
import threading

import numpy as np
import pytest
import torch

import trnfft
from tests import sweeps
from tests.sweeps import whole


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


def relative_error(x, precision, backend):
    with trnfft.precision(precision), trnfft.backend(backend):
        y = trnfft.fft(x)
    assert y.real.dtype == x.real.dtype
    expected = np.fft.fft(x.numpy().astype(complex))
    return np.linalg.norm(trnfft.as_native(y).numpy() - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("backend", ["torch", "nki-sim"])
def test_accuracy_of_transforms(backend):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 512, dtype=torch.complex64, generator=generator)
    assert relative_error(x, "fast", backend) < 1e-6
    assert relative_error(x, "kahan", backend) < 5e-8
    assert relative_error(x, "double", backend) < 5e-8
    assert relative_error(x.to(torch.complex128), "double", backend) < 1e-14


def test_gradients_have_the_precision_of_their_forward_pass():
    x = torch.randn(512, dtype=torch.complex64, requires_grad=True)
    weight = torch.randn(512)
    with trnfft.backend("nki-sim"), trnfft.precision("kahan"):
        y = trnfft.fft(x)
    (y.real * weight).sum().backward()
    expected = np.fft.fft(weight.double().numpy()).conj()
    error = np.linalg.norm(x.grad.numpy() - expected) / np.linalg.norm(expected)
    assert error < 5e-8


@sweeps.some(
    "name, n, backend",
    itertools.product(["bf16", "bf16_refined"], [8, 128, 509, 1000, 4096], ["torch", "nki-sim"]),
    [
        *[("bf16", n, "nki-sim") for n in (8, 128, 509)],
        ("bf16", 1000, "torch"),
        *[("bf16_refined", n, "nki-sim") for n in (128, 1000)],
        ("bf16_refined", 509, "torch"),
    ],
)
def test_bfloat16_modes_keep_their_budgets(name, n, backend):
    most = {"bf16": 1e-2, "bf16_refined": 2e-5}[name]
    x = torch.randn(130, n, dtype=torch.complex64, generator=torch.Generator().manual_seed(n))
    error = relative_error(x, name, backend)
    algorithm = trnfft.plan(n, batch=130, precision=name).algorithm
    assert algorithm == f"stockham_{name}" or n != 128
    if backend == "nki-sim" and algorithm.endswith(name):
        # Operands of bfloat16, or of pairs of them: no float32 would be so far off.
        assert {"bf16": 5e-4, "bf16_refined": 1e-6}[name] < error < most
    else:
        assert error < 1e-6


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
