"""Spectral convolutions and their gradients, in the simulator, compared with NumPy in float64.

The tests protect right results for any numbers of channels, points, kept frequencies and samples on
every chip, also in loops and on two cores, and samples that do not mix. A kernel must need less
time than separate transforms.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import nki_kernels.base.launch
import nki_sim
from nki_kernels.base import counting
from nki_kernels.base.packing import pack, packed_spec
from nki_kernels.spectral import spectral_gradients as gradients
from nki_kernels.spectral.spectral_convolution import spectral_convolution
from nki_kernels.spectral.spectral_gradients import spectral_gradients
from nki_kernels.spectral.spectral_tables import kept_frequencies, spectral_specs, spectral_tables
from nki_sim import hardware
from tests import sweeps
from tests.tolerances import contractions, near, operands, together, transforms
from trnfft.planner.kinds import SpectralGradients, SpectralLayer
from trnfft.planner.planner import plan_for

from .independence import check_rows_are_independent
from .samples import real
from .turns import on_chips, on_first_chip

CHIPS = hardware.NAMES
OF_CHIP = pytest.mark.usefixtures("strict_chip")


class Layer:
    """Channels, points and kept frequencies of a layer, with a weight, and what it computes."""

    def __init__(self, channels, lengths, counts, is_centered=False, dtype="float32"):
        self.channels, self.lengths, self.counts = channels, lengths, counts
        self.is_centered, self.dtype = is_centered, dtype
        self.points, self.axes = math.prod(lengths), tuple(range(-len(lengths), 0))
        self.weight = [real(*channels, math.prod(counts)) / channels[0] for _ in range(2)]

    @property
    def kept(self):
        """Where the kept frequencies lie in half a spectrum."""
        last = len(self.lengths) - 1
        sizes = enumerate(zip(self.lengths, self.counts, strict=True))
        found = [kept_frequencies(n, m, axis == last, self.is_centered) for axis, (n, m) in sizes]
        return np.ix_(*found)

    def matrices(self):
        """The weight as complex matrices [Ci, Co, *frequencies]."""
        re, im = (part.astype(float) for part in self.weight)
        return (re + 1j * im).reshape(*self.channels, *self.counts)

    def low(self, x):
        """The kept frequencies of data [B, C, points]."""
        x = x.astype(float).reshape(*x.shape[:2], *self.lengths)
        return np.fft.rfftn(x, axes=self.axes)[(slice(None), slice(None), *self.kept)]

    def stored(self, low):
        """Kept frequencies [B, C, *frequencies] as the kernel stores them."""
        low = low.reshape(*low.shape[:2], -1)
        return np.stack([low.real, low.imag], 1).transpose(0, 3, 1, 2)

    def data(self, low):
        """Data with such kept frequencies."""
        half = (*self.lengths[:-1], self.lengths[-1] // 2 + 1)
        spectrum = np.zeros((*low.shape[:2], *half), complex)
        spectrum[(slice(None), slice(None), *self.kept)] = low
        return np.fft.irfftn(spectrum, self.lengths, self.axes).reshape(*low.shape[:2], -1)

    def exact(self, x, adjoint=False):
        w = self.matrices()
        w = w.conj().swapaxes(0, 1) if adjoint else w
        return self.data(np.einsum("bi...,io...->bo...", self.low(x), w))

    def exact_gradient(self, x, dy):
        """The gradient of the weight, complex."""
        k, n = np.arange(self.counts[-1]), self.lengths[-1]
        factors = np.where((k == 0) | (2 * k == n), 1.0, 2.0) / self.points
        dw = np.einsum("bi...,bo...->io...", self.low(x).conj(), self.low(dy) * factors)
        return dw.reshape(*self.channels, -1)

    def tolerance(self, count, terms=0):
        """Returns the tolerance of `count` transforms, and of sums of so many complex products."""
        if self.dtype == "bfloat16":
            return operands(count * len(self.lengths) + (terms > 0))
        return together(transforms(self.lengths, count), contractions(2 * terms))

    def tables(self, **options):
        options |= {"is_centered": self.is_centered, "dtype": self.dtype}
        return pack(spectral_tables(self.lengths, self.counts, **options))

    def run(self, x, programs=1, adjoint=False, keeps=False):
        rest = *self.weight, *self.tables(), (self.lengths, self.counts, adjoint, keeps)
        return nki_sim.simulate(spectral_convolution[programs])(x, *rest)

    def gradients(self, dy, spectra, programs=1):
        """Returns the gradients of the data and, complex, of the weight."""
        rest = *self.weight, *self.tables(is_gradient=True), (self.lengths, self.counts)
        dx, re, im = nki_sim.simulate(spectral_gradients[programs])(dy, spectra, *rest)
        return dx, re + 1j * im.astype(float)

    def check(self, batch, programs=1):
        """The convolution, that of the adjoint weight, and all gradients."""
        inputs, outputs = self.channels
        x, dy = real(batch, inputs, self.points), real(batch, outputs, self.points)
        y, spectra = self.run(x, programs, keeps=True)
        near(y, self.exact(x), self.tolerance(2, inputs))
        near(spectra, self.stored(self.low(x)), self.tolerance(1))
        of_dy = self.exact(dy, adjoint=True)
        near(self.run(dy, programs, adjoint=True), of_dy, self.tolerance(2, outputs))
        self.check_gradients(x, dy, spectra, of_dy, programs)

    def check_gradients(self, x, dy, spectra, of_dy, programs=1):
        dx, dw = self.gradients(dy, spectra, programs)
        near(dx, of_dy, self.tolerance(2, self.channels[1]))
        near(dw, self.exact_gradient(x, dy), self.tolerance(2, len(x)))

    def check_independent(self, batch=9):
        x = real(batch, self.channels[0], self.points)
        tolerance = self.tolerance(2, self.channels[0])
        check_rows_are_independent(self.run, x, self.exact(x), tolerance)


# Channels that fill a slot or not, and that exceed the partitions; points that fill a run or not.
LAYERS = [
    ((1, 1), (1,), (1,), 1),
    ((3, 4), (2,), (2,), 5),
    ((32, 32), (64,), (16,), 9),
    ((33, 5), (129,), (65,), 3),
    ((64, 64), (256,), (33,), 4),
    ((65, 31), (100,), (51,), 2),
    ((130, 3), (48,), (1,), 3),
    ((5, 130), (300,), (70,), 2),
    ((2, 3), (5000,), (12,), 2),
    ((8, 4), (40,), (5,), 70),
    ((1, 2), (1, 1), (1, 1), 2),
    ((3, 4), (12, 20), (6, 5), 5),
    ((32, 16), (16, 16), (8, 9), 3),
    ((33, 5), (65, 7), (9, 4), 2),
    ((16, 33), (7, 130), (7, 12), 2),
    ((4, 70), (10, 32), (10, 17), 2),
    ((130, 3), (8, 8), (4, 3), 2),
    ((3, 2), (130, 10), (34, 3), 2),
    ((4, 8), (6, 10), (3, 3), 70),
    ((4, 5), (10, 48), (10, 24), 20),
    ((1, 2), (1, 1, 1), (1, 1, 1), 3),
    ((3, 4), (4, 6, 8), (2, 3, 4), 2),
    ((33, 5), (5, 7, 9), (5, 4, 3), 2),
    ((4, 16), (16, 33, 12), (6, 8, 7), 3),
    ((130, 3), (3, 4, 4), (2, 2, 3), 1),
    ((2, 70), (8, 2, 66), (3, 2, 33), 2),
    ((1, 1), (128, 1, 128), (9, 1, 4), 2),
    ((2, 3), (2, 128, 3), (2, 100, 2), 5),
    ((2, 33), (4, 65, 64), (2, 1, 33), 1),
    ((32, 1), (1, 7, 64), (1, 7, 33), 2),
    ((1, 2), (64, 66), (4, 33), 1),  # rows in several pieces
]
MORE_LAYERS = [
    ((4, 70), (20, 32), (20, 17), 2),
    ((4, 8), (10, 12), (4, 3), 70),
    ((4, 5), (20, 48), (20, 24), 40),
    ((2, 70), (20, 2, 66), (4, 2, 33), 2),
    ((32, 1), (1, 31, 64), (1, 31, 33), 2),
]


BFLOAT16 = {"dtype": "bfloat16"}
CENTERED = {"is_centered": True}  # negative frequencies first
OTHERS = [
    *((*LAYERS[place], BFLOAT16) for place in (2, 3, 5, 11, 13, 14)),
    ((3, 4), (12, 20), (7, 5), 2, CENTERED),
    ((3, 4), (12, 20), (6, 5), 2, CENTERED),
    ((3, 4), (6, 8, 10), (3, 4, 5), 2, CENTERED),
]


@pytest.mark.weekly
@OF_CHIP
@on_chips(
    "channels, lengths, counts, batch, options",
    [*((*layer, {}) for layer in LAYERS), *OTHERS],
    whole=[(*layer, {}) for layer in MORE_LAYERS],
)
def test_layers(channels, lengths, counts, batch, options):
    Layer(channels, lengths, counts, **options).check(batch)


SHORT = [((200,), (20,)), ((12, 20), (6, 5)), ((6, 8, 10), (3, 4, 5))]


@OF_CHIP
@on_first_chip(*CHIPS)  # whose transposes mix rows
@pytest.mark.parametrize(
    "lengths, counts, options",
    [*((*sizes, {}) for sizes in SHORT), *((*sizes, BFLOAT16) for sizes in SHORT[:2])],
)
def test_samples_are_independent(lengths, counts, options):
    Layer((6, 5), lengths, counts, **options).check_independent()


@st.composite
def layers(draw):
    """A chip, a layer with one to three axes, and a number of samples."""
    channels = draw(st.integers(1, 140)), draw(st.integers(1, 140))
    axes = draw(st.integers(1, 3))
    sizes = st.integers(1, 140 if axes < 3 else 24)
    lengths = draw(st.lists(sizes, min_size=axes, max_size=axes).map(tuple))
    *signed, last = lengths
    counts = [draw(st.integers(1, min(n, 128))) for n in signed]
    counts.append(draw(st.integers(1, min(last // 2 + 1, 64))))
    numbers = max(channels) * math.prod(lengths)
    batch = draw(st.integers(1, max(1, min(40, 2**18 // numbers))))
    return draw(st.sampled_from(CHIPS)), channels, lengths, tuple(counts), batch


@pytest.mark.weekly
@pytest.mark.sweep
@given(layers())
@settings(deadline=None, max_examples=30)
def test_random_layers(drawn):
    chip, channels, lengths, counts, batch = drawn
    layer = Layer(channels, lengths, counts)
    # A few numbers could all be small sums of large ones.
    assume(math.prod((*channels, *counts)) >= 64)
    batch = max(batch, 64 // (min(channels) * math.prod(counts)))
    with hardware.select(hardware.chip(chip)), nki_sim.strict():
        try:
            x = real(batch, channels[0], layer.points)
            near(layer.run(x), layer.exact(x), layer.tolerance(2, channels[0]))
            layer.check(batch)
        except nki_sim.NkiValidationError as reason:  # the planner then takes transforms
            assert "sbuf" in str(reason).lower()


LOOPED = [
    ((20, 20), (64,), (8,), 131),
    ((64, 40), (48,), (20,), 131),
    ((4, 3), (8, 10), (4, 3), 35),
    ((2, 3), (4, 6, 5), (2, 3, 2), 35),
]


@pytest.mark.weekly
@OF_CHIP
@on_chips("channels, lengths, counts, batch", LOOPED, ("trn1", "trn3", "trn2"))
def test_loops_and_two_cores(monkeypatch, channels, lengths, counts, batch):
    layer = Layer(channels, lengths, counts)
    monkeypatch.setattr(nki_kernels.base.launch, "BODY_INSTRUCTIONS", 1)
    programs = hardware.current().programs_per_launch
    layer.check(batch, programs)
    layer.check(1, programs)


@pytest.mark.weekly
@OF_CHIP
@on_chips(
    "channels, counts, batch, unrolled",
    [
        ((3, 4), (5,), 450, 4),
        ((33, 50), (3,), 384, 4),
        ((130, 3), (1,), 450, 4),
        ((2, 2), (1,), 450, 4),
    ],
    ("trn1", "trn2"),
    whole=[
        ((3, 4), (2,), 1100, 16),
        ((33, 50), (3,), 1088, 16),
        ((130, 3), (1,), 1100, 16),
        ((2, 2), (1,), 1100, 16),
    ],
)
def test_gradients_of_many_samples(monkeypatch, channels, counts, batch, unrolled):
    """Loops on the device add them, the same ones in every program."""
    monkeypatch.setattr(gradients, "_UNROLLED", unrolled)
    n = 2 * counts[0]
    layer = Layer(channels, (n,), counts)
    x, dy = real(batch, channels[0], n), real(batch, channels[1], n)
    spectra = layer.stored(layer.low(x)).astype(np.float32)
    programs = hardware.current().programs_per_launch
    layer.check_gradients(x, dy, spectra, layer.exact(dy, adjoint=True), programs)


@OF_CHIP
@on_first_chip("trn2")
def test_a_tracer_that_cannot_mute(monkeypatch):
    monkeypatch.setattr(counting, "CAN_MUTE", False)
    Layer((3, 4), (24,), (7,)).check(5, 2)


LARGE = [
    ((64, 64), (64, 64), (24, 12)),
    ((32, 32), (64, 64), (24, 13)),
    ((32, 32), (2, 64), (2, 16)),  # all frequencies of both axes in a bank
    ((20, 20), (64, 64), (32, 33)),
    ((130, 3), (2048,), (200,)),  # large tables
]


@pytest.mark.weekly
@OF_CHIP
@sweeps.some(
    "strict_chip, layer, batch",
    itertools.product(CHIPS, LARGE, (64, 500)),
    [
        ("trn2", LARGE[1], 500),
        ("trn3", LARGE[2], 64),
        ("trn3", LARGE[3], 64),
        ("trn1", LARGE[4], 500),
    ],
).with_args(ids=str, indirect=["strict_chip"])
def test_large_batches_fit(layer, batch):
    """A batch is computed in as many blocks as the memory asks for."""
    channels, lengths, counts = layer
    x = (batch, channels[0], math.prod(lengths)), "float32"
    weight = (*channels, math.prod(counts)), "float32"
    tables = packed_spec(spectral_specs(lengths, counts))
    settings = lengths, counts, False, batch == 64
    timeline = nki_sim.dry_run(spectral_convolution, x, weight, weight, *tables, settings)
    assert timeline.sbuf_peak_bytes <= hardware.current().sbuf_partition_bytes


GOALS = [
    ((32, 32), (256,), (16,), 16),
    ((32, 32), (64, 64), (24, 12), 16),
    ((16, 8), (16, 16, 16), (8, 8, 5), 4),
    ((64, 64), (1024,), (16,), 32),
]
KINDS = "", "keeps", "gradients"


@pytest.mark.weekly
@sweeps.some(
    "chip, goal, kind",
    itertools.product(CHIPS, GOALS, KINDS),
    list(zip(("trn1", "trn2", "trn2"), GOALS[:3], KINDS, strict=True)),
).with_args(ids=str)
def test_less_time_than_transforms(chip, goal, kind):
    """A quarter less at least, also for the gradients; two cores need little more than one."""
    channels, lengths, counts, batch = goal

    def plan(cores, **options):
        layer = SpectralLayer(*channels, lengths, counts, keeps_spectra=kind == "keeps")
        if kind == "gradients":
            layer = SpectralGradients(*channels, lengths, counts)
        return plan_for(layer, batch=batch, target=chip, cores=cores, **options)

    times = []
    for cores in range(1, hardware.chip(chip).programs_per_launch + 1):
        found = plan(cores)
        fused, separate, *_ = found.candidates
        assert found.launches == 1 and separate.launches == 2
        assert fused.predicted_ns < 0.75 * separate.predicted_ns
        times.append(fused.predicted_ns)
    assert times[-1] <= 1.12 * times[0]
    if len(lengths) < 3:  # the kernel of volumes takes float32 alone
        rounded = plan(cores, precision="bf16")
        assert rounded.algorithm == f"{found.algorithm}_bf16"
        assert rounded.predicted_ns < times[-1]
