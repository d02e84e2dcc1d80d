"""A kernel's place under the roofline of the chip: its operations per byte and per second."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nki_sim.timeline.recording import Recording

WIDTH, HEIGHT = 420, 220
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 14, 40  # margins


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: its place in pixels and its text."""

    place: float
    text: str


@dataclass(frozen=True)
class Roofline:
    """A plot with two logarithmic axes, in pixels, and its numbers.

    The unit of ``intensity`` is floating-point operations of matmuls per byte of HBM. The rates are
    in TFLOP/s (10^12 a second), ``hbm_rate`` is in GB/s.
    """

    intensity: float
    rate: float
    peak_16_bit: float
    peak_float32: float
    hbm_rate: float
    roof_16_bit: str
    roof_float32: str
    kernel: tuple[float, float]
    label_places: tuple[float, float]  # y of the texts at the two roofs
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def roofline(timeline: Recording) -> Roofline | None:
    """Returns the roofline, or None if the timeline has no matmul or moves nothing in HBM."""
    floors = timeline.floors_ns()
    if not (timeline.macs and timeline.hbm_bytes):
        return None
    operations = 2 * timeline.macs
    intensity = operations / timeline.hbm_bytes
    rate = operations / timeline.total_ns / 1e3
    peak = operations / floors["tensor"] / 1e3
    hbm_rate = timeline.hbm_bytes / floors["hbm"]
    slow = peak / max(chip.fp32_matmul_factor for chip in timeline.chips)
    ridge = peak * 1e3 / hbm_rate
    low_x, high_x = _powers(min(intensity, ridge / 32), max(intensity, ridge) * 4, 4)
    low_y, high_y = _powers(min(rate, hbm_rate * low_x / 1e3, slow / 8), peak * 2, 10)
    low_y = max(low_y, 10.0 ** math.floor(math.log10(min(rate, slow / 8) * 0.99)))

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * _part(value, low_x, high_x)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * _part(value, low_y, high_y)

    def roof(top: float) -> str:
        begin = max(low_x, low_y * 1e3 / hbm_rate)
        corner = top * 1e3 / hbm_rate
        places = [(begin, hbm_rate * begin / 1e3), (corner, top), (high_x, top)]
        return " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in places)

    return Roofline(
        intensity,
        rate,
        peak,
        slow,
        hbm_rate,
        roof(peak),
        roof(slow),
        (x(intensity), y(rate)),
        (y(peak), y(slow)),
        [Tick(x(value), f"{value:g}") for value in _ticks(low_x, high_x, 4)],
        [Tick(y(value), f"{value:g}") for value in _ticks(low_y, high_y, 10)],
    )


def _part(value: float, low: float, high: float) -> float:
    return math.log(value / low) / math.log(high / low)


def _powers(low: float, high: float, base: int) -> tuple[float, float]:
    exponents = math.floor(math.log(low, base) + 1e-9), math.ceil(math.log(high, base) - 1e-9)
    return float(base) ** exponents[0], float(base) ** exponents[1]


def _ticks(low: float, high: float, base: int) -> list[float]:
    count = round(math.log(high / low, base))
    step = -(-count // 6)
    return [low * base**n for n in range(0, count + 1, step)]
