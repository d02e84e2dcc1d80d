"""The operators of which all transforms consist: their shapes, derivatives and vmap rules.

`c2c`, `r2c` and `c2r` transform several dimensions of a tensor in one call. A backend that accepts
whole tensors gets them as they are. A backend that consists of torch operations gets split parts
with the transformed dimensions last. For other backends there are the operators `trnfft::c2c`,
`trnfft::r2c` and `trnfft::c2r` of torch.library. As transforms are linear and symmetric, the
derivative of each operator is one of the operators again; they are therefore differentiable any
number of times:

    Y = s F x          dx = s conj(F) dY, which is c2c with the opposite sign
    Y = s (F x)[half]  dx = c2r of dY with its interior halved, with the opposite sign
    y = s Re(F X)      dX = r2c of dy with its interior doubled, with the opposite sign
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.library import CustomOpDef

from trnfft.backends.backend import Backend, Call, Parts, scale_of, without_views
from trnfft.backends.choice import backend_of
from trnfft.backends.half_spectrum import interior
from trnfft.base import config
from trnfft.base.autograd_types import Context, Gradients
from trnfft.complex.parts import Values, parts_of, parts_of_values, values_of
from trnfft.ops import autocast, many_devices, traced
from trnfft.ops.operand import Mode, Operand, is_in_graph, mode_now, operand_of
from trnfft.ops.operators import batched


def c2c(
    x: torch.Tensor,
    sizes: tuple[int, ...],
    dims: tuple[int, ...],
    inverse: bool,
    norm: str,
    planned: bool = False,
) -> torch.Tensor:
    """Computes a discrete Fourier transform over several dimensions. Differentiable.

    Args:
        x: real, complex or ComplexTensor with parts in float32 or float64. It is trimmed or padded
            with zeros at the end.
        sizes, dims, inverse, norm, planned: as for `trnfft.backends.backend.Call`.

    Returns:
        A complex tensor of the kind that `trnfft.complex.kinds` gives for `x`.

    Raises:
        RuntimeError: the backend cannot work on the device.
        TypeError, NotImplementedError: the backend lacks the dtype, the length or the precision.
    """
    return transformed(operand_of(x), Call("c2c", inverse, sizes, dims, norm, "", planned))


def r2c(
    x: torch.Tensor, sizes: tuple[int, ...], dims: tuple[int, ...], inverse: bool, norm: str
) -> torch.Tensor:
    """Computes `c2c` of a real tensor; the last of `dims` keeps its N // 2 + 1 first numbers."""
    return transformed(operand_of(x), Call("r2c", inverse, sizes, dims, norm))


def c2r(
    x: torch.Tensor, sizes: tuple[int, ...], dims: tuple[int, ...], inverse: bool, norm: str
) -> torch.Tensor:
    """Computes `c2c` with a real result, from N // 2 + 1 first numbers of the last of `dims`."""
    return transformed(operand_of(x), Call("c2r", inverse, sizes, dims, norm))


def transformed(x: Operand, call: Call) -> torch.Tensor:
    """Computes a transform, and returns a tensor of the kind that the operand gives.

    Args:
        x: the operand, with numbers in float32 or float64.
        call: the transform, with a named norm.
    """
    if x.is_sharded:
        return many_devices.call("transform", x.whole(), call)
    return x.joined(transformed_values(x, call))


def transformed_values(x: Operand, call: Call) -> Values:
    """Computes a transform in one of four ways.

    Many devices hold a DTensor. torch.fft takes any tensor as it is. Other backends take split
    parts whose transformed dimensions are the last: they compute them by operations of torch, or
    behind an operator, which compiled graphs contain.

    Args:
        x, call: as for `transformed`.
    """
    if x.is_sharded:
        return values_of(transformed(x, call))
    if x.mode == "traced":
        x = x.of(*map(traced.held, x.parts))
    if x.is_in_graph:  # which reads the settings of its context when it runs
        return _by_parts(x, call, lambda parts: _by_operator(x, parts, call, None))
    backend = backend_of(x.like.device, x.precision, x.backend)
    if _takes_whole(backend, x.like, call):
        return backend.whole(x.parts, call._replace(precision=x.precision), x.gives_native)
    own = call._replace(norm=call.scale, precision=x.precision)
    if _is_of_torch_operations(backend, x):
        return _by_parts(x, call, partial(getattr(backend, call.kind), call=own))
    return _by_parts(x, call, lambda parts: _by_operator(x, parts, own, backend))


def transformed_parts(x: Operand, call: Call) -> Parts:
    """Returns both parts of `transformed_values`, of a transform with complex results."""
    return parts_of_values(transformed_values(x, call))


