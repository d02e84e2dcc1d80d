"""`patch_torch`: models that call torch.fft, torch.stft and torch.istft run on this library.

Where complex storage is not assumed (see `trnfft.set_complex_storage`) their complex tensors are
ComplexTensors, too: those of torch.zeros, ones and empty, torch.complex, torch.polar and
torch.view_as_complex.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from trnfft import backward_pass, signal, transforms
from trnfft.backends.choice import stores_complex
from trnfft.complex.tensor import ComplexTensor, dtype_of_parts, join

_lock = threading.Lock()
_started = 0  # how often `start` was called without `stop`


@dataclass
class _Block:
    """A `with` block, of the task that entered it and of tasks made in it."""

    is_open: bool = True


_blocks: ContextVar[tuple[_Block, ...]] = ContextVar("blocks", default=())
# torch sets the mode aside to call these, which run more functions.
_OF_GRAPHS = {torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad}


class patch_torch(TorchFunctionMode):
    """torch.fft's transforms, torch.stft and torch.istft are those of this library.

    Inside a `with` block, and from `start` to `stop`. Complex results are of the kind that this
    library's functions give for the input, the device and the backend: docs/complex_tensor.md. On
    devices where complex storage is not assumed torch.zeros, ones, empty, complex, polar and
    view_as_complex make ComplexTensors, and `model.to(device)` makes such of complex parameters.

    A `with` block is for its own thread and asyncio task, and for every call in it, of functions
    kept before it and of what `backward()` runs as well; blocks nest, and torch.compile traces
    them. A compiled function that another task of the thread calls meanwhile is traced with the
    block. `start` is for all threads of the program, those to come included, but only for what is
    looked up afterwards in torch: call it before models are made, as some keep
    functools.partial(torch.fft.fftn).

        with trnfft.patch_torch():
            y = model(x)

        trnfft.patch_torch().start()  # once, at the beginning of a program
    """

    _thread: int | None = None  # that of the block; of a block in compiled code none is known

    def __init__(self) -> None:
        super().__init__()
        self._entered: list[_Block] = []

    def __enter__(self) -> "patch_torch":
        if not torch.compiler.is_compiling():
            self._thread = threading.get_ident()
            self._entered.append(_Block())
            _blocks.set((*_blocks.get(), self._entered[-1]))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if not torch.compiler.is_compiling() and self._entered:
            self._entered.pop().is_open = False
            _blocks.set(tuple(block for block in _blocks.get() if block.is_open))

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """A function of torch, which torch calls with this mode set aside."""
        kwargs = kwargs or {}
        is_compiling = torch.compiler.is_compiling()
        if not is_compiling and not self._is_for_this_task():
            return func(*args, **kwargs)
        if is_compiling or func not in _OF_GRAPHS:
            return _REPLACEMENTS.get(func, func)(*args, **kwargs)
        with backward_pass.under(lambda: _without_a_block(self)):
            return func(*args, **kwargs)

    def _is_for_this_task(self) -> bool:
        """Whether the caller is in a block; torch keeps modes by thread, and asyncio has tasks.

        Threads with modes of another one are torch's own, which run its backward pass.
        """
        if self._thread != threading.get_ident():
            return True
        return any(block.is_open for block in _blocks.get())

    def start(self) -> None:
        """Replace the functions in torch itself, for the whole program. Calls are counted."""
        global _started
        with _lock:
            _started += 1
            if _started == 1:
                for owner, name, function in _PLACES:
                    setattr(owner, name, _REPLACEMENTS[function])

    def stop(self) -> None:
        """Undo a `start`; the last one of as many brings torch's functions back.

        Raises:
            RuntimeError: there was none.
        """
        global _started
        with _lock:
            if not _started:
                raise RuntimeError("patch_torch was not started, or is stopped; call start() first")
            _started -= 1
            if not _started:
                for owner, name, function in _PLACES:
                    setattr(owner, name, function)


@contextlib.contextmanager
def _without_a_block(mode: patch_torch) -> Iterator[None]:
    """The mode, entered again in a block that was entered before."""
    TorchFunctionMode.__enter__(mode)
    try:
        yield
    finally:
        TorchFunctionMode.__exit__(mode, None, None, None)


def _with_complex_dtypes(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """torch.zeros or its like, where the device may have no complex dtypes."""

    def factory(*args: Any, **kwargs: Any) -> torch.Tensor:
        dtype = kwargs.get("dtype")
        is_complex = isinstance(dtype, torch.dtype) and dtype.is_complex
        if not is_complex or _has_complex_dtypes(kwargs.get("device")):
            return function(*args, **kwargs)
        requires_grad = kwargs.pop("requires_grad", False)
        real = function(*args, **{**kwargs, "dtype": dtype_of_parts(dtype)})
        return join(real, torch.zeros_like(real)).requires_grad_(requires_grad)

    return factory


def _has_complex_dtypes(device: torch.device | str | int | None) -> bool:
    device = torch.get_default_device() if device is None else torch.device(device)
    return stores_complex(device)


def _to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """torch.Tensor.to, for a native complex tensor on its way to a device that has none."""
    if not self.is_complex() or isinstance(self, ComplexTensor):
        return self.to(*args, **kwargs)
    device = torch._C._nn._parse_to(*args, **kwargs)[0]
    if device is None or stores_complex(device):
        return self.to(*args, **kwargs)
    return ComplexTensor.from_complex(self).to(*args, **kwargs)


_MODULE_TO = torch.nn.Module.to


def _module_to(self: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
    """torch.nn.Module.to in a whole program, where torch.Tensor.to stays torch's."""
    with patch_torch():
        return _MODULE_TO(self, *args, **kwargs)


