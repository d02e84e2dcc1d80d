"""`patch_torch`: models that call torch.fft, torch.stft and torch.istft run on this library.

Where complex storage is not assumed (see `trnfft.set_complex_storage`), the complex tensors of such
models are ComplexTensors, also those that torch.zeros, torch.ones, torch.empty, torch.complex,
torch.polar and torch.view_as_complex return.
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
_started = 0  # calls of `start` that no `stop` has undone


@dataclass
class _Block:
    """A `with` block of the task that entered it and of the tasks made inside the block."""

    is_open: bool = True


_blocks: ContextVar[tuple[_Block, ...]] = ContextVar("blocks", default=())
# torch sets the mode aside while these run, and they call further functions.
_OF_GRAPHS = {torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad}


class patch_torch(TorchFunctionMode):
    """Replaces torch.fft's transforms, torch.stft and torch.istft by the functions of this library.

    It holds inside a `with` block, or from `start` to `stop`. The input, the device and the backend
    decide the kind of a complex result, as for the functions of this library; see
    `docs/complex_tensor.md`. On devices where complex storage is not assumed, torch.zeros,
    torch.ones, torch.empty, torch.complex, torch.polar and torch.view_as_complex return
    ComplexTensors, and `model.to(device)` turns complex parameters into ComplexTensors.
    `docs/models.md` shows models.

    A `with` block holds for its own thread and asyncio task, and for all calls in it, including
    calls of functions that were stored before the block and calls that `backward()` makes. Blocks
    may be nested, and torch.compile traces them. If another task of the same thread calls a
    compiled function meanwhile, the function is traced with the block.

    `start` holds for all threads of the program, including later ones, but only for functions that
    are looked up in torch afterwards. Call it before models are made, because some models store
    functools.partial(torch.fft.fftn).

    Examples:
        >>> import torch, trnfft
        >>> def model(x):
        ...     return torch.fft.ifft(torch.fft.fft(x)).real
        >>> with trnfft.patch_torch(), trnfft.backend("matmul"):
        ...     model(torch.ones(4))
        tensor([1., 1., 1., 1.])
        >>> trnfft.patch_torch().start()  # for the whole program
        >>> trnfft.patch_torch().stop()
    """

    _thread: int | None = None  # the thread of the block, unknown in compiled code

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
        """Calls a function of torch, while torch has set this mode aside."""
        kwargs = kwargs or {}
        is_compiling = torch.compiler.is_compiling()
        if not is_compiling and not self._is_for_this_task():
            return func(*args, **kwargs)
        if is_compiling or func not in _OF_GRAPHS:
            return _REPLACEMENTS.get(func, func)(*args, **kwargs)
        with backward_pass.under(lambda: _without_a_block(self)):
            return func(*args, **kwargs)

    def _is_for_this_task(self) -> bool:
        """Whether the caller is in a block: torch keeps modes by thread, but asyncio has tasks.

        A thread that sees the mode of another thread is one of torch's own, which runs its backward
        pass.
        """
        if self._thread != threading.get_ident():
            return True
        return any(block.is_open for block in _blocks.get())

    def start(self) -> None:
        """Replaces the functions in torch itself, for the whole program. Calls are counted."""
        global _started
        with _lock:
            _started += 1
            if _started == 1:
                for owner, name, function in _PLACES:
                    setattr(owner, name, _REPLACEMENTS[function])

    def stop(self) -> None:
        """Undoes one call of `start`. The last `stop` restores torch's functions.

        Raises:
            RuntimeError: `start` was not called, or was undone before.
        """
        global _started
        with _lock:
            if not _started:
                raise RuntimeError("patch_torch is not started; call start() before stop()")
            _started -= 1
            if not _started:
                for owner, name, function in _PLACES:
                    setattr(owner, name, function)


@contextlib.contextmanager
def _without_a_block(mode: patch_torch) -> Iterator[None]:
    """Enters the mode again, inside a block that was entered before."""
    TorchFunctionMode.__enter__(mode)
    try:
        yield
    finally:
        TorchFunctionMode.__exit__(mode, None, None, None)


def _with_complex_dtypes(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Returns torch.zeros or a similar function for devices that may have no complex dtypes."""

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
    """As torch.Tensor.to, also from native complex tensors to devices without complex dtypes."""
    if not self.is_complex() or isinstance(self, ComplexTensor):
        return self.to(*args, **kwargs)
    device = torch._C._nn._parse_to(*args, **kwargs)[0]
    if device is None or stores_complex(device):
        return self.to(*args, **kwargs)
    return ComplexTensor.from_complex(self).to(*args, **kwargs)


_MODULE_TO = torch.nn.Module.to


def _module_to(self: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
    """As torch.nn.Module.to, for whole programs, in which torch.Tensor.to is not replaced."""
    with patch_torch():
        return _MODULE_TO(self, *args, **kwargs)


def _of_parts(
    function: Callable[..., torch.Tensor], parts: Callable[..., tuple[torch.Tensor, torch.Tensor]]
) -> Callable[..., torch.Tensor]:
    """Returns a function of real tensors that makes complex ones, on any device."""

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

# Pickle stores a function of torch by its place, which the replacements therefore name as well.
for _owner, _name, _function in _PLACES:
    _replacement = _REPLACEMENTS[_function]
    if _owner in (torch, torch.fft) and _function not in (torch.stft, torch.istft):
        _replacement.__module__, _replacement.__qualname__ = _owner.__name__, _name
