"""For mkdocs: a line `::opening package.module` becomes the module's docstring, word for word.

The openings of kernels hold formulas and drawings in plain text, which Markdown would misread.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with every opening in its place."""
    return re.sub(r"^::opening ([\w.]+)$", _opening, markdown, flags=re.MULTILINE)


def _opening(match: re.Match[str]) -> str:
    path = ROOT.joinpath(*match[1].split(".")).with_suffix(".py")
    if not path.is_file():
        path = path.with_suffix("") / "__init__.py"
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8")))
    return f"```{{ .text .no-copy }}\n{docstring}\n```"
