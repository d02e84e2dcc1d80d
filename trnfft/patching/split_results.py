"""Calls of torch whose complex results are ComplexTensors, as the device stores no complex numbers.

A call is looked at where its arguments name complex numbers: a complex number of Python or NumPy, a
complex dtype, or a native complex tensor. Whether the result is complex is then not decided here.
The function runs on the device "meta", where torch computes shapes and dtypes alone. Where the
result is complex there, the function is called with ComplexTensors:

    1j * x, torch.where(c, x, 1j)           the number becomes a ComplexTensor without dimensions
    x.new_zeros(3, dtype=c), x.sum(dtype=c) the tensor becomes a ComplexTensor: x + 0j
    z.to(device), z on the host             the native complex tensor is split
    torch.randn(3, dtype=c)                 the parts are made on the device, or else on the host

`trnfft.patch_torch` calls this file. `trnfft.patching.complex_makers` has the functions whose
arguments do not name complex numbers, or name them in another way.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from trnfft.base.devices import stores_complex
from trnfft.base.torch_private import keep_from_compiler, tree_leaves
from trnfft.complex.called import is_in_place
from trnfft.complex.given_parts import dtype_of_parts
from trnfft.complex.parts import is_sharded, join
from trnfft.complex.table import Arguments, Function, NamedArguments
from trnfft.complex.tensor import ComplexTensor

COMPLEX_NUMBERS = (complex, np.complexfloating)
# Arguments of these types are no complex numbers, and need not be looked at.
_REAL_KINDS = frozenset({int, float, bool, str, tuple, list, torch.Size, torch.device, type(None)})

# `trnfft.patch_torch` may replace this method in torch.
_TO = torch.Tensor.to

# These functions make real numbers, also for a complex dtype, if their arguments are real.
_REAL = {
    torch.arange,
    torch.empty,
    torch.empty_permuted,
    torch.empty_strided,
    torch.eye,
    torch.full,
    torch.linspace,
    torch.ones,
    torch.scalar_tensor,
    torch.zeros,
}
# For a complex number to have the variance 1, each part of it has the variance 1/2.
_RANDOM: dict[Function, float] = {torch.rand: 1.0, torch.randn: math.sqrt(0.5)}

# These functions take tensors without dimensions for numbers.
_OF_NUMBERS = {torch.full, torch.linspace, torch.logspace, torch.scalar_tensor}


def called(func: Function, args: Arguments, kwargs: NamedArguments) -> Any:
    """Calls a function of torch that is not in `complex_makers.MAKERS`.

    A complex result on a device without complex storage is a ComplexTensor.
    """
    if func in _OF_NUMBERS and any(map(is_complex, (*args, *kwargs.values()))):
        args = tuple(map(_as_number, args))
        kwargs = {name: x if name == "out" else _as_number(x) for name, x in kwargs.items()}
    if not _mentions_complex(args, kwargs):
        return func(*args, **kwargs)
    out = kwargs.get("out")
    if isinstance(out, ComplexTensor):
        return _written(func, args, kwargs, out)
    device = device_of(args, kwargs)
    if stores_complex(device) or _writes_native(func, args):
        return func(*args, **kwargs)
    dtype = _complex_result(func, args, kwargs)
    if dtype is None:
        return func(*args, **kwargs)
    if _tensors((*args, *kwargs.values())):
        return _with_complex_arguments(func, args, kwargs, dtype, device)
    return _made(func, args, kwargs, dtype, device)


def keep_apart(function: Function) -> None:
    """Keeps torch.compile from compiling a function of several functions of torch on its own.

    It does so after a break of a graph, and uses what it has compiled for all of them: it does not
    look which method of torch.Tensor a variable holds.
    """
    keep_from_compiler(function)


def _mentions_complex(args: Arguments, kwargs: NamedArguments) -> bool:
    """Whether a call may have a complex result that no ComplexTensor among its arguments makes."""
    is_mentioned = False
    for x in args:
        kind = type(x)
        if kind in _REAL_KINDS:
            continue
        if kind is ComplexTensor:
            return False
        is_mentioned = is_mentioned or is_complex(x)
    for name, x in kwargs.items():
        if isinstance(x, ComplexTensor):
            return name == "out"
        is_mentioned = is_mentioned or is_complex(x)
    return is_mentioned


def _as_number(x: object) -> Any:
    return x.item() if isinstance(x, torch.Tensor) and not x.ndim else x


def _writes_native(func: Function, args: Arguments) -> bool:
    if not args or not isinstance(args[0], torch.Tensor) or not args[0].is_complex():
        return False
    return not torch.compiler.is_compiling() and is_in_place(func)


def is_complex(x: object) -> bool:
    if isinstance(x, torch.Tensor):
        return x.is_complex()
    if isinstance(x, torch.dtype):
        return x.is_complex
    return isinstance(x, COMPLEX_NUMBERS)


def device_of(args: Arguments, kwargs: NamedArguments) -> torch.device:
    """Returns the device of the result."""
    device = kwargs.get("device")
    if isinstance(device, (torch.device, str, int)):
        return torch.device(device)
    devices = [x.device for x in _tensors((*args, *kwargs.values()))]
    if not devices:
        return torch.empty(0).device  # torch.compile cannot look into torch.get_default_device
    # Tensors without dimensions may be on the host beside tensors on a device.
    return next((each for each in devices if not stores_complex(each)), devices[0])


def _complex_result(func: Function, args: Arguments, kwargs: NamedArguments) -> torch.dtype | None:
    """Returns the dtype of a call's complex result, as torch computes it without data, or None."""
    named = {name: x for name, x in kwargs.items() if name not in ("generator", "pin_memory")}
    if named.get("device") is not None or not _tensors((*args, *named.values())):
        named["device"] = "meta"
    if torch.compiler.is_compiling():
        return _computed_on_meta(func, _mapped(_on_meta, args), _mapped(_on_meta, named))
    described = (_mapped(_described, args), tuple(_mapped(_described, named).items()))
    try:
        return _remembered(func, *described, torch.get_default_dtype())
    except TypeError:  # an argument that cannot be hashed
        return _computed_on_meta(func, _mapped(_on_meta, args), _mapped(_on_meta, named))


