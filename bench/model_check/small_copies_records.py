"""Times of kernels with many small copies, and of a small instruction.

`vector_add_kernels` and `turbulence_kernels` rebuild the kernels. The times of the vector adds are
those of whole launches, so that they contain a launch; a public write-up of 2024 has the times on
trn1, one of 2025 those on trn2. The compiler of 2024 optimised the kernels, that of 2025 was told
not to.
"""

from __future__ import annotations

from bench.model_check.measurement import FITTED, HELD_OUT, INPUT, Measurement, whole_kernels

ADD = "vector adds"
TURBULENCE = "turbulence, trn1"
SMALL = "small instructions, trn1"

COURSE = "Stanford CS149, assignment 4, float32, one core, p99 of a launch: a public write-up of"
SPECTRAL = (
    "github.com/aws-samples/sample-spectral-dns-on-aws-neuron 5a408ab1 (2026-09-18), "
    "docs/results.md, section 4: three launches"
)
BLOG = "charleshong3.github.io/blog/autocomp_trainium.html (2025-11-03): 65,536 in 3.84 ms"

ABOUT = {
    ADD: "in chunks or tiles of float32",
    TURBULENCE: "a Runge-Kutta step, float32",
    SMALL: "time on the engine",
}

# dma_copy_ns comes from the adds of one number, and on trn1 also from those of 128. The launch is
# fitted to one tile [128, 200], for each chip. The times of the tiles [128, 1] and [128, 2] on trn2
# are part of the range from which software_dge_ns was chosen.
_TRN1 = {
    "25,600 of [1, 1]": (27_404, INPUT),
    "200 of [128, 1]": (206, INPUT),
    "100 of [128, 2]": (53, HELD_OUT),
    "one of [128, 200]": (19, FITTED),
    "one of [128, 2000]": (34, HELD_OUT),
    "two of [128, 1000]": (29, HELD_OUT),
}
_TRN2 = {
    "25,600 of [1, 1]": (37_318, INPUT),
    "200 of [128, 1]": (378, INPUT),
    "100 of [128, 2]": (186, INPUT),
    "one of [128, 200]": (15, FITTED),
    "one of [128, 2000]": (28, HELD_OUT),
    "two of [128, 1000]": (26, HELD_OUT),
}
_ADDS = whole_kernels(
    *[
        Measurement(ADD, f"{name}, {chip}", chip, us, "us", f"{COURSE} {year}", use)
        for chip, year, records in (("trn1", 2024, _TRN1), ("trn2", 2025, _TRN2))
        for name, (us, use) in records.items()
    ]
)

_STEPS = whole_kernels(
    Measurement(TURBULENCE, "64 x 64 x 64", "trn1", 5200, "us", SPECTRAL),
    Measurement(TURBULENCE, "128 x 128 x 128", "trn1", 20_400, "us", SPECTRAL),
)

# The time showed that a small instruction's start-up is hidden behind the one before.
_SMALL = (Measurement(SMALL, "tensor_tensor, [128, 3]", "trn1", 3840 / 65_536, "us", BLOG, INPUT),)

RECORDS = (*_ADDS, *_STEPS, *_SMALL)

LEFT_OUT = {
    "Autocomp: depthwise convolution, 8.0 ms": "two candidates of its search are rebuilt instead",
}
