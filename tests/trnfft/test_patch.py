"""trnfft computes torch's transforms inside of `patch_torch`, and torch again after it."""

import asyncio
import copy
import functools
import itertools
import operator
import pickle
import threading

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import nki_sim
import trnfft
from tests import sweeps
from tests.tolerances import near, sums, together, transforms
from trnfft import ComplexTensor
from trnfft.base import devices

from .samples import patched, random, single, whole_program

FROM_REAL = [f"{kind}{dims}" for kind in ("fft", "ifft", "rfft", "ihfft") for dims in ("", 2, "n")]
TO_REAL = [f"{kind}{dims}" for kind in ("irfft", "hfft") for dims in ("", 2, "n")]
WINDOW = torch.hann_window(16, dtype=torch.float64)


def is_patched():
    with trnfft.backend("matmul"):
        return isinstance(torch.fft.fft(torch.ones(2)), ComplexTensor)


def in_a_thread(function):
    """Returns what the function returns in a thread of its own."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.parametrize("name", FROM_REAL + TO_REAL)
@pytest.mark.parametrize("held", [False, True])
def test_every_transform_runs_kernels(name, held):
    x = random(4, 6, dtype=torch.float32 if name in FROM_REAL else torch.complex64)
    transform = getattr(torch.fft, name) if held else lambda x: getattr(torch.fft, name)(x)
    expected = transform(x)
    with trnfft.patch_torch(), trnfft.backend("nki-sim"), nki_sim.record() as timeline:
        actual = transform(x)
    assert timeline.launches >= 1
    assert isinstance(actual, ComplexTensor) == expected.is_complex()
    near(actual, expected, transforms(24))


@pytest.mark.parametrize("backend", ["torch", "matmul"])
def test_short_time_transforms(backend):
    x = random(2, 100)
    settings = dict(n_fft=16, hop_length=4, window=WINDOW)
    expected = torch.stft(x, return_complex=True, **settings)
    with trnfft.patch_torch(), trnfft.backend(backend):
        for spectrum in (
            torch.stft(x, return_complex=True, **settings),
            x.stft(return_complex=True, **settings),
        ):
            assert isinstance(spectrum, ComplexTensor) == (backend == "matmul")
            near(spectrum, expected, transforms(16, dtype="float64"))
            near(torch.istft(spectrum, length=100, **settings), x, transforms(16, 2, "float64"))
        near(torch.istft(expected, length=100, **settings), x, transforms(16, 2, "float64"))


@pytest.mark.parametrize("first, dim", [("input", "dim"), ("a", "axis"), ("x", "axis")])
def test_names_of_numpy_are_taken_as_torch_takes_them(first, dim):
    x = random(3, 4)
    expected = torch.fft.rfft(**{first: x, dim: 0})
    with trnfft.patch_torch():
        actual = torch.fft.rfft(**{first: x, dim: 0})
    near(actual, expected, transforms(3, dtype="float64"))


def test_native_out():
    x, out = random(3, 4), torch.empty(0, dtype=torch.complex128)
    with trnfft.patch_torch():
        assert torch.fft.fft(x, out=out) is out
    near(out, torch.fft.fft(x), transforms(4, dtype="float64"))
    with trnfft.patch_torch(), pytest.raises(RuntimeError, match="'out' is on device 'cpu' and"):
        torch.fft.fft(x.to("meta"), out=out)


def test_spectra_go_into_native_tensors_and_mix_with_native_weights():
    """What a Fourier neural operator does, with gradients."""
    x = random(2, 3, 8).requires_grad_()
    weight = random(3, 4, 2, dtype=torch.complex128, seed=1).requires_grad_()

    def layer():
        spectrum = torch.fft.rfft(x)
        out = torch.zeros(2, 4, 5, dtype=torch.cdouble)
        out[..., :2] = torch.einsum("bik,iok->bok", spectrum[..., :2], weight)
        y = torch.fft.irfft(out, n=8)
        return y, *torch.autograd.grad(y.square().sum(), (x, weight))

    expected = layer()
    with trnfft.patch_torch(), trnfft.backend("matmul"):
        actual = layer()
    layers = together(transforms(8, 4, "float64"), sums(2 * 12, "float64"))
    for found, exact in zip(actual, expected, strict=True):
        assert type(found) is torch.Tensor  # the gradient of a native weight, too
        near(found, exact, layers)


def test_other_functions_stay_as_they_are():
    with trnfft.patch_torch():
        assert type(torch.zeros(2, dtype=torch.cfloat)) is torch.Tensor
        assert type(torch.view_as_complex(torch.ones(3, 2))) is torch.Tensor
        assert type(torch.complex(torch.ones(2), torch.ones(2))) is torch.Tensor
        assert type(torch.polar(torch.ones(2), torch.ones(2))) is torch.Tensor


def test_blocks_nest_and_end_with_an_error():
    assert not is_patched()
    with trnfft.patch_torch():
        with trnfft.patch_torch():
            assert is_patched()
        assert is_patched()
        with pytest.raises(IndexError), trnfft.patch_torch():
            torch.fft.fft(torch.ones(2), dim=7)
        assert is_patched()
    assert not is_patched()


def test_one_object_serves_many_blocks():
    patch = trnfft.patch_torch()
    for _ in range(2):
        with patch:
            with patch:
                assert is_patched()
            assert is_patched()
        assert not is_patched()


def test_nested_blocks_compute_once():
    patches = trnfft.patch_torch(), trnfft.patch_torch()
    with patches[0], patches[1], trnfft.backend("nki-sim"), nki_sim.record() as timeline:
        torch.fft.fft(torch.ones(8))
    assert timeline.launches == 1


def test_a_block_is_for_its_own_thread():
    with trnfft.patch_torch():
        assert is_patched()
        assert not in_a_thread(is_patched)


def kinds_in_a_backward_pass(run):
    """The classes of a transform's results, of a custom function, a hook and a checkpoint."""
    found = []

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            found.append(type(torch.fft.fft(gradient)))
            return gradient

    def spectrum(x):
        y = torch.fft.fft(x)
        found.append(type(y))
        return y.real + y.imag.square()

    a = torch.ones(4, requires_grad=True)
    b = checkpoint(spectrum, Function.apply(a), use_reentrant=False) * 2
    b.register_hook(lambda gradient: found.append(type(torch.fft.fft(gradient))))
    run(b.sum(), a)
    return found


