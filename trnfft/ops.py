"""The operators that all transforms are made of, and the choice of the backend that runs them.

`c2c`, `r2c` and `c2r` transform several dimensions of a tensor in one call. The "torch" backend
takes them whole. Every other backend takes split real and imaginary parts, one dimension at a
time, the last one of memory: `trnfft::c2c`, `trnfft::r2c` and `trnfft::c2r` of torch.library, with
fake kernels, derivatives and vmap rules. As transforms are linear and symmetric, the derivative of
each is one of them again, hence differentiable any number of times:

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
from trnfft.complex_tensor import ComplexTensor

Parts = tuple[torch.Tensor, torch.Tensor]

COMPLEX_DEVICES = ("cpu", "cuda", "meta")


def c2c(
    x: torch.Tensor | ComplexTensor,
    sizes: tuple[int, ...],
    dims: tuple[int, ...],
    inverse: bool,
    norm: str,
) -> ComplexTensor:
    """Discrete Fourier transform over several dimensions. Differentiable.

    Args:
        x: real, complex or ComplexTensor with parts in float32 or float64.
        sizes: lengths of the transforms; `x` is trimmed or padded with zeros at the end.
        dims: the dimensions, each once, from 0 on.
        inverse: the sign of the exponent: False for exp(-2 pi i j k / N), True for exp(+ ...).
        norm: "backward", "ortho" or "forward", as in torch.fft: of a transform whose forward
            direction has the negative sign.

    Raises:
        RuntimeError: the backend cannot work on the device.
        TypeError, NotImplementedError: the backend lacks the dtype, the length or the precision.
    """
    if not _is_empty(x, dims) and (precision := _whole(x)) is not None:
        return torch_native.c2c(x, sizes, dims, inverse, norm, precision)
    x = ComplexTensor.from_complex(x) if isinstance(x, torch.Tensor) else x
    parts = x.real, x.imag
    scale = scale_of(norm, sizes, inverse)
    for dim, size in zip(dims, sizes, strict=True):
        parts = _along(_c2c_parts, parts, dim, size, inverse, scale)
        scale = 1.0
    return ComplexTensor(*parts)


def r2c(
    x: torch.Tensor, sizes: tuple[int, ...], dims: tuple[int, ...], inverse: bool, norm: str
) -> ComplexTensor:
    """`c2c` of a real tensor, of which the last of `dims` keeps its N // 2 + 1 first numbers."""
    if not _is_empty(x, dims) and (precision := _whole(x)) is not None:
        return torch_native.r2c(x, sizes, dims, inverse, norm, precision)
    moved = _resize(x.transpose(dims[-1], -1), sizes[-1])
    real, imag = _r2c_parts(moved, inverse, scale_of(norm, sizes, inverse))
    half = ComplexTensor(real.transpose(dims[-1], -1), imag.transpose(dims[-1], -1))
    if len(dims) == 1:
        return half
    return c2c(half, sizes[:-1], dims[:-1], inverse, "forward" if inverse else "backward")


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
    if len(dims) > 1:
        x = c2c(x, sizes[:-1], dims[:-1], inverse, "forward" if inverse else "backward")
    x = ComplexTensor.from_complex(x) if isinstance(x, torch.Tensor) else x
    half = sizes[-1] // 2 + 1
    moved = [_resize(part.transpose(dims[-1], -1), half) for part in (x.real, x.imag)]
    scale = scale_of(norm, sizes, inverse)
    return _c2r_parts(moved[0], moved[1], sizes[-1], inverse, scale).transpose(dims[-1], -1)


def scale_of(norm: str, sizes: tuple[int, ...], inverse: bool) -> float:
    """The factor on a sum over `sizes` points that `norm` stands for."""
    n = math.prod(sizes)
    if norm == "ortho":
        return 1.0 / math.sqrt(n)
    return 1.0 / n if (norm == "backward") == inverse else 1.0


def backend_for(device: torch.device) -> str:
    """The name of the backend for tensors on a device: the chosen one, or what "auto" takes."""
    name = config.get_backend()
    if name != "auto":
        return name
    if device.type in COMPLEX_DEVICES:
        return "torch"
    return "nki" if device.type in config.NEURON_DEVICES and config.has_nki() else "matmul"


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


def _along(function: Any, parts: Parts, dim: int, size: int, *arguments: Any) -> Parts:
    """`function` of the parts, with `size` points, along `dim`."""
    moved = [_resize(part.transpose(dim, -1), size) for part in parts]
    real, imag = function(*moved, *arguments)
    return real.transpose(dim, -1), imag.transpose(dim, -1)


def _resize(x: torch.Tensor, n: int) -> torch.Tensor:
    """Trim the last dimension to `n`, or pad it with zeros."""
    size = x.shape[-1]
    if size == n:
        return x
    return x[..., :n] if n < size else torch.nn.functional.pad(x, (0, n - size))


def _settings(device: torch.device) -> tuple[str, str]:
    """Backend and precision, ("", "") for those at run time."""
    if torch.compiler.is_compiling():
        return "", ""
    return backend_for(device), config.get_precision()


