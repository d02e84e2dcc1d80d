"""Where no complex storage is assumed, complex results of torch's functions are ComplexTensors."""

import numpy as np
import pytest
import torch
from torch import nn

import trnfft
from tests.complex_calls import all_makers
from tests.tolerances import near, sums, together, transforms
from tests.trnfft.samples import whole_program
from trnfft import ComplexTensor
from trnfft.base import devices

X = torch.arange(1.0, 7).reshape(3, 2)
OF_TORCH = {"zeros_like": torch.zeros_like, "add": torch.add, "fft": torch.fft.fft}  # torch's own


@pytest.fixture(autouse=True)
def no_complex_storage(monkeypatch):
    """Lets the CPU stand for a device without complex dtypes."""
    monkeypatch.setattr(devices, "COMPLEX_DEVICES", ("meta",))


@pytest.fixture
def started():
    with whole_program():
        yield


@pytest.fixture(scope="module")
def makers():
    return all_makers(X)


def tolerance(dtype="float32"):
    """Returns that of one function of a few numbers: two transforms, or products and sums."""
    return together(transforms(6, 2, dtype), sums(2 * 6, dtype))


def assert_split(actual, expected, is_random=False, message=""):
    """Compares dtype, shape and, unless they are random, values."""
    assert isinstance(actual, ComplexTensor), message
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), message
    if not is_random:
        near(actual, expected, tolerance(expected.dtype), message=message)


def test_every_function_in_a_block_and_in_a_whole_program(makers):
    names = {str(maker).partition("(")[0] for maker in makers}
    assert len(makers) > 250
    assert names > {
        *(
            f"torch.{name}"
            for name in ["randn", "rand", "full", "tensor", "asarray", "eye", "linspace"]
        ),
        *(f"torch.{name}_like" for name in ("zeros", "ones", "full", "empty", "rand", "randn")),
        *(f"torch.Tensor.new_{name}" for name in ("zeros", "ones", "full", "empty", "tensor")),
        *(
            f"torch.Tensor.{name}"
            for name in ["to", "type", "cfloat", "view", "__rmul__", "__add__"]
        ),
        "torch.scalar_tensor",
        "torch.where",
    }
    for maker, expected in makers.items():
        with trnfft.patch_torch():
            assert_split(maker(X.clone()), expected, maker.is_random, str(maker))
    with whole_program():
        for maker, expected in makers.items():
            if maker.has_place:
                found = maker.looked_up(X.clone())
                assert_split(found, expected, maker.is_random, str(maker))


def test_numbers_of_two_random_parts():
    torch.manual_seed(0)
    with trnfft.patch_torch():
        normal = torch.randn(20000, dtype=torch.cfloat)
        uniform = torch.rand(20000, dtype=torch.cfloat)
        within = torch.empty(20000, dtype=torch.cfloat).uniform_(2, 3)
    for part in (normal.real, normal.imag):
        assert abs(part.mean()) < 0.02 and abs(part.var() - 0.5) < 0.02
    for part, low in ((uniform.real, 0), (uniform.imag, 0), (within.real, 2), (within.imag, 2)):
        assert part.min() >= low and part.max() <= low + 1
        assert abs(part.mean() - low - 0.5) < 0.01 and abs(part.var() - 1 / 12) < 0.01


def phases(x):
    rotated = torch.exp(1j * x) * (x + 2j) / (1 - 1j * x)
    chosen = torch.where(x > 2, rotated, 1j)
    return torch.stack([chosen.real, chosen.imag, (x.to(torch.cfloat) ** 2).real])


def test_derivatives():
    x = X.clone().requires_grad_()
    (expected,) = torch.autograd.grad(phases(x).square().sum(), x)
    with trnfft.patch_torch():
        (actual,) = torch.autograd.grad(phases(x).square().sum(), x)
    near(actual, expected, tolerance())


def test_compiled_to_one_graph(started):
    def several(x):
        made = torch.full((2,), 1j), torch.zeros(2, dtype=torch.cfloat), torch.tensor([1, 2j])
        more = x.new_ones(2, dtype=torch.cfloat), torch.ones_like(x[0], dtype=torch.cfloat)
        return phases(x), torch.stack([*made, *more]) * torch.eye(2, dtype=torch.cfloat)[0]

    expected = several(X)
    torch._dynamo.reset()
    compiled = torch.compile(several, fullgraph=True, backend="aot_eager")
    real, split = compiled(X)
    near(real, expected[0], tolerance())
    near(split, expected[1], tolerance())