PASSES = {
    "backward": lambda y, a: y.backward(),
    "autograd.backward": lambda y, a: torch.autograd.backward(y),
    "autograd.grad": lambda y, a: torch.autograd.grad(y, a),
    "of complex numbers": lambda y, a: torch.complex(y, y).backward(torch.tensor(1 + 0j)),
}


@pytest.mark.parametrize("run", PASSES.values(), ids=PASSES.keys())
def test_what_a_backward_pass_runs_sees_the_block(run):
    with trnfft.backend("matmul"):
        assert set(kinds_in_a_backward_pass(run)) == {torch.Tensor}
        with trnfft.patch_torch():
            assert set(kinds_in_a_backward_pass(run)) == {ComplexTensor}
            assert is_patched()
        assert not is_patched()


def test_a_block_is_for_its_own_task():
    entered, left = asyncio.Event(), asyncio.Event()

    async def with_block():
        with trnfft.patch_torch():
            entered.set()
            await left.wait()
            return is_patched()

    async def without_block():
        await entered.wait()
        before = is_patched()
        with trnfft.patch_torch():
            within = is_patched()
        left.set()
        return before, within, is_patched()

    async def both():
        return await asyncio.gather(with_block(), without_block())

    assert asyncio.run(both()) == [True, (False, True, False)]
    assert not is_patched()


def test_the_whole_program():
    held = torch.fft.fft
    patch = trnfft.patch_torch()
    patch.start()
    try:
        assert is_patched()
        assert in_a_thread(is_patched)
        assert isinstance(held(torch.ones(2)), torch.Tensor)
        assert not isinstance(held(torch.ones(2)), ComplexTensor)  # taken before
        with trnfft.patch_torch(), trnfft.backend("nki-sim"), nki_sim.record() as timeline:
            assert isinstance(held(torch.ones(2)), ComplexTensor)
            torch.fft.rfft(torch.ones(8))
        assert timeline.launches == 2
        trnfft.patch_torch().start()
        patch.stop()
        assert is_patched()  # started twice
    finally:
        patch.stop()
    assert not is_patched()
    assert torch.fft.fft is held
    with pytest.raises(RuntimeError, match=r"start\(\)"):
        patch.stop()


