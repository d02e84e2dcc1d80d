"""`trnfft.plan_layer`: the launches of a layer, which stays as it is."""

from __future__ import annotations

import pytest
import torch

import nki_sim
import trnfft
from nki_sim import hardware
from tests.refusals import refused
from trnfft import nn

LAYERS = {
    "spectral convolution": (lambda: nn.SpectralConv1d(8, 6, 9), (5, 8, 64)),
    "spectrogram": (lambda: nn.Spectrogram(64, hop_length=20), (3, 900)),
    "bands": (lambda: nn.MelSpectrogram(8000, 128, n_mels=16), (3, 900)),
    "tokens": (nn.FNetMixer, (2, 16, 24)),
    "blocks": (lambda: nn.BlockCirculantLinear(64, 64, 16), (8, 64)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_launches_are_those_of_the_simulator(name, monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")
    monkeypatch.setenv(hardware.LNC_VARIABLE, "1")
    make, shape = LAYERS[name]
    layer = make().requires_grad_(False)
    plan = trnfft.plan_layer(layer, shape, target="trn2", cores=1)
    with trnfft.backend("nki-sim"), torch.no_grad(), nki_sim.record() as timeline:
        layer(torch.randn(shape))
    assert plan.launch_count() == timeline.launches
    assert plan.hbm_bytes() == sum(one.count * one.hbm_bytes for one in plan.launches)
    assert plan.hbm_bytes() == pytest.approx(timeline.hbm_bytes, rel=0.01)
    assert plan.predicted_ns() == pytest.approx(timeline.total_ns, rel=0.01)


def test_the_layer_is_as_before():
    layer = nn.SpectralConv2d(4, 8, 3, 4)
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    plan = trnfft.plan_layer(layer, (3, 4, 16, 20), backward=True, target="trn2")
    assert [one.phase for one in plan.launches] == ["forward", "backward"]
    assert [one.algorithm for one in plan.launches] == [
        "spectral_convolution_kept",
        "spectral_gradients",
    ]
    for name, parameter in layer.named_parameters():
        assert torch.equal(parameter, before[name])
        assert parameter.grad is None and parameter.device.type == "cpu"


def test_complex_inputs_and_shared_parameters():
    layer = nn.ComplexLinear(4, 4)
    both = torch.nn.Sequential(layer, layer)
    spec = torch.empty(3, 4, dtype=torch.complex64, device="meta")
    plan = trnfft.plan_layer(both, spec, target="trn1")
    assert plan.launch_count() == 0 and plan.operators["forward"] > 0 and plan.is_supported


def test_what_it_prints():
    text = str(trnfft.plan_layer(nn.SpectralConv1d(8, 6, 9), (5, 8, 64), target="trn1", cores=1))
    first, total, launch, last = text.splitlines()
    assert first == "modelled, on 1 core of trn1"
    assert total.startswith("forward   1 launch, ") and total.endswith("other operators of torch")
    assert "MB of HBM: spectral_convolution" in launch and "batch 5" in launch
    assert last.startswith("eager, with a launch, about ")


test_wrong_arguments = refused(
    lambda arguments: trnfft.plan_layer(*arguments),
    [
        ((torch.relu, (3,)), TypeError, "argument 'layer' is of type"),
        ((torch.nn.ReLU(), 3), TypeError, "argument 'inputs' has 3, allowed are shapes"),
        ((torch.nn.ReLU(), "ab"), TypeError, "argument 'inputs' has 'ab'"),
        ((torch.nn.ReLU(), (3, -1)), ValueError, r"the shape \(3, -1\), allowed are sizes"),
        ((torch.nn.ReLU(), (3, 1.5)), TypeError, "argument 'inputs'"),
        ((torch.nn.ReLU(), (2**40, 2**40)), RuntimeError, "argument 'inputs' has the shape"),
    ],
)


def test_wrong_chips():
    for target in ("trn9", ["trn1"]):
        with pytest.raises(ValueError, match=r"argument 'target' is .*allowed are trn1"):
            trnfft.plan_layer(torch.nn.ReLU(), (3,), target=target)
