"""Times of calls on this CPU, by subject: OMP_NUM_THREADS=1 python -m bench.calls [SUBJECT ...]

A subject is a table, with a row for each call and a column for each way to compute it. The ways of
a row take turns, so that other work of the computer slows all of them down. A time is that of the
shortest round; in parentheses stands its ratio to the time of the first way. Compare times within
a row: they are times of this computer, not of a NeuronCore.
"""

from __future__ import annotations

import importlib
import itertools
import math
import operator
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any
from unittest import mock

import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import trnfft
from bench import program
from trnfft.base import devices
from trnfft.nn import FFTConv1d, FFTConv2d
from trnfft.planner import accuracy, planner, wisdom
from trnfft.planner.kinds import Transform
from trnfft.planner.problem import Problem

ROUND_SECONDS = 0.005  # length of a round, which has at least one call
SECONDS = 0.5  # how long each way of a row is repeated
ROUNDS = (3, 200)  # least and largest number of rounds
Inside = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True)
class Way:
    """A way to compute a call, and the context in which it runs."""

    name: str
    call: Callable[[], object]
    inside: Inside = nullcontext


@dataclass(frozen=True)
class Row:
    """A call with the ways to compute it; the first is the one to which others are compared."""

    title: str
    ways: tuple[Way, ...]


def shortest_us(ways: tuple[Way, ...]) -> list[float]:
    """Returns the microseconds of a call by each way, in the shortest of rounds that alternate."""
    counts = [calls_of_a_round(way) for way in ways]
    shortest, spent, rounds = [math.inf] * len(ways), 0.0, 0
    least, most = ROUNDS
    while rounds < least or (rounds < most and spent < SECONDS * len(ways)):
        for index, (way, count) in enumerate(zip(ways, counts, strict=True)):
            taken = round_of(way, count)
            spent += taken
            shortest[index] = min(shortest[index], 1e6 * taken / count)
        rounds += 1
    return shortest


def calls_of_a_round(way: Way) -> int:
    """Returns how many calls fill a round, after a first call that compiles and fills caches."""
    round_of(way, 1)
    return max(1, round(ROUND_SECONDS / round_of(way, 1)))


def round_of(way: Way, count: int) -> float:
    """Returns the seconds of so many calls."""
    with way.inside():
        start = time.perf_counter()
        for _ in range(count):
            way.call()
        return time.perf_counter() - start


@contextmanager
def together(*contexts: AbstractContextManager[object]) -> Iterator[None]:
    """Enters several contexts."""
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield


def plans() -> Iterator[Row]:
    """Yields a plan of `trnfft.plan_fft` beside `trnfft.fft`, for short transforms."""
    for backend, n in itertools.product(("matmul", "torch"), (16, 64, 256, 1000)):
        x = torch.randn(8, n)

        def inside(backend: str = backend) -> AbstractContextManager[object]:
            return together(trnfft.backend(backend), torch.no_grad())

        with inside():
            plan = trnfft.plan_fft(x)
        ways = (
            Way("plan", partial(plan, x), inside),
            Way("trnfft.fft", partial(trnfft.fft, x), inside),
        )
        yield Row(f"{backend}, 8 rows of {n}", ways)


X = torch.ones(8)
REAL: dict[str, Callable[[], object]] = {
    "x * x": lambda: X * X,
    "2 * x": lambda: 2 * X,
    "torch.add(x, x)": lambda: torch.add(X, X),
    "torch.zeros(8)": lambda: torch.zeros(8),
    "x.to(torch.float64)": lambda: X.to(torch.float64),
    "torch.cat([x, x])": lambda: torch.cat([X, X]),
    "torch.fft.fft(x)": lambda: torch.fft.fft(X),
}
COMPLEX: dict[str, Callable[[], object]] = {
    "1j * x": lambda: 1j * X,
    "torch.exp(1j * x)": lambda: torch.exp(1j * X),
    "x.to(torch.cfloat)": lambda: X.to(torch.cfloat),
    "torch.zeros(8, dtype=torch.cfloat)": lambda: torch.zeros(8, dtype=torch.cfloat),
    "torch.zeros_like(x, dtype=torch.cfloat)": lambda: torch.zeros_like(X, dtype=torch.cfloat),
}


@contextmanager
def started() -> Iterator[None]:
    """Patches the whole program in a block."""
    patch = trnfft.patch_torch()
    patch.start()
    try:
        yield
    finally:
        patch.stop()


