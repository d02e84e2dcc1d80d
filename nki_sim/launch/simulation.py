"""nki.simulate and dry_run: a kernel in the simulator, with data and without."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from nki_sim.base import dtypes, releases
from nki_sim.base.arguments import integers
from nki_sim.base.installed_nki import COPIES, SIMULATOR_VARIABLE
from nki_sim.base.running import running
from nki_sim.errors import NkiValidationError
from nki_sim.instructions.instruction_notes import are_wanted
from nki_sim.report.timeline import Timeline
from nki_sim.rules import lost_outputs

from .instruction_order import is_program_order_kept
from .kernel import Kernel, argument_tensor, begin, check_sequences, count_launch, run
from .launch_arguments import Args, Argument, Kwargs, check_call, each
from .session import Session
from .tracebacks import ending_in_kernel

# Types that a kernel never has, but that a module of kernels may well hold as constants.
_NO_KERNEL = (type(None), int, float, str, bytes, tuple, list, dict, type, ModuleType, np.generic)


def simulate(kernel: object, release: str | None = None) -> Kernel:
    """Returns a callable that runs ``kernel`` on NumPy arrays or torch tensors on the CPU.

    The callable returns torch tensors if an argument is one, and NumPy arrays otherwise. Arguments
    that the kernel writes are updated in place. The call raises NkiValidationError if the kernel
    breaks a rule. It raises RuntimeError if the kernel calls sys.exit, which does not end the
    program, and if a kernel is running, because kernels cannot launch kernels. Other errors of the
    kernel are passed on as they are.

    Args:
        kernel: a function, or a kernel of this simulator or of this package.
        release: the release of NKI, "0.7" or "0.6"; by default the current one.

    Raises:
        TypeError: the real nki has decorated the kernel, which is not one of this package.
        ValueError: the release is not known.
    """
    found = _simulated(kernel)
    return found if release is None else found.with_release(release)


def _simulated(kernel: object) -> Kernel:
    if isinstance(kernel, Kernel):
        return kernel
    if inspect.isfunction(kernel):
        return Kernel(kernel)
    if not isinstance(kernel, _NO_KERNEL):
        for copy_of in COPIES:
            if (copied := copy_of(kernel)) is not None:
                return copied
    raise TypeError(
        f"argument 'kernel' is {kernel!r}, allowed are functions and kernels of this "
        f"simulator. Where the real nki is installed, set {SIMULATOR_VARIABLE}=1, so that "
        f"nki.jit makes kernels of this simulator"
    )


def dry_run(kernel: object, *specs: object, **kwargs: object) -> Timeline:
    """Returns the timeline of a kernel, without data and without results.

    The timeline equals that of a real run. Its events have source lines and operands only inside
    ``with sources():``.

    A dry run does not check dynamic indices. Outside of ``sources`` it also finds neither reads of
    memory that nothing has written, nor accumulation onto such memory in PSUM.

    Args:
        kernel: as for ``simulate``.
        specs, kwargs: what stands for the kernel's arguments. A tensor is a pair
            ``(shape, dtype)``, or any object with ``shape`` and ``dtype``. Tuples may hold such
            pairs. All other values are passed as they are.

    Raises:
        NkiValidationError: the kernel breaks a rule, or its control flow depends on data.
        RuntimeError: the kernel calls sys.exit, or a kernel is running.
        TypeError: an argument is of the wrong type.
    """
    count_launch(kernel)
    with ending_in_kernel(kernel), _no_collections():
        kernel = simulate(kernel)
        check_call(kernel.func, specs, kwargs)
        with releases.select(kernel.release):
            return _dry(kernel, specs, kwargs)


@contextmanager
def _no_collections() -> Iterator[None]:
    """Stops Python's garbage collector inside the block.

    A dry run keeps its objects to the end. Searching these and torch's objects for garbage again
    and again took a third of the time.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _dry(kernel: Kernel, specs: Args, kwargs: Kwargs, logs: bool = False) -> Timeline:
    sessions, pair = begin(kernel, dry=True, notes=are_wanted())
    session = sessions[0]
    for one in sessions if logs else ():
        one.log = []
    with running(session):
        check_sequences(session, kernel, specs, {}, lambda item: _as_spec(item) is not None)
        given, named = each(kernel.func, specs, kwargs, partial(_from_spec, session))
        result, peaks = run(kernel, sessions, pair, given, named)
    is_kept, twins = all(map(is_program_order_kept, sessions)), pair.tensors if pair else ()
    if not logs and (not is_kept or lost_outputs.are_suspected(session, result, twins)):
        (pair or session).release()
        return _dry(kernel, specs, kwargs, logs=True)
    timeline = Timeline()
    timeline.add(sessions, pair.meetings if pair else [], peaks)
    (pair or session).release()
    return timeline


def _as_spec(spec: object) -> tuple[Any, Any] | None:
    """Returns shape and dtype of a tensor's stand-in in a dry run, or None for other values."""
    if hasattr(spec, "shape") and hasattr(spec, "dtype"):
        return spec.shape, spec.dtype
    if not isinstance(spec, tuple) or len(spec) != 2 or isinstance(spec[1], tuple):
        return None
    return spec if isinstance(spec[0], (tuple, list)) else None


def _from_spec(session: Session, spec: object, argument: Argument) -> Any:
    found = _as_spec(spec)
    if found is None:
        if not isinstance(spec, tuple):
            return spec
        return tuple([_from_spec(session, s, argument.at(i)) for i, s in enumerate(spec)])
    shape, dtype = found
    what = f"the shape of {argument}"
    sizes = integers("dry_run", what, shape)
    if any(n < 1 for n in sizes):
        raise NkiValidationError("dry_run", what, shape, "must hold positive sizes only")
    try:
        return argument_tensor(sizes, dtypes.canonical(dtype), session, argument)
    except TypeError as error:
        raise TypeError(f"{argument}: {error}") from None
