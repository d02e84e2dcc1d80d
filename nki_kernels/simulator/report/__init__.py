"""Reports on a timeline for people: what bounds a kernel, and a page in HTML.

Only `save_html` needs the extra ``report``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from nki_kernels.whole_file import write_whole

from .bottlenecks import Bottleneck, bottlenecks

if TYPE_CHECKING:
    from nki_kernels.simulator.timeline import Timeline

__all__ = ["Bottleneck", "bottlenecks", "save_html"]


def save_html(timeline: Timeline, path: str | os.PathLike[str]) -> None:
    """Write a timeline as one HTML file that needs no network, whole or not at all.

    Raises:
        ImportError: the package jinja2 is not installed.
        OSError: the file cannot be written.
    """
    from .page import page

    # A file name that is no UTF-8 has surrogates in Python.
    write_whole(Path(path), page(timeline).encode("utf-8", "replace"))
