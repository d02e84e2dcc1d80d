"""The examples in the docstrings of public functions and classes print what the docstrings show."""

from __future__ import annotations

import contextvars
import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import platformdirs
import pytest

from tests.docs.pages import ROOT

torch = pytest.importorskip("torch")

import trnfft  # noqa: E402
from trnfft.planner import planner  # noqa: E402

OF_TORCH = {"trnfft.fftfreq", "trnfft.rfftfreq"}  # torch's own functions, with its docstrings
SKIPPED = {"trnfft.nn.split.SplitWeight"}  # a base class, which has no use of its own
# Those that search for plans of several lengths, whose like is on pages or is cheaper.
DEAR = {"trnfft.next_fast_len", "trnfft.fft_workspace_bytes", "trnfft.distributed.plan"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Checker(doctest.OutputChecker):
    """Compares outputs, in which processors may differ in the signs of zeros."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        want, got = (re.sub(r"[-+]0\.(?=0*j)|-0\.(?=0*\D)", "0.", text) for text in (want, got))
        return super().check_output(want, got, optionflags)


def public_names() -> set[str]:
    """Returns the full names of the functions and classes that users import."""
    modules = (trnfft, trnfft.nn, trnfft.distributed)
    names = {f"{module.__name__}.{name}" for module in modules for name in module.__all__}
    psfs = trnfft.point_spread_functions
    names |= {f"trnfft.point_spread_functions.{name}" for name in ("gaussian", "star", "heart")}
    assert all(inspect.isfunction(getattr(psfs, name)) for name in ("gaussian", "star", "heart"))
    return {name for name in names if is_documented(found(name))}


def documented_names() -> set[str]:
    """Returns the full names of the functions and classes of trnfft in the reference."""
    pages = (ROOT / "docs" / "reference").rglob("*.md")
    names = {
        name
        for page in pages
        for name in re.findall(r"^::: (trnfft\.[\w.]+)$", page.read_text("utf-8"), re.MULTILINE)
    }
    return {name for name in names if is_documented(found(name))}


def found(name: str) -> Any:
    """Returns the object of a full name."""
    owner, _, last = name.rpartition(".")
    try:
        return getattr(importlib.import_module(owner), last)
    except ModuleNotFoundError:
        return getattr(found(owner), last)


def is_documented(thing: Any) -> bool:
    return inspect.isroutine(thing) or inspect.isclass(thing)


def with_examples() -> Iterator[Any]:
    for name in sorted(public_names() | documented_names()):
        if name not in OF_TORCH and ">>> " in (inspect.getdoc(found(name)) or ""):
            yield pytest.param(name, marks=[pytest.mark.sweep] if name in DEAR else [])


@pytest.mark.parametrize("name", sorted(public_names() - OF_TORCH - SKIPPED))
def test_public_names_have_examples(name):
    docstring = inspect.getdoc(found(name)) or ""
    assert "\nExamples:\n    >>> " in docstring, f"{name} has no section Examples"


@pytest.mark.parametrize("name", sorted(OF_TORCH))
def test_the_others_are_functions_of_torch(name):
    assert found(name) is getattr(torch.fft, name.rpartition(".")[2])


def test_public_names_are_in_the_reference():
    shown = [found(name) for name in documented_names()]
    for name in public_names() - OF_TORCH:
        assert any(found(name) is thing for thing in shown), f"{name} is on no page"


@pytest.fixture
def own_wisdom(request, tmp_path, monkeypatch):
    """Hides plans of other tests, some of which are for chips that only those tests know."""
    if "wisdom" not in request.node.name:
        yield
        return
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *names: str(tmp_path))
    planner.forget()
    yield
    planner.forget()


@pytest.mark.weekly
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.usefixtures("own_wisdom")
@pytest.mark.parametrize("name", list(with_examples()))
def test_examples_of(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    docstring = inspect.getdoc(found(name))
    examples = doctest.DocTestParser().get_doctest(docstring, {}, name, name, 0)
    assert 2 <= len(examples.examples) <= 9, "an example has 2 to 9 statements"
    printed: list[str] = []
    runner = doctest.DocTestRunner(Checker(), optionflags=FLAGS)
    result = contextvars.copy_context().run(runner.run, examples, out=printed.append)
    assert result.failed == 0, "".join(printed)
