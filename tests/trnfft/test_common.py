"""What all functions and layers have in common: derivatives, vmap, graphs, no complex dtype.

A row is a function of real tensors, with real tensors or complex ones as its results.
"""

from __future__ import annotations

import pytest
import torch

import trnfft
from tests import sweeps
from tests.tolerances import near, sums, together, transforms
from trnfft import ComplexTensor, nn

from .nn.layers import COMPLEX_LAYERS, LAYERS, case
from .samples import random


def of_parts(function):
    """Returns the function of real and imaginary parts."""
    return lambda real, imag, *rest: function(ComplexTensor(real, imag), *rest)


FUNCTIONS = {
    "czt on a spiral": (of_parts(lambda x: trnfft.czt(x, 4, 0.98 - 0.1j, 1.02)), [(2, 5)] * 2),
    "czt on a circle": (lambda x: trnfft.czt(x, 3, a=0.9), [(2, 5)]),
    "zoom_fft": (of_parts(lambda x: trnfft.zoom_fft(x, 0.3, 4)), [(2, 5)] * 2),
    "fht": (lambda a: trnfft.fht(a, 0.1, 0.5, 0.2, 0.1), [(2, 7)]),
    "ifht": (lambda a: trnfft.ifht(a, 0.2, 1.0), [(2, 7)]),
    **{
        f"{name} {type} of {n}": (
            lambda x, name=name, type=type: getattr(trnfft, name)(x, type, norm="ortho"),
            [(2, n)],
        )
        for name in ("dct", "dst")
        for type, n in ((1, 3), (2, 4), (2, 3), (3, 4), (4, 3))
    },
    **{
        f"{name} {type}": (
            lambda x, name=name, type=type: getattr(trnfft, name)(x, type, axes=(1, 2)),
            [(2, 3, 4)],
        )
        for name in ("dctn", "dstn")
        for type in (1, 2, 3, 4)
    },
    "stft": (lambda x, window: trnfft.stft(x, 6, 2, window=window), [(2, 9), (6,)]),
    "stft of complex numbers": (
        of_parts(lambda x, window: trnfft.stft(x, 6, 2, window=window)),
        [(2, 9), (2, 9), (6,)],
    ),
    "stft by a complex window": (
        lambda a, b, c, d: trnfft.stft(ComplexTensor(a, b), 6, 2, window=ComplexTensor(c, d)),
        [(2, 9), (2, 9), (6,), (6,)],
    ),
    "istft by a complex window": (
        lambda a, b, c, d: trnfft.istft(
            ComplexTensor(a, b), 6, 2, window=ComplexTensor(c.abs() + 1, d), return_complex=True
        ),
        [(1, 6, 3), (1, 6, 3), (6,), (6,)],
    ),
    **{
        f"istft to {kind} numbers": (
            of_parts(
                lambda x, window, is_complex=kind == "complex": trnfft.istft(
                    x, 6, 2, window=window.abs() + 0.5, return_complex=is_complex
                )
            ),
            [(1, count, 3), (1, count, 3), (6,)],
        )
        for kind, count in (("real", 4), ("complex", 6))
    },
    **{
        f"convolve, {mode}": (
            lambda x, h, mode=mode: trnfft.convolve(x, h, mode, -1),
            [(2, 6), (1, 3)],
        )
        for mode in ("full", "same", "valid")
    },
    **{
        f"convolve, {padding}": (
            lambda x, h, padding=padding: trnfft.convolve(x, h, "same", -1, padding),
            [(3, 4), (1, 7)],
        )
        for padding in ("circular", "mirror")
    },
    **{
        f"oaconvolve, {mode}": (
            lambda x, h, mode=mode: trnfft.oaconvolve(x, h, mode, -1),
            [(2, 13), (1, 2)],
        )
        for mode in ("full", "same", "valid")
    },
    **{
        f"{name} of complex numbers": (
            lambda a, b, c, d, name=name: getattr(trnfft, name)(
                ComplexTensor(a, b), ComplexTensor(c, d), "same"
            ),
            [(1, 4)] * 4,
        )
        for name in ("convolve", "oaconvolve")
    },
    "convolve, complex by real numbers": (
        of_parts(lambda x, h: trnfft.convolve(x, h, "same", -1, "mirror")),
        [(2, 6), (2, 6), (1, 3)],
    ),
    "pack_spectrum": (of_parts(trnfft.pack_spectrum), [(3, 5)] * 2),
    "unpack_spectrum": (of_parts(trnfft.unpack_spectrum), [(3, 4)] * 2),
    **{
        f"bloom, {padding}": (
            lambda x, psf, padding=padding: trnfft.bloom(x, psf, strength=0.7, padding=padding),
            [(2, 3), (3, 2)],
        )
        for padding in ("zero", "mirror")
    },
    "MelSpectrogram": (
        nn.MelSpectrogram(8000, 16, n_mels=4, wkwargs=dict(dtype=torch.float64)).double(),
        [(50,)],
    ),
    "LongConv": (lambda u, k: nn.LongConv()(u, k), [(2, 2, 6), (2, 4)]),
}
# Of which a compiled graph is compared by default; graphs take a second each.
COMPILED = (
    *("czt on a spiral", "fht", "dct 1 of 3", "dst 4 of 3", "istft to real numbers"),
    *("oaconvolve, same", "bloom, mirror", "MelSpectrogram", "BlockCirculantLinear", "FFTConv2d"),
)