def _c2c_parts(real: torch.Tensor, imag: torch.Tensor, inverse: bool, scale: float) -> Parts:
    backend, precision = _settings(real.device)
    if backend == "matmul":
        return matmul.c2c(real, imag, inverse, scale, precision)
    run = _C2C.apply if backend else _c2c
    return run(real, imag, inverse, scale, backend, precision)


def _r2c_parts(x: torch.Tensor, inverse: bool, scale: float) -> Parts:
    backend, precision = _settings(x.device)
    if backend == "matmul":
        return _half(matmul.c2c(x, torch.zeros_like(x), inverse, scale, precision))
    run = _R2C.apply if backend else _r2c
    return run(x, inverse, scale, backend, precision)


def _c2r_parts(
    real: torch.Tensor, imag: torch.Tensor, n: int, inverse: bool, scale: float
) -> torch.Tensor:
    backend, precision = _settings(real.device)
    if backend == "matmul":
        return matmul.c2c(*_hermitian(real, imag, n), inverse, scale, precision)[0]
    run = _C2R.apply if backend else _c2r
    return run(real, imag, n, inverse, scale, backend, precision)


def _half(parts: Parts) -> Parts:
    """The first N // 2 + 1 numbers."""
    half = parts[0].shape[-1] // 2 + 1
    return parts[0][..., :half], parts[1][..., :half]


def _hermitian(real: torch.Tensor, imag: torch.Tensor, n: int) -> Parts:
    """The N numbers with X[N-k] = conj X[k] of which the first N // 2 + 1 are given.

    The imaginary parts of X[0] and, for even N, of X[N/2] count as zero.
    """
    interior = slice(1, (n + 1) // 2)
    zero = torch.zeros_like(imag[..., :1])
    edge = [zero] if n % 2 == 0 else []
    inner = imag[..., interior]
    real = torch.cat([real, real[..., interior].flip(-1)], -1)
    return real, torch.cat([zero, inner, *edge, -inner.flip(-1)], -1)


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
) -> tuple[torch.Tensor, torch.Tensor]:
    """Discrete Fourier transform of split complex data along the last dimension.

    Args:
        real, imag: float32 or float64, [..., N].
        inverse: the sign of the exponent, as for `c2c`.
        scale: a factor on the result.
        backend, precision: names as in `trnfft.config`; "" for those of the context.

    Returns:
        Real and imaginary part of the result, with the shape and dtype of the input.
    """
    backend = backend or backend_for(real.device)
    precision = precision or config.get_precision()
    if real.numel() == 0:  # Nothing to compute, and MKL rejects an empty batch.
        return torch.empty_like(real), torch.empty_like(imag)
    if precision == "double" or backend == "torch":
        parts = torch_native.c2c_parts(real, imag, inverse, scale, precision)
    elif backend == "matmul":
        parts = _without_views(matmul.c2c, real, imag, inverse, scale, precision)
    else:
        from trnfft.backends import nki  # here, so that only its users load the kernels

        run = nki.c2c_simulated if backend == "nki-sim" else nki.c2c
        parts = run(real, imag, inverse, scale, precision)
    return parts[0].contiguous(), parts[1].contiguous()


@torch.library.custom_op("trnfft::r2c", mutates_args=())
def _r2c(
    x: torch.Tensor, inverse: bool, scale: float, backend: str = "", precision: str = ""
) -> tuple[torch.Tensor, torch.Tensor]:
    """`trnfft::c2c` of real data [..., N]: the first N // 2 + 1 numbers of the result."""
    real, imag = _half(_c2c(x, torch.zeros_like(x), inverse, scale, backend, precision))
    return real.clone(memory_format=torch.contiguous_format), imag.clone(
        memory_format=torch.contiguous_format
    )


@torch.library.custom_op("trnfft::c2r", mutates_args=())
def _c2r(
    real: torch.Tensor,
    imag: torch.Tensor,
    n: int,
    inverse: bool,
    scale: float,
    backend: str = "",
    precision: str = "",
) -> torch.Tensor:
    """`trnfft::c2c` of the first n // 2 + 1 numbers of Hermitian data: the real result [..., n]."""
    full = _without_views(_hermitian, real, imag, n)
    return _c2c(*full, inverse, scale, backend, precision)[0]


@_c2c.register_fake
def _(
    real: torch.Tensor,
    imag: torch.Tensor,
    inverse: bool,
    scale: float,
    backend: str = "",
    precision: str = "",
) -> Parts:
    return real.new_empty(real.shape), imag.new_empty(imag.shape)


@_r2c.register_fake
def _(
    x: torch.Tensor, inverse: bool, scale: float, backend: str = "", precision: str = ""
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
    return *run(real, imag, not ctx.inverse, ctx.scale, *ctx.settings), None, None, None, None


def _r2c_grads(run: Any, ctx: Any, real: torch.Tensor, imag: torch.Tensor) -> tuple[Any, ...]:
    weights = _interior(real, ctx.n, 0.5)
    parts = real * weights, imag * weights
    return run(*parts, ctx.n, not ctx.inverse, ctx.scale, *ctx.settings), None, None, None, None


def _c2r_grads(run: Any, ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    real, imag = run(grad, not ctx.inverse, ctx.scale, *ctx.settings)
    weights = _interior(real, ctx.n, 2.0)
    return real * weights, imag * weights, None, None, None, None, None


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
