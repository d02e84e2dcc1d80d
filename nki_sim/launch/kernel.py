"""nki.jit, nki.simulate, record and dry_run: running a kernel in the simulator."""

from __future__ import annotations

import copy
import functools
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import ml_dtypes
import numpy as np

from nki_sim import hardware
from nki_sim.base import dtypes, releases
from nki_sim.base.dtypes import Array
from nki_sim.base.enums import MemoryRegion
from nki_sim.base.removed_api import removed_argument
from nki_sim.base.running import is_running, running
from nki_sim.errors import Break, NkiValidationError
from nki_sim.instructions.launch_state import active
from nki_sim.isa.cores import PROGRAMS
from nki_sim.language.grids import NkiGrid
from nki_sim.launch.compiler import NO_CONFIG, CompileConfig, Config, SpecializationConfig
from nki_sim.rules import lost_outputs
from nki_sim.typing import check_annotations
from nki_sim.views.register import RunTimeValue
from nki_sim.views.storage import Storage
from nki_sim.views.tensor import NkiTensor

from .instruction_order import kept_order
from .launch_arguments import Args, Argument, Kwargs, check_call, each, name_of, naming_arguments
from .pair import Pair
from .recorded import recording
from .session import Session
from .tracebacks import ending_in_kernel

Bound = tuple[NkiTensor, Array, Any]  # an argument, its data, and what the caller passed

_begun = 0  # launches and dry runs of this process


# Keywords of nki.jit in AWS's kernels. `mode` is deprecated and ignored since NKI 0.3.0.
_IGNORED_SETTINGS = {"mode", "debug_kernel", "show_compiler_tb", "experimental_flags"}


