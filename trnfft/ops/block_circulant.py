"""Products with block circulant matrices, by transforms: the operator of BlockCirculantLinear.

    y_i = sum_j w_ij * x_j = F^-1 (sum_j F w_ij . F x_j)        * circular, for blocks of k numbers

Three measures keep the number of transforms low (Dong, "Exploring GPU acceleration of DNNs using
block circulant matrices", 2020). Sums are taken between transforms, so that each block of the
result has one inverse transform. The derivatives use conjugate spectra where the formula has
reversed blocks. The derivatives use the spectra of the forward direction, which are kept in place
of x and w.

    dx_j = F^-1 (sum_i conj F w_ij . F dy_i)      dw_ij = F^-1 (sum_b conj F x_bj . F dy_bi)

A real matrix [rows, blocks k] has the spectra [blocks, 2, k // 2 + 1, rows]: for each block the
real and the imaginary parts, frequency by frequency. Kernels pack them a little more closely.
"""

from functools import partial
from typing import Any

import torch
from torch.compiler import is_compiling

from trnfft.backends.choice import backend_for, named
from trnfft.backends.half_spectrum import interior
from trnfft.base.torch_private import is_legacy_batchedtensor
from trnfft.complex.dispatch import Parts
from trnfft.complex.followed import is_transformed, not_vectorized
from trnfft.complex.kinds import made_of
from trnfft.complex.products import bilinear_parts
from trnfft.ops import autocast
from trnfft.ops.convolution import has_kernels
from trnfft.ops.transforms import irfft, owned, rfft


