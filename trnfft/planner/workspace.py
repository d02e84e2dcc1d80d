"""The HBM that the kernel of a transform or a convolution needs besides its input and output."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from nki_sim import hardware
from nki_sim.base import dtypes
from trnfft.base.checks import brief, check_flag
from trnfft.planner import cost
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.kinds import Convolution
from trnfft.planner.kinds.kind import at_least_one, checked_shape
from trnfft.planner.plan import Plan
from trnfft.planner.planner import plan, plan_for, solved
from trnfft.planner.separate import SEPARATE, transforms

MOST_BATCH = 2**62  # a larger batch has more bytes than any memory


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
    """Returns the bytes of HBM that the kernel of `trnfft.plan` needs besides its input and output.

    They are the sum of

    - its tables (twiddle factors and DFT matrices), which do not depend on the batch,
    - what the kernel allocates: scratch between its passes, and constants,
    - where no kernel for real data fits: three arrays of float32, by which complex data exceeds
      real data in the kernel's input and output.

    The second part comes from a dry run of the whole batch. The precision "double" needs no HBM,
    because it is computed on the host. See `docs/planner.md`.

    Args:
        n_or_shape: length of the transform, or the lengths of a transform over several axes.
        real, inverse, batch, precision, target: as for `trnfft.plan`. The batch is not rounded. The
            degree of LNC is that of `trnfft.plan` without `cores`.
        convolution: whether to convolve real rows or images of this length or shape with a filter,
            in place of a transform. The spectrum of the filter is part of the input.

    Returns:
        Number of bytes, an int.

    Raises:
        TypeError, ValueError, NotImplementedError: as `trnfft.plan`.

    Examples:
        >>> import trnfft
        >>> trnfft.fft_workspace_bytes(1024, batch=1024, target="trn1")
        655360
    """
    is_length = not isinstance(n_or_shape, Iterable)
    if isinstance(n_or_shape, Iterator):
        n_or_shape = tuple(n_or_shape)  # because it can be read once
    checked_shape("n_or_shape", (n_or_shape,) if is_length else n_or_shape)
    check_flag("convolution", convolution)
    if at_least_one("batch", batch) > MOST_BATCH:
        raise NotImplementedError(
            f"argument 'batch' is {brief(batch)}, which no kernel transforms in one launch; use a "
            f"smaller batch"
        )
    if convolution:
        shape: Any = (n_or_shape,) if is_length else n_or_shape
        chosen: Plan = plan_for(Convolution(shape), batch=batch, target=target)
    else:
        size: dict[str, Any] = {"n" if is_length else "shape": n_or_shape}
        chosen = plan(
            **size, real=real, inverse=inverse, batch=batch, precision=precision, target=target
        )
    return workspace_bytes(chosen, batch)


def workspace_bytes(plan: Plan, batch: int | None = None) -> int:
    """Returns the bytes of HBM that the kernel of any plan needs besides its input and output.

    Of separate launches the one that needs most counts; what torch allocates for the operations
    between them does not.

    Args:
        found: the plan of a transform, a convolution, a Fourier layer, frames or real planes.
        batch: the exact number of transforms or samples. Default: that of the plan.

    Returns:
        Number of bytes, an int.

    Raises:
        NotImplementedError: no kernel takes so large a batch in one launch.

    Examples:
        >>> from trnfft.planner.kinds import Frames
        >>> from trnfft.planner.planner import plan_for
        >>> from trnfft.planner.workspace import workspace_bytes
        >>> workspace_bytes(plan_for(Frames(512, 128, bands=80), batch=6000, target="trn1"))
        427008
    """
    if not plan.launches:
        return 0
    batch = plan.batch if batch is None else batch
    if plan.algorithm == SEPARATE:
        plans = [solved(each) for each in transforms(plan.problem)]
        return max(workspace_bytes(each, each.batch * batch // plan.batch) for each in plans)
    algorithm = ALGORITHMS[plan.recipe.algorithm]
    chip = hardware.chip(plan.target)
    try:
        timeline = cost.timeline(plan.recipe, batch, chip, plan.cores)
    except cost.CannotRun as reason:
        raise NotImplementedError(
            f"argument 'batch' is {brief(batch)}, which no kernel transforms in one launch on "
            f"{plan.where}: {reason}; use a smaller batch"
        ) from None
    complex_bytes = 3 * 4 * batch * plan.n if algorithm.kind != plan.kind.name else 0
    return _nbytes(algorithm.specs(plan.recipe)) + timeline.hbm_scratch_bytes + complex_bytes


def _nbytes(spec: object) -> int:
    """Returns the bytes of the tables in an algorithm's specs."""
    if not isinstance(spec, tuple):
        return 0
    if len(spec) == 2 and isinstance(spec[1], str):
        return math.prod(spec[0]) * dtypes.itemsize(spec[1])
    return sum(map(_nbytes, spec))