class Kernel:
    """A function decorated with ``nki.jit``. A call runs it in the simulator."""

    def __init__(self, func: Callable[..., object], config: Config = NO_CONFIG) -> None:
        self.func = func
        self.config = config
        self.grid: tuple[int, ...] = ()
        self.is_bracketed = False  # whether the grid comes from a bracket
        self.schedule: tuple[tuple[str, tuple[str, ...]], ...] = ()
        self.release: str | None = None  # None: the current release
        functools.update_wrapper(self, func)

    def _but(self, **changes: object) -> Kernel:
        kernel = copy.copy(self)
        kernel.__dict__.update(changes)
        return kernel

    def __getitem__(self, grid: object) -> Kernel:
        """Returns the kernel for so many NeuronCores: ``kernel[2](...)`` runs on two.

        The chip must support LNC=2. Deprecated since NKI 0.7, in which NEURON_LOGICAL_NC_CONFIG
        sets the number of cores.
        """
        sizes = _grid_sizes(grid)
        if len(sizes) > 1 and max(sizes) > 1:
            raise NotImplementedError(
                f"argument 'grid' is {grid}, but the simulator has launch grids of one number "
                f"only: write kernel[2]"
            )
        if (self.release or releases.current()) != releases.PARSED:
            warnings.warn(
                f"kernel[{sizes[0]}] is deprecated since NKI 0.7: set "
                f"{hardware.LNC_VARIABLE}={sizes[0]}, and call the kernel without a bracket",
                DeprecationWarning,
                stacklevel=2,
            )
        return self._but(grid=sizes, is_bracketed=True)

    def with_programs(self, count: int) -> Kernel:
        """Returns the kernel for ``count`` cores, whatever NEURON_LOGICAL_NC_CONFIG says.

        Only this simulator has this method. It models or tests a launch of another process.
        """
        return self._but(grid=_grid_sizes(count), is_bracketed=False)

    def with_release(self, release: str) -> Kernel:
        """Returns the kernel under a release of NKI; raises ValueError for an unknown release."""
        return self._but(release=releases.checked(release))

    def with_schedule(self, edges: object) -> Kernel:
        """Returns the kernel with extra edges ``(consumer, producer or list of producers)``."""
        return self._but(schedule=self.schedule + _named_edges(edges))

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Launches the kernel. A call from a running kernel adds instructions to that kernel."""
        given = (*args, *kwargs.values())
        if is_running() and not any(isinstance(v, np.ndarray) or _is_torch(v) for v in given):
            active().config.check_nested(self.config, repr(self))
            return self.func(*args, **kwargs)
        count_launch(self)
        with ending_in_kernel(self), releases.select(self.release):
            return _launch(self, args, kwargs)

    def __repr__(self) -> str:
        name = getattr(self.func, "__qualname__", repr(self.func))
        file = getattr(self.func, "__code__", None)
        place = f" of {os.path.basename(file.co_filename)}" if file else ""
        return f"<nki kernel {name}{''.join(f'[{n}]' for n in self.grid)}{place}>"


def launches_begun() -> int:
    """Returns how many launches and dry runs have begun in this process, in all of its threads."""
    return _begun


def count_launch(kernel: object) -> None:
    """Counts a launch that begins; raises RuntimeError in a running kernel.

    Each launch on two cores has a thread, so that Python's limit would not end a recursion.
    """
    global _begun
    if is_running():
        name = name_of(kernel)
        raise RuntimeError(
            f"a running kernel launches kernel {name}, but a kernel cannot launch kernels: call "
            f"{name} with tensors of the running kernel, to which the call adds instructions"
        )
    _begun += 1


def programs(kernel: Kernel) -> int:
    """Returns the number of programs of a launch; raises NkiValidationError if it is too large."""
    chip = hardware.current()
    count = max(kernel.grid) if kernel.grid else _degree()
    if count > chip.programs_per_launch:
        allowed = " or ".join([f"{n + 1}" for n in range(chip.programs_per_launch)])
        cores = "core" if chip.programs_per_launch == 1 else "cores"
        rule = f"a launch on {chip.name} has {allowed} {cores} (LNC; nki/get-started/about/lnc.rst)"
        if count == PROGRAMS:
            rule += f": to simulate {count}, set {hardware.TARGET_VARIABLE} to trn2 or trn3"
        raise NkiValidationError("launch", "the number of cores", count, rule)
    given = os.environ.get(hardware.LNC_VARIABLE)
    if kernel.is_bracketed and given and releases.is_traced() and count != hardware.degree():
        rule = (
            f"{hardware.LNC_VARIABLE} is {given}, and the compiler refuses another degree "
            f"(NCC_EVRF066): call the kernel without a bracket"
        )
        raise NkiValidationError("launch", f"the degree of kernel[{count}]", count, rule)
    return count


def _degree() -> int:
    # A launch without a bracket has the variable's cores in NKI 0.7.
    if releases.is_traced() and os.environ.get(hardware.LNC_VARIABLE):
        return hardware.degree()
    return 1


def dimensions(kernel: Kernel) -> int:
    """Returns the number of dimensions of the launch grid."""
    return len(kernel.grid) or int(_degree() > 1)


def _named_edges(edges: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Returns the edges of ``with_schedule`` in one form: (consumer, producers)."""
    named: list[tuple[str, tuple[str, ...]]] = []
    for edge in edges if hasattr(edges, "__iter__") else (edges,):
        pair = edge if isinstance(edge, (list, tuple)) and len(edge) == 2 else (None, None)
        names = pair[1] if isinstance(pair[1], (list, tuple)) else (pair[1],)
        if not all(isinstance(name, str) for name in (pair[0], *names)):
            raise TypeError(
                f"argument 'edges' of with_schedule contains {edge!r}, allowed are pairs "
                f"(consumer, producer) or (consumer, list of producers) of names of instructions"
            )
        named.append((pair[0], tuple(names)))  # type: ignore[arg-type]
    return tuple(named)


def _grid_sizes(grid: object) -> tuple[int, ...]:
    sizes = grid if isinstance(grid, tuple) else (grid,)
    counts = [n for n in sizes if isinstance(n, (int, np.integer)) and not isinstance(n, bool)]
    if not sizes or len(counts) < len(sizes) or min(counts) < 1:
        raise TypeError(
            f"argument 'grid' is {grid!r}, allowed is the number of cores, as in kernel[2], or a "
            f"tuple of positive ints"
        )
    return tuple([int(n) for n in counts])


def jit(
    fn: Callable[..., object] | None = None,
    *,
    compile_config: CompileConfig | None = None,
    specialization_config: SpecializationConfig | None = None,
    **kwargs: object,
) -> Any:
    """Makes a kernel of a function. Use it as a decorator, ``@nki.jit`` or ``@nki.jit(...)``.

    The argument ``platform_target`` is refused, as in the SDK. ``mode`` is ignored, and so are
    settings of the compiler that no document explains.

    Args:
        fn: the function.
        compile_config: a nki.compiler.CompileConfig; since NKI 0.7.
        specialization_config: a nki.compiler.SpecializationConfig; since NKI 0.7.

    Raises:
        TypeError: an argument is unknown or of the wrong type, or not in the release of NKI.
        ValueError: ``platform_target`` is given.
    """
    if "platform_target" in kwargs:
        removed = removed_argument("nki", "jit", "platform_target")
        raise ValueError(f"nki.jit(platform_target=...) was {removed}")
    unknown = set(kwargs) - _IGNORED_SETTINGS
    if unknown:
        text = f"nki.jit has no argument {', '.join(sorted(unknown))}; its arguments are "
        raise TypeError(f"{text}fn, compile_config and specialization_config")
    config = Config.of(compile_config, specialization_config)
    if fn is None:
        return functools.partial(
            jit, compile_config=compile_config, specialization_config=specialization_config
        )
    if not callable(fn):
        raise TypeError(f"argument 'fn' of nki.jit is {fn!r}, allowed is a function")
    return Kernel(fn, config)


