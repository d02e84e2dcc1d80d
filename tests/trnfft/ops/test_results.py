"""Results are new contiguous tensors, no views, which may be edited, compiled and exported."""

import copy
import itertools

import numpy as np
import pytest
import torch

import trnfft
from tests import sweeps
from tests.tolerances import near, sums, together, transforms
from trnfft import ComplexTensor, nn

from ..samples import single
from .derivatives import BACKENDS, all_near

SHAPES = [(8,), (1, 8), (4, 8), (4, 1), (2, 3, 8), (1, 11), (70, 12)]

TRANSFORMS = {
    **{
        name: (lambda x, name=name: getattr(trnfft, name)(x))
        for name in ("fft", "ifft", "rfft", "ihfft", "fftn", "ifftn", "rfftn", "ihfftn")
    },
    **{
        name: (lambda x, name=name: getattr(trnfft, name)(x, 2 * x.shape[-1] - 1))
        for name in ("irfft", "hfft")
    },
    "fft of first": lambda x: trnfft.fft(x, dim=0),
    "rfft of first": lambda x: trnfft.rfft(x, dim=0),
    "irfft of first": lambda x: trnfft.irfft(x, 9, dim=0),
    "fftn of none": lambda x: trnfft.fftn(x, dim=()),
    "planned": lambda x: trnfft.fft(x, order="planned"),
    "from planned": lambda x: trnfft.ifft(x, order="planned"),
    "planned of first": lambda x: trnfft.fft(x, dim=0, order="planned"),
    "from planned of first": lambda x: trnfft.ifft(x, dim=0, order="planned"),
    "convolve": lambda x: trnfft.convolve(x, torch.ones((1,) * x.ndim), dims=-1),
    "convolve same": lambda x: trnfft.convolve(x, x.detach()[:3], "same"),
    "convolve circular": lambda x: trnfft.convolve(x, x.detach(), "same", padding="circular"),
    "oaconvolve": lambda x: trnfft.oaconvolve(x, x.detach()[:3], "same"),
}

LAYERS = {
    "BlockCirculantLinear": (lambda: nn.BlockCirculantLinear(8, 4, 4, bias=False), (3, 8)),
    "BlockCirculantLinear with bias": (lambda: nn.BlockCirculantLinear(8, 4, 4), (1, 8)),
    "FFTConv1d": (lambda: nn.FFTConv1d(2, 3, 3, bias=False), (2, 2, 9)),
    "FFTConv1d unbatched": (lambda: nn.FFTConv1d(2, 3, 3), (2, 9)),
    "FFTConv2d": (lambda: nn.FFTConv2d(2, 2, 3, bias=False), (1, 2, 7, 6)),
    "FNetMixer": (lambda: nn.FNetMixer(), (2, 4, 6)),
    "SpectralConv1d": (lambda: nn.SpectralConv1d(2, 3, 3), (2, 2, 8)),
    "SpectralConv2d": (lambda: nn.SpectralConv2d(2, 2, 2, 2), (2, 2, 5, 6)),
}


def parts_of(y):
    return [y.real, y.imag] if isinstance(y, ComplexTensor) else [y]


def assert_fresh(parts, *inputs):
    """Contiguous, in memory of their own."""
    memory = [x.untyped_storage().data_ptr() for x in (*parts, *inputs)]
    assert len(set(memory)) == len(memory)
    for part in parts:
        assert part.is_contiguous()
        assert part.view(-1).numel() == part.numel()


def edited_energy(y):
    """A sum that a mistake about what was edited would change, and its derivatives."""
    y[0] = 0
    y *= 2
    y[torch.arange(y.numel()).reshape(y.shape) % 3 == 1] = 0
    return (y * y.conj()).real.sum()


@sweeps.some(
    "name, shape, backend",
    itertools.product(TRANSFORMS, SHAPES, BACKENDS),
    # Each function with each backend, and each shape with each backend.
    [
        (name, SHAPES[(index + 2 * place) % len(SHAPES)], backend)
        for index, name in enumerate(TRANSFORMS)
        for place, backend in enumerate(BACKENDS)
    ],
)
def test_results_can_be_edited(name, shape, backend):
    run = TRANSFORMS[name]
    x = single(*shape).requires_grad_()
    same = single(*shape).double().requires_grad_()
    with trnfft.backend(backend):
        y = run(x)
        if backend != "torch":  # torch.fft has other layouts
            assert_fresh(parts_of(y), x)
        edited_energy(y).backward()
    edited_energy(run(same).clone()).backward()  # by torch.fft
    # Of a convolution there and back.
    near(x.grad, same.grad, transforms(2 * x.numel(), 4))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", LAYERS)
def test_results_of_layers_can_be_edited(name, backend):
    make, shape = LAYERS[name]
    layer = make()
    model = torch.nn.Sequential(layer, torch.nn.ReLU(inplace=True))
    x = single(*shape).requires_grad_()
    same = single(*shape).double().requires_grad_()
    with trnfft.backend(backend):
        assert_fresh(parts_of(layer(x)), x)
        (model(x) ** 2).sum().backward()
    (copy.deepcopy(model).double()(same) ** 2).sum().backward()
    near(x.grad, same.grad, together(transforms(2 * x.numel(), 4), sums(8)))


def traced(run, *inputs):
    return torch.jit.trace(run, inputs or (single(4, 8),), check_trace=False)


