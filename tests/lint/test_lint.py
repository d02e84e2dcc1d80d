"""`nki_sim.lint`: every rule finds a bad kernel at the right line, and good kernels pass.

Each body is checked in both releases of NKI. Code that only the parser of 0.6 refuses passes in
0.7.
"""

import functools
import importlib.util
import itertools
import sys
import textwrap
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from nki_sim.base import releases
from nki_sim.lint import CONTESTED, RULES, lint
from nki_sim.lint.rules import rules_of, severity_of
from tests.simulator.conftest import blocks

# What a test module may refer to. The linter reads source, so `nl` needs no real content.
PREAMBLE = """
from dataclasses import dataclass
from enum import Enum, IntEnum
from random import random as draw
from types import ModuleType, SimpleNamespace
import functools
import math
import os
import random
import time

import numpy as np

nl = nisa = nki = SimpleNamespace()
old_nl = ModuleType("neuronxcc.nki.language")
RADIX = 4
RADICES = (4, 2)
LABEL = "fft"
TABLE = {"a": 1}
ROWS = [1, 2]
NESTED = ([1], 2)
MATRIX = np.eye(2)
NAMES = frozenset({"a"})

class NKIObject:
    pass

@dataclass
class Config(NKIObject):
    size: int = 4

    def half(self):
        return self.size // 2

class Plain:
    size = 4

class Kind(Enum):
    C2C = 1

@dataclass(frozen=True)
class Block(NKIObject):
    rows: int = 4
    columns: int = 8

class Derived(Config):
    pass

class Mixed(NKIObject, Plain):
    pass

class Number(IntEnum):
    ONE = 1

class Decorated(NKIObject):
    @property
    def size(self):
        return 4

    @staticmethod
    def twice(a):
        return 2 * a

class Cached(NKIObject):
    @functools.lru_cache
    def size(self):
        return 4

class Made(NKIObject):
    @classmethod
    def make(cls):
        return cls()

PLAIN = Plain()
CONFIG = Config()

def helper(a):
    return a + RADIX

@functools.lru_cache
def cached(a):
    return a

def module_body(i):
    nisa.memset(i, i // 2)

def module_body_with_a_result(i):
    return i

def keyword_helper(a, *, b):
    return a + b

def put(dst, src):
    nisa.dma_copy(dst=dst, src=src)

def default_helper(a, b=2):
    return a + b

"""

counter = itertools.count()


@pytest.fixture
def module(tmp_path):
    """Return a function that writes source to a file, after PREAMBLE, and imports it."""

    def load(source):
        name = f"kernels_for_lint_{next(counter)}"
        path = tmp_path / f"{name}.py"
        path.write_text(PREAMBLE + textwrap.dedent(source))
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec and spec.loader
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return loaded

    return load


def summary(violations):
    """(rule, text of the line) of every violation, so that tests need not count lines."""
    return [(v.rule, Path(v.file).read_text().splitlines()[v.line - 1]) for v in violations]


OUT = "out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)"
WRITE = "nisa.dma_copy(dst=out[0:4], src=x)"


def in_loop(*lines):
    """A loop on the device whose body has these lines."""
    body = textwrap.indent("\n".join(lines), "    ")
    return f"def body(i):\n{body}\nnl.fori_loop(0, n, body)"


