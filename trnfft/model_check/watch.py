"""Watches a model while it runs: functions of torch above autograd, operators of ATen below it.

An operation that a ComplexTensor refuses is noted. Then it is computed with native complex tensors,
and its results become ComplexTensors again, so that one run finds all refused operations.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from nki_sim import hardware
from trnfft.base import torch_private as private
from trnfft.complex.dispatch import written_by
from trnfft.complex.graphs import is_view
from trnfft.complex.parts import parts_of
from trnfft.complex.tensor import ComplexTensor
from trnfft.functions import fft as transforms
from trnfft.model_check import sites
from trnfft.model_check.findings import BACKWARD, FORWARD, Finding, Launches
from trnfft.model_check.replaced_backends import NAMES
from trnfft.model_check.sites import Origin, Site
from trnfft.patching import patch
from trnfft.planner import cost
from trnfft.planner.plan import Recipe

aten = torch.ops.aten

MANY = 100  # operators of torch: a function that takes as many is noted
_TAG = "trnfft.model_check"  # the key of a node's Origin in the metadata of autograd
_TRANSFORMS = {function.__name__ for function in transforms.OF_TORCH.values()}
_MAKING_COMPLEX = (torch.complex, aten.complex.default, torch.polar, torch.view_as_complex)
_TO_COMPLEX = ComplexTensor.to_complex.__code__
_READING = (torch.Tensor.cpu, torch.Tensor.tolist)
_READING_OPERATORS = {aten._local_scalar_dense, aten.equal, aten.is_nonzero, aten.item}
_PRINTING = {"__repr__", "__format__"}
_MAKING_ARRAYS = (torch.Tensor.numpy, torch.Tensor.__array__)
# These operators compute nothing. Nor do views.
_WITHOUT_WORK = {
    aten._local_scalar_dense,
    aten._unsafe_view,
    aten.empty,
    aten.empty_like,
    aten.empty_strided,
    aten.is_nonzero,
    aten.item,
    aten.lift_fresh,
    aten.new_empty,
    aten.new_empty_strided,
}

_NO_STORAGE = (
    "makes a native complex tensor, and no complex storage is assumed on the device; make a "
    "ComplexTensor of two real parts: torch.complex(real, imag)"
)
_READS = "copies numbers to the host, which waits for the device"
_MAKES_AN_ARRAY = (
    "makes an array of NumPy, which a tensor on a device does not allow; write x.cpu().numpy(), if "
    "the tensor is not on the host already"
)
_ON_THE_HOST = (
    "runs on the host, as NeuronCores have no kernel for it: its tensors are copied there and back"
)
_IS_NATIVE = "copies complex numbers to the host; what follows with them is computed there"
_OTHER_THREAD = (
    "runs in another thread than the model, and this command cannot follow it there; call it in "
    "the thread of the model"
)
_MANY_OPERATORS = "takes {count} operators of torch on real parts in place of one"
_INSTEAD_OF_A_CONVOLUTION = (
    "no kernel convolves rows of this length, precision or dtype: two transforms and a product of "
    "spectra take the place of one launch"
)
_INSTEAD_OF_A_PRODUCT = (
    "no kernel multiplies by blocks of this size, precision or dtype: transforms and products of "
    "spectra take the place of one launch; kernels take float32 and blocks of up to 256"
)

# These functions of trnfft.ops use transforms where no kernel does the work in one launch.
_SLOWER_WAYS = {
    "filtered_rows": _INSTEAD_OF_A_CONVOLUTION,
    "matrix_of": _INSTEAD_OF_A_PRODUCT,
}


class Watch:
    """The launches and findings of a run so far. The replaced backends report to it.

    Attributes:
        phase: of the run, FORWARD or BACKWARD.
        launches: the number of each launch, whose own count is 1.
        refused, fallbacks: the number of each finding, likewise.
        operators: by phase, the number of torch's operators on the device.
        complex_operations: the number of calls of torch's functions with complex numbers.
        events: the number of launches and findings.
        has_backward: whether a backward pass follows.
        function: the name of torch's function that the program is calling.
        hopeless: a noted error of a function that torch itself does not have for complex numbers.
    """

    def __init__(
        self, chip: hardware.NeuronCore, cores: int, modules: dict[int, str], has_backward: bool
    ) -> None:
        self.chip, self.cores, self.modules = chip, cores, modules
        self.has_backward = has_backward
        self.phase = FORWARD
        self.launches: dict[Launches, int] = {}
        self.refused: dict[Finding, int] = {}
        self.fallbacks: dict[Finding, int] = {}
        self.operators = {FORWARD: 0, BACKWARD: 0}
        self.complex_operations = 0
        self.events = 0
        self.hopeless: Exception | None = None
        self.function = ""
        self.is_apart = False
        self._last = Origin(Site())
        self._prices: dict[tuple[Recipe, int], cost.Price | None] = {}
        self._functions, self._operators = _Functions(self), _Operators(self)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Enters the modes for a block in which the model runs."""
        with ExitStack() as stack:
            stack.enter_context(self._operators)
            stack.enter_context(patch.patch_torch())
            stack.enter_context(self._functions)
            stack.enter_context(_other_threads(self))
            yield

    # As the listener

    def launched(self, recipe: Recipe, batch: int, kind: str) -> None:
        here, inside = self._origin_of(kind)
        price = self._price(recipe, batch)
        launch = Launches(
            phase=self.phase,
            site=here.site,
            operation=here.name,
            points=recipe.kind.transformed,
            batch=batch,
            recipe=str(recipe),
            algorithm=recipe.algorithm,
            work=recipe.kind.work(batch),
            count=1,
            predicted_ns=None if price is None else price.predicted_ns,
            hbm_bytes=None if price is None else price.hbm_bytes,
        )
        self._last = here
        self.events += 1
        self.launches[launch] = self.launches.get(launch, 0) + 1
        if kind == "c2r":
            for function, message in _SLOWER_WAYS.items():
                if function in inside:
                    self.note(self.fallbacks, self.origin(), message)

    def refused_by_kernels(self, kind: str, error: Exception) -> None:
        self._last, _ = self._origin_of(kind)
        self.note(self.refused, self._last, str(error))

    def falls_back(self, kind: str, message: str) -> None:
        self._last, _ = self._origin_of(kind)
        self.note(self.fallbacks, self._last, message)

    def on_the_host(self, name: str) -> AbstractContextManager[None]:
        """Notes a function that the host computes, and notes nothing more in a block."""
        here = self.origin()
        self.note(self.fallbacks, replace(here, name=here.name or name), _ON_THE_HOST)
        return self.apart()

    @contextmanager
    def on_the_device(self) -> Iterator[None]:
        with self._operators.again():
            yield

    @contextmanager
    def apart(self) -> Iterator[None]:
        before, self.is_apart = self.is_apart, True
        try:
            with private.DisableTorchFunction():
                yield
        finally:
            self.is_apart = before

    # As the modes tell it

    def origin(self) -> Origin:
        """Returns the origin of a call, or in the backward pass, of the differentiated call."""
        if self.phase == BACKWARD:
            node: Any = private.current_autograd_node()
            if node is not None and _TAG in node.metadata:
                return node.metadata[_TAG]  # type: ignore[no-any-return]
        found = sites.origin(self.modules)
        return Origin(found.site, self.function or found.name, found.functions)

    def note(self, findings: dict[Finding, int], origin: Origin, message: str) -> None:
        """Adds a finding, or counts it again."""
        finding = Finding(self.phase, origin.site, origin.name, message, 1)
        self.events += 1
        findings[finding] = findings.get(finding, 0) + 1

    def tag(self, values: Iterable[Any], origin: Origin | None = None) -> None:
        """Writes the origin of tensors into their nodes of autograd's graph that have none yet.

        The default is the origin of the last launch, as the modes do not see its nodes.
        """
        if not self.has_backward or self.phase == BACKWARD:
            return
        nodes: list[Any] = [x.grad_fn for x in values if isinstance(x, torch.Tensor)]
        while nodes:
            node = nodes.pop()
            if node is not None and _TAG not in node.metadata:
                node.metadata[_TAG] = origin or self._last
                nodes.extend(each for each, _ in node.next_functions)

    def _origin_of(self, kind: str) -> tuple[Origin, tuple[str, ...]]:
        """Returns the origin of a transform, named with its kind, and the functions on the way."""
        here = self.origin()
        is_said = self.phase == BACKWARD or here.name.rpartition(".")[2] in _TRANSFORMS
        short = "" if is_said else NAMES.get(kind, "")
        return Origin(here.site, f"{here.name}: {short}" if short else here.name), here.functions

    def _price(self, recipe: Recipe, batch: int) -> cost.Price | None:
        if (recipe, batch) not in self._prices:
            found: cost.Price | None
            try:
                found = cost.price(recipe, batch, self.chip, self.cores)
            except cost.CannotRun:
                found = None
            self._prices[recipe, batch] = found
        return self._prices[recipe, batch]


