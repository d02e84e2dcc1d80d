"""Watches a model while it runs: functions of torch above autograd, operators of ATen below it.

An operation that a ComplexTensor refuses is noted. Then it is computed with native complex tensors,
and its results become ComplexTensors again, so that one run finds all refused operations.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

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
from trnfft.model_check.sites import Origin, Site
from trnfft.patching import patch
from trnfft.planner import cost
from trnfft.planner.kinds import C2C, C2R, R2C
from trnfft.planner.plan import Recipe

aten = torch.ops.aten

MANY = 100  # operators of torch: a function that takes as many is noted
_TAG = "trnfft.model_check"  # the key of a node's Origin in the metadata of autograd
NAMES: dict[str, str] = {C2C: "fft", R2C: "rfft", C2R: "irfft"}  # of transforms, in the report
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


@dataclass(frozen=True)
class _Call:
    """A call of a function of torch, or of an operator of ATen."""

    function: Callable[..., object]
    arguments: tuple[object, ...]
    named: dict[str, object]

    def __call__(self) -> object:
        return self.function(*self.arguments, **self.named)

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors among the arguments, also in lists and dictionaries."""
        return _tensors((self.arguments, self.named))

    def with_native(self, native: Callable[[ComplexTensor], torch.Tensor]) -> _Call:
        """Returns the call with native complex tensors in place of ComplexTensors."""
        given = self.arguments, self.named
        arguments, named = private.tree_map_only(ComplexTensor, native, given)
        return _Call(self.function, arguments, named)


class Watch:
    """The launches and findings of a run so far. The replaced backends report to it.

    Attributes:
        phase: of the run, FORWARD or BACKWARD.
        launches: the number of each launch, whose own count is 1.
        refused, fallbacks: the number of each finding, likewise.
        operators: by phase, the number of torch's operators on the device, copies among them.
        copied_bytes: by phase, the bytes that copies read and write, which `contiguous`, `reshape`
            and the like make of tensors that have another layout.
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
        self.copied_bytes = {FORWARD: 0, BACKWARD: 0}
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
        with self._operators, patch.patch_torch(), self._functions, _other_threads(self):
            yield

    # As the replaced backends tell it

    def launched(self, recipe: Recipe, batch: int, kind: str) -> None:
        """Notes the launch of a kernel."""
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
        """Notes that no kernel computes a transform, and why."""
        self._last, _ = self._origin_of(kind)
        self.note(self.refused, self._last, str(error))

    def falls_back(self, kind: str, message: str) -> None:
        """Notes that something other than one kernel computes a transform."""
        self._last, _ = self._origin_of(kind)
        self.note(self.fallbacks, self._last, message)

    def on_the_host(self, name: str) -> AbstractContextManager[None]:
        """Notes a function that the host computes, and notes nothing more in a block."""
        here = self.origin()
        self.note(self.fallbacks, replace(here, name=here.name or name), _ON_THE_HOST)
        return self.apart()

    @contextmanager
    def on_the_device(self) -> Iterator[None]:
        """Counts the operators of torch in a block, also where torch has set the mode aside."""
        if self._operators in private.get_current_dispatch_mode_stack():
            yield
            return
        with self._operators:
            yield

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Notes nothing in a block, in which the functions of torch are torch's own."""
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
            node = private.current_autograd_node()
            if node is not None and _TAG in node.metadata:
                return cast("Origin", node.metadata[_TAG])
        origin = sites.origin(self.modules)
        return replace(origin, name=self.function or origin.name)

    def note(self, findings: dict[Finding, int], origin: Origin, message: str) -> None:
        """Adds a finding, or counts it again."""
        finding = Finding(self.phase, origin.site, origin.name, message, 1)
        self.events += 1
        findings[finding] = findings.get(finding, 0) + 1

    def tag(self, tensors: Sequence[torch.Tensor], origin: Origin | None = None) -> None:
        """Writes the origin of tensors into their nodes of autograd's graph that have none yet.

        The default is the origin of the last launch, as the modes do not see its nodes.
        """
        if not self.has_backward or self.phase == BACKWARD:
            return
        nodes: list[Any] = [x.grad_fn for x in tensors]
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
            try:
                found = cost.price(recipe, batch, self.chip, self.cores)
                price: cost.Price | None = found.without_timeline()
            except cost.CannotRun:
                price = None
            self._prices[recipe, batch] = price
        return self._prices[recipe, batch]


