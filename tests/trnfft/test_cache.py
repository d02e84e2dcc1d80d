"""The cache is bounded, and computes a value once for many threads."""

import ast
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import nki_kernels
import trnfft
from trnfft.base.cache import cached
from trnfft.planner import tables


def test_the_cache_forgets_what_was_not_used_for_longest():
    computed = []

    @cached(24, tables.bytes_of)
    def table(name, length=1):
        computed.append(name)
        return np.zeros(length)

    first = table("first")
    table("second")
    table("third")
    assert table("first") is first
    table("fourth")
    assert table.cache_info().currsize == 24
    assert table("first") is first
    table("second")
    assert computed == ["first", "second", "third", "fourth", "second"]


def test_what_is_too_large_is_not_kept_and_displaces_nothing():
    @cached(24, tables.bytes_of)
    def table(length):
        return np.zeros(length)

    small = table(1)
    assert table(4) is not table(4)
    assert table(1) is small
    assert table.cache_info().currsize == 8


def test_the_cache_computes_once_for_many_threads():
    computed = []

    @cached(2**20, tables.bytes_of)
    def table(name):
        computed.append(1)
        return np.zeros(10)

    with ThreadPoolExecutor(8) as pool:
        arrays = list(pool.map(table, ["key"] * 64))
    assert len(computed) == 1
    assert all(array is arrays[0] for array in arrays)


def test_a_failure_is_not_kept():
    computed = []

    @cached(1)
    def fail_once(name):
        computed.append(name)
        return 1 / (len(computed) - 1)

    with pytest.raises(ZeroDivisionError):
        fail_once("key")
    assert fail_once("key") == 1


def unbounded_caches(source):
    """Returns functions with arguments whose results functools keeps without a bound."""
    return [
        function.name
        for function in ast.walk(ast.parse(source))
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        and ast.unparse(function.args)
        and any(map(is_unbounded, function.decorator_list))
    ]


def is_unbounded(decorator):
    call = ast.unparse(decorator).removeprefix("functools.")
    if call.startswith("lru_cache("):
        return "None" in call
    return call == "cache"


@pytest.mark.parametrize("package", [trnfft, nki_kernels])
def test_no_cache_of_results_by_arguments_is_unbounded(package):
    (root,) = package.__path__
    sources = sorted(Path(root).rglob("*.py"))
    assert len(sources) > 20
    texts = {path: path.read_text("utf-8") for path in sources}
    found = {path: unbounded_caches(text) for path, text in texts.items() if "cache" in text}
    assert not {path: names for path, names in found.items() if names}


@pytest.mark.parametrize(
    "decorator",
    ["cache", "functools.cache", "lru_cache(None)", "functools.lru_cache(maxsize=None)"],
)
def test_unbounded_caches_are_found(decorator):
    assert unbounded_caches(f"@{decorator}\ndef f(x):\n    pass") == ["f"]
    assert unbounded_caches(f"@{decorator}\ndef f():\n    pass") == []
    assert unbounded_caches("@functools.lru_cache(4096)\ndef f(x):\n    pass") == []