def run(
    kernel: Kernel, sessions: Sequence[Session], pair: Pair | None, args: Args, kwargs: Kwargs
) -> tuple[Any, dict[str, int]]:
    """Returns the result of a launch, as the kernel's tensors of the first program, and peaks.

    Without a log, as in most dry runs, the order of instructions and lost outputs remain unchecked.
    """
    with naming_arguments(kernel.func, args, kwargs):
        results = pair.run(args, kwargs) if pair else [kernel.func(*args, **kwargs)]
    check_result(results)
    for session in sessions:
        name_edges(kernel, session)
    outputs = [tensors_of(result) for result in results]
    if pair is None:
        peaks = sessions[0].finish(outputs[0])
    else:
        pair.check(results)
        peaks = pair.finish(outputs)
    if sessions[0].log is not None:
        lost_outputs.check(sessions, results[0], pair.tensors if pair else ())
        for session in sessions:
            session.order = kept_order(session)
    return results[0], peaks


def check_sequences(
    session: Session,
    kernel: Kernel,
    args: Args,
    kwargs: Kwargs,
    is_tensor: Callable[[object], bool],
) -> None:
    """Checks the rule on tensors in tuples. A launch refuses lists elsewhere."""
    given: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    for place, value in given:
        if isinstance(value, tuple) and not is_tensor(value) and _holds(value, is_tensor):
            what = f"argument {Argument(kernel.func, place).name!r}"
            broken = Break("tensors-in-sequences", what, "a tuple with tensors")
            session.broke("kernel", broken)


def _holds(value: object, is_tensor: Callable[[object], bool]) -> bool:
    if is_tensor(value):
        return True
    return isinstance(value, tuple) and any(_holds(item, is_tensor) for item in value)


def argument_tensor(
    shape: tuple[int, ...], dtype: str, session: Session, argument: Argument
) -> NkiTensor:
    storage = Storage(shape, dtype, MemoryRegion.shared_hbm, "")
    storage.is_argument = True
    storage.written = True
    try:
        session._check_size(storage)
    except NkiValidationError as error:
        what = f"the size of {argument}"
        raise NkiValidationError("kernel", what, error.value, error.rule) from None
    session.storages.append(storage)
    return NkiTensor(shape, dtype, storage, MemoryRegion.shared_hbm)


def begin(
    kernel: Kernel, dry: bool, notes: bool, record: bool = True
) -> tuple[Sequence[Session], Pair | None]:
    """Returns the session of a launch, or two sessions and their pair."""
    pair = Pair(kernel.func, dry) if programs(kernel) > 1 else None
    sessions: Sequence[Session] = pair.sessions if pair else [Session(dry, record, kernel.func)]
    for session in sessions:
        session.program_dimensions, session.config = dimensions(kernel), kernel.config
        session.notes = [] if notes else None
    return sessions, pair


def _launch(kernel: Kernel, args: Args, kwargs: Kwargs) -> Any:
    timelines = recording()
    is_recorded = bool(timelines)
    sessions, pair = begin(kernel, dry=False, notes=is_recorded, record=is_recorded)
    session = sessions[0]
    check_call(kernel.func, args, kwargs)
    check_annotations(kernel.func, args, kwargs)
    bound: list[Bound] = []
    with running(session):
        check_sequences(session, kernel, args, kwargs, lambda item: hasattr(item, "shape"))
        make = functools.partial(_to_kernel, session, bound)
        given, named = each(kernel.func, args, kwargs, make)
        result, peaks = run(kernel, sessions, pair, given, named)
    for timeline in timelines:
        timeline.add(sessions, pair.meetings if pair else [], peaks)
    (pair or session).release()
    for tensor, array, original in bound:
        if pair is not None or tensor.storage.last_use >= 0:
            _write_back(array, original)
    return _to_caller(result, any(_is_torch(original) for *_, original in bound))


def name_edges(kernel: Kernel, session: Session) -> None:
    for consumer, producers in kernel.schedule:
        for name in (consumer, *producers):
            if name not in session.names:
                names = ", ".join(session.names) or "none"
                rule = f"no instruction has this name; the names of instructions are: {names}"
                raise NkiValidationError("with_schedule", "a name in 'edges'", name, rule)
        for producer in producers:
            session.extra_edges.append((session.names[consumer], session.names[producer]))