# (rule, body of a kernel). The bad line is the one that ends in "#", else the first one.
BAD_BODIES = [
    ("async", "async def inner():\n    pass"),
    ("del", "del x"),
    ("global", "global RADIX"),
    ("import", "import os"),
    ("inner-class", "class Inner(NKIObject):\n    pass"),
    ("inner-function", "def inner(a):\n    return a\nreturn inner(x)"),
    ("inner-function", "def inner(a):\n    return a + n\nreturn helper(inner)"),
    ("match", "match n:\n    case 1:\n        pass"),
    ("raise", "if n > 4:\n    raise ValueError(n)  #"),
    ("try", "try:\n    pass\nexcept ValueError:\n    pass"),
    ("try", "try:\n    pass\nfinally:\n    pass"),
    ("with", "with open('f'):\n    pass"),
    ("with", "with nl.no_reorder() as region:\n    pass"),
    ("with", "with nl.no_reorder(), nl.no_reorder():\n    pass"),
    ("with", "with nl.no_reorder(1):\n    pass"),
    ("for-target", "for i, j in ((0, 1), (2, 3)):\n    pass"),
    ("for-target", "for [i, j] in ((0, 1), (2, 3)):\n    pass"),
    ("loop-else", "for i in range(n):\n    pass\nelse:\n    pass"),
    ("loop-else", "while n < 2:\n    n += 1\nelse:\n    pass"),
    ("loop-body", in_loop("return i  #")),
    ("loop-variable", in_loop("nisa.tensor_copy(x, x.ap([[1, 1]], scalar_offset=i * 4))  #")),
    ("loop-variable", "def body(i):\n    i += 1  #\nnl.fori_loop(0, n, body_fun=body)"),
    (
        "loop-body",
        "def body(i):\n    nisa.memset(i, 0)\n"
        "with nl.no_reorder():\n    nl.fori_loop(0, n, body)  #",
    ),
    ("deprecated-dynamic-loop", "for i in nl.dynamic_range(n):\n    pass"),
    ("deprecated-dynamic-loop", "reg = nisa.register_alloc(1)\nwhile reg:  #\n    pass"),
    ("comprehension", "rows = [i for i in range(n)]"),
    ("comprehension", "rows = {'a': i for i in range(n)}"),
    ("comprehension", "rows = {i for i in range(n)}"),
    ("comprehension", "rows = max(i for i in range(n))"),
    ("lambda", "double = lambda a: 2 * a"),
    ("lambda", "nl.fori_loop(0, n, lambda i: nisa.tensor_copy(i, i))"),
    ("walrus", "if (m := n) > 2:\n    pass"),
    ("yield", "yield x"),
    ("yield", "yield from x"),
    ("identity", "y = 1 if x is None else 2"),
    ("identity", "if n == 4 and (\n    x is not n  #\n):\n    pass"),
    ("matmul-operator", "y = x @ x"),
    ("matmul-operator", "x @= x"),
    ("star-unpack", "helper(*x)"),
    ("star-unpack", "helper(**x)"),
    ("star-unpack", "first, *rest = x.shape"),
    ("dict-key", "d = {1: 'a'}"),
    ("dict-key", "d = {'a': 1,\n     LABEL: 2}  #"),
    ("dict-key", "d = {**x}"),
    ("dict-key", "d = {}\nd[1] = 'a'  #"),
    ("dict-key", "d = dict()\nfor i in range(n):\n    d[i] = x  #"),
    ("dict-key", "d = {'a': 1}\ny = d[0, 1]  #"),
    ("dict-key", "d = {}\ny = d.setdefault(-1, 2)  #"),
    ("dict-key", "d: dict[int, str] = {}"),
    ("format-spec", "print(f'{n:4d}')"),
    ("unsupported-value", "y = 1j * n"),
    ("unsupported-value", "y = {1, 2}"),
    ("unsupported-value", "y = b'ab'"),
    ("unsupported-value", "y = 'a' in NAMES"),
    ("unsupported-builtin", "y = sorted(x.shape)"),
    ("unsupported-builtin", "for pair in enumerate(x):\n    pass"),
    ("unsupported-builtin", "y = sum(x.shape)"),
    ("numpy-call", "y = np.zeros((4, 4), dtype=np.float32)"),
    ("numpy-call", "y = np.fft.fft(x)"),
    ("no-instruction", "y = nl.mod(x, 2)"),
    ("no-instruction", "y = nl.fmod(x, 2)"),
    ("no-instruction", "nisa.tensor_scalar(dst=x, data=x,\n    op0=nl.divide, operand0=2)  #"),
    ("removed", "i = nl.arange(4)"),
    ("removed", "y = nl.fp32.min"),
    ("removed", "nisa.tensor_copy_dynamic_src(x)"),
    ("removed", "nki.benchmark"),
    ("removed", "nisa.tensor_copy(dst=x, src=x,\n    dtype=nl.float32)  #"),
    ("removed", "y = nl.load(x, mask=n)"),
    ("removed", "nisa.dma_copy(dst=x, src=x, dst_rmw_op=nl.add)"),
    ("unknown-name", "y = nl.sigmoidd(x)"),
    ("unknown-name", "nisa.tensor_tensr(x, x, x, op=nl.add)"),
    ("arguments", "nisa.dma_copy(dst=x, src=x, speed=3)"),
    ("arguments", "nisa.nc_matmul(x, x)"),
    ("arguments", "y = nl.load(x, 1, 2, 3, 4)"),
    ("tensor-condition", "y = nl.load(x)\nif y:  #\n    pass"),
    ("tensor-condition", "y = nl.load(x)\nz = y[0] or n  #"),
    ("tensor-condition", "y = nl.load(x)\nz = not y  #"),
    ("tensor-condition", "y = nl.load(x)\nif n > 2 and not y[0, 0] > 3:  #\n    pass"),
    ("tensor-condition", "y = nl.load(x)\nz = n if y < 3 else 2  #"),
    ("tensor-condition", "y = nl.zeros((4, 4), dtype=nl.float32)\nwhile y[0]:  #\n    pass"),
    ("tensor-operator", "y = nl.load(x)\ny = y * 2 + 1  #\nz = y + 1"),
    ("tensor-operator", "y = nl.zeros((4, 4), dtype=nl.float32)\nz = 1 - y[0:2]  #"),
    ("tensor-operator", "y = nl.ndarray((4, 4), dtype=nl.float32)\ny += x  #"),
    ("tensor-operator", "y = nl.load(x)\nz = -y  #"),
    ("tensor-operator", "y = nl.load(x)\nz = y[0] > 3  #"),
    ("tensor-operator", "y = nl.load(x)\nz = abs(y)  #"),
    ("tensor-operator", "z = nl.load(x).reshape((2, 8)) / n"),
    ("tensor-operator", "y = nl.load(x)\nv = y[0:2].reshape((2, 8))\nz = n * v  #"),
    ("tensor-operator", "for i in range(n):\n    y = nl.load(x)\n    z = y * 2  #"),
    ("tensor-operator", "y = nl.load(x)\nif n:\n    y = nl.load(x)\nz = y + 1  #"),
    ("tensor-operator", "y = n\nif n:\n    y = nl.load(x)\n    z = y + 1  #\nz = y + 1"),
    ("tensor-operator", "y = nl.load(x)\n" + in_loop("nisa.memset(x, y * 2)  #")),
    ("lost-output", f"{OUT}  #\n{WRITE}"),
    ("lost-output", f"{OUT}  #\n{WRITE}\nreturn None"),
    ("lost-output", f"{OUT}  #\n{WRITE}\nif n == 3:\n    return"),
    ("lost-output", f"{OUT}  #\nput(out[0:n], x)\nprint(n * 2, x.shape)"),
    ("lost-output", f"{OUT}  #\nput(out, x[0:n])\nv = x.reshape((2, n))\nput(out, v)"),
    ("lost-output", f"{OUT}  #\nput(out.reshape((n, n)), x)"),
    ("lost-output", f"{OUT}  #\nassert out.shape == (n, n)"),
    ("lost-output", f"{OUT}  #\n{OUT.replace('out', 'other')}\n{WRITE}\nreturn other"),
    ("lost-output", "a, b = nl.zeros((4, n), nl.float32, nl.shared_hbm), n  #\nput(a, x)"),
    (
        "lost-output",
        f"{OUT}  #\n" + in_loop("nisa.dma_copy(dst=out.ap([[1, 1]], scalar_offset=i), src=x)"),
    ),
    ("lost-output", f"{OUT}  #\n{WRITE}\nnisa.dma_copy(dst=x, src=x)"),
    ("broadcast-method", "y = x.broadcast_to((4, 4))"),
    ("impure", "y = random.random()"),
    ("impure", "y = draw()"),
    ("impure", "y = time.time()"),
    ("impure", "y = os.environ['ROWS']"),
    ("neuronxcc", "y = old_nl.load(x)"),
    ("constant-global", "y = TABLE['a']"),
    ("mutable-global", "ROWS.append(1)"),
    ("mutable-global", "ROWS[0] = 1"),
    ("mutable-global", "MATRIX[0][1] = 1"),
    ("constant-global", "y = NESTED[1]"),
    ("constant-global", "y = MATRIX[0]"),
    (
        "no-reorder-engines",
        "with nl.no_reorder():  #\n    nisa.activation(dst=x, op=nl.exp, data=x)\n"
        "    nisa.tensor_tensor(dst=x, data1=x, data2=x, op=nl.add)",
    ),
    (
        "no-reorder-engines",
        "with nl.no_reorder():  #\n    nisa.dma_copy(dst=x, src=x)\n"
        "    nisa.memset(dst=x, value=0, engine=nisa.engine.gpsimd)",
    ),
    ("plain-class", "y = Plain()"),
    ("plain-class", "y = PLAIN.size"),
    ("decorated-helper", "y = cached(n)"),
    ("base-classes", "y = Mixed()"),
    ("base-classes", "y = Derived(4)"),
    ("base-classes", "y = Number.ONE"),
    ("method-decorator", "y = Decorated()"),
    ("method-decorator", "y = Cached()"),
    ("method-decorator", "y = Made()"),
    ("nested-loop", in_loop("nl.fori_loop(0, 4, inner_body)  #")),
    ("loop-body", "rows = []\n" + in_loop("rows.append(1)  #")),
    ("loop-body", "d = {}\n" + in_loop("d['a'] = 1  #")),
    ("loop-body", in_loop("CONFIG.size = 1  #")),
]