def block_circulant_product(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Multiplies rows by a block circulant matrix and adds a bias. Differentiable, also twice.

    On backends with NKI kernels the product is one launch, and its derivative another, for blocks
    of up to 256 numbers.

    Args:
        x: float32 or float64, [B, q k].
        weight: [p, q, k]: for each pair of blocks, the first column of a circulant matrix.
        bias: [p k], or None.

    Returns:
        [B, p k].
    """
    backend = ""
    if has_kernels(x, weight) and _has_plan(x.shape[0], tuple(weight.shape)):
        backend = backend_for(x.device)
    is_in_forward_mode = not is_compiling() and is_transformed()
    product = _ProductUnderTransforms if is_in_forward_mode else _Product
    return product.apply(x, weight, bias, backend)[0]


def saved_bytes(x: torch.Tensor, weight: torch.Tensor) -> int:
    """Returns the bytes that `block_circulant_product` keeps for its derivatives: both spectra."""
    p, q, k = weight.shape
    if has_kernels(x, weight) and _has_plan(x.shape[0], (p, q, k)):
        from nki_kernels.convolution.circulant_areas import (  # only its users load it
            row_pitch,
            spectrum_rows,
        )

        return 4 * q * spectrum_rows(k) * (row_pitch(x.shape[0]) + row_pitch(p))
    return x.dtype.itemsize * q * 2 * (k // 2 + 1) * (x.shape[0] + p)


def _kernel_spectra(p: int, q: int, k: int, rows: int) -> list[tuple[int, ...]]:
    """Returns the shapes of the spectra that the kernel keeps, of x and of the weight."""
    from nki_kernels.convolution.block_circulant import (
        spectra_shape,  # only its users load the kernels
    )

    return [spectra_shape(q, k, rows), spectra_shape(q, k, p)]


def _has_plan(rows: int, shape: tuple[int, ...]) -> bool:
    from trnfft.planner.planner import plan_block_circulant  # here: only its users load the kernels

    try:
        for gradients in (False, True):
            plan_block_circulant(shape, batch=rows, gradients=gradients)  # type: ignore[arg-type]
    except NotImplementedError:
        return False
    return True


@torch.library.custom_op("trnfft::block_circulant", mutates_args=())
def _block_circulant(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, backend: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns the product, and the spectra of x and of the weight as the kernel leaves them."""
    from trnfft.planner.planner import plan_block_circulant  # here: only its users load the kernels

    p, q, k = weight.shape
    row = x.new_zeros(p * k) if bias is None else bias
    recipe = plan_block_circulant((p, q, k), batch=x.shape[0]).recipe
    blocks, row = x.reshape(-1, q, k), row.reshape(1, p, k)
    y, of_x, of_w = named(backend).run(recipe, (blocks, weight, row))
    return y, of_x, of_w


@torch.library.custom_op("trnfft::block_circulant_gradients", mutates_args=())
def _block_circulant_gradients(
    grad: torch.Tensor, of_x: torch.Tensor, of_w: torch.Tensor, k: int, backend: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the gradients of x and of the weight, [p, q k], from the gradient of the product."""
    from trnfft.planner.planner import plan_block_circulant  # here: only its users load the kernels

    shape = (grad.shape[1] // k, of_x.shape[0], k)
    recipe = plan_block_circulant(shape, batch=grad.shape[0], gradients=True).recipe
    blocks = grad.reshape(-1, shape[0], k)
    by_x, by_w = named(backend).run(recipe, (blocks, of_x, of_w))
    return by_x, by_w


@_block_circulant.register_fake
def _(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, backend: str
) -> tuple[torch.Tensor, ...]:
    p, q, k = weight.shape
    spectra = [x.new_empty(shape) for shape in _kernel_spectra(p, q, k, x.shape[0])]
    return x.new_empty(x.shape[0], p * k), *spectra


@_block_circulant_gradients.register_fake
def _(
    grad: torch.Tensor, of_x: torch.Tensor, of_w: torch.Tensor, k: int, backend: str
) -> tuple[torch.Tensor, ...]:
    q = of_x.shape[0]
    return grad.new_empty(grad.shape[0], q * k), grad.new_empty(grad.shape[1] // k, q * k)


def spectra_of(matrix: torch.Tensor, k: int) -> torch.Tensor:
    """Returns spectra [blocks, 2, k // 2 + 1, rows] of a real matrix [rows, blocks k]."""
    if not is_compiling() and is_legacy_batchedtensor(matrix):
        raise not_vectorized("block circulant layers")
    spectra = rfft(matrix.unflatten(-1, (-1, k)))
    parts = [part.permute(1, 2, 0) for part in (spectra.real, spectra.imag)]
    return torch.stack(parts, 1)


def matrix_of(spectra: torch.Tensor, k: int) -> torch.Tensor:
    """Inverts `spectra_of`."""
    z = made_of(spectra[:, 0], spectra[:, 1], spectra)
    return irfft(z.permute(2, 0, 1), k).flatten(1)


def _one_by_one(operator: Any, tensors: int) -> Any:
    """Returns the vmap rule of an operator without further dimensions: a call for each index."""

    def rule(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        results = []
        for index in range(info.batch_size):
            each = [
                x if dim is None else x.select(dim, index)
                for x, dim in zip(arguments[:tensors], in_dims[:tensors], strict=True)
            ]
            results.append(operator(*each, *arguments[tensors:]))
        stacked = tuple(torch.stack(part) for part in zip(*results, strict=True))
        return stacked, (0,) * len(stacked)

    return rule


_block_circulant.register_vmap(_one_by_one(_block_circulant, 3))
_block_circulant_gradients.register_vmap(_one_by_one(_block_circulant_gradients, 3))


class _Product(torch.autograd.Function):
    """The product and both spectra, which are results so that second derivatives exist."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, backend: str
    ) -> tuple[torch.Tensor, ...]:
        if backend:
            return _block_circulant(x, weight, bias, backend)
        k = weight.shape[-1]
        x_spectra, w_spectra = spectra_of(x, k), spectra_of(weight.flatten(1), k)
        y = matrix_of(_mixed("jfi,jfb->ifb", w_spectra, x_spectra), k)
        return (owned(y) if bias is None else y + bias), x_spectra, w_spectra

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        x, weight, _, ctx.backend = inputs
        _, x_spectra, w_spectra = output
        ctx.rows, ctx.shape = x.shape[0], weight.shape
        by_x, by_weight = (needed or ctx.backend for needed in ctx.needs_input_grad[:2])
        ctx.save_for_backward(x_spectra if by_weight else None, w_spectra if by_x else None)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Any, of_x: Any, of_w: Any) -> tuple[Any, ...]:  # type: ignore[override]
        x_spectra, w_spectra = ctx.saved_tensors[:2]
        needs = ctx.needs_input_grad
        p, q, k = ctx.shape
        by_x = by_weight = by_bias = None
        if grad is not None and needs[2]:
            by_bias = grad.sum(0)
        is_first = of_x is None and of_w is None and not torch.is_grad_enabled()
        if ctx.backend and is_first:
            gradients = _block_circulant_gradients(grad, x_spectra, w_spectra, k, ctx.backend)
            return gradients[0], gradients[1].view(ctx.shape), by_bias, None
        if ctx.backend:
            x_spectra, of_x = (_unpacked(part, k, ctx.rows) for part in (x_spectra, of_x))
            w_spectra, of_w = (_unpacked(part, k, p) for part in (w_spectra, of_w))
        if grad is not None:
            spectra = spectra_of(grad, k)
            if needs[0]:
                by_x = matrix_of(_mixed("jfi,ifb->jfb", w_spectra, spectra, True), k)
            if needs[1]:
                by_weight = matrix_of(_mixed("jfb,ifb->jfi", x_spectra, spectra, True), k)
        if of_x is not None:
            by_x = _sum(by_x, _derivative_of_spectra(of_x, k))
        if of_w is not None:
            by_weight = _sum(by_weight, _derivative_of_spectra(of_w, k))
        return by_x, None if by_weight is None else by_weight.view(ctx.shape), by_bias, None


# The methods that forward mode needs, which torch.compile does not accept.
class _ProductUnderTransforms(_Product):
    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        _Product.setup_context(ctx, inputs, output)
        saved = *ctx.to_save, *inputs[:2]
        ctx.save_for_backward(*saved)
        ctx.save_for_forward(*saved)  # which `backward` then gets, too

    @staticmethod
    def jvp(ctx: Any, x: Any, weight: Any, bias: Any, backend: None) -> tuple[Any, ...]:
        """Returns the tangents: all results are linear in x, and in the weight."""
        *_, at_x, at_weight = ctx.saved_tensors
        x = torch.zeros_like(at_x) if x is None else x
        weight = torch.zeros_like(at_weight) if weight is None else weight
        y, x_spectra, _ = _ProductUnderTransforms.apply(x, at_weight, bias, ctx.backend)
        other, _, w_spectra = _ProductUnderTransforms.apply(at_x, weight, None, ctx.backend)
        return y + other, x_spectra, w_spectra


def _unpacked(spectra: torch.Tensor | None, k: int, rows: int) -> torch.Tensor | None:
    """Returns a kernel's spectra [blocks, slots, pitch] in the form of `spectra_of`.

    Where k is even, the real frequency k / 2 stands in place of the imaginary part of frequency 0.
    """
    if spectra is None:
        return None
    real, imag = spectra[:, :, :rows].chunk(2, 1)
    zero = torch.zeros_like(real[:, :1])
    last = [imag[:, :1]] if k % 2 == 0 else []
    ends = [zero] * len(last)
    return torch.stack([torch.cat([real, *last], 1), torch.cat([zero, imag[:, 1:], *ends], 1)], 1)


def _mixed(sum: str, x: torch.Tensor, y: torch.Tensor, conj: bool = False) -> torch.Tensor:
    """Returns products of spectra x (or their conjugates) and y, summed over blocks or rows."""
    first = Parts(x[:, 0], -x[:, 1] if conj else x[:, 1])
    with autocast.switched_off(x.device):
        product = bilinear_parts(partial(torch.einsum, sum), first, Parts(y[:, 0], y[:, 1]))
    return torch.stack(product, 1)


def _derivative_of_spectra(grad: torch.Tensor, k: int) -> torch.Tensor:
    """Returns the gradient of `spectra_of`'s input, for second derivatives."""
    return matrix_of(grad * (k * interior(grad, k, 0.5))[:, None], k)


def _sum(x: torch.Tensor | None, y: torch.Tensor) -> torch.Tensor:
    return y if x is None else x + y