def _is_torch(value: object) -> TypeGuard[Any]:
    if isinstance(value, np.ndarray) or not hasattr(value, "detach"):
        return False
    return any(kind.__module__.partition(".")[0] == "torch" for kind in type(value).__mro__)


def _to_kernel(session: Session, bound: list[Bound], value: object, argument: Argument) -> Any:
    if isinstance(value, list):
        raise TypeError(
            f"{argument} is a list, which a kernel does not accept since NKI 0.3.0: pass a tuple, "
            f"or numbers as a NumPy array"
        )
    if isinstance(value, tuple):
        items = enumerate(value)
        return tuple([_to_kernel(session, bound, v, argument.at(i)) for i, v in items])
    original = value
    if _is_torch(original):
        try:
            value = _torch_to_numpy(original)
        except (RuntimeError, TypeError) as error:  # of meta, sparse and quantized tensors
            raise TypeError(
                f"{argument} is a {type(original).__name__} of {original.dtype} on device "
                f"{original.device}, allowed are dense tensors that torch can convert to NumPy "
                f"arrays: {error}"
            ) from None
    if not isinstance(value, np.ndarray):
        return value
    try:
        dtype = dtypes.canonical(value.dtype)
    except TypeError:
        instead = "convert the array, for example by x.astype(np.float32)"
        if value.dtype.kind == "c":
            instead = "pass the real and the imaginary part as two arrays"
        raise TypeError(
            f"{argument} is an array of {value.dtype}, a dtype that the chip does not have: "
            f"{instead}"
        ) from None
    tensor = argument_tensor(value.shape, dtype, session, argument)
    if value.size == 0:
        raise ValueError(
            f"{argument} has shape {value.shape}, but a kernel needs arrays with elements"
        )
    array = np.ascontiguousarray(value, dtype=tensor._layout.np_type)
    if not array.flags.writeable:
        array = array.copy()
    tensor.storage.data = array.reshape(-1).view(np.uint8)
    bound.append((tensor, array, original))
    return tensor


def _torch_to_numpy(value: Any) -> Any:
    import torch

    value = value.detach().cpu().contiguous()
    held = getattr(ml_dtypes, str(value.dtype).removeprefix("torch."), None)
    if held is not None:
        bits = torch.int16 if value.itemsize == 2 else torch.int8
        return value.view(bits).numpy().view(held)
    return value.numpy()


def _numpy_to_torch(array: Array) -> Any:
    import torch

    name = array.dtype.name
    if hasattr(ml_dtypes, name) and hasattr(torch, name):
        return torch.from_numpy(array.view(f"i{array.itemsize}")).view(getattr(torch, name))
    return torch.from_numpy(array)


def _write_back(array: Array, original: Any) -> None:
    """Copies the kernel's writes into the caller's array, if the kernel ran on a copy of it."""
    if _is_torch(original):
        import torch

        if not np.may_share_memory(array, _torch_to_numpy(original)):
            with torch.no_grad():
                original.copy_(_numpy_to_torch(array))
    elif original.flags.writeable and not np.may_share_memory(array, original):
        original[...] = array


_NO_RESULTS = (RunTimeValue, NkiGrid)


def check_result(result: object) -> None:
    """Raises TypeError for results that a launch cannot return to its caller."""
    if isinstance(result, _NO_RESULTS):
        is_grid = isinstance(result, NkiGrid)
        advice = "the grid's .data" if is_grid else "a tensor in which the kernel has stored it"
        raise TypeError(f"the kernel returns {result!r}, allowed are tensors: return {advice}")
    if isinstance(result, (tuple, list, dict)):
        for item in result.values() if isinstance(result, dict) else result:
            check_result(item)


def tensors_of(result: object) -> list[NkiTensor]:
    if isinstance(result, NkiTensor):
        return [result]
    if isinstance(result, (tuple, list)):
        return [t for item in result for t in tensors_of(item)]
    if isinstance(result, dict):
        return [t for item in result.values() for t in tensors_of(item)]
    return []


def _to_caller(result: object, uses_torch: bool) -> Any:
    if isinstance(result, NkiTensor):
        array = result.array().copy()
        return _numpy_to_torch(array) if uses_torch else array
    if isinstance(result, (tuple, list)):
        items = [_to_caller(item, uses_torch) for item in result]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    if isinstance(result, dict):
        return {k: _to_caller(v, uses_torch) for k, v in result.items()}
    return result