class _Functions(TorchFunctionMode):
    """Sees the functions of torch that the program or this library calls."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch
        self._has_first = False  # of the two parts that become an array

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs, watch = kwargs or {}, self.watch
        caller = None if watch.is_apart else next(sites.frames(), None)
        # Some releases of torch compute derivatives with the mode, others without.
        is_engine = watch.phase == BACKWARD and caller is None
        if watch.is_apart or is_engine:
            return func(*args, **kwargs)
        if caller is not None and sites.is_internal(caller):
            if func is torch.Tensor.numpy:
                self._part_as_array()
            if func in _MAKING_COMPLEX:  # these are native tensors, for the host
                if caller.f_code is _TO_COMPLEX and not watch.function:
                    here = Origin(watch.origin().site, "ComplexTensor.to_complex")
                    watch.note(watch.fallbacks, here, _IS_NATIVE)
                with private.DisableTorchFunction():
                    return func(*args, **kwargs)
            return self._called(func, args, kwargs)
        before, watch.function = watch.function, watch.function or _name_of(func)
        try:
            return self._of_program(func, args, kwargs)
        finally:
            watch.function = before

    def _part_as_array(self) -> None:
        """Notes that a ComplexTensor becomes an array or a list, at the first of its two parts."""
        self._has_first = not self._has_first
        here = self.watch.origin()
        if not self._has_first or not _PRINTING.isdisjoint(here.functions):
            return
        if "tolist" in here.functions:
            name = Origin(here.site, "ComplexTensor.tolist")
            self.watch.note(self.watch.fallbacks, name, _READS)
        else:
            self._note_array(Origin(here.site, "ComplexTensor.numpy"))

    def _note_array(self, here: Origin) -> None:
        found = self.watch.fallbacks
        if not any((one.site, one.message) == (here.site, _READS) for one in found):
            self.watch.note(found, here, _MAKES_AN_ARRAY)

    def _of_program(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function for the program, and notes what the device cannot do."""
        watch = self.watch
        named = {x for x in (*args, *kwargs.values()) if isinstance(x, str)}
        if func in _READING or (func is torch.Tensor.to and "cpu" in named):
            watch.note(watch.fallbacks, watch.origin(), _READS)
        if func in _MAKING_ARRAYS:
            self._note_array(watch.origin())
        operators, events = watch.operators[watch.phase], watch.events
        result = self._called(func, args, kwargs)
        given = [x for x in private.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        made = private.tree_leaves(result)
        is_complex = any(isinstance(x, torch.Tensor) and x.is_complex() for x in (*given, *made))
        if not is_complex:
            return result
        watch.complex_operations += 1
        count = watch.operators[watch.phase] - operators
        if count >= MANY and events == watch.events:
            watch.note(watch.fallbacks, watch.origin(), _MANY_OPERATORS.format(count=count))
        is_on_device = bool(given) or kwargs.get("device") is not None
        if is_on_device and any(map(_is_native, made)) and not any(map(_is_native, given)):
            watch.note(watch.refused, watch.origin(), _NO_STORAGE)
            with watch.apart():
                result = _with_split(result)
        return result

    def _called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function, and where it refuses, calls it with native complex tensors."""
        watch = self.watch
        watch.tag(private.tree_leaves((args, kwargs)))
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            result = self._instead(func, args, kwargs, error)
        if watch.has_backward and watch.phase == FORWARD:
            watch.tag(private.tree_leaves(result), watch.origin())
        return result

    def _instead(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
    ) -> Any:
        """Calls a function with native tensors; raises the error where torch refuses these, too."""
        watch = self.watch
        split = [x for x in private.tree_leaves((args, kwargs)) if isinstance(x, ComplexTensor)]
        if not split and func not in patch._REPLACEMENTS:
            raise error
        with watch.apart():
            natives = {id(z): _native(z.clone()) for z in split}  # z may be written into below
            args, kwargs = private.tree_map_only(
                ComplexTensor, lambda z: natives[id(z)], (args, kwargs)
            )
            try:
                result = func(*args, **kwargs)
            except Exception as reason:
                if isinstance(error, NotImplementedError) and str(error) != str(reason):
                    watch.hopeless = error
                    message = f"torch itself has it for real numbers alone: {reason}"
                    watch.note(watch.refused, watch.origin(), message)
                raise error from None
            for z in split:
                native = natives[id(z)]
                if private.version_of(native) and native.shape == z.shape:  # it was written into
                    z.copy_(ComplexTensor.from_complex(native))
            given = {id(natives[id(z)]): z for z in split}  # which functions in place return
            result = private.tree_map_only(torch.Tensor, lambda x: given.get(id(x), x), result)
            result = _with_split(result)
        watch.note(watch.refused, watch.origin(), str(error))
        return result


class _Elsewhere(TorchFunctionMode):
    """Notes complex numbers in a thread that the model starts, where the other modes are not."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        tensors = (
            x for x in private.tree_leaves((args, kwargs, result)) if isinstance(x, torch.Tensor)
        )
        if any(x.is_complex() for x in tensors):
            here = Origin(sites.origin(self.watch.modules).site, _name_of(func))
            self.watch.note(self.watch.refused, here, _OTHER_THREAD)
        return result