# (rule, whole function with the bad line marked)
BAD_FUNCTIONS = [
    ("async", "async def kernel(x):  #\n    pass"),
    ("varargs", "def kernel(x, *rest):  #\n    pass"),
    ("varargs", "def kernel(x, **options):  #\n    pass"),
    ("keyword-only", "def kernel(\n    x,\n    *,\n    n=4,  #\n):\n    pass"),
    ("list-argument", "def kernel(x, order=[0, 1]):  #\n    pass"),
    ("list-argument", "def kernel(\n    x,\n    order: list[int],  #\n):\n    pass"),
    ("constant-global", "def kernel(x, order=ROWS):  #\n    pass"),
    ("lambda", "kernel = lambda x: x  #"),
    ("dict-key", "def kernel(x, sizes: dict[int, int]):  #\n    return x"),
]

# (contested rule, body of a kernel); by default the linter says nothing of them.
CONTESTED_BODIES = [
    ("assert", "assert n > 2"),
    ("assert", "assert n > 2, f'{n}'"),
    ("helper-default", "y = default_helper(n)"),
    ("helper-keyword", "y = default_helper(n, b=3)"),
    ("helper-keyword", "y = helper(a=n)"),
    ("constructor-keyword", "y = Config(size=4)"),
    ("constructor-keyword", "y = Block(rows=4, columns=8)"),
    ("constructor-keyword", "y = Block(4, columns=4)"),
    ("list-method", "rows = []\nrows.extend((1, 2))  #"),
    ("list-method", "rows = [1]\nrows.reverse()  #"),
    ("list-method", "rows = [1]\nlast = rows.pop()  #"),
    ("list-method", "rows = [0] * n\ny = rows.index(1)  #"),
    ("list-method", "x.parts.insert(0, n)"),
    ("constant-method", "y = RADIX.bit_length()"),
    ("constant-method", "y = n.bit_length()"),
    ("constant-method", "y = ','.join(x)"),
    ("constant-method", "y = LABEL.upper()"),
    ("constant-method", "y = RADICES.index(4)"),
    ("view-broadcast", "y = x.broadcast(1, n)"),
]

