"""``nki-sim report``: ``profile`` that writes the report, named after the kernel."""

from __future__ import annotations

import argparse

from . import outputs, profile

ABOUT = "profile, with the report as a page"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those of ``profile``."""
    profile.add_options(parser)


def main(options: argparse.Namespace) -> int:
    """As ``profile``; without --html the page is KERNEL.html, in this folder."""
    if not options.html:
        path, _, name = options.kernel.partition("::")
        options.html = f"{name or path.removesuffix('.py').rpartition('/')[2]}.html"
    code = profile.main(options)
    if not code:
        outputs.say(f"wrote {options.html}")
    return code
