"""What ATen's operators do on ComplexTensors: a table, operator by operator, below autograd.

An implementation gets the arguments of its operator, calls real operators on the parts, and makes
ComplexTensors of their results. Its derivative is torch's own, whose formula calls operators of
the table again. The files of this folder register theirs, by kind, with `implements`; what writes
in place or into `out=` follows from the operator that does not, and what has no entry is
decomposed, if torch knows into what.

Names of arguments are those of ATen's schemas.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, NamedTuple, NoReturn

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_map_only

from trnfft.complex.collectives import on_each_part
from trnfft.complex.tensor import (
    ComplexTensor,
    dtype_of_parts,
    is_conjugate,
    is_in_graph,
    keep_from_compiler,
    of_parts,
    with_conjugation,
)

aten = torch.ops.aten
Implementation = Callable[..., Any]

TABLE: dict[OpOverload, Implementation] = {}

# Of operators that have no entry of their own, as they are met: at most as many as torch has.
_DERIVED: dict[OpOverload, Implementation] = {}

_FUNCTIONALIZE = torch._C.DispatchKeySet(torch._C.DispatchKey.Functionalize)
_RECORDING = torch._C.DispatchKeySet(torch._C.DispatchKey.PreDispatch)
_KEYS_OF_EXPORT: ContextVar[Any] = ContextVar("keys_of_export", default=None)
# The operators into `out` that are at work.
_BEGUN: ContextVar[frozenset[OpOverload]] = ContextVar("begun", default=frozenset())

# Arguments of these names say which elements are meant. The others are numbers, and have parts.
_CHOOSING = {"condition", "index", "indices", "mask", "repeats"}


def implements(*overloads: OpOverload) -> Callable[[Implementation], Implementation]:
    """Decorator: what these operators do on ComplexTensors."""

    def register(implementation: Implementation) -> Implementation:
        TABLE.update((overload, implementation) for overload in overloads)
        return implementation

    return register


def overloads_of(names: str) -> Iterable[OpOverload]:
    """All functional overloads of ATen's operators of these names."""
    for name in names.split():
        packet = getattr(aten, name)
        for overload in packet.overloads():
            if overload != "out" and not overload.endswith("_out"):
                yield getattr(packet, overload)


# Parts


class Parts(NamedTuple):
    """Real and imaginary part: tensors of one shape and dtype, or numbers.

    What is written in terms of them serves below autograd, of the parts of a ComplexTensor, and
    above it, of parts that have a derivative.
    """

    real: Any
    imag: Any


def split(value: Any) -> tuple[Any, Any]:
    """Real and imaginary part of a number or a tensor; None for the latter of real ones."""
    if isinstance(value, Parts):
        return value
    if isinstance(value, ComplexTensor):
        return value._real, -value._imag if is_conjugate(value) else value._imag
    if isinstance(value, torch.Tensor):
        # What is conjugated or negated lazily is so above this place, and would not be here.
        if value.is_conj():
            value = value._conj()
            return value.real, -value.imag
        value = -value._neg_view() if value.is_neg() else value
        return (value.real, value.imag) if value.is_complex() else (value, None)
    if isinstance(value, complex):
        return value.real, value.imag
    return value, None


def both(value: Any) -> Parts:
    """Real and imaginary part of a number or a tensor; zeros for that of a real one."""
    real, imag = split(value)
    if imag is None:
        imag = torch.zeros_like(real) if isinstance(real, torch.Tensor) else 0
    return Parts(real, imag)


def each_part(overload: OpOverload) -> Implementation:
    """The operator of the real parts of all arguments, and of the imaginary parts."""
    names = [argument.name for argument in overload._schema.arguments]

    def implementation(*args: Any, **kwargs: Any) -> Any:
        is_alone = not any(isinstance(x, (torch.Tensor, list)) for x in args[1:])
        if is_alone and isinstance(args[0], ComplexTensor) and not kwargs:
            z, *rest = args
            return joined(overload(z._real, *rest), overload(z._imag, *rest))
        given = dict(zip(names, args, strict=False)) | kwargs
        check_complex(given.get("dtype"))
        real, imag = {}, {}
        for name, value in given.items():
            real[name], imag[name] = (value, value) if name in _CHOOSING else _parts(value)
        return joined(_called(overload, real), _called(overload, imag))

    return implementation