@pytest.mark.weekly
@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(8))
def test_the_table_compiled(makers, part):
    """Each graph has an eighth of the table. The host's computations are in no graph."""
    some = [maker for maker in list(makers)[part::8] if "eigvals" not in str(maker)]
    torch._dynamo.reset()
    run = torch.compile(lambda x: [maker(x) for maker in some], fullgraph=True, backend="aot_eager")
    with trnfft.patch_torch():
        results = run(X.clone())
    for maker, result in zip(some, results, strict=True):
        assert_split(result, makers[maker], maker.is_random, str(maker))


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(2, 3).to(torch.cfloat),
        lambda: nn.Linear(2, 3).type(torch.cfloat),
        lambda: nn.Linear(2, 3, dtype=torch.cfloat),
        lambda: nn.Linear(2, 3, dtype=torch.cfloat).to("cpu"),
        lambda: nn.Linear(2, 3, dtype=torch.cfloat).to_empty(device="cpu"),
        lambda: nn.Bilinear(2, 2, 3, bias=False).to(dtype=torch.cfloat),
    ],
)
@pytest.mark.filterwarnings("ignore:Complex modules are a new feature")
def test_modules(make, started):
    module = make()
    assert module.weight.dtype == torch.cfloat
    assert isinstance(module.weight, ComplexTensor) and isinstance(module.weight, nn.Parameter)
    assert module.weight.requires_grad and module.weight.is_leaf


def test_a_module_of_native_parameters_is_converted_in_a_block():
    module = nn.Linear(2, 3, dtype=torch.cfloat)
    expected = module(X + 0j)
    with trnfft.patch_torch():
        module = module.to("cpu")
        actual = module(1 * X.to(torch.cfloat))
    assert isinstance(module.weight, ComplexTensor)
    near(actual, expected, sums(4))


def test_parameters():
    with trnfft.patch_torch():
        weight = nn.Parameter(torch.randn(3, 2, dtype=torch.cfloat))
        (1j * X * weight).abs().sum().backward()
    assert isinstance(weight, ComplexTensor) and isinstance(weight.grad, ComplexTensor)


@pytest.mark.parametrize("function", [torch.tensor, torch.as_tensor, torch.asarray])
def test_data(function):
    data = [
        [[1, 2j], [3.0, 4]],
        np.array([1j, 2]),
        (np.complex64(1j), 2.0),
        1j,
        torch.tensor([1j, 2]),
        X,
    ]
    for each in data:
        expected = function(each, dtype=torch.complex128)
        with trnfft.patch_torch():
            actual = function(each, dtype=torch.complex128)
            kept = function(each)
        assert_split(actual, expected)
        assert kept.is_complex() == (each is not X)
        assert not isinstance(kept, ComplexTensor) or kept.dtype == function(each).dtype
    with trnfft.patch_torch():
        assert type(function([1.0, 2.0])) is torch.Tensor
        assert type(function(X)) is torch.Tensor


def test_data_may_require_gradients():
    with trnfft.patch_torch():
        for leaf in (
            torch.tensor([1j, 2], requires_grad=True),
            torch.randn(2, dtype=torch.cfloat, requires_grad=True),
            torch.full((2,), 1j, requires_grad=True),
        ):
            assert isinstance(leaf, ComplexTensor) and leaf.is_leaf and leaf.requires_grad


@pytest.mark.parametrize("function", [torch.linspace, torch.logspace])
def test_tensors_that_stand_for_numbers(function):
    expected = function(0.5, 1j, 3)
    end = ComplexTensor(torch.tensor(0.0), torch.tensor(1.0))
    with trnfft.patch_torch():
        assert_split(function(torch.tensor(0.5), end, 3), expected)
        assert_split(function(0.5, end=end, steps=3), expected)
        assert_split(torch.full((2,), end), torch.tensor([1j, 1j]))


def test_real_numbers_of_complex_ones(started):
    z = torch.tensor(2 + 0j)
    assert isinstance(z, ComplexTensor) and float(z) == 2.0 and int(z) == 2
    for convert in (float, int):
        with pytest.raises(RuntimeError, match="without overflow"):
            convert(1j * z)


