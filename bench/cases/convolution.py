"""Convolutions of rows, of a long signal by overlap-add, and of pictures, each with its filter."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import trnfft
from bench.cases.case import Case, real

# The shape of one input, the shape of its filter, and the batch.
ROWS = ((3072,), (1025,), 64)
SIGNAL = ((2**18,), (1001,), 1)
PICTURE = ((480, 640), (33, 33), 3)


def reference(axes: tuple[int, ...], x: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Returns the whole linear convolution, computed by transforms in float64."""
    sizes = [x.shape[axis] + h.shape[axis] - 1 for axis in axes]
    return np.fft.irfftn(np.fft.rfftn(x, sizes, axes) * np.fft.rfftn(h, sizes, axes), sizes, axes)


def case(
    name: str, function: Any, shape: tuple[int, ...], taps: tuple[int, ...], batch: int
) -> Case:
    axes = tuple(range(-len(shape), 0))
    sizes = (" x ".join(map(str, each)) for each in (shape, taps))
    return Case(
        operation="convolution",
        name=f"{name} {' * '.join(sizes)}",
        shape=shape,
        batch=batch,
        inputs=lambda rng: (real(rng, batch, *shape), real(rng, 1, *taps)),
        call=partial(function, dims=axes),
        reference=partial(reference, axes),
    )


CASES = (
    case("convolve", trnfft.convolve, *ROWS),
    case("oaconvolve", trnfft.oaconvolve, *SIGNAL),
    case("convolve", trnfft.convolve, *PICTURE),
)
