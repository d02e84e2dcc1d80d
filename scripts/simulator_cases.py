"""Small launches of every kernel, which compare_simulators.py runs in two simulators."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_kernels.base.packing import pack
from nki_kernels.convolution.block_circulant import (
    block_circulant,
    block_circulant_gradients,
    block_circulant_tables,
    layouts,
    product_masks,
)
from nki_kernels.convolution.circulant_areas import row_pitch, spectrum_rows
from nki_kernels.convolution.convolution import convolution_tables, convolve_rows
from nki_kernels.convolution.image_convolution import column_tables, convolve_images
from nki_kernels.fft.bluestein import bluestein, bluestein_tables
from nki_kernels.fft.butterfly import butterfly
from nki_kernels.fft.butterfly_tables import butterfly_tables
from nki_kernels.fft.dft_gemm import dft_gemm, dft_gemm_matrix
from nki_kernels.fft.folded_dft import folded_dft, folded_dft_tables
from nki_kernels.fft.four_step import four_step
from nki_kernels.fft.four_step_tables import four_step_tables
from nki_kernels.fft.long_bluestein import long_bluestein, long_bluestein_tables
from nki_kernels.fft.split_bluestein import split_bluestein, split_bluestein_tables
from nki_kernels.fft.split_four_step import split_four_step, split_four_step_tables
from nki_kernels.fft.stockham import stockham, stockham_tables
from nki_kernels.nd.axes import (
    DFT_GEMM,
    REAL_DFT_GEMM,
    STRIDED_STOCKHAM,
    transform_axes,
    transform_axes_to_real,
    transform_real_axes,
)
from nki_kernels.nd.resident_planes import resident_planes, resident_planes_tables
from nki_kernels.nd.resident_volumes import (
    resident_real_volumes,
    resident_volumes,
    resident_volumes_tables,
)
from nki_kernels.nd.strided_stockham import strided_stockham, strided_stockham_tables
from nki_kernels.real.inverse_real_four_step import inverse_real_four_step
from nki_kernels.real.real_dft_gemm import (
    inverse_real_dft_gemm,
    inverse_real_dft_gemm_matrix,
    real_dft_gemm,
    real_dft_gemm_matrix,
)
from nki_kernels.real.real_four_step import real_four_step
from nki_kernels.real.real_four_step_tables import (
    inverse_real_four_step_tables,
    real_four_step_tables,
)
from nki_kernels.real.real_stockham import inverse_real_stockham, real_stockham
from nki_kernels.real.real_stockham_tables import (
    inverse_real_stockham_tables,
    real_stockham_tables,
)
from nki_kernels.spectral.frames import frame_bands, frame_powers, frame_spectra
from nki_kernels.spectral.real_planes import real_planes, real_planes_tables
from nki_kernels.spectral.spectral_convolution import spectral_convolution
from nki_kernels.spectral.spectral_gradients import spectral_gradients
from nki_kernels.spectral.spectral_tables import spectral_tables

FLOAT32 = 1e-6  # relative L2 error of another order of float32 sums of the same products
BFLOAT16 = 5e-3  # the same where sums are rounded to bfloat16, with 8 bits, on the way
REFINED = 1e-5  # the same where sums are rounded to pairs of bfloat16, with 16 bits

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A launch.

    Attributes:
        kernel: decorated with the `nki.jit` of the nki in use.
        shapes: shapes of its random normal float32 inputs.
        rest: makes the arguments after the inputs.
        tolerance: largest relative L2 distance between the outputs of two simulators.
        variant: what follows the kernel's name in the name of the case, which is unique.
    """

    kernel: Any
    shapes: list[Shape]
    rest: Callable[[], tuple[Any, ...]]
    tolerance: float = FLOAT32
    variant: str = ""

    @property
    def name(self) -> str:
        """The name of the case."""
        return f"{self.kernel.__name__}{self.variant}"

    def arguments(self) -> tuple[Any, ...]:
        """Returns the kernel's arguments, which are the same in every process."""
        rng = np.random.default_rng(0)
        inputs = [rng.standard_normal(shape).astype(np.float32) for shape in self.shapes]
        return *inputs, *self.rest()


def both(*shape: int) -> list[Shape]:
    """Returns the shapes of real and imaginary part."""
    return [shape, shape]


