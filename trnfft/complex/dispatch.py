"""A table of the implementations of ATen's operators for ComplexTensors, below autograd.

An implementation gets the arguments of its operator, calls real operators on the parts, and makes
ComplexTensors from the results. Its derivative is torch's own, whose formula calls operators of the
table again. The files of this folder register their implementations, by kind, with `implements`. An
operator that writes in place or into `out=` is derived from the operator that does not write. An
operator without an entry is decomposed, if torch has a decomposition.

Arguments have the names of ATen's schemas.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, NamedTuple, NoReturn

import torch

from trnfft.base import torch_private as private
from trnfft.complex import table
from trnfft.complex.collectives import on_each_part
from trnfft.complex.given_parts import dtype_of_parts
from trnfft.complex.graphs import is_in_graph, is_view
from trnfft.complex.parts import (
    is_conjugate,
    is_vectorized,
    naming_vectorize,
    of_parts,
    stored_parts,
    with_conjugation,
)
from trnfft.complex.refusals import is_for_real_numbers, refusal
from trnfft.complex.table import Arguments, Function, NamedArguments
from trnfft.complex.tensor import ComplexTensor

aten = torch.ops.aten

TABLE: dict[private.OpOverload, Function] = {}

# Implementations of operators without an entry, added as they are met: at most as many as torch
# has.
_DERIVED: dict[private.OpOverload, Function] = {}

_FUNCTIONALIZE = private.DispatchKeySet(private.DispatchKey.Functionalize)
_OF_BATCHES = private.DispatchKeySet(private.dispatch_key_parse("Batched"))
_RECORDING = private.DispatchKeySet(private.DispatchKey.PreDispatch)
# The keys that are included and those that are excluded.
_Keys = tuple[private.DispatchKeySet, private.DispatchKeySet]
_KEYS_OF_EXPORT: ContextVar[_Keys | None] = ContextVar("keys_of_export", default=None)
# The operators into `out` that are running.
_BEGUN: ContextVar[frozenset[private.OpOverload]] = ContextVar("begun", default=frozenset())

# Arguments of these names choose elements. All other arguments are numbers, and have parts.
_CHOOSING = {"condition", "index", "indices", "mask", "repeats"}


def implements(*overloads: private.OpOverload) -> Callable[[Function], Function]:
    """Decorates the implementation of these operators for ComplexTensors."""

    def register(implementation: Function) -> Function:
        TABLE.update((overload, implementation) for overload in overloads)
        return implementation

    return register


def overloads_of(names: str) -> Iterable[private.OpOverload]:
    """Yields all functional overloads of ATen's operators of these names."""
    for name in names.split():
        packet = getattr(aten, name)
        for overload in packet.overloads():
            if overload != "out" and not overload.endswith("_out"):
                yield getattr(packet, overload)


# Parts


class Parts(NamedTuple):
    """Real and imaginary part: tensors of one shape and dtype, or numbers.

    Functions of Parts serve both below autograd, for the parts of a ComplexTensor, and above it,
    for parts that have a derivative.
    """

    real: Any
    imag: Any


Argument = torch.Tensor | Parts | complex


def split(value: object) -> tuple[Any, Any]:
    """Returns real and imaginary part of a number or a tensor; None as the latter if real."""
    if isinstance(value, Parts):
        return value
    if isinstance(value, ComplexTensor):
        return stored_parts(value)
    if isinstance(value, torch.Tensor):
        if private.is_zerotensor(
            value
        ):  # a tangent without memory, which operators here would read
            value = value.new_zeros(value.shape)
        # Lazy conjugation and negation is visible above this place, and would be lost here.
        is_conjugated = value.is_conj()  # a tensor can be negated, too
        value = private.conj_view(value) if is_conjugated else value
        value = -private.neg_view(value) if value.is_neg() else value
        if not value.is_complex():
            return value, None
        return value.real, -value.imag if is_conjugated else value.imag
    if isinstance(value, complex):
        return value.real, value.imag
    return value, None


def both(value: object) -> Parts:
    """Returns real and imaginary part of a number or a tensor; zeros as the latter if real."""
    real, imag = split(value)
    if imag is None:
        imag = torch.zeros_like(real) if isinstance(real, torch.Tensor) else 0
    return Parts(real, imag)


