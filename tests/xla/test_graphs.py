"""PyTorch-XLA's compilations, runs and transfers for a training step that contains a transform."""

import copy
import itertools
import re

import pytest
import torch

import trnfft
from tests.tolerances import near, sums, together
from tests.tolerances import transforms as of_transforms
from trnfft import ComplexTensor
from trnfft.backends.device_tables import uploaded

torch_xla = pytest.importorskip("torch_xla", reason="needs torch_xla: ./scripts/test.sh --xla")

# Lengths for one stage, for several stages, and for Bluestein's algorithm.
LENGTHS = {"DFT-GEMM": 100, "Stockham": 1000, "Bluestein": 1009}
TRANSFORMS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "irfftn"]
REAL_INPUT = ["rfft", "ihfft"]
WITH_LENGTH = ["irfft", "hfft"]  # the default length of these is even

# These instructions are slow or absent on a NeuronCore.
FORBIDDEN = {"gather", "scatter", "dynamic-slice", "dynamic-update-slice", "custom-call", "fft"}

transforms = pytest.mark.parametrize("name", TRANSFORMS)
lengths = pytest.mark.parametrize("n", LENGTHS.values(), ids=LENGTHS)
batches = itertools.count(3)


@pytest.fixture
def batch():
    """Returns a size that no other test has, so that no graph is compiled already."""
    return next(batches)


def leaves(name, batch, n, device, seed=0):
    """Returns the parts of an input, on the device."""
    parts = torch.randn(2, batch, n, generator=torch.Generator().manual_seed(seed))
    return [part.to(device).requires_grad_() for part in parts[: 1 if name in REAL_INPUT else None]]


def terms_of(module, name, x, n):
    """Returns numbers, each of which depends on every part of the transform of `x`."""
    y = getattr(module, name)(x, *([n] if name in WITH_LENGTH else []))
    if isinstance(y, torch.Tensor) and not y.is_complex():
        return y * y * y
    return y.real * y.real * y.imag + y.imag * y.imag


def step(name, parts, n):
    """Runs forward and backward, and returns the results."""
    x = ComplexTensor(*parts) if len(parts) == 2 else parts[0]
    loss = terms_of(trnfft, name, x, n).mean()
    loss.backward()
    return [loss.detach(), *(part.grad for part in parts)]


def check_step(name, actual, parts, n):
    """Fails unless results of a step are those of torch.fft and its autograd, in float64.

    Forward and backward are two transforms of up to 4 n for each of two dimensions. Squares,
    between them, have twice the errors. The loss is a mean of terms that cancel.
    """
    parts = [part.detach().cpu().double().requires_grad_() for part in parts]
    terms = terms_of(torch.fft, name, torch.complex(*parts) if len(parts) == 2 else parts[0], n)
    terms.mean().backward()
    tolerance = together(of_transforms(4 * n, 4 if name in ("fft2", "irfftn") else 2), sums(8))
    tolerance = together(2 * tolerance, tolerance)
    loss, *gradients = actual
    near(loss.cpu(), terms.mean(), tolerance, scale=terms.abs().mean())
    for gradient, part in zip(gradients, parts, strict=True):
        near(gradient.cpu(), part.grad, tolerance)


def hlo_of(tensors):
    """Returns the HLO of pending tensors, and the names of its instructions."""
    text = torch_xla._XLAC._get_xla_tensors_hlo(tensors)
    return text, set(re.findall(r"= \S+ ([a-z][\w-]*)\(", text))


@lengths
@transforms
def test_forward_and_backward_are_one_graph(name, n, batch, device, counted):
    """Which a second call neither compiles nor uploads anything for."""
    parts, others = (leaves(name, batch, n, device, seed) for seed in (0, 1))
    with counted() as counts:
        first = step(name, parts, n)
    assert (counts.compiled, counts.executed) == (1, 1)
    assert counts.from_device == 0
    assert counts.on_host == set()
    uploads = uploaded.cache_info().misses
    with counted() as counts:
        second = step(name, others, n)
    assert (counts.compiled, counts.executed) == (0, 1)
    assert (counts.to_device, counts.from_device) == (0, 0)
    assert uploaded.cache_info().misses == uploads
    check_step(name, first, parts, n)
    check_step(name, second, others, n)


@lengths
@transforms
def test_hlo(name, n, batch, device):
    parts = leaves(name, batch, n, device)
    text, instructions = hlo_of(step(name, parts, n))
    assert "dot" in instructions
    assert not instructions & FORBIDDEN
    assert not re.search(r"\bc(64|128)\[", text)


def test_hlo_in_planned_order(device):
    real, imag = leaves("fft", 2, 1000, device)
    y = trnfft.fft(ComplexTensor(real, imag), order="planned")
    z = trnfft.ifft(y * y, order="planned")
    (z.real * z.real * z.imag).sum().backward()
    _, instructions = hlo_of([z.real, z.imag, real.grad, imag.grad])
    assert "dot" in instructions
    assert not instructions & FORBIDDEN