def check_complex(dtype: Any) -> None:
    """TypeError for a real dtype of a complex result, of which torch would drop a part."""
    if isinstance(dtype, torch.dtype) and not dtype.is_complex:
        raise TypeError(
            f"argument 'dtype' is {dtype}, allowed are complex dtypes for a ComplexTensor; take "
            f"its part first, with .real or .imag"
        )


def _called(overload: OpOverload, given: dict[str, Any]) -> Any:
    """The operator with arguments by name, of which some are positional in Python."""
    positional = [a.name for a in overload._schema.arguments if not a.kwarg_only]
    args = []
    for name in positional:
        if name not in given:
            break
        args.append(given.pop(name))
    return overload(*args, **given)


def _parts(value: Any) -> tuple[Any, Any]:
    """Those of an argument: of tensors, lists of such, complex numbers; the rest twice."""
    if isinstance(value, (list, tuple)) and any(isinstance(x, torch.Tensor) for x in value):
        real, imag = zip(*map(both, value), strict=True)
        return list(real), list(imag)
    if isinstance(value, torch.Tensor):
        return both(value)
    value = dtype_of_parts(value)
    return (value.real, value.imag) if isinstance(value, complex) else (value, value)


def joined(real: Any, imag: Any) -> Any:
    """A ComplexTensor, or a list of them."""
    if isinstance(real, torch.Tensor):
        return of_parts(real, imag)
    return type(real)(map(joined, real, imag))


# Lookup


