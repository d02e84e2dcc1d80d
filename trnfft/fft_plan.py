"""Transforms of one shape, dtype and device that look nothing up when they are called.

`trnfft.plan` describes what the planner chooses; `trnfft.plan_fft` is for running it many times, as
plans of FFTW and cuFFT are.
"""

from __future__ import annotations

from typing import Any

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
from trnfft.checks import shown
from trnfft.complex.tensor import COMPLEX_DTYPES, ComplexTensor, described, of_parts
from trnfft.ops import transforms as ops
from trnfft.ops.sharded import placement_of
from trnfft.transforms import length_and_dimension

KINDS = ("c2c", "r2c", "c2r")
_Key = tuple[torch.Size, torch.dtype, torch.device]


class FftPlan:
    """A transform of tensors of one shape, dtype and device, made by `trnfft.plan_fft`.

    Called with such a tensor it returns what the function of the transform does, with the same
    derivatives. It keeps the backend and the precision of the context that it was made in, and may
    be called from several threads.

    Attributes:
        title: the function with its arguments, in words.
        shape, dtype, device: of the input.
        backend, precision: names, as in `trnfft.get_backend` and `trnfft.get_precision`.
    """

    def __init__(self, title: str, like: Input, transform: ops.Prepared, is_computed: bool) -> None:
        self.title = title
        self.shape, self.dtype, self.device = like.shape, like.dtype, like.device
        self.backend, self.precision = transform.backend, transform.precision
        self._native, self._split = _keys(like)
        self._placement = placement_of(like)
        self._transform = transform
        self._is_computed = is_computed

    def __call__(self, x: Input) -> Any:
        """The transform of a tensor.

        Args:
            x: of the shape, dtype and device of the plan; complex numbers as a native tensor or a
                ComplexTensor; for a plan of DTensors a DTensor with the same placements.

        Returns:
            A complex tensor of the kind that `trnfft.fft` gives, or for "c2r" a real one.

        Raises:
            TypeError: `x` is no tensor.
            RuntimeError: it has another shape, dtype or device.
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
    """A transform to call many times: arguments are checked, plan and tables looked up here, once.

    The backend and the precision are those of the context now. Of the kernels' backends the plan is
    searched for here and remembered; a call finds it and its tables in memory.

    Args:
        x_spec: a tensor of the shape, dtype and device of the inputs, with whatever numbers;
            `torch.empty(shape, dtype=dtype, device="meta")` takes no memory. Of a DTensor, whose
            inputs have its placements, too, plans of shards are searched for in the first call.
        kind: "c2c", as `trnfft.fft` and `ifft`; "r2c" of real data, as `rfft`; "c2r" with a real
            result, as `irfft`: FFTW's and cuFFT's names.
        n, dim, norm: as for these functions.
        inverse: the direction. Default: True for "c2r", else False. "r2c" with True is `ihfft`,
            "c2r" with False `hfft`.
        device: of the inputs. Default: that of `x_spec`, or torch's default device where that is
            on "meta".

    Returns:
        A callable: of a tensor like `x_spec` the result of the function.

    Raises:
        ValueError: `kind` is none of these, or `device` is given with a DTensor.
        TypeError, IndexError, RuntimeError, NotImplementedError: as the functions.
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
    size, dim = length_and_dimension(computed, n, dim, is_half=kind == "c2r")
    norm = normalization(norm)
    transform = ops.prepared(kind, computed, (size,), (dim,), inverse, norm)
    direction = "inverse " if inverse else ""
    title = f"{direction}{kind}, {size} points along dimension {dim}, norm {norm!r}"
    part = like.real.dtype if like.is_complex() else like.dtype
    return FftPlan(title, like, transform, is_computed=part == computed_dtype(part))


def _like(x_spec: Input, device: torch.device | str | None) -> Input:
    """One number with the shape, dtype and device of the inputs: it takes no memory to speak of."""
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
    """The tensor in a dtype to compute in."""
    return widened(floating_point(name, x, DTYPE_ERROR))


def _keys(like: Input) -> tuple[_Key | None, _Key | None]:
    """What a torch.Tensor has that fits, and what the parts of a ComplexTensor; None for none."""
    if isinstance(like, ComplexTensor):
        part = like.real.dtype
        is_exact = computed_dtype(part) == part  # else the complex dtype is another one's, too
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
