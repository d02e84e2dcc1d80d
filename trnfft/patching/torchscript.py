"""TorchScript under `patch_torch`: scripted code keeps torch's own functions.

torch compiles scripted code without Python, so that no function of this library can replace one of
torch there. On a device without complex storage such code cannot run, and a call says so.
"""

import functools
import re
import threading
import warnings
from types import FunctionType
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import torch

from trnfft.base import torch_private as private
from trnfft.base.devices import stores_complex
from trnfft.complex.table import Function
from trnfft.complex.tensor import ComplexTensor


class Scripted(Protocol):
    """A function or a method that torch.jit.script made."""

    name: str
    inlined_graph: object


# What makes native complex tensors of real tensors, in the text of a graph.
_OF_REAL = re.compile(
    r"aten::(?:fft_\w+|i?stft|complex|polar|view_as_complex)\b|complex = prim::Constant"
)
# What makes them where an argument is a ComplexTensor: a tensor made with its dtype.
_OF_COMPLEX = re.compile(r"prim::dtype")

_lock = threading.Lock()
_watched = 0  # calls of `watch` that no `unwatch` has undone
# For each of these, what was found in scripted functions, which are not kept alive.
_FOUND: dict[re.Pattern[str], WeakKeyDictionary[Scripted, str]] = {
    wanted: WeakKeyDictionary() for wanted in (_OF_REAL, _OF_COMPLEX)
}


def keep(function: Function, replacement: Function) -> None:
    """Lets torch.jit.script compile a function of torch where a program names its replacement."""
    builtin = private.find_builtin(function)
    if builtin is not None:
        private.register_builtin(replacement, builtin)
    elif isinstance(function, FunctionType):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit.script
            private.set_jit_function_cache(replacement, torch.jit.script(function))


def watch() -> None:
    """Lets scripted code refuse devices without complex storage. Calls are counted."""
    global _watched
    with _lock:
        _watched += 1
        if _watched == 1:
            for kind, call in _CALLS.items():
                kind.__call__ = _refusing(call)  # type: ignore[method-assign]


def unwatch() -> None:
    """Undoes one call of `watch`."""
    global _watched
    with _lock:
        _watched -= 1
        if not _watched:
            for kind, call in _CALLS.items():
                kind.__call__ = call  # type: ignore[method-assign]


_CALLS = {kind: kind.__call__ for kind in (private.ScriptFunction, private.ScriptMethod)}


def _refusing(call: Function) -> Function:
    @functools.wraps(call)
    def refuse_or_call(self: Scripted, *args: object, **kwargs: object) -> Any:
        for x in private.tree_leaves((args, kwargs)):
            if isinstance(x, torch.Tensor) and not stores_complex(x.device):
                _check(self, x.device, _OF_COMPLEX if isinstance(x, ComplexTensor) else _OF_REAL)
        return call(self, *args, **kwargs)

    return refuse_or_call


def _check(scripted: Scripted, device: torch.device, wanted: re.Pattern[str]) -> None:
    """Refuses scripted code that makes native complex tensors.

    Raises:
        NotImplementedError: the graph of the code has what is wanted.
    """
    with _lock:
        maker = _FOUND[wanted].get(scripted)
    if maker is None:
        match = wanted.search(str(scripted.inlined_graph))
        maker = match[0] if match else ""
        with _lock:
            _FOUND[wanted][scripted] = maker
    if maker:
        raise NotImplementedError(
            f"the scripted function '{scripted.name}' makes native complex tensors by '{maker}', "
            f"and no complex storage is assumed on device '{device}'; trnfft cannot replace "
            f"functions inside of TorchScript: call the function or the module that was scripted, "
            f"or its torch.compile"
        )
