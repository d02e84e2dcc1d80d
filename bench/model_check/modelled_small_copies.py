"""Modelled values of the measurements in `small_copies_records`, by their names.

The values of the vector adds are modelled times on the chip plus a launch, which is fitted to one
time of each chip.
"""

from __future__ import annotations

from collections.abc import Callable

from bench.model_check.measurement import FITTED
from bench.model_check.modelled_launch import (
    Modelled,
    Value,
    continued,
    spec,
    timeline_of,
    total_us,
)
from bench.model_check.small_copies_records import ADD, RECORDS, SMALL, TURBULENCE
from bench.model_check.turbulence_kernels import turbulence_stage
from bench.model_check.vector_add_kernels import add_chunks, add_often, add_tiles
from nki_sim import hardware

NUMBERS = 25_600  # of the adds of chunks
CHIPS = {"trn1": hardware.TRN1, "trn2": hardware.TRN2}


def adds_on_chip(chip: hardware.NeuronCore) -> Modelled:
    """Returns the microseconds of the vector adds without launches."""

    def chunks(numbers: int, rows: int) -> Modelled:
        vector = spec("float32", numbers)
        return {"": total_us(add_chunks, vector, vector, rows)}

    def tiles(count: int, columns: int) -> Value:
        tile = spec("float32", count, 128, columns)
        return total_us(add_tiles, tile, tile)

    with hardware.select(chip):
        return {
            "25,600 of [1, 1]": continued(lambda n: chunks(n, 1), 400, NUMBERS)[""],
            "200 of [128, 1]": chunks(NUMBERS, 128)[""],
            "100 of [128, 2]": tiles(100, 2),
            "one of [128, 200]": tiles(1, 200),
            "one of [128, 2000]": tiles(1, 2000),
            "two of [128, 1000]": tiles(2, 1000),
        }


def launch_us(name: str, on_chip: Modelled) -> float:
    """Returns the microseconds of a launch on a chip, from the measurement marked for the fit."""
    (fitted,) = [m for m in RECORDS if m.chip == name and m.use == FITTED]
    return fitted.value - float(on_chip[fitted.name.removesuffix(f", {name}")][0])


def vector_adds() -> Modelled:
    """Returns the times of the vector adds with their launches."""
    found: Modelled = {}
    for name, chip in CHIPS.items():
        on_chip = adds_on_chip(chip)
        launch = launch_us(name, on_chip)
        found |= {f"{kernel}, {name}": us + launch for kernel, us in on_chip.items()}
    return found


def turbulence() -> Modelled:
    """Returns the times of a step, whose last of three stages also applies the decay."""

    def stage_us(n: int, is_last: bool) -> Value:
        field, matrix = spec("float32", n, n, n), spec("float32", n, n)
        given = (field,) * 6, (field,) * 6, (matrix,) * 3, (field,) * 5
        return total_us(turbulence_stage, *given, field if is_last else None)

    with hardware.select(hardware.TRN1):
        return {f"{n} x {n} x {n}": 2 * stage_us(n, False) + stage_us(n, True) for n in (64, 128)}


def small_instructions() -> Modelled:
    """Returns the time on VectorE of a product of few elements."""
    with hardware.select(hardware.TRN1):
        busy = timeline_of(add_often, spec("float32", 128, 3), 64).engine_busy_ns["vector"]
    return {"tensor_tensor, [128, 3]": busy / 64 / 1e3}


GROUPS: dict[str, Callable[[], Modelled]] = {
    ADD: vector_adds,
    TURBULENCE: turbulence,
    SMALL: small_instructions,
}