@pytest.mark.parametrize("backend", ["torch", "matmul"])
def test_no_recursion_in_precisions_that_torch_computes(backend):
    x = single(8)
    with trnfft.patch_torch(), trnfft.backend(backend), trnfft.precision("double"):
        y = torch.fft.fft(x)
    near(y, torch.fft.fft(x), transforms(8))


def test_point_spread_functions_are_computed_in_float64_by_torch():
    expected = trnfft.point_spread_functions.star(9)
    with trnfft.patch_torch(), trnfft.backend("nki-sim"):
        near(trnfft.point_spread_functions.star(9), expected, transforms((9, 9)))


@sweeps.some(
    "inside, backend",
    itertools.product([False, True], ["torch", "matmul"]),
    [(False, "torch"), (True, "matmul")],
)
def test_compiled_to_one_graph(backend, inside):
    held = functools.partial(torch.fft.irfft, n=8)

    def double(x):
        return held(2 * torch.fft.rfft(x.to(torch.float64)))

    def patched_double(x):
        with trnfft.patch_torch():
            return double(x)

    x = random(3, 8).requires_grad_()
    torch._dynamo.reset()
    run = torch.compile(patched_double if inside else double, fullgraph=True, backend="aot_eager")
    with trnfft.backend(backend):
        if inside:
            y = run(x)
        else:
            with trnfft.patch_torch():
                y = run(x)
        y.square().sum().backward()
    near(y, 2 * x, transforms(8, 2, "float64"))
    near(x.grad, 8 * x, transforms(8, 4, "float64"))


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.fft.fft(torch.ones(3), out="x"),
        lambda: torch.fft.fft(torch.ones(3), out=torch.Tensor),
        lambda: torch.zeros(3, dtype="x"),
        lambda: torch.zeros(3, dtype=3),
        lambda: torch.complex("x", torch.ones(3)),
        lambda: torch.complex(),
    ],
)
def test_wrong_arguments_are_errors_of_type(call):
    with trnfft.patch_torch(), pytest.raises(TypeError):
        call()


def test_types_of_python_are_dtypes():
    with trnfft.patch_torch():
        assert torch.zeros(2, dtype=int).dtype == torch.int64


def test_what_replaces_functions_is_pickled_by_its_name():
    names = "fft.rfft", "fft.fftn", "zeros", "complex", "stft"
    with whole_program():
        for name in names:
            function = operator.attrgetter(name)(torch)
            held = functools.partial(function, 1)
            assert pickle.loads(pickle.dumps(function)) is function
            assert pickle.loads(pickle.dumps(held)).func is function
            assert copy.deepcopy(function) is function
        kept = pickle.dumps(torch.fft.rfft)
    assert pickle.loads(kept) is torch.fft.rfft  # where nothing is patched, torch's own


# TorchScript


class Padded(torch.nn.Module):
    def forward(self, x):
        return x + torch.zeros(3, device=x.device)


class Magnitudes(torch.nn.Module):
    def forward(self, x):
        frames = torch.stft(x, n_fft=4, window=torch.ones(4), return_complex=True)
        return torch.fft.rfft(x).abs(), frames.abs(), torch.complex(x, x).abs()


@pytest.fixture
def started():
    with whole_program():
        yield


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    "model, shape", [(Padded(), (2, 3)), (Magnitudes(), (2, 8))], ids=["real", "complex"]
)
def test_scripted_code_keeps_torchs_functions(model, shape, started):
    x = single(*shape)
    scripted = torch.jit.script(model)
    assert "__torch__.trnfft" not in str(scripted.inlined_graph)
    with trnfft.backend("matmul"):
        found, expected = scripted(x), model(x)
    if isinstance(expected, torch.Tensor):
        found, expected = [found], [expected]
    for one, other in zip(found, expected, strict=True):
        near(one, other, transforms(8))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_functions_are_scripted_under_tracing(started):
    @torch.jit.script_if_tracing
    def spectrum(x, n: int):
        return torch.view_as_real(torch.fft.rfft(torch.cat([x, torch.zeros(n)])))

    x = single(6)
    traced = torch.jit.trace(lambda x: spectrum(x, 2), x)
    near(traced(2 * x), 2 * spectrum(x, 2), transforms(8))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("in_a_block", [True, False])