# What is not contested: keywords of nl and nisa and of the views, constructors that omit what has
# a default (the Language Guide's `C(1)`), dict methods, append. "C(1)" stands in the Language
# Guide, "Class Support"; NKIObject.__init__(**kwargs) in nki/api: sources disagree whether keywords
# reach a constructor, so they are contested, and positions are safe.
UNCONTESTED_BODIES = {
    "keywords of the API": "nisa.memset(dst=x, value=0.0)\ny = x.ap(pattern=[[1, 1]], offset=n)\n"
    "z = nl.broadcast_to(x=x, shape=(4, 4))",
    "constructors": "c = Config()\nb = Block(4)\nd = Block(4, 8)",
    "helpers": "y = default_helper(helper(n), 2)",
    "lists and dicts": "rows = []\nrows.append(n)\nd = {}\ny = d.pop('a')\nz = math.floor(n / 2)",
}

# (rule, body) of what only NKI 0.7 refuses, or calls deprecated.
TRACED_BODIES = [
    ("generator-kernel", "yield x"),
    ("register-operator", "reg = nisa.register_alloc(1)\ny = reg + 1  #"),
    ("register-operator", "reg = nisa.register_alloc(1)\ny = -reg  #"),
    ("register-operator", "reg = nisa.register_alloc(1)\nreg -= 1  #"),
    ("register-operator", "reg = nisa.register_alloc(1)\nif reg > 2:  #\n    pass"),
    ("register-operator", "reg = nisa.register_alloc(1)\nif reg:  #\n    pass"),
    (
        "register-operator",
        "def body(i):\n    nisa.memset(x, i * 2)  #\nnl.fori_loop(0, nisa.register_alloc(3), body)",
    ),
    ("loop-body", "nl.fori_loop(0, n, module_body_with_a_result)"),
    ("scalar-operator", "nl.fori_loop(0, n, module_body)"),
    ("scalar-operator", in_loop("y = range(i)  #")),
    ("scalar-operator", in_loop("j, k = i * 2, 3", "y = j % k  #")),
    ("scalar-operator", "y = nisa.scalar_load(x) // 2"),
    ("scalar-operator", in_loop("k: int = -i", "y = k / 2  #")),
    (
        "register-operator",
        "reg = nisa.register_alloc(1)\ndef body(i):\n    nisa.memset(x, i * 2)  #\n"
        "nl.fori_loop(0, reg, body)",
    ),
    ("register-operator", "nl.while_loop(x, lambda r: r - 1)"),
    ("scalar-operator", "nl.fori_loop(0, n, lambda i: nisa.memset(x, i // 2))"),
    ("scalar-operator", in_loop("if i > 2:  #", "    pass")),
    ("scalar-operator", in_loop("y = x[i * 4 : 8]  #")),
    ("scalar-operator", in_loop("y = not i  #")),
    ("scalar-operator", in_loop("row = i * 4 + 1", "y = (row + 1) % 2  #")),
    ("scalar-operator", "s = nisa.scalar_load(x)\ny = 2 / s  #"),
    (
        "loop-tensor",
        "tiles = []\n"
        + in_loop("t = nl.ndarray((4, 4), nl.float32, buffer=nl.sbuf)", "tiles.append(t)  #"),
    ),
    (
        "loop-tensor",
        "t = None\n"
        + in_loop("nonlocal t", "t = nl.ndarray((4, 4), nl.float32, buffer=nl.sbuf)  #"),
    ),
    ("loop-body", "m = 0\n" + in_loop("nonlocal m", "m += 1  #")),
    ("tensor-operator", "y = nl.load(x)\nz = np.exp(y)  #"),
    ("deprecated-range", "for i in nl.affine_range(n):\n    pass"),
    ("deprecated-range", "for i in nl.sequential_range(0, n):\n    pass"),
    ("deprecated-range", "for i in nl.static_range(n):\n    pass"),
    ("launch-bracket", "y = cached[2](x)"),
    ("constant-global", "y = [TABLE[k] for k in 'a']"),
    ("impure", "y = [draw() for _ in range(n)]"),
    ("unknown-name", "y = [nl.expp(t) for t in x]"),
    ("unknown-name", "def inner():\n    return nl.expp(x)  #\nreturn inner()"),
]