def patching() -> Iterator[Row]:
    """Yields torch's functions under `trnfft.patch_torch`, on tensors so small that calls count.

    Results of "split" calls are split, but for torch's: there the CPU stands for a device without
    complex storage.
    """
    ways: dict[str, Inside] = {
        "torch": nullcontext,
        "in a block": trnfft.patch_torch,
        "after start": started,
    }

    def split(way: Inside) -> AbstractContextManager[object]:
        return together(mock.patch.object(devices, "COMPLEX_DEVICES", ("meta",)), way())

    for title, call in REAL.items():
        yield Row(title, tuple(Way(name, call, way) for name, way in ways.items()))
    for title, call in COMPLEX.items():
        others = (Way(name, call, partial(split, way)) for name, way in ways.items())
        yield Row(f"{title}, split", tuple(others))


def transforms() -> Iterator[Row]:
    """Yields transforms and their gradients beside torch.fft: overhead, and "matmul"."""

    def row(title: str, call: Callable[[Any], object]) -> Row:
        ours = (
            Way(name, partial(call, trnfft), partial(trnfft.backend, name))
            for name in ("torch", "matmul")
        )
        return Row(title, (Way("torch.fft", partial(call, torch.fft)), *ours))

    def transform(x: torch.Tensor, fft: Any) -> object:
        return fft.fft(x)

    def step(x: torch.Tensor, fft: Any) -> None:
        x.grad = None
        fft.irfft(fft.rfft(x) * 0.5, n=x.shape[-1]).square().sum().backward()

    shapes = (8,), (1024,), (128, 1024), (2**18,), (64, 4096), (2**20,)
    for dtype, shape in itertools.product((torch.float32, torch.complex64), shapes):
        x = torch.randn(shape, dtype=dtype)
        yield row(f"fft, {dtype} {shape}", partial(transform, x))
    for shape in ((8,), (128, 1024), (64, 4096)):
        trained = torch.randn(shape, requires_grad=True)
        yield row(f"rfft, irfft, backward {shape}", partial(step, trained))


def complex_tensors() -> Iterator[Row]:
    """Yields products of ComplexTensor beside native complex tensors and torch's own."""
    kinds: dict[str, Callable[..., Any]] = {
        "native": torch.complex,
        "ComplexTensor": trnfft.ComplexTensor,
    }
    try:
        own = importlib.import_module("torch._subclasses.complex_tensor")
        kinds["torch's own"] = own.ComplexTensor
    except ImportError:  # some versions of torch lack it
        pass
    for n in (8, 4096, 2**18):
        parts = torch.randn(4, n)
        ways = (
            Way(name, partial(operator.mul, kind(*parts[:2]), kind(*parts[2:])))
            for name, kind in kinds.items()
        )
        yield Row(f"z * w, {n} numbers", tuple(ways))


# The shapes of input and filter, and the dimensions of the convolution.
OPERANDS = {
    "4096 * 4096": ((4096,), (4096,), None),
    "64 x 4096 * 1025": ((64, 4096), (1, 1025), (1,)),
    "2^20 * 1001": ((2**20,), (1001,), None),
    "512 x 512 * 31 x 31": ((512, 512), (31, 31), None),
}
# The layer, the one of torch, the channels, the length of the filter, and the shape of the input.
LAYERS = {
    "1-D, 16 channels, 31 taps": (FFTConv1d, torch.nn.Conv1d, 16, 31, (8, 16, 4096)),
    "1-D, 16 channels, 1025 taps": (FFTConv1d, torch.nn.Conv1d, 16, 1025, (8, 16, 4096)),
    "2-D, 8 channels, 7 x 7": (FFTConv2d, torch.nn.Conv2d, 8, 7, (2, 8, 128, 128)),
    "2-D, 8 channels, 31 x 31": (FFTConv2d, torch.nn.Conv2d, 8, 31, (2, 8, 128, 128)),
}


