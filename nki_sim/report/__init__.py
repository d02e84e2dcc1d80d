"""What people read of a timeline: `Timeline` itself, what bounds a kernel, a trace and a page.

Only `save_html` and `save_perfetto` need the extra ``report``.
"""

from __future__ import annotations

import os
from pathlib import Path

from nki_sim.base.whole_file import write_whole
from nki_sim.timeline.recording import Recording

from .bottlenecks import Bottleneck, bottlenecks

__all__ = ["Bottleneck", "bottlenecks", "save_html"]


def save_html(timeline: Recording, path: str | os.PathLike[str]) -> None:
    """Write a timeline as one HTML file that needs no network.

    The file is written completely or not at all.

    Raises:
        ImportError: the package jinja2 is not installed.
        OSError: the file cannot be written.
    """
    from .page import page

    # Python reads a file name that is not UTF-8 as surrogates, which UTF-8 cannot encode.
    write_whole(Path(path), page(timeline).encode("utf-8", "replace"))