def test_scripted_code_refuses_devices_without_complex_storage(in_a_block, monkeypatch):
    scripted, real = torch.jit.script(Magnitudes()), torch.jit.script(Padded())
    traced = torch.jit.trace(Magnitudes(), torch.ones(2, 8))
    monkeypatch.setattr(devices, "COMPLEX_DEVICES", ("meta",))
    with patched(in_a_block):
        for function in (scripted, traced, scripted.forward):
            for _ in range(2):
                with pytest.raises(NotImplementedError, match=r"'forward'.*aten::stft.*'cpu'"):
                    function(torch.ones(2, 8))
        assert real(torch.ones(2, 3)).shape == (2, 3)
    scripted(torch.ones(2, 8))


@torch.jit.script
def turned(x):
    return x * 1j


@torch.jit.script
def with_zeros(x):
    return torch.cat([x, torch.zeros(2, dtype=x.dtype, device=x.device)])


def test_scripted_code_that_makes_complex_tensors_by_a_number_or_a_dtype(monkeypatch):
    z = ComplexTensor(torch.ones(3), torch.ones(3))
    monkeypatch.setattr(devices, "COMPLEX_DEVICES", ("meta",))
    with trnfft.patch_torch():
        with pytest.raises(NotImplementedError, match="'turned' makes .*complex = prim::Constant"):
            turned(torch.ones(3))
        with pytest.raises(NotImplementedError, match="'with_zeros' makes .*'prim::dtype'"):
            with_zeros(z)
        assert with_zeros(torch.ones(3)).sum() == 3


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2),
        lambda x: torch.stft(x, 4, window=torch.ones(4), return_complex=True).abs(),
    ],
)
@pytest.mark.parametrize("in_a_block", [True, False])
def test_symbolic_traces_of_torchs_functions(function, in_a_block):
    x = single(2, 8)
    expected = function(x)
    with patched(in_a_block):
        module = torch.fx.symbolic_trace(function)
        with trnfft.backend("matmul"):
            near(module(x), expected, transforms(8, 2))
    near(module(x), expected, transforms(8, 2))


class Filtered(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(5))
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return torch.fft.irfft(torch.fft.rfft(self.linear(x)) * self.weight, n=8)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning", "ignore::UserWarning")
def test_a_trace_is_the_same_without_gradients(started):
    model, x = Filtered(), single(2, 8)
    with trnfft.backend("matmul"):
        traced = torch.jit.trace(model, x)  # which traces again without gradients, and compares
        near(traced(2 * x), model(2 * x), together(transforms(8, 2), sums(8)))


# A graph breaks where these functions make a number of a tensor. torch.compile then compiles the
# functions that they call, each on its own.
BROKEN = {
    "sum": lambda x: sum(torch.roll(x * (x * 2), int(x[j] > 0), -1) for j in range(3)),
    "list": lambda x: torch.stack([torch.roll(x * 2 + j, int(x[j] > 0), -1) for j in range(3)]),
    "halves": lambda x: [x.half().double() * float(x[j]) - x.float() for j in range(3)][2],
    "map": lambda x: torch.stack(list(map(lambda j: (x - 1) * int(x[j] > 0) + x / 3, range(3)))),
    "keys": lambda x: max((x * j + 1 for j in range(3)), key=lambda y: float(y.sum())),
    "transforms": lambda x: sum(
        torch.fft.irfft(torch.fft.rfft(x) * (j + 1j), n=8).roll(int(x[j] > 0)) for j in range(3)
    ),
}


@pytest.mark.parametrize("is_block", [True, False])
@pytest.mark.parametrize("name", BROKEN)
def test_compiled_functions_whose_graph_breaks_in_a_loop(name, is_block):
    function, x = BROKEN[name], single(8)
    expected = function(x)
    torch.compiler.reset()
    with patched(is_block):
        found = torch.compile(function, backend="eager")(x)
    near(found, expected, 4 * transforms(8))
