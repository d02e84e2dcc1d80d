"""Programs on complex tensors, which run on torch's complex dtypes or on ComplexTensors.

A program consists of lines of Python. In one run, the names that make complex tensors and those of
the transforms are torch's own; in the other run they are this library's. All other text is the
same.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

import trnfft

COMMON = """\
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint


def count(x):
    return torch.arange(1.0, x.numel() + 1, dtype=D).reshape(x.shape) / 3


def weigh(x):  # a number that depends on each element in another way
    if not x.is_complex():
        return (x * count(x)).sum()
    return (x.real * count(x)).sum() + (x.imag * count(x) ** 2).sum()


def weigh_whole(x):  # without parts
    return weigh((x * torch.complex(count(x), -count(x) / 2)).sum() if x.is_complex() else x)


def weigh_abs(x):
    return ((x + (4 + 3j if x.is_complex() else 4)).abs() * count(x)).sum()


def like(x):  # a native tensor, as a gradient of x
    return torch.complex(count(x), 1 - count(x)) if x.is_complex() else count(x)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 2 + 0 * x.detach()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2
"""
NATIVE = """\
from torch import clone as split, complex as made, from_numpy, polar
from torch.fft import fft, fftn, hfft, irfft, rfft


def ifft(*args, **kwargs):  # which torch conjugates lazily, and this library does not
    return torch.fft.ifft(*args, **kwargs).resolve_conj()


compiled = traced = lambda function: function
"""
COMPILERS = """\
import functools
compiled = functools.partial(torch.compile, backend="aot_eager")


def traced(function):
    return lambda *args: make_fx(function)(*(x.detach() * 0.5 + 0.25 for x in args))(*args)
"""
NATIVE_COMPILED = NATIVE + COMPILERS
SPLIT = """\
import trnfft
from trnfft import ComplexTensor, fft, fftn, hfft, ifft, irfft, rfft
made, split = ComplexTensor, ComplexTensor.from_complex
from_numpy, polar = ComplexTensor.from_numpy, ComplexTensor.from_polar
"""
SPLIT += COMPILERS
# The call of a function of some steps, from the function's name and its arguments.
WRAPPERS = {
    "compiled": "compiled(middle)({args})",
    "traced": "traced(middle)({args})",
    "checkpoint": "checkpoint(middle, {args}, use_reentrant=False)",
    "grad": "torch.func.grad(lambda v: weigh(middle(v)))({args}.detach())",
    "vjp": "torch.func.vjp(middle, {args})[1](like(middle({args}.detach() * 1)))[0]",
    "jvp": "torch.func.jvp(middle, ({args},), ({args}.detach() * 2,))[1]",
    "vmap": "torch.vmap(middle)(torch.stack([{args}, 2 * {args}]))",
}
OF_ONE = ("grad", "vjp", "jvp", "vmap")  # need a function of one tensor with one result


@dataclass(frozen=True)
class Step:
    """One line, or several lines with a function and its call.

    Attributes:
        kind: "leaf", "source", "view", "read", "write", "gradient", or the name of a wrapper.
        text: the lines.
        target: the name that is assigned; "" for none.
    """

    kind: str
    text: str
    target: str = ""


@dataclass(frozen=True)
class Program:
    """Steps, and the dtype of their real numbers."""

    steps: tuple[Step, ...]
    dtype: str = "float64"

    def __str__(self) -> str:
        """Source to paste for a run on ComplexTensors, with a comment for a run on torch's own."""
        head = [
            "# TRNFFT_BACKEND=matmul python; for torch's own: "
            "from tests.fuzz.program import *; exec(NATIVE)",
            "from tests.fuzz.program import COMMON, SPLIT",
            f"import torch; D = torch.{self.dtype}; exec(COMMON + SPLIT)",
        ]
        return "\n".join([*head, *(step.text for step in self.steps)])

    @property
    def lines(self) -> int:
        """The number of lines."""
        return sum(1 + step.text.count("\n") for step in self.steps)


@dataclass
class Outcome:
    """The results of a run.

    Attributes:
        found: all names with their values.
        ended: number of steps that ended.
        error: the error of the next step; None where all steps ended.
    """

    found: dict[str, Any]
    ended: int
    error: Exception | None


def run(program: Program, names: str, steps: int | None = None) -> Outcome:
    """Runs a program, or its first steps, with NATIVE, NATIVE_COMPILED or SPLIT names."""
    found: dict[str, Any] = {"D": getattr(torch, program.dtype)}
    with settings(names):
        exec(_compiled(names), found)
        for i, step in enumerate(program.steps[:steps]):
            try:
                exec(_compiled(step.text), found)
            except Exception as error:  # noqa: BLE001 any error is a result
                return Outcome(found, i, error)
    return Outcome(found, len(program.steps[:steps]), None)


@contextlib.contextmanager
def settings(names: str) -> Iterator[None]:
    """Makes transforms return ComplexTensors, forgets compiled code, and hides warnings."""
    if names != NATIVE:
        torch._dynamo.reset()
    with warnings.catch_warnings(), trnfft.backend("matmul"):
        warnings.simplefilter("ignore")
        yield


_CODE: dict[str, Any] = {}


def _compiled(text: str) -> Any:
    if text in (NATIVE, NATIVE_COMPILED, SPLIT):
        if text not in _CODE:
            _CODE[text] = compile(COMMON + text, "<names>", "exec")
        return _CODE[text]
    return compile(text, "<program>", "exec")
