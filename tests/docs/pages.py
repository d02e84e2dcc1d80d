"""The pages that people read: README, CONTRIBUTING, CHANGELOG and docs/."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCED = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[tuple[str, str]]:
    """What follows the fence, such as a language, and the text of each fenced block."""
    return [(info, text) for _, info, text in FENCED.findall(page.read_text("utf-8"))]


def prose(page: Path) -> Iterator[str]:
    """Lines outside of fenced blocks."""
    text = FENCED.sub("", page.read_text("utf-8"))
    return iter(text.splitlines())
