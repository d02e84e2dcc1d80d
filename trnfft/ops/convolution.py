"""Convolutions in one launch: real data times a spectrum, on backends with NKI kernels.

    y = crop(F^-1 (F pad(x) . H))

DMA pads and crops, by moving only the numbers that exist. The operators are `trnfft::convolve_rows`
and `trnfft::convolve_images` of torch.library. The derivative of each in x is the same operator
with conj H, and with padding and cropping exchanged. The derivative of rows in H is a product of
spectra. Images have no derivative in H, because filters of images are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from trnfft.backends.backend import Call, Parts
from trnfft.backends.choice import named
from trnfft.base.autograd_types import BatchInfo, Context, Gradients, InDims
from trnfft.base.devices import backend_for
from trnfft.complex.kinds import made_of
from trnfft.complex.parts import values_of
from trnfft.ops.operand import Operand
from trnfft.ops.operators import BatchedResults, batch_first, one_by_one
from trnfft.ops.reference import reference_of
from trnfft.ops.transforms import owned, rfft, transformed
from trnfft.planner import kinds

if TYPE_CHECKING:
    from trnfft.planner.plan import Recipe


def has_kernels(given: Operand, *others: torch.Tensor) -> bool:
    """Returns whether kernels convolve these tensors; False in graphs, where it is unknown."""
    if any(x.dtype != torch.float32 or x.numel() == 0 for x in (given.like, *others)):
        return False
    return bool(given.kernel_backend())


def has_rows_kernel_for(n: int) -> bool:
    """Returns whether `convolve_rows` accepts rows of n points."""
    from trnfft.planner.algorithms import ROW_CONVOLUTION  # here: only its users load the kernels

    return not ROW_CONVOLUTION.why_not(n)


def convolve_rows(
    x: torch.Tensor, h: torch.Tensor, n: int | None = None, kept: int | None = None
) -> torch.Tensor:
    """Convolves real rows x [..., L], circularly, by half spectra h [..., N // 2 + 1].

    Leading dimensions broadcast. Differentiable in x and h. To be called only where `has_kernels`
    and `has_rows_kernel_for` are true.

    Args:
        n: N, at least the L points of x, which zeros follow. Default: L.
        kept: how many points of the result are returned, from the first on. Default: N.
    """
    n = x.shape[-1] if n is None else n
    return _ConvolveRows.apply(
        x, h.real, h.imag, n, n if kept is None else kept, backend_for(x.device)
    )


def filtered_rows(
    given: Operand, h: torch.Tensor, n: int | None = None, kept: int | None = None
) -> torch.Tensor:
    """Computes `convolve_rows` on any backend: by two transforms where no kernel does it."""
    x = given.like
    n = x.shape[-1] if n is None else n
    if has_kernels(given, h.real) and has_rows_kernel_for(n):
        return convolve_rows(x, h, n, kept)
    padded = torch.nn.functional.pad(x, (0, n - x.shape[-1]))
    size, dims = (padded.shape[-1],), (x.ndim - 1,)
    spectra = transformed(given.of(padded), Call("r2c", False, size, dims)) * h
    y = transformed(given.of(*values_of(spectra)), Call("c2r", True, size, dims))
    return y[..., :kept]


def convolve_images(
    x: torch.Tensor, h: torch.Tensor, padded: tuple[int, int], kept: tuple[int, int]
) -> torch.Tensor:
    """Convolves real images x [..., h, w], padded with zeros to [M, N], and crops them to `kept`.

    Args:
        x: float32.
        h: spectrum of the filter by `spectrum_for_images`, [..., N // 2 + 1, M]. It has no leading
            dimension, or one, which is the dimension before the last two of x. It gets no gradient.
        padded: (M, N).
        kept: sizes of the result, from the first row and column on.
    """
    backend = backend_for(x.device)
    return _ConvolveImages.apply(x, h.real, h.imag, *padded, *kept, backend)


def spectrum_for_images(h: torch.Tensor) -> torch.Tensor:
    """Returns half spectra [..., M, C] as [..., C, M], in the order in which stages leave M."""
    # Here, so that only its users load the kernels.
    from nki_kernels.convolution.image_convolution import column_radices

    pairs = column_radices(h.shape[-2])
    if not pairs:
        raise NotImplementedError(f"no kernel convolves columns of {h.shape[-2]} points")
    radix, left = pairs[0]

    def ordered(part: torch.Tensor) -> torch.Tensor:
        digits = part.transpose(-2, -1).unflatten(-1, (left, radix))
        return digits.transpose(-2, -1).flatten(-2).contiguous()

    return made_of(ordered(h.real), ordered(h.imag), h)


@reference_of(kinds.Convolution)
def reference(recipe: Recipe, x: Parts, inverse: bool, scale: float) -> list[torch.Tensor]:
    """Returns what the kernel of a recipe returns, by torch.fft: see `trnfft.ops.reference`."""
    return [_convolved_images(recipe, x) if recipe.passes else _convolved_rows(recipe, x)]


def _convolved_rows(recipe: Recipe, x: Parts) -> torch.Tensor:
    rows, real, imag = x
    spectra = torch.fft.rfft(rows, recipe.n) * torch.complex(real, imag)
    return torch.fft.irfft(spectra, recipe.n)[..., : recipe.kind.results[0]]


def _convolved_images(recipe: Recipe, x: Parts) -> torch.Tensor:
    """Convolves images [B, h, w]: image i by spectrum i modulo F of [F, N // 2 + 1, M]."""
    images, *parts = x
    size, (height, width) = recipe.kind.lengths, recipe.kind.results
    # The columns of the spectra are in the order of `spectrum_for_images`.
    first, second = recipe.passes[1].recipe.radices
    real, imag = (
        part.unflatten(-1, (first, second)).mT.flatten(-2).transpose(-2, -1) for part in parts
    )
    filters = torch.complex(real, imag)
    spectra = torch.fft.rfft2(images, size).unflatten(0, (-1, len(filters))) * filters
    return torch.fft.irfft2(spectra, size).flatten(0, 1)[..., :height, :width]


@torch.library.custom_op("trnfft::convolve_rows", mutates_args=())
def _convolve_rows(
    x: torch.Tensor, real: torch.Tensor, imag: torch.Tensor, n: int, kept: int, backend: str
) -> torch.Tensor:
    """Computes `convolve_rows`."""
    from trnfft.planner.planner import plan_for  # here: only its users load the kernels

    lead = torch.broadcast_shapes(x.shape[:-1], real.shape[:-1])
    rows = x.expand(*lead, -1).reshape(-1, x.shape[-1])
    spectra = [real, imag]
    if real.shape[:-1].numel() > 1:
        spectra = [part.expand(*lead, -1) for part in spectra]
    spectra = [part.reshape(-1, part.shape[-1]) for part in spectra]
    kind = kinds.Convolution((n,), (x.shape[-1],), (kept,))
    recipe = plan_for(kind, batch=rows.shape[0]).recipe
    (y,) = named(backend).run(recipe, (rows, *spectra))
    return owned(y.reshape(*lead, -1))


@torch.library.custom_op("trnfft::convolve_images", mutates_args=())
def _convolve_images(
    x: torch.Tensor,
    real: torch.Tensor,
    imag: torch.Tensor,
    padded: list[int],
    kept: list[int],
    backend: str,
) -> torch.Tensor:
    """Computes `convolve_images`."""
    from trnfft.planner.planner import plan_for  # here: only its users load the kernels

    images = x.reshape(-1, *x.shape[-2:])
    spectra = [part.reshape(-1, *part.shape[-2:]) for part in (real, imag)]
    kind = kinds.Convolution(tuple(padded), tuple(x.shape[-2:]), tuple(kept))
    recipe = plan_for(kind).recipe
    (y,) = named(backend).run(recipe, (images, *spectra))
    return owned(y.reshape(*x.shape[:-2], *kept))


@_convolve_rows.register_fake
def _(
    x: torch.Tensor, real: torch.Tensor, imag: torch.Tensor, n: int, kept: int, backend: str
) -> torch.Tensor:
    lead = torch.broadcast_shapes(x.shape[:-1], real.shape[:-1])
    return x.new_empty((*lead, kept))


@_convolve_images.register_fake
def _(
    x: torch.Tensor,
    real: torch.Tensor,
    imag: torch.Tensor,
    padded: list[int],
    kept: list[int],
    backend: str,
) -> torch.Tensor:
    return x.new_empty((*x.shape[:-2], *kept))


class _ConvolveRows(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(
        x: torch.Tensor, real: torch.Tensor, imag: torch.Tensor, n: int, kept: int, backend: str
    ) -> torch.Tensor:
        return _convolve_rows(x, real, imag, n, kept, backend)

    @staticmethod
    def setup_context(
        ctx: Context,
        inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, int, str],
        output: torch.Tensor,
    ) -> None:
        x, real, imag, ctx.n, _, ctx.backend = inputs
        ctx.save_for_backward(x, real, imag)
        ctx.save_for_forward(x, real, imag)
        ctx.set_materialize_grads(False)
        ctx.kept = output.shape[-1]

    @staticmethod
    def jvp(ctx: Context, *tangents: torch.Tensor | None) -> torch.Tensor:
        return _tangent(_ConvolveRows, ctx.saved_tensors, tangents, (ctx.n, ctx.kept, ctx.backend))

    @staticmethod
    def backward(ctx: Context, grad: torch.Tensor) -> Gradients:
        x, real, imag = ctx.saved_tensors
        by_x = by_real = by_imag = None
        if ctx.needs_input_grad[0]:
            by_x = _ConvolveRows.apply(grad, real, -imag, ctx.n, x.shape[-1], ctx.backend)
            by_x = by_x.sum_to_size(x.shape)
        if any(ctx.needs_input_grad[1:3]):
            n = ctx.n
            product = rfft(x, n).conj() * rfft(grad, n)
            # Numbers whose conjugates are not in the half spectrum count twice.
            weights = x.new_full((real.shape[-1],), 2.0 / n)
            weights[:: n // 2 if n % 2 == 0 else n] = 1.0 / n
            by_real = (product.real * weights).sum_to_size(real.shape)
            by_imag = (product.imag * weights).sum_to_size(imag.shape)
        return by_x, by_real, by_imag, None, None, None


class _ConvolveImages(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(
        x: torch.Tensor,
        real: torch.Tensor,
        imag: torch.Tensor,
        m: int,
        n: int,
        rows: int,
        columns: int,
        backend: str,
    ) -> torch.Tensor:
        return _convolve_images(x, real, imag, [m, n], [rows, columns], backend)

    @staticmethod
    def setup_context(
        ctx: Context,
        inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, int, int, int, str],
        output: torch.Tensor,
    ) -> None:
        x, real, imag, *ctx.settings = inputs
        ctx.held = x.shape[-2:]
        ctx.save_for_backward(real, imag)
        ctx.save_for_forward(x, real, imag)
        ctx.set_materialize_grads(False)

    @staticmethod
    def jvp(ctx: Context, *tangents: torch.Tensor | None) -> torch.Tensor:
        return _tangent(_ConvolveImages, ctx.saved_tensors, tangents, ctx.settings)

    @staticmethod
    def backward(ctx: Context, grad: torch.Tensor) -> Gradients:
        real, imag = ctx.saved_tensors
        m, n, *_, backend = ctx.settings
        by_x = _ConvolveImages.apply(grad, real, -imag, m, n, *ctx.held, backend)
        return by_x, *(None,) * 7


def _tangent(
    function: type[torch.autograd.Function],
    tensors: Sequence[torch.Tensor],
    tangents: Gradients,
    settings: Sequence[int | str],
) -> torch.Tensor:
    """Returns the tangent of a convolution, which is linear in its data and in its spectrum."""
    (x, real, imag), (of_x, of_real, of_imag, *_) = tensors, tangents
    sums = [] if of_x is None else [function.apply(of_x, real, imag, *settings)]
    if of_real is not None or of_imag is not None:
        of_real = torch.zeros_like(real) if of_real is None else of_real
        of_imag = torch.zeros_like(imag) if of_imag is None else of_imag
        sums.append(function.apply(x, of_real, of_imag, *settings))
    return sum(sums[1:], sums[0])


def _batched_images(
    info: BatchInfo, in_dims: InDims, x: torch.Tensor, *others: object
) -> BatchedResults:
    """The vmap rule: one more leading dimension, or a launch for each spectrum."""
    if in_dims[0] is not None and in_dims[1] is None and in_dims[2] is None:
        return _convolve_images(x.movedim(in_dims[0], 0), *others), 0
    return one_by_one(_convolve_images)(info, in_dims, x, *others)


def _batched_rows(info: BatchInfo, in_dims: InDims, *arguments: object) -> BatchedResults:
    """The vmap rule: one more leading dimension, the same for all tensors."""
    tensors = batch_first(info, in_dims, arguments)
    most = max(x.ndim for x in tensors)
    aligned = [x.reshape(x.shape[0], *(1,) * (most - x.ndim), *x.shape[1:]) for x in tensors]
    return _convolve_rows(*aligned, *arguments[3:]), 0


_convolve_rows.register_vmap(_batched_rows)
_convolve_images.register_vmap(_batched_images)
