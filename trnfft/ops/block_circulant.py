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

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch

from trnfft.backends.choice import named
from trnfft.backends.half_spectrum import interior
from trnfft.base.autograd_types import Context, Gradients
from trnfft.base.torch_private import is_legacy_batchedtensor
from trnfft.complex.dispatch import Parts
from trnfft.complex.kinds import made_of
from trnfft.complex.parts import is_transformed, not_vectorized
from trnfft.complex.products import bilinear_parts
from trnfft.ops import autocast
from trnfft.ops.convolution import has_kernels
from trnfft.ops.operand import Operand, is_in_graph, operand_of
from trnfft.ops.operators import one_by_one
from trnfft.ops.reference import reference_of
from trnfft.ops.transforms import irfft, owned, rfft
from trnfft.planner import kinds

if TYPE_CHECKING:
    from trnfft.planner.plan import Recipe

# Of an autograd function of the product: x, the weight, the bias, and the backend.
Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, str]


def block_circulant_product(
    given: Operand, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Multiplies rows by a block circulant matrix and adds a bias. Differentiable, also twice.

    On backends with NKI kernels the product is one launch, and its derivative another, for blocks
    of up to 256 numbers.

    Args:
        given: float32 or float64, [B, q k].
        weight: [p, q, k]: for each pair of blocks, the first column of a circulant matrix.
        bias: [p k], or None.

    Returns:
        [B, p k].
    """
    x, backend = given.like, ""
    if has_kernels(given, weight) and _has_plan(x.shape[0], tuple(weight.shape)):
        backend = given.backend
    is_in_forward_mode = not given.is_in_graph and is_transformed()
    product = _ProductUnderTransforms if is_in_forward_mode else _Product
    return product.apply(x, weight, bias, backend)[0]


def saved_bytes(x: torch.Tensor, weight: torch.Tensor) -> int:
    """Returns the bytes that `block_circulant_product` keeps for its derivatives: both spectra."""
    p, q, k = weight.shape
    if has_kernels(operand_of(x), weight) and _has_plan(x.shape[0], (p, q, k)):
        from nki_kernels.convolution.circulant_areas import (  # only its users load it
            row_pitch,
            spectrum_rows,
        )

        return 4 * q * spectrum_rows(k) * (row_pitch(x.shape[0]) + row_pitch(p))
    return x.dtype.itemsize * q * 2 * (k // 2 + 1) * (x.shape[0] + p)


def _recipe(shape: tuple[int, ...], rows: int, gradients: bool) -> Recipe[kinds.BlockCirculant]:
    """Returns the recipe of the product, or of its gradients."""
    from trnfft.planner.planner import plan_for  # here: only its users load the kernels

    p, q, k = shape
    return plan_for(kinds.BlockCirculant(p, q, k, gradients), batch=rows).recipe


def _has_plan(rows: int, shape: tuple[int, ...]) -> bool:
    try:
        for gradients in (False, True):
            _recipe(shape, rows, gradients)
    except NotImplementedError:
        return False
    return True


@torch.library.custom_op("trnfft::block_circulant", mutates_args=())
def _block_circulant(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, backend: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns the product, and the spectra of x and of the weight as the kernel leaves them."""
    p, q, k = weight.shape
    row = x.new_zeros(p * k) if bias is None else bias
    recipe = _recipe((p, q, k), x.shape[0], False)
    blocks, row = x.reshape(-1, q, k), row.reshape(1, p, k)
    y, of_x, of_w = named(backend).run(recipe, (blocks, weight, row))
    return y, of_x, of_w


@torch.library.custom_op("trnfft::block_circulant_gradients", mutates_args=())
def _block_circulant_gradients(
    grad: torch.Tensor, of_x: torch.Tensor, of_w: torch.Tensor, k: int, backend: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the gradients of x and of the weight, [p, q k], from the gradient of the product."""
    shape = (grad.shape[1] // k, of_x.shape[0], k)
    recipe = _recipe(shape, grad.shape[0], True)
    blocks = grad.reshape(-1, shape[0], k)
    by_x, by_w = named(backend).run(recipe, (blocks, of_x, of_w))
    return by_x, by_w


@_block_circulant.register_fake
def _(x: torch.Tensor, weight: torch.Tensor, *others: object) -> tuple[torch.Tensor, ...]:
    from nki_kernels.convolution.block_circulant import spectra_shape  # only its users load it

    p, q, k = weight.shape
    spectra = [x.new_empty(spectra_shape(q, k, rows)) for rows in (x.shape[0], p)]
    return x.new_empty(x.shape[0], p * k), *spectra


@_block_circulant_gradients.register_fake
def _(
    grad: torch.Tensor, of_x: torch.Tensor, of_w: torch.Tensor, k: int, backend: str
) -> tuple[torch.Tensor, ...]:
    q = of_x.shape[0]
    return grad.new_empty(grad.shape[0], q * k), grad.new_empty(grad.shape[1] // k, q * k)


def spectra_of(matrix: torch.Tensor, k: int) -> torch.Tensor:
    """Returns spectra [blocks, 2, k // 2 + 1, rows] of a real matrix [rows, blocks k]."""
    if not is_in_graph() and is_legacy_batchedtensor(matrix):
        raise not_vectorized("block circulant layers")
    spectra = rfft(matrix.unflatten(-1, (-1, k)))
    parts = [part.permute(1, 2, 0) for part in (spectra.real, spectra.imag)]
    return torch.stack(parts, 1)


def matrix_of(spectra: torch.Tensor, k: int) -> torch.Tensor:
    """Inverts `spectra_of`."""
    z = made_of(spectra[:, 0], spectra[:, 1], spectra)
    return irfft(z.permute(2, 0, 1), k).flatten(1)


_block_circulant.register_vmap(one_by_one(_block_circulant))
_block_circulant_gradients.register_vmap(one_by_one(_block_circulant_gradients))


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
    def setup_context(ctx: Context, inputs: Inputs, output: tuple[torch.Tensor, ...]) -> None:
        x, weight, _, ctx.backend = inputs
        _, x_spectra, w_spectra = output
        ctx.rows, ctx.shape = x.shape[0], weight.shape
        by_x, by_weight = (needed or ctx.backend for needed in ctx.needs_input_grad[:2])
        ctx.save_for_backward(x_spectra if by_weight else None, w_spectra if by_x else None)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(
        ctx: Context,
        grad: torch.Tensor | None,
        of_x: torch.Tensor | None,
        of_w: torch.Tensor | None,
    ) -> Gradients:
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
            x_spectra, w_spectra = _unpacked(x_spectra, k, ctx.rows), _unpacked(w_spectra, k, p)
            of_x = None if of_x is None else _unpacked(of_x, k, ctx.rows)
            of_w = None if of_w is None else _unpacked(of_w, k, p)
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
    def setup_context(ctx: Context, inputs: Inputs, output: tuple[torch.Tensor, ...]) -> None:
        _Product.setup_context(ctx, inputs, output)
        saved = *ctx.to_save, *inputs[:2]
        ctx.save_for_backward(*saved)
        ctx.save_for_forward(*saved)  # which `backward` then gets, too

    @staticmethod
    def jvp(
        ctx: Context,
        x: torch.Tensor | None,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        backend: None,
    ) -> tuple[torch.Tensor, ...]:
        """Returns the tangents: all results are linear in x, and in the weight."""
        *_, at_x, at_weight = ctx.saved_tensors
        x = torch.zeros_like(at_x) if x is None else x
        weight = torch.zeros_like(at_weight) if weight is None else weight
        y, x_spectra, _ = _ProductUnderTransforms.apply(x, at_weight, bias, ctx.backend)
        other, _, w_spectra = _ProductUnderTransforms.apply(at_x, weight, None, ctx.backend)
        return y + other, x_spectra, w_spectra


def _unpacked(spectra: torch.Tensor, k: int, rows: int) -> torch.Tensor:
    """Returns a kernel's spectra [blocks, slots, pitch] in the form of `spectra_of`.

    Where k is even, the real frequency k / 2 stands in place of the imaginary part of frequency 0.
    """
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
    return matrix_of(grad * (k * interior(grad, k, 0.5))[:, None], k)


def _sum(x: torch.Tensor | None, y: torch.Tensor) -> torch.Tensor:
    return y if x is None else x + y


# What the kernels return, by products with their tables: `trnfft.ops.reference`.


@reference_of(kinds.BlockCirculant)
def reference(
    recipe: Recipe, x: Sequence[torch.Tensor], inverse: bool, scale: float
) -> list[torch.Tensor]:
    """Returns what the kernel of a recipe returns: see `trnfft.ops.reference`."""
    return _gradients_of(x) if recipe.kind.gradients else _product_of(x)


def _product_of(x: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Multiplies rows [B, q, k] by a weight [p, q, k] and adds a bias; returns spectra, too."""
    rows, weight, bias = x
    of_x, of_w = (_slots(matrix) for matrix in (rows, weight))
    y = _blocks(_products("jsi,jsb->isb", of_w, of_x), bias.shape[-1]) + bias
    return [y.flatten(1), *(_padded(part, bias.shape[-1]) for part in (of_x, of_w))]


def _gradients_of(x: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the gradients of rows and weight from that of the result, [B, p, k]."""
    grad, of_x, of_w = x
    batch, p, k = grad.shape
    of_x, of_w, of_grad = of_x[..., :batch], of_w[..., :p], _slots(grad)
    by_x = _blocks(_products("jsi,isb->jsb", of_w, of_grad, True), k)
    by_w = _blocks(_products("jsb,isb->jsi", of_x, of_grad, True), k)
    return [by_x.flatten(1), by_w.flatten(1)]


def _slots(matrix: torch.Tensor) -> torch.Tensor:
    """Returns the spectra [blocks, (part, slot), rows] of a matrix [rows, blocks, k]."""
    there, _ = _tables(matrix.shape[-1], matrix.device)
    return (matrix @ there).permute(1, 2, 0)


def _blocks(spectra: torch.Tensor, k: int) -> torch.Tensor:
    _, back = _tables(k, spectra.device)
    return spectra.permute(2, 0, 1) @ back


def _tables(k: int, device: torch.device) -> list[torch.Tensor]:
    """Returns the kernels' matrices for one block, of which their tables hold several."""
    from nki_kernels.convolution.block_circulant import (  # only its users load the kernels
        block_circulant_tables,
        spectra_shape,
    )

    there, back = block_circulant_tables(k)
    height = spectra_shape(1, k, 1)[1]
    return [torch.from_numpy(part).to(device) for part in (there[:k, :height], back[:height, :k])]


def _products(sum: str, x: torch.Tensor, y: torch.Tensor, conj: bool = False) -> torch.Tensor:
    """Multiplies x, or its conjugate, by y; the parts of slot 0 are two real frequencies."""
    (a, b), (c, d) = x.chunk(2, 1), y.chunk(2, 1)
    ac, bd, ad, bc = (torch.einsum(sum, *pair) for pair in ((a, c), (b, d), (a, d), (b, c)))
    real, imag = (ac + bd, ad - bc) if conj else (ac - bd, ad + bc)
    parts = [torch.cat([ac[:, :1], real[:, 1:]], 1), torch.cat([bd[:, :1], imag[:, 1:]], 1)]
    return torch.cat(parts, 1)


def _padded(spectra: torch.Tensor, k: int) -> torch.Tensor:
    """Returns the spectra with the gaps between rows that the kernels leave."""
    from nki_kernels.convolution.block_circulant import spectra_shape

    blocks, _, rows = spectra.shape
    pitch = spectra_shape(blocks, k, rows)[2]
    return torch.nn.functional.pad(spectra, (0, pitch - rows))
