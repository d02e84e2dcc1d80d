"""The parts of a ComplexTensor, the ComplexTensor of two parts, and who follows them.

Above autograd, with derivatives:

    join(real, imag)          the tensor of two parts; join_to_read makes no copies
    parts_of(z)               both parts
    parts_to_transform(z)     the same for linear functions, in less time
    values_of(x)              the same as a tuple, also of a tensor that has no parts

Below autograd, or where nothing follows the numbers (`is_followed`):

    of_parts(real, imag)      the tensor of two parts
    stored_parts(z)           both parts

`z.real` and `z.imag` are for programs that use the library: views, which can be written.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

import torch

from trnfft.base import torch_private as private
from trnfft.base.autograd_types import BatchInfo, Context, InDims
from trnfft.complex import table
from trnfft.complex.given_parts import COMPLEX_DTYPES, PART_DTYPES, check_layout, check_part_fits
from trnfft.complex.graphs import recorded_as
from trnfft.complex.table import Function
from trnfft.complex.tensor import ComplexTensor

Numbers = TypeVar("Numbers", bound=torch.Tensor)

Values = tuple[torch.Tensor, ...]
"""Both parts of complex numbers, or a tensor of real or native complex numbers alone."""

aten = torch.ops.aten
_unbind_copy: Any = torch.unbind_copy  # whose type says that it returns None

_BATCHING = private.dispatch_key_parse("VmapMode")

# True while views of the whole are made that must be the parts themselves, not pairs of them.
TAKING_PARTS: ContextVar[bool] = ContextVar("taking_parts", default=False)


def is_followed(*values: object) -> bool:
    """Whether autograd, a compiler, a mode or torch.func observes operations on these values."""
    if torch.compiler.is_compiling() or torch.compiler.is_exporting():
        return True
    if is_transformed() or private.len_torch_dispatch_stack():
        return True
    # It accepts other values than tensors, and reads a ComplexTensor without __torch_function__.
    return torch.is_grad_enabled() and private.any_requires_grad(*values)


def is_transformed() -> bool:
    """Whether forward mode or a transform of torch.func is active."""
    return private.are_functorch_transforms_active() or private.is_forward_mode()


def is_vectorized() -> bool:
    """Whether torch.autograd.functional batches tensors, where it vectorizes."""
    return private.dispatch_tls_is_dispatch_key_included(_BATCHING)


def not_vectorized(what: str) -> NotImplementedError:
    """Returns the error of what torch.autograd.functional cannot vectorize."""
    return NotImplementedError(
        f"argument 'vectorize' of torch.autograd.functional is True, allowed is False for {what}; "
        f"or use torch.func.jacrev or torch.func.jacfwd"
    )


@contextlib.contextmanager
def naming_vectorize(what: object) -> Iterator[None]:
    """Says where an error comes from that torch raises because the parts are batched."""
    try:
        yield
    except RuntimeError as error:
        raise not_vectorized(f"{what} of these ComplexTensors") from error


def ungraded() -> Any:
    """Returns torch.no_grad only where it has an effect, as exported programs contain it."""
    return torch.no_grad() if torch.is_grad_enabled() else contextlib.nullcontext()


def of_parts(real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
    """Returns the ComplexTensor of parts that are known to fit, below autograd or without it."""
    if imag.stride() != real.stride():  # a view of the whole must be a view of each part
        imag = torch.empty_like(real).copy_(imag)
        # empty_like has other strides where `real` has gaps or repeats numbers.
        real = real if imag.stride() == real.stride() else torch.empty_like(real).copy_(real)
    return wrapped(real, imag)


def wrapped(real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
    """Returns the ComplexTensor of parts with the same strides, below autograd or without it."""
    # Arguments by position: names would take a fifth of the time. The fourth is a memory format.
    made: ComplexTensor = private.make_wrapper_subclass(
        ComplexTensor,
        real.shape,
        real.stride(),
        real.storage_offset(),
        None,
        COMPLEX_DTYPES[real.dtype],
        torch.strided,
        real.device,
    )
    made._real, made._imag = real, imag
    private.set_throw_on_mutable_data_ptr(made)  # the whole has no memory of its own
    return made


def stored_parts(z: ComplexTensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the parts as they are in memory, the imaginary one negated if `z` is conjugated.

    It is for operators below autograd, and for functions that nothing follows.
    """
    return z._real, -z._imag if z._is_lazy else z._imag


