"""Tolerances contain right results in the worst order of a sum, and no wrong results."""

import numpy as np
import pytest

from tests import tolerances
from tests.tolerances import holds, near, operands, sums, together, transforms

RNG = np.random.default_rng(8)


@pytest.fixture(autouse=True)
def no_margins(monkeypatch):
    """Keeps the errors of wrong numbers out of the list of margins."""
    monkeypatch.delenv(tolerances.MARGINS, raising=False)


@pytest.mark.parametrize("length", [1, 2, 3, 17, 128, 1000, 20_000])
def test_sums_one_term_after_the_other(length):
    """Both for random signs and for positive terms, of which partial sums are larger."""
    for terms in (
        RNG.standard_normal((2, 8, length, 2)).astype(np.float32),
        RNG.random((2, 8, length, 2)),
    ):
        a, b = terms.astype(np.float32)[..., 0]
        products = a * b
        total = products[:, 0]
        for column in products.T[1:]:
            total = total + column
        near(total, np.einsum("bk,bk->b", a.astype(float), b.astype(float)), 0.7 * sums(length))


@pytest.mark.parametrize(
    "radices", [(2,), (3,), (128,), (128, 128), (8, 8, 8), (16, 127), (2,) * 12]
)
def test_transforms_by_sums_one_term_after_the_other(radices):
    """Each stage is a DFT by sums in the worst order, and a product with twiddles."""
    n = int(np.prod(radices))
    x = (RNG.standard_normal((2, n)) + 1j * RNG.standard_normal((2, n))).astype(np.complex64)
    near(stages(x, radices), np.fft.fft(x.astype(complex)), 0.7 * transforms(n))


def stages(x, radices):
    """Returns the DFT of rows by decimation in frequency, in complex64."""
    if not radices:
        return x
    radix, *rest = radices
    n = x.shape[-1]
    blocks = x.reshape(-1, radix, n // radix)
    k = np.arange(radix)
    matrix = np.exp(-2j * np.pi * np.outer(k, k) / radix).astype(np.complex64)
    total = np.zeros_like(blocks)
    for j in range(radix):
        total = total + matrix[:, j, None] * blocks[:, j, None]
    twiddles = np.exp(-2j * np.pi * np.outer(k, np.arange(n // radix)) / n).astype(np.complex64)
    parts = [stages(part, rest) for part in np.moveaxis(total * twiddles, 1, 0)]
    return np.stack(parts, -1).reshape(len(x), n)


def test_operands_rounded_to_bfloat16():
    import ml_dtypes

    def rounded(a):
        return a.astype(ml_dtypes.bfloat16).astype(float)

    x, matrix = RNG.standard_normal((2, 256, 256))
    near(rounded(x) @ rounded(matrix), x @ matrix, 0.7 * operands(1))
    with pytest.raises(AssertionError):
        near(rounded(x) @ rounded(matrix), x @ matrix, sums(256))


def test_wrong_numbers_are_outside():
    exact = RNG.standard_normal((4, 1000))
    for changed in (1 + 1e-6, 1 - 1e-6, -1):
        with pytest.raises(AssertionError, match="times the tolerance"):
            near(exact * changed, exact, transforms(1000))
    one_number = exact.copy()
    one_number[2, 500] += 2e-5
    with pytest.raises(AssertionError, match="one number"):
        near(one_number, exact, transforms(1000), message="one number")
    small_row = exact * [[1], [1], [1], [1e-9]]
    wrong = small_row * [[1], [1], [1], [2]]
    near(wrong, small_row, transforms(1000))
    with pytest.raises(AssertionError, match="row 3"):
        near(wrong, small_row, transforms(1000), rows=True)


def test_numbers_that_are_not_finite_are_the_same():
    exact = np.array([1, np.nan, np.inf, 2])
    near(exact, exact, sums(1))
    for other in ([1, np.nan, -np.inf, 2], [1, 0, np.inf, 2], [np.nan, np.nan, np.inf, 2]):
        with pytest.raises(AssertionError):
            near(np.array(other), exact, sums(1))


def test_zeros_shapes_and_scales():
    near(np.zeros(3), np.zeros(3), sums(1))
    near(np.zeros((0, 3)), np.zeros((0, 3)), sums(1))
    with pytest.raises(AssertionError):
        near(np.full(3, 1e-30), np.zeros(3), sums(1))
    near(np.full(3, 1e-8), np.zeros(3), sums(1), scale=np.ones(5))
    with pytest.raises(AssertionError, match="shapes"):
        near(np.zeros(3), np.zeros((1, 3)), sums(1))


@pytest.mark.parametrize("count", [1, 2, 5, 20, 100])
def test_few_numbers_have_room_for_chance(count):
    """Of many groups of right results none is refused, but those twice as bad are in the end."""
    errors = sums(1) / 1.6 * RNG.standard_normal((1000, count))
    for group in errors:
        near(1 + group, np.ones(count), sums(1))
    with pytest.raises(AssertionError):
        for group in errors:
            near(1 + 4 * group, np.ones(count), sums(1))


def test_each_number_on_its_own():
    exact = np.array([1.0, 1e-9, 0.0])
    near(exact * (1 + 1e-7), exact, sums(1), each=True)
    with pytest.raises(AssertionError):
        near(exact + [0, 1e-12, 0], exact, sums(1), each=True)


def test_quoted_figures_have_room_and_are_not_slack():
    holds(1e-7, 3e-7)
    for measured in (3.1e-7, 0.7e-7):
        with pytest.raises(AssertionError, match="quoted"):
            holds(measured, 3e-7)


def test_dtypes_by_name_and_by_class():
    assert (
        sums(4, "float64") == sums(4, np.float64) == sums(4, np.dtype("complex128")) == 4 * 2**-53
    )
    assert together(3.0, 4.0) == 5


def test_tensors_of_torch_and_margins(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv(tolerances.MARGINS, str(tmp_path / "margins"))
    x = torch.ones(4, dtype=torch.complex64, requires_grad=True)
    assert sums(4, x.dtype) == sums(4)
    near(x * (1 + 2**-23), x, sums(1))
    ratio, test = (tmp_path / "margins").read_text("utf-8").strip().split("\t")
    assert float(ratio) == pytest.approx(1.6 / 3.5, rel=1e-3)  # as there are 4 numbers
    assert test.endswith("test_tensors_of_torch_and_margins")