def all_cases() -> list[Case]:
    """Returns at least one case of every kernel."""
    return [
        *of_complex_rows(),
        *of_real_rows(),
        *of_axes(),
        *of_products(),
        *of_frames(),
        *of_layers(),
        *of_planes(),
    ]


def stages(kernel: Any, tables: Any, shapes: list[Shape], n: int, *radices: int) -> Case:
    """Returns a case of a kernel of several stages, whose tables are packed."""
    return Case(kernel, shapes, lambda: (*pack(tables(n, radices)), radices))


def of_complex_rows() -> list[Case]:
    """Returns cases of transforms of complex rows."""

    def split(*radices: int) -> tuple[Any, ...]:
        matrices, *others = split_four_step_tables(math.prod(radices), radices)
        return matrices, *pack(tuple(others)), radices

    def gemm(variant: str = "", tolerance: float = FLOAT32, **options: Any) -> Case:
        rest = lambda: (dft_gemm_matrix(60, False, 1.0, **options),)  # noqa: E731
        return Case(dft_gemm, both(150, 60), rest, tolerance, variant)

    def butterflies(variant: str, compensated: bool) -> Case:
        rest = lambda: (*pack(butterfly_tables(256, False, 1.0, compensated)), compensated)  # noqa: E731
        return Case(butterfly, both(130, 256), rest, variant=variant)

    def bluestein_rest() -> tuple[Any, ...]:
        return *pack(bluestein_tables(67, 135, (15, 9))), (15, 9)

    return [
        gemm(),
        gemm("_bf16", BFLOAT16, dtype="bfloat16"),
        gemm("_bf16_refined", REFINED, dtype="bfloat16", refined=True),
        stages(stockham, stockham_tables, both(130, 105), 105, 3, 5, 7),
        butterflies("", False),
        butterflies("_kahan", True),
        Case(bluestein, both(5, 67), bluestein_rest),
        Case(folded_dft, both(5, 131), lambda: pack(folded_dft_tables(131))),
        stages(four_step, four_step_tables, both(3, 693), 693, 7, 9, 11),
        Case(split_four_step, both(2, 4096), lambda: split(16, 16, 16)),
        stages(long_bluestein, long_bluestein_tables, both(2, 131), 131, 128, 3),
        stages(split_bluestein, split_bluestein_tables, both(2, 601), 601, 65, 3, 14),
    ]


def of_real_rows() -> list[Case]:
    """Returns cases of transforms from real rows to half spectra, and back."""
    radices = (36, 2, 40)
    back = inverse_real_four_step_tables
    return [
        Case(real_dft_gemm, [(130, 60)], lambda: (real_dft_gemm_matrix(60),)),
        Case(inverse_real_dft_gemm, both(130, 31), lambda: (inverse_real_dft_gemm_matrix(60), 60)),
        stages(real_stockham, real_stockham_tables, [(130, 60)], 60, 6, 10),
        stages(inverse_real_stockham, inverse_real_stockham_tables, both(130, 31), 60, 6, 10),
        stages(real_four_step, real_four_step_tables, [(3, 2880)], 2880, *radices),
        stages(inverse_real_four_step, back, both(3, 1441), 2880, *radices),
    ]


def of_axes() -> list[Case]:
    """Returns cases of transforms along other axes than the last, of 12 x 20 points."""
    radices = (3, 4)
    columns = STRIDED_STOCKHAM, 1, 12, 12, radices

    def column_stages() -> Any:
        return strided_stockham_tables(12, radices, False, 1.0)

    def complex_rest() -> tuple[Any, ...]:
        rows = DFT_GEMM, 2, 20, 20, (20,)
        return *pack((column_stages(), (dft_gemm_matrix(20, False, 1.0),))), (columns, rows)

    def real_rest() -> tuple[Any, ...]:
        rows = REAL_DFT_GEMM, 2, 20, 11, (20,)
        return *pack(((real_dft_gemm_matrix(20),), column_stages())), (rows, columns)

    def to_real_rest() -> tuple[Any, ...]:
        rows = REAL_DFT_GEMM, 2, 20, 20, (20,)
        return *pack((column_stages(), (inverse_real_dft_gemm_matrix(20),))), (columns, rows)

    return [
        Case(
            strided_stockham,
            both(3, 12, 20),
            lambda: (*pack(column_stages()), radices),
        ),
        *of_resident_arrays(),
        Case(transform_axes, both(3, 12, 20), complex_rest),
        Case(transform_real_axes, [(3, 12, 20)], real_rest),
        Case(transform_axes_to_real, both(3, 12, 11), to_real_rest),
    ]


