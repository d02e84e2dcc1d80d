"""Helpers of the simulator's tests: they run a few instructions on tiles with given arrays."""

import contextlib
import itertools
import linecache
import operator
import re
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware
from nki_sim.base import releases
from tests import tolerances

TARGET = "NEURON_PLATFORM_TARGET_OVERRIDE"
RULE = nki_sim.NkiValidationError
NUMPY = {
    name: np.dtype(getattr(ml_dtypes, name, None) or name)
    for name in (
        *("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32"),
        *("bfloat16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"),
    )
}
ARITHMETIC = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "less": operator.lt,
    "less_equal": operator.le,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
BITVEC = {
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
}


@pytest.fixture
def parsed():
    """NKI 0.6, whose loops over registers NKI 0.7 has no longer."""
    with releases.select("0.6"):
        yield


@pytest.fixture(autouse=True)
def strict_simulator(request, monkeypatch):
    """Default settings; reads of unwritten memory raise unless marked ``lenient``."""
    monkeypatch.delenv(TARGET, raising=False)
    monkeypatch.delenv("NKI_PRECISE_FP", raising=False)
    lenient = request.node.get_closest_marker("lenient")
    # Small tiles, tuples, loops in loops, GpSimdE are handy here; test_device_rules.py has rules on
    # them.
    handy = ("small-array-tile", "narrow-stationary", "column-tiles", "tensors-in-sequences")
    handy += ("nested-device-loops", "gpsimd-float32")
    is_about_them = request.module.__name__.endswith("test_device_rules")
    mode = contextlib.nullcontext() if lenient else nki_sim.strict()
    with nki_sim.allow(*(() if is_about_them else handy)), mode:
        yield


def pytest_configure(config):
    config.addinivalue_line("markers", "lenient: the simulator only warns of unwritten memory")


def new(shape, dtype="float32", buffer=None):
    """A fresh tile, in SBUF by default."""
    return nl.ndarray(shape, dtype, buffer or nl.sbuf)


def tile(columns=512, buffer=None):
    """A fresh tile of float32 of all partitions."""
    return new((128, columns), "float32", buffer)


def index(*values):
    """Indices in SBUF, one a partition."""
    return nl.load(nl.shared_constant(np.array(values, np.int32).reshape(-1, 1)))


