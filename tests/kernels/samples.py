"""Random arrays for tests of kernels, and what a launch has to fit into."""

import numpy as np

from nki_sim import hardware

RNG = np.random.default_rng(20)


def real(*shape):
    """Normal numbers in float32, others at each call."""
    return RNG.standard_normal(shape, np.float32)


def normal(*shape):
    """As `real`, with imaginary parts, in complex128."""
    return real(*shape) + 1j * real(*shape).astype(np.float64)


def large_rows(n):
    """float64 [3, n] of values of float32, whose spectra are below its largest by 1.1 or more."""
    x = np.zeros((3, n))
    x[0, min(3, n - 1)] = 3e38
    x[1] = 3e38 / n
    # Times a chirp it has one large number in its spectrum, as Bluestein's algorithm has it.
    x[2] = 1e38 / n**0.5 * np.cos(np.pi * np.arange(n, dtype=np.float64) ** 2 / n)
    return x.astype(np.float32).astype(np.float64)


def fits(timeline):
    """Whether it is one launch that stays inside of SBUF and breaks no rule but listed ones."""
    most = hardware.current().sbuf_partition_bytes
    return (
        timeline.launches == 1
        and 0 < timeline.sbuf_peak_bytes <= most
        and not timeline.waived_rules
    )