NAMES = [*FUNCTIONS, *LAYERS]
every = pytest.mark.parametrize("name", NAMES)


def function_of(name):
    """Returns a function, its inputs, and the parameters that it gets behind them."""
    if name in FUNCTIONS:
        function, shapes = FUNCTIONS[name]
        return function, [random(*shape, seed=seed) for seed, shape in enumerate(shapes)], []
    layer, x = case(name)
    names = [name for name, _ in layer.named_parameters()]

    def run(*given):
        inputs, parameters = given[: len(given) - len(names)], given[len(given) - len(names) :]
        x = ComplexTensor(*inputs) if len(inputs) == 2 else inputs[0]
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), x)

    inputs = [x.real.clone(), x.imag.clone()] if name in COMPLEX_LAYERS else [x]
    return run, inputs, [parameter.detach() for parameter in layer.parameters()]


def in_parts(function):
    """Returns the function with a tuple of real results."""

    def run(*given):
        y = function(*given)
        return (y.real, y.imag) if y.is_complex() else (y,)

    return run


def leaves(tensors):
    return [x.clone().requires_grad_() for x in tensors]


@pytest.mark.parametrize("backend", ["torch", "matmul"])
@every
def test_first_and_second_derivatives(name, backend):
    function, inputs, parameters = function_of(name)
    given = leaves([*inputs, *parameters])
    with trnfft.backend(backend):
        options = dict(fast_mode=True, check_forward_ad=True)
        assert torch.autograd.gradcheck(in_parts(function), given, **options)
        assert torch.autograd.gradgradcheck(in_parts(function), given, fast_mode=True)


# vmap cannot write running averages.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "ComplexBatchNorm"])
def test_vmap(name):
    function, inputs, parameters = function_of(name)
    both = [torch.stack([x, x.flip(-1)], 1) for x in inputs]
    dims = (*[1] * len(inputs), *[None] * len(parameters))
    found = torch.vmap(in_parts(function), dims)(*both, *parameters)
    for index in range(2):
        expected = in_parts(function)(*(x[:, index] for x in both), *parameters)
        for one, other in zip(found, expected, strict=True):
            near(one[index], other, transforms(256, 4, "float64"))


@pytest.mark.weekly
@sweeps.some("name", NAMES, COMPILED)
def test_one_graph_computes_it_with_gradients(name):
    function, inputs, parameters = function_of(name)
    torch._dynamo.reset()
    compiled = torch.compile(in_parts(function), fullgraph=True, backend="aot_eager")
    found = []
    for run in (compiled, in_parts(function)):
        given = leaves([*inputs, *parameters])
        results = run(*given)
        loss = sum((y**3).sum() for y in results)
        found.append([*results, *torch.autograd.grad(loss, given)])
    for one, other in zip(*found, strict=True):
        near(one, other, together(transforms(256, 6, "float64"), sums(64, "float64")))


@every
def test_no_complex_dtype_is_needed(name, no_complex_dtype):
    function, inputs, parameters = function_of(name)
    given = leaves([*inputs, *parameters])
    with trnfft.backend("matmul"), no_complex_dtype:
        sum(y.square().sum() for y in in_parts(function)(*given)).backward()
    assert all(x.grad.isfinite().all() for x in given)
