"""docs/caches.md names every cache of the library and of the simulator."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("trnfft", "nki_kernels", "nki_sim", "trnfft_demo")
# What keeps a function's results, as a decorator or a call. `kept` of distributed/exchange.py and
# `cached` of planner/tables.py are made of `cached` of cache.py.
KEEPS = {"cache", "cached", "cached_property", "kept", "lru_cache", "constant_when_compiled"}
GROWS = {"{}", "[]", "set()", "dict()", "list()"}  # values of a module's names
WORTH_PARSING = re.compile(
    r"lru_cache|cached\(|@\w*\.?cache|@kept|@.*constant_when|Dictionary\(|LRUCache\(|defaultdict\("
    r"|^\w+(: .*)? = (\{\}|\[\]|set\(\)|dict\(\)|list\(\))",
    re.MULTILINE,
)


def called(node):
    """Returns the last name of `a.b(...)(...)`."""
    while isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def is_kept(value):
    """Returns whether the value of a module's name is a cache, or can become one."""
    text = ast.unparse(value)
    makes = re.search(r"\b(WeakKeyDictionary|WeakValueDictionary|LRUCache|defaultdict)\(", text)
    return text in GROWS or bool(makes) or isinstance(value, ast.Call) and called(value) in KEEPS


def caches_in(source):
    """Yields the names of the caches in a module: functions, properties and names of the module."""
    module = ast.parse(source)
    for node in module.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value and is_kept(node.value):
            yield ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
    classes = [node for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    of_class = {method: each.name for each in classes for method in each.body}
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and KEEPS & {called(d) for d in node.decorator_list}:
            yield ".".join(filter(None, [of_class.get(node), node.name]))


def found():
    """Returns the names of all caches, as the page writes them."""
    names = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            source = path.read_text("utf-8")
            if WORTH_PARSING.search(source):
                file = path.relative_to(ROOT).as_posix()
                names |= {f"{file}: {name}" for name in caches_in(source)}
    return names


def named():
    """Returns the names on the page."""
    page = (ROOT / "docs" / "caches.md").read_text("utf-8")
    return set(re.findall(r"`(\w+/[\w/]+\.py: [\w.]+)`", page))


def test_the_page_names_every_cache():
    assert found() - named() == set()


def test_every_name_on_the_page_is_in_the_code():
    for name in named() - found():  # attributes of objects
        file, attribute = name.split(": ")
        owner, _, own = attribute.partition(".")
        source = (ROOT / file).read_text("utf-8")
        assert own and f"class {owner}" in source and f"self.{own}" in source, name


@pytest.mark.parametrize(
    "source",
    [
        "@functools.lru_cache\ndef f(x): pass",
        "@functools.cache\ndef f(): pass",
        "class C:\n    @cached_property\n    def f(self): pass",
        "def g():\n    @cache.cached(4)\n    def f(x): pass",
        "@constant_when_compiled\ndef f(x): pass",
        "f = functools.lru_cache(8)(g)",
        "f: dict[int, int] = {}",
        "f = WeakKeyDictionary()",
    ],
)
def test_new_caches_are_found(source):
    assert WORTH_PARSING.search(source)
    assert [name.rpartition(".")[2] for name in caches_in(source)] == ["f"]
