"""--nki, --target, --lnc and --strict: what is simulated, and how strictly."""

from __future__ import annotations

import argparse
import os
from contextlib import AbstractContextManager, nullcontext

from nki_kernels import hardware, releases
from nki_kernels.simulator.kernel import strict_launches

from .errors import CommandError

TARGETS = ("trn1", "trn2", "trn3")


def add_release(parser: argparse.ArgumentParser) -> None:
    """--nki alone."""
    parser.add_argument(
        "--nki",
        choices=releases.RELEASES,
        help=f"release whose rules and names hold; default: {releases.VARIABLE}, else "
        f"{releases.NEWEST}",
    )


def apply_release(options: argparse.Namespace) -> None:
    """Set the variable that names the release; CommandError where it names none."""
    if options.nki:
        os.environ[releases.VARIABLE] = options.nki
    try:
        releases.current()
    except ValueError as error:
        raise CommandError(str(error)) from None


def add_options(parser: argparse.ArgumentParser, lnc: str = "cores of the launch") -> None:
    """The four options; ``lnc`` is what the third one means."""
    add_release(parser)
    group = parser.add_argument_group("simulated chip")
    group.add_argument(
        "--target",
        choices=TARGETS,
        help=f"default: {hardware.TARGET_VARIABLE}, else this instance's chip, else trn1",
    )
    group.add_argument("--lnc", type=int, choices=(1, 2), help=lnc)
    group.add_argument("--strict", action="store_true", help="warnings are errors")


def apply(options: argparse.Namespace) -> AbstractContextManager[None]:
    """Set the variables of release, chip and degree, for processes that are started, too.

    Raises:
        CommandError: a variable names nothing known, or the chip has no launches on so many cores.
    """
    apply_release(options)
    if options.target:
        os.environ[hardware.TARGET_VARIABLE] = options.target
    try:
        chip = hardware.current()
        if options.lnc and options.lnc > chip.programs_per_launch:
            raise CommandError(f"--lnc is {options.lnc}, allowed on {chip.name} is 1")
        if options.lnc:
            os.environ[hardware.LNC_VARIABLE] = str(options.lnc)
        hardware.degree()
    except ValueError as error:
        raise CommandError(str(error)) from None
    return strict_launches() if options.strict else nullcontext()