def _of_parts(
    function: Callable[..., torch.Tensor], parts: Callable[..., tuple[torch.Tensor, torch.Tensor]]
) -> Callable[..., torch.Tensor]:
    """A function that makes complex tensors of real ones, where the device may have none."""

    def complex_of(*args: Any, **kwargs: Any) -> torch.Tensor:
        first = next(iter((*args, *kwargs.values())), None)
        if not isinstance(first, torch.Tensor) or stores_complex(first.device):
            return function(*args, **kwargs)
        return ComplexTensor(*parts(*args, **kwargs))

    return complex_of


def _given(real: torch.Tensor, imag: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    real, imag = torch.broadcast_tensors(real, imag)
    return real, imag


def _polar(abs: torch.Tensor, angle: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return abs * torch.cos(angle), abs * torch.sin(angle)


def _last_pair(input: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    real, imag = input.unbind(-1)
    return real, imag


_REPLACEMENTS: dict[Any, Callable[..., Any]] = {
    **transforms.OF_TORCH,
    torch.stft: signal.stft,
    torch.Tensor.stft: signal.stft,
    torch.istft: signal.istft,
    torch.Tensor.istft: signal.istft,
    torch.Tensor.to: _to,
    _MODULE_TO: _module_to,
    torch.complex: _of_parts(torch.complex, _given),
    torch.polar: _of_parts(torch.polar, _polar),
    torch.view_as_complex: _of_parts(torch.view_as_complex, _last_pair),
}
_FACTORIES = (torch.zeros, torch.ones, torch.empty)
_REPLACEMENTS.update((function, _with_complex_dtypes(function)) for function in _FACTORIES)

# Where programs look the functions up: (owner, name, torch's function).
_PLACES = [
    (owner, name, function)
    for owner in (torch, torch.fft, torch.functional, torch.Tensor, torch.nn.Module)
    for name, function in vars(owner).items()
    if callable(function) and function in _REPLACEMENTS
]

# Functions of torch are pickled by the place where they are found, and so are these in their place.
for _owner, _name, _function in _PLACES:
    _replacement = _REPLACEMENTS[_function]
    if _owner in (torch, torch.fft) and _function not in (torch.stft, torch.istft):
        _replacement.__module__, _replacement.__qualname__ = _owner.__name__, _name