class _Mode(TorchFunctionMode):
    """A mode that sees the functions of torch which are called in a thread."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        return self.called(_Call(func, args, kwargs or {}))

    def called(self, call: _Call) -> object:
        """Calls the function, and notes what has to be noted."""
        raise NotImplementedError


class _Functions(_Mode):
    """Sees the functions of torch that the program or this library calls."""

    _has_first = False  # of the two parts that become an array

    def called(self, call: _Call) -> object:
        func, watch = call.function, self.watch
        caller = None if watch.is_apart else next(sites.frames(), None)
        # Some releases of torch compute derivatives with the mode, others without.
        is_engine = watch.phase == BACKWARD and caller is None
        if watch.is_apart or is_engine:
            return call()
        if caller is not None and sites.is_internal(caller):
            if func is torch.Tensor.numpy:
                self._part_as_array()
            if func in _MAKING_COMPLEX:  # these are native tensors, for the host
                if caller.f_code is _TO_COMPLEX and not watch.function:
                    here = Origin(watch.origin().site, "ComplexTensor.to_complex")
                    watch.note(watch.fallbacks, here, _IS_NATIVE)
                with private.DisableTorchFunction():
                    return call()
            return self._computed(call)
        before, watch.function = watch.function, watch.function or _name_of(func)
        try:
            return self._of_program(call)
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
        fallbacks = self.watch.fallbacks
        if not any((each.site, each.message) == (here.site, _READS) for each in fallbacks):
            self.watch.note(fallbacks, here, _MAKES_AN_ARRAY)

    def _of_program(self, call: _Call) -> object:
        """Calls a function for the program, and notes what the device cannot do."""
        watch, func = self.watch, call.function
        values = (*call.arguments, *call.named.values())
        is_to_host = func is torch.Tensor.to and any(
            isinstance(x, str) and x == "cpu" for x in values
        )
        if func in _READING or is_to_host:
            watch.note(watch.fallbacks, watch.origin(), _READS)
        if func in _MAKING_ARRAYS:
            self._note_array(watch.origin())
        operators, events = watch.operators[watch.phase], watch.events
        result = self._computed(call)
        given, made = call.tensors, _tensors(result)
        if not any(x.is_complex() for x in (*given, *made)):
            return result
        watch.complex_operations += 1
        count = watch.operators[watch.phase] - operators
        if count >= MANY and events == watch.events:
            watch.note(watch.fallbacks, watch.origin(), _MANY_OPERATORS.format(count=count))
        is_on_device = bool(given) or call.named.get("device") is not None
        if is_on_device and any(map(_is_native, made)) and not any(map(_is_native, given)):
            watch.note(watch.refused, watch.origin(), _NO_STORAGE)
            with watch.apart():
                result = _with_split(result)
        return result

    def _computed(self, call: _Call) -> object:
        """Calls a function, and where it refuses, calls it with native complex tensors."""
        watch = self.watch
        watch.tag(call.tensors)
        try:
            result = call()
        except Exception as error:
            result = self._instead(call, error)
        if watch.has_backward and watch.phase == FORWARD:
            watch.tag(_tensors(result), watch.origin())
        return result

    def _instead(self, call: _Call, error: Exception) -> object:
        """Calls a function with native tensors; raises the error where torch refuses these, too."""
        watch = self.watch
        split = [x for x in call.tensors if isinstance(x, ComplexTensor)]
        if not split and call.function not in patch._REPLACEMENTS:
            raise error
        with watch.apart():
            natives = {id(z): _native(z.clone()) for z in split}  # z may be written into below
            try:
                result = call.with_native(lambda z: natives[id(z)])()
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


class _Elsewhere(_Mode):
    """Notes complex numbers in a thread that the model starts, where the other modes are not."""

    def called(self, call: _Call) -> object:
        result = call()
        if any(x.is_complex() for x in (*call.tensors, *_tensors(result))):
            here = Origin(sites.origin(self.watch.modules).site, _name_of(call.function))
            self.watch.note(self.watch.refused, here, _OTHER_THREAD)
        return result


@contextmanager
def _other_threads(watch: Watch) -> Iterator[None]:
    """Enters `_Elsewhere`, and chooses the chip, in each thread that starts inside a block."""
    before = threading.getprofile()

    def enter(*event: object) -> None:  # the first event of the thread
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

    def __torch_dispatch__(
        self,
        func: private.OpOverload,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        call, watch = _Call(func, args, kwargs or {}), self.watch
        if watch.is_apart:
            return call()
        if any(issubclass(each, ComplexTensor) for each in types):
            if watch.phase == FORWARD or self._is_inside:
                return NotImplemented  # so that torch asks the ComplexTensor, and then this again
            return self._differentiated(func, call)
        if func.overloadpacket in _READING_OPERATORS and _PRINTING.isdisjoint(
            (here := watch.origin()).functions
        ):
            watch.note(watch.fallbacks, here, _READS)
        if func.namespace == "trnfft":  # what it calls is counted, and torch skips on device meta
            definition = private.maybe_get_opdef(func)
            return call() if definition is None else definition._init_fn(*args, **call.named)
        result = call()
        if not is_view(func):
            watch.operators[watch.phase] += func.overloadpacket not in _WITHOUT_WORK
        elif (copied := _copied_bytes(call, result)) > 0:
            watch.operators[watch.phase] += 1
            watch.copied_bytes[watch.phase] += copied
        return result

    def _differentiated(self, operator: private.OpOverload, call: _Call) -> object:
        """Calls an operator in a derivative, and where it refuses, calls it with native tensors."""
        watch = self.watch
        self._is_inside = True
        try:
            with self:
                return call()
        except NotImplementedError as error:
            if written_by(operator):
                raise
            watch.note(watch.refused, watch.origin(), str(error))
        finally:
            self._is_inside = False
        with watch.apart():
            return _with_split(call.with_native(_native)())


def _name_of(func: Callable[..., object]) -> str:
    """Returns the public name of a function of torch, such as `torch.special.erfinv`."""
    name = resolve_name(func) or getattr(func, "__name__", str(func))
    return name.removesuffix(".__get__").replace("torch.functional.", "torch.")


def _tensors(values: object) -> list[torch.Tensor]:
    return [x for x in private.tree_leaves(values) if isinstance(x, torch.Tensor)]


def _copied_bytes(call: _Call, result: object) -> int:
    """Returns the bytes that an operator reads and writes which makes a view where it can.

    `contiguous` and `reshape` copy a tensor of which no view has the layout.
    """
    if any(hasattr(x, "__tensor_flatten__") for x in call.tensors):  # which consist of others
        return 0
    given = {x.untyped_storage()._cdata for x in call.tensors}
    made = [x for x in _tensors(result) if x.untyped_storage()._cdata not in given]
    return sum(2 * x.numel() * x.element_size() for x in made)


def _is_native(x: torch.Tensor) -> bool:
    if not x.is_complex():
        return False
    while private.is_functorch_wrapped_tensor(x):  # in the functions of torch.func
        x = private.get_unwrapped(x)
    return not isinstance(x, ComplexTensor)


def _native(z: ComplexTensor) -> torch.Tensor:
    real, imag = parts_of(z)
    dtype = torch.float64 if real.dtype == torch.float64 else torch.float32  # of complex numbers
    return torch.complex(real.to(dtype), imag.to(dtype))


def _with_split(result: object) -> object:
    """Returns the result with ComplexTensors in place of native complex tensors."""

    def split(x: torch.Tensor) -> torch.Tensor:
        return ComplexTensor.from_complex(x) if _is_native(x) else x

    return private.tree_map_only(torch.Tensor, split, result)
