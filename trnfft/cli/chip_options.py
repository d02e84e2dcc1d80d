"""The options that name the simulated chip: the same for every command that has them."""

from __future__ import annotations

from typing import Annotated

import typer

from nki_sim import hardware

Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        help=f"Chip: trn1, trn2 or trn3. Default: the chip that {hardware.TARGET_VARIABLE} names, "
        "else that of the EC2 instance, else trn1.",
        show_default=False,
    ),
]
Lnc = Annotated[
    int | None,
    typer.Option(
        "--lnc",
        help="Degree of LNC, the physical cores that share a launch: 1, or 2 on trn2 and trn3. "
        f"Default: the degree in {hardware.LNC_VARIABLE}, else the largest of the chip.",
        show_default=False,
    ),
]


def chip_and_cores(target: str | None, lnc: int | None) -> tuple[hardware.NeuronCore, int]:
    """Returns the chip that the options name, and the degree of LNC of launches on it."""
    from trnfft.planner.problem import checked_cores

    named = None if target is None else hardware.chip(target)
    chip = named or hardware.current()
    return chip, hardware.degree(named) if lnc is None else checked_cores(lnc, chip)
