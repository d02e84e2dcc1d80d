"""Launches of the kernels for one axis, in the simulator, compared with NumPy in float64.

A kernel of this file takes complex data, real data, or half spectra of real data; the names of the
last two begin with `real` and with `inverse_real`. The arguments are those that the planner passes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import nki_sim
from nki_sim import hardware
from tests.registry import REGISTRY
from tests.tolerances import equal_sums, near, operands, pairs, transforms, unit
from trnfft.planner.algorithms.bluestein import ChirpConvolution

from .independence import check_rows_are_independent
from .samples import fits, normal, real

# Options of the tables of matrix products.
BF16 = {"dtype": "bfloat16"}
REFINED = {"dtype": "bfloat16", "refined": True}
COMPENSATED = {"compensated": True}


@dataclass(frozen=True)
class Launched:
    """A kernel on a chip: the launches of one test.

    Methods take `radices`, where the kernel has some, and the options of its tables, such as
    `dtype` or `compensated`. Data are [B, N] or, for strided_stockham, [A, N, C].
    """

    algorithm: str  # the name of the kernel
    chip: str = "trn1"
    cores: int = 1

    @property
    def kernel(self) -> Any:
        return REGISTRY[self.algorithm].kernel

    @property
    def launch(self) -> Any:
        return self.kernel if self.cores == 1 else self.kernel[self.cores]

    @property
    def is_to_real(self) -> bool:
        return self.algorithm.startswith("inverse_real")

    def data(self, batch: int | tuple[int, int], n: int) -> np.ndarray:
        """Returns random data of transforms of length n: complex, real, or half spectra.

        batch: rows or, along a middle axis, members and columns.
        """
        if isinstance(batch, tuple):
            return normal(batch[0], n, batch[1])
        if self.algorithm.startswith("real"):
            return real(batch, n)
        return normal(batch, n // 2 + 1 if self.is_to_real else n)

    def length(self, x: np.ndarray, radices: Sequence[int]) -> int:
        """Returns the length of the transforms; of half spectra without radices, an even one."""
        if not self.is_to_real:
            return x.shape[1]
        return math.prod(radices) if radices else 2 * (x.shape[1] - 1)

    def factors(self, n: int, inverse: bool | None, scale: float | None) -> tuple[bool, float]:
        """Returns whether the transform is an inverse, and its factor, of arguments or None."""
        inverse = self.is_to_real if inverse is None else inverse
        return inverse, (1 / n if inverse else 1.0) if scale is None else scale

    def transform(
        self,
        x: np.ndarray,
        radices: Sequence[int] = (),
        inverse: bool | None = None,
        scale: float | None = None,
        n: int | None = None,
        **options: Any,
    ) -> tuple[np.ndarray, nki_sim.Timeline, np.ndarray]:
        """Returns the result of one strict launch, its timeline, and the exact result.

        Args:
            x: rows, which are rounded to float32 first.
            radices: of the kernel.
            inverse: the sign of the exponent; by default True for half spectra alone.
            scale: a factor; by default that of NumPy, 1 or 1/N.
            n: the length of the transform, where `length` cannot know it.
            options: those of the tables.
        """
        n = n or self.length(x, radices)
        inverse, scale = self.factors(n, inverse, scale)
        inputs = parts(x)
        if "dft_gemm" in self.algorithm:  # one product, whose case names its length so
            radices = ()
        others = arguments(self.algorithm, n, tuple(radices), inverse, scale, **options)
        with self.strictly(), nki_sim.record() as timeline:
            result = joined(nki_sim.simulate(self.launch)(*inputs, *others))
        exact = inputs[0].astype(np.float64)
        if len(inputs) == 2:
            exact = exact + 1j * inputs[1]
        return result, timeline, self.exact(exact, n, inverse, scale)

    def exact(self, x: np.ndarray, n: int, inverse: bool, scale: float) -> np.ndarray:
        """Returns the result of NumPy in double precision."""
        if self.is_to_real:
            return scale * np.fft.irfft(x if inverse else x.conj(), n, axis=1, norm="forward")
        if not np.iscomplexobj(x):
            half = scale * np.fft.rfft(x, axis=1)
            return half.conj() if inverse else half
        if inverse:
            return scale * np.fft.ifft(x, axis=1, norm="forward")
        return scale * np.fft.fft(x, axis=1)

    def check(
        self,
        x: np.ndarray,
        radices: Sequence[int] = (),
        inverse: bool | None = None,
        tolerance: float | None = None,
        rows: bool = False,
        **options: Any,
    ) -> nki_sim.Timeline:
        """Fails unless one launch fits and is near the exact result; returns its timeline."""
        result, timeline, exact = self.transform(x, radices, inverse, **options)
        with self.strictly():
            assert fits(timeline)
        message = f"{self} of shape {x.shape}, {radices}, inverse {inverse}, {options}"
        if tolerance is None:
            tolerance = self.tolerance(
                options.pop("n", self.length(x, radices)), radices, **options
            )
        near(result, exact, tolerance, rows=rows, message=message)
        return timeline

    def tolerance(self, n: int, radices: Sequence[int] = (), **options: Any) -> float:
        """Returns the tolerance of a transform of length n."""
        if options.get("compensated"):
            return unit("float32")  # the result is rounded once, and nothing else is
        if "dtype" in options:
            stages = max(1, len(radices))
            if "refined" not in options:
                return operands(stages)
            return pairs(stages)
        if "bluestein" not in self.algorithm:
            return transforms(n)
        # A convolution with one number adds equal numbers in every stage.
        return transforms(math.prod(radices), 2) if n > 1 else equal_sums(sum(radices))

    def check_independent(
        self,
        x: np.ndarray,
        radices: Sequence[int] = (),
        rows: Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        """Fails unless rows are as accurate as ever, whatever another row holds.

        There is no factor, so that large numbers overflow.
        """
        options = {"scale": 1.0, **options}
        x = x.astype(np.complex64 if np.iscomplexobj(x) else np.float32)
        n = options.get("n") or self.length(x, radices)
        inverse, scale = self.factors(n, options.get("inverse"), options.get("scale"))
        double = x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)
        exact = self.exact(double, n, inverse, scale)
        tolerance = self.tolerance(n, radices, **options)

        def run(spoiled: np.ndarray) -> np.ndarray:
            return self.transform(spoiled, radices, **options)[0]

        with np.errstate(all="ignore"):
            check_rows_are_independent(run, x, exact, tolerance, rows)

    def dry_run(
        self, shape: Sequence[int], radices: Sequence[int] = (), **options: Any
    ) -> nki_sim.Timeline:
        """Returns the timeline of a strict launch without data.

        Args:
            shape: that of the transforms, (B, N) or (A, N, C), also where half spectra are read.
            radices: of the kernel.
            options: those of the tables.
        """
        n = shape[1]
        read = (shape[0], n // 2 + 1 if self.is_to_real else n, *shape[2:])
        inputs = [(read, "float32")] * (1 if self.algorithm.startswith("real") else 2)
        others = arguments(self.algorithm, n, tuple(radices), specs_only=True, **options)
        with self.strictly():
            return nki_sim.dry_run(self.launch, *inputs, *others)

    @contextmanager
    def strictly(self) -> Any:
        with hardware.select(hardware.chip(self.chip)), nki_sim.strict():
            yield


def parts(x: np.ndarray) -> list[np.ndarray]:
    """Returns the real and the imaginary part of x, or x itself if it is real, in float32."""
    found = [x.real, x.imag] if np.iscomplexobj(x) else [x]
    return [np.ascontiguousarray(part, np.float32) for part in found]


def joined(result: Any) -> np.ndarray:
    """Returns the parts of a kernel's result as complex numbers in float64, or its one part."""
    if isinstance(result, (tuple, list)):
        return result[0] + 1j * result[1].astype(np.float64)
    return result