def on_both_parts(overload: private.OpOverload) -> Function:
    """Returns an implementation that calls the operator for the real and the imaginary parts."""
    names = [argument.name for argument in overload._schema.arguments]

    def implementation(*args: object, **kwargs: object) -> Any:
        is_alone = not any(isinstance(x, (torch.Tensor, list)) for x in args[1:])
        if is_alone and isinstance(args[0], ComplexTensor) and not kwargs:
            z, rest = args[0], args[1:]
            return joined(overload(z._real, *rest), overload(z._imag, *rest))
        given = dict(zip(names, args, strict=False)) | kwargs
        check_complex(given.get("dtype"))
        real, imag = {}, {}
        for name, value in given.items():
            real[name], imag[name] = (value, value) if name in _CHOOSING else _parts(value)
        return joined(_called(overload, real), _called(overload, imag))

    return implementation


def check_complex(dtype: object) -> None:
    """Checks the dtype of a complex result; torch would drop a part for a real dtype.

    Raises:
        TypeError: the dtype is real.
    """
    if isinstance(dtype, torch.dtype) and not dtype.is_complex:
        raise TypeError(
            f"argument 'dtype' is {dtype}, allowed are complex dtypes for a ComplexTensor; take "
            f"its part first, with .real or .imag"
        )


def _called(overload: private.OpOverload, given: dict[str, object]) -> Any:
    """Calls the operator with arguments by name, some of which are positional in Python."""
    positional = [a.name for a in overload._schema.arguments if not a.kwarg_only]
    args = []
    for name in positional:
        if name not in given:
            break
        args.append(given.pop(name))
    return overload(*args, **given)


def _parts(value: object) -> tuple[Any, Any]:
    """Returns both parts of tensors, lists of tensors, and complex numbers; other values twice."""
    if isinstance(value, (list, tuple)) and any(isinstance(x, torch.Tensor) for x in value):
        real, imag = zip(*map(both, value), strict=True)
        return list(real), list(imag)
    if isinstance(value, torch.Tensor):
        return both(value)
    value = dtype_of_parts(value)
    return (value.real, value.imag) if isinstance(value, complex) else (value, value)


def joined(real: Any, imag: Any) -> Any:
    """Returns a ComplexTensor, or a list of them."""
    if isinstance(real, torch.Tensor):
        return of_parts(real, imag)
    return type(real)(map(joined, real, imag))


# Lookup


def dispatch(overload: private.OpOverload, args: Arguments, kwargs: NamedArguments) -> Any:
    """Returns the result of `ComplexTensor.__torch_dispatch__`."""
    if (mode := inference_of_view(overload, args)) is not None:
        with torch.inference_mode(mode):
            return dispatch(overload, args, kwargs)
    if _has_conjugate(args) or kwargs and _has_conjugate(kwargs.values()):
        if is_view(overload):
            return _view_of_conjugate(overload, args, kwargs)
        args, kwargs = _resolved(overload, args, kwargs)
    implementation = TABLE.get(overload) or _DERIVED.get(overload)
    if implementation is None:
        implementation = _derived(overload)
        if implementation is None:  # not kept, as a decomposition may be registered later
            raise refusal(overload, args, kwargs)
        _DERIVED[overload] = implementation
    if (keys := _KEYS_OF_EXPORT.get()) is not None:
        with private.ForceDispatchKeyGuard(*keys):
            result = _with_twins(implementation, args, kwargs)
    elif (keys := keys_of_batches()) is not None:
        _refuse_to_follow(overload, args)
        with private.ForceDispatchKeyGuard(*keys), naming_vectorize(overload):
            result = implementation(*args, **kwargs)
    elif (keys := _keys_of_xla()) is not None:
        with private.ForceDispatchKeyGuard(*keys):
            result = implementation(*args, **kwargs)
    elif private.is_torch_function_enabled():
        # In a backward pass. Functions for use above autograd make views that are negated lazily,
        # which torch leaves out here.
        with private.DisableTorchFunctionSubclass():
            result = implementation(*args, **kwargs)
    else:
        result = implementation(*args, **kwargs)
    return result


def _has_conjugate(values: Iterable[object]) -> bool:
    """Returns whether a tensor among the values is conjugated lazily."""
    for x in values:
        if isinstance(x, ComplexTensor):
            if is_conjugate(x):
                return True
        elif isinstance(x, (list, tuple)) and _has_conjugate(x):
            return True
    return False