def of_resident_arrays() -> list[Case]:
    """Returns cases of arrays that stay in SBUF between their stages."""
    plane, cube = (256, 128), (64, 64, 64)
    return [
        Case(
            resident_planes,
            both(1, *plane),
            lambda: pack(resident_planes_tables(*plane)),
        ),
        Case(
            resident_volumes,
            both(2, *cube),
            lambda: pack(resident_volumes_tables(cube, False)),
        ),
        Case(
            resident_real_volumes,
            [(1, *cube)],
            lambda: pack(resident_volumes_tables(cube, True)),
        ),
    ]


def of_products() -> list[Case]:
    """Returns cases of convolutions, and of block circulant layers with 2 x 3 blocks of 8."""
    radices, image_stages, rows = (6, 10), (4, 4), 5

    def image_rest() -> tuple[Any, ...]:
        passes = REAL_DFT_GEMM, 24, (24,), 16, image_stages, 16, 24
        back = inverse_real_dft_gemm_matrix(24, scale=1 / 24)
        tables = (real_dft_gemm_matrix(24),), column_tables(16, image_stages), (back,)
        return *pack(tables), passes

    def circulant_rest() -> tuple[Any, ...]:
        layout = layouts(2, 3, 8)[0]
        masks = product_masks(3, layout[0])
        return *pack((*block_circulant_tables(8), masks)), layout

    height = spectrum_rows(8)
    spectra: list[Shape] = [(3, height, row_pitch(rows)), (3, height, row_pitch(2))]
    return [
        Case(
            convolve_rows,
            [(130, 45), (1, 31), (1, 31)],
            lambda: (*pack(convolution_tables(60, radices)), radices, 50),
        ),
        Case(convolve_images, [(3, 16, 24), *both(1, 13, 16)], image_rest),
        Case(block_circulant, [(rows, 3, 8), (2, 3, 8), (1, 2, 8)], circulant_rest),
        Case(
            block_circulant_gradients,
            [(rows, 2, 8), *spectra],
            circulant_rest,
        ),
    ]


def of_frames() -> list[Case]:
    """Returns the cases of spectra of frames, of their powers, alone and in bands."""
    radices = (8, 12)
    of_spectra = lambda: (*pack(real_stockham_tables(96, radices)), radices)  # noqa: E731
    tables = lambda: (*of_spectra(), 2)  # noqa: E731
    return [
        Case(frame_spectra, [(40, 32), (1, 96)], of_spectra),
        Case(frame_powers, [(40, 32), (1, 96)], tables),
        Case(frame_bands, [(40, 32), (1, 96), (49, 10)], tables),
    ]


def of_layers() -> list[Case]:
    """Returns the cases of Fourier layers along two and three axes, whose weight is not square."""
    sizes = ((12, 20), (6, 5)), ((4, 6, 10), (3, 4, 3))
    return [case for lengths, counts in sizes for case in _of_layer(lengths, counts)]


def _of_layer(lengths: tuple[int, ...], counts: tuple[int, ...]) -> list[Case]:
    weight: list[Shape] = [(3, 4, math.prod(counts))] * 2
    settings = lengths, counts, False, False
    points = math.prod(lengths)
    axes = "" if len(lengths) == 2 else f"_{len(lengths)}d"
    return [
        Case(
            spectral_convolution,
            [(5, 3, points), *weight],
            lambda: (*pack(spectral_tables(lengths, counts)), settings),
            variant=axes,
        ),
        Case(
            spectral_gradients,
            [(5, 4, points), (5, math.prod(counts), 2, 3), *weight],
            lambda: (
                *pack(spectral_tables(lengths, counts, is_gradient=True)),
                (lengths, counts),
            ),
            variant=axes,
        ),
    ]


def of_planes() -> list[Case]:
    """Returns the cases of real parts of planes, with an even axis and an odd one."""
    tables = lambda: pack(real_planes_tables(132, 67))  # noqa: E731
    return [Case(real_planes, [(2, 132, 67)], tables)]