def copied(x):
    """An output with the values of a tensor in HBM: the smallest kernel."""
    out = new(x.shape, x.dtype, nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out


def to_hbm(tile):
    """A new output tensor with the values of a tile or view."""
    if tile.buffer is nl.psum:
        copy = new(tile.shape, tile.dtype)
        nisa.tensor_copy(copy, tile)
        tile = copy
    out = new(tile.shape, tile.dtype, nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def run(body, *arrays, psum=()):
    """``body(*tiles)`` on tiles that hold ``arrays``; the values of the tiles it returns.

    Tiles are in SBUF; those whose positions are in ``psum`` are in PSUM.
    """

    def kernel(*tensors):
        tiles = []
        for position, tensor in enumerate(tensors):
            tile = nl.load(tensor)
            if position in psum:
                moved = new(tensor.shape, tensor.dtype, nl.psum)
                nisa.tensor_copy(moved, tile)
                tile = moved
            tiles.append(tile)
        result = body(*tiles)
        return tuple(map(to_hbm, result)) if isinstance(result, tuple) else to_hbm(result)

    return nki.simulate(kernel)(*arrays)


def recorded(kernel, *arrays, programs=None):
    """The timeline of a run."""
    launch = nki_sim.simulate(kernel)
    with nki_sim.record() as timeline:
        (launch.with_programs(programs) if programs else launch)(*arrays)
    return timeline


def blocks(text):
    """The indented lines below each line of a text that is not indented."""
    found = (block.partition("\n") for block in re.split(r"\n+(?=\S)", text.strip()))
    return {heading: textwrap.dedent(code) for heading, _, code in found}


NUMBERS = itertools.count()


def kernel_of(code, names, parameters=""):
    """The kernel of these lines, in which the names are known, and those of this file."""
    scope, file = globals() | names, f"<kernel {next(NUMBERS)}>"
    source = f"def kernel({parameters}):\n" + textwrap.indent(code, "    ")
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    exec(compile(source, file, "exec"), scope)
    return scope["kernel"]


CHOICE = re.compile(r"\{\s*([^{}|]+?)\s*\|\s*([^{}|]+?)\s*\}")


def broken(code):
    """Code with the first part of each ``{broken | legal}``."""
    assert CHOICE.search(code)
    return CHOICE.sub(r"\1", code)


def legal(code):
    """Code with the second part of each ``{broken | legal}``."""
    return CHOICE.sub(r"\2", code)


class Numbers(dict):
    """Attributes of a timeline by name, and the time that each engine is busy."""

    def __init__(self, timeline):
        super().__init__(timeline.engine_busy_ns)
        self.timeline = timeline

    def __missing__(self, name):
        if not hasattr(self.timeline, name):
            raise KeyError(name)
        return getattr(self.timeline, name)


def check_timeline(heading, text, names):
    """What a text says of a kernel's timeline is true.

    Below the kernel's lines stand expressions of its attributes, one a line. Brackets in the
    heading have the chip, by default trn1, and the shape of an argument: "[trn2] [x of 128x64]";
    "[2 programs]" stands for a launch on two cores.
    """
    lines = text.splitlines()
    code = [line for line in lines if line.startswith(" ")]
    chip, shape = re.search(r"\[(trn\d)\]", heading), re.search(r"\[x of (\d+)x(\d+)\]", heading)
    kernel = kernel_of(textwrap.dedent("\n".join(code)), names, "x" if shape else "")
    arrays = [np.zeros([int(size) for size in shape.groups()], np.float32)] if shape else []
    with hardware.select(hardware.chip(chip[1] if chip else "trn1")):
        programs = {"programs": 2} if "[2 programs]" in heading else {}
        numbers = Numbers(recorded(kernel, *arrays, **programs))
    for fact in lines[len(code) :]:
        first, *others = (eval(side, names, numbers) for side in fact.split(" == "))
        assert others or first, fact
        for other in others:
            parts = other if isinstance(other, tuple) else (other,)
            is_number = all(isinstance(part, (int, float)) for part in parts)
            assert first == (pytest.approx(other, rel=1e-12) if is_number else other), fact


class Near(NamedTuple):
    """Values within a tolerance of the exact ones, which each element has of its own or not."""

    exact: Any
    tolerance: float
    each: bool = False


ARRAY = re.compile(r"\[(\w+) ([\dx]+)(?: (\w+))?( in HBM)?\]")


def check_values(heading, text, names):
    """A kernel of a text returns what the expressions below its lines say, one for each result.

    Brackets in the heading have the chip and the arguments, which are random: "[trn2] [x 8x6]
    [y 8x3x2 bfloat16] [rows 4x1 int32 in HBM]". The others are loaded. Of a kernel with
    ``{broken | legal}`` parts, the broken one is refused with the heading's message.
    """
    lines = text.splitlines()
    code = textwrap.dedent("\n".join(line for line in lines if line.startswith(" ")))
    names = vars(tolerances) | globals() | names
    chip, given = re.search(r"\[(trn\d)\]", heading), ARRAY.findall(heading)
    values = {
        name: sample(tuple(map(int, shape.split("x"))), dtype or "float32", seed)
        for seed, (name, shape, dtype, _) in enumerate(given)
    }
    loads = "".join(f"{name} = nl.load({name})\n" for name, *_, in_hbm in given if not in_hbm)

    def launched(code):
        kernel = kernel_of(loads + code, names, ", ".join(values))

        def stored(*tensors):
            found = kernel(*tensors)
            return tuple(map(to_hbm, found if isinstance(found, tuple) else (found,)))

        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(TARGET, chip[1] if chip else "trn1")
            return list(nki.simulate(stored)(*[value.copy() for value in values.values()]))

    if CHOICE.search(code):
        refuses(heading.partition(" [")[0], launched, broken(code))
    found = launched(legal(code))
    for line in [line for line in lines if not line.startswith(" ")]:
        if re.match(r"[\w\[\]:, ]+ \+?= ", line):
            exec(line, names | values, values)
            continue
        expected, result = eval(line, names | values), found.pop(0)
        if isinstance(expected, Near):
            exact, tolerance, each = expected
            tolerances.near(wide(result).reshape(np.shape(exact)), exact, tolerance, each=each)
        else:
            assert_same(result, expected)
    assert not found


def line_of(file, mark):
    """The line of a file that ends with a comment."""
    lines = Path(file).read_text("utf-8").splitlines()
    (found,) = [n for n, line in enumerate(lines, 1) if line.endswith(f"# {mark}")]
    return found


def refuses(match, function, *arguments, **settings):
    """``function(*arguments, **settings)`` breaks a rule whose message has this text."""
    with pytest.raises(RULE, match=match):
        function(*arguments, **settings)


def written(instruction, *operands, shape=None, dtype=None, buffer=None, psum=(), **settings):
    """What ``instruction(dst, *operands, **settings)`` writes. Operands that are arrays are tiles.

    Shape and dtype of ``dst`` are by default those of the first array.
    """
    arrays = [operand for operand in operands if isinstance(operand, np.ndarray)]

    def body(*tiles):
        rest = iter(tiles)
        given = [next(rest) if isinstance(one, np.ndarray) else one for one in operands]
        dst = new(shape or arrays[0].shape, dtype or arrays[0].dtype, buffer)
        instruction(dst, *given, **settings)
        return dst

    return run(body, *arrays, psum=psum)


def cast(values, dtype):
    """Round exact (float64) values to fp32, then to ``dtype``: nearest even, saturating ints."""
    values = np.asarray(values)
    if dtype == "bool":
        return values != 0
    target = NUMPY[dtype]
    with np.errstate(all="ignore"):
        if target.kind in "iu":
            limits = np.iinfo(target)
            whole = np.rint(values.astype(np.float32).astype(np.float64))
            return np.clip(whole, limits.min, limits.max).astype(target)
        return values.astype(np.float32).astype(target)


def sample(shape, dtype="float32", seed=0):
    """Random values that suit ``dtype``."""
    rng = np.random.default_rng(seed)
    target = NUMPY[dtype]
    if target.kind in "iu":
        low = 0 if target.kind == "u" else -100
        return rng.integers(low, 100, shape).astype(target)
    if target.kind == "b":
        return rng.random(shape) < 0.5
    return rng.standard_normal(shape).astype(np.float32).astype(target)


def wide(array):
    """The same values in float64."""
    return np.asarray(array).astype(np.float64)


def assert_same(actual, expected):
    """Equal dtype, shape and values; NaN equals NaN."""
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(wide(actual), wide(expected))
