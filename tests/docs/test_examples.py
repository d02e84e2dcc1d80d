"""Every Python example of the pages runs, in the order of its page, and prints what the page says.

The examples of a page share their names. They run in a folder of their own, into which a block with
a title, such as ```python title="power.py", is written as a file: the examples below import it. A
block with the title "power.py, continued" is appended to that file. A comment
<!-- invisible-code-block: python ... --> holds assertions that readers need not see, and
<!-- skip: next "reason" --> names an example that cannot run here; its subtest is skipped. With
<!-- skip: next if(by_default, "reason") --> a dear example runs in sweeps alone.
"""

from __future__ import annotations

import contextvars
import doctest
import importlib.util
import re
import sys
import unittest

import pytest

from tests.docs.pages import PAGES, blocks, name_of
from tests.sweeps import whole

pytest.importorskip("torch")
pytest.importorskip("sybil")

from sybil import Sybil  # noqa: E402
from sybil.evaluators.doctest import DocTestEvaluator  # noqa: E402
from sybil.parsers.abstract.doctest import DocTestStringParser  # noqa: E402
from sybil.parsers.markdown import (  # noqa: E402
    CodeBlockParser,
    PythonCodeBlockParser,
    SkipParser,
)
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer  # noqa: E402
from sybil.region import Region  # noqa: E402

RUN = re.compile(r'python|pycon|python title="\w+\.py(, continued)?"')
SHOWN = ("sh", "text", "json")  # fenced blocks that are no Python
# Pages whose examples start programs or train models. They run in sweeps, as all pages do.
DEAR = {"docs/five_minutes.md", "docs/simulator_pytest.md", "docs/training.md"}


def console_blocks(document):
    """Each statement of a ```pycon block with the output that follows it."""
    outputs = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    statements = DocTestStringParser(DocTestEvaluator(outputs))
    for block in CodeBlockParser("pycon", evaluator=lambda example: None)(document):
        for statement in statements(block.parsed, document.path):
            statement.adjust(block, block.parsed)
            yield statement


def files(document):
    """Blocks with a title, which are written as files of that name."""
    titled = RawFencedCodeBlockLexer(
        re.compile(r'python title="(?P<name>\w+\.py)(?P<continued>, continued)?"\n')
    )

    def write(example):
        lexemes = example.parsed
        with open(lexemes["name"], "a" if lexemes["continued"] else "w", encoding="utf-8") as file:
            file.write(lexemes["source"])

    for block in titled(document):
        yield Region(block.start, block.end, block.lexemes, write)


SYBIL = Sybil(
    [PythonCodeBlockParser(), console_blocks, files, SkipParser()], path="/", pattern="*.md"
)


@pytest.fixture
def folder_of_its_own(tmp_path, monkeypatch):
    """The working folder, first on the path; modules imported meanwhile are forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        origin = getattr(sys.modules[name], "__file__", None) or ""
        if name.partition(".")[0] == "nki" or origin.startswith(str(tmp_path)):
            del sys.modules[name]


def pages_with_examples():
    found = [page for page in PAGES if any(RUN.fullmatch(info) for info, _ in blocks(page))]
    assert len(found) > 5
    return found


def runs_of_pages():
    """Each page, and whether it leaves out dear examples; with them those alone that have some."""
    for page in pages_with_examples():
        marks = [pytest.mark.sweep] * (name_of(page) in DEAR)
        yield pytest.param(page, True, id=name_of(page), marks=marks)
        if "by_default" in page.read_text("utf-8"):
            yield whole(page, False, id=f"{name_of(page)}, all")


@pytest.mark.weekly
@pytest.mark.parametrize("page, by_default", list(runs_of_pages()))
def test_examples_of(page, by_default, subtests, folder_of_its_own):
    document = SYBIL.parse(page)
    # For conditions of what is skipped.
    document.namespace.update(importlib=importlib, by_default=by_default)

    def evaluate():
        for example in document.examples():
            with subtests.test(f"{name_of(page)}:{example.line}"):
                try:
                    example.evaluate()
                except unittest.SkipTest as reason:
                    pytest.skip(str(reason))

    contextvars.copy_context().run(evaluate)  # backends and precisions that a page chooses stay


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_what_it_is(page):
    for info, _ in blocks(page):
        assert RUN.fullmatch(info) or info in SHOWN, f"```{info} is neither run nor just shown"
