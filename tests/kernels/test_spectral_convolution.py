"""Spectral convolutions and their gradients, in the simulator, compared with NumPy in float64.

The tests protect right results for any numbers of channels, points, kept frequencies and samples on
every chip, also in loops and on two cores, and samples that do not mix. A kernel must need less
time than separate transforms.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import nki_kernels.launch
import nki_sim
from nki_kernels import counting
from nki_kernels.packing import pack, packed_spec
from nki_kernels.spectral.spectral_convolution import spectral_convolution
from nki_kernels.spectral.spectral_gradients import spectral_gradients
from nki_kernels.spectral.spectral_tables import kept_frequencies, spectral_specs, spectral_tables
from nki_sim import hardware
from tests import sweeps
from trnfft.planner.planner import plan_spectral_convolution

from .independence import check_rows_are_independent
from .samples import error, real

TOLERANCE, BFLOAT16_TOLERANCE = 5e-7, 8e-3
CHIPS = hardware.NAMES


class Layer:
    """Channels, points and kept frequencies of a layer, with a weight, and what it computes."""

    def __init__(self, channels, lengths, counts, is_centered=False, dtype="float32"):
        self.dtype, self.tolerance = dtype, TOLERANCE
        if dtype == "bfloat16":
            self.tolerance = BFLOAT16_TOLERANCE
        self.channels, self.lengths, self.counts = channels, lengths, counts
        self.is_centered, self.axes = is_centered, tuple(range(-len(lengths), 0))
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

    def factors(self):
        """The factors of the inverse transform, for the last axis."""
        k, n = np.arange(self.counts[-1]), self.lengths[-1]
        return np.where((k == 0) | (2 * k == n), 1.0, 2.0) / math.prod(self.lengths)

    def tables(self, **options):
        options |= {"is_centered": self.is_centered, "dtype": self.dtype}
        return pack(spectral_tables(self.lengths, self.counts, **options))

    def run(self, x, programs=1, adjoint=False, keeps=False):
        rest = *self.weight, *self.tables(), (self.lengths, self.counts, adjoint, keeps)
        with nki_sim.strict():
            return nki_sim.simulate(spectral_convolution[programs])(x, *rest)

    def gradients(self, dy, spectra, programs=1):
        rest = *self.weight, *self.tables(is_gradient=True), (self.lengths, self.counts)
        with nki_sim.strict():
            return nki_sim.simulate(spectral_gradients[programs])(dy, spectra, *rest)

    def check(self, batch, programs=1):
        """The convolution, with the adjoint weight, too, and all gradients."""
        x, dy = (
            real(batch, self.channels[0], self.points),
            real(batch, self.channels[1], self.points),
        )
        assert error(self.run(x, programs), self.exact(x)) <= self.tolerance
        assert error(self.run(dy, programs, adjoint=True), self.exact(dy, True)) <= self.tolerance
        y, spectra = self.run(x, programs, keeps=True)
        low = self.low(x).reshape(batch, self.channels[0], -1)
        assert error(y, self.exact(x)) <= self.tolerance
        assert (
            error(spectra, np.stack([low.real, low.imag], 1).transpose(0, 3, 1, 2))
            <= self.tolerance
        )
        dx, dw_re, dw_im = self.gradients(dy, spectra, programs)
        of_dy = self.low(dy) * self.factors()
        by_weight = np.einsum("bi...,bo...->io...", self.low(x).conj(), of_dy)
        dw = by_weight.reshape(dw_re.shape)
        assert error(dx, self.exact(dy, True)) <= self.tolerance
        assert error(dw_re, dw.real) <= self.tolerance
        if np.abs(dw.imag).max() > 1e-9 * np.abs(dw.real).max():  # frequencies 0 alone have none
            assert error(dw_im, dw.imag) <= 2 * self.tolerance

    @property
    def points(self):
        return math.prod(self.lengths)


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
    ((4, 70), (20, 32), (20, 17), 2),
    ((130, 3), (8, 8), (4, 3), 2),
    ((3, 2), (130, 10), (34, 3), 2),
    ((4, 8), (10, 12), (4, 3), 70),
    ((4, 5), (20, 48), (20, 24), 40),
    ((1, 2), (1, 1, 1), (1, 1, 1), 3),
    ((3, 4), (4, 6, 8), (2, 3, 4), 2),
    ((33, 5), (5, 7, 9), (5, 4, 3), 2),
    ((4, 16), (16, 33, 12), (6, 8, 7), 3),
    ((130, 3), (3, 4, 4), (2, 2, 3), 1),
    ((2, 70), (20, 2, 66), (4, 2, 33), 2),
    ((1, 1), (128, 1, 128), (9, 1, 4), 2),
    ((2, 3), (2, 128, 3), (2, 100, 2), 5),
    ((2, 33), (4, 65, 64), (2, 1, 33), 1),
    ((32, 1), (1, 31, 64), (1, 31, 33), 4),
]


@sweeps.some("chip", CHIPS, ("trn1", "trn3"))
@pytest.mark.parametrize("channels, lengths, counts, batch", LAYERS)
def test_layers(monkeypatch, chip, channels, lengths, counts, batch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    Layer(channels, lengths, counts).check(batch)


@pytest.mark.parametrize("chip", CHIPS)
def test_negative_frequencies_first(monkeypatch, chip):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    Layer((3, 4), (12, 20), (7, 5), is_centered=True).check(3)
    Layer((3, 4), (12, 20), (6, 5), is_centered=True).check(3)
    Layer((3, 4), (6, 8, 10), (3, 4, 5), is_centered=True).check(2)


BFLOAT16 = [LAYERS[2], LAYERS[3], LAYERS[5], LAYERS[11], LAYERS[13], LAYERS[14]]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("channels, lengths, counts, batch", BFLOAT16)
def test_bfloat16_operands(monkeypatch, chip, channels, lengths, counts, batch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    Layer(channels, lengths, counts, dtype="bfloat16").check(batch)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("lengths, counts", [((200,), (20,)), ((12, 20), (6, 5))])
def test_bfloat16_samples_are_independent(monkeypatch, chip, lengths, counts):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    layer = Layer((6, 5), lengths, counts, dtype="bfloat16")
    x = real(9, 6, layer.points)
    check_rows_are_independent(layer.run, x, layer.exact(x), layer.tolerance)


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


def check_random(drawn):
    chip, channels, lengths, counts, batch = drawn
    layer = Layer(channels, lengths, counts)
    # A few numbers could all be small sums of large ones.
    assume(math.prod((*channels, *counts)) >= 64)
    batch = max(batch, 64 // (min(channels) * math.prod(counts)))
    with hardware.select(hardware.chip(chip)):
        try:
            x = real(batch, channels[0], layer.points)
            assert error(layer.run(x), layer.exact(x)) <= TOLERANCE
            layer.check(batch)
        except nki_sim.NkiValidationError as reason:  # the planner then takes transforms
            assert "sbuf" in str(reason).lower()


@given(layers())
@settings(deadline=None, max_examples=10, derandomize=True)
def test_random_layers(drawn):
    check_random(drawn)


@pytest.mark.sweep
@given(layers())
@settings(deadline=None, max_examples=60)
def test_many_random_layers(drawn):
    check_random(drawn)


LOOPED = [
    ((20, 20), (64,), (8,)),
    ((64, 40), (48,), (20,)),
    ((4, 3), (8, 10), (4, 3)),
    ((2, 3), (4, 6, 5), (2, 3, 2)),
]


@sweeps.some("chip", CHIPS, ("trn1", "trn3"))
@pytest.mark.parametrize("channels, lengths, counts", LOOPED)
def test_loops_and_two_cores(monkeypatch, chip, channels, lengths, counts):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    layer = Layer(channels, lengths, counts)
    monkeypatch.setattr(nki_kernels.launch, "BODY_INSTRUCTIONS", 1)
    for programs in range(1, hardware.current().programs_per_launch + 1):
        layer.check(131, programs)
    layer.check(1, programs)


@sweeps.some("chip", CHIPS, ("trn1", "trn2"))
@pytest.mark.parametrize(
    "channels, counts, batch",
    [((3, 4), (5,), 1200), ((33, 50), (3,), 1088), ((130, 3), (2,), 1100), ((2, 2), (1,), 1100)],
)
def test_gradients_of_many_samples(monkeypatch, chip, channels, counts, batch):
    """Loops on the device add them, the same ones in every program."""
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    layer = Layer(channels, (12,), counts)
    x, dy = real(batch, channels[0], 12), real(batch, channels[1], 12)
    low = layer.low(x)
    spectra = np.stack([low.real, low.imag], 1).transpose(0, 3, 1, 2).astype(np.float32)
    of_dy = layer.low(dy) * layer.factors()
    dw = np.einsum("bi...,bo...->io...", low.conj(), of_dy)
    for programs in range(1, hardware.current().programs_per_launch + 1):
        dx, dw_re, dw_im = layer.gradients(dy, spectra, programs)
        assert error(dx, layer.exact(dy, True)) <= TOLERANCE
        assert error(dw_re + 1j * dw_im, dw) <= TOLERANCE


def test_a_tracer_that_cannot_mute(monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")
    monkeypatch.setattr(counting, "CAN_MUTE", False)
    Layer((3, 4), (24,), (7,)).check(5, 2)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    "lengths, counts", [((200,), (20,)), ((12, 20), (6, 5)), ((6, 8, 10), (3, 4, 5))]
)
def test_samples_are_independent(monkeypatch, chip, lengths, counts):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    layer = Layer((6, 5), lengths, counts)
    x = real(9, 6, layer.points)
    check_rows_are_independent(layer.run, x, layer.exact(x), TOLERANCE)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("batch", [sweeps.whole(64), 500])
@pytest.mark.parametrize(
    "channels, lengths, counts",
    [
        ((64, 64), (64, 64), (24, 12)),
        ((32, 32), (64, 64), (24, 13)),
        ((32, 32), (2, 64), (2, 16)),  # all frequencies of both axes in a bank
        ((20, 20), (64, 64), (32, 33)),
        ((130, 3), (2048,), (200,)),  # large tables
    ],
)
def test_large_batches_fit(monkeypatch, chip, channels, lengths, counts, batch):
    """A batch is computed in as many blocks as the memory asks for."""
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    layer = Layer(channels, lengths, counts)
    weight = (*channels, math.prod(counts)), "float32"
    settings = lengths, counts, False, batch == 64
    with nki_sim.strict():
        timeline = nki_sim.dry_run(
            spectral_convolution,
            ((batch, channels[0], layer.points), "float32"),
            weight,
            weight,
            *packed_spec(spectral_specs(lengths, counts)),
            settings,
        )
    assert timeline.sbuf_peak_bytes <= hardware.current().sbuf_partition_bytes


GOALS = [
    ((64, 64), (1024,), (16,), 32),
    ((32, 32), (64, 64), (24, 12), 16),
    ((16, 8), (16, 16, 16), (8, 8, 5), 4),
]


@sweeps.some("chip", CHIPS, ("trn2",))
@pytest.mark.parametrize("channels, lengths, counts, batch", GOALS)
def test_less_time_than_transforms(chip, channels, lengths, counts, batch):
    """A quarter less at least, also for the gradients; two cores need less than one."""
    most = hardware.chip(chip).programs_per_launch
    for kind in ({}, {"keeps": True}, {"gradients": True}):
        times = []
        for cores in range(1, most + 1):
            where = {"batch": batch, "target": chip, "cores": cores, **kind}
            plan = plan_spectral_convolution(channels, lengths, counts, **where)
            fused, separate, *_ = plan.candidates
            assert plan.launches == 1 and separate.launches == 2
            assert fused.predicted_ns < 0.75 * separate.predicted_ns
            times.append(fused.predicted_ns)
            if len(lengths) == 3:  # whose kernel takes float32 alone
                continue
            rounded = plan_spectral_convolution(
                channels, lengths, counts, precision="bf16", **where
            )
            assert rounded.algorithm == f"{plan.algorithm}_bf16"
            assert rounded.predicted_ns < fused.predicted_ns
        assert times[-1] <= times[0]


def test_specs_are_those_of_the_tables():
    for lengths, counts in (((24,), (7,)), ((12, 20), (6, 5)), ((4, 6, 8), (2, 3, 4))):
        for dtype in ("float32", "bfloat16"):
            tables = spectral_tables(lengths, counts, dtype=dtype)
            assert [(table.shape, str(table.dtype)) for table in tables] == list(
                spectral_specs(lengths, counts, dtype)
            )
