"""Operators of torch.library that get DTensors themselves communicate nothing."""

import torch

from tests.tolerances import sums, together, transforms
from tests.trnfft.distributed import cases
from tests.trnfft.distributed.cases import Case


def by_operators(rank):
    """Fails unless operators of torch.library that get DTensors themselves are right."""
    import trnfft

    case = Case("", (8, 6), (4,), (0,), is_complex=False)
    x = cases.sample(case)
    given, wanted = cases.spread(x, case), torch.fft.rfft(x)

    def operators():
        real, imag = torch.ops.trnfft.r2c(given, False, 1.0)
        back = torch.ops.trnfft.c2r(real, imag, 6, True, 1 / 6)
        return real, imag, back, torch.ops.trnfft.c2c(real, imag, False, 1.0)[0]

    (real, imag, back, twice), counts = cases.counted(operators)
    assert not counts and trnfft.distributed
    assert real.placements == back.placements == twice.placements == given.placements
    cases.compare(real, wanted.real, transforms(6, 2, "float64"))
    cases.compare(imag, wanted.imag, transforms(6, 2, "float64"))
    cases.compare(back, x, transforms(6, 2, "float64"))


def test_operators(four):
    four.run(by_operators)


def launches(rank):
    """Fails unless operators of kernels that get DTensors themselves are as by one process."""
    import trnfft
    from trnfft.ops.convolution import spectrum_for_images

    operators = torch.ops.trnfft
    generator = torch.Generator().manual_seed(0)

    def numbers(*shape):
        return torch.randn(shape, generator=generator)

    def compare(name, operator, given, placements, rest):
        """The results with tensors placed so, and without."""
        cases_of = [Case("", x.shape, (2,), (p,)) for x, p in zip(given, placements, strict=True)]
        tensors = [cases.spread(x, case) for x, case in zip(given, cases_of, strict=True)]
        results, counts = cases.counted(lambda: operator(*tensors, *rest))
        assert not counts, name
        return results, operator(*given, *rest)

    def check(name, result, wanted, points=64):
        tolerance = together(transforms(points, 4), sums(2 * 4))  # sums of up to four blocks
        cases.near(result, wanted, tolerance, message=str(name))

    x, spectra = numbers(4, 6, 64), trnfft.rfft(numbers(6, 64))
    spectra = [part.contiguous() for part in (spectra.real, spectra.imag)]
    for splits in [(0, "R", "R"), (1, "R", "R"), (1, 0, 0)]:
        y, wanted = compare(
            "rows", operators.convolve_rows, [x, *spectra], splits, (64, 64, "nki-sim")
        )
        check(("rows", splits), y, wanted)
    image, filter = numbers(2, 4, 16, 16), spectrum_for_images(trnfft.rfft2(numbers(32, 32)))
    filter = [part.contiguous() for part in (filter.real, filter.imag)]
    for split in (0, 1):
        y, wanted = compare(
            "images",
            operators.convolve_images,
            [image, *filter],
            (split, "R", "R"),
            ([32, 32], [16, 16], "nki-sim"),
        )
        check(("images", split), y, wanted, 32 * 32)
    matrix = [numbers(8, 64), numbers(3, 4, 16), numbers(48)]
    made, wanted = compare(
        "circulant", operators.block_circulant, matrix, (0, "R", "R"), ("nki-sim",)
    )
    check("circulant", made[0], wanted[0])
    grad = numbers(8, 48)
    spread = cases.spread(grad, Case("", grad.shape, (2,), (0,)))
    found = operators.block_circulant_gradients(spread, *made[1:], 16, "nki-sim")
    wanted = operators.block_circulant_gradients(grad, *wanted[1:], 16, "nki-sim")
    for name, own, its in zip(("of x", "of the weight"), found, wanted, strict=True):
        check(f"gradient {name}", own, its)


def test_operators_of_kernels(two):
    two.run(launches)