TRACED_GOOD_BODIES = {
    "sums and products of a loop's variable": in_loop(
        "row = i * 4 + 1\nnisa.dma_copy(dst=x, src=x.ap([[1, 1]], scalar_offset=row - 2 * i))"
    ),
    "an inner function with a parameter of the same name": in_loop(
        "for k in [(lambda i: i // 2)(4)]:\n    nisa.memset(x, k)"
    ),
    "what a register is": "reg = nisa.register_alloc(1)\nif reg is not None:\n    pass",
    "names of their own": "def body(i):\n    y = [i % 2 for i in range(4)]\n"
    "    z = {i: i // 2 for i in range(4)}\n    for i in range(4):\n        w = i // 2\n"
    "nl.fori_loop(0, n, body)\nk = nisa.scalar_load(x)\nk = 4\ny = k // 2",
    "a scalar of another function": "def one():\n    i = nisa.scalar_load(x)\n    return i\n"
    "for i in range(4):\n    y = i // 2",
    "two functions of a name": "def outer():\n    def body(i):\n        nisa.memset(x, 0)\n"
    "    nl.fori_loop(0, n, body)\ndef other():\n    def body(k):\n        return k // 2\n"
    "    return body(4)",
    "a helper inside of a body": in_loop(
        "def twice(v):\n    return v * 2\nnisa.memset(x, twice(2))\nreturn None"
    ),
    "a default of a body": "def body(i, m=3):\n    nisa.memset(x, m // 2)\n"
    "nl.fori_loop(0, n, body)",
    "what is nothing": in_loop("if i == None:", "    pass"),
    "the same tensor": "t = nl.load(x)\nif t is t:\n    pass",
    "an index of a register": "reg = nisa.register_alloc(1)\ny = x[reg]",
    "a helper's generator": "def rows():\n    yield from range(n)\nfor r in rows():\n    print(r)",
    "any context": "with nl.no_reorder(), open('f') as f:\n    pass",
    "classes": "y = Derived(size=4)\nz = PLAIN.size\nw = Decorated().size",
    "errors": "if n > 4:\n    raise ValueError(f'{n:4d}')\ntry:\n    pass\nfinally:\n    pass",
}

