"""What one launch computes, by separate launches and what torch does around them: its price.

A spectral convolution consists of two transforms:

    X = rfftn(x),  kept frequencies of X,  Y = mixed channels,  Y among zeros,  y = irfftn(Y)

Two transforms are launches of their own. What torch moves between them is counted once for each
operation, at the rate of all DMA engines or of HBM, and each operation waits for a load and for a
store. Gradients are transforms of dy back and forth, the mixing by the adjoint weight, and the
product of the kept spectra.

The spectra of frames are a transform of frames, which torch cuts out of the signal, times the
window. For a spectrogram torch squares both parts, adds them, and multiplies them by a bank of
bands.

The real part of the transform of real planes is that of half spectra, which torch extends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from nki_sim import hardware
from trnfft.planner import accuracy
from trnfft.planner.plan import Candidate, Plan, Recipe
from trnfft.planner.problem import (
    C2R,
    FRAME_BANDS,
    FRAME_KINDS,
    FRAME_POWERS,
    FRAME_SPECTRA,
    FUSED_KINDS,
    R2C,
    REAL_PLANES,
    SPECTRAL_GRADIENTS,
    Problem,
)

SEPARATE = "separate_launches"  # no kernel: the operations of trnfft.ops.spectral_convolution

Solve = Callable[[Problem], Plan]


def separate_candidate(problem: Problem, solve: Solve) -> list[Candidate]:
    """Returns the candidate of separate launches, if the problem has one.

    solve: returns the plan for a transform; it may raise NotImplementedError.
    """
    if problem.kind not in FUSED_KINDS:
        return []
    recipe = Recipe(SEPARATE, problem.n)
    try:
        plans = [solve(one) for one in transforms(problem)]
    except NotImplementedError as reason:
        return [Candidate(recipe, rejected=str(reason))]
    chip = hardware.chip(problem.target)
    waits = 2 * operations(problem) * (chip.dma_start_ns + chip.dma_finish_ns)
    between = chip.dma_floor_ns(1, moved_bytes(problem), problem.cores) + waits
    ns, low, high = (
        round(between + sum(times), 1) for times in zip(*map(_times, plans), strict=True)
    )
    mixing = accuracy.matrix_error(2 * problem.shape[0])
    if problem.kind in FRAME_KINDS:  # squares have twice the error
        mixing = 0.0 if problem.kind == FRAME_SPECTRA else plans[0].predicted_error
    elif problem.kind == REAL_PLANES:
        mixing = 0.0
    error = accuracy.root_of_squares(*(plan.predicted_error for plan in plans), mixing)
    launches = sum(plan.launches for plan in plans)
    return [Candidate(recipe, ns, float(f"{error:.2e}"), "dma", launches, "", None, low, high)]


def _times(plan: Plan) -> tuple[float, float, float]:
    """Returns the modelled time of a plan, and those by the cheapest and the dearest reading."""
    ns = plan.predicted_ns or 0.0
    return ns, plan.low_ns or ns, plan.high_ns or ns


def transforms(problem: Problem) -> list[Problem]:
    """Returns the transforms: of all channels, forward and inverse, of frames, or of planes."""
    if problem.kind == REAL_PLANES:
        return [replace(problem, kind=R2C)]
    if problem.kind in FRAME_KINDS:
        n = problem.shape[0]
        return [replace(problem, n=n, kind=R2C, shape=(), padded_from=())]
    inputs, outputs, *lengths = problem.shape
    if problem.kind == SPECTRAL_GRADIENTS:
        inputs, outputs = outputs, inputs
    shape = tuple(lengths) if len(lengths) > 1 else ()
    plain = replace(problem, n=math.prod(lengths), shape=shape, padded_from=shape)
    return [
        replace(plain, kind=kind, batch=problem.batch * channels, inverse=kind == C2R)
        for kind, channels in ((R2C, inputs), (C2R, outputs))
    ]


def operations(problem: Problem) -> int:
    """Returns the number of torch's operations between the launches.

    For a spectral convolution these are two each that cut and spread, four products and two sums,
    and for its gradients four more products and two more sums.
    """
    if problem.kind == REAL_PLANES:
        return 2  # one mirrors, one joins
    if problem.kind in FRAME_KINDS:
        return {FRAME_SPECTRA: 1, FRAME_POWERS: 4, FRAME_BANDS: 5}[problem.kind]
    return 16 if problem.kind == SPECTRAL_GRADIENTS else 10


def moved_bytes(problem: Problem) -> int:
    """Returns the bytes that torch's operations between the launches read and write.

    For a spectral convolution they cut the kept frequencies out of half a spectrum, multiply and
    add four products of real parts, and write the result among zeros. For planes they extend both
    parts of half a spectrum, and copy one.
    """
    if problem.kind in FRAME_KINDS:
        return _moved_by_frames(problem)
    if problem.kind == REAL_PLANES:
        return 16 * problem.batch * problem.n
    inputs, outputs, *lengths = problem.shape
    if problem.kind == SPECTRAL_GRADIENTS:
        inputs, outputs = outputs, inputs
    kept = math.prod(problem.padded_from[2:])
    half = math.prod(lengths[:-1]) * (lengths[-1] // 2 + 1)
    x, y = problem.batch * inputs * kept, problem.batch * outputs * kept
    weight = inputs * outputs * kept
    cut = 2 * 2 * x
    products = 4 * (x + weight + y)
    sums = 2 * 3 * y
    if problem.kind == SPECTRAL_GRADIENTS:
        products += 4 * (x + weight + y)
        sums += 2 * 3 * weight
    spread = 2 * (y + problem.batch * outputs * half)
    return 4 * (cut + products + sums + spread)


def _moved_by_frames(problem: Problem) -> int:
    """Returns the bytes of a spectrogram: windowed frames, squares, their sum, and bands."""
    n, bins = problem.shape[0], problem.shape[0] // 2 + 1
    powers = 0 if problem.kind == FRAME_SPECTRA else 7 * bins
    bands = bins + problem.shape[2] if problem.kind == FRAME_BANDS else 0
    return 4 * problem.batch * (2 * n + powers + bands)