@contextmanager
def _other_threads(watch: Watch) -> Iterator[None]:
    """Enters `_Elsewhere`, and chooses the chip, in each thread that starts inside a block."""
    before = threading.getprofile()

    def enter(*event: Any) -> None:  # the first event of the thread
        sys.setprofile(before)
        hardware._selected.set(watch.chip)  # to the end of the thread
        _Elsewhere(watch).__enter__()

    threading.setprofile(enter)
    try:
        yield
    finally:
        threading.setprofile(before)  # type: ignore[arg-type]


class _Operators(private.TorchDispatchMode):
    """Counts operators of ATen; an operator of ComplexTensors counts as those on its parts."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch
        self._is_inside = False  # of an operator of a ComplexTensor, in the backward pass

    @contextmanager
    def again(self) -> Iterator[None]:
        """Enters the mode again for a block, where torch has set the mode aside."""
        if self in private.get_current_dispatch_mode_stack():
            yield
            return
        with self:
            yield

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs, watch = kwargs or {}, self.watch
        if watch.is_apart:
            return func(*args, **kwargs)
        if any(issubclass(each, ComplexTensor) for each in types):
            if watch.phase == FORWARD or self._is_inside:
                return NotImplemented  # so that torch asks the ComplexTensor, and then this again
            return self._differentiated(func, args, kwargs)
        if func.overloadpacket in _READING_OPERATORS and _PRINTING.isdisjoint(
            (here := watch.origin()).functions
        ):
            watch.note(watch.fallbacks, here, _READS)
        if func.namespace == "trnfft":  # what it calls is counted
            return _body_of(func)(*args, **kwargs)
        if not is_view(func) and func.overloadpacket not in _WITHOUT_WORK:
            watch.operators[watch.phase] += 1
        return func(*args, **kwargs)

    def _differentiated(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls an operator in a derivative, and where it refuses, calls it with native tensors."""
        watch = self.watch
        self._is_inside = True
        try:
            with self:
                return func(*args, **kwargs)
        except NotImplementedError as error:
            if written_by(func):
                raise
            watch.note(watch.refused, watch.origin(), str(error))
        finally:
            self._is_inside = False
        with watch.apart():
            native = private.tree_map_only(ComplexTensor, _native, (args, kwargs))
            return _with_split(func(*native[0], **native[1]))