def inference_of_view(overload: private.OpOverload, args: Arguments) -> bool | None:
    """Returns the inference mode in which a view has to be made, or None for the present one.

    A view of a tensor is an inference tensor if the tensor is one, whatever the mode is.
    """
    if not args or not isinstance(args[0], torch.Tensor):
        return None
    is_inference = args[0].is_inference()
    if is_inference == torch.is_inference_mode_enabled() or not is_view(overload):
        return None
    return is_inference


def _view_of_conjugate(
    overload: private.OpOverload, args: Arguments, kwargs: NamedArguments
) -> Any:
    """Returns the views of a tensor that is conjugated lazily, which are conjugated lazily, too."""
    if overload == aten.view_as_real.default:
        raise RuntimeError(
            "argument 'input' is conjugated lazily, allowed are tensors with numbers of their own; "
            "write torch.view_as_real(z.resolve_conj())"
        )
    args, kwargs = private.tree_map_only(
        ComplexTensor, lambda z: of_parts(z._real, z._imag), (args, kwargs)
    )
    results = dispatch(overload, args, kwargs)
    return private.tree_map_only(
        ComplexTensor, lambda z: with_conjugation(z, not is_conjugate(z)), results
    )


def _resolved(overload: private.OpOverload, args: Arguments, kwargs: NamedArguments) -> Any:
    """Returns the arguments without lazy conjugation, except those that the operator writes."""
    names = [a.name for a in overload._schema.arguments]
    written = written_by(overload)
    resolve = functools.partial(private.tree_map_only, ComplexTensor, lambda z: of_parts(*split(z)))
    keys = keys_of_batches()
    with contextlib.nullcontext() if keys is None else private.ForceDispatchKeyGuard(*keys):
        args = tuple(
            x if name in written else resolve(x) for name, x in zip(names, args, strict=False)
        )
        return args, {key: x if key in written else resolve(x) for key, x in kwargs.items()}


def keys_of_batches() -> _Keys | None:
    """Returns the keys with which operators take batched parts, or None where none are batched.

    torch.autograd.functional batches parts where it vectorizes. The key for them is above this
    table's key, and torch leaves it out below.
    """
    return _keys_with(_OF_BATCHES) if is_vectorized() else None


def _refuse_to_follow(overload: private.OpOverload, args: Arguments) -> None:
    """Refuses second derivatives of what torch.autograd.functional vectorizes.

    torch follows the parts inside their batch, and a ComplexTensor outside.
    """
    if private.is_forward_mode() or not torch.is_grad_enabled():
        return
    if any(isinstance(x, ComplexTensor) and x.requires_grad for x in private.tree_leaves(args)):
        raise NotImplementedError(
            f"arguments 'vectorize' and 'create_graph' of torch.autograd.functional are True, "
            f"allowed is one of them for {overload} of these ComplexTensors; or use "
            f"torch.func.jacrev inside torch.func.grad"
        )


def _keys_of_xla() -> _Keys | None:
    # A key above this table's key lets PyTorch-XLA's tensors have views and be written, and torch
    # leaves it out below.
    return _keys_with(_FUNCTIONALIZE) if "torch_xla" in sys.modules else None


def _keys_with(needed: private.DispatchKeySet) -> _Keys:
    excluded = private.dispatch_tls_local_exclude_set() - needed
    return private.dispatch_tls_local_include_set(), excluded


def exported(function: Function, args: Arguments, kwargs: NamedArguments) -> Any:
    """Calls the function for torch.export, which records operators before they come to this table.

    It cannot record operators of ComplexTensors. It is made to record the real operators of which
    they consist.
    """
    in_graph = _in_graph()
    in_graph.note_parts(args, kwargs)
    keys = private.dispatch_tls_local_include_set(), private.dispatch_tls_local_exclude_set()
    token = _KEYS_OF_EXPORT.set(_KEYS_OF_EXPORT.get() or keys)
    try:
        with private.ExcludeDispatchKeyGuard(_RECORDING):
            results = function(*args, **kwargs)
    finally:
        _KEYS_OF_EXPORT.reset(token)
    in_graph.note_joined(results)
    return results


def _in_graph() -> Any:
    from trnfft.complex import in_graph  # here: it loads torch's compiler

    return in_graph


