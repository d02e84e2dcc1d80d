"""Transforms of one shape, dtype and device that are planned once and called many times.

`plan_fft` checks the arguments and looks up the plan and its tables once, as plans of FFTW and
cuFFT do. The plan that it returns is called with tensors. `trnfft.plan`, in contrast, runs nothing:
it describes what the planner chooses. Steps before and after the transform belong to the plan (see
trnfft/steps.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from trnfft.backends.backend import Call
from trnfft.backends.choice import named
from trnfft.base import config
from trnfft.base.checks import brief
from trnfft.complex.given_parts import COMPLEX_DTYPES
from trnfft.complex.parts import described, of_parts
from trnfft.complex.sharded import placement_of
from trnfft.complex.tensor import ComplexTensor
from trnfft.functions.arguments import (
    DTYPE_ERROR,
    Input,
    check_choice,
    check_tensor,
    computed_dtype,
    dimension,
    floating_point,
    no_numbers,
    normalization,
    operand,
    widened,
)
from trnfft.functions.fft import length_and_dimension
from trnfft.functions.steps import (
    AFTER,
    BEFORE,
    Launch,
    Row,
    Step,
    applied,
    checked,
    launches,
    result_of,
)
from trnfft.ops import transforms as ops
from trnfft.ops.operand import Operand

KINDS = ("c2c", "r2c", "c2r")
Steps = Step | Sequence[Step]
"""One step of `trnfft.steps`, or several in their order."""

_Key = tuple[torch.Size, torch.dtype, torch.device]


class FftPlan:
    """A transform of tensors of one shape, dtype and device, which `trnfft.plan_fft` returns.

    A call returns the same as the function of the transform, with the same derivatives. The plan
    keeps the backend and the precision of the context in which it was made. Several threads may
    call it.

    Attributes:
        title: the function and its arguments, in words.
        before, after: the steps around the transform.
        in_launch: those steps that the launch of a kernel computes; the others are operations of
            torch.
        shape, dtype, device: of the input.
        backend, precision: names, as `trnfft.get_backend` and `trnfft.get_precision` return them.

    Examples:
        >>> import torch, trnfft
        >>> plan = trnfft.plan_fft(torch.empty(2, 4))
        >>> plan.shape, plan.backend
        (torch.Size([2, 4]), 'torch')
        >>> plan(torch.ones(2, 4)).real
        tensor([[4., 0., 0., 0.],
                [4., 0., 0., 0.]])
    """

    def __init__(
        self,
        title: str,
        like: Input,
        transform: tuple[Callable[[torch.Tensor], torch.Tensor], str, str],
        steps: tuple[tuple[Step, ...], ...] = ((), (), ()),
    ) -> None:
        self.title = title
        self.shape, self.dtype, self.device = like.shape, like.dtype, like.device
        self._transform, self.backend, self.precision = transform
        self.before, self.after, self.in_launch = steps
        self._native, self._split = _keys(like)
        self._placement = placement_of(like)
        part = like.real.dtype if like.is_complex() else like.dtype
        self._is_computed = part == computed_dtype(part)

    def __call__(self, x: Input) -> Any:
        """Returns the transform of a tensor.

        Args:
            x: a tensor with the shape, dtype and device of the plan. Complex numbers may be a
                native tensor or a ComplexTensor. A plan for DTensors needs a DTensor with the same
                placements.


        Raises:
            TypeError: `x` is not a tensor.
            RuntimeError: `x` has another shape, dtype or device.
        """
        if isinstance(x, ComplexTensor):
            part = described(x)
            fits = (part.shape, part.dtype, part.device) == self._split
        elif isinstance(x, torch.Tensor):
            fits = not x.is_nested and (x.shape, x.dtype, x.device) == self._native
        else:
            fits = False
        if not fits or placement_of(x) != self._placement:
            raise self._mismatch(x)
        return self._transform(
            x if self._is_computed else widened(floating_point("x", x, DTYPE_ERROR))
        )

    def __repr__(self) -> str:
        settings = f"backend {self.backend!r}, precision {self.precision!r}"
        more = ""
        for name, steps in (("before", self.before), ("after", self.after)):
            if steps:
                more += f", {name} {', '.join(map(repr, steps))}"
        if self.in_launch:
            more += f"; in one launch with {', '.join(map(repr, self.in_launch))}"
        return f"<{self.title} of {_words(self)}{more}; {settings}>"

    def __deepcopy__(self, memo: dict[int, object]) -> FftPlan:
        return self  # nothing in it changes

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an FftPlan belongs to its process and device and cannot be pickled; pickle the "
            "arguments of trnfft.plan_fft, and make another plan of them"
        )

    def _mismatch(self, x: Input) -> Exception:
        check_tensor("x", x)
        return RuntimeError(
            f"argument 'x' has {_words(x)}{_placed(placement_of(x))}, this plan allows "
            f"{_words(self)}{_placed(self._placement)}; make another with trnfft.plan_fft, or use "
            f"the transform without a plan"
        )


def plan_fft(
    x_spec: Input,
    kind: str = "c2c",
    *,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    inverse: bool | None = None,
    device: torch.device | str | None = None,
    before: Steps = (),
    after: Steps = (),
) -> FftPlan:
    """Returns a transform to call many times, whose arguments are checked and planned now.

    The plan has the backend and the precision of the current context. On the backends with kernels,
    this function searches for the plan and remembers it, so that a call finds the plan and its
    tables in memory. See `docs/planner.md`.

    Args:
        x_spec: a tensor with the shape, dtype and device of the inputs. Its numbers are not read,
            so `torch.empty(shape, dtype=dtype, device="meta")`, which uses no memory, is enough.
            For a DTensor, the inputs need the same placements, and the first call plans the shards.
        kind: "c2c", as `trnfft.fft` and `trnfft.ifft`; "r2c" for real data, as `trnfft.rfft`; or
            "c2r" for a real result, as `trnfft.irfft`. These are the names of FFTW and cuFFT.
        n, dim, norm: as for these functions.
        inverse: the direction. Default: True for "c2r", otherwise False. "r2c" with True is
            `trnfft.ihfft`, and "c2r" with False is `trnfft.hfft`.
        device: device of the inputs. Default: the device of `x_spec`, or torch's default device
            where `x_spec` is on "meta".
        before, after: steps of `trnfft.steps` along `dim`: one step, or several in their order.
            `n` and the default of `n` count the numbers after the steps before the transform.

    Returns:
        An `FftPlan`, which returns the transform of a tensor like `x_spec`.

    Raises:
        ValueError: `kind` is unknown, `device` is given with a DTensor, or a step does not fit.
        TypeError, IndexError, RuntimeError, NotImplementedError: as `trnfft.fft`; TypeError also
            for something that is no step, NotImplementedError for steps with a DTensor.

    Examples:
        >>> import torch, trnfft
        >>> forward = trnfft.plan_fft(torch.empty(8), "r2c")
        >>> backward = trnfft.plan_fft(torch.empty(5, dtype=torch.complex64), "c2r", n=8)
        >>> backward(forward(torch.arange(8.0))).round(decimals=4)
        tensor([0., 1., 2., 3., 4., 5., 6., 7.])
        >>> from trnfft.steps import Multiply, Power
        >>> spectrum = trnfft.plan_fft(
        ...     torch.empty(8), "r2c", before=Multiply(torch.hann_window(8)), after=Power()
        ... )
        >>> spectrum(torch.ones(8)).round(decimals=4)
        tensor([16.,  4.,  0.,  0.,  0.])
    """
    check_choice("kind", kind, KINDS)
    if inverse is None:
        inverse = kind == "c2r"
    if not isinstance(inverse, bool):
        raise TypeError(f"argument 'inverse' must be a bool, not {type(inverse).__name__}")
    like = _like(x_spec, device)
    if kind == "r2c" and like.is_complex():
        raise RuntimeError(
            f"argument 'x_spec' has dtype {like.dtype}, kind 'r2c' allows real dtypes only; "
            f"use kind 'c2c'"
        )
    computed = operand("x_spec", like)
    first, last = checked("before", before, BEFORE), checked("after", after, AFTER)
    if first or last:
        return _with_steps(like, computed, (kind, inverse, n, dim, norm), first, last)
    call, title = _call(computed, kind, inverse, n, dim, norm)
    return FftPlan(title, like, ops.prepared(computed, call))


def _call(
    computed: Operand, kind: str, inverse: bool, n: int | None, dim: int, norm: str | None
) -> tuple[Call, str]:
    """Returns a transform of numbers like `computed`, and its title."""
    size, dim = length_and_dimension(computed, n, dim, is_half=kind == "c2r")
    norm = normalization(norm)
    direction = "inverse " if inverse else ""
    title = f"{direction}{kind}, {size} points along dimension {dim}, norm {norm!r}"
    return Call(kind, inverse, (size,), (dim,), norm), title


def _with_steps(
    like: Input,
    computed: Operand,
    arguments: tuple[str, bool, int | None, int, str | None],
    before: tuple[Step, ...],
    after: tuple[Step, ...],
) -> FftPlan:
    """Returns a plan with steps around its transform."""
    if computed.is_sharded:
        raise NotImplementedError(
            "arguments 'before' and 'after' have steps, which plans for DTensors do not take; "
            "write them as operations of torch around a plan without steps"
        )
    part = computed.like
    dim = dimension("dim", arguments[3], part.ndim)
    row = result_of("before", before, Row(part.shape[dim], computed.is_complex))
    if arguments[0] == "r2c" and row.is_complex:
        raise ValueError(
            "argument 'before' makes complex numbers, kind 'r2c' takes real ones; use kind 'c2c'"
        )
    inner = _resized(computed, dim, row)
    call, title = _call(inner, *arguments)
    n = call.sizes[0]
    result_of("after", after, Row(_kept(call.kind, n), call.kind != "c2r"))
    transform, backend, precision = ops.prepared(inner, call)

    def run(x: torch.Tensor) -> Any:
        return applied(after, transform(applied(before, x, dim)), dim)

    whole: Callable[[torch.Tensor], torch.Tensor] = run
    inside: tuple[Step, ...] = ()
    points = inner.like.numel()
    is_able = named(backend).has_kernels and precision == "fast"
    is_able = is_able and points > 0 and inner.like.dtype == torch.float32
    if is_able and (call.kind, call.inverse, n) == ("r2c", False, row.length):
        rows = points // n
        ways = launches(before, after, n, call.scale)
        way = next((one for one in ways if one.is_shorter(rows, inner.execution)), None)
        if way is not None:
            whole, inside = _in_launch(way, run, backend, dim), way.inside
    return FftPlan(title, like, (whole, backend, precision), (before, after, inside))


def _in_launch(
    way: Launch, run: Callable[[torch.Tensor], torch.Tensor], backend: str, dim: int
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns a transform in one launch with its steps; compiled code has them one by one."""

    def launched(x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_compiling():
            return run(x)
        with config.backend(backend), config.precision("fast"):
            return way(x, dim)

    return launched


def _kept(kind: str, n: int) -> int:
    return n // 2 + 1 if kind == "r2c" else n


def _resized(like: Operand, dim: int, row: Row) -> Operand:
    """Returns one number, expanded to the shape of rows after steps."""
    part = like.like
    shape = (*part.shape[:dim], row.length, *part.shape[dim + 1 :])
    zero = part.real.new_zeros(())
    if len(like.parts) == 2:
        return like.of(zero.expand(shape), zero.expand(shape))
    return like.of((torch.complex(zero, zero) if row.is_complex else zero).expand(shape))


def _like(x_spec: Input, device: torch.device | str | None) -> Input:
    """Returns one number, expanded to the shape of the inputs, with their dtype and device."""
    check_tensor("x_spec", x_spec)
    if placement_of(x_spec) is not None:
        if device is not None:
            raise ValueError(
                f"argument 'device' is {brief(device)}, allowed is None where argument 'x_spec' is "
                f"a DTensor, which has a mesh of devices"
            )
        return x_spec
    if device is None and x_spec.device.type == "meta":
        device = torch.get_default_device()
    device = x_spec.device if device is None else no_numbers(device, None).device
    if isinstance(x_spec, ComplexTensor):
        part = torch.zeros((), dtype=x_spec.real.dtype, device=device).expand(x_spec.shape)
        return of_parts(part, part)
    return torch.zeros((), dtype=x_spec.dtype, device=device).expand(x_spec.shape)


def _keys(like: Input) -> tuple[_Key | None, _Key | None]:
    """Returns what identifies a torch.Tensor that fits, and the parts of a ComplexTensor that fits.

    Each is None where no such tensor fits.
    """
    if isinstance(like, ComplexTensor):
        part = like.real.dtype
        is_exact = computed_dtype(part) == part  # else the complex dtype has other parts as well
        native = (like.shape, COMPLEX_DTYPES[part], like.device) if is_exact else None
        return native, (like.shape, part, like.device)
    native = (like.shape, like.dtype, like.device)
    return native, (like.shape, like.real.dtype, like.device) if like.is_complex() else None


def _placed(placement: tuple[object, object] | None) -> str:
    if placement is None:
        return ""
    mesh, placements = placement
    return f", placements {placements} on {mesh}"


def _words(x: Input | FftPlan) -> str:
    return f"shape {tuple(x.shape)}, dtype {x.dtype}, on {x.device}"
