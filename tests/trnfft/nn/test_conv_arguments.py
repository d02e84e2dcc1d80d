"""Arguments of convolution layers: each error names an argument, when the layer is made."""

import numpy as np
import pytest
import torch

from trnfft.nn import ComplexConv1d, ComplexConv2d, FFTConv1d, FFTConv2d

ALL = pytest.mark.parametrize("layer", [ComplexConv1d, ComplexConv2d, FFTConv1d, FFTConv2d])


@ALL
@pytest.mark.parametrize(
    "name, value",
    [
        ("kernel_size", 0),
        ("kernel_size", torch.tensor(4.0)),
        ("kernel_size", ("a", "b")),
        ("stride", None),
        ("stride", 0),
        ("padding", -1),
        ("padding", "8"),
        ("padding", (1, 1, 1)),
        ("dilation", 1.5),
        ("groups", 3),
        ("bias", "no"),
    ],
)
def test_errors_name_the_argument(layer, name, value):
    sizes = {"in_channels": 4, "out_channels": 6, "kernel_size": 3}
    wrong = "in_channels" if name == "groups" else name
    with pytest.raises((TypeError, ValueError), match=f"argument '{wrong}' "):
        layer(**{**sizes, name: value})


@ALL
def test_same_needs_a_stride_of_one(layer):
    with pytest.raises(ValueError, match="argument 'padding' is 'same'"):
        layer(4, 6, 3, stride=2, padding="same")


@pytest.mark.parametrize("mode", [None, {}, "x", ["zeros"]], ids=str)
@pytest.mark.parametrize("layer", [FFTConv1d, FFTConv2d])
def test_modes_of_padding(layer, mode):
    with pytest.raises(ValueError, match="argument 'padding_mode' is"):
        layer(4, 6, 3, padding_mode=mode)


@pytest.mark.parametrize(
    "x, layer, sentence",
    [
        (torch.ones(2, 3, 20), ComplexConv1d(4, 6, 3), "has shape .* allowed are .B, 4, L."),
        (torch.ones(20), ComplexConv1d(4, 6, 3), "has shape"),
        (torch.ones(4, 2), ComplexConv1d(4, 6, 3), "has 2 points with its padding"),
        (torch.ones(4, 9, 2), ComplexConv2d(4, 6, 3, dilation=(1, 2)), "has 2 points"),
        (torch.ones(4, 20).double(), ComplexConv1d(4, 6, 3), "has parts of torch.float64"),
        (torch.ones(4, 20), ComplexConv1d(4, 6, 3, padding=2**48), "'padding' is .* GiB"),
        (torch.ones(4, 20), FFTConv1d(4, 6, 3, padding=2**48), "'padding' is .* GiB"),
    ],
)
def test_inputs_that_do_not_fit(x, layer, sentence):
    with pytest.raises(RuntimeError, match=f"argument .*{sentence}"):
        layer(x)


def test_an_input_as_long_as_the_filter_fits():
    assert ComplexConv1d(4, 6, 3, padding=1)(torch.ones(4, 1)).shape == (6, 1)
    assert ComplexConv1d(4, 6, 3, padding="same")(torch.ones(4, 1)).shape == (6, 1)


@pytest.mark.parametrize("layer", [ComplexConv2d, FFTConv2d])
def test_sizes_may_be_arrays(layer):
    x = torch.ones(2, 4, 9, 9)
    for sizes in (np.array([2, 2]), torch.tensor([2, 2]), torch.tensor(2), np.int64(2)):
        made = layer(4, 6, sizes, stride=sizes, padding=sizes, dilation=sizes)
        assert made(x).shape == (2, 6, 6, 6)
