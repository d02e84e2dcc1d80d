"""Spectral convolutions, the Fourier layers of neural operators: one launch, or two transforms.

    y = F^-1 (W . F x)          dx = F^-1 (W^H . D)          dW = sum_b conj X . D

F is a transform of real data of which few frequencies X are kept, W mixes the channels of each of
them, and D are the kept frequencies of the gradient of y, times the factors of the inverse. On
backends with NKI kernels the planner chooses between a kernel for the whole layer and the
operations below. The kernel leaves X to a second kernel, which computes both gradients.

The operators are `trnfft::spectral_convolution`, `trnfft::spectral_convolution_kept`, whose second
result is X, and `trnfft::spectral_gradients` of torch.library. Compiled graphs contain these
operators, which choose when they run. Graphs of TorchNeuron contain launches instead, which are
chosen while the graph is made.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import torch

from trnfft.backends.backend import Backend, Call
from trnfft.backends.choice import named
from trnfft.backends.half_spectrum import interior
from trnfft.base import cache, config
from trnfft.base.autograd_types import Context, Gradients
from trnfft.base.devices import backend_for
from trnfft.base.torch_private import is_forward_mode, keep_from_compiler
from trnfft.complex.dispatch import Parts
from trnfft.complex.given_parts import PART_DTYPE_OF
from trnfft.complex.parts import Values, parts_of_values
from trnfft.complex.products import bilinear_parts
from trnfft.ops import autocast
from trnfft.ops.operand import Operand, operand_of
from trnfft.ops.operators import one_by_one, recipe_for
from trnfft.ops.reference import reference_of
from trnfft.ops.transforms import owned, transformed, transformed_values
from trnfft.planner import kinds

if TYPE_CHECKING:
    from trnfft.planner.plan import Recipe

PRECISIONS = ("fast", "bf16", "bf16_refined")  # modes that kernels for whole layers have
_BY_TRANSFORMS = "spectral_gradients_by_transforms"  # a step of graphs that is no kernel
Kind = Literal["", "keeps", "gradients"]  # of a launch: the arguments of its plan


def spectral_convolution(given: Operand, weight: Parts, is_centered: bool = False) -> torch.Tensor:
    """Mixes the channels of the lowest frequencies of real data. Differentiable, also twice.

    Args:
        given: float32 or float64, [B, Ci, *points].
        weight: both parts, of the dtype of the data, [Ci, Co, *frequencies]. Along the last axis
            they are 0, 1, ..., along other axes 0, 1, ... and then the negative ones, which are as
            many or one less.
        is_centered: whether the negative ones come first.

    Returns:
        [B, Co, *points].
    """
    x, (real, imag) = given.like, weight
    if not given.is_plain(real, imag):
        return _without_autocast(given, weight, is_centered)
    keeps = torch.is_grad_enabled() and (real.requires_grad or imag.requires_grad)
    if given.is_neuron_graph:
        return _in_neuron_graph(given, weight, is_centered, keeps)
    if given.is_in_graph:
        if not keeps:
            return _convolution(x, real, imag, is_centered, False, "")
        return _kept(x, real, imag, is_centered, "")[0]
    backend = _kernel_backend(given, real, keeps)
    # Operators switch autocast off in the backward pass, too. They have no forward mode.
    is_operator = backend or autocast.is_on(x.device)
    if not is_operator or is_forward_mode():
        return _without_autocast(given, weight, is_centered)
    if keeps:
        return _Kept.apply(x, real, imag, is_centered, backend)[0]
    return _Convolution.apply(x, real, imag, is_centered, False, backend)


def _without_autocast(given: Operand, weight: Parts, is_centered: bool) -> torch.Tensor:
    with autocast.switched_off(given.like.device):
        return by_transforms(given, weight, is_centered)[0]


def _in_neuron_graph(given: Operand, weight: Parts, is_centered: bool, keeps: bool) -> torch.Tensor:
    """Computes `spectral_convolution` in a graph of TorchNeuron, in one launch if plans say so."""
    from trnfft.ops import neuron_graph, neuron_launches  # here: they load torch's compiler

    neuron_graph.check_shapes_are_static()
    x = given.like
    # operator.index fixes numbers that Dynamo may keep open, because a kernel has one shape.
    sizes, shape = (tuple(map(operator.index, tensor.shape)) for tensor in (x, weight.real))
    is_followed = torch.is_grad_enabled() and x.requires_grad
    forward = _step(sizes, shape, is_centered, keeps, x.device)
    if not forward:
        return by_transforms(given, weight, is_centered)[0]
    backward = ""
    if keeps or is_followed:
        backward = _backward_step(sizes, shape, is_centered, keeps)
        if not backward:
            return by_transforms(given, weight, is_centered)[0]
    results: list[tuple[int, ...]] = [(sizes[0], shape[1], math.prod(sizes[2:]))]
    if keeps:
        results.append((sizes[0], math.prod(shape[2:]), 2, shape[0]))
    tensors = x.flatten(2), weight.real.flatten(2), weight.imag.flatten(2)
    y = neuron_launches.launch(tensors, tuple(results), forward, backward)[0]
    return y.reshape(sizes[0], shape[1], *sizes[2:])


@cache.constant_when_compiled
def _step(
    x: tuple[int, ...],
    weight: tuple[int, ...],
    is_centered: bool,
    keeps: bool,
    device: torch.device,
) -> str:
    """Returns the text of the step that computes a layer of these shapes, or "" for transforms."""
    if config.get_precision() not in PRECISIONS or backend_for(device) != "nki":
        return ""
    recipe = _recipe(x, weight, is_centered, "keeps" if keeps else "")
    if recipe is None:
        return ""
    from trnfft.ops.neuron_launches import Step  # here: it loads torch's compiler

    return Step(recipe).text()


@cache.constant_when_compiled
def _backward_step(
    x: tuple[int, ...], weight: tuple[int, ...], is_centered: bool, keeps: bool
) -> str:
    """Returns the text of the step that computes the gradients, of x alone or of all tensors.

    "" where several launches would, whose precision is not known when they run.
    """
    from trnfft.ops import neuron_launches  # here: it loads torch's compiler

    inputs, outputs, *counts = weight
    if keeps:
        recipe = _recipe(x, weight, is_centered, "gradients")
    else:
        recipe = _recipe((x[0], outputs, *x[2:]), (outputs, inputs, *counts), is_centered)
    if recipe is None:
        if config.get_precision() != "fast":
            return ""
        from trnfft.planner.plan import Recipe

        neuron_launches.SEVERAL[_BY_TRANSFORMS] = _gradients_by_launches
        layer = kinds.SpectralGradients(inputs, outputs, x[2:], tuple(counts), is_centered)
        recipe = Recipe(_BY_TRANSFORMS, layer)
    return neuron_launches.Step(recipe, inverse=not keeps).text()


def _kernel_backend(given: Operand, weight: torch.Tensor, keeps: bool) -> str:
    """Returns the backend with a kernel for the layer or its gradients, or "" without one."""
    name = given.kernel_backend(PRECISIONS)
    if not name:
        return ""
    x = given.like
    kinds: tuple[Kind, ...] = ("keeps", "gradients") if keeps else ("",)
    sizes, execution = (tuple(x.shape), tuple(weight.shape)), given.execution
    recipes = [_recipe(*sizes, False, kind, execution) for kind in kinds]
    return "" if all(recipe is None for recipe in recipes) else name


def _recipe(
    x: tuple[int, ...],
    weight: tuple[int, ...],
    is_centered: bool,
    kind: Kind = "",
    execution: str = "graph",
) -> Recipe | None:
    """Returns the recipe of the kernel for these shapes, or None where transforms are cheaper."""
    sizes = weight[0], weight[1], x[2:], weight[2:], is_centered
    layer = (
        kinds.SpectralGradients(*sizes)
        if kind == "gradients"
        else kinds.SpectralLayer(*sizes, keeps_spectra=kind == "keeps")
    )
    return recipe_for(layer, x[0], config.get_precision(), execution)


# By two transforms, and operations of torch between them.


def by_transforms(given: Operand, weight: Parts, is_centered: bool) -> tuple[torch.Tensor, Values]:
    """Computes `spectral_convolution` by two transforms; returns its kept frequencies, too."""
    low = kept_spectrum(given, weight.real.shape[2:], is_centered)
    mixed = mix_channels(low, weight)
    return inverse_of_kept(given, mixed, tuple(given.like.shape[2:]), is_centered), low


def kept_spectrum(given: Operand, counts: Sequence[int], is_centered: bool) -> Values:
    """Returns the lowest frequencies of real data [B, C, *points] in the order of the weight."""
    lengths = tuple(given.like.shape[2:])
    call = Call("r2c", False, lengths, tuple(range(2, given.like.ndim)))
    return kept_of(transformed_values(given, call), counts, is_centered)


def kept_of(spectrum: Values, counts: Sequence[int], is_centered: bool) -> Values:
    """Returns the lowest frequencies of half a spectrum in the order of the weight."""
    cut = tuple([part[..., : counts[-1]] for part in spectrum])
    low = lowest(cut, signed_counts(counts))
    return _rolled(low, counts, 1) if is_centered else low


def inverse_of_kept(
    given: Operand, low: Values, lengths: tuple[int, ...], is_centered: bool
) -> torch.Tensor:
    """Returns real data [B, C, *lengths] whose spectrum is 0 but for its lowest frequencies."""
    spectrum = spectrum_of(low, lengths, is_centered)
    call = Call("c2r", True, lengths, tuple(range(2, 2 + len(lengths))))
    return transformed(given.of(*spectrum), call)


def spectrum_of(low: Values, lengths: tuple[int, ...], is_centered: bool) -> Values:
    """Returns the inverse of `kept_of`, with zeros; along the last axis they may be left out."""
    counts = low[0].shape[2:]
    if is_centered:
        low = _rolled(low, counts, -1)
    return spread(low, signed_counts(counts), lengths)


def _rolled(low: Values, counts: Sequence[int], sign: int) -> Values:
    """Returns frequencies with the negative ones first, or last for the sign -1."""
    dims = tuple(range(2, 1 + len(counts)))
    shifts = tuple(sign * (count // 2) for count in counts[:-1])
    return tuple([part.roll(shifts, dims) for part in low]) if dims else low


def signed_counts(counts: Sequence[int]) -> list[tuple[int, int]]:
    """Returns, for all axes but the last, how many frequencies from 0 on are kept, and below 0."""
    return [(count - count // 2, count // 2) for count in counts[:-1]]


def lowest(spectrum: Values, signed: Sequence[tuple[int, int]]) -> Values:
    """Returns the lowest frequencies of a spectrum [B, C, ..., F] in all dimensions but the last.

    Args:
        spectrum: the spectrum.
        signed: for each of these dimensions, how many frequencies from 0 on to keep, and how many
            below 0, which follow.
    """

    def cut(part: torch.Tensor) -> torch.Tensor:
        for dim, (positive, negative) in enumerate(signed, 2):
            size = part.shape[dim]
            ends = part.narrow(dim, 0, positive), part.narrow(dim, size - negative, negative)
            part = torch.cat(ends, dim)
        return part

    return tuple([cut(part) for part in spectrum])


def spread(low: Values, signed: Sequence[tuple[int, int]], sizes: Sequence[int]) -> Values:
    """Returns the inverse of `lowest`: a spectrum of these sizes, with zeros elsewhere."""

    def pad(part: torch.Tensor) -> torch.Tensor:
        for dim, ((positive, negative), size) in enumerate(zip(signed, sizes, strict=False), 2):
            gap = (0, 0) * (part.ndim - 1 - dim) + (0, size - positive - negative)
            first = torch.nn.functional.pad(part.narrow(dim, 0, positive), gap)
            part = torch.cat([first, part.narrow(dim, positive, negative)], dim)
        return part

    return tuple([pad(part) for part in low])


def mix_channels(spectrum: Values, weight: Parts) -> Values:
    """Returns the channels mixed by a matrix for every frequency, in the dtype of the spectrum."""
    return _product("bi...,io...->bo...", spectrum, weight)


def multiply(spectrum: Values, weight: Parts) -> Values:
    """Returns each channel multiplied by a number for every frequency, as `mix_channels` does."""
    return _product("bi...,i...->bi...", spectrum, weight)


def _product(sum: str, x: Values, y: Parts) -> Values:
    """Returns a sum of products of complex numbers, held as x is, without autocast."""
    dtype = PART_DTYPE_OF.get(x[0].dtype, x[0].dtype)
    if y.real.dtype != dtype:
        y = Parts(y.real.to(dtype), y.imag.to(dtype))
    if len(x) == 1:
        return (torch.einsum(sum, x[0], torch.complex(*y)),)
    with autocast.switched_off(x[0].device):
        return tuple(_product_of_parts(sum, Parts(*x), y))


def _product_of_parts(sum: str, x: Parts, y: Parts) -> Parts:
    return bilinear_parts(partial(torch.einsum, sum), x, y)


@reference_of(kinds.SpectralLayer, kinds.SpectralGradients)
def reference(
    recipe: Recipe, x: tuple[torch.Tensor, ...], inverse: bool, scale: float
) -> list[torch.Tensor]:
    """Returns what the kernel of a recipe returns, by torch.fft: see `trnfft.ops.reference`."""
    layer = recipe.kind
    is_gradient = len(x) == 4  # of which the kept spectra are one
    is_centered = layer.negative_first
    weight = Parts(*(part.unflatten(2, layer.kept) for part in x[-2:]))
    if inverse or is_gradient:
        weight = adjoint(weight)
    dims = tuple(range(2, 2 + len(layer.lengths)))
    spectrum = torch.fft.rfftn(x[0].unflatten(2, layer.lengths), dim=dims)
    low = kept_of((spectrum,), layer.kept, is_centered)
    (mixed,) = spectrum_of(mix_channels(low, weight), layer.lengths, is_centered)
    y = torch.fft.irfftn(mixed, layer.lengths, dims).flatten(2)
    if is_gradient:
        parts = by_weight(low, x[1], layer.kept, layer.lengths)
        return [y, *(part.flatten(2) for part in parts)]
    return [y, by_frequency(low)] if layer.keeps_spectra else [y]


# The operators.


@torch.library.custom_op("trnfft::spectral_convolution", mutates_args=())
def _convolution(
    x: torch.Tensor,
    real: torch.Tensor,
    imag: torch.Tensor,
    is_centered: bool,
    is_adjoint: bool,
    backend: str,
) -> torch.Tensor:
    """Computes `spectral_convolution`, or that with the adjoint weight; backend: "" to choose."""
    forward = real.transpose(0, 1) if is_adjoint else real
    given = operand_of(x)
    backend = backend or _kernel_backend(given, forward, False)
    sizes, execution = (tuple(x.shape), tuple(forward.shape)), given.execution
    recipe = _recipe(*sizes, is_centered, "", execution) if backend else None
    if recipe is None:
        weight = adjoint(Parts(real, imag)) if is_adjoint else Parts(real, imag)
        return owned(_without_autocast(given, weight, is_centered))
    parts = (x.flatten(2), real.flatten(2), imag.flatten(2))
    (y,) = named(backend).run(recipe, parts, is_adjoint)
    return owned(y.reshape(x.shape[0], forward.shape[1], *x.shape[2:]))


@torch.library.custom_op("trnfft::spectral_convolution_kept", mutates_args=())
def _kept(
    x: torch.Tensor, real: torch.Tensor, imag: torch.Tensor, is_centered: bool, backend: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the convolution, and the kept frequencies of x as [B, frequencies, part, Ci]."""
    given = operand_of(x)
    backend = backend or _kernel_backend(given, real, True)
    sizes, execution = (tuple(x.shape), tuple(real.shape)), given.execution
    recipe = _recipe(*sizes, is_centered, "keeps", execution) if backend else None
    if recipe is None:
        with autocast.switched_off(x.device):
            y, low = by_transforms(given, Parts(real, imag), is_centered)
        return owned(y), by_frequency(low)
    parts = (x.flatten(2), real.flatten(2), imag.flatten(2))
    y, spectra = named(backend).run(recipe, parts)
    return owned(y.reshape(x.shape[0], real.shape[1], *x.shape[2:])), owned(spectra)


