"""ComplexTensors where programs and libraries expect torch's own tensors."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import trnfft
from tests import sweeps
from tests.tolerances import near, sums, together, transforms
from tests.trnfft.complex.comparison import assert_same, split
from tests.trnfft.samples import random_complex, single
from trnfft import ComplexTensor


def complex_tensor(*shape, seed=0):
    """Returns normal numbers in complex64."""
    return split(random_complex(*shape, dtype=torch.complex64, seed=seed))


class Filter(nn.Module):
    """Half a spectrum times a complex parameter."""

    def __init__(self, n=8):
        super().__init__()
        self.weight = nn.Parameter(complex_tensor(n // 2 + 1, seed=1))
        self.register_buffer("offset", complex_tensor(n // 2 + 1, seed=2))

    def forward(self, x):
        return trnfft.rfft(x) * self.weight + self.offset


class NativeFilter(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.weight = nn.Parameter(trnfft.as_native(model.weight.detach()))
        self.offset = trnfft.as_native(model.offset)

    def forward(self, x):
        return torch.fft.rfft(x) * self.weight + self.offset


# Modules


def test_a_parameter_is_one():
    model = Filter()
    assert [name for name, _ in model.named_parameters()] == ["weight"]
    assert isinstance(model.weight, nn.Parameter) and isinstance(model.weight, ComplexTensor)
    assert list(model.state_dict()) == ["weight", "offset"]
    model.weight = nn.Parameter(trnfft.fft(torch.randn(5)))
    assert len(list(model.parameters())) == 1


def test_state_is_saved_and_loaded():
    model, other = Filter(), Filter()
    with torch.no_grad():
        model.weight *= 2
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other.weight, model.weight)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert isinstance(again.weight, nn.Parameter) and torch.equal(again.weight, model.weight)
        again.weight.data.zero_()
        assert not torch.equal(again.weight, model.weight)


OPTIMIZERS = {
    "SGD": {"momentum": 0.9},
    **dict.fromkeys(["Adadelta", "Adagrad", "Adam", "Adamax", "AdamW", "ASGD", "NAdam"], {}),
    **dict.fromkeys(["RAdam", "RMSprop", "Rprop"], {}),
    **{
        f"{name} foreach": {"foreach": True}
        for name in ("SGD", "Adam", "Adamax", "NAdam", "RMSprop")
    },
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_is_that_of_a_native_model(name):
    model = Filter()
    native = NativeFilter(model)
    x = single(4, 8, seed=3)
    make = getattr(torch.optim, name.split()[0])
    start = model.weight.detach().clone()
    for each in (model, native):
        optimizer = make(each.parameters(), lr=0.1, **OPTIMIZERS[name])
        for _ in range(3):
            optimizer.zero_grad()
            each(x).abs().square().sum().backward()
            nn.utils.clip_grad_norm_(each.parameters(), 1.0)
            optimizer.step()
    # Each of 3 steps sums over 4 rows.
    near(model.weight, native.weight, together(transforms(8, 3), sums(3 * 8 * 4)))
    assert not torch.equal(model.weight, start)


def test_dtypes_and_devices_of_modules():
    assert Filter().to(torch.float64).weight.dtype == torch.complex128
    assert Filter().to(torch.bfloat16).weight.real.dtype == torch.bfloat16
    assert Filter().to("meta").weight.device.type == "meta"


def test_functional_call_and_initial_values():
    model, x = Filter(), torch.randn(8)
    doubled = torch.func.functional_call(model, {"weight": model.weight * 2}, (x,))
    near(doubled - model.offset, (model(x) - model.offset) * 2, sums(8), scale=model(x))
    weight = nn.Parameter(complex_tensor(50, 60))
    nn.init.zeros_(weight)
    assert not weight.detach().any()
    nn.init.xavier_normal_(weight)
    power = weight.detach().abs().square().mean().item()
    assert power == pytest.approx(2 / 110, rel=0.1)


# Data


@pytest.mark.parametrize("workers", [0, 1])
def test_batches(workers):
    rows = [complex_tensor(3, seed=i) for i in range(4)]
    batches = list(DataLoader(rows, batch_size=2, num_workers=workers))
    assert [type(batch) for batch in batches] == [ComplexTensor] * 2
    assert torch.equal(batches[1], torch.stack(rows[2:]))
    (first,) = next(iter(DataLoader(TensorDataset(torch.stack(rows)), batch_size=3)))
    assert torch.equal(first, torch.stack(rows[:3]))


def test_shared_memory():
    z = complex_tensor(3)
    assert not z.is_shared()
    assert z.share_memory_() is z and z.is_shared() and not z.is_pinned()


def test_torchs_own_tensors_of_two_parts():
    kinds = pytest.importorskip("torch._subclasses.complex_tensor")
    z = random_complex(8, dtype=torch.complex64)
    other = kinds.ComplexTensor(z.real.contiguous(), z.imag.contiguous())
    for backend in ("torch", "matmul"):
        with trnfft.backend(backend):
            near(trnfft.fft(other), torch.fft.fft(z), transforms(8))
    assert isinstance(complex_tensor(8) + other, ComplexTensor)


# Derivatives and transforms of functions


@pytest.mark.parametrize("backend", ["torch", "matmul"])
def test_vmap(backend):
    x, z = single(3, 4), complex_tensor(3, 4)
    tolerance = transforms(4)
    with trnfft.backend(backend):
        near(torch.vmap(trnfft.fft)(x), trnfft.fft(x), tolerance)
        columns = torch.vmap(trnfft.fft, in_dims=1, out_dims=1)(z)
        near(columns, trnfft.fft(z, dim=0), tolerance)
        rows = torch.vmap(lambda v: torch.where(v.abs() > 1, trnfft.ifft(v), 2 * v).real)(z)
        near(rows, torch.where(z.abs() > 1, trnfft.ifft(z), 2 * z).real, tolerance)
        _, tangent = torch.func.jvp(trnfft.fft, (x,), (2 * x,))
        near(tangent, 2 * trnfft.fft(x), tolerance)


def test_hooks_and_graphs():
    seen = []
    z = complex_tensor(3).requires_grad_()
    w = z * 2
    w.register_hook(lambda gradient: seen.append(type(gradient)))
    w.abs().sum().backward()
    assert seen == [ComplexTensor] and w.grad_fn is not None and isinstance(z.grad, ComplexTensor)


def test_hooks_on_what_is_made_of_parts():
    """As FSDP has them on results of layers, to fetch the weights before derivatives need them."""
    x, seen = torch.randn(3, requires_grad=True), []
    z = trnfft.as_complex_tensor(trnfft.fft(x))
    z.register_hook(lambda gradient: seen.append(type(gradient)))
    z.retain_grad()
    (z.real.sum() + z.imag.sum()).backward()
    assert seen == [ComplexTensor]
    assert z.grad.tolist() == [1 + 1j] * 3


# torch.compile


@pytest.mark.weekly
@pytest.mark.parametrize("backend", ["aot_eager", sweeps.whole("inductor")])
def test_compiled_functions(backend):
    """Inductor compiles C++ for half a minute; what ComplexTensors hand it is the graph of AOT."""
    torch.compiler.reset()
    model, x = Filter(), single(4, 8)
    found = torch.compile(model, backend=backend, fullgraph=True)(x)
    near(found, model(x), together(transforms(8), sums(4)))
    (gradient,) = torch.autograd.grad(found.abs().sum(), model.weight)
    (expected,) = torch.autograd.grad(model(x).abs().sum(), model.weight)
    near(gradient, expected, together(transforms(8, 2), sums(32)))


@pytest.mark.weekly
@pytest.mark.parametrize("backend", [sweeps.whole("inductor")])
def test_compiled_functions_follow_strides(backend):
    """Inductor keeps graphs on disk, whose keys have to tell these tensors apart."""

    def rows(z):
        return z * 2 + z[0]

    z = complex_tensor(3, 3)
    for x in (z, z.mT, z[:, 1:], ComplexTensor(z.real.double(), z.imag.double())):
        torch.compiler.reset()
        near(torch.compile(rows, backend=backend)(x), rows(x), sums(2))


class Transfer(nn.Module):
    """A transfer function of a number for each frequency, and the spectrum of the result."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(8))
        self.transfer = nn.Parameter(complex_tensor(5))

    def forward(self, x):
        spectrum = trnfft.rfft(x * self.gain) * 2j * self.transfer
        kept = torch.cat([spectrum[..., :2], spectrum.conj()], -1)
        return kept.abs(), spectrum