GOOD_BODIES = {
    "shapes and ternaries": "K, M = x.shape\ny = K if K > M else M\nassert K % 2 == 0, f'{K}'",
    "nested loops": "for i in range(n):\n    for j in (1, 2):\n        for k in [i, j]:\n"
    "            if k == 2:\n                continue\n            print(i, j, k)",
    "while on integers": "i = 0\nwhile i < n:\n    i += 1\nwhile i:\n    i -= 1",
    "lists": "rows = []\nrows.append(n)\nrows[0] = 3\nrows.reverse()\ny = len(rows)",
    "dicts": "d = dict()\nd['a'] = 1\ne = {'b': 2}\nfor k in d.keys():\n    print(d[k], 'a' in e)",
    "constants": "y = RADIX + RADICES[0] + len(LABEL) + int(math.pi) + math.ceil(n / 2)",
    "enums and classes": "c = Config(4)\ny = c.half()\nif x.kind == Kind.C2C:\n    y = CONFIG.size",
    "helpers": "y = helper(helper(n))\nf = helper\nz = f(y) + keyword_helper(1, b=2)",
    "dtypes": "y = nl.ndarray((128, n), dtype=np.float32, buffer=nl.sbuf)\nz = np.dtype('int8')\n"
    "w = float(np.finfo(np.float32).min)",
    "isa calls": "nisa.tensor_tensor(dst=x, data1=x, data2=x[0:4, :], op=nl.add)\nx[...] = 2",
    "conditions": "y = nl.load(x)\nif y == None or y.shape[0] > 3 or None != y or x > 3:\n"
    "    y = nl.load(x)\nz = nl.load(x)\nz = n\nif z:\n    pass\nfor y2 in [n]:\n    y2 = y",
    "today's arguments": "y = nl.zeros((4, 4), dtype=nl.float32, buffer=nl.sbuf)\n"
    "z = nl.exp(y, dtype=nl.float32)\nnl.tile_size.pmax\nnisa.dge_mode.swdge",
    "no_reorder": "with nl.no_reorder():\n    for i in range(n):\n        nisa.memset(i, 0)",
    "fori_loop": in_loop(
        "nisa.dma_copy(dst=x, src=x.ap([[1, 1]], scalar_offset=i))\nnisa.memset(x, n * 2)"
    ),
    "while_loop": "reg = nisa.register_alloc(1)\ndef body(r):\n    nisa.register_load(r, x)\n"
    "    return r\nnl.while_loop(reg, body_fun=body)",
    "annotations": "rows: list[int] = []\nrows.append(n)",
    "string keys": "d = {}\nfor k in ('a', 'b'):\n    d[k] = n\n    d[f'{k}{n}'] = d.get('a')",
    "frozen dataclasses": "b = Block(4, 8)\ny = b.rows",
    "lists of a loop body": in_loop("rows = []", "rows.append(1)", "x[...] = 2"),
    "arithmetic of numbers": "y = nl.load(x)\nm = y.shape[0] * 2 + n\nz = -m\ny = m\nz = y * 2\n"
    "if y > 3:\n    z = abs(y)\nw = x * 2",
    "a number in one branch": "y = nl.load(x)\nif n:\n    y = 4\nz = y * 2\nif n:\n"
    "    w = nl.load(x)\nelse:\n    w = 3\n    v = w * 2\nv = w * 2\n"
    "for i in range(n):\n    u = i\n    v = u + 1\n    u = nl.load(x)\nv = u + 1",
    "other branches": "u = 1\nif n:\n    u = nl.load(x)\nelse:\n    v = u + 1",
    "what a tensor is": "y = nl.load(x)\nz = y == None\nw = y == x\nv = [y] + [y]\n"
    "u = len(y.shape) + 1",
    "returned in a branch": f"{OUT}\n{WRITE}\nif n:\n    return out",
    "returned as a view": f"{OUT}\n{WRITE}\nreturn out[0:4], n",
    "returned in a record": f"{OUT}\n{WRITE}\nresult = Block(out, n)\nreturn result",
    "returned in a list": f"{OUT}\n{WRITE}\nfound = []\nfound.append(out)\nreturn found",
    "returned by a helper": f"{OUT}\nreturn helper(out)",
    "returned by another name": f"{OUT}\n{WRITE}\ny = out\nreturn y",
    "scratch": f"{OUT}\n{WRITE}\ny = nl.load(out)\nnisa.dma_copy(dst=x, src=y)",
    "scratch of a helper": f"{OUT}\nput(out, x)\nput(x, out)",
    "an argument of a view is changed": f"{OUT}\n{WRITE}\nv = x[0:n]\nput(v, out)",
    "private memory": "y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.private_hbm)\n"
    "nisa.dma_copy(dst=y, src=x)",
    "an unused tensor": f"{OUT}\nreturn x",
    "an unknown helper": f"{OUT}\nx.method(out)",
    "locals hide globals": "TABLE = (1, 2)\ny = TABLE[0]",
}


def kernel_source(body):
    return "def kernel(x, n=4):\n" + textwrap.indent(body, "    ")


def marked_line(source, otherwise):
    lines = source.splitlines()
    return next((line for line in lines if line.endswith("#")), lines[otherwise])


def check(module, source, rule, otherwise):
    """A kernel breaks one rule at its marked line, in the releases that have the rule."""
    kernel = module(source).kernel
    for release in releases.RELEASES:
        found = set(summary(lint(kernel, release=release)))
        expected = {(rule, marked_line(source, otherwise))}
        if (release, rule) in ALSO:
            expected = {(ALSO[release, rule], marked_line(source, otherwise))}
        elif rule not in rules_of(release):
            expected = set()
        assert found == expected, release


# What a body that breaks the rule breaks in the other release instead.
ALSO = {("0.7", "deprecated-dynamic-loop"): "removed", ("0.7", "yield"): "generator-kernel"}


@pytest.mark.parametrize(("rule", "body"), BAD_BODIES)
def test_bad_body(module, rule, body):
    check(module, kernel_source(body), rule, otherwise=1)


@pytest.mark.parametrize(("rule", "source"), BAD_FUNCTIONS)
def test_bad_function(module, rule, source):
    check(module, source, rule, otherwise=0)


@pytest.mark.parametrize(("rule", "body"), TRACED_BODIES)
def test_bad_body_of_a_traced_kernel(module, rule, body):
    source = kernel_source(body)
    found = lint(module(source).kernel, release="0.7")
    expected = marked_line(source, otherwise=1)
    if "module_body" in body:  # of the preamble
        expected = "    return i" if "result" in body else "    nisa.memset(i, i // 2)"
    assert set(summary(found)) == {(rule, expected)}
    assert {v.severity for v in found} == {severity_of(rule)}


@pytest.mark.parametrize("body", TRACED_GOOD_BODIES.values(), ids=TRACED_GOOD_BODIES)
def test_good_body_of_a_traced_kernel(module, body):
    assert lint(module(kernel_source(body)).kernel, contested=True, release="0.7") == []


@pytest.mark.parametrize("body", GOOD_BODIES.values(), ids=GOOD_BODIES)
@pytest.mark.parametrize("release", releases.RELEASES)
def test_good_body(module, body, release):
    assert lint(module(kernel_source(body)).kernel, release=release) == []


