"""Public functions of DTensors that are split along other dimensions communicate nothing."""

import pytest
import torch

from tests import sweeps
from tests.tolerances import sums, together, transforms
from tests.trnfft.distributed import cases
from tests.trnfft.distributed.cases import Case

WINDOW = torch.hann_window(8, dtype=torch.float64)
ROWS = torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
CALLS = {
    "fft": lambda f, x: f.fft(x, 9),
    "planned": lambda f, x: f.fft(x, order="planned"),
    "rfft2": lambda f, x: f.rfft2(x),
    "irfft": lambda f, x: f.irfft(x, 12),
    "dct": lambda f, x: f.dct(x, 2),
    "idstn": lambda f, x: f.idstn(x, 3, axes=(1, 2)),
    "fht": lambda f, x: f.fht(x, 0.1, 0.5),
    "czt": lambda f, x: f.czt(x, 5, 0.99 + 0.1j),
    "zoom_fft": lambda f, x: f.zoom_fft(x, [0.1, 0.3], 7, axis=1),
    "stft": lambda f, x: f.stft(x[:, 0], 8, 2, window=WINDOW),
    "istft": lambda f, x: f.istft(f.rfft(x, dim=1), 10, 3, center=False),
    "convolve": lambda f, x: f.convolve(x, ROWS, "same", dims=-1),
    "oaconvolve": lambda f, x: f.oaconvolve(x, ROWS[None, None], dims=-1),
    "pack_spectrum": lambda f, x: f.pack_spectrum(f.rfft(x)),
    "unpack_spectrum": lambda f, x: f.unpack_spectrum(f.fft(x)),
    "fftshift": lambda f, x: f.fftshift(x, (1, 2)),
}


MAIN = ("fft", "planned", "rfft2", "irfft", "dct", "czt", "stft", "convolve")


def check(rank, backend, names):
    """Fails unless each call of these names is as by one process, without communication.

    The longest has two transforms of four times the points, here and there.
    """
    from torch.distributed.tensor.debug import CommDebugMode

    import trnfft

    case = Case("", (6, 10, 12), (4,), (0,), is_complex=False)
    x = cases.sample(case)
    x = x if backend == "torch" else x.float()
    given, tolerance = cases.spread(x, case), transforms(4 * 12, 4, x.dtype)
    for name in names:
        call = CALLS[name]
        with trnfft.backend(backend):
            wanted = call(trnfft, x)
            with CommDebugMode() as counted:
                y = call(trnfft, given)
        assert counted.get_total_counts() == 0, name
        part = y.real if y.is_complex() else y
        assert part.placements == given.placements, name
        cases.compare(y, wanted, tolerance, message=name)


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("backend", "names"),
    [("matmul", MAIN), *(sweeps.whole(backend, tuple(CALLS)) for backend in ("matmul", "torch"))],
    ids=["matmul, main", "matmul", "torch"],
)
def test_without_communication(four, backend, names):
    """Other calls are compared by default in test_every_function.py."""
    four.run(check, backend, names)


def by_operators(rank):
    """Fails unless operators of torch.library that get DTensors themselves are right."""
    from torch.distributed.tensor.debug import CommDebugMode

    import trnfft

    case = Case("", (8, 6), (4,), (0,), is_complex=False)
    x = cases.sample(case)
    given, wanted = cases.spread(x, case), torch.fft.rfft(x)
    with CommDebugMode() as counted:
        real, imag = torch.ops.trnfft.r2c(given, False, 1.0)
        back = torch.ops.trnfft.c2r(real, imag, 6, True, 1 / 6)
        twice, _ = torch.ops.trnfft.c2c(real, imag, False, 1.0)
    assert counted.get_total_counts() == 0 and trnfft.distributed
    assert real.placements == back.placements == twice.placements == given.placements
    cases.compare(real, wanted.real, transforms(6, 2, "float64"))
    cases.compare(imag, wanted.imag, transforms(6, 2, "float64"))
    cases.compare(back, x, transforms(6, 2, "float64"))


def test_operators(four):
    four.run(by_operators)


def launches(rank):
    """Fails unless operators of kernels that get DTensors themselves are as by one process."""
    from torch.distributed.tensor.debug import CommDebugMode

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
        with CommDebugMode() as counted:
            results = operator(*tensors, *rest)
        assert counted.get_total_counts() == 0, name
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