@pytest.mark.filterwarnings("ignore")  # torch.jit.trace is deprecated
@sweeps.some(
    "name, norm, backend",
    itertools.product(
        ["fft", "ifft", "rfft", "irfft", "fft2", "fftn", "fft of first"],
        ["backward", "ortho"],
        BACKENDS,
    ),
    [
        ("fft", "ortho", "matmul"),
        ("ifft", "backward", "nki-sim"),
        ("rfft", "backward", "matmul"),
        ("irfft", "ortho", "nki-sim"),
        ("fft2", "ortho", "matmul"),
        ("fft2", "backward", "torch"),
        ("fftn", "backward", "nki-sim"),
        ("fft of first", "ortho", "matmul"),
        ("fft of first", "backward", "torch"),
    ],
)
def test_traces_hold_for_other_shapes(name, norm, backend):
    function = getattr(trnfft, name.split()[0])
    dim = {"dim": 0} if "first" in name else {}

    def run(x):
        return tuple(parts_of(function(x, norm=norm, **dim)))

    with trnfft.backend(backend):
        trace = traced(run)
        for shape in ((6, 8), (1, 8), (4, 16), (4, 9)):
            all_near(trace(single(*shape)), run(single(*shape)), transforms(64, 2))
        for shape in ((8,), (2, 3, 8), (1, 4, 8)):  # of which it would transform other dimensions
            for _ in range(3):  # it is optimized from the second call on
                with pytest.raises(RuntimeError, match="(?i)dimension"):
                    trace(single(*shape))


CHAINS = {
    "there and back": lambda x: trnfft.irfft(trnfft.rfft(x), n=8),
    "back and there": lambda x: trnfft.ifft(trnfft.fft(x)).real,
    "filtered": lambda x: trnfft.irfft(trnfft.rfft(x) * torch.linspace(0, 1, 5), n=8),
    "two of them": lambda x: (trnfft.rfft(x) + trnfft.rfft(x.flip(0)).conj()).imag,
    "part of it": lambda x: trnfft.rfft(x)[..., :3].abs(),
    "other shape": lambda x: trnfft.rfft(x).mT.reshape(-1).clone().detach().real,
    "pairs": lambda x: torch.view_as_real(trnfft.rfft(x)),
    "native": lambda x: trnfft.as_native(trnfft.fft(x)).abs(),
    "joined": lambda x: torch.cat([trnfft.fft(x), trnfft.ifft(x)]).abs(),
    "frames": lambda x: trnfft.stft(x, 4, window=torch.hann_window(4)).abs(),
}


@pytest.mark.filterwarnings("ignore")  # torch.jit.trace is deprecated
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CHAINS)
def test_traces_of_several_functions_compute_with_other_numbers(name, backend):
    """What a trace does not see would stay what it was for the first input."""
    run = CHAINS[name]
    with trnfft.backend(backend):
        trace = traced(run)
        for seed in range(1, 4):  # it is optimized from the second call on
            x = single(4, 8, seed=seed)
            near(trace(x), run(x), transforms(8, 4))


@pytest.mark.filterwarnings("ignore")  # torch.jit.trace is deprecated
@pytest.mark.parametrize(
    "run, message",
    [
        (lambda x: trnfft.fft(x).mul_(2).real, "mul_, which writes into a ComplexTensor"),
        (lambda x: trnfft.fft(x).__setitem__(0, 0), "__setitem__, which writes into"),
        (lambda x: (trnfft.fft(x) * PARAMETER).real, "keep a parameter as two real tensors"),
    ],
)
def test_what_a_trace_cannot_see_is_refused(run, message):
    with trnfft.backend("matmul"), pytest.raises(NotImplementedError, match=message):
        traced(run)


PARAMETER = torch.nn.Parameter(trnfft.as_complex_tensor(torch.ones(8, dtype=torch.complex64)))


@pytest.mark.filterwarnings("ignore")  # torch.jit.trace is deprecated
@pytest.mark.parametrize("backend", ["matmul", "nki-sim"])
def test_a_traced_layer_has_its_gradients(backend):
    layer = trnfft.nn.SpectralConv1d(2, 3, 4)
    with trnfft.backend(backend):
        trace = traced(layer, single(2, 2, 16))
        for seed in range(1, 4):
            found = []
            for run in (layer, trace):
                layer.zero_grad()
                run(single(2, 2, 16, seed=seed)).square().sum().backward()
                found.append([parameter.grad.clone() for parameter in layer.parameters()])
            all_near(*found, together(transforms(16, 8), sums(8)))


@pytest.mark.filterwarnings("ignore")  # torch.jit.trace is deprecated
@pytest.mark.parametrize("backend", ["torch", "matmul"])
@pytest.mark.parametrize("name", ["convolve", "convolve same", "convolve circular", "oaconvolve"])
def test_traces_of_convolutions_refuse_other_lengths(name, backend):
    with trnfft.backend(backend):
        run = TRANSFORMS[name]
        trace = traced(run)
        near(trace(single(4, 8)), run(single(4, 8)), transforms(16, 4))
        for shape in ((4, 9), (4, 16), (4, 7), (2, 4, 8)):
            with pytest.raises(RuntimeError):
                trace(single(*shape))


@pytest.mark.parametrize("name", ["ifft", "ihfft", "ifftn", "ihfftn", "hfft"])
def test_torch_leaves_no_lazy_sign(name):
    x = single(3, 8)
    for part in parts_of(TRANSFORMS[name](x)):
        assert not part.is_neg() and not part.is_conj()
        assert part.numpy().tolist() == np.asarray(part).tolist() == part.tolist()


def test_planned_order_of_many_rows_is_fresh():
    """Of which the products take another way, in both directions and along any dimension."""
    with trnfft.backend("matmul"):
        for rows, dim in itertools.product((1, 70), (0, 1)):
            x = single(rows, 12) if dim else single(12, rows)
            y = trnfft.fft(x, dim=dim, order="planned")
            back = trnfft.ifft(y, dim=dim, order="planned")
            assert_fresh([*parts_of(y), *parts_of(back)], x)
            near(back.real, x, transforms(12, 2))