def is_conjugate(z: ComplexTensor) -> bool:
    """Whether a tensor is conjugated lazily: a conjugate view, which shares the parts of another.

    torch stores this as a dispatch key of the tensor and resolves it before most operators.
    """
    return z._is_lazy


def with_conjugation(z: ComplexTensor, is_lazy: bool) -> ComplexTensor:
    """Returns the tensor, marked as conjugated lazily or not."""
    if is_lazy != z._is_lazy:
        private.set_conj(z, is_lazy)
        z._is_lazy = is_lazy
    return z


def described(x: torch.Tensor) -> torch.Tensor:
    """Returns a tensor with the shape and device of `x`: the real part of a ComplexTensor.

    Attributes of a ComplexTensor take much longer to read than those of its parts.
    """
    if isinstance(x, ComplexTensor) and not torch.compiler.is_compiling():
        return x._real
    return x


def is_sharded(x: object) -> bool:
    """Returns whether a tensor is a DTensor, or a ComplexTensor whose parts are DTensors."""
    # A caller that has a DTensor has imported the whole module; another thread may be importing it.
    kind = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    if kind is None:
        return False
    if not isinstance(x, ComplexTensor):
        return isinstance(x, kind)
    part = parts_of(x)[0] if torch.compiler.is_compiling() else x._real
    return isinstance(part, kind)


def each_part(function: Callable[[torch.Tensor], torch.Tensor], x: Numbers) -> Numbers:
    """Applies the function to a real tensor, or to both parts of a ComplexTensor."""
    if isinstance(x, ComplexTensor):
        return join(*map(function, parts_of(x)))  # type: ignore[return-value]
    return function(x)  # type: ignore[return-value]