def dispatch(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `ComplexTensor.__torch_dispatch__` returns."""
    if _has_conjugate(args) or kwargs and _has_conjugate(kwargs.values()):
        if is_view(overload):
            return _view_of_conjugate(overload, args, kwargs)
        args, kwargs = _resolved(overload, args, kwargs)
    implementation = TABLE.get(overload) or _DERIVED.get(overload)
    if implementation is None:
        implementation = _DERIVED[overload] = _derived(overload)
    if (keys := _KEYS_OF_EXPORT.get()) is not None:
        with torch._C._ForceDispatchKeyGuard(*keys):
            result = _with_twins(implementation, args, kwargs)
    elif (keys := _keys_of_xla()) is not None:
        with torch._C._ForceDispatchKeyGuard(*keys):
            result = implementation(*args, **kwargs)
    else:
        result = implementation(*args, **kwargs)
    return result


def _has_conjugate(values: Iterable[Any]) -> bool:
    """Whether a tensor among these is conjugated lazily."""
    for x in values:
        if isinstance(x, ComplexTensor):
            if is_conjugate(x):
                return True
        elif isinstance(x, (list, tuple)) and _has_conjugate(x):
            return True
    return False


def is_view(overload: OpOverload) -> bool:
    """Whether the results share memory with an argument."""
    return any(r.alias_info and not r.alias_info.is_write for r in overload._schema.returns)


def _view_of_conjugate(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Views of a tensor that is conjugated lazily are, too."""
    if overload == aten.view_as_real.default:
        raise RuntimeError(
            "argument 'input' is conjugated lazily, allowed are tensors with numbers of their own; "
            "write torch.view_as_real(z.resolve_conj())"
        )
    args, kwargs = tree_map_only(
        ComplexTensor, lambda z: of_parts(z._real, z._imag), (args, kwargs)
    )
    results = dispatch(overload, args, kwargs)
    return tree_map_only(ComplexTensor, lambda z: with_conjugation(z, not is_conjugate(z)), results)


def _resolved(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The arguments without lazy conjugation, but those that the operator writes into."""
    names = [a.name for a in overload._schema.arguments]
    written = written_by(overload)
    resolve = functools.partial(tree_map_only, ComplexTensor, lambda z: of_parts(*split(z)))
    args = tuple(x if name in written else resolve(x) for name, x in zip(names, args, strict=False))
    return args, {key: x if key in written else resolve(x) for key, x in kwargs.items()}


def _keys_of_xla() -> Any:
    """Keys with which PyTorch-XLA's tensors have views, and may be written; None without it.

    Both are made by a key above that of this table, which torch leaves out below it.
    """
    if "torch_xla" not in sys.modules:
        return None
    excluded = torch._C._dispatch_tls_local_exclude_set() - _FUNCTIONALIZE
    return torch._C._dispatch_tls_local_include_set(), excluded


def exported(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The function for torch.export, which records operators before they come to this table.

    It cannot record those of ComplexTensors; it is to record the real ones that they are made of.
    """
    from trnfft.complex import in_graph  # here: it loads torch's compiler

    in_graph.note_parts(args, kwargs)
    keys = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    token = _KEYS_OF_EXPORT.set(_KEYS_OF_EXPORT.get() or keys)
    try:
        with torch._C._ExcludeDispatchKeyGuard(_RECORDING):
            results = function(*args, **kwargs)
    finally:
        _KEYS_OF_EXPORT.reset(token)
    in_graph.note_joined(results)
    return results


def _with_twins(
    implementation: Implementation, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The implementation of others with the same parts, which a program to export knows nothing of.

    Of those it knows it would record the operators that the implementation calls; these are to come
    to `exported`, by `__torch_function__`.
    """
    originals = {}

    def twin(z: ComplexTensor) -> ComplexTensor:
        made = with_conjugation(of_parts(z._real, z._imag), is_conjugate(z))
        originals[id(made)] = made, z
        return made

    args, kwargs = tree_map_only(ComplexTensor, twin, (args, kwargs))
    with torch._C._EnableTorchFunction():
        results = implementation(*args, **kwargs)
    return tree_map_only(ComplexTensor, lambda z: originals.get(id(z), (z, z))[1], results)


def _derived(overload: OpOverload) -> Implementation:
    """An implementation by other entries of the table, or by torch's decomposition."""
    if torch.Tag.inplace_view in overload.tags:
        return functools.partial(_changing_shape, overload)
    if overload.namespace == "c10d":
        return lambda *args, **kwargs: on_each_part(overload, ComplexTensor, args, kwargs)
    if overload.namespace in ("_c10d_functional", "_c10d_functional_autograd", "_dtensor"):
        return each_part(overload)
    if overload.overloadpacket.__name__.startswith("_foreach_"):
        return functools.partial(each_of_lists, overload)
    functional = _functional_of(overload)
    if functional is not None:
        return _writing(overload, functional)
    if overload.namespace == "prims":  # of torch's decompositions, named as ATen's
        packet = getattr(aten, overload.overloadpacket.__name__, None)
        same = (getattr(packet, name, None) for name in ("Tensor", "default"))
        return next((TABLE[x] for x in same if x in TABLE), functools.partial(_refuse, overload))
    if torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), "CompositeImplicitAutograd"):
        return overload.decompose
    decomposition = _torch_decompositions().get(overload)
    if decomposition is not None:
        return functools.partial(_decomposed, overload, decomposition)
    return functools.partial(_refuse, overload)


@functools.cache
def _torch_decompositions() -> dict[Any, Implementation]:
    from torch._decomp import decomposition_table  # here: it loads many modules

    return dict(decomposition_table)


def _decomposed(
    overload: OpOverload, decomposition: Implementation, *args: Any, **kwargs: Any
) -> Any:
    """torch's decomposition, with an error that names the operator rather than a part of it."""
    try:
        return decomposition(*args, **kwargs)
    except NotImplementedError:
        return _refuse(overload)


def _refuse(overload: OpOverload, *args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError(
        f"{overload} has no implementation for ComplexTensor, allowed are the operators of "
        f"docs/complex_operators.md; call it on a native tensor: x.cpu().to_complex()"
    )


def written_by(overload: OpOverload) -> list[str]:
    """The names of the arguments that an operator writes into."""
    arguments = overload._schema.arguments
    return [a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write]


def _functional_of(overload: OpOverload) -> OpOverload | None:
    """The operator that returns what this one writes into its first argument, or into `out`."""
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


def _writing(overload: OpOverload, functional: OpOverload) -> Implementation:
    """The operator by the functional one, whose results are written into the arguments."""
    outs = written_by(overload)

    def in_place(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return write(self, functional(self, *args, **kwargs))

    def into_out(*args: Any, **kwargs: Any) -> Any:
        if overload in _BEGUN.get():  # torch has the functional one by this one, as sspaddmm
            _refuse(overload)
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
def copy_(self: torch.Tensor, src: Any, non_blocking: bool = False) -> torch.Tensor:
    return write(self, src)


@implements(aten.copy.default)
def copy(self: torch.Tensor, src: Any, non_blocking: bool = False) -> ComplexTensor:
    parts = zip(both(self), both(src), strict=True)
    return of_parts(*(aten.copy(part, value, non_blocking) for part, value in parts))


# Operators on lists, and those on one of them that take the same arguments, where names differ.
_OF_ONE = {
    "norm": "linalg_vector_norm",
    "maximum": "clamp_min",
    "maximum_": "clamp_min_",
    "minimum": "clamp_max",
    "minimum_": "clamp_max_",
}


def each_of_lists(overload: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """An operator on lists, such as _foreach_add, one by one."""
    name = overload.overloadpacket.__name__.removeprefix("_foreach_")
    if name.startswith("addc") and len(args) == 4:  # a factor, which has to be named there
        *args, value = args  # type: ignore[assignment]
        kwargs = {"value": value}
    function = getattr(aten, _OF_ONE.get(name, name), None)
    if function is None:
        _refuse(overload)
    results = [
        function(
            *(x[i] if isinstance(x, (list, tuple)) else x for x in args),
            **{key: x[i] if isinstance(x, (list, tuple)) else x for key, x in kwargs.items()},
        )
        for i in range(len(args[0]))
    ]
    if not name.endswith("_"):
        return results
    torch.autograd.graph.increment_version(args[0])  # which torch leaves to what it calls here
    return None


def _changing_shape(
    overload: OpOverload, self: ComplexTensor, *args: Any, **kwargs: Any
) -> ComplexTensor:
    """An operator such as squeeze_, which torch's products use on results of theirs."""
    if overload.overloadpacket in (aten.resize_, aten.resize_as_, aten.set_):
        _refuse(overload)
    self._real, self._imag = (aten.alias(part) for part in (self._real, self._imag))
    overload(self._real, *args, **kwargs)  # tensors of their own, as views have those before
    overload(self._imag, *args, **kwargs)
    with torch._C._DisableTorchDispatch():
        overload(self, *args, **kwargs)
    return self


def write(target: torch.Tensor, source: Any) -> torch.Tensor:
    """Write a tensor or number into a tensor, real, native complex or a ComplexTensor."""
    if isinstance(target, ComplexTensor):
        real, imag = both(source)
        if is_conjugate(target):
            _refuse_if_traced(target)
            imag = -imag
        for part, value in ((target._real, real), (target._imag, imag)):
            part.copy_(value) if isinstance(value, torch.Tensor) else part.fill_(value)
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
    """What a graph writes into its inputs torch copies there without a look at conjugation."""
    if is_in_graph(target._real):
        raise RuntimeError(
            "a function that is compiled writes into a tensor that is conjugated lazily, allowed "
            "are writes into others; write into z before z.conj(), or into z.conj().resolve_conj()"
        )


for _function in (dispatch, _has_conjugate, _resolved, _view_of_conjugate):
    keep_from_compiler(_function.__code__)