def test_copies_are_copies_and_conversions_are_differentiable():
    x = X.clone().requires_grad_()
    with trnfft.patch_torch():
        assert not torch.tensor(X, dtype=torch.cfloat).requires_grad
        torch.as_tensor(x, dtype=torch.cfloat).real.sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x))


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x.to(torch.cfloat),
        lambda x: x.to("cpu", torch.cfloat),
        lambda x: x.cfloat(),
        lambda x: x.type(torch.cfloat),
        lambda x: torch.as_tensor(x, dtype=torch.cfloat),
        lambda x: torch.complex(x, x),
        lambda x: torch.view_as_complex_copy(x)[:, None],
        lambda x: torch.view_copy(x, torch.cfloat),
    ],
)
def test_results_share_no_memory(convert):
    x = X.clone()
    with trnfft.patch_torch():
        convert(x).zero_()
    assert torch.equal(x, X)


@pytest.mark.parametrize("view", [torch.view_as_complex, lambda x: x.view(torch.cfloat)])
def test_pairs_are_viewed(view):
    """As layers that keep complex weights as pairs initialise them."""
    x, weight = X.clone(), nn.Parameter(X.clone())
    with trnfft.patch_torch():
        view(x).mul_(2j)
        with torch.no_grad():
            view(weight).mul_(2j)
        view(x)[0] = 0
        torch.view_as_complex(weight).abs().sum().backward()
        pairs = nn.Parameter(torch.view_as_real(ComplexTensor(X, X)))
        with torch.no_grad():
            torch.view_as_complex(pairs).zero_()
    expected = torch.view_as_real(torch.complex(X[:, 0], X[:, 1]) * 2j)
    assert torch.equal(weight, expected) and torch.equal(x[1:], expected[1:])
    assert not x[0].any() and not pairs.any()
    assert weight.grad.shape == weight.shape


def test_out():
    out, full = (ComplexTensor(torch.ones(3, 2), torch.ones(3, 2)) for _ in range(2))
    with trnfft.patch_torch():
        assert torch.mul(X, 1j, out=out) is out
        torch.full((3, 2), 2j, out=full)
        assert torch.equal(out.to_complex(), torch.complex(0 * X, X))
        assert torch.equal(full.to_complex(), torch.full((3, 2), 2j).to_complex())
        assert torch.zeros((3, 2), out=out) is out and not out.abs().any()
        assert torch.complex(X, -X, out=out) is out and torch.equal(out.imag, -X)
        assert torch.polar(X, 0 * X, out=out) is out and torch.equal(out.real, X)
        with pytest.raises(TypeError, match="missing 1 required"):
            torch.complex(X, im=X)
        with pytest.raises(RuntimeError, match=r"'out' has shape \(3, 2\), allowed is \(2,\)"):
            torch.zeros(2, out=out)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: torch.add(x, x, alpha=1j), "alpha must not be a complex number"),
        (lambda x: x.masked_fill(x > 2, 1j), "cannot be converted"),
        (lambda x: torch.full_like(x, 1j), "cannot be converted"),
        (lambda x: torch.clamp(x, 1j), "cannot be converted|aten.clamp"),
        (lambda x: x.clone().mul_(1j), "can't be cast"),
        (lambda x: x.clone().fill_(1j), "cannot be converted"),
        (lambda x: torch.view_as_complex(x.mT), "size 2"),
        (lambda x: x[:, :1].view(torch.cfloat), "size|divisible|multiple"),
    ],
)
def test_errors_are_torchs(call, message):
    with pytest.raises(RuntimeError, match=message):
        call(X)
    with trnfft.patch_torch(), pytest.raises(RuntimeError, match=message):
        call(X)


def test_real_results_stay_real():
    with trnfft.patch_torch():
        assert torch.zeros(2, dtype=torch.result_type(X, 1.0)).dtype == torch.float32
        assert type(2 * X) is torch.Tensor and type(X.to(torch.float64)) is torch.Tensor
        assert (X == 1j).dtype == torch.bool


