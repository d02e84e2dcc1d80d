"""The backend "nki-sim" at the chip's degree of LNC: results and launches."""

from __future__ import annotations

import itertools

import pytest
import torch

import nki_sim
import trnfft
from nki_sim import hardware
from nki_sim.hardware import LNC_VARIABLE, TARGET_VARIABLE
from tests import sweeps
from tests.tolerances import near, sums, together, transforms
from trnfft.backends import nki, torch_neuron
from trnfft.base import neuron_launchers
from trnfft.nn import BlockCirculantLinear

from ..ops.derivatives import all_near, double, gradients, in_double
from ..samples import random_complex, single

CHIPS = ("trn2", "trn3")


def complex_(*shape):
    return random_complex(*shape, dtype=torch.complex64)


def exact_of(function, *inputs):
    """Returns the result of a function by torch.fft in float64."""
    wide = {torch.float32: torch.float64, torch.complex64: torch.complex128}
    with trnfft.backend("torch"):
        return function(*(x.to(wide[x.dtype]) for x in inputs))


def tolerance(n, count=1):
    """Returns that of transforms of n points, which for 257, a prime, are sums of n products."""
    return together(*[sums(n)] * count) if n == 257 else transforms(n, count)


def planned_and_back(x):
    return trnfft.ifft(trnfft.fft(x, order="planned") * 2.0, order="planned")


FUNCTIONS = {
    "fft": trnfft.fft,
    "ifft": trnfft.ifft,
    "rfft": trnfft.rfft,
    "irfft": trnfft.irfft,
    "hfft": trnfft.hfft,
    "ihfft": trnfft.ihfft,
    "planned order": planned_and_back,
}
REAL = ("rfft", "ihfft")
LENGTHS = (1, 2, 3, 7, 16, 127, 256, 257, 360, 512)  # of each kind of kernel for rows one

SEVERAL = {
    "fft2": (trnfft.fft2, complex_(4, 6)),
    "fft2, batch": (trnfft.fft2, complex_(3, 16, 8)),
    "ifft2": (trnfft.ifft2, complex_(1, 5, 12)),
    "fft2, one row": (trnfft.fft2, complex_(1, 1, 64)),
    "rfft2": (trnfft.rfft2, single(2, 12, 40)),
    "irfft2": (trnfft.irfft2, complex_(12, 21)),
    "fftn": (trnfft.fftn, complex_(4, 2, 8)),
    "rfftn": (trnfft.rfftn, single(2, 4, 6, 8)),
    "irfftn": (trnfft.irfftn, complex_(4, 6, 5)),
    "a length without a kernel for planes": (trnfft.fft2, complex_(257, 4)),
}

CONVOLUTIONS = {
    "rows": (trnfft.convolve, single(3, 100), single(1, 20)),
    "one row": (trnfft.convolve, single(40), single(9)),
    "rows and filters": (trnfft.convolve, single(3, 64), single(3, 64)),
    "in blocks": (lambda x, h: trnfft.oaconvolve(x, h, dims=-1), single(2, 900), single(1, 30)),
    "images": (
        lambda x, h: trnfft.convolve(x, h, dims=(-2, -1)),
        single(2, 12, 20),
        single(1, 5, 5),
    ),
}


@pytest.fixture(params=CHIPS)
def chip(request):
    return request.param


@pytest.fixture(autouse=True)
def launches_on(chip, monkeypatch):
    """The chip, at its default, degree 2."""
    monkeypatch.setenv(TARGET_VARIABLE, chip)
    monkeypatch.delenv(LNC_VARIABLE, raising=False)


def on_one_chip(names, cases):
    """Parametrization over cases on both chips, by default each on one of them, in turn."""
    by_default = [(*case, CHIPS[index % 2]) for index, case in enumerate(cases)]
    every = [(*case, chip) for case in cases for chip in CHIPS]
    return sweeps.some(f"{names}, chip", every, by_default)


def simulated(function, *inputs):
    """The result, of launches on two cores alone, which break no rule; one point needs none."""
    with trnfft.backend("nki-sim"), nki_sim.strict(), nki_sim.record() as timeline:
        y = function(*inputs)
    where = f"{hardware.current().name}, LNC=2" if inputs[0].shape[-1] > 1 else ""
    assert timeline.where == where
    return y