def _body_of(func: Any) -> Callable[..., Any]:
    """Returns the body of an operator of this library, which torch skips on device meta."""
    found = private.maybe_get_opdef(func)
    return func if found is None else found._init_fn  # type: ignore[no-any-return]


def _name_of(func: Callable[..., Any]) -> str:
    """Returns the public name of a function of torch, such as `torch.special.erfinv`."""
    name = resolve_name(func) or getattr(func, "__name__", str(func))
    return name.removesuffix(".__get__").replace("torch.functional.", "torch.")


def _is_native(x: Any) -> bool:
    if not isinstance(x, torch.Tensor) or not x.is_complex():
        return False
    while private.is_functorch_wrapped_tensor(x):  # in the functions of torch.func
        x = private.get_unwrapped(x)
    return not isinstance(x, ComplexTensor)


def _native(z: ComplexTensor) -> torch.Tensor:
    real, imag = parts_of(z)
    return torch.complex(*(part.to(_computable(part.dtype)) for part in (real, imag)))


def _computable(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _with_split(result: Any) -> Any:
    """Returns the result with ComplexTensors in place of native complex tensors."""

    def split(x: torch.Tensor) -> torch.Tensor:
        return ComplexTensor.from_complex(x) if _is_native(x) else x

    return private.tree_map_only(torch.Tensor, split, result)