def convolutions() -> Iterator[Row]:
    """Yields convolutions beside those of SciPy and torch, and products in planned order.

    The layers run without gradients, so that the spectra of their filters are kept.
    """
    from scipy import signal

    theirs = {"convolve": signal.fftconvolve, "oaconvolve": signal.oaconvolve}
    for (title, (*shapes, dims)), name in itertools.product(OPERANDS.items(), theirs):
        x, h = (torch.randn(shape) for shape in shapes)
        scipy = partial(theirs[name], x.numpy(), h.numpy(), axes=dims)
        ours = partial(getattr(trnfft, name), x, h, dims=dims)
        yield Row(f"{name} {title}", (Way("SciPy or torch", scipy), Way("trnfft", ours)))
    for title, (layer, of_torch, channels, size, shape) in LAYERS.items():
        x = torch.randn(shape)
        ways = (
            Way(name, partial(kind(channels, channels, size, padding="same"), x), torch.no_grad)
            for name, kind in (("SciPy or torch", of_torch), ("trnfft", layer))
        )
        yield Row(f"layer {title}", tuple(ways))
    for shape in ((4096,), (64, 1024), (1024, 1024), (256, 4096), (4, 2**18)):
        ways = (circular(shape, order) for order in ("natural", "planned"))
        yield Row(f"fft, product, ifft by matmul {shape}", tuple(ways))


def circular(shape: tuple[int, ...], order: str) -> Way:
    """Returns a circular convolution by "matmul" with spectra in an order."""

    def inside() -> AbstractContextManager[object]:
        return together(trnfft.backend("matmul"), torch.no_grad())

    x = torch.randn(shape)
    with inside():
        spectrum = trnfft.fft(torch.randn(shape[-1]), order=order)

    def call() -> object:
        return trnfft.ifft(trnfft.fft(x, order=order) * spectrum, order=order)

    return Way(f"{order} order", call, inside)


def planning() -> Iterator[Row]:
    """Yields plans on trn1, which one process makes one at a time.

    A search should end within two seconds, and a plan in memory should be found within 50 us. A
    plan from a file that this process has read before is checked against its problem first, and
    should be found within 50 ms.
    """
    for n, batch in ((4096, 2**20), (64, 2**20), (2, 2**20), (1536, 1024), (65521, 128)):
        budget = accuracy.MAX_ERRORS["fast"]
        kind = Transform((n,))
        problem = Problem(kind=kind, batch=batch, precision="fast", target="trn1", max_error=budget)
        yield Row(
            f"search, N = {n}, batch {batch}", (Way("planner", partial(planner.search, problem)),)
        )
    remembered = partial(planner.plan, 1000, target="trn1")
    yield Row("from memory", (Way("planner", remembered),))
    keys = itertools.cycle(wisdom.shipped("trn1"))

    def another() -> None:
        planner.solved.cache_clear()  # the contents of files stay in memory
        kind, batch, precision, cores = next(keys)
        planner.plan_for(kind, batch=batch, precision=precision, target="trn1", cores=cores)

    yield Row("from a file", (Way("planner", another),))


SUBJECTS: dict[str, Callable[[], Iterator[Row]]] = {
    "plans": plans,
    "patching": patching,
    "transforms": transforms,
    "complex_tensors": complex_tensors,
    "convolutions": convolutions,
    "planning": planning,
}


def main(
    subjects: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SUBJECT",
            help=f"Among {', '.join(SUBJECTS)}. Default: all.",
            show_default=False,
        ),
    ] = None,
    only: Annotated[str, typer.Option(help="Time only calls whose titles contain this.")] = "",
) -> None:
    """Print a table of times for each subject."""
    for name in subjects or SUBJECTS:
        if name not in SUBJECTS:
            program.stop(f"argument 'SUBJECT' is {name!r}, allowed are {', '.join(SUBJECTS)}", 2)
    for name in subjects or SUBJECTS:
        rows = (row for row in SUBJECTS[name]() if only in row.title)
        Console(width=130).print(table_of(name, rows))


def table_of(name: str, rows: Iterator[Row]) -> Table:
    """Times rows, and returns them as a table."""
    found = [(row, shortest_us(row.ways)) for row in rows]
    names = list(dict.fromkeys(way.name for row, _ in found for way in row.ways))
    table = Table(title=f"{name}: microseconds of a call, measured on this CPU")
    for heading in ("", *names):
        table.add_column(escape(heading), justify="right" if heading else "left")
    for row, times in found:
        us = {way.name: time for way, time in zip(row.ways, times, strict=True)}
        cells = [f"{us[n]:,.2f} ({us[n] / times[0]:.2f})" if n in us else "" for n in names]
        table.add_row(escape(row.title), *cells)
    return table


if __name__ == "__main__":
    typer.run(main)
