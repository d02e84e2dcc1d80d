"""Functions of complex numbers that take a NeuronCore too many launches, computed on the host.

The parts are copied to the CPU and joined there, torch's own function computes with native complex
tensors, and the results are split and copied back. A device with complex dtypes of its own computes
in place of the host, without copies to another device.

`on_the_host` calls a function of torch, above autograd. `below_autograd` calls an operator of ATen
for the table of operators, where the derivatives are torch's formulas, which call operators of the
table again.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from trnfft.base import torch_private as private
from trnfft.base.devices import COMPLEX_DEVICES, stores_complex
from trnfft.complex.given_parts import dtype_of_parts
from trnfft.complex.graphs import is_in_graph
from trnfft.complex.parts import is_sharded, join, of_parts, parts_apart, parts_to_transform
from trnfft.complex.table import Arguments, Function, NamedArguments
from trnfft.complex.tensor import ComplexTensor

aten = torch.ops.aten

_LAZY = private.DispatchKeySet(private.DispatchKey.Conjugate) | private.DispatchKeySet(
    private.DispatchKey.Negative
)

# While trnfft.model_check runs a model, this function gets the name of each function that runs on
# the host, in place of a warning, and returns the context in which the host computes.
LISTENER: Callable[[str], AbstractContextManager[Any]] | None = None

_warned: set[str] = set()  # names of functions, at most as many as torch has
_lock = threading.Lock()


def on_the_host(
    function: Function,
    args: Arguments,
    kwargs: NamedArguments,
    device: torch.device,
) -> Any:
    """Calls a function of torch with native tensors on the CPU. Differentiable.

    For devices without complex dtypes, the first call of each function gives a UserWarning, since
    the program waits for copies to the host and back.

    Args:
        function: a function of torch that writes into none of its arguments.
        args: its arguments by position. ComplexTensors among them, also in lists, are joined; all
            tensors are copied to the CPU, unless their device has complex dtypes.
        kwargs: its arguments by name, likewise. `device` is replaced by the CPU.
        device: the device of the results.

    Returns:
        The result of the function, whose tensors are on `device`, complex ones as ComplexTensors.

    Raises:
        NotImplementedError: the function returns one of its arguments or nothing, a tensor is a
            DTensor, or a graph for a device without complex dtypes is compiled.
        Exception: the function's own errors.
    """
    return _computed(function, _name_of(function), args, kwargs, torch.device(device), join)


def below_autograd(overload: private.OpOverload, name: str) -> Function:
    """Returns an implementation of an operator for ComplexTensors, by the host.

    Real tensors by position become complex, as torch's operators need tensors of one dtype. Those
    by name are tolerances.

    Args:
        overload: an operator of ATen that writes into none of its arguments.
        name: the name of torch's functions that call it, for warnings and errors.
    """

    def implementation(*args: object, **kwargs: object) -> Any:
        leaves = private.tree_leaves((args, kwargs))
        device = next(z._real.device for z in leaves if isinstance(z, ComplexTensor))
        # torch leaves out lazy conjugation here, with which it computes some native results.
        included = private.dispatch_tls_local_include_set()
        excluded = private.dispatch_tls_local_exclude_set() - _LAZY
        with private.ForceDispatchKeyGuard(included, excluded):
            args = private.tree_map_only(torch.Tensor, _with_imaginary_part, args)
            return _computed(overload, name, args, kwargs, device, of_parts)

    return implementation


def _with_imaginary_part(x: torch.Tensor) -> torch.Tensor:
    return of_parts(x, torch.zeros_like(x)) if x.is_floating_point() else x


def _computed(
    function: Function,
    name: str,
    args: Arguments,
    kwargs: NamedArguments,
    device: torch.device,
    made: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> Any:
    """Calls a function with native tensors; `made` makes ComplexTensors of parts."""
    home = device if device.type in COMPLEX_DEVICES else torch.device("cpu")
    tensors = [x for x in private.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    _check(name, tensors, home)
    context = nullcontext() if home == device and stores_complex(device) else _noted(name, device)

    def native(x: torch.Tensor) -> torch.Tensor:
        if not isinstance(x, ComplexTensor):
            return x.to(home)
        dtype = dtype_of_parts(x.dtype)
        return aten.complex.default(*(part.to(home, dtype) for part in parts_to_transform(x)))

    def returned(x: torch.Tensor) -> torch.Tensor:
        if isinstance(x, ComplexTensor) or not x.is_complex():
            return x.to(device)
        return made(*(part.to(device) for part in parts_apart(x)))

    with context:
        args, kwargs = private.tree_map_only(torch.Tensor, native, (args, kwargs))
        if kwargs.get("device") is not None:
            kwargs["device"] = home
        with _unseen_by_modes((args, kwargs)):
            results = function(*args, **kwargs)
        _check_results(name, results, (args, kwargs))
        return private.tree_map_only(torch.Tensor, returned, results)


def _unseen_by_modes(given: object) -> AbstractContextManager[Any]:
    """Hides native tensors from the program's modes, but not from those that record or have shapes.

    In a TorchDispatchMode, torch's operators use lazily conjugated tensors as if they were not, so
    that pinv has wrong numbers.
    """
    if torch.compiler.is_compiling():
        return nullcontext()
    tensors = (x for x in private.tree_leaves(given) if isinstance(x, torch.Tensor))
    is_recorded = private.proxy_mode() is not None
    if is_recorded or any(type(x) is not torch.Tensor for x in tensors):
        return nullcontext()
    return private.DisableTorchDispatch()


def _check_results(name: str, results: object, given: object) -> None:
    """Refuses a function that has written into the copies on the host."""
    own = [x for x in private.tree_leaves(given) if isinstance(x, torch.Tensor)]
    if results is None or any(x is y for x in private.tree_leaves(results) for y in own):
        raise NotImplementedError(
            f"{name} is computed on the host with copies of its tensors, and returns "
            f"{'nothing' if results is None else 'a tensor that it was given'}, allowed are "
            f"functions that return new tensors; assign their result, or copy_ it into the tensor"
        )


def _check(name: str, tensors: list[torch.Tensor], home: torch.device) -> None:
    """Raises the errors of `on_the_host` that concern the places of tensors."""
    for x in tensors:
        part = x._real if isinstance(x, ComplexTensor) else x
        if is_sharded(part):
            raise NotImplementedError(
                f"{name} with complex numbers is computed on one host, and a tensor is a DTensor; "
                f"call it on the tensor that x.full_tensor() returns"
            )
        if part.device.type != home.type and _is_traced(part):
            raise NotImplementedError(
                f"{name} with complex numbers is computed on the host, which a graph for device "
                f"'{part.device}' cannot do; leave it out with torch.compiler.disable, or call it "
                f"before or after the compiled function"
            )


def _is_traced(part: torch.Tensor) -> bool:
    # The fake tensors of a program alone make no graph, only shapes.
    if torch.compiler.is_compiling() or torch.compiler.is_exporting():
        return True
    return is_in_graph(part) and private.TracingContext.try_get() is not None


def _noted(name: str, device: torch.device) -> AbstractContextManager[Any]:
    """Warns once of a function that runs on the host, or tells the listener."""
    if LISTENER is not None:
        return LISTENER(name)
    with _lock:
        is_new = name not in _warned
        _warned.add(name)
    if is_new:
        warnings.warn(
            f"{name} with complex numbers is computed on the host, because NeuronCores have no "
            f"kernel for it: each call copies its tensors from device '{device}' to the CPU and "
            f"the results back, and the program waits for both. This warning is given once for "
            f"each function",
            UserWarning,
            stacklevel=_levels_below_the_caller(),
        )
    return nullcontext()


def _levels_below_the_caller() -> int:
    """Returns the `stacklevel`, for `_noted`, of the first frame outside torch and this library."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    return level


def _is_inside(module: str) -> bool:
    return module.split(".")[0] in ("trnfft", "torch")


def _name_of(function: Function) -> str:
    """Returns the name of a function of torch, of which torch.compile does not know it."""
    if torch.compiler.is_compiling():
        return "a function"
    name = str(getattr(function, "__name__", function))
    family, _, rest = name.partition("_")
    if family in ("fft", "linalg", "special") and hasattr(getattr(torch, family), rest):
        return f"torch.{family}.{rest}"
    is_method = hasattr(function, "__objclass__")
    return f"torch.Tensor.{name}" if is_method else f"{function.__module__ or 'torch'}.{name}"
