"""Functions of torch that make complex numbers of arguments that are not, or not plainly, complex.

    torch.complex, torch.polar, torch.view_as_complex       of real tensors alone
    torch.linalg.eig, torch.linalg.eigvals                  of real matrices, by the host
    torch.tensor, torch.as_tensor, torch.asarray            of data, which may be nested lists
    torch.Tensor.to and other conversions, torch.Tensor.view

On devices without complex storage the results are ComplexTensors. `trnfft.patch_torch` calls these
functions; it finds all others in `trnfft.patching.split_results`.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from trnfft.base.devices import stores_complex
from trnfft.complex.given_parts import dtype_of_parts
from trnfft.complex.on_the_host import on_the_host
from trnfft.complex.pairs import RealPairs
from trnfft.complex.parts import is_followed, of_parts
from trnfft.complex.table import Arguments, Function, NamedArguments
from trnfft.complex.tensor import ComplexTensor
from trnfft.patching.split_results import (
    COMPLEX_NUMBERS,
    device_of,
    is_complex,
    keep_apart,
    promoted,
    written,
)

# `trnfft.patch_torch` may replace these methods in torch.
_TO, _VIEW = torch.Tensor.to, torch.Tensor.view


def _of_data(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a function that makes a tensor of data: of Python's numbers, an array or a tensor."""
    owner, data = (args[0], args[1:]) if func is torch.Tensor.new_tensor else (None, args)
    content = data[0] if data else kwargs.get("data", kwargs.get("obj"))
    dtype = next((x for x in (*data, *kwargs.values()) if isinstance(x, torch.dtype)), None)
    dtype = owner.dtype if dtype is None and owner is not None else dtype
    if dtype is not None and not dtype.is_complex:
        return func(*args, **kwargs)
    if owner is not None or isinstance(content, torch.Tensor):
        device = device_of((owner if owner is not None else content,), kwargs)
    else:
        device = device_of((), kwargs)
    # The numbers come last, since there may be many.
    if stores_complex(device) or dtype is None and not _holds_complex(content):
        return func(*args, **kwargs)
    if isinstance(content, torch.Tensor):
        made = _to(content, device, dtype or content.dtype)
        if func in (torch.tensor, torch.Tensor.new_tensor) or kwargs.get("copy"):
            made = made.detach().clone()
    else:
        function = torch.tensor if owner is not None else func
        kept = {
            name: x for name, x in kwargs.items() if name not in ("pin_memory", "requires_grad")
        }
        kept["device"] = "cpu"
        made = _TO(ComplexTensor.from_complex(function(*data, **kept)), device)
    return made.requires_grad_() if kwargs.get("requires_grad") else made


def _data_function(function: Function) -> Function:
    def of_data(*args: object, **kwargs: object) -> Any:
        return _of_data(function, args, kwargs)

    keep_apart(of_data)
    return of_data


def _holds_complex(data: object) -> bool:
    """Whether numbers, nested lists of them, an array or a tensor are complex."""
    if isinstance(data, (list, tuple)):
        return any(map(_holds_complex, data))
    if isinstance(data, torch.Tensor):
        return data.is_complex()
    if isinstance(data, np.ndarray):  # whose dtype torch.compile cannot read
        return (
            torch.as_tensor(data).is_complex()
            if torch.compiler.is_compiling()
            else np.iscomplexobj(data)
        )
    return isinstance(data, COMPLEX_NUMBERS)


def _of_parts(
    function: Callable[..., torch.Tensor], parts: Callable[..., tuple[torch.Tensor, torch.Tensor]]
) -> Callable[..., torch.Tensor]:
    """Returns a function of real tensors that makes complex ones, on any device."""

    def complex_of(*args: object, **kwargs: Any) -> torch.Tensor:
        first = next(iter((*args, *kwargs.values())), None)
        if not isinstance(first, torch.Tensor) or stores_complex(first.device):
            return function(*args, **kwargs)
        out = kwargs.pop("out", None)
        made = ComplexTensor(*parts(*args, **kwargs))
        return made if out is None else written(made, out)

    return complex_of


