"""ComplexTensors of DTensors with native complex DTensors, in any order, communicate nothing."""

import pytest
import torch

from tests import sweeps
from tests.tolerances import sums, together, transforms
from tests.trnfft.distributed import cases

FUNCTIONS = {
    "z * k": lambda z, k: z * k,
    "k * z": lambda z, k: k * z,
    "1j * k * z": lambda z, k: 1j * k * z,
    "k - z": lambda z, k: k - z,
    "k / z": lambda z, k: k / z,
    "add_": lambda z, k: z.clone().add_(k),
    "addcmul": lambda z, k: torch.addcmul(k, z, k),
    "cat": lambda z, k: torch.cat([k, z], 1),
}


def split(*tensors):
    """Returns tensors as DTensors, of which each of four processes has some rows."""
    from torch.distributed.tensor import Shard, distribute_tensor

    return [distribute_tensor(x, cases.mesh_of((4,)), [Shard(0)]) for x in tensors]


def compared(rank, rows):
    """What each function has exchanged; fails unless its result is as by one process."""
    import trnfft

    torch.manual_seed(0)
    whole, numbers = torch.randn(2, rows, 6, dtype=torch.complex128).unbind()
    x, k = split(whole, numbers)
    z, native = trnfft.fft(x), torch.fft.fft(whole)
    found = {}
    for name, function in FUNCTIONS.items():
        result, counts = cases.counted(lambda: function(z, k))  # noqa: B023
        tolerance = together(transforms(6, 2, "float64"), sums(8, "float64"))
        cases.near(result, function(native, numbers), tolerance, message=name)
        found[name] = counts.total()
    return found


# Of five rows the four processes have 2, 2, 1 and none.
of_rows = pytest.mark.parametrize("rows", [5, *map(sweeps.whole, [8, 7, 3])])


@pytest.mark.weekly
@of_rows
def test_native_operands(four, rows):
    for found in four.run(compared, rows):
        assert found == dict.fromkeys(FUNCTIONS, 0)


CONDITIONS = {
    "==": lambda z, k: z == k,
    "!=": lambda z, k: z != k,
    "isclose": lambda z, k: torch.isclose(z, k),
    "isfinite": lambda z, k: torch.isfinite(z),
    "isnan": lambda z, k: torch.isnan(z),
    "isinf": lambda z, k: torch.isinf(z),
    "isreal": lambda z, k: torch.isreal(z),
    "bool": lambda z, k: z.bool(),
}


def conditions(rank, rows):
    """Whether each condition holds where it does for native numbers, and what it has exchanged."""
    import trnfft

    torch.manual_seed(0)
    whole, numbers = torch.randn(2, rows, 6, dtype=torch.complex128).unbind()
    whole[0, :4] = torch.tensor([0, complex(1, 0), complex(0, torch.nan), complex(-torch.inf, 1)])
    numbers[:, 4:] = whole[:, 4:]
    z, k = map(trnfft.ComplexTensor.from_complex, split(whole, numbers))
    found = {}
    for name, function in CONDITIONS.items():
        result, counts = cases.counted(lambda: function(z, k))  # noqa: B023
        is_right = torch.equal(result.full_tensor(), function(whole, numbers))
        found[name] = is_right, result.placements == z.placements, counts.total()
    return found


@pytest.mark.weekly
@of_rows
def test_conditions(four, rows):
    for found in four.run(conditions, rows):
        assert found == {name: (True, True, 0) for name in CONDITIONS}


def gradients(rank):
    """Fails unless derivatives by a real leaf and by a native complex one are as by one process."""
    import trnfft

    torch.manual_seed(0)
    whole, numbers = torch.randn(7, 6).double(), torch.randn(7, 6, dtype=torch.complex128)
    leaves = split(whole, numbers)
    found = []
    for fftn, (x, k) in ((trnfft.fftn, leaves), (torch.fft.fftn, (whole, numbers))):
        x.requires_grad_()
        k.requires_grad_()
        (1j * k * fftn(x)).real.square().sum().backward()
        found.append((x.grad, k.grad))
    for own, whole in zip(*found, strict=True):
        cases.compare(own, whole, transforms(42, 4, "float64"))


def test_derivatives(four):
    four.run(gradients)


PRODUCTS = {
    "z * k": lambda z, k: z * k,
    "mul_": lambda z, k: z.clone().mul_(k),
    "addcmul": lambda z, k: torch.addcmul(k, z, k),
    "prod": lambda z, k: z.prod(0),
    "cumprod": lambda z, k: z.cumprod(0),
    "kron": lambda z, k: torch.kron(z, k),
    "outer": lambda z, k: torch.outer(z[0], k[0]),
    "z**3": lambda z, k: z**3,
}


def products_of_sums(rank, placements):
    """Fails unless functions of pending sums, and a gradient of a product, are as by one process.

    The longest are six products of complex numbers one after the other, here and there.
    """
    import trnfft

    def spread(case):
        return trnfft.ComplexTensor.from_complex(cases.spread(cases.sample(case), case))

    pending = cases.Case("", (6, 5), (4,), ("P",))
    other = cases.Case("", (6, 5), (4,), placements, seed=1)
    z, k, whole = spread(pending), spread(other), [cases.sample(x) for x in (pending, other)]
    pairs = {name: (function(z, k), function(*whole)) for name, function in PRODUCTS.items()}
    grads = []
    for x, y in ((z, k), whole):
        x.requires_grad_()
        grads += torch.autograd.grad((x * y).abs().square().sum(), x)
    pairs["gradient"] = tuple(grads)
    for name, (found, wanted) in pairs.items():
        cases.near(found, wanted, sums(2 * 6 * 2, "float64"), message=name)


@pytest.mark.parametrize("placements", [("P",), (0,), sweeps.whole(("R",))], ids=str)
def test_products_of_sums(four, placements):
    four.run(products_of_sums, placements)
