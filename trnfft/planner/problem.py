"""Problem: the question that the planner answers, checked, as immutable data."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from operator import gt

from nki_sim import hardware
from trnfft import config
from trnfft.checks import finite, index, shown
from trnfft.planner import accuracy

# What is computed: complex from complex data, a half spectrum from real data, the inverse, real
# data convolved with a filter whose spectrum is given, the product of real rows with a block
# circulant matrix, or its gradients, or a spectral convolution, alone, with spectra that are kept
# for its gradients, or these gradients, or the spectra of overlapping frames, or powers of these
# spectra, or sums of such powers in bands, or the real part of the transform of real planes.
C2C, R2C, C2R, CONVOLUTION = "c2c", "r2c", "c2r", "convolution"
CIRCULANT, CIRCULANT_GRADIENTS = "block_circulant", "block_circulant_gradients"
SPECTRAL, SPECTRAL_KEPT = "spectral_convolution", "spectral_convolution_kept"
SPECTRAL_GRADIENTS = "spectral_gradients"
SPECTRAL_KINDS = SPECTRAL, SPECTRAL_KEPT, SPECTRAL_GRADIENTS
FRAME_SPECTRA, FRAME_POWERS, FRAME_BANDS = "frame_spectra", "frame_powers", "frame_bands"
FRAME_KINDS = FRAME_SPECTRA, FRAME_POWERS, FRAME_BANDS
REAL_PLANES = "real_planes"
# Kinds for which separate launches are a candidate, too.
FUSED_KINDS = (*SPECTRAL_KINDS, *FRAME_KINDS, REAL_PLANES)

DTYPES = ("float16", "bfloat16", "float32", "float64")
_TITLES = {
    C2C: "FFT",
    R2C: "FFT of real data",
    C2R: "FFT to real data",
    CONVOLUTION: "convolution of real data",
    CIRCULANT: "product with a block circulant matrix",
    CIRCULANT_GRADIENTS: "gradients of a product with a block circulant matrix",
    SPECTRAL: "spectral convolution",
    SPECTRAL_KEPT: "spectral convolution that keeps spectra",
    SPECTRAL_GRADIENTS: "gradients of a spectral convolution",
    FRAME_SPECTRA: "spectra of frames",
    FRAME_POWERS: "powers of the spectra of frames",
    FRAME_BANDS: "powers of the spectra of frames in bands",
    REAL_PLANES: "real part of the FFT of real data",
}


@dataclass(frozen=True, kw_only=True)
class Problem:
    """`batch` transforms of length `n` on the chip `target`.

    Attributes:
        n: number of points of a transform.
        kind: "c2c" for complex data, "r2c" for half spectra of real data, "c2r" for their inverse,
            "convolution" for real data convolved with a filter, "block_circulant" for `batch` rows
            times a block circulant weight, and "block_circulant_gradients" for the gradients of
            this product; "spectral_convolution" for the Fourier layer of a neural operator,
            "spectral_convolution_kept" where the spectra are kept for the gradients, and
            "spectral_gradients" for these; "frame_spectra" for the spectra of `batch` frames,
            "frame_powers" for spectrograms, and "frame_bands" for those in bands; "real_planes" for
            the real part of the transform of real planes.
        shape: the lengths of a transform over several axes, or the shape [p, q, k] of a block
            circulant weight, or the numbers of input and output channels and the lengths of a
            spectral convolution, or (n, hop) of frames, or (n, hop, bands). Empty for one plain
            length.
        padded_from: the sizes of the data in `shape`: of the input; for "c2r" of the part of the
            output that is kept; for "convolution" of both; for a spectral convolution the channels
            and the kept frequencies, which is the shape of its weight. Empty for one plain length.
        batch: number of transforms or rows.
        inverse: the direction.
        precision: the precision mode.
        target: name of the chip.
        max_error: upper bound of the relative L2 error of the result.
        cores: the degree of LNC (logical NeuronCore configuration), which is how many physical
            cores work on one launch.
    """

    n: int
    kind: str = C2C
    shape: tuple[int, ...] = ()
    padded_from: tuple[int, ...] = ()
    batch: int = 1
    inverse: bool = False
    precision: str
    target: str
    max_error: float
    cores: int = 1

    @property
    def is_usual(self) -> bool:
        """Whether the allowed error is that of the precision mode, so that plans are remembered."""
        return self.max_error == accuracy.MAX_ERRORS[self.precision]

    @property
    def dma_floor_ns(self) -> float:
        """The least time in ns in which all cores read the input and write the output once."""
        return hardware.chip(self.target).dma_floor_ns(1, self._least_bytes, self.cores)

    @property
    def _least_bytes(self) -> int:
        """Bytes of the input and the output of the batch."""
        shape = self.shape or (self.n,)
        data = math.prod(self.padded_from or shape)
        if self.kind in (CIRCULANT, CIRCULANT_GRADIENTS):
            p, q, k = shape
            forward = self.batch * (p + q) * k + data
            more = 0 if self.kind == CIRCULANT else self.batch * q * k + data
            return 4 * (forward + more)
        if self.kind == CONVOLUTION:
            return self.batch * 8 * data
        if self.kind in SPECTRAL_KINDS:
            return 4 * self._spectral_numbers
        if self.kind in FRAME_KINDS:
            kept = shape[2] if self.kind == FRAME_BANDS else shape[0] // 2 + 1
            parts = 2 if self.kind == FRAME_SPECTRA else 1
            samples = min(shape[:2])  # that no other frame begins with
            return 4 * self.batch * (samples + parts * kept)
        if self.kind == REAL_PLANES:
            return self.batch * 8 * data
        numbers = 2 * data if self.kind == C2C else data
        half = shape[-1] if self.kind == C2C else shape[-1] // 2 + 1
        numbers += 2 * math.prod(shape[:-1]) * half
        return self.batch * 4 * numbers

    @property
    def _spectral_numbers(self) -> int:
        """Numbers that a spectral convolution reads and writes: data, weight and kept spectra."""
        inputs, outputs, *lengths = self.shape
        kept = math.prod(self.padded_from[2:])
        data = self.batch * (inputs + outputs) * math.prod(lengths)
        spectra = 0 if self.kind == SPECTRAL else self.batch * 2 * inputs * kept
        weights = 2 if self.kind == SPECTRAL_GRADIENTS else 1
        return data + spectra + weights * 2 * inputs * outputs * kept

    @property
    def title(self) -> str:
        """The transform, its size and its place: a line that differs for all remembered plans."""
        direction = ("inverse " if self.inverse else "") + _TITLES[self.kind]
        size = f"N = {self.n}" if not self.shape else " x ".join(map(str, self.shape))
        if self.kind in SPECTRAL_KINDS:
            inputs, outputs, *lengths = self.shape
            size = f"{inputs} to {outputs} channels, {' x '.join(map(str, lengths))} points, "
            size += f"{' x '.join(map(str, self.padded_from[2:]))} frequencies"
        elif self.padded_from and self.padded_from != self.shape:
            size += f" for {' x '.join(map(str, self.padded_from))}"
        return f"{direction}, {size}, batch {self.batch}, {self.precision}, {self.where}"

    @property
    def where(self) -> str:
        """Chip and degree of LNC, for which each modelled time holds, as "trn2, LNC=2"."""
        return f"{self.target}, LNC={self.cores}"


@dataclass(frozen=True)
class Sizes:
    """How much is transformed, as fields of a `Problem`."""

    n: int
    shape: tuple[int, ...] = ()
    padded_from: tuple[int, ...] = ()


def checked_sizes(n: object, shape: object, padded_from: object) -> Sizes:
    """Returns the sizes of a problem from the arguments of `plan`.

    Raises:
        TypeError, ValueError: an argument has the wrong type, is out of range, or does not fit the
            others.
    """
    if shape is not None and n is not None:
        raise TypeError(
            f"arguments 'n' and 'shape' are {shown(n)} and {shown(shape)}, allowed is one of them"
        )
    if shape is None and padded_from is None:
        return Sizes(at_least_one("n", n))
    sizes = checked_shape("shape", (n,) if shape is None else shape)
    held = sizes if padded_from is None else checked_shape("padded_from", padded_from)
    if len(held) != len(sizes) or any(map(gt, held, sizes)):
        raise ValueError(
            f"argument 'padded_from' is {shown(held)}, allowed are {len(sizes)} sizes up to "
            f"{shown(sizes)}"
        )
    if len(sizes) == 1 and held == sizes:
        return Sizes(sizes[0])
    return Sizes(math.prod(sizes), sizes, held)


def checked_accuracy(precision: str, dtype: object, max_error: float | None) -> tuple[str, float]:
    """Returns precision mode and largest error of a problem; float64 data has the mode "double".

    Raises:
        TypeError, ValueError: an argument is unknown, or the error is not positive.
    """
    config.check_precision(precision, "precision")
    if _dtype_name(dtype) == "float64" or precision == "double":
        return "double", accuracy.MAX_ERRORS["double"]
    budget = accuracy.MAX_ERRORS[precision] if max_error is None else finite("max_error", max_error)
    if not budget > 0:
        raise ValueError(f"argument 'max_error' is {max_error!r}, allowed is any positive number")
    return precision, budget


def checked_launch(target: str | None, cores: object) -> tuple[hardware.NeuronCore, int]:
    """Returns chip and degree of LNC; for None, those of the launches on this computer.

    Raises:
        TypeError, ValueError: the chip is unknown, or it does not have the degree.
    """
    named = None if target is None else _chip(target)
    chip = named or hardware.current()
    return chip, hardware.degree(named) if cores is None else checked_cores(cores, chip)


def _chip(target: str) -> hardware.NeuronCore:
    try:
        return hardware.chip(target)
    except (ValueError, TypeError):  # TypeError for values that cannot be looked up
        known = ", ".join(hardware.NAMES)
        raise ValueError(f"argument 'target' is {shown(target)}, allowed are {known}") from None


def checked_cores(cores: object, chip: hardware.NeuronCore) -> int:
    """Returns the degree of LNC of a problem.

    Raises:
        TypeError, ValueError: it is not an int, or the chip does not have the degree.
    """
    degree, most = at_least_one("cores", cores), chip.programs_per_launch
    if degree > most:
        allowed = f"1 to {most} on {chip.name}"
        if most == 1:
            allowed = f"1: {chip.name} has degree 1 only"
        raise ValueError(f"argument 'cores', the degree of LNC, is {degree}, allowed is {allowed}")
    return degree


def at_least_one(name: str, value: object) -> int:
    """Returns an argument as an int; TypeError for other types, ValueError for less than 1."""
    number = index(name, value)
    if number < 1:
        raise ValueError(f"argument {name!r} is {shown(number)}, allowed is 1 or more")
    return number


def checked_shape(name: str, sizes: object) -> tuple[int, ...]:
    if not isinstance(sizes, Iterable) or getattr(sizes, "ndim", 1) == 0:
        raise TypeError(f"argument {name!r} must be a tuple of ints, not {type(sizes).__name__}")
    found = tuple(at_least_one(name, size) for size in sizes)
    if not found:
        raise ValueError(f"argument {name!r} is (), allowed are one or more sizes")
    return found


def _dtype_name(dtype: object) -> str:
    name = str(getattr(dtype, "__name__", dtype)).removeprefix("torch.")
    if name not in DTYPES:
        raise TypeError(
            f"argument 'dtype' is {shown(dtype)}, allowed are {', '.join(DTYPES)}: the dtype of "
            f"the real and imaginary part"
        )
    return name
