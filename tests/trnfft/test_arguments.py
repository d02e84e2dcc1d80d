"""Refused tensors, lengths, devices and dtypes, and the messages about them."""

import resource

import pytest
import torch

import trnfft
from trnfft.functions import arguments


def refused(error, *parts):
    return pytest.raises(error, match=".*".join(parts))


ODD_TENSORS = {
    "sparse_coo": lambda: torch.ones(4, 4).to_sparse(),
    "sparse_csr": lambda: torch.ones(4, 4).to_sparse_csr(),
    "_mkldnn": lambda: torch.ones(4, 4).to_mkldnn(),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "memory|GiB": lambda: torch.ones(1).expand(2**48),
    "bits8": lambda: torch.empty(4, dtype=torch.bits8),
}


@pytest.mark.filterwarnings("ignore")  # of prototypes in torch
@pytest.mark.parametrize("words", ODD_TENSORS)
def test_tensors_that_are_no_rows_of_numbers(words):
    for call in (trnfft.fft, trnfft.rfft, trnfft.nn.FNetMixer()):
        with refused((TypeError, RuntimeError), "argument 'input' ", f"({words})"):
            call(ODD_TENSORS[words]())
    with refused((TypeError, RuntimeError), "argument 'psf' ", f"({words})"):
        trnfft.bloom(torch.ones(4, 4), ODD_TENSORS[words]())


@pytest.mark.parametrize("n", [2**63, -(2**63) - 1, 10**5000], ids=lambda n: n.bit_length())
def test_ints_of_more_than_64_bits(n):
    with refused(ValueError, "argument 'n' is", "64 bits"):
        trnfft.fft(torch.ones(4), n)
    with refused(ValueError, "argument 'dim' is", "64 bits"):
        trnfft.fftn(torch.ones(4), dim=(n,))


@pytest.mark.parametrize(
    "n", [torch.tensor(True), torch.empty((), dtype=torch.int64, device="meta"), [1, 2], "8", int]
)
def test_ints_are_ints(n):
    with refused(TypeError, "argument 'n' must be an int, not"):
        trnfft.fft(torch.ones(4), n)


@pytest.mark.parametrize("value", ["x" * 10**6, torch.ones(3, 3), (10**5000,)], ids=type)
def test_values_in_messages_take_one_short_line(value):
    with refused(ValueError, "argument 'padding' is") as error:
        trnfft.bloom(torch.ones(4, 4), torch.ones(2, 2), padding=value)
    assert len(str(error.value)) < 300 and "\n" not in str(error.value)


def test_one_number_for_several_may_be_a_tensor():
    assert arguments.integers("s", torch.tensor(3)) == (3,)
    assert arguments.integers("s", torch.tensor([3, 4])) == (3, 4)
    with refused(TypeError, "argument 's' must be an int, not bytes"):
        arguments.integers("s", b"ab")


@pytest.mark.parametrize("n", [2**40, 2**48])
def test_lengths_beyond_the_memory(n):
    with trnfft.backend("torch"):
        for call in (trnfft.fft, trnfft.rfft, trnfft.hfft):
            with refused(RuntimeError, f"argument 'n' is {n}", "GiB here"):
                call(torch.ones(4), n)
        with refused(RuntimeError, "argument 's' is ", "GiB here"):
            trnfft.fft2(torch.ones(4, 4), (n, 4))
    assert trnfft.fft(torch.empty(1, device="meta"), n).shape == (n,)


def test_the_limit_of_a_process_counts_as_its_memory(monkeypatch):
    x = torch.ones(1).expand(2**27)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (2**29, -1))
    arguments.check_tensor("x", x)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (2**29 - 1, -1))
    with refused(RuntimeError, "argument 'x' has shape"):
        arguments.check_tensor("x", x)


LAYERS = {
    "ComplexLinear": (4, 6),
    "ComplexConv1d": (4, 6, 3),
    "ComplexConv2d": (4, 6, 3),
    "FFTConv1d": (4, 6, 3),
    "FFTConv2d": (4, 6, 3),
    "SpectralConv1d": (4, 6, 3),
    "SpectralConv2d": (4, 6, 3, 2),
    "ModReLU": (4,),
    "ComplexBatchNorm": (4,),
    "BlockCirculantLinear": (4, 6, 2),
}


@pytest.mark.parametrize("name", LAYERS)
def test_parameters_of_layers(name):
    layer, sizes = getattr(trnfft.nn, name), LAYERS[name]
    for device in ("x", "", -1, "cuda:99"):
        with refused(RuntimeError, "argument 'device' is", "devices of this computer"):
            layer(*sizes, device=device)
    with refused(TypeError, "argument 'device' is"):
        layer(*sizes, device=[])
    for dtype in (torch.float8_e4m3fn, torch.int8, "float32", float):
        with refused(TypeError, "argument 'dtype' is"):
            layer(*sizes, dtype=dtype)
    with refused((RuntimeError, ValueError), "argument '\\w+' is 1099511627776"):
        layer(2**40, *sizes[1:])
    with refused(RuntimeError, "argument '\\w+' is", "GiB"):
        layer(2**62, *sizes[1:], device="meta")
    with refused(ValueError, "argument '\\w+' is an int of 101 bits"):
        layer(2**100, *sizes[1:])


@pytest.mark.parametrize("name", ["ComplexLinear", "ComplexConv1d", "FFTConv1d"])
def test_bias_is_a_flag(name):
    with refused(TypeError, "argument 'bias' is"):
        getattr(trnfft.nn, name)(*LAYERS[name], bias=torch.tensor(True))
