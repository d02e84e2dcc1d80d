"""The HBM traffic of layers, as bench/layer_traffic.py counts it."""

import pytest
import torch
from typer.testing import CliRunner

from bench import layer_traffic
from trnfft import nn


class Doubled(torch.nn.Module):
    """One operation that reads and writes its input, and a view that does not."""

    def forward(self, x):
        return (x * 2).mT


def test_operations_read_and_write_and_views_do_not():
    found = layer_traffic.measured(layer_traffic.Case("", Doubled, ((3, 5),)), "trn1")
    assert (found.launches, found.launched_bytes, found.other_bytes) == (0, 0, 2 * 4 * 15)
    assert found.other_us > 0


def test_a_layer_of_one_launch():
    case = layer_traffic.Case("", nn.FNetMixer, ((2, 12, 20),))
    found = layer_traffic.measured(case, "trn2")
    assert found.launches == 1 and found.launched_us > 0
    assert found.launched_bytes >= 4 * 4 * 2 * 12 * 20  # complex in, complex out
    assert found.other_bytes >= 2 * 4 * 12 * 20  # what makes the imaginary part


@pytest.mark.sweep
def test_a_layer_apart_takes_more():
    def layer():
        return nn.SpectralConv1d(4, 4, 8)

    for is_trained in (False, True):
        case = layer_traffic.Case("", layer, ((3, 4, 64),), True, is_trained)
        fused, apart = (layer_traffic.measured(case, "trn2", way) for way in (False, True))
        assert (fused.launches, apart.launches) == ((2, 3) if is_trained else (1, 2))
        assert fused.launched_bytes < apart.launched_bytes
        assert 2 * fused.other_bytes < apart.other_bytes


def test_the_table(monkeypatch):
    cases = (layer_traffic.Case("a mixer", nn.FNetMixer, ((2, 4, 6),)),)
    monkeypatch.setattr(layer_traffic, "CASES", cases)
    text = CliRunner().invoke(layer_traffic.app, ["trn1"], env={"COLUMNS": "160"}).stdout
    assert "trn1" in text and "a mixer" in text and "2 x 4 x 6" in text
    assert CliRunner().invoke(layer_traffic.app, ["trn9"]).exit_code == 2
