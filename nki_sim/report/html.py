"""What HTML pages with data inside need: environments of templates, and JSON for scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def environment(folder: Path, without: str) -> Any:
    """Returns jinja2's environment for a folder of templates.

    Everything that is not marked as safe is escaped, and an unknown name is an error.

    Args:
        folder: the folder.
        without: the message of the error where jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(without) from error
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def script_json(data: object) -> str:
    """Returns JSON in which "<" is escaped, so that no name in it can end the script element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def micro(text: str) -> str:
    """Returns a text with the pages' unit µs where notes and terminals have us."""
    return text.replace(" us", " µs")
