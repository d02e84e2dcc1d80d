"""The plot of the roofline: its numbers, its two roofs, and the kernel below them."""

import pytest

import nki_sim
from nki_sim.report.roofline import roofline

from .test_advice import products


def points(text):
    """The places of a polyline."""
    return [tuple(map(float, place.split(","))) for place in text.split()]


def test_roofs_bend_inside_the_plot_and_the_kernel_lies_below_them():
    timeline = nki_sim.dry_run(products, ((128, 512), "bfloat16"))
    plot = roofline(timeline)
    operations = 2 * 32 * 128 * 128 * 512
    assert plot.intensity == pytest.approx(operations / timeline.hbm_bytes)
    assert plot.rate == pytest.approx(operations / timeline.total_ns / 1e3)
    for roof in (plot.roof_16_bit, plot.roof_float32):
        begin, corner, end = points(roof)
        assert plot.left <= begin[0] < corner[0] < end[0] == pytest.approx(plot.right, abs=0.1)
        assert plot.top < corner[1] == end[1] < begin[1] <= plot.bottom + 0.1
    x, y = plot.kernel
    ticks = [float(tick.text) for tick in plot.x_ticks]
    assert ticks[0] <= plot.intensity <= ticks[-1] * 4
    ridge = plot.peak_16_bit * 1e3 / plot.hbm_rate
    assert ridge <= ticks[-1] <= 64 * max(ridge, plot.intensity)  # room for the roof, and no more
    assert plot.left <= x <= plot.right and points(plot.roof_16_bit)[1][1] < y <= plot.bottom