def c2c_of_parts(real: torch.Tensor, imag: torch.Tensor, dims: int) -> Parts:
    """Returns the parts of a forward `c2c`, without a factor, over the last `dims` dimensions.

    It always uses an operator, and makes no complex tensor. A copy of this package inside another
    package, which torch's functions do not know, has only this function (packages/hugging_face).
    """
    x = operand_of(real)
    call = Call("c2c", False, tuple(real.shape[-dims:]), (), 1.0, x.precision)
    backend = None if x.is_in_graph else backend_of(real.device, x.precision, x.backend)
    return _by_operator(x, (real, imag), call, backend)


def prepared(x: Operand, call: Call) -> tuple[Callable[[torch.Tensor], torch.Tensor], str, str]:
    """Returns a transform of tensors like `x`, and the names of the backend and the precision.

    The numbers of `x` do not matter. The call has a named norm.
    """
    precision = config.get_precision()
    backend = backend_of(x.like.device, precision)
    if x.is_sharded:
        return partial(_across, call, backend.name, precision), backend.name, precision
    call = call._replace(precision=precision)
    direct = _direct(x, call, backend)

    def run(given: torch.Tensor) -> torch.Tensor:
        mode = mode_now()
        if mode == "traced":
            given = traced.held(given, range(given.ndim))
        now = Operand(values_of(given), False, mode, x.backend, x.precision, x.has_native)
        if direct is None or mode != "eager" or autocast.is_on(now.like.device):
            return now.joined(
                _by_parts(now, call, lambda parts: _by_operator(now, parts, call, backend))
            )
        return now.joined(direct(now))

    return run, backend.name, precision


def _across(call: Call, backend: str, precision: str, x: torch.Tensor) -> Any:
    """Transforms a DTensor with these settings; those of the run in compiled code."""
    if is_in_graph():
        return many_devices.call("transform", x, call)
    with config.backend(backend), config.precision(precision):
        return many_devices.call("transform", x, call)


def _direct(x: Operand, call: Call, backend: Backend) -> Callable[[Operand], Parts] | None:
    """Returns a planned transform without an operator, or None where the operator is needed."""
    if _takes_whole(backend, x.like, call):
        return lambda now: backend.whole(now.parts, call, now.gives_native)
    if x.like.numel() == 0 or not backend.has_derivatives:  # there is nothing to plan
        return None
    real = x.like.real if x.like.is_complex() else x.like
    (moved,) = _moved_last((real,), call.dims, _given_sizes(call), x.mode)
    transform = backend.prepared(moved, call._replace(norm=call.scale))
    return lambda now: _by_parts(now, call, transform)


def _by_parts(x: Operand, call: Call, transform: Callable[[Parts], Parts]) -> Parts:
    """Transforms split parts with the dimensions last, and moves these back."""
    parts = x.parts if len(x.parts) == 2 or call.kind == "r2c" else _split(x.like)
    if not call.dims:
        return tuple([part.clone(memory_format=torch.contiguous_format) for part in parts])
    moved = _moved_last(parts, call.dims, _given_sizes(call), x.mode)
    return _moved_back(transform(moved), call.dims)


def _by_operator(x: Operand, parts: Parts, call: Call, backend: Backend | None) -> Parts:
    """Transforms by an operator of torch.library, or in TorchNeuron's graphs by one for these."""
    if x.is_neuron_graph:
        from trnfft.ops import neuron_graph  # here: it loads torch's compiler

        return neuron_graph.transform(parts, call)
    name = "" if backend is None else backend.name
    scale = scale_of(call.norm, call.sizes, call.inverse)
    flat = call.inverse, scale, name, call.precision, len(call.sizes)
    if call.kind == "c2c":
        return (_c2c if x.is_in_graph else _C2C.apply)(*parts, *flat, call.planned)
    if call.kind == "r2c":
        return (_r2c if x.is_in_graph else _R2C.apply)(*parts, *flat)
    return ((_c2r if x.is_in_graph else _C2R.apply)(*parts, call.sizes[-1], *flat),)


def rfft(x: torch.Tensor, n: int | None = None) -> torch.Tensor:
    """Returns half spectra of real rows [..., N], or padded to n points, without a factor."""
    return r2c(x, (x.shape[-1] if n is None else n,), (x.ndim - 1,), False, "backward")


def irfft(spectra: torch.Tensor, n: int) -> torch.Tensor:
    """Inverts `rfft`, with a factor 1 / n."""
    return c2r(spectra, (n,), (spectra.ndim - 1,), True, "backward")


