"""Functions of complex numbers that the host computes, compared with native tensors."""

import contextlib
import warnings

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.programs import printed_by
from tests.tolerances import near, sums
from tests.trnfft.complex.comparison import assert_same, split
from tests.trnfft.samples import Noted, native, random, random_complex
from trnfft import ComplexTensor
from trnfft.complex.on_the_host import on_the_host

INDEX = torch.tensor([[0, 0, 1], [0, 1, 1], [2, 0, 1]])
CPU = torch.device("cpu")
STEPS = 64  # roundings on the way through a decomposition of a matrix of 3 or 4 columns


def assert_equal(results, expected):
    """Fails unless all results are those of torch, of matrices of few columns."""
    results, expected = (
        [x] if isinstance(x, torch.Tensor) else list(x) for x in (results, expected)
    )
    assert_same(results, expected, STEPS)


# test_operators.py has torch's samples of these; here the host is the device.
FUNCTIONS = {
    "eig": torch.linalg.eig,
    "ldl_factor": lambda x: torch.linalg.ldl_factor(x + x.mH, hermitian=True),
    "lstsq": lambda x: torch.linalg.lstsq(x[:, :2], x, driver="gelsd"),
    "pinv": lambda x: torch.linalg.pinv(x[:2], atol=torch.tensor(0.1)),
    "index_reduce": lambda x: x.index_reduce(0, torch.tensor([0, 0]), x[:2], "prod"),
    "scatter multiply": lambda x: x.scatter(0, INDEX, x, reduce="multiply"),
    "scatter multiply number": lambda x: x.scatter(0, INDEX, 2 - 1j, reduce="multiply"),
    "scatter_reduce prod": lambda x: x.scatter_reduce(0, INDEX, x, "prod", include_self=False),
    "of a lazily conjugated tensor": lambda x: torch.linalg.eigvals(x.mH),
}


@pytest.mark.filterwarnings("ignore:index_reduce|The reduce argument")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name):
    z = random_complex(3, 3)
    assert_equal(FUNCTIONS[name](split(z)), FUNCTIONS[name](z))


def test_results_have_the_names_of_torch():
    x = split(random_complex(3, 3))
    assert torch.linalg.eig(x).eigenvectors.shape == (3, 3)
    assert torch.linalg.lstsq(x, x).solution.shape == (3, 3)


def test_results_are_written_into_out():
    z = random_complex(3, 3)
    out = split((torch.zeros(3, dtype=z.dtype), torch.zeros(3, 3, dtype=z.dtype)))
    torch.linalg.eig(split(z), out=out)
    assert_equal(out, torch.linalg.eig(z))
    inverse = split(torch.zeros_like(z))
    torch.linalg.inv(split(z), out=inverse)
    assert_equal(inverse, torch.linalg.inv(z))


def test_real_tensors_beside_complex_ones():
    z, b = random_complex(3, 3), random(3, 2)
    assert_equal(torch.linalg.solve(split(z), b), torch.linalg.solve(z, b + 0j))
    assert_equal(
        torch.linalg.solve(random(3, 3), split(z)), torch.linalg.solve(random(3, 3) + 0j, z)
    )


def test_a_mode_of_the_program_changes_nothing():
    """torch's own pinv of a native tensor is wrong there."""
    z = random_complex(3, 4)
    with Noted():
        inverse = torch.linalg.pinv(split(z))
    assert_equal(inverse, torch.linalg.pinv(z))


@pytest.mark.parametrize(
    "function",
    [
        torch.linalg.inv,
        torch.linalg.matrix_exp,
        torch.linalg.svdvals,
        lambda x: torch.linalg.qr(x)[0],
        lambda x: torch.linalg.slogdet(x)[1],
    ],
)
def test_second_derivatives(function):
    """A derivative multiplies errors by the quotient of singular values, which is 4 here."""
    left, right = (torch.linalg.qr(random_complex(3, 3, seed=i))[0] for i in range(2))
    z, weights = left * torch.tensor([1, 2, 4]) @ right, random_complex(3, 3, seed=2)
    found = []
    for x in (z, split(z)):
        x = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(function(x).abs().sum(), x, create_graph=True)
        found += torch.autograd.grad((gradient * weights).real.sum(), x)
    assert_same(found[1], found[0], 4**2 * STEPS)


def test_functions_of_torch_func():
    z = random_complex(2, 3, 3)
    assert_equal(torch.func.vmap(torch.linalg.eigvals)(split(z)), torch.linalg.eigvals(z))

    def total(x):
        return torch.linalg.eigvals(x).abs().sum()

    primals, tangents = z.unbind()
    expected = torch.func.jvp(total, (primals,), (tangents,))
    x, direction = split([primals, tangents])
    assert_equal(torch.func.jvp(total, (x,), (direction,)), expected)


# Errors


def test_errors_are_those_of_torch():
    with pytest.raises(RuntimeError, match="square"):
        torch.linalg.eig(split(random_complex(2, 3)))
    with pytest.raises(RuntimeError, match="driver"):
        torch.linalg.lstsq(*split([random_complex(2, 2)] * 2), driver="none")