def complex_parts(real: torch.Tensor, imag: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    real, imag = torch.broadcast_tensors(real, imag)
    return real, imag


def polar_parts(abs: torch.Tensor, angle: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return abs * torch.cos(angle), abs * torch.sin(angle)


def _view_as_complex(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Returns torch.view_as_complex, also for devices without complex dtypes."""

    def view(input: torch.Tensor) -> torch.Tensor:
        is_real = isinstance(input, torch.Tensor) and not isinstance(input, RealPairs)
        if not is_real or stores_complex(input.device):
            return function(input)
        if not input.ndim or input.shape[-1] != 2:
            return function(torch.empty(input.shape, device="meta"))  # raises torch's error
        return _of_pairs(input, is_copy=function is torch.view_as_complex_copy)

    return view


def _of_pairs(pairs: torch.Tensor, is_copy: bool) -> ComplexTensor:
    """Returns the numbers whose parts are [..., 0] and [..., 1], in the same memory.

    The parts are copies if this is asked for, or if autograd follows the pairs.
    """
    real, imag = pairs.select(-1, 0), pairs.select(-1, 1)
    if is_copy or is_followed(pairs):
        return ComplexTensor(real, imag)
    return of_parts(real.detach(), imag.detach())


def _by_the_host(function: Function) -> Function:
    """Returns a decomposition of real matrices into complex numbers, which the host computes."""

    def decompose(A: torch.Tensor, **kwargs: object) -> Any:
        is_real = isinstance(A, torch.Tensor) and not A.is_complex()
        if not is_real or stores_complex(A.device):
            return function(A, **kwargs)
        return on_the_host(function, (A,), kwargs, A.device)

    return decompose


def _to_dtype(function: Function, dtype: torch.dtype) -> Function:
    """Returns a method such as torch.Tensor.cfloat, whose name alone says the dtype."""

    def convert(self: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        if isinstance(self, ComplexTensor) or stores_complex(self.device):
            return function(self, *args, **kwargs)
        return _to(self, dtype, *args, **kwargs)

    keep_apart(convert)
    return convert


def _to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """Calls torch.Tensor.to."""
    is_asked = self.is_complex() or any(map(is_complex, (*args, *kwargs.values())))
    if not is_asked:
        return _TO(self, *args, **kwargs)
    device, dtype = _target(self, args, kwargs)
    if isinstance(self, ComplexTensor):
        return _TO(self if dtype.is_complex else _real(self), *args, **kwargs)
    if not dtype.is_complex:  # the numbers become real where they are
        return _TO(_TO(self, dtype), *args, **kwargs)
    args = tuple(dtype if isinstance(x, COMPLEX_NUMBERS) else x for x in args)
    if not stores_complex(device):
        if args == (dtype,) and not kwargs and not self.is_complex():
            return promoted(self, dtype)
        whole = ComplexTensor.from_complex(self) if self.is_complex() else promoted(self, dtype)
        return _TO(whole, *args, **kwargs)
    if not stores_complex(self.device):  # the conversion is computed where its result can be
        return _TO(_TO(self, device), *args, **kwargs)
    return _TO(self, *args, **kwargs)


def _to_real(function: Function) -> Function:
    """Returns a method such as torch.Tensor.float, which takes the real parts, as torch does."""

    def convert(self: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        self = _real(self) if isinstance(self, ComplexTensor) else self
        return function(self, *args, **kwargs)

    keep_apart(convert)
    return convert


def _real(z: ComplexTensor) -> torch.Tensor:
    warnings.warn(
        "Casting complex values to real discards the imaginary part", UserWarning, stacklevel=3
    )
    return z.real


def _target(
    self: torch.Tensor, args: Arguments, kwargs: NamedArguments
) -> tuple[torch.device, torch.dtype]:
    """Returns the device and the dtype that arguments of torch.Tensor.to ask for."""
    device, dtype = self.device, self.dtype
    for x in (*args, *(kwargs.get(name) for name in ("device", "dtype", "other"))):
        if isinstance(x, torch.dtype):
            dtype = x
        elif isinstance(x, torch.Tensor):
            device, dtype = x.device, x.dtype
        elif isinstance(x, (torch.device, str)) or type(x) is int:
            device = torch.device(x)
        elif isinstance(x, COMPLEX_NUMBERS):  # torch takes a number as it takes another tensor
            dtype = torch.complex128
    return device, dtype


def _viewing(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Returns a function as torch.Tensor.view, for pairs of numbers that become complex."""

    def view(self: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        dtype = next((x for x in (*args, *kwargs.values()) if is_complex(x)), None)
        if dtype is None or isinstance(self, ComplexTensor) or stores_complex(self.device):
            return function(self, *args, **kwargs)
        pairs = _VIEW(self, dtype_of_parts(dtype)).unflatten(-1, (-1, 2))
        return _of_pairs(pairs, is_copy=function is torch.view_copy)

    keep_apart(view)
    return view


# Functions that make complex numbers without an argument that `called` would find.
MAKERS: dict[Any, Function] = {
    torch.complex: _of_parts(torch.complex, complex_parts),
    torch.polar: _of_parts(torch.polar, polar_parts),
    torch.view_as_complex: _view_as_complex(torch.view_as_complex),
    torch.view_as_complex_copy: _view_as_complex(torch.view_as_complex_copy),
    torch.view_copy: _viewing(torch.view_copy),
    torch.linalg.eig: _by_the_host(torch.linalg.eig),
    torch.linalg.eigvals: _by_the_host(torch.linalg.eigvals),
    torch.Tensor.type_as: _to,
    _TO: _to,
    _VIEW: _viewing(_VIEW),
}
for _name, _dtype in (
    ("chalf", torch.complex32),
    ("cfloat", torch.complex64),
    ("cdouble", torch.complex128),
):
    _method = getattr(torch.Tensor, _name)
    MAKERS[_method] = _to_dtype(_method, _dtype)
for _name in ("half", "bfloat16", "float", "double"):
    _method = getattr(torch.Tensor, _name)
    MAKERS[_method] = _to_real(_method)
for _function in (
    torch.tensor,
    torch.as_tensor,
    torch.asarray,
    torch.Tensor.new_tensor,
):
    MAKERS[_function] = _data_function(_function)
