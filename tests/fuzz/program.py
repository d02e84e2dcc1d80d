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
from torch.autograd import forward_ad
from torch.autograd.functional import jacobian
from torch.utils.checkpoint import checkpoint

C = torch.complex128 if D == torch.float64 else torch.complex64


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


def parts(x):  # all real numbers, as a function for Jacobians has real results
    return torch.cat([x.real.reshape(-1), x.imag.reshape(-1)]) if x.is_complex() else x * 1


def tangent(function, x):
    with forward_ad.dual_level():
        result = function(forward_ad.make_dual(x.detach(), x.detach() * 2))
        found = forward_ad.unpack_dual(result).tangent
        return torch.zeros_like(result).detach() if found is None else found.clone()


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
from torch import istft, stft
from torch.fft import fft, fftn, hfft, irfft, rfft

is_native = True


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
from trnfft import ComplexTensor, fft, fftn, hfft, ifft, irfft, istft, rfft, stft
is_native = False
made, split = ComplexTensor, ComplexTensor.from_complex
from_numpy, polar = ComplexTensor.from_numpy, ComplexTensor.from_polar
"""
SPLIT += COMPILERS
# The call of a function of some steps, from the function's name and its arguments.
WRAPPERS = {
    "compiled": "compiled(middle)({args})",
    "traced": "traced(middle)({args})",
    "checkpoint": "checkpoint(middle, {args}, use_reentrant=False)",
}
GRAD = "torch.func.grad(lambda v: weigh(middle(v)))"
# Transforms of a function of one tensor with one result.
OF_ONE = {
    "grad": GRAD + "({x})",
    "grad_of_grad": "torch.func.grad(lambda v: weigh_abs(torch.func.grad(lambda w: "
    "weigh_abs(middle(w)))(v)))({x})",
    "vjp": "torch.func.vjp(middle, {args})[1](like(middle({x} * 1)))[0]",
    "jvp": "torch.func.jvp(middle, ({args},), ({x} * 2,))[1]",
    "jvp_of_jvp": "torch.func.jvp(lambda v: torch.func.jvp(middle, (v,), ({x} * 2,))[1], "
    "({x},), ({x} * 3,))[1]",
    "jvp_of_grad": "torch.func.jvp(torch.func.grad(lambda v: weigh_abs(middle(v))), ({x},), "
    "({x} * 2,))[1]",
    "grad_of_jvp": "torch.func.grad(lambda v: weigh_abs(torch.func.jvp(middle, (v,), "
    "(v * 2,))[1]))({x})",
    "dual": "tangent(middle, {x})",
    "jacfwd": "torch.func.jacfwd(lambda v: parts(middle(v)))({x})",
    "jacrev": "torch.func.jacrev(lambda v: parts(middle(v)))({x})",
    "hessian": "torch.func.hessian(lambda v: weigh_abs(middle(v)))({x})",
    "jacobian": "jacobian(lambda v: parts(middle(v)), {x})",
    "vectorized": "jacobian(lambda v: parts(middle(v)), {x}, vectorize=True)",
    "vectorized_forward": "jacobian(lambda v: parts(middle(v)), {x}, vectorize=True, "
    "strategy='forward-mode')",
    "vmap": "torch.vmap(middle)(torch.stack([{args}, 2 * {args}]))",
    "vmap_of_grad": "torch.vmap(" + GRAD + ")(torch.stack([{x}, 2 * {x}]))",
    "vmap_of_jvp": "torch.vmap(lambda v: torch.func.jvp(middle, (v,), (v * 2,))[1])"
    "(torch.stack([{x}, 2 * {x}]))",
    "grad_of_vmap": "torch.func.grad(lambda v: weigh(torch.vmap(middle)(v)))"
    "(torch.stack([{x}, 2 * {x}]))",
}
WRAPPERS |= {name: text.replace("{x}", "{args}.detach()") for name, text in OF_ONE.items()}


@dataclass(frozen=True)
class Step:
    """One line, or several lines with a function and its call.

    Attributes:
        kind: "leaf", "source", "native", "view", "read", "write", "no_grad", "gradient", or the
            name of a wrapper.
        text: the lines.
        target: the name that is assigned; "" for none.
    """

    kind: str
    text: str
    target: str = ""


@dataclass(frozen=True)
class Program:
    """Steps of a program.

    Attributes:
        steps: the steps.
        dtype: the dtype of their real numbers.
    """

    steps: tuple[Step, ...]
    dtype: str = "float64"

    def __str__(self) -> str:
        """Source to paste for a run on ComplexTensors, with a comment for a run on torch's own."""
        head = [
            "# TRNFFT_BACKEND=matmul python; for torch's own: "
            "from tests.fuzz.program import *; exec(COMMON + NATIVE)",
            "import torch; from tests.fuzz.program import COMMON, SPLIT",
            f"D = torch.{self.dtype}; exec(COMMON + SPLIT)",
        ]
        return "\n".join([*head, *(step.text for step in self.steps)])


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
