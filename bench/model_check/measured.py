"""A published figure of a kernel: one record of what was measured, and of how it is modelled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nki_sim import hardware

HELD_OUT = "held out"  # the model does not use the figure
FITTED = "fitted"  # the constant overhead of a launch was fitted to the figure
# A cost of the model, or the rebuilt kernel, was set or changed because of the figure.
INPUT = "input"

# A value is one number, or an array: as modelled, with the cheapest and with the dearest reading.
Value = Any


@dataclass(frozen=True)
class Group:
    """Figures that stand in one table, and a few words about all of them."""

    title: str
    about: str


@dataclass(frozen=True)
class Measured:
    """One published figure.

    Attributes:
        group: the table of the figure.
        chip: name of the chip.
        source: where the figure was published.
        name: the kernel and its size; unique in the group.
        value: the figure.
        model: models the figure on its chip, without the launches.
        use: what the figure was used for: HELD_OUT, FITTED or INPUT.
        unit: "us" for microseconds, or "x" for a multiple of the reference's time.
        is_whole_kernel: whether it is a time from launch to end, not one engine or a part.
        cores: degree of LNC.
        overhead: whose launches the figure contains: figures with the same name here share an
            overhead (`points.Overhead`), which is fitted to those among them that are FITTED.
        launches: number of launches whose overhead the figure contains.
    """

    group: Group
    chip: str
    source: str
    name: str
    value: float
    model: Callable[[], Value]
    use: str = HELD_OUT
    unit: str = "us"
    is_whole_kernel: bool = False
    cores: int = 1
    overhead: str = ""
    launches: int = 0

    def on_chip(self) -> Value:
        """Returns the modelled value without the overhead of launches."""
        with hardware.select(hardware.chip(self.chip)):
            return self.model()
