"""``nki-sim report``: runs ``profile``, and writes the report to a file named after the kernel."""

from __future__ import annotations

import argparse

from . import outputs, profile

ABOUT = "run profile, and write the report as a page"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``profile``."""
    profile.add_options(parser)


def main(options: argparse.Namespace) -> int:
    """Runs ``profile``. Without --html the page is KERNEL.html in the current folder."""
    if not options.html:
        path, _, name = options.kernel.partition("::")
        options.html = f"{name or path.removesuffix('.py').rpartition('/')[2]}.html"
    code = profile.main(options)
    if not code:
        outputs.say(f"wrote {options.html}")
    return code
