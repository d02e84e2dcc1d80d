"""`patch_torch`: models that call torch.fft, torch.stft and torch.istft run on this library.

Where complex storage is not assumed (see `trnfft.set_complex_storage`), all complex tensors of such
models are ComplexTensors:

    torch.fft, torch.stft                       `_REPLACEMENTS` below
    torch.complex, torch.tensor, x.to, ...      `trnfft.patching.complex_makers`
    all other functions, as 1j * x              `trnfft.patching.split_results`
    scripted code                               `trnfft.patching.torchscript`, which refuses it
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, is_tensor_like

from trnfft.base import backward_pass
from trnfft.complex.table import Arguments, Function, NamedArguments
from trnfft.functions import fft as transforms
from trnfft.functions import stft as signal
from trnfft.patching import complex_makers, places, split_results, torchscript

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
    `docs/complex_tensor.md`. On devices where complex storage is not assumed, every call of torch
    with a complex result returns a ComplexTensor, as `1j * x`, `x.to(torch.cfloat)` and
    `torch.randn(3, dtype=torch.cfloat)`, and `model.to(device)` turns complex parameters into
    ComplexTensors. `docs/models.md` shows models.

    A `with` block holds for its own thread and asyncio task, and for all calls in it, including
    calls of functions that were stored before the block and calls that `backward()` makes. Blocks
    may be nested, and torch.compile traces them. If another task of the same thread calls a
    compiled function meanwhile, the function is traced with the block.

    `start` holds for all threads of the program, including later ones, but only for functions that
    are looked up in torch afterwards, and for methods of tensors. Call it before models are made,
    because some models store functools.partial(torch.fft.fftn).

    Scripted code keeps torch's own functions. On a device where complex storage is not assumed, a
    call of scripted code that computes complex numbers raises a NotImplementedError.

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
            torchscript.watch()
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if not torch.compiler.is_compiling() and self._entered:
            torchscript.unwatch()
            self._entered.pop().is_open = False
            _blocks.set(tuple(block for block in _blocks.get() if block.is_open))

    def __torch_function__(
        self,
        func: Function,
        types: object,
        args: Arguments = (),
        kwargs: NamedArguments | None = None,
    ) -> Any:
        """Calls a function of torch, while torch has set this mode aside."""
        kwargs = kwargs or {}
        is_compiling = torch.compiler.is_compiling()
        if not is_compiling and not self._is_for_this_task():
            return func(*args, **kwargs)
        if is_compiling or func not in _OF_GRAPHS:
            replacement = _REPLACEMENTS.get(func)
            if replacement is None:
                return split_results.called(func, args, kwargs)
            return replacement(*args, **kwargs)
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
                for place in _places():
                    place.replace()
                torchscript.watch()

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
                for place in _places():
                    place.restore()
                torchscript.unwatch()


split_results.keep_apart(patch_torch.__torch_function__)


def block_of_now() -> Callable[[], contextlib.AbstractContextManager[Any]]:
    """Returns what replaces torch's functions again if they are replaced now, or leaves blocks."""
    if any(block.is_open for block in _blocks.get()):
        return patch_torch
    return _as_started if _started else _outside


def _as_started() -> contextlib.AbstractContextManager[Any]:
    return contextlib.nullcontext() if _started else patch_torch()


@contextlib.contextmanager
def _outside() -> Iterator[None]:
    token = _blocks.set(())
    try:
        yield
    finally:
        _blocks.reset(token)


@contextlib.contextmanager
def _without_a_block(mode: patch_torch) -> Iterator[None]:
    """Enters the mode again, inside a block that was entered before."""
    TorchFunctionMode.__enter__(mode)
    try:
        yield
    finally:
        TorchFunctionMode.__exit__(mode, None, None, None)


def _for_tensors(function: Function, of_torch: Function) -> Function:
    """Returns a function that leaves what is no tensor to torch, as the proxies of torch.fx."""

    @functools.wraps(of_torch)
    def call(*args: object, **kwargs: object) -> Any:
        is_other = args and not isinstance(args[0], torch.Tensor) and is_tensor_like(args[0])
        return (of_torch if is_other else function)(*args, **kwargs)

    return call


_REPLACEMENTS: dict[Function, Function] = {
    **complex_makers.MAKERS,
    **transforms.OF_TORCH,
    torch.stft: _for_tensors(signal.stft, torch.stft),
    torch.Tensor.stft: signal.stft,
    torch.istft: _for_tensors(signal.istft, torch.istft),
    torch.Tensor.istft: signal.istft,
}


@functools.cache
def _places() -> tuple[places.Place, ...]:
    return places.replaceable(_REPLACEMENTS)
