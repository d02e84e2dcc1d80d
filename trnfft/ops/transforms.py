"""The operators that all transforms are made of, and the choice of the backend that runs them.

`c2c`, `r2c` and `c2r` transform several dimensions of a tensor in one call. The "torch" backend
takes them whole. Every other backend takes split real and imaginary parts, with the transformed
dimensions last: `trnfft::c2c`, `trnfft::r2c` and `trnfft::c2r` of torch.library, with fake kernels,
derivatives and vmap rules. As transforms are linear and symmetric, the derivative of each is one of
them again, hence differentiable any number of times:

    Y = s F x          dx = s conj(F) dY, which is c2c with the opposite sign
    Y = s (F x)[half]  dx = c2r of dY with its interior halved, with the opposite sign
    y = s Re(F X)      dX = r2c of dy with its interior doubled, with the opposite sign
"""

import math
from functools import partial
from typing import Any

import torch

from trnfft import config
from trnfft.backends import matmul, torch_native
from trnfft.backends.half_spectrum import half_of, whole_of
from trnfft.complex.tensor import ComplexTensor

Parts = tuple[torch.Tensor, torch.Tensor]

COMPLEX_DEVICES = ("cpu", "cuda", "meta")


def c2c(
    x: torch.Tensor | ComplexTensor,
    sizes: tuple[int, ...],
    dims: tuple[int, ...],
    inverse: bool,
    norm: str,
    planned: bool = False,
) -> ComplexTensor:
    """Discrete Fourier transform over several dimensions. Differentiable.

    Args:
        x: real, complex or ComplexTensor with parts in float32 or float64.
        sizes: lengths of the transforms; `x` is trimmed or padded with zeros at the end.
        dims: the dimensions, each once, from 0 on.
        inverse: the sign of the exponent: False for exp(-2 pi i j k / N), True for exp(+ ...).
        norm: "backward", "ortho" or "forward", as in torch.fft: of a transform whose forward
            direction has the negative sign.
        planned: whether the frequencies, which are the input of an inverse, are in planned order
            (see trnfft/planner/order.py); of one dimension only.

    Raises:
        RuntimeError: the backend cannot work on the device.
        TypeError, NotImplementedError: the backend lacks the dtype, the length or the precision.
    """
    if not planned and not _is_empty(x, dims) and (precision := _whole(x)) is not None:
        return torch_native.c2c(x, sizes, dims, inverse, norm, precision)
    x = ComplexTensor.from_complex(x) if isinstance(x, torch.Tensor) else x
    if not dims:
        return x
    real, imag = (_moved_last(part, dims, sizes) for part in (x.real, x.imag))
    parts = _c2c_parts(real, imag, inverse, scale_of(norm, sizes, inverse), len(dims), planned)
    return ComplexTensor(*(_moved_back(part, dims) for part in parts))


def r2c(
    x: torch.Tensor, sizes: tuple[int, ...], dims: tuple[int, ...], inverse: bool, norm: str
) -> ComplexTensor:
    """`c2c` of a real tensor, of which the last of `dims` keeps its N // 2 + 1 first numbers."""
    if not _is_empty(x, dims) and (precision := _whole(x)) is not None:
        return torch_native.r2c(x, sizes, dims, inverse, norm, precision)
    moved = _moved_last(x, dims, sizes)
    parts = _r2c_parts(moved, inverse, scale_of(norm, sizes, inverse), len(dims))
    return ComplexTensor(*(_moved_back(part, dims) for part in parts))


