"""The HBM that the kernel of a transform or a convolution needs beside its input and output."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from nki_kernels import hardware
from nki_kernels.simulator import dtypes
from trnfft.checks import check_flag, shown
from trnfft.planner import cost
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.planner import plan, plan_convolution
from trnfft.planner.problem import at_least_one, checked_shape

MOST_BATCH = 2**62  # beyond, no number of bytes is one


def fft_workspace_bytes(
    n_or_shape: int | tuple[int, ...],
    *,
    real: bool = False,
    inverse: bool = False,
    convolution: bool = False,
    batch: int = 1,
    precision: str | None = None,
    target: str | None = None,
) -> int:
    """Bytes of HBM that the kernel chosen by `trnfft.plan` needs beside its input and output.

    This is the sum of

    - its tables (twiddles and DFT matrices), which do not depend on the batch,
    - what the kernel allocates itself: scratch between its passes, and constants,
    - where real data is transformed as complex data for lack of a kernel: the three arrays of
      float32 that complex data has beyond it, in the kernel's input and output.

    The second part is taken from a dry run of the whole batch. The precision "double" needs none,
    as it is computed on the host.

    Args:
        n_or_shape: length of the transform, or lengths of one over several axes.
        real, inverse, batch, precision, target: as for `trnfft.plan`; the batch is not rounded.
            The degree of LNC is that of `trnfft.plan` without `cores`.
        convolution: instead of a transform, whether real rows or images of this length or shape
            are convolved with a filter. Its spectrum is part of the input.

    Raises:
        TypeError, ValueError, NotImplementedError: as `trnfft.plan`.
    """
    is_length = not isinstance(n_or_shape, Iterable)
    checked_shape("n_or_shape", (n_or_shape,) if is_length else n_or_shape)
    check_flag("convolution", convolution)
    if at_least_one("batch", batch) > MOST_BATCH:
        raise NotImplementedError(
            f"argument 'batch' is {shown(batch)}, which no kernel transforms in one launch; use a "
            f"smaller batch"
        )
    if convolution:
        shape: Any = (n_or_shape,) if is_length else n_or_shape
        found = plan_convolution(shape, batch=batch, target=target)
    else:
        size: dict[str, Any] = {"n" if is_length else "shape": n_or_shape}
        found = plan(
            **size, real=real, inverse=inverse, batch=batch, precision=precision, target=target
        )
    if not found.launches:
        return 0
    algorithm = ALGORITHMS[found.recipe.algorithm]
    chip = hardware.chip(found.target)
    try:
        timeline = cost.timeline(found.recipe, batch, chip, found.cores)
    except cost.CannotRun as reason:
        raise NotImplementedError(
            f"argument 'batch' is {shown(batch)}, which no kernel transforms in one launch on "
            f"{found.where}: {reason}; use a smaller batch"
        ) from None
    complex_bytes = 3 * 4 * batch * found.n if algorithm.kind != found.kind else 0
    return _nbytes(algorithm.specs(found.recipe)) + timeline.hbm_scratch_bytes + complex_bytes


def _nbytes(spec: Any) -> int:
    """Bytes of the tables in an algorithm's specs."""
    if hasattr(spec, "nbytes"):
        return spec.nbytes
    if not isinstance(spec, tuple):
        return 0
    if len(spec) == 2 and isinstance(spec[1], str):
        return math.prod(spec[0]) * dtypes.itemsize(spec[1])
    return sum(map(_nbytes, spec))