@pytest.mark.parametrize("is_strict", [False, sweeps.whole(True)])
def test_exported_modules(is_strict):
    model, x = Transfer(), single(4, 8)
    batches = {"x": {0: torch.export.Dim("batch")}}
    program = torch.export.export(model, (x,), strict=is_strict, dynamic_shapes=batches)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for exported in (program.module(), torch.export.load(file).module()):
        x = single(6, 8)
        results, expected = exported(x), model(x)
        assert isinstance(results[1], ComplexTensor)
        of_model = torch.autograd.grad(expected[0].sum(), list(model.parameters()))
        of_program = torch.autograd.grad(results[0].sum(), list(exported.parameters()))
        for found, right in zip((*results, *of_program), (*expected, *of_model), strict=True):
            near(found, right, together(transforms(8, 2), sums(48)))  # gradients sum 6 rows


@pytest.mark.parametrize("is_strict", [False, True])
def test_exported_functions_of_complex_tensors(is_strict):
    class Rotated(nn.Module):
        def forward(self, z):
            written = (z * 2).add_(z, alpha=0.5)
            written = ComplexTensor(written.real * 2, written.imag)
            return trnfft.ifft(z * 1j + z.real), torch.lerp(z, z.exp(), 0.3), z, written

    program = torch.export.export(Rotated(), (complex_tensor(4, 8),), strict=is_strict).module()
    z = complex_tensor(4, 8, seed=1).requires_grad_()
    for result, right in zip(program(z), Rotated()(z), strict=True):
        near(result, right, together(transforms(8), sums(8)))
        (gradient,) = torch.autograd.grad(result.abs().sum(), z, retain_graph=True)
        (expected,) = torch.autograd.grad(right.abs().sum(), z, retain_graph=True)
        near(gradient, expected, together(transforms(8, 2), sums(32)))