def _with_twins(implementation: Function, args: Arguments, kwargs: NamedArguments) -> Any:
    """Calls the implementation with copies of the ComplexTensors that have the same parts.

    A program to export would record the operators that the implementation calls on tensors that it
    knows. It does not know the copies, so that these operators come to `exported`, by
    `__torch_function__`.
    """
    originals = {}

    def twin(z: ComplexTensor) -> ComplexTensor:
        made = with_conjugation(of_parts(z._real, z._imag), is_conjugate(z))
        originals[id(made)] = made, z
        return made

    args, kwargs = private.tree_map_only(ComplexTensor, twin, (args, kwargs))
    with private.EnableTorchFunction():
        results = implementation(*args, **kwargs)
    return private.tree_map_only(ComplexTensor, lambda z: originals.get(id(z), (z, z))[1], results)


def _derived(overload: private.OpOverload) -> Function | None:
    """Returns an implementation by other entries of the table, or by a decomposition, or None."""
    if torch.Tag.inplace_view in overload.tags:
        return functools.partial(_changing_shape, overload)
    if overload.namespace == "c10d":
        return lambda *args, **kwargs: on_each_part(overload, ComplexTensor, args, kwargs)
    if overload.namespace in ("_c10d_functional", "_c10d_functional_autograd", "_dtensor"):
        return on_both_parts(overload)
    if overload.overloadpacket.__name__.startswith("_foreach_"):
        return functools.partial(each_of_lists, overload)
    functional = _functional_of(overload)
    if functional is not None:
        return _writing(overload, functional)
    if overload.namespace == "prims":  # operators of torch's decompositions, named like ATen's
        packet = getattr(aten, overload.overloadpacket.__name__, None)
        same = (getattr(packet, name, None) for name in ("Tensor", "default"))
        return next((TABLE[x] for x in same if x in TABLE), None)
    if private.dispatch_has_kernel_for_dispatch_key(overload.name(), "CompositeImplicitAutograd"):
        return overload.decompose
    decomposition = private.decomposition_table().get(overload)
    return decomposition and functools.partial(_decomposed, overload, decomposition)


def _decomposed(
    overload: private.OpOverload, decomposition: Function, *args: object, **kwargs: object
) -> Any:
    """Calls torch's decomposition; an error names the operator rather than a part of it."""
    try:
        result = decomposition(*args, **kwargs)
    except NotImplementedError:
        _refuse(overload, *args, **kwargs)
    except Exception:  # such as a TypeError of a comparison that complex numbers do not have
        if not is_for_real_numbers(overload, args, kwargs):
            raise
        _refuse(overload, *args, **kwargs)
    if result is NotImplemented:
        _refuse(overload, *args, **kwargs)
    return result


def _refuse(overload: private.OpOverload, *args: object, **kwargs: object) -> NoReturn:
    raise refusal(overload, args, kwargs) from None


def written_by(overload: private.OpOverload) -> list[str]:
    """Returns the names of the arguments into which an operator writes."""
    arguments = overload._schema.arguments
    return [a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write]


def _functional_of(overload: private.OpOverload) -> private.OpOverload | None:
    """Returns the operator that returns what this one writes into its first argument or `out`."""
    schema, written = overload._schema, written_by(overload)
    if not written:
        return None
    name = overload.overloadpacket.__name__
    is_in_place = written == ["self"]
    packet = getattr(aten, name.removesuffix("_") if is_in_place else name, None)
    if packet is None:
        return None
    kept = [a for a in schema.arguments if is_in_place or a.name not in written]
    wanted = [(a.name, str(a.type)) for a in kept]
    for other in packet.overloads():
        candidate = getattr(packet, other)
        arguments = [(a.name, str(a.type)) for a in candidate._schema.arguments]
        if arguments == wanted and not written_by(candidate):
            return candidate
    return None