def test_the_class_keeps_torchs_methods(started):
    held = torch.Tensor.mul
    seen = []

    class Subclass(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    assert isinstance(1j * X, ComplexTensor)
    x = X.as_subclass(Subclass)
    assert isinstance(x.mul(2), Subclass)
    trnfft.patch_torch().start()
    trnfft.patch_torch().stop()
    assert torch.Tensor.mul is held
    assert held in seen


def test_tables_by_functions_find_them(started):
    """Tables that were made before and after the start, as of classes that behave like tensors."""
    after = {torch.zeros_like: "zeros_like", torch.add: "add", torch.fft.fft: "fft"}
    seen = []

    class Like:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((after[func], before[func], func == torch.add, func in (torch.add, 1)))
            return func

    before = {OF_TORCH[name]: name for name in after.values()}
    added = torch.add(Like(), 1)
    torch.zeros_like(Like())
    torch.fft.fft(Like())
    assert seen == [
        ("add", "add", True, True),
        ("zeros_like", "zeros_like", False, False),
        ("fft", "fft", False, False),
    ]
    assert torch.add == added and torch.zeros != torch.ones
    assert isinstance(torch.pow(self=1j, exponent=X), ComplexTensor)
    assert repr(torch.add) == "<function torch.add of trnfft>"


@pytest.mark.parametrize("device", ["meta", torch.device("meta")])
def test_default_devices(device, started):
    with torch.device(device):
        assert torch.zeros(2).device.type == "meta"
        assert torch.full((2,), 1j).device.type == "meta"
    torch.set_default_device(device)
    try:
        assert torch.ones(2, dtype=torch.cfloat).device.type == "meta"
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize(
    "convert",
    [
        lambda z: z.float(),
        lambda z: z.double(),
        lambda z: z.half(),
        lambda z: z.bfloat16(),
        lambda z: z.to(torch.float64),
        lambda z: z.to("cpu", torch.float32),
        lambda z: z.to(X),
        lambda z: z.type_as(X),
        lambda z: z.type(torch.float64),
        lambda z: z.int(),
        lambda z: torch.as_tensor(z, dtype=torch.float32),
    ],
)
@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("backend", ["matmul", "torch"])
def test_conversions_to_real_dtypes_drop_the_imaginary_part(convert, backend, monkeypatch):
    native = torch.complex(X, -X)
    expected = convert(native)
    with trnfft.patch_torch(), trnfft.backend(backend):
        actual = convert(ComplexTensor.from_complex(native))
        kept = ComplexTensor.from_complex(native).to(torch.complex128)
    assert type(actual) is torch.Tensor
    assert torch.equal(actual, expected)
    assert_split(kept, native.to(torch.complex128))


def test_a_conversion_to_a_real_dtype_warns_and_has_a_derivative():
    x = X.clone().requires_grad_()
    with trnfft.patch_torch():
        with pytest.warns(UserWarning, match="discards the imaginary part"):
            y = torch.exp(1j * x).float()
        y.sum().backward()
    near(x.grad, -torch.sin(X), tolerance())
    z = ComplexTensor(X, X).double()
    assert isinstance(z, ComplexTensor) and z.dtype == torch.complex128  # outside of a block


def test_small_parts_stay_small_inside_of_a_block():
    z = ComplexTensor(X.bfloat16(), X.bfloat16())
    with trnfft.patch_torch(), trnfft.backend("matmul"):
        for made in (trnfft.fft(z), torch.fft.fft(z)):
            assert isinstance(made, ComplexTensor)
        assert trnfft.convolve(z, z).real.dtype == trnfft.convolve(z.real, z.real).dtype


def test_everything_is_restored():
    before = {name: getattr(torch, name) for name in dir(torch)}
    methods = {name: getattr(torch.Tensor, name) for name in dir(torch.Tensor)}
    own = set(vars(torch.Tensor))
    patch = trnfft.patch_torch()
    patch.start()
    assert torch.mul is not before["mul"]
    patch.stop()
    assert {name: getattr(torch, name) for name in dir(torch)} == before
    after = {name: getattr(torch.Tensor, name) for name in dir(torch.Tensor)}
    after.pop("__subclasshook__"), methods.pop("__subclasshook__")
    after.pop("__init_subclass__"), methods.pop("__init_subclass__")
    after.pop("__dir__", None), methods.pop("__dir__", None)
    assert after == methods
    assert set(vars(torch.Tensor)) == own
    assert type(1j * X) is torch.Tensor