@torch.library.custom_op("trnfft::spectral_gradients", mutates_args=())
def _gradients(
    grad: torch.Tensor,
    spectra: torch.Tensor,
    real: torch.Tensor,
    imag: torch.Tensor,
    is_centered: bool,
    backend: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns the gradients of x and of both parts of the weight."""
    lengths = tuple(grad.shape[2:])
    x = (grad.shape[0], real.shape[0], *lengths)
    given = operand_of(grad)
    backend = backend or given.kernel_backend(PRECISIONS)
    sizes, execution = (x, tuple(real.shape)), given.execution
    recipe = _recipe(*sizes, is_centered, "gradients", execution) if backend else None
    if recipe is None:
        with autocast.switched_off(grad.device):
            dx, d_real, d_imag = gradients_by_transforms(
                grad, spectra, Parts(real, imag), is_centered
            )
        return owned(dx), owned(d_real), owned(d_imag)
    parts = (grad.flatten(2), spectra, real.flatten(2), imag.flatten(2))
    by_x, *by_weight = named(backend).run(recipe, parts)
    dw = [owned(part.reshape(real.shape)) for part in by_weight]
    return owned(by_x.reshape(x)), dw[0], dw[1]


def gradients_by_transforms(
    grad: torch.Tensor, spectra: torch.Tensor, weight: Parts, is_centered: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Computes `_gradients` by operations that have derivatives."""
    counts, lengths, given = weight.real.shape[2:], tuple(grad.shape[2:]), operand_of(grad)
    of_grad = kept_spectrum(given, counts, is_centered)
    by_x = inverse_of_kept(given, mix_channels(of_grad, adjoint(weight)), lengths, is_centered)
    return by_x, *by_weight(of_grad, spectra, counts, lengths)


def _gradients_by_launches(
    backend: Backend, tensors: Sequence[torch.Tensor], recipe: Recipe
) -> list[torch.Tensor]:
    """Computes `gradients_by_transforms` of flat tensors, by the transforms of a backend.

    Without spectra among the tensors, it returns the gradient of x alone.
    """
    grad, *kept, real, imag = tensors
    layer = recipe.kind
    lengths, counts, is_centered = layer.lengths, layer.kept, layer.negative_first
    weight = Parts(*(part.unflatten(2, counts) for part in (real, imag)))
    with autocast.switched_off(grad.device):
        forward = Call("r2c", False, lengths, precision="fast")
        halves = backend.r2c((grad.unflatten(2, lengths),), forward)
        of_grad = kept_of(halves, counts, is_centered)
        spectra = spectrum_of(mix_channels(of_grad, adjoint(weight)), lengths, is_centered)
        missing = (0, lengths[-1] // 2 + 1 - counts[-1])
        spectra = tuple([torch.nn.functional.pad(part, missing) for part in spectra])
        (by_x,) = backend.c2r(spectra, Call("c2r", True, lengths, precision="fast"))
        gradients = [by_x.flatten(2)]
        if kept:
            parts = by_weight(of_grad, kept[0], counts, lengths)
            gradients += [part.flatten(2) for part in parts]
    return [owned(gradient) for gradient in gradients]


def adjoint(weight: Parts) -> Parts:
    """Returns the weight W^H, with the channels exchanged."""
    return Parts(weight.real.transpose(0, 1), -weight.imag.transpose(0, 1))


def by_weight(
    of_grad: Values,
    spectra: torch.Tensor,
    counts: Sequence[int],
    lengths: tuple[int, ...],
) -> Parts:
    """Returns the gradient of the weight from the kept frequencies of grad, and those of x."""
    parts = _by_channels(spectra, counts)
    conjugates = Parts(parts.real, -parts.imag)
    real, imag = parts_of_values(_product("bo...,bi...->io...", of_grad, conjugates))
    factors = _inverse_factors(spectra, lengths, counts[-1])
    return Parts(real * factors, imag * factors)


def by_frequency(low: Values) -> torch.Tensor:
    """Returns kept frequencies [B, C, *frequencies] as a kernel does, [B, frequencies, part, C]."""
    parts = torch.stack(parts_of_values(low), 1).flatten(3)
    return parts.permute(0, 3, 1, 2).contiguous()


def _by_channels(spectra: torch.Tensor, counts: Sequence[int]) -> Parts:
    """Returns kept frequencies [B, frequencies, part, C] as both parts [B, C, *frequencies]."""
    shape = (*spectra.shape[:1], spectra.shape[3], *counts)
    return Parts(*(part.mT.reshape(shape) for part in spectra.unbind(2)))


def _inverse_factors(like: torch.Tensor, lengths: tuple[int, ...], count: int) -> torch.Tensor:
    """Returns the factors of the inverse transform of real data, for the last axis [count]."""
    return interior(like, lengths[-1], 2.0)[:count] / math.prod(lengths)


@_convolution.register_fake
def _(
    x: torch.Tensor,
    real: torch.Tensor,
    imag: torch.Tensor,
    is_centered: bool,
    is_adjoint: bool,
    backend: str,
) -> torch.Tensor:
    return x.new_empty(x.shape[0], real.shape[0 if is_adjoint else 1], *x.shape[2:])


@_kept.register_fake
def _(x: torch.Tensor, real: torch.Tensor, *others: object) -> tuple[torch.Tensor, torch.Tensor]:
    y = x.new_empty(x.shape[0], real.shape[1], *x.shape[2:])
    return y, x.new_empty(x.shape[0], math.prod(real.shape[2:]), 2, real.shape[0])


@_gradients.register_fake
def _(
    grad: torch.Tensor,
    spectra: torch.Tensor,
    real: torch.Tensor,
    imag: torch.Tensor,
    *others: object,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x = grad.new_empty(grad.shape[0], real.shape[0], *grad.shape[2:])
    return x, torch.empty_like(real), torch.empty_like(imag)


# Their derivatives.


def _setup_convolution(
    ctx: Context,
    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor, bool, bool, str],
    output: object,
) -> None:
    _, real, imag, *ctx.settings = inputs
    ctx.save_for_backward(real, imag)


def _backward_of_convolution(ctx: Context, grad: torch.Tensor) -> Gradients:
    """Returns the gradient of x alone, because no part of the weight needs one."""
    real, imag = ctx.saved_tensors
    is_centered, is_adjoint, backend = ctx.settings
    by_x = _convolution(grad.contiguous(), real, imag, is_centered, not is_adjoint, backend)
    return by_x, None, None, None, None, None


def _setup_kept(
    ctx: Context,
    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor, bool, str],
    output: tuple[torch.Tensor, torch.Tensor],
) -> None:
    x, real, imag, ctx.is_centered, ctx.backend = inputs
    ctx.lengths = tuple(x.shape[2:])
    ctx.save_for_backward(real, imag, output[1])
    ctx.set_materialize_grads(False)


def _backward_of_kept(
    ctx: Context, grad: torch.Tensor | None, of_spectra: torch.Tensor | None
) -> Gradients:
    real, imag, spectra = ctx.saved_tensors
    weight, gradients = Parts(real, imag), list[torch.Tensor | None]((None, None, None))
    if grad is not None and not torch.is_grad_enabled():
        settings = ctx.is_centered, ctx.backend
        gradients = list(_gradients(grad.contiguous(), spectra, real, imag, *settings))
    elif grad is not None:
        with autocast.switched_off(grad.device):
            gradients = list(gradients_by_transforms(grad, spectra, weight, ctx.is_centered))
    if of_spectra is not None:
        parts = _by_channels(of_spectra, real.shape[2:])
        factors = _inverse_factors(real, ctx.lengths, real.shape[-1])
        low = tuple([part / factors for part in parts])
        more = inverse_of_kept(operand_of(of_spectra), low, ctx.lengths, ctx.is_centered)
        by_x = gradients[0]
        gradients[0] = more if by_x is None else by_x + more
    return (*gradients, None, None)


_convolution.register_autograd(_backward_of_convolution, setup_context=_setup_convolution)
_kept.register_autograd(_backward_of_kept, setup_context=_setup_kept)


class _Convolution(torch.autograd.Function):
    """`_convolution` in eager mode, where torch.func transforms it."""

    generate_vmap_rule = True
    forward = staticmethod(_convolution)
    setup_context = staticmethod(_setup_convolution)

    @staticmethod
    def backward(ctx: Context, grad: torch.Tensor) -> Gradients:
        real, imag = ctx.saved_tensors
        is_centered, is_adjoint, backend = ctx.settings
        by_x = _Convolution.apply(grad, real, imag, is_centered, not is_adjoint, backend)
        return by_x, None, None, None, None, None


class _Kept(torch.autograd.Function):
    """`_kept` in eager mode. The spectra are a result, so that second derivatives exist."""

    generate_vmap_rule = True
    forward = staticmethod(_kept)
    setup_context = staticmethod(_setup_kept)
    backward = staticmethod(_backward_of_kept)


for _function in (_backward_of_kept, _Convolution.backward):
    keep_from_compiler(_function)


_convolution.register_vmap(one_by_one(_convolution, is_foldable=True))
_kept.register_vmap(one_by_one(_kept))
_gradients.register_vmap(one_by_one(_gradients))