@pytest.mark.parametrize(
    "function, args, message",
    [
        (torch.Tensor.exp_, (), "a tensor that it was given"),
        (torch.Tensor.__setitem__, (0, 1.0), "nothing"),
    ],
)
def test_functions_that_write_are_refused(function, args, message):
    x = split(random_complex(2))
    expected = x.clone()
    with pytest.raises(NotImplementedError, match=message):
        on_the_host(function, (x, *args), {}, CPU)
    assert torch.equal(x, expected)


# Any function of torch


def test_any_function_with_real_and_complex_tensors():
    z, x = random_complex(2, 3), random(3)
    y = on_the_host(torch.cat, ([split(z), x[None]],), {"dim": 0}, CPU)
    assert_equal(y, torch.cat([z, x[None]]))
    made = on_the_host(torch.full, ((2,), 1j), {"device": CPU}, CPU)
    assert_equal(made, torch.full((2,), 1j))


def test_a_real_tensor_gets_its_derivative():
    gradients = []
    for eigenvalues in (
        torch.linalg.eigvals,
        lambda x: on_the_host(torch.linalg.eigvals, (x,), {}, x.device),
    ):
        x = random(3, 3).requires_grad_()
        eigenvalues(x).abs().sum().backward()
        gradients.append(x.grad)
    near(*gradients, sums(STEPS, "float64"))


# Graphs


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_functions(backend):
    z = random_complex(3, 3)

    def function(x):
        return torch.linalg.eigvals(2 * x).abs()

    compiled = torch.compile(function, backend=backend, fullgraph=True)
    x = split(z).requires_grad_()
    z.requires_grad_()
    result, expected = compiled(x), function(z)
    assert_equal(result, expected)
    result.sum().backward()
    expected.sum().backward()
    assert_equal(x.grad, z.grad)


def test_a_compiled_call_of_any_function():
    @torch.compile(backend="aot_eager", fullgraph=True)
    def eigenvalues(x):
        return on_the_host(torch.linalg.eigvals, (x,), {}, x.device)

    x = random(3, 3)
    assert_equal(eigenvalues(x), torch.linalg.eigvals(x))


class Eigenvalues(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.eigvals(x)


def test_exported_programs():
    x = split(random_complex(3, 3))
    program = torch.export.export(Eigenvalues(), (x,))
    assert_equal(program.module()(x), torch.linalg.eigvals(native(x)))


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_shapes_alone(device):
    mode = FakeTensorMode() if device == "cpu" else contextlib.nullcontext()
    with mode:
        x = ComplexTensor(*torch.empty(2, 4, 3, 3, device=device))
        values, vectors = torch.linalg.eig(x)
    assert isinstance(values, ComplexTensor) and values.shape == (4, 3)
    assert vectors.shape == (4, 3, 3) and vectors.device.type == device


# Warnings, by tensors without numbers on a device that is not there

ON_A_DEVICE = """
import warnings
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from trnfft import ComplexTensor
from trnfft.complex.on_the_host import on_the_host

with warnings.catch_warnings(record=True) as found, FakeTensorMode():
    warnings.simplefilter("always")
    a = torch.empty(3, 3, device="mps")
    x = ComplexTensor(a, a)
    for _ in range(3):
        torch.linalg.ldl_factor(x)
        values = torch.linalg.eigvals(x)
        assert isinstance(values, ComplexTensor) and values.device.type == "mps"
        of_real = on_the_host(torch.linalg.eigvals, (a,), {}, a.device)
        assert isinstance(of_real, ComplexTensor) and of_real.device.type == "mps"
        factors, pivots = torch.linalg.lu_factor(x)
        assert isinstance(factors, ComplexTensor) and pivots.device.type == "mps"
for one in found:
    print(one.category.__name__, one.filename, str(one.message).split(" with ")[0])
    assert "NeuronCores have no kernel for it" in str(one.message)
    assert "copies its tensors from device 'mps" in str(one.message)
    assert "waits" in str(one.message)
"""


def test_a_warning_once_for_each_function(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(ON_A_DEVICE, "utf-8")
    lines = printed_by([program], tmp_path, tmp_path / "cache").splitlines()
    names = ["ldl_factor", "eig", "eigvals", "lu_factor"]
    assert lines == [f"UserWarning {program} torch.linalg.{name}" for name in names]


def test_graphs_for_a_device_are_refused():
    @torch.compile(backend="eager", fullgraph=True)
    def eigenvalues(x):
        return torch.linalg.eigvals(x)

    with FakeTensorMode():
        x = ComplexTensor(*torch.empty(2, 3, 3, device="mps"))
    with pytest.raises(Exception, match=r"a graph for device 'mps.*torch\.compiler\.disable"):
        eigenvalues(x)


def test_no_warning_where_the_host_is_the_device(monkeypatch):
    monkeypatch.setattr("trnfft.complex.on_the_host._warned", set())
    x = split(random_complex(3, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.linalg.eigvals(x)
