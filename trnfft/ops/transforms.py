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

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from trnfft import config
from trnfft.backends.backend import Backend, Call, Parts, without_views
from trnfft.backends.choice import backend_of
from trnfft.backends.half_spectrum import interior
from trnfft.backends.torch_native import Transform
from trnfft.complex.kinds import has_native, is_native, made_of, of_results
from trnfft.complex.tensor import (
    ComplexTensor,
    described,
    is_sharded,
    join_to_read,
    parts_to_transform,
)
from trnfft.ops import across, autocast, traced


@dataclass(frozen=True)
class Prepared:
    """A transform of tensors of one shape, dtype and device, for fixed settings.

    Attributes:
        backend, precision: the names of the settings.
        device: the device of the tensors.
        direct: computes the transform where nothing is traced and autocast is off.
        operator: computes the transform by operators of torch.library.
    """

    backend: str
    precision: str
    device: torch.device
    direct: Callable[[Any], Any]
    operator: Callable[[Any], Any]

    def __call__(self, x: torch.Tensor | ComplexTensor) -> Any:
        if torch.compiler.is_compiling():
            return self.operator(x)
        if torch.jit.is_tracing():
            return self.operator(traced.held(x, range(x.ndim)))
        return self.operator(x) if autocast.is_on(self.device) else self.direct(x)


def c2c(
    x: torch.Tensor | ComplexTensor,
    sizes: tuple[int, ...],
    dims: tuple[int, ...],
    inverse: bool,
    norm: str,
    planned: bool = False,
) -> torch.Tensor:
    """Computes a discrete Fourier transform over several dimensions. Differentiable.

    Args:
        x: real, complex or ComplexTensor with parts in float32 or float64.
        sizes: lengths of the transforms; `x` is trimmed or padded with zeros at the end.
        dims: the dimensions, each once, counted from 0.
        inverse: the sign of the exponent: False for exp(-2 pi i j k / N), True for exp(+ ...).
        norm: "backward", "ortho" or "forward", as in torch.fft for a transform whose forward
            direction has the negative sign.
        planned: whether the frequencies are in planned order (see trnfft/planner/order.py); for an
            inverse, the frequencies are the input. Only for one dimension.

    Returns:
        A complex tensor of the kind that `trnfft.complex.kinds` gives for `x`.

    Raises:
        RuntimeError: the backend cannot work on the device.
        TypeError, NotImplementedError: the backend lacks the dtype, the length or the precision.
    """
    if is_sharded(x):
        return _sharded(x, "c2c", sizes, dims, inverse, norm, planned)
    x = traced.held(x)
    backend, precision = _settings(described(x).device)
    if not planned and _takes_whole(backend, x):
        asked = Transform(sizes, dims, inverse, norm, precision)
        return backend.whole("c2c", x, asked, is_native(x))
    x_parts = _split(x)
    if not dims:
        clones = (part.clone(memory_format=torch.contiguous_format) for part in x_parts)
        return made_of(*clones, x)
    parts = tuple(_moved_last(part, dims, sizes) for part in x_parts)
    call = Call(sizes, inverse, scale_of(norm, sizes, inverse), precision, planned)
    if _is_of_torch_operations(backend, x.device):
        parts = backend.c2c(parts, call)
    elif _is_neuron_graph(backend, x.device):
        from trnfft.ops import neuron_graph  # here: it loads torch's compiler

        parts = neuron_graph.transform("c2c", parts, sizes, inverse, call.scale, planned)
    else:
        run = _C2C.apply if backend else _c2c
        parts = run(*parts, *_flat(call, backend), planned)
    return of_results(*(_moved_back(part, dims) for part in parts), x)