# Other libraries


def test_comparison():
    z = complex_tensor(3)
    torch.testing.assert_close(z, z * 1.0)
    with pytest.raises(AssertionError, match="1 / 3"):
        torch.testing.assert_close(z, torch.cat([z[:2], z[2:] + 1]))


def test_einops():
    einops = pytest.importorskip("einops")
    z, native = complex_tensor(2, 6), trnfft.as_native(complex_tensor(2, 6))
    for run in (
        lambda x: einops.rearrange(x, "a (b c) -> c a b", b=2),
        lambda x: einops.reduce(x, "a b -> a", "sum"),
        lambda x: einops.repeat(x, "a b -> a b c", c=2),
        lambda x: einops.einsum(x, x, "a b, c b -> a c"),
    ):
        assert_same(run(z), run(native), 48)  # sums of 6 products


def test_data_may_be_conjugated():
    z = complex_tensor(3)
    other = ComplexTensor(torch.zeros(3), torch.zeros(3))
    other.data = z.conj()
    assert torch.equal(trnfft.as_native(other), trnfft.as_native(z).conj())


def test_tensors_of_lists_of_numbers():
    z = complex_tensor(2)
    assert torch.tensor([z[0], z[1], z[0].conj()]).tolist() == [
        *z.tolist(),
        z[0].item().conjugate(),
    ]
    assert float(z[0] * 0 + 2) == int(z[0] * 0 + 2) == 2
    with pytest.raises(ValueError, match="one element"):
        complex(z)


def test_operators_that_are_their_own_form_into_out_are_refused():
    z = complex_tensor(2, 2)
    with pytest.raises(NotImplementedError, match="sspaddmm"):
        torch.sspaddmm(z, z, z)