@sweeps.some(
    "name, n, batch, chip",
    itertools.product(FUNCTIONS, LENGTHS, [1, 3], CHIPS),
    # Each kind of data for each length, whose plans are the same, and all functions for two.
    [
        (name, n, *((3, "trn2"), (1, "trn3"))[index % 2])
        for index, n in enumerate(LENGTHS)
        for name in (FUNCTIONS if n in (16, 512) else ("fft", "rfft", "irfft"))
    ],
)
def test_rows(name, n, batch, chip):
    function = FUNCTIONS[name]
    if name in ("irfft", "hfft") and n == 1:
        n = 2  # half spectra of one number are of no data
    x = (single if name in REAL else complex_)(batch, n)
    count = 2 if function is planned_and_back else 1
    near(simulated(function, x), exact_of(function, x), tolerance(n, count))


@on_one_chip("name", [(name,) for name in SEVERAL])
def test_several_axes(name, chip):
    function, x = SEVERAL[name]
    of_rows, of_columns = (tolerance(2 * x.shape[-1]), tolerance(x[..., 0].numel()))
    near(simulated(function, x), exact_of(function, x), together(of_rows, of_columns))


@on_one_chip("name", [(name,) for name in CONVOLUTIONS])
def test_convolutions(name, chip):
    function, *inputs = CONVOLUTIONS[name]
    found = simulated(function, *inputs)
    near(found, exact_of(function, *inputs), transforms(2 * inputs[0][0].numel(), 2))


@on_one_chip("p, q, k, rows", [(1, 2, 256, 3), (1, 1, 4, 1), (2, 3, 8, 1), (3, 2, 64, 5)])
def test_block_circulant_layers_forward_and_backward(p, q, k, rows, chip):
    layer = BlockCirculantLinear(q * k, p * k, k)
    x = single(rows, q * k)
    found = simulated(lambda x: gradients(layer, x, power=2), x)
    expected = in_double(gradients, double(layer), x, power=2)
    all_near(found, expected, [transforms(k, 2), transforms(k, 4)])


@sweeps.some("chip", CHIPS, ["trn2"])
def test_gradients_of_transforms(chip):
    x = single(3, 40).requires_grad_()

    def gradient(x):
        return torch.autograd.grad(trnfft.rfft(x).abs().pow(3).sum(), x)[0]

    near(simulated(gradient, x), exact_of(gradient, x), transforms(40, 3))


@pytest.mark.parametrize("degree", [1, 2])
def test_what_is_planned_is_launched(monkeypatch, chip, degree):
    monkeypatch.setenv(LNC_VARIABLE, str(degree))
    x = complex_(128, 256)
    plan = trnfft.plan(256, batch=128)
    with trnfft.backend("nki-sim"), nki_sim.record() as timeline:
        trnfft.fft(x)
    assert plan.where == timeline.where == f"{chip}, LNC={degree}"
    assert plan.predicted_ns == pytest.approx(timeline.total_ns, rel=0.01)


def test_a_degree_that_the_chip_lacks_is_refused_before_the_launch(monkeypatch):
    monkeypatch.setenv(TARGET_VARIABLE, "trn1")
    monkeypatch.setenv(LNC_VARIABLE, "2")
    message = f"{LNC_VARIABLE} is '2', allowed on trn1 is 1"
    with nki_sim.record() as timeline, trnfft.backend("nki-sim"):
        pytest.raises(ValueError, trnfft.fft, single(8)).match(message)
    assert timeline.launches == 0


@pytest.mark.parametrize("degree", [1, 2])
def test_the_backend_nki_launches_at_the_degree_too(monkeypatch, chip, degree):
    """With the simulator's kernels in place of a device's."""
    monkeypatch.setattr(nki, "NEURON_DEVICES", ("cpu",))
    monkeypatch.setattr(neuron_launchers, "launcher", lambda name: nki_sim.simulate)
    monkeypatch.setattr(torch_neuron, "_first_degree", [])
    monkeypatch.setenv(LNC_VARIABLE, str(degree))
    x = complex_(128, 64)
    recipe = trnfft.plan(64, batch=128).recipe
    with nki_sim.record() as timeline:
        re, im = nki.Nki("nki").run(recipe, (x.real, x.imag))
    assert timeline.where == f"{chip}, LNC={degree}"
    near(torch.complex(re, im), exact_of(trnfft.fft, x), transforms(64))