@pytest.mark.parametrize(("rule", "body"), CONTESTED_BODIES)
def test_contested_body(module, rule, body):
    source = kernel_source(body)
    kernel = module(source).kernel
    assert lint(kernel, release="0.6") == []
    is_of_both = rule in rules_of("0.7")
    assert len(lint(kernel, contested=True, release="0.7")) == int(is_of_both)
    found = lint(kernel, contested=True, release="0.6")
    assert set(summary(found)) == {(rule, marked_line(source, otherwise=1))}
    assert {v.severity for v in found} == {"contested"}
    assert str(found[0]).endswith(f"[{rule}, contested]")


@pytest.mark.parametrize("body", UNCONTESTED_BODIES.values(), ids=UNCONTESTED_BODIES)
def test_uncontested_body(module, body):
    assert lint(module(kernel_source(body)).kernel, contested=True) == []


def test_neuronxcc_import_inside_a_kernel(module):
    for line in ("    from neuronxcc import nki as old", "    import neuronxcc.nki as old"):
        kernel = module(f"def kernel(x):\n{line}").kernel
        assert summary(lint(kernel, release="0.6")) == [("import", line), ("neuronxcc", line)]
        assert summary(lint(kernel, release="0.7")) == [("neuronxcc", line)]


def test_a_traced_kernel_is_followed_through_closures_classes_and_decorators(module):
    source = """
        def bad(a):
            return nl.mod(a, 2)

        class Base:
            def method(self, a):
                return bad(a)

            @property
            def size(self):
                return time.time()

        class Tool(Base):
            pass

        def make(tool):
            @functools.lru_cache
            def captured(a):
                return tool.method(nl.fmod(a, 2))

            def kernel(x):
                return captured(x)
            return kernel

        kernel = make(Tool())
        short = lambda x: nl.divide(x, Tool)
    """
    loaded = module(source)
    found = [(v.function, v.rule) for v in lint(loaded.kernel, release="0.7")]
    assert found == [("captured", "no-instruction"), ("size", "impure"), ("bad", "no-instruction")]
    found = [(v.function, v.rule) for v in lint(loaded.short, release="0.7")]
    assert found[0] == ("<lambda>", "no-instruction")


def test_names_that_a_release_lacks_are_told_however_they_are_imported(module):
    """Also with the simulator as nki, whose modules hold the names of both releases."""
    source = """
        from nki_sim import isa as nisa, language as nl
        from nki_sim.isa import scalar_load
        from nki_sim.language import affine_range, dynamic_range, tiles

        def old(x):
            for i in dynamic_range(4):
                print(i)
            for i in nl.dynamic_range(4):
                print(i)
            for i in affine_range(4):
                print(i)

        def new(x):
            tiles(x, tile_shape=(1, 1))
            nl.alloc_tiles
            nisa.scalar_load(scalar_load(x))
    """
    loaded = module(source)

    def rules(kernel, release):
        return [v.rule for v in lint(kernel, release=release)]

    assert rules(loaded.old, "0.7") == ["removed", "removed", "deprecated-range"]
    assert rules(loaded.old, "0.6") == ["deprecated-dynamic-loop"] * 2
    assert rules(loaded.new, "0.7") == []
    assert rules(loaded.new, "0.6") == ["unknown-name"] * 3  # two of them in one line
    (found, *_) = lint(loaded.new, release="0.6")
    assert "NKI 0.6 has no nl.tiles, which exists since NKI 0.7" in str(found)


def test_a_release_is_one_that_is_known(module, monkeypatch):
    kernel = module("def kernel(x):\n    return [i for i in x]").kernel
    with pytest.raises(ValueError, match=r"argument 'release' is '0.8', allowed is '0.6' or '0.7'"):
        lint(kernel, release="0.8")
    assert lint(kernel) == []
    monkeypatch.setenv("NKI_SIM_RELEASE", "0.6")
    assert [v.rule for v in lint(kernel)] == ["comprehension"]
    assert lint(kernel, release="0.7") == []
    monkeypatch.setenv("NKI_SIM_RELEASE", "7")
    with pytest.raises(ValueError, match="NKI_SIM_RELEASE is '7', allowed"):
        lint(kernel)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="`type` statements came with Python 3.12")
def test_type_alias(module):
    source = kernel_source("type Row = int")
    assert [v.rule for v in lint(module(source).kernel, release="0.6")] == ["type-alias"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="`except*` came with Python 3.11")
def test_except_star(module):
    source = kernel_source("try:\n    pass\nexcept* ValueError:\n    pass")
    assert [v.rule for v in lint(module(source).kernel, release="0.6")] == ["try"]