def c2r(
    x: torch.Tensor | ComplexTensor,
    sizes: tuple[int, ...],
    dims: tuple[int, ...],
    inverse: bool,
    norm: str,
) -> torch.Tensor:
    """`c2c` with a real result: of `x` the last of `dims` holds the N // 2 + 1 first numbers."""
    if not _is_empty(x, dims) and (precision := _whole(x)) is not None:
        return torch_native.c2r(x, sizes, dims, inverse, norm, precision)
    x = ComplexTensor.from_complex(x) if isinstance(x, torch.Tensor) else x
    given = (*sizes[:-1], sizes[-1] // 2 + 1)
    real, imag = (_moved_last(part, dims, given) for part in (x.real, x.imag))
    y = _c2r_parts(real, imag, sizes[-1], inverse, scale_of(norm, sizes, inverse), len(dims))
    return _moved_back(y, dims)


def scale_of(norm: str, sizes: tuple[int, ...], inverse: bool) -> float:
    """The factor on a sum over `sizes` points that `norm` stands for."""
    n = math.prod(sizes)
    if norm == "ortho":
        return 1.0 / math.sqrt(n)
    return 1.0 / n if (norm == "backward") == inverse else 1.0


def backend_for(device: torch.device) -> str:
    """The name of the backend for tensors on a device: the chosen one, or what "auto" takes."""
    return choose_backend(device)[0]


def choose_backend(device: torch.device) -> tuple[str, str]:
    """The name of the backend for tensors on a device, and the reason for it.

    Raises:
        ValueError, ImportError: as `config.get_backend`.
    """
    name = config.get_backend()
    if name != "auto":
        return name, "chosen by name"
    if device.type in COMPLEX_DEVICES:
        return "torch", "the device has complex dtypes"
    if device.type not in config.NEURON_DEVICES:
        return "matmul", "no complex dtypes, and no NeuronCore"
    if config.has_nki():
        return "nki", "a NeuronCore, and the real nki is installed"
    return "matmul", "no complex dtypes, and no real nki"


def _whole(x: torch.Tensor | ComplexTensor) -> str | None:
    """The precision mode, where the "torch" backend takes the whole transform."""
    if torch.compiler.is_compiling():  # which cannot look at context-local settings
        return None
    precision = config.get_precision()
    if precision == "double" or backend_for(x.device) == "torch":
        return precision
    return None


def _is_empty(x: torch.Tensor | ComplexTensor, dims: tuple[int, ...]) -> bool:
    """Whether there is nothing to transform, which MKL rejects."""
    return 0 in x.shape and any(size == 0 and dim not in dims for dim, size in enumerate(x.shape))


def _moved_last(x: torch.Tensor, dims: tuple[int, ...], sizes: tuple[int, ...]) -> torch.Tensor:
    """`dims` last and in this order, each trimmed to its size or padded with zeros."""
    for dim, size in zip(dims, sizes, strict=True):
        x = x.narrow(dim, 0, min(size, x.shape[dim]))
    x = x.movedim(dims, tuple(range(-len(dims), 0)))
    missing = [size - held for size, held in zip(sizes, x.shape[-len(dims) :], strict=True)]
    if any(missing):
        x = torch.nn.functional.pad(x, [n for size in reversed(missing) for n in (0, size)])
    return x


def _moved_back(x: torch.Tensor, dims: tuple[int, ...]) -> torch.Tensor:
    return x.movedim(tuple(range(-len(dims), 0)), dims)


def _settings(device: torch.device) -> tuple[str, str]:
    """Backend and precision, ("", "") for those at run time."""
    if torch.compiler.is_compiling():
        return "", ""
    return backend_for(device), config.get_precision()


def _c2c_parts(
    real: torch.Tensor, imag: torch.Tensor, inverse: bool, scale: float, dims: int, planned: bool
) -> Parts:
    backend, precision = _settings(real.device)
    if backend == "matmul" and precision != "double":
        return _matmul_c2c(real, imag, inverse, scale, precision, range(-dims, 0), planned)
    run = _C2C.apply if backend else _c2c
    return run(real, imag, inverse, scale, backend, precision, dims, planned)


def _r2c_parts(x: torch.Tensor, inverse: bool, scale: float, dims: int) -> Parts:
    backend, precision = _settings(x.device)
    if backend == "matmul":
        return _matmul_r2c(x, inverse, scale, precision, dims)
    run = _R2C.apply if backend else _r2c
    return run(x, inverse, scale, backend, precision, dims)


def _c2r_parts(
    real: torch.Tensor, imag: torch.Tensor, n: int, inverse: bool, scale: float, dims: int
) -> torch.Tensor:
    backend, precision = _settings(real.device)
    if backend == "matmul":
        return _matmul_c2r(real, imag, n, inverse, scale, precision, dims)
    run = _C2R.apply if backend else _c2r
    return run(real, imag, n, inverse, scale, backend, precision, dims)


def _matmul_c2c(
    real: torch.Tensor,
    imag: torch.Tensor,
    inverse: bool,
    scale: float,
    precision: str,
    dims: range,
    planned: bool = False,
) -> Parts:
    for dim in reversed(dims):
        moved = real.transpose(dim, -1), imag.transpose(dim, -1)
        parts = matmul.c2c(*moved, inverse, scale, precision, planned)
        real, imag = parts[0].transpose(dim, -1), parts[1].transpose(dim, -1)
        scale = 1.0
    return real, imag


def _matmul_r2c(x: torch.Tensor, inverse: bool, scale: float, precision: str, dims: int) -> Parts:
    parts = half_of(matmul.c2c(x, torch.zeros_like(x), inverse, scale, precision))
    return _matmul_c2c(*parts, inverse, 1.0, precision, range(-dims, -1))


def _matmul_c2r(
    real: torch.Tensor,
    imag: torch.Tensor,
    n: int,
    inverse: bool,
    scale: float,
    precision: str,
    dims: int,
) -> torch.Tensor:
    real, imag = _matmul_c2c(real, imag, inverse, 1.0, precision, range(-dims, -1))
    return matmul.c2c(*whole_of(real, imag, n), inverse, scale, precision)[0]


def _without_views(function: Any, x: torch.Tensor, *arguments: Any) -> Any:
    """`function` of the arguments; on an XLA device it computes with copies in place of views."""
    if x.device.type == "xla":
        # torch_xla does so by itself, but not inside of a custom operator, where views of views
        # have wrong values.
        function = torch.func.functionalize(function, remove="mutations_and_views")
    return function(x, *arguments)


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
    """Discrete Fourier transform of split complex data along the last dimensions.

    Args:
        real, imag: float32 or float64, [..., N].
        inverse: the sign of the exponent, as for `c2c`.
        scale: a factor on the result.
        backend, precision: names as in `trnfft.config`; "" for those of the context.
        dims: how many of the last dimensions.
        planned: as for `c2c`.

    Returns:
        Real and imaginary part of the result, with the shape and dtype of the input.
    """
    backend = backend or backend_for(real.device)
    precision = precision or config.get_precision()
    if real.numel() == 0:  # Nothing to compute, and MKL rejects an empty batch.
        return torch.empty_like(real), torch.empty_like(imag)
    if planned and (precision == "double" or backend != "matmul"):
        return _planned_c2c(real, imag, inverse, scale, backend, precision)
    if precision == "double" or backend == "torch":
        parts = torch_native.c2c_parts(real, imag, inverse, scale, precision, dims)
    elif backend == "matmul":
        axes = range(-dims, 0)
        rest = (inverse, scale, precision, axes, planned)
        parts = _without_views(_matmul_c2c, real, imag, *rest)
    else:
        shape = tuple(real.shape[-dims:])
        parts = _run_kernel("c2c", (real, imag), shape, inverse, scale, backend, precision)
    return parts[0].contiguous(), parts[1].contiguous()


def _planned_c2c(
    real: torch.Tensor,
    imag: torch.Tensor,
    inverse: bool,
    scale: float,
    backend: str,
    precision: str,
) -> Parts:
    """`trnfft::c2c` in planned order, by a backend whose transforms have the natural one."""
    from trnfft.planner import order  # here, so that only its users load the planner

    radices = order.radices(real.shape[-1])
    if inverse:
        real, imag = (_without_views(_digits_reversed, part, radices) for part in (real, imag))
    parts = _c2c(real, imag, inverse, scale, backend, precision)
    if inverse:
        return parts
    first, second = (_without_views(_digits_reversed, part, radices[::-1]) for part in parts)
    return first.contiguous(), second.contiguous()


def _digits_reversed(x: torch.Tensor, radices: tuple[int, ...]) -> torch.Tensor:
    """The last dimension with the digits of its index, of these radices, in reverse order."""
    lead = x.ndim - 1
    digits = x.reshape(*x.shape[:-1], *radices)
    reverse = range(digits.ndim - 1, lead - 1, -1)
    return digits.permute(*range(lead), *reverse).reshape(x.shape)


def _run_kernel(*arguments: Any) -> Any:
    from trnfft.backends import nki  # here, so that only its users load the kernels

    return nki.run(*arguments)


@torch.library.custom_op("trnfft::r2c", mutates_args=())
def _r2c(
    x: torch.Tensor,
    inverse: bool,
    scale: float,
    backend: str = "",
    precision: str = "",
    dims: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`trnfft::c2c` of real data [..., N]: the first N // 2 + 1 numbers of the result."""
    backend = backend or backend_for(x.device)
    precision = precision or config.get_precision()
    if _has_real_kernel(x, backend, precision):
        shape = tuple(x.shape[-dims:])
        parts = _run_kernel("r2c", (x,), shape, inverse, scale, backend, precision)
    else:
        zeros = torch.zeros_like(x)
        parts = half_of(_c2c(x, zeros, inverse, scale, backend, precision, dims))
    real, imag = (part.clone(memory_format=torch.contiguous_format) for part in parts)
    return real, imag


def _has_real_kernel(x: torch.Tensor, backend: str, precision: str) -> bool:
    return backend in ("nki", "nki-sim") and precision != "double" and x.numel() > 0


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
    """`trnfft::c2c` of the first n // 2 + 1 numbers of Hermitian data: the real result [..., n]."""
    backend = backend or backend_for(real.device)
    precision = precision or config.get_precision()
    if _has_real_kernel(real, backend, precision):
        shape = (*real.shape[real.ndim - dims : -1], n)
        y = _run_kernel("c2r", (real, imag), shape, inverse, scale, backend, precision)[0]
        return y.contiguous()
    if dims > 1:
        moved = real.movedim(-1, -dims), imag.movedim(-1, -dims)
        parts = _c2c(*moved, inverse, 1.0, backend, precision, dims - 1)
        real, imag = parts[0].movedim(-dims, -1), parts[1].movedim(-dims, -1)
    full = _without_views(whole_of, real, imag, n)
    return _c2c(*full, inverse, scale, backend, precision)[0]


@_c2c.register_fake
def _(
    real: torch.Tensor,
    imag: torch.Tensor,
    inverse: bool,
    scale: float,
    backend: str = "",
    precision: str = "",
    dims: int = 1,
    planned: bool = False,
) -> Parts:
    return real.new_empty(real.shape), imag.new_empty(imag.shape)


@_r2c.register_fake
def _(
    x: torch.Tensor,
    inverse: bool,
    scale: float,
    backend: str = "",
    precision: str = "",
    dims: int = 1,
) -> Parts:
    shape = (*x.shape[:-1], x.shape[-1] // 2 + 1)
    return x.new_empty(shape), x.new_empty(shape)


@_c2r.register_fake
def _(
    real: torch.Tensor,
    imag: torch.Tensor,
    n: int,
    inverse: bool,
    scale: float,
    backend: str = "",
    precision: str = "",
    dims: int = 1,
) -> torch.Tensor:
    return real.new_empty((*real.shape[:-1], n))


def _keep_rest(tensors: int, with_n: int) -> Any:
    """A setup_context that keeps the arguments after the tensors, and N of the result's data."""

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        first = inputs[0].shape[-1]
        ctx.n = inputs[tensors] if with_n else first
        ctx.inverse, ctx.scale, *ctx.settings = inputs[tensors + with_n :]

    return setup_context


def _c2c_grads(run: Any, ctx: Any, real: torch.Tensor, imag: torch.Tensor) -> tuple[Any, ...]:
    return *run(real, imag, not ctx.inverse, ctx.scale, *ctx.settings), *(None,) * 6


def _r2c_grads(run: Any, ctx: Any, real: torch.Tensor, imag: torch.Tensor) -> tuple[Any, ...]:
    weights = _interior(real, ctx.n, 0.5)
    parts = real * weights, imag * weights
    return run(*parts, ctx.n, not ctx.inverse, ctx.scale, *ctx.settings), *(None,) * 5


def _c2r_grads(run: Any, ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    real, imag = run(grad, not ctx.inverse, ctx.scale, *ctx.settings)
    weights = _interior(real, ctx.n, 2.0)
    return real * weights, imag * weights, *(None,) * 6


def _interior(like: torch.Tensor, n: int, weight: float) -> torch.Tensor:
    """`weight` for those of n // 2 + 1 numbers whose conjugates are not there too, else 1."""
    ones = like.new_ones(1)
    inner = like.new_full(((n - 1) // 2,), weight)
    return torch.cat([ones, inner, ones[: 1 - n % 2]])


_c2c.register_autograd(partial(_c2c_grads, _c2c), setup_context=_keep_rest(2, 0))
_r2c.register_autograd(partial(_r2c_grads, _c2r), setup_context=_keep_rest(1, 0))
_c2r.register_autograd(partial(_c2r_grads, _r2c), setup_context=_keep_rest(2, 1))


class _C2C(torch.autograd.Function):
    """`trnfft::c2c` for torch.func and forward mode, which a custom operator does not support."""

    generate_vmap_rule = True
    setup_context = staticmethod(_keep_rest(2, 0))

    @staticmethod
    def forward(*arguments: Any) -> Parts:
        return _c2c(*arguments)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        return _c2c_grads(_C2C.apply, ctx, *grads)

    @staticmethod
    def jvp(ctx: Any, real: torch.Tensor, imag: torch.Tensor, *rest: None) -> Parts:
        return _C2C.apply(*_both(real, imag), ctx.inverse, ctx.scale, *ctx.settings)


class _R2C(torch.autograd.Function):
    """`trnfft::r2c`, as `_C2C`."""

    generate_vmap_rule = True
    setup_context = staticmethod(_keep_rest(1, 0))

    @staticmethod
    def forward(*arguments: Any) -> Parts:
        return _r2c(*arguments)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        return _r2c_grads(_C2R.apply, ctx, *grads)

    @staticmethod
    def jvp(ctx: Any, x: torch.Tensor, *rest: None) -> Parts:
        return _R2C.apply(x, ctx.inverse, ctx.scale, *ctx.settings)


class _C2R(torch.autograd.Function):
    """`trnfft::c2r`, as `_C2C`."""

    generate_vmap_rule = True
    setup_context = staticmethod(_keep_rest(2, 1))

    @staticmethod
    def forward(*arguments: Any) -> torch.Tensor:
        return _c2r(*arguments)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        return _c2r_grads(_R2C.apply, ctx, grad)

    @staticmethod
    def jvp(ctx: Any, real: torch.Tensor, imag: torch.Tensor, *rest: None) -> torch.Tensor:
        return _C2R.apply(*_both(real, imag), ctx.n, ctx.inverse, ctx.scale, *ctx.settings)


def _both(real: torch.Tensor | None, imag: torch.Tensor | None) -> Parts:
    """Tangents of both parts: zeros for one that has none."""
    if real is None or imag is None:
        zeros = torch.zeros_like(imag if real is None else real)  # type: ignore[arg-type]
        return (zeros if real is None else real), (zeros if imag is None else imag)
    return real, imag


def _batched(operator: Any, tensors: int) -> Any:
    """The vmap rule of an operator that takes any leading dimensions: one more of them."""

    def rule(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        moved = [
            x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip(arguments[:tensors], in_dims[:tensors], strict=True)
        ]
        result = operator(*moved, *arguments[tensors:])
        return result, 0 if isinstance(result, torch.Tensor) else (0,) * len(result)

    return rule


_c2c.register_vmap(_batched(_c2c, 2))
_r2c.register_vmap(_batched(_r2c, 1))
_c2r.register_vmap(_batched(_c2r, 2))