def real_tensors_of(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Returns the parts of a complex tensor, or a real tensor alone. Differentiable."""
    return parts_of(x) if x.is_complex() else (x,)


def join(real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
    """Returns the ComplexTensor of parts that fit and that nothing else writes. Differentiable.

    It uses the memory of the parts. It copies parts whose memory is recognisably used elsewhere.
    """
    if torch.compiler.is_compiling():
        return table.in_graph().join(real, imag)
    if torch.jit.is_tracing():
        joined = of_parts(real.detach(), imag.detach())
        joined._traced = real, imag
        return joined
    if not is_followed(real, imag):
        return _joined(real, imag)
    if is_transformed():
        return _uncompiled(_JoinUnderTransforms.apply, real, imag)
    return _JoinEagerly.apply(real, imag)


def join_to_read(real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
    """Returns the same as `join`, without copies.

    It is meant for parts that a transform has made, and for readers that write nothing.
    """
    if torch.jit.is_tracing():
        return join(real, imag)
    if not is_followed(real, imag):
        return _without_copies(real, imag)
    if torch.compiler.is_compiling() or is_transformed():
        return join(real, imag)
    return _JoinToRead.apply(real, imag)


@recorded_as("join")
def _joined(real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
    return of_parts(*_own(real, imag))


def _without_copies(real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
    parts = (part.detach() if part.requires_grad else part for part in (real, imag))
    return of_parts(*(_with_memory(part).resolve_neg() for part in parts))


def _with_memory(part: torch.Tensor) -> torch.Tensor:
    # Operators here would read a tangent without memory.
    return part.new_zeros(part.shape) if private.is_zerotensor(part) else part


def _own(*parts: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yields parts without a graph, copied where something else uses their memory.

    Writing into a view changes its base, and derivatives keep leaves and some results. Operators
    below autograd do not see that a part is negated lazily.
    """
    for part in parts:
        is_kept = (
            part.requires_grad and part.is_leaf or hasattr(type(part.grad_fn), "_saved_result")
        )
        has_base = type(part) is torch.Tensor and _is_part(part)  # every DTensor is a view
        if private.is_zerotensor(part):
            yield _with_memory(part)
        elif is_kept or has_base or part.is_neg():
            # torch cannot detach tangents where torch.autograd.functional vectorizes.
            is_batched = private.is_legacy_batchedtensor(part)
            yield part.clone() if is_batched else part.detach().clone()
        else:
            yield part.detach() if part.requires_grad else part


def _is_part(x: torch.Tensor) -> bool:
    # torch does not note the views of inference tensors.
    return (
        private.is_view_of_memory(x) or x.is_inference() and x.untyped_storage().nbytes() > x.nbytes
    )


def parts_of(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns real and imaginary part of a ComplexTensor or native complex tensor. Differentiable.

    To autograd, both parts are views of `z`, of a kind whose use torch tracks or refuses. While
    autograd follows `z`, the parts must not be written, nor read after `z` was written. Inside
    torch.func's transforms, a ComplexTensor is wrapped in a tensor of torch's own type.
    """
    if torch.compiler.is_compiling():
        return table.in_graph().parts_of(z) if isinstance(z, ComplexTensor) else (z.real, z.imag)
    if is_transformed():  # torch then has no parts of a tensor that is conjugated lazily
        z = z.resolve_conj()
        if isinstance(z, ComplexTensor) or private.are_functorch_transforms_active():
            # Tangents that are batched and native, as of what is written into constants, fail.
            with naming_vectorize("parts") if is_vectorized() else contextlib.nullcontext():
                return _uncompiled(_PartsUnderTransforms.apply, z)
    if not isinstance(z, ComplexTensor):
        return z.real, z.imag
    if torch.jit.is_tracing():
        if not z._traced and is_followed(z):
            raise NotImplementedError(
                "torch.jit.trace cannot record a ComplexTensor with a gradient that is no input of "
                "the traced function; keep a parameter as two real tensors, as trnfft.nn does, or "
                "use torch.export or torch.compile"
            )
        return z._traced or stored_parts(z)
    return _Parts.apply(z) if is_followed(z) else _views_of_parts(z)


def _uncompiled(function: Function, *args: object) -> Any:
    """Calls a function of which torch.compile makes no graph after a fallback to eager mode.

    torch._dynamo's own function for this purpose takes seconds to import.

    Raises:
        NotImplementedError: torch.func.functionalize, which torch's classes of functions do not
            know, is the innermost transform.
    """
    if private.is_functionalized():
        raise NotImplementedError(
            "torch.func.functionalize of a function that makes or opens a ComplexTensor is not "
            "allowed, because torch has no rule for autograd functions there; record the function "
            "with torch.fx.experimental.proxy_tensor.make_fx, or leave out torch.func.functionalize"
        )
    return private.uncompiled(function, *args)


def parts_to_transform(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the same as `parts_of`, for linear functions, whose derivatives keep no inputs.

    Such parts need not know of writes into `z`, so they are not views of it.
    """
    if isinstance(z, ComplexTensor) and not torch.jit.is_tracing():
        if not is_followed(z):
            return stored_parts(z)
        if not (
            torch.compiler.is_compiling() or is_transformed() or private.len_torch_dispatch_stack()
        ):
            return _PartsToTransform.apply(z)
    return parts_of(z)


def values_of(x: torch.Tensor) -> Values:
    """Returns both parts of a ComplexTensor, for a linear function, or another tensor alone."""
    return parts_to_transform(x) if isinstance(x, ComplexTensor) else (x,)


def parts_of_values(values: Values) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns both parts of complex values."""
    return (values[0], values[1]) if len(values) == 2 else parts_of(values[0])


def parts_apart(z: torch.Tensor) -> Values:
    """Returns the parts of a native complex tensor, contiguous and in memory of their own.

    A real tensor is returned alone.
    """
    z = z.contiguous()  # twice as fast as transposing each part
    if not z.is_complex():
        return (z,)
    parts: Values = _unbind_copy(torch.view_as_real(z.resolve_conj()), -1)
    return parts


def native_of(real: torch.Tensor, imag: torch.Tensor) -> torch.Tensor:
    """Returns the native complex tensor of two parts."""
    if real.dtype in (torch.float16, torch.bfloat16):  # autocast makes such parts
        real, imag = real.float(), imag.float()
    return torch.complex(real, imag)


def as_pairs(z: ComplexTensor) -> torch.Tensor:
    """Returns torch.view_as_real of a ComplexTensor: a view [..., 2], as those of `parts_of`."""
    return _Pairs.apply(z) if is_followed(z) else _pairs(z)


def view_of_part(z: ComplexTensor, which: int) -> torch.Tensor:
    """Returns the real part for 0, the imaginary part for 1, as `parts_of` does."""
    return _Parts.apply(z)[which] if is_followed(z) else _view_of_part(z, which)


def _views_of_parts(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    # views that autograd does not follow
    if isinstance(z, ComplexTensor):
        return _view_of_part(z, 0), _view_of_part(z, 1)
    return z.real, z.imag


def _view_of_part(z: ComplexTensor, which: int) -> torch.Tensor:
    return _imaginary(z) if which else _real(z)


@recorded_as("real")
def _real(z: ComplexTensor) -> torch.Tensor:
    return _viewed(z, 0)


@recorded_as("imag")
def _imaginary(z: ComplexTensor) -> torch.Tensor:
    return _viewed(z, 1)


def _viewed(z: ComplexTensor, which: int) -> torch.Tensor:
    with ungraded(), private.DisableTorchFunctionSubclass():
        if z._real.device.type == "xla":  # XLA's tensors have no views below autograd
            part = z._imag if which else z._real
            part = -part if which and is_conjugate(z) else part
            return aten._unsafe_view.default(part, part.shape)
        token = TAKING_PARTS.set(True)
        try:
            whole = z.conj() if is_conjugate(z) else z
            part = aten.select.int(aten.view_as_real.default(whole), -1, which)
        finally:
            TAKING_PARTS.reset(token)
        if not which or not is_conjugate(z):
            return part
        return -part if is_sharded(part) else private.neg_view(part)  # DTensors have no _neg_view


@recorded_as("pairs")
def _pairs(z: ComplexTensor) -> torch.Tensor:
    with ungraded(), private.DisableTorchFunctionSubclass():
        pairs: Any = aten.view_as_real.default(z)
    pairs.of_function = True
    return pairs


def split_argument(name: str, z: torch.Tensor) -> ComplexTensor:
    """Returns the argument called `name`, of complex or real numbers, as a ComplexTensor."""
    if isinstance(z, ComplexTensor):
        return z
    check_layout(name, z)
    if z.is_complex():
        return split(z)
    if z.dtype not in PART_DTYPES:
        raise TypeError(
            f"argument '{name}' has dtype {z.dtype}, allowed are complex dtypes and "
            f"{', '.join(map(str, PART_DTYPES))}; convert it, for example with .float()"
        )
    check_part_fits(f"argument '{name}' has shape {tuple(z.shape)}", z.shape, z)
    return join(z.clone(), torch.zeros_like(z))


def split(z: torch.Tensor) -> ComplexTensor:
    """Returns a native complex tensor, DTensor or not, as a ComplexTensor. Differentiable."""
    if not is_sharded(z):
        real, imag = parts_of(z)
        if torch.compiler.is_compiling():  # where `join` does not know that these are views
            real, imag = real.clone(), imag.clone()
        return join(real, imag)
    from trnfft.complex import dtensor  # here, as it loads DTensor

    return join(*dtensor.dtensors_of_parts(z, parts_of))


def _copied(x: torch.Tensor) -> torch.Tensor:
    """Returns a copy; a DTensor with pending sums is returned as it is.

    Copying it would carry out the sums, or place the tensor anew.
    """
    if is_sharded(x):
        from trnfft.complex import dtensor  # here, as it loads DTensor

        return x if dtensor.is_pending(x) else x.clone()
    return x.clone()


class _Join(torch.autograd.Function):
    """Makes a ComplexTensor of real tensors, as torch.complex makes a native complex tensor."""

    @staticmethod
    def forward(real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
        return _joined(real, imag)

    @staticmethod
    def setup_context(ctx: Context, inputs: object, output: object) -> None:
        ctx.set_materialize_grads(False)  # compiled code passes None where nothing depends on it

    @staticmethod
    def backward(ctx: Context, gradient: torch.Tensor | None) -> Any:
        return (None, None) if gradient is None else parts_to_transform(gradient)


def _eagerly(joined: Function) -> Any:
    """Returns `_Join` in a form that torch calls in half the time, but cannot transform."""

    class JoinEagerly(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Context, real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
            ctx.set_materialize_grads(False)
            return joined(real, imag)

        backward = _Join.backward

    private.keep_from_compiler(JoinEagerly.forward)
    return JoinEagerly


_JoinEagerly, _JoinToRead = _eagerly(_joined), _eagerly(recorded_as("join")(_without_copies))


class _Split(torch.autograd.Function):
    """The inverse of `_Join`: several views, made by one function."""

    @staticmethod
    def forward(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return _views_of_parts(z)

    @staticmethod
    def setup_context(ctx: Context, inputs: object, output: object) -> None:
        ctx.set_materialize_grads(False)  # materialised gradients are not DTensors

    @staticmethod
    def backward(ctx: Context, real: torch.Tensor | None, imag: torch.Tensor | None) -> Any:
        if real is None:
            if imag is None:
                return None
            real = torch.zeros_like(imag)
        return join(real, torch.zeros_like(real) if imag is None else imag)


class _Parts(torch.autograd.Function):
    """`_Split` in a form that torch calls in half the time, but cannot transform."""

    @staticmethod
    def forward(ctx: Context, z: ComplexTensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        return _views_of_parts(z)

    backward = _Split.backward


class _PartsToTransform(torch.autograd.Function):
    """`_Parts` without views of the whole."""

    @staticmethod
    def forward(ctx: Context, z: ComplexTensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        return z._real.detach(), -z._imag if is_conjugate(z) else z._imag.detach()

    backward = _Split.backward


class _Pairs(torch.autograd.Function):
    """torch.view_as_real of a ComplexTensor, whose gradient is a ComplexTensor."""

    @staticmethod
    def forward(ctx: Context, z: ComplexTensor) -> torch.Tensor:
        return _pairs(z)

    @staticmethod
    def backward(ctx: Context, gradient: torch.Tensor) -> ComplexTensor:
        return join(gradient.select(-1, 0), gradient.select(-1, 1))  # the parts, of batched pairs


for _function in (
    _views_of_parts,
    _own,
    _view_of_part,
    _viewed,
    _Join.forward,
    _Join.setup_context,
    _Split.forward,
    _Split.setup_context,
    _Parts.forward,
    _PartsToTransform.forward,
    _Pairs.forward,
):
    private.keep_from_compiler(_function)


# The methods that forward mode and torch.func need, which torch.compile does not accept.
class _JoinUnderTransforms(_Join):
    @staticmethod
    def setup_context(ctx: Context, inputs: object, output: object) -> None:
        """Does nothing, so that missing tangents are zeros."""

    @staticmethod
    def jvp(ctx: Context, real: torch.Tensor, imag: torch.Tensor) -> Any:
        return join(real, imag)

    @staticmethod
    def vmap(info: BatchInfo, in_dims: InDims, real: torch.Tensor, imag: torch.Tensor) -> Any:
        parts = [
            part.expand(info.batch_size, *part.shape) if dim is None else part.movedim(dim, 0)
            for part, dim in zip((real, imag), in_dims, strict=True)
        ]
        return join(*parts), 0


class _PartsUnderTransforms(_Split):
    @staticmethod
    def jvp(ctx: Context, z: torch.Tensor) -> Any:
        if private.is_legacy_batchedtensor(z):  # not a class, so without views
            raise not_vectorized("the forward mode of torch.view_as_complex")
        return parts_of(z)

    @staticmethod
    def vmap(info: object, in_dims: tuple[int], z: torch.Tensor) -> Any:
        return parts_of(z.movedim(in_dims[0], 0)), (0, 0)


table.join, table.copied, table.split = join, _copied, split_argument
table.parts_of, table.parts_to_transform = parts_of, parts_to_transform
table.of_parts, table.wrapped, table.with_conjugation = of_parts, wrapped, with_conjugation
table.is_sharded = is_sharded
private.keep_from_compiler(wrapped)
private.keep_from_compiler(of_parts)