def launch(
    algorithm: Any, recipe: Any, inputs: Sequence[np.ndarray], *settings: Any, cores: int = 1
) -> tuple[np.ndarray, nki_sim.Timeline]:
    """Returns the result of one launch of the planner's recipe, and its timeline.

    settings: whether it is an inverse, and the factor.
    """
    kernel = nki_sim.simulate(algorithm.kernel).with_programs(cores)
    with nki_sim.record() as timeline:
        result = kernel(*inputs, *algorithm.arguments(recipe, *settings))
    assert timeline.launches == 1
    return joined(result), timeline


def dry(algorithm: Any, recipe: Any, *shapes: Sequence[int]) -> nki_sim.Timeline:
    """Returns the timeline of such a launch without data of these shapes."""
    inputs = [(tuple(shape), "float32") for shape in shapes]
    return nki_sim.dry_run(algorithm.kernel, *inputs, *algorithm.specs(recipe))


def both_ways(algorithm: str) -> tuple[str, str]:
    """Returns the names of a kernel of real rows, and of the kernel of its inverse."""
    return algorithm, f"inverse_{algorithm}"


def arguments(
    algorithm: str,
    n: int,
    radices: tuple[int, ...] = (),
    inverse: bool = False,
    scale: float = 1.0,
    specs_only: bool = False,
    **options: Any,
) -> tuple[Any, ...]:
    """Returns what the planner passes after the input: tables, or their (shape, dtype)."""
    found, inner = of_options(algorithm, **options), None
    if isinstance(found, ChirpConvolution):
        inner, radices = found.inner.recipe(math.prod(radices), radices), ()
    recipe = found.recipe(n, radices, inner)
    return found.specs(recipe) if specs_only else found.arguments(recipe, inverse, scale)


def of_options(
    algorithm: str, compensated: bool = False, dtype: str = "float32", refined: bool = False
) -> Any:
    """Returns the planner's algorithm with this precision of products or sums."""
    ending = "_kahan" if compensated else "_bf16" if dtype == "bfloat16" else ""
    return REGISTRY[f"{algorithm}{ending}{'_refined' if refined else ''}"]