def _writing(overload: private.OpOverload, functional: private.OpOverload) -> Function:
    """Returns an implementation by the functional operator, whose results are written."""
    outs = written_by(overload)

    def in_place(self: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        return write(self, functional(self, *args, **kwargs))

    def into_out(*args: object, **kwargs: Any) -> Any:
        # torch defines the functional operator by this one, as for sspaddmm
        if overload in _BEGUN.get():
            _refuse(overload, *args, **kwargs)
        targets = [kwargs.pop(name) for name in outs]
        token = _BEGUN.set(_BEGUN.get() | {overload})
        try:
            results = functional(*args, **kwargs)
        finally:
            _BEGUN.reset(token)
        results = results if isinstance(results, (tuple, list)) else (results,)
        for target, result in zip(targets, results, strict=True):
            if target.shape != result.shape:
                target.resize_(result.shape)
            write(target, result)
        return targets[0] if len(targets) == 1 else tuple(targets)

    return in_place if outs == ["self"] else into_out


@implements(aten.copy_.default)
def copy_(self: torch.Tensor, src: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    return write(self, src)


@implements(aten.copy.default)
def copy(self: torch.Tensor, src: object, non_blocking: bool = False) -> ComplexTensor:
    parts = zip(both(self), both(src), strict=True)
    return of_parts(*(aten.copy(part, value, non_blocking) for part, value in parts))


# Operators on lists, and operators on one tensor with the same arguments, where their names differ.
_OF_ONE = {
    "norm": "linalg_vector_norm",
    "maximum": "clamp_min",
    "maximum_": "clamp_min_",
    "minimum": "clamp_max",
    "minimum_": "clamp_max_",
}


def each_of_lists(overload: private.OpOverload, *args: Any, **kwargs: object) -> Any:
    """Calls an operator on lists, such as _foreach_add, for each of their items."""
    name = overload.overloadpacket.__name__.removeprefix("_foreach_")
    if name.startswith("addc") and len(args) == 4:  # a factor, which must be passed by name
        kwargs = {"value": args[3]}
        args = args[:3]
    function = getattr(aten, _OF_ONE.get(name, name), None)
    if function is None:
        _refuse(overload, *args, **kwargs)
    results = [
        function(
            *(x[i] if isinstance(x, (list, tuple)) else x for x in args),
            **{key: x[i] if isinstance(x, (list, tuple)) else x for key, x in kwargs.items()},
        )
        for i in range(len(args[0]))
    ]
    if not name.endswith("_"):
        return results
    # torch leaves this to the operators that are called here
    torch.autograd.graph.increment_version(args[0])
    return None


def _changing_shape(
    overload: private.OpOverload, self: ComplexTensor, *args: object, **kwargs: object
) -> ComplexTensor:
    """Calls an operator such as squeeze_, which torch's products use on their own results."""
    if overload.overloadpacket in (aten.resize_, aten.resize_as_, aten.set_):
        _refuse(overload, self, *args, **kwargs)
    self._real, self._imag = (aten.alias(part) for part in (self._real, self._imag))
    # tensors of their own, because earlier views share the old ones
    overload(self._real, *args, **kwargs)
    overload(self._imag, *args, **kwargs)
    with private.DisableTorchDispatch():
        overload(self, *args, **kwargs)
    return self


def write(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Writes a tensor into a tensor: real, native complex or a ComplexTensor."""
    if isinstance(target, ComplexTensor):
        if private.is_forward_mode():  # autograd marks new tangents of lazy tensors itself
            target._is_lazy = target.is_conj()
        real, imag = both(source)
        if is_conjugate(target):
            _refuse_if_traced(target)
            imag = -imag
        for part, value in ((target._real, real), (target._imag, imag)):
            part.copy_(value)
        return target
    if not target.is_complex():
        if isinstance(source, ComplexTensor):
            raise RuntimeError(
                f"argument 'out' has dtype {target.dtype}, allowed is {source.dtype} for a complex "
                f"result; take its part with .real or .imag"
            )
        return target.copy_(source)
    return target.copy_(source.to_complex() if isinstance(source, ComplexTensor) else source)


def _refuse_if_traced(target: ComplexTensor) -> None:
    """Refuses writes into a lazily conjugated input of a graph.

    torch copies what a graph writes into its inputs without considering the conjugation.
    """
    if is_in_graph(target._real):
        raise RuntimeError(
            "a compiled function writes into a tensor that is conjugated lazily, allowed are "
            "writes into other tensors; write into z before z.conj(), or into "
            "z.conj().resolve_conj()"
        )


table.dispatch, table.exported, table.in_graph = dispatch, exported, _in_graph
for _function in (dispatch, _has_conjugate, _resolved, _view_of_conjugate):
    private.keep_from_compiler(_function)