@dataclass(frozen=True)
class _Described:
    """A tensor without data, or another value with its type, since 1, 1.0 and True are equal."""

    kind: Any
    value: Any


def _described(x: object) -> _Described:
    if isinstance(x, torch.Tensor):
        return _Described(torch.Tensor, (x.shape, x.dtype))
    return _Described(type(x), x)


def _on_meta(x: object) -> Any:
    """Returns a tensor on the device "meta", as which torch computes shapes and dtypes alone."""
    if isinstance(x, torch.Tensor):
        return torch.empty(x.shape, dtype=x.dtype, device="meta")
    if isinstance(x, _Described):
        return (
            torch.empty(x.value[0], dtype=x.value[1], device="meta")
            if x.kind is torch.Tensor
            else x.value
        )
    return x


@functools.lru_cache(maxsize=1024)
def _remembered(
    func: Function, args: Arguments, kwargs: NamedArguments, default: torch.dtype
) -> torch.dtype | None:
    return _computed_on_meta(func, _mapped(_on_meta, args), _mapped(_on_meta, dict(kwargs)))


def _computed_on_meta(
    func: Function, args: Arguments, kwargs: NamedArguments
) -> torch.dtype | None:
    try:
        result = func(*args, **kwargs)
    except Exception:  # the call on the device raises torch's error
        return None
    tensors = (x for x in tree_leaves(result) if isinstance(x, torch.Tensor))
    return next((x.dtype for x in tensors if x.is_complex()), None)


def _mapped(function: Callable[[object], object], values: object) -> Any:
    """Returns values with a function of each; lists become tuples, which can be hashed."""
    if isinstance(values, dict):
        return {name: _mapped(function, x) for name, x in values.items()}
    if type(values) is tuple or type(values) is list:
        return tuple([_mapped(function, x) for x in values])
    return function(values)