def _split(x: torch.Tensor) -> Parts:
    return parts_of(x) if x.is_complex() else (x, torch.zeros_like(x))


def _is_of_torch_operations(backend: Backend, x: Operand) -> bool:
    """Returns whether autograd uses the backend's own operations, so that no operator is needed."""
    if not backend.has_derivatives:
        return False
    # A trace would keep their work for one shape. Under autocast their derivatives would be
    # computed in a smaller dtype. An operator sees the shape of each call, and its backward.
    return x.mode == "eager" and not autocast.is_on(x.like.device)


def _takes_whole(backend: Backend, x: torch.Tensor, call: Call) -> bool:
    """Returns whether the backend takes the tensor as it is, and there is something to transform.

    MKL rejects an empty batch.
    """
    return backend.takes_whole and not call.planned and 0 not in x.shape


def _given_sizes(call: Call) -> tuple[int, ...]:
    if call.kind != "c2r":
        return call.sizes
    return (*call.sizes[:-1], call.sizes[-1] // 2 + 1)


def _moved_last(parts: Parts, dims: tuple[int, ...], sizes: tuple[int, ...], mode: Mode) -> Parts:
    """Moves `dims` to the end, in this order, and trims or pads each with zeros to its size."""
    ndim = parts[0].ndim
    lasts = tuple(range(ndim - len(dims), ndim))
    # In a trace the sizes are tensors, whose comparison would be recorded. The views below make
    # gradients contiguous.
    is_plain = mode != "traced" and not (
        torch.is_grad_enabled() and any(part.requires_grad for part in parts)
    )
    if is_plain and dims == lasts and parts[0].shape[lasts[0] :] == sizes:
        return parts
    return tuple([_moved(part, dims, sizes) for part in parts])


def _moved(x: torch.Tensor, dims: tuple[int, ...], sizes: tuple[int, ...]) -> torch.Tensor:
    for dim, size in zip(dims, sizes, strict=True):
        x = x.narrow(dim, 0, min(size, x.shape[dim]))
    x = x.movedim(dims, tuple(range(-len(dims), 0)))
    missing = [size - held for size, held in zip(sizes, x.shape[-len(dims) :], strict=True)]
    if any(missing):
        x = torch.nn.functional.pad(x, [n for size in reversed(missing) for n in (0, size)])
    return x


def _moved_back(parts: Parts, dims: tuple[int, ...]) -> Parts:
    """Moves the last dimensions of fresh tensors to `dims`; the results are contiguous."""
    if dims != tuple(range(parts[0].ndim - len(dims), parts[0].ndim)):
        lasts = tuple(range(-len(dims), 0))
        parts = tuple([part.movedim(lasts, dims) for part in parts])
    return tuple([part.contiguous() for part in parts])


def _chosen(call: Call, backend: str, device: torch.device) -> tuple[Any, Call]:
    """Returns the method of the named backend ("" for the context's), and its completed call."""
    precision = call.precision or config.get_precision()
    chosen = backend_of(device, precision, backend)
    method = getattr(chosen, call.kind)
    if chosen.has_derivatives:
        method = without_views(method, device)
    method = autocast.without(method, device)
    return method, call._replace(precision=precision)


@torch.library.custom_op("trnfft::c2c", mutates_args=())
def _c2c(
    real: torch.Tensor,
    imag: torch.Tensor,
    inverse: bool,
    scale: float,
    backend: str = "",
    precision: str = "",
    dims: int = 1,
    planned: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes `c2c` of split data [..., N] along the `dims` last dimensions, times a scale.

    Backend and precision are names as in `trnfft.base.config`, or "" for those of the context.
    """
    if real.numel() == 0:  # nothing to compute, and MKL rejects an empty batch
        return torch.empty_like(real), torch.empty_like(imag)
    call = Call("c2c", inverse, tuple(real.shape[-dims:]), (), scale, precision, planned)
    run, call = _chosen(call, backend, real.device)
    y_real, y_imag = run((real, imag), call)
    return owned(y_real), owned(y_imag)


@torch.library.custom_op("trnfft::r2c", mutates_args=())
def _r2c(
    x: torch.Tensor,
    inverse: bool,
    scale: float,
    backend: str = "",
    precision: str = "",
    dims: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes `trnfft::c2c` of real data [..., N]: the first N // 2 + 1 numbers of the result."""
    if x.numel() == 0:
        return _empty_half(x)
    call = Call("r2c", inverse, tuple(x.shape[-dims:]), (), scale, precision)
    run, call = _chosen(call, backend, x.device)
    y_real, y_imag = run((x,), call)
    return owned(y_real), owned(y_imag)


@torch.library.custom_op("trnfft::c2r", mutates_args=())
def _c2r(
    real: torch.Tensor,
    imag: torch.Tensor,
    n: int,
    inverse: bool,
    scale: float,
    backend: str = "",
    precision: str = "",
    dims: int = 1,
) -> torch.Tensor:
    """Computes `trnfft::c2c` of Hermitian data, from n // 2 + 1 numbers to a real [..., n]."""
    if real.numel() == 0:
        return real.new_empty((*real.shape[:-1], n))
    sizes = (*real.shape[real.ndim - dims : -1], n)
    call = Call("c2r", inverse, sizes, (), scale, precision)
    run, call = _chosen(call, backend, real.device)
    (y,) = run((real, imag), call)
    return owned(y)


def owned(x: torch.Tensor) -> torch.Tensor:
    """Returns a contiguous tensor that shares its memory with nothing, and is no autograd view."""
    x = x.contiguous()
    # A view made inside an operator could not be edited in place outside; its base is given up
    # here.
    return torch.ops.aten._unsafe_view(x, x.shape)


def _empty_half(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (*x.shape[:-1], x.shape[-1] // 2 + 1)
    return x.new_empty(shape), x.new_empty(shape)


@_c2c.register_fake
def _(real: torch.Tensor, imag: torch.Tensor, *call: object) -> Parts:
    return real.new_empty(real.shape), imag.new_empty(imag.shape)


@_r2c.register_fake
def _(x: torch.Tensor, *call: object) -> Parts:
    return _empty_half(x)


@_c2r.register_fake
def _(real: torch.Tensor, imag: torch.Tensor, n: int, *call: object) -> torch.Tensor:
    return real.new_empty((*real.shape[:-1], n))


# Derivatives, by an adjoint operator. `ctx.settings` are the arguments that are not tensors.


def _c2c_gradients(
    adjoint: Callable[..., Parts], ctx: Context, real: torch.Tensor, imag: torch.Tensor
) -> Parts:
    inverse, *rest = ctx.settings
    return adjoint(real, imag, not inverse, *rest)


def _r2c_gradients(
    adjoint: Callable[..., torch.Tensor], ctx: Context, real: torch.Tensor, imag: torch.Tensor
) -> Parts:
    inverse, *rest = ctx.settings
    weights = interior(real, ctx.n, 0.5)
    return (adjoint(real * weights, imag * weights, ctx.n, not inverse, *rest),)


def _c2r_gradients(adjoint: Callable[..., Parts], ctx: Context, grad: torch.Tensor) -> Parts:
    n, inverse, *rest = ctx.settings
    real, imag = adjoint(grad, not inverse, *rest)
    weights = interior(real, n, 2.0)
    return real * weights, imag * weights


def _differentiable(
    operator: CustomOpDef,
    tensors: int,
    gradients: Callable[..., Parts],
    adjoint: Callable[..., Parts | torch.Tensor],
    eager_adjoint: Callable[[], type[torch.autograd.Function]],
) -> type[torch.autograd.Function]:
    """Registers derivatives and the vmap rule of an operator; returns its autograd.Function.

    A custom operator supports neither torch.func nor forward mode.
    """

    def keep(ctx: Context, inputs: tuple[Any, ...], output: object) -> None:
        ctx.n, ctx.settings = inputs[0].shape[-1], inputs[tensors:]

    def backward(ctx: Context, *grads: torch.Tensor) -> Gradients:
        return *gradients(adjoint, ctx, *grads), *(None,) * len(ctx.settings)

    class Transform(torch.autograd.Function):
        generate_vmap_rule = True
        forward = staticmethod(operator)
        setup_context = staticmethod(keep)

        @staticmethod
        def backward(ctx: Context, *grads: torch.Tensor) -> Gradients:
            known = gradients(eager_adjoint().apply, ctx, *grads)
            return *known, *(None,) * len(ctx.settings)

        @staticmethod
        def jvp(ctx: Context, *tangents: torch.Tensor | None) -> Any:
            return Transform.apply(*tangents[:tensors], *ctx.settings)

    operator.register_autograd(backward, setup_context=keep)
    operator.register_vmap(batched(operator))
    return Transform


_C2C: Any = _differentiable(_c2c, 2, _c2c_gradients, _c2c, lambda: _C2C)
_R2C: Any = _differentiable(_r2c, 1, _r2c_gradients, _c2r, lambda: _C2R)
_C2R: Any = _differentiable(_c2r, 2, _c2r_gradients, _r2c, lambda: _R2C)