# Modules and what is found in their kernels: each function and the rule that it breaks.
MODULES = blocks("""
kernel: closure, kernel: nonlocal
    def make(n):
        def kernel(x):
            def body(i):
                nonlocal n
                nisa.tensor_copy(i, i)
            nl.fori_loop(0, 4, body)
            return x
        return kernel

    kernel = make(4)
bad_argument: raise, bad_direct: comprehension, bad_in_module: identity, method: yield
    import sys

    def bad_direct(a):
        return [a for _ in range(2)]

    def bad_argument(a):
        raise ValueError

    def bad_in_module(a):
        return a is None

    def unused(a):
        return {1: a}

    class Tool(NKIObject):
        def method(self):
            yield 1

    def middle(a, f):
        return f(bad_direct(a))

    this = ModuleType(__name__)
    this.bad_in_module = bad_in_module

    def kernel(x):
        Tool()
        this.bad_in_module(x)
        return middle(x, bad_argument)
even: identity
    def even(n):
        return True if n is 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    def kernel(x, n=4):
        return kernel(x, 1) if even(n) and odd(n) else even(n)
inner: identity, kernel: decorated-helper
    @functools.lru_cache
    def inner(x):
        return x is None

    def kernel(x):
        return inner(x)
made: no-source
    exec("def made(x):\\n    return x")

    def kernel(x):
        return made(x)
""")


@pytest.mark.filterwarnings("ignore::SyntaxWarning")  # Python itself warns about `is 0`
@pytest.mark.parametrize("found", MODULES)
def test_functions_are_followed_wherever_they_are_named(module, found):
    violations = lint(module(MODULES[found]).kernel, release="0.6")
    assert ", ".join(sorted(f"{one.function}: {one.rule}" for one in violations)) == found
    if "closure" in found:
        assert violations[0].message.startswith("n: ")


def test_the_api_is_not_followed(module):
    source = "def kernel(x):\n    return api.load(x)"
    loaded = module(source)
    for name in ("nki_sim.language", "nki.language"):
        loaded.api = ModuleType(name)
        loaded.api.load = load = module("def load(a):\n    return [b for b in a]").load
        load.__module__ = name
        assert lint(loaded.kernel, release="0.6") == []


def test_api_names_are_known_by_any_alias(module):
    loaded = module("def kernel(x):\n    return api.divide(x, mod(x, 2))")
    loaded.api = ModuleType("nki_sim.language")
    loaded.mod = module("def mod(a, b):\n    pass").mod
    loaded.mod.__module__ = "nki.language"
    assert [v.rule for v in lint(loaded.kernel, release="0.6")] == ["no-instruction"] * 2


class Jitted:
    """Like what `nki.jit` returns: it holds the kernel under some attribute."""

    def __init__(self, attribute, function):
        setattr(self, attribute, function)

    def __call__(self, *args):
        raise AssertionError("the linter must not run a kernel")


@pytest.mark.parametrize(
    "wrap",
    [
        functools.partial(Jitted, "func"),
        functools.partial(Jitted, "__wrapped__"),
        lambda f: Jitted("func", Jitted("__wrapped__", f)),
        lambda f: functools.wraps(f)(lambda *args: None),
        lambda f: functools.partial(f, n=2),
    ],
)
def test_wrapped_kernels(module, wrap):
    kernel = module(kernel_source("del x")).kernel
    assert lint(wrap(kernel), release="0.6") == lint(kernel, release="0.6") != []


def test_decorated_kernel_keeps_its_line_numbers(module):
    source = """
        def jit(function):
            return SimpleNamespace(func=function)

        @jit
        def kernel(x):
            '''A text
        at the left margin.'''
            del x
    """
    assert summary(lint(module(source).kernel, release="0.6")) == [("del", "    del x")]


@pytest.mark.parametrize("thing", [len, 3, None, "kernel", int, functools, SimpleNamespace()])
def test_things_that_are_no_functions(thing):
    with pytest.raises(TypeError, match="needs a Python function"):
        lint(thing)


def test_a_kernel_without_source():
    namespace = {}
    exec("def kernel(x):\n    return x", namespace)
    with pytest.raises(TypeError, match="cannot read the source of kernel"):
        lint(namespace["kernel"])


def test_text_of_a_violation(module):
    kernel = module(kernel_source("del x")).kernel
    (violation,) = lint(kernel, release="0.6")
    file = kernel.__code__.co_filename
    line = kernel.__code__.co_firstlineno + 1
    assert str(violation) == f"{file}:{line}: kernel: {RULES['del'][1]} [del]"


def test_every_rule_has_a_test():
    tested = {rule for rule, _ in BAD_BODIES + BAD_FUNCTIONS}
    assert rules_of("0.6") - tested - set(CONTESTED) == {
        *("closure", "no-source", "nonlocal", "type-alias")
    }
    traced = {rule for rule, _ in TRACED_BODIES}
    assert tested | traced >= rules_of("0.7") - set(CONTESTED) - {"closure"}
    assert {rule for rule, _ in CONTESTED_BODIES} == set(CONTESTED)
    assert not set(RULES) & set(CONTESTED)