def _tensors(values: Iterable[object]) -> list[torch.Tensor]:
    """Returns the tensors among arguments and in lists of arguments."""
    tensors: list[torch.Tensor] = []
    for x in values:
        if isinstance(x, torch.Tensor):
            tensors.append(x)
        elif type(x) is tuple or type(x) is list:
            tensors.extend(_tensors(x))
    return tensors


def _with_complex_arguments(
    func: Function,
    args: Arguments,
    kwargs: NamedArguments,
    dtype: torch.dtype,
    device: torch.device,
) -> Any:
    """Calls a function with ComplexTensors in place of tensors, or of complex numbers."""
    values = (*args, *kwargs.values())
    # DTensors do not take a number that is no DTensor.
    is_whole = any(isinstance(x, torch.dtype) or is_sharded(x) for x in values)

    def split(x: object) -> Any:
        if isinstance(x, torch.Tensor):
            if x.is_complex():
                z = ComplexTensor.from_complex(x)
                return z if x.ndim else _TO(z, device, dtype)
            return promoted(x, dtype) if is_whole else x
        return _number(x, dtype, device) if isinstance(x, complex) and not is_whole else x

    kwargs = _mapped(split, kwargs)
    if "self" in kwargs:  # torch's name of a number; that of a tensor is 'input'
        kwargs["input"] = kwargs.pop("self")
    return func(*_mapped(split, args), **kwargs)


def _written(
    func: Function, args: Arguments, kwargs: NamedArguments, out: ComplexTensor
) -> torch.Tensor:
    """Calls a function with a ComplexTensor as `out`."""
    kwargs = {name: x for name, x in kwargs.items() if name != "out"}
    if any(isinstance(x, ComplexTensor) for x in args):
        return func(*args, out=out, **kwargs)
    if not _tensors(args):
        kwargs = {"dtype": out.dtype, "device": out.device, **kwargs}
    return written(called(func, args, kwargs), out)


def written(result: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Writes a result into the argument `out`, and returns that.

    Raises:
        RuntimeError: the shapes differ; a ComplexTensor cannot be resized.
    """
    if result.shape != out.shape:
        raise RuntimeError(
            f"argument 'out' has shape {tuple(out.shape)}, allowed is {tuple(result.shape)} for a "
            f"ComplexTensor; make 'out' like the result, or leave it out"
        )
    return out.copy_(result)


# Functions without tensors among their arguments


def _made(
    func: Function,
    args: Arguments,
    kwargs: NamedArguments,
    dtype: torch.dtype,
    device: torch.device,
) -> torch.Tensor:
    """Calls a function that makes a tensor of no other tensor, on the device if it can."""
    requires_grad = kwargs.pop("requires_grad", False)
    has_numbers = any(isinstance(x, COMPLEX_NUMBERS) for x in (*args, *kwargs.values()))
    of_parts = {**kwargs, "dtype": dtype_of_parts(dtype)}
    if func in _RANDOM:
        scale = _RANDOM[func]
        made: torch.Tensor = join(*(scale * func(*args, **of_parts) for _ in range(2)))
    elif func in _REAL and not has_numbers:
        real = func(*args, **of_parts)
        made = join(real, torch.zeros_like(real))
    else:
        kept = {name: x for name, x in kwargs.items() if name != "pin_memory"}
        made = _TO(ComplexTensor.from_complex(func(*args, **{**kept, "device": "cpu"})), device)
    return made.requires_grad_() if requires_grad else made


def promoted(x: torch.Tensor, dtype: torch.dtype) -> ComplexTensor:
    """Returns x + 0j of a complex dtype. Differentiable."""
    real = _TO(x, dtype_of_parts(dtype), copy=True)  # as `join` uses its memory
    return join(real, torch.zeros_like(real))


def _number(x: complex, dtype: torch.dtype, device: torch.device) -> ComplexTensor:
    parts = (
        torch.full((), y, dtype=dtype_of_parts(dtype), device=device) for y in (x.real, x.imag)
    )
    return join(*parts)