def r2c(
    x: torch.Tensor, sizes: tuple[int, ...], dims: tuple[int, ...], inverse: bool, norm: str
) -> torch.Tensor:
    """Computes `c2c` of a real tensor; the last of `dims` keeps its N // 2 + 1 first numbers."""
    if is_sharded(x):
        return _sharded(x, "r2c", sizes, dims, inverse, norm)
    x = traced.held(x)
    backend, precision = _settings(described(x).device)
    if _takes_whole(backend, x):
        asked = Transform(sizes, dims, inverse, norm, precision)
        return backend.whole("r2c", x, asked, is_native(x))
    moved = _moved_last(x, dims, sizes)
    call = Call(sizes, inverse, scale_of(norm, sizes, inverse), precision)
    if _is_of_torch_operations(backend, x.device):
        parts = backend.r2c((moved,), call)
    elif _is_neuron_graph(backend, x.device):
        from trnfft.ops import neuron_graph  # here: it loads torch's compiler

        parts = neuron_graph.transform("r2c", (moved,), sizes, inverse, call.scale)
    else:
        run = _R2C.apply if backend else _r2c
        parts = run(moved, *_flat(call, backend))
    return of_results(*(_moved_back(part, dims) for part in parts), x)


def c2r(
    x: torch.Tensor | ComplexTensor,
    sizes: tuple[int, ...],
    dims: tuple[int, ...],
    inverse: bool,
    norm: str,
) -> torch.Tensor:
    """Computes `c2c` with a real result, from N // 2 + 1 first numbers of the last of `dims`."""
    if is_sharded(x):
        return _sharded(x, "c2r", sizes, dims, inverse, norm)
    x = traced.held(x)
    backend, precision = _settings(described(x).device)
    if _takes_whole(backend, x):
        return backend.whole("c2r", x, Transform(sizes, dims, inverse, norm, precision), True)
    given = (*sizes[:-1], sizes[-1] // 2 + 1)
    parts = tuple(_moved_last(part, dims, given) for part in _split(x))
    call = Call(sizes, inverse, scale_of(norm, sizes, inverse), precision)
    if _is_of_torch_operations(backend, x.device):
        (y,) = backend.c2r(parts, call)
    elif _is_neuron_graph(backend, x.device):
        from trnfft.ops import neuron_graph  # here: it loads torch's compiler

        (y,) = neuron_graph.transform("c2r", parts, sizes, inverse, call.scale)
    else:
        run = _C2R.apply if backend else _c2r
        y = run(*parts, sizes[-1], *_flat(call, backend))
    return _moved_back(y, dims)


def c2c_of_parts(real: torch.Tensor, imag: torch.Tensor, dims: int) -> Parts:
    """Returns the parts of a forward `c2c`, without a factor, over the last `dims` dimensions.

    It always uses an operator, and makes no complex tensor. A copy of this package inside another
    package, which torch's functions do not know, has only this function (packages/hugging_face).
    """
    backend, precision = _settings(real.device)
    call = Call(tuple(real.shape[-dims:]), False, 1.0, precision)
    return _by_operator("c2c", (real, imag), call, _flat(call, backend))


def prepared(
    kind: str,
    like: torch.Tensor | ComplexTensor,
    sizes: tuple[int, ...],
    dims: tuple[int, ...],
    inverse: bool,
    norm: str,
) -> Prepared:
    """Returns `c2c`, `r2c` or `c2r` of tensors like `like`, for the settings of this context.

    Args:
        kind: which of the three operators.
        like: a tensor of the shape, dtype and device; its numbers do not matter.
        sizes, dims, inverse, norm: as for the operators.

    Raises:
        RuntimeError, TypeError, NotImplementedError: as for the operators.
    """
    backend, precision = _settings(like.device)
    if is_sharded(like):

        def sharded(x: Any) -> Any:
            if torch.compiler.is_compiling():  # the settings are those of the run
                return _sharded(x, kind, sizes, dims, inverse, norm)
            with config.backend(backend.name), config.precision(precision):
                return _sharded(x, kind, sizes, dims, inverse, norm)

        return Prepared(backend.name, precision, like.device, sharded, sharded)
    call = Call(sizes, inverse, scale_of(norm, sizes, inverse), precision)
    flat = _flat(call, backend)
    moves = _Moves(dims, (*sizes[:-1], sizes[-1] // 2 + 1) if kind == "c2r" else sizes, like.shape)
    native = has_native(like.device)
    operator = _of_parts(kind, native, moves, lambda parts: _by_operator(kind, parts, call, flat))
    if _takes_whole(backend, like):
        asked = Transform(sizes, dims, inverse, norm, precision)

        def direct(x: Any) -> Any:
            is_native = native and not isinstance(x, ComplexTensor)
            return backend.whole(kind, x, asked, kind == "c2r" or is_native)

        return Prepared(backend.name, precision, like.device, direct, operator)
    real = like.real if isinstance(like, ComplexTensor) or like.is_complex() else like
    if real.numel() == 0:  # there is nothing to plan
        return Prepared(backend.name, precision, like.device, operator, operator)
    transform = backend.prepared(kind, moves.last(real), call)
    of_parts = _of_parts(kind, native, moves, transform) if backend.has_derivatives else operator
    return Prepared(backend.name, precision, like.device, of_parts, operator)


def is_plain(x: torch.Tensor) -> bool:
    """Returns whether torch.fft does what is asked of this tensor, as it is.

    The tensor must be of torch's own class.
    """
    return (
        (x.is_cpu or x.is_cuda)  # reading a device's type would take as long as all the rest
        and config.is_of_torch()
        and x.layout is torch.strided
        and not x.is_nested
        and not torch._C._len_torch_function_stack()  # a mode that must not see torch's functions
    )


def _sharded(x: Any, *asked: Any) -> Any:
    """Transforms DTensors."""
    return across.call("transform", x, *asked)


class _Moves:
    """Moves dimensions to the end and back; does nothing where they are there with their sizes."""

    def __init__(self, dims: tuple[int, ...], sizes: tuple[int, ...], shape: torch.Size) -> None:
        self.dims, self.sizes = dims, sizes
        first = len(shape) - len(dims)
        self.are_none = dims == tuple(range(first, len(shape))) and shape[first:] == sizes

    def last(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.are_none else _moved_last(x, self.dims, self.sizes)

    def back(self, x: torch.Tensor) -> torch.Tensor:
        return x.contiguous() if self.are_none else _moved_back(x, self.dims)


def _of_parts(
    kind: str, native: bool, moves: _Moves, transform: Callable[[Parts], Parts]
) -> Callable[[Any], Any]:
    """Returns a transform of whole tensors, from a transform of parts with the dimensions last.

    native: whether complex results of native tensors are native.
    """

    def run(x: Any) -> Any:
        parts: Parts = (x,)
        if kind != "r2c":
            parts = _split(x)
        results = [moves.back(y) for y in transform(tuple(map(moves.last, parts)))]
        if kind == "c2r":
            return results[0]
        is_native = native and not isinstance(x, ComplexTensor)
        return torch.complex(*results) if is_native else join_to_read(*results)

    return run


def _by_operator(kind: str, parts: Parts, call: Call, flat: tuple[Any, ...]) -> Parts:
    """Transforms by an operator of torch.library, or in TorchNeuron's graphs by one for these."""
    is_compiling = torch.compiler.is_compiling()
    if is_compiling and _is_neuron_graph(None, parts[0].device):
        from trnfft.ops import neuron_graph  # here: it loads torch's compiler

        return neuron_graph.transform(kind, parts, call.sizes, call.inverse, call.scale)
    if kind == "c2c":
        return (_c2c if is_compiling else _C2C.apply)(*parts, *flat, call.planned)
    if kind == "r2c":
        return (_r2c if is_compiling else _R2C.apply)(*parts, *flat)
    return ((_c2r if is_compiling else _C2R.apply)(*parts, call.sizes[-1], *flat),)


def rfft(x: torch.Tensor, n: int | None = None) -> torch.Tensor:
    """Returns half spectra of real rows [..., N], or padded to n points, without a factor."""
    return r2c(x, (x.shape[-1] if n is None else n,), (x.ndim - 1,), False, "backward")


def irfft(spectra: torch.Tensor, n: int) -> torch.Tensor:
    """Inverts `rfft`, with a factor 1 / n."""
    return c2r(spectra, (n,), (spectra.ndim - 1,), True, "backward")


def scale_of(norm: str, sizes: tuple[int, ...], inverse: bool) -> float:
    """Returns the factor of `norm` on a sum over `sizes` points."""
    n = math.prod(sizes)
    # from a trace, which otherwise would keep it or round it to float32
    if isinstance(n, torch.Tensor):
        n = n.double()
    if norm == "ortho":
        return n**-0.5
    return 1.0 / n if (norm == "backward") == inverse else 1.0


def _split(x: torch.Tensor) -> Parts:
    is_complex = isinstance(x, ComplexTensor) or x.is_complex()
    return parts_to_transform(x) if is_complex else (x, torch.zeros_like(x))


def _settings(device: torch.device) -> tuple[Any, str]:
    """Returns backend and precision of the context; None and "" if known only at run time."""
    if torch.compiler.is_compiling():  # compiled code cannot read context-local settings
        return None, ""
    precision = config.get_precision()
    return backend_of(device, precision), precision


def _is_of_torch_operations(backend: Backend | None, device: torch.device) -> bool:
    """Returns whether autograd uses the backend's own operations, so that no operator is needed."""
    if backend is None or not backend.has_derivatives:
        return False
    # A trace would keep their work for one shape. Under autocast their derivatives would be
    # computed in a smaller dtype. An operator sees the shape of each call, and its backward.
    return not torch.jit.is_tracing() and not autocast.is_on(device)


def _is_neuron_graph(backend: Backend | None, device: torch.device) -> bool:
    """Returns whether a graph for TorchNeuron's compiler is being traced, and not exported."""
    return backend is None and device.type == "neuron" and not torch.compiler.is_exporting()


def _takes_whole(backend: Backend | None, x: torch.Tensor | ComplexTensor) -> bool:
    """Returns whether the backend takes the tensor as it is, and there is something to transform.

    MKL rejects an empty batch.
    """
    return backend is not None and backend.takes_whole and 0 not in described(x).shape


def _flat(call: Call, backend: Backend | None) -> tuple[Any, ...]:
    """Returns a call as operators' schemas have it: inverse, scale, backend, precision, dims."""
    name = "" if backend is None else backend.name
    return call.inverse, call.scale, name, call.precision, len(call.sizes)


def _moved_last(x: torch.Tensor, dims: tuple[int, ...], sizes: tuple[int, ...]) -> torch.Tensor:
    """Moves `dims` to the end, in this order, and trims or pads each with zeros to its size."""
    for dim, size in zip(dims, sizes, strict=True):
        x = x.narrow(dim, 0, min(size, x.shape[dim]))
    x = x.movedim(dims, tuple(range(-len(dims), 0)))
    missing = [size - held for size, held in zip(sizes, x.shape[-len(dims) :], strict=True)]
    if any(missing):
        x = torch.nn.functional.pad(x, [n for size in reversed(missing) for n in (0, size)])
    return x


def _moved_back(x: torch.Tensor, dims: tuple[int, ...]) -> torch.Tensor:
    """Moves the last dimensions of a fresh tensor to `dims`; the result is contiguous."""
    return x.movedim(tuple(range(-len(dims), 0)), dims).contiguous()


def _chosen(kind: str, call: Call, backend: str, device: torch.device) -> tuple[Any, Call]:
    """Returns the method of the named backend ("" for the context's), and its completed call."""
    precision = call.precision or config.get_precision()
    chosen = backend_of(device, precision, backend)
    method = getattr(chosen, kind)
    if chosen.has_derivatives:
        method = without_views(method, device)
    method = autocast.without(method, device)
    return method, replace(call, precision=precision)


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
    """Computes the discrete Fourier transform of split complex data along the last dimensions.

    Args:
        real, imag: float32 or float64, [..., N].
        inverse: the sign of the exponent, as for `c2c`.
        scale: a factor on the result.
        backend, precision: names as in `trnfft.config`, or "" for those of the context.
        dims: the number of last dimensions.
        planned: as for `c2c`.

    Returns:
        Real and imaginary part of the result, with the shape and dtype of the input.
    """
    if real.numel() == 0:  # nothing to compute, and MKL rejects an empty batch
        return torch.empty_like(real), torch.empty_like(imag)
    call = Call(tuple(real.shape[-dims:]), inverse, scale, precision, planned)
    run, call = _chosen("c2c", call, backend, real.device)
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
    call = Call(tuple(x.shape[-dims:]), inverse, scale, precision)
    run, call = _chosen("r2c", call, backend, x.device)
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
    call = Call((*real.shape[real.ndim - dims : -1], n), inverse, scale, precision)
    run, call = _chosen("c2r", call, backend, real.device)
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
def _(real: torch.Tensor, imag: torch.Tensor, *call: Any) -> Parts:
    return real.new_empty(real.shape), imag.new_empty(imag.shape)


@_r2c.register_fake
def _(x: torch.Tensor, *call: Any) -> Parts:
    return _empty_half(x)


@_c2r.register_fake
def _(real: torch.Tensor, imag: torch.Tensor, n: int, *call: Any) -> torch.Tensor:
    return real.new_empty((*real.shape[:-1], n))


def _keep_c2c(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.inverse, *ctx.rest = inputs[2:]


def _keep_r2c(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.n = inputs[0].shape[-1]
    ctx.inverse, *ctx.rest = inputs[1:]


def _keep_c2r(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.n, ctx.inverse, *ctx.rest = inputs[2:]


def _c2c_gradients(adjoint: Any, ctx: Any, real: torch.Tensor, imag: torch.Tensor) -> Any:
    return *adjoint(real, imag, not ctx.inverse, *ctx.rest), *_none(ctx, 1)


def _r2c_gradients(adjoint: Any, ctx: Any, real: torch.Tensor, imag: torch.Tensor) -> Any:
    weights = interior(real, ctx.n, 0.5)
    y = adjoint(real * weights, imag * weights, ctx.n, not ctx.inverse, *ctx.rest)
    return y, *_none(ctx, 1)


def _c2r_gradients(adjoint: Any, ctx: Any, grad: torch.Tensor) -> Any:
    real, imag = adjoint(grad, not ctx.inverse, *ctx.rest)
    weights = interior(real, ctx.n, 2.0)
    return real * weights, imag * weights, *_none(ctx, 2)


def _none(ctx: Any, more: int) -> tuple[None, ...]:
    """Returns the gradients of arguments that are not tensors: `ctx.rest` and `more` others."""
    return (None,) * (len(ctx.rest) + more)


# A custom operator supports neither torch.func nor forward mode. So each operator is an
# autograd.Function, too.
class _C2C(torch.autograd.Function):
    generate_vmap_rule = True
    forward = staticmethod(_c2c)
    setup_context = staticmethod(_keep_c2c)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return _c2c_gradients(_C2C.apply, ctx, *grads)

    @staticmethod
    def jvp(ctx: Any, real: torch.Tensor, imag: torch.Tensor, *rest: None) -> Parts:
        return _C2C.apply(real, imag, ctx.inverse, *ctx.rest)


class _R2C(torch.autograd.Function):
    generate_vmap_rule = True
    forward = staticmethod(_r2c)
    setup_context = staticmethod(_keep_r2c)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return _r2c_gradients(_C2R.apply, ctx, *grads)

    @staticmethod
    def jvp(ctx: Any, x: torch.Tensor, *rest: None) -> Parts:
        return _R2C.apply(x, ctx.inverse, *ctx.rest)


class _C2R(torch.autograd.Function):
    generate_vmap_rule = True
    forward = staticmethod(_c2r)
    setup_context = staticmethod(_keep_c2r)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return _c2r_gradients(_R2C.apply, ctx, *grads)

    @staticmethod
    def jvp(ctx: Any, real: torch.Tensor, imag: torch.Tensor, *rest: None) -> torch.Tensor:
        return _C2R.apply(real, imag, ctx.n, ctx.inverse, *ctx.rest)


def batched(operator: Any, tensors: int) -> Any:
    """Returns the vmap rule of an operator that takes any leading dimensions: one more of them."""

    def rule(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        moved = [
            x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip(arguments[:tensors], in_dims[:tensors], strict=True)
        ]
        result = operator(*moved, *arguments[tensors:])
        return result, 0 if isinstance(result, torch.Tensor) else (0,) * len(result)

    return rule


def _register(operator: Any, tensors: int, keep: Any, gradients: Any, adjoint: Any) -> None:
    """Registers derivatives and the vmap rule of an operator."""

    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return gradients(adjoint, ctx, *grads)

    operator.register_autograd(backward, setup_context=keep)
    operator.register_vmap(batched(operator, tensors))


_register(_c2c, 2, _keep_c2c, _c2c_gradients, _c2c)
_register(_r2c, 1, _keep_r2c, _r2c_gradients, _c2r)
_register(_c2r, 2, _keep_c2r, _c2r_gradients, _r2c)