@lengths
def test_tables_are_uploaded_once_a_plan_and_device(n, device, counted):
    uploaded.cache_clear()
    tables = uploaded.cache
    transfers, uploads = [], [uploaded.cache_info().misses]
    for size in (1, 2, 3):  # the graphs differ, the plan is the same
        real, imag = leaves("fft", size, n, device)
        with counted() as counts:
            y = trnfft.fft(ComplexTensor(real, imag))
            (y.real + y.imag).sum().backward()
        transfers.append(counts.to_device)
        uploads.append(uploaded.cache_info().misses)
    assert transfers == [sum(map(len, tables.values())), 0, 0]
    assert uploads[1:] == [uploads[0] + len(tables)] * 3


@lengths
def test_tables_are_parameters_of_the_graph(n, batch, device):
    trnfft.fft(torch.ones(1, n, device=device))  # this call makes the tables
    torch_xla.sync()
    text, instructions = hlo_of([trnfft.fft(torch.ones(batch, n, device=device)).real])
    assert "parameter" in instructions
    shapes = re.findall(r"\[([\d,]*)\]\S* constant\(", text)
    assert set(shapes) == {""}  # scalars


def test_torch_xla_compile(batch, device, counted):
    compiled = torch_xla.compile(lambda parts: step("fft", parts, 100))
    compiled(leaves("fft", batch, 100, device))
    parts = leaves("fft", batch, 100, device, seed=1)
    with counted() as counts:
        actual = compiled(parts)
    assert (counts.compiled, counts.executed) == (0, 1)
    check_step("fft", actual, parts, 100)


@pytest.mark.parametrize(
    ("name", "n"),
    [
        pytest.param(name, n, marks=[] if where == place else [pytest.mark.sweep])
        for where, name in enumerate(["fft", "rfft", "irfft"])
        for place, n in enumerate(LENGTHS.values())
    ],
)
def test_torch_compile(name, n, device, counted):
    torch.compiler.reset()
    compiled = torch.compile(
        lambda *parts: terms_of(
            trnfft, name, ComplexTensor(*parts) if parts[1:] else parts[0], n
        ).mean(),
        backend="openxla",
    )
    for seed in (0, 1):
        parts = leaves(name, 5, n, device, seed)
        with counted() as counts:
            loss = compiled(*parts)
            loss.backward()
        actual = [loss.detach(), *(part.grad for part in parts)]
        check_step(name, actual, parts, n)
    assert counts.compiled == 0  # nothing is compiled the second time
    assert (counts.to_device, counts.from_device) == (0, 0)
    assert counts.on_host == set()


@pytest.mark.parametrize("block_size", [16, 300])
def test_a_block_circulant_layer_is_one_graph(block_size, batch, device, counted):
    layer = trnfft.nn.BlockCirculantLinear(block_size + 5, 2 * block_size, block_size)
    x = torch.randn(batch, block_size + 5)
    results = []
    for module, place in ((copy.deepcopy(layer), "cpu"), (layer.to(device), device)):
        given = x.to(place).detach().requires_grad_()
        with counted() as counts:
            y = module(given)
            (y * y * y).mean().backward()
        gradients = [given.grad, module.weight.grad, module.bias.grad]
        results.append([part.detach().cpu() for part in (y, *gradients)])
    assert (counts.compiled, counts.executed, counts.from_device) == (1, 1, 0)
    assert counts.on_host == set()
    # Transforms of blocks forward and backward, sums over blocks and rows, on both places.
    tolerance = together(of_transforms(4 * block_size, 8), sums(8 * batch))
    for expected, value in zip(*results, strict=True):
        near(value, expected, tolerance)


@pytest.mark.parametrize("n_fft, hop", [(32, 8), (20, 7), (16, 24)])
def test_stft_is_one_graph(n_fft, hop, batch, device, counted):
    x = torch.randn(batch, 100)
    window = torch.hann_window(n_fft)
    results = []
    for place in ("cpu", device):
        given, weights = x.to(place).detach().requires_grad_(), window.to(place)
        with counted() as counts:
            y = trnfft.stft(given, n_fft, hop, window=weights)
            (y.real * y.real * y.imag).sum().backward()
        results.append([part.detach().cpu() for part in (y.real, y.imag, given.grad)])
    assert (counts.compiled, counts.executed, counts.from_device) == (1, 1, 0)
    assert counts.on_host == set()
    # Frames forward and backward, sums of frames that overlap, on both places.
    tolerance = together(of_transforms(n_fft, 4), sums(4 * n_fft // min(hop, n_fft)))
    for expected, value in zip(*results, strict=True):
        near(value, expected, tolerance)


# The measures above detect what they look for


def test_a_result_that_is_read_counts_as_a_transfer(device, counted):
    x = torch.ones(3, device=device)
    with counted() as counts:
        (x + 1).cpu()
    assert counts.from_device == 1


def test_an_operator_that_xla_lacks_counts(device, counted):
    x = torch.eye(3, device=device)
    with counted() as counts:
        torch.linalg.det(x)
    assert counts.on_host


def test_instructions_are_found(device):
    x = torch.ones(4, 4, device=device, requires_grad=True)
    x[0].sum().backward()  # the gradient of a selection
    assert "dynamic-update-slice" in hlo_of([x.grad])[1]
    index = torch.tensor([2, 0], device=device)
    assert "gather" in hlo_of([x.detach().index_select(0, index)])[1]
