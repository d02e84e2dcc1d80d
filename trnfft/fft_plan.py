"""Transforms of one shape, dtype and device that are planned once and called many times.

`plan_fft` checks the arguments and looks up the plan and its tables once, as plans of FFTW and
cuFFT do. The plan that it returns is called with tensors. `trnfft.plan`, in contrast, runs nothing:
it describes what the planner chooses.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from trnfft.arguments import (
    DTYPE_ERROR,
    Input,
    check_choice,
    check_tensor,
    computed_dtype,
    floating_point,
    no_numbers,
    normalization,
    widened,
)
from trnfft.backends.backend import Call
from trnfft.checks import shown
from trnfft.complex.sharded import placement_of
from trnfft.complex.tensor import COMPLEX_DTYPES, ComplexTensor, described, is_sharded, of_parts
from trnfft.ops import transforms as ops
from trnfft.transforms import length_and_dimension

KINDS = ("c2c", "r2c", "c2r")
_Key = tuple[torch.Size, torch.dtype, torch.device]


class FftPlan:
    """A transform of tensors of one shape, dtype and device, which `trnfft.plan_fft` returns.

    A call returns the same as the function of the transform, with the same derivatives. The plan
    keeps the backend and the precision of the context in which it was made. Several threads may
    call it.

    Attributes:
        title: the function and its arguments, in words.
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

    def __init__(self, title: str, like: Input, computed: Input, call: Call) -> None:
        self.title = title
        self.shape, self.dtype, self.device = like.shape, like.dtype, like.device
        self._transform, self.backend, self.precision = ops.prepared(computed, call)
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

        Returns:
            A complex tensor of the kind that `trnfft.fft` returns, or a real tensor for "c2r".

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
        return self._transform(x if self._is_computed else _computed("x", x))

    def __repr__(self) -> str:
        settings = f"backend {self.backend!r}, precision {self.precision!r}"
        return f"<{self.title} of {_words(self)}; {settings}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> FftPlan:
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

    Returns:
        An `FftPlan`, which returns the transform of a tensor like `x_spec`.

    Raises:
        ValueError: `kind` is unknown, or `device` is given with a DTensor.
        TypeError, IndexError, RuntimeError, NotImplementedError: as `trnfft.fft`.

    Examples:
        >>> import torch, trnfft
        >>> forward = trnfft.plan_fft(torch.empty(8), "r2c")
        >>> backward = trnfft.plan_fft(torch.empty(5, dtype=torch.complex64), "c2r", n=8)
        >>> backward(forward(torch.arange(8.0))).round(decimals=4)
        tensor([0., 1., 2., 3., 4., 5., 6., 7.])
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
    computed = _computed("x_spec", like)
    part, sharded = described(computed), is_sharded(computed)
    size, dim = length_and_dimension(part, sharded, n, dim, is_half=kind == "c2r")
    norm = normalization(norm)
    direction = "inverse " if inverse else ""
    title = f"{direction}{kind}, {size} points along dimension {dim}, norm {norm!r}"
    return FftPlan(title, like, computed, Call(kind, inverse, (size,), (dim,), norm))


def _like(x_spec: Input, device: torch.device | str | None) -> Input:
    """Returns one number, expanded to the shape of the inputs, with their dtype and device."""
    check_tensor("x_spec", x_spec)
    if placement_of(x_spec) is not None:
        if device is not None:
            raise ValueError(
                f"argument 'device' is {shown(device)}, allowed is None where argument 'x_spec' is "
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


def _computed(name: str, x: Input) -> Input:
    """Returns the tensor in a dtype to compute in."""
    return widened(floating_point(name, x, DTYPE_ERROR))


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


def _placed(placement: Any) -> str:
    if placement is None:
        return ""
    mesh, placements = placement
    return f", placements {placements} on {mesh}"


def _words(x: Any) -> str:
    return f"shape {tuple(x.shape)}, dtype {x.dtype}, on {x.device}"
