"""The options --nki, --target, --lnc and --strict, which choose what is simulated."""

from __future__ import annotations

import argparse
import os
from contextlib import AbstractContextManager, nullcontext

from nki_sim import hardware
from nki_sim.base import releases
from nki_sim.launch.recorded import strict_launches

from .errors import CommandError


def add_release(parser: argparse.ArgumentParser) -> None:
    """Adds the option --nki."""
    parser.add_argument(
        "--nki",
        choices=releases.RELEASES,
        help=f"the release of NKI; the default is that of {releases.VARIABLE}, or "
        f"{releases.NEWEST}",
    )


def apply_release(options: argparse.Namespace) -> None:
    """Sets the variable of the release; raises CommandError if the release is unknown."""
    if options.nki:
        os.environ[releases.VARIABLE] = options.nki
    try:
        releases.current()
    except ValueError as error:
        raise CommandError(str(error)) from None


def add_options(
    parser: argparse.ArgumentParser, lnc: str = "the number of cores of the launch"
) -> None:
    """Adds the four options; ``lnc`` is the help text of --lnc."""
    add_release(parser)
    group = parser.add_argument_group("simulated chip")
    group.add_argument(
        "--target",
        choices=hardware.NAMES,
        help=f"the chip; the default is that of {hardware.TARGET_VARIABLE}, or of this EC2 "
        f"instance, or trn1",
    )
    group.add_argument("--lnc", type=int, choices=(1, 2), help=lnc)
    group.add_argument("--strict", action="store_true", help="turn warnings into errors")


def apply(options: argparse.Namespace) -> AbstractContextManager[None]:
    """Sets the variables of release, chip and degree, which started processes see, too."""
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
