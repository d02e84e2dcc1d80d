"""Replaces the backends while a model is checked.

`Planned` replaces the kernels: it asks the planner as the backend "nki" does, notes each launch in
the one method that calls kernels, and computes the numbers by torch.fft. It also notes and computes
the transforms that the kernels refuse, so that the model goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

import torch

from nki_kernels.convolution.block_circulant import block_circulant_tables, spectra_shape
from trnfft.backends.backend import Backend, Call, Parts
from trnfft.backends.matmul import Matmul
from trnfft.backends.nki import Nki
from trnfft.backends.torch_native import TorchNative
from trnfft.complex import dispatch
from trnfft.ops.spectral_convolution import (
    adjoint,
    by_frequency,
    by_weight,
    kept_of,
    spectrum_of,
)
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.algorithms.spectral_convolution import SpectralConvolution
from trnfft.planner.plan import Recipe
from trnfft.planner.problem import (
    C2C,
    C2R,
    CIRCULANT,
    CONVOLUTION,
    FRAME_KINDS,
    FRAME_SPECTRA,
    R2C,
    REAL_PLANES,
    SPECTRAL,
    SPECTRAL_GRADIENTS,
    SPECTRAL_KINDS,
)

NAMES = {C2C: "fft", R2C: "rfft", C2R: "irfft"}  # of transforms, in the report


class Listener(Protocol):
    """The object that the replaced backends report to."""

    def launched(self, recipe: Recipe, points: tuple[int, ...], batch: int, kind: str) -> None:
        """Notes the launch of a kernel."""

    def refused_by_kernels(self, kind: str, error: Exception) -> None:
        """Notes that no kernel computes a transform, and why."""

    def falls_back(self, kind: str, message: str) -> None:
        """Notes that something other than one kernel computes a transform."""

    def on_the_device(self) -> AbstractContextManager[Any]:
        """Counts the operators of torch in a block as the device's."""

    def apart(self) -> AbstractContextManager[Any]:
        """Notes nothing in a block, in which the functions of torch are torch's own."""


def in_place_of(backend: Backend, listener: Listener) -> Backend:
    """Returns the replacement of a backend, which reports to the listener."""
    if isinstance(backend, Nki):
        return Planned(listener)
    return OnTheHost(listener) if isinstance(backend, TorchNative) else Products(listener)


class Planned(Nki):
    """Moves data as the backend "nki" does, with torch.fft in place of the kernels."""

    def __init__(self, listener: Listener) -> None:
        super().__init__("nki")
        self.listener = listener
        self.asked = ""  # the transform; a kernel of another kind may compute it

    def c2c(self, parts: Parts, call: Call) -> Parts:
        return self._unless_refused(C2C, super().c2c, parts, call)

    def r2c(self, parts: Parts, call: Call) -> Parts:
        return self._unless_refused(R2C, super().r2c, parts, call)

    def c2r(self, parts: Parts, call: Call) -> Parts:
        return self._unless_refused(C2R, super().c2r, parts, call)

    def prepared(self, like: torch.Tensor, call: Call) -> Callable[[Parts], Parts]:
        return Backend.prepared(self, like, call)  # without a plan, which may raise

    def run(
        self, recipe: Recipe, x: Parts, inverse: bool = False, scale: float = 1.0
    ) -> list[torch.Tensor]:
        self._check(x[0])
        algorithm = ALGORITHMS[recipe.algorithm]
        algorithm.check_inputs(recipe, [tuple(part.shape) for part in x])
        with self.listener.on_the_device():
            x = tuple(part.contiguous() for part in x)
        points = _points(recipe, x, algorithm.kind)
        self.listener.launched(recipe, points, _batch(recipe, x), self.asked or algorithm.kind)
        with self.listener.apart():
            return _computed(recipe, x, Call(algorithm.kind, inverse, points, (), scale, "fast"))

    def _unless_refused(
        self, kind: str, method: Callable[[Parts, Call], Parts], parts: Parts, call: Call
    ) -> Parts:
        self.asked = kind
        try:
            with self.listener.on_the_device():
                return method(parts, call)
        except (NotImplementedError, TypeError) as error:
            self.listener.refused_by_kernels(kind, error)
        with self.listener.apart():
            whole: Parts = getattr(TorchNative(), kind)(parts, call._replace(precision="fast"))
            return whole

    def _recipe(self, kind: str, parts: Parts, call: Call) -> Recipe | None:
        recipe = super()._recipe(kind, parts, call)
        if recipe is None:
            shape = " x ".join(map(str, call.sizes))
            self.listener.falls_back(
                kind,
                f"no kernel transforms {shape} points in one launch: there is one launch for each "
                f"dimension",
            )
        return recipe

    def _check(self, x: torch.Tensor) -> None:
        """Raises a TypeError for other parts than float32; any device stands for a NeuronCore."""
        try:
            Nki._check(Nki("nki-sim"), x)
        except TypeError as error:
            raise TypeError(str(error).replace('"nki-sim"', '"nki"')) from None


class OnTheHost(TorchNative):
    """Transforms by torch.fft, which in the precision "double" runs on the host."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener

    def whole(self, x: Parts, call: Call, native: bool) -> torch.Tensor:
        self._note(call.kind, call.precision)
        with self.listener.apart():
            return super().whole(x, call, native)

    def c2c(self, parts: Parts, call: Call) -> Parts:
        return self._noted(C2C, super().c2c, parts, call)

    def r2c(self, parts: Parts, call: Call) -> Parts:
        return self._noted(R2C, super().r2c, parts, call)

    def c2r(self, parts: Parts, call: Call) -> Parts:
        return self._noted(C2R, super().c2r, parts, call)

    def _noted(
        self, kind: str, method: Callable[[Parts, Call], Parts], parts: Parts, call: Call
    ) -> Parts:
        self._note(kind, call.precision)
        with self.listener.apart():
            return method(parts, call)

    def _note(self, kind: str, precision: str) -> None:
        message = 'backend "torch" was chosen: torch.fft needs complex numbers on the device'
        if precision == "double":
            message = 'precision "double" runs on the host; the other precisions run as kernels'
        self.listener.falls_back(kind, message)


class Products(Matmul):
    """Transforms by matrix products of torch."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener

    def c2c(self, parts: Parts, call: Call) -> Parts:
        self._note(C2C)
        return super().c2c(parts, call)

    def r2c(self, parts: Parts, call: Call) -> Parts:
        self._note(R2C)
        return super().r2c(parts, call)

    def c2r(self, parts: Parts, call: Call) -> Parts:
        self._note(C2R)
        return super().c2r(parts, call)

    def prepared(self, like: torch.Tensor, call: Call) -> Callable[[Parts], Parts]:
        return partial(getattr(self, call.kind), call=call)

    def _note(self, kind: str) -> None:
        message = 'backend "matmul" was chosen: operators of torch take the place of one kernel'
        self.listener.falls_back(kind, message)


def _batch(recipe: Recipe, x: Parts) -> int:
    """Returns the number of transforms or rows of a launch."""
    blocks = x[0].shape[0]
    if ALGORITHMS[recipe.algorithm].kind not in FRAME_KINDS:
        return blocks
    n, hop, *_ = recipe.held
    return blocks - (n - 1) // hop


def _points(recipe: Recipe, x: Parts, kind: str) -> tuple[int, ...]:
    """Returns the lengths of a launch's transforms, or the shape of a block circulant weight."""
    if kind == CONVOLUTION:
        rows = recipe.passes
        return (rows[1].recipe.n, rows[0].recipe.n) if rows else (recipe.n,)
    if kind in FRAME_KINDS:
        return recipe.held[:1]
    if kind in SPECTRAL_KINDS:
        return SpectralConvolution.sizes(recipe).lengths
    if kind not in NAMES:
        return recipe.held
    sizes = tuple(x[0].shape[1:])
    if kind != C2R:
        return sizes
    return (*sizes[:-1], recipe.held[-1] if recipe.held else recipe.n)


def _computed(recipe: Recipe, x: Parts, call: Call) -> list[torch.Tensor]:
    """Computes the results of a launch, in the shapes of the kernel's results."""
    kind = ALGORITHMS[recipe.algorithm].kind
    if kind in NAMES:
        return list(getattr(TorchNative(), kind)(x, call))
    if kind == CONVOLUTION:
        return [_convolved_images(recipe, x) if recipe.passes else _convolved_rows(recipe, x)]
    if kind in SPECTRAL_KINDS:
        return _spectral(recipe, kind, x, call.inverse)
    if kind in FRAME_KINDS:
        return _frames(recipe, x, call.scale)
    if kind == REAL_PLANES:
        return [call.scale * torch.fft.fft2(x[0]).real]
    return _circulant(recipe, x) if kind == CIRCULANT else _circulant_gradients(recipe, x)


def _convolved_rows(recipe: Recipe, x: Parts) -> torch.Tensor:
    rows, real, imag = x
    spectra = torch.fft.rfft(rows, recipe.n) * torch.complex(real, imag)
    kept = recipe.held[1] if recipe.held else recipe.n
    return torch.fft.irfft(spectra, recipe.n)[..., :kept]


def _convolved_images(recipe: Recipe, x: Parts) -> torch.Tensor:
    """Convolves images [B, h, w]: image i by spectrum i modulo F of [F, N // 2 + 1, M]."""
    images, *parts = x
    columns, rows = recipe.passes[1], recipe.passes[2]
    size = columns.recipe.n, rows.recipe.n
    # The columns of the spectra are in the order of `ops.convolution.spectrum_for_images`.
    first, second = columns.recipe.radices
    real, imag = (
        part.unflatten(-1, (first, second)).mT.flatten(-2).transpose(-2, -1) for part in parts
    )
    filters = torch.complex(real, imag)
    spectra = torch.fft.rfft2(images, size).unflatten(0, (-1, len(filters))) * filters
    return torch.fft.irfft2(spectra, size).flatten(0, 1)[..., : columns.kept, : rows.kept]


def _spectral(recipe: Recipe, kind: str, x: Parts, is_adjoint: bool) -> list[torch.Tensor]:
    """Computes a spectral convolution, with its kept frequencies, or its gradients."""
    layer, is_centered = SpectralConvolution.sizes(recipe), bool(recipe.layout)
    weight = dispatch.Parts(*(part.unflatten(2, layer.counts) for part in x[-2:]))
    if is_adjoint or kind == SPECTRAL_GRADIENTS:
        weight = adjoint(weight)
    dims = tuple(range(2, 2 + len(layer.lengths)))
    spectrum = torch.fft.rfftn(x[0].unflatten(2, layer.lengths), dim=dims)
    low = kept_of(spectrum, layer.counts, is_centered)
    mixed = torch.einsum("bi...,io...->bo...", low, torch.complex(*weight))
    mixed = spectrum_of(mixed, layer.lengths, is_centered)
    y = torch.fft.irfftn(mixed, layer.lengths, dims).flatten(2)
    if kind == SPECTRAL_GRADIENTS:
        parts = by_weight(low, x[1], layer.counts, layer.lengths)
        return [y, *(part.flatten(2) for part in parts)]
    return [y] if kind == SPECTRAL else [y, by_frequency(low)]


def _frames(recipe: Recipe, x: Parts, scale: float) -> list[torch.Tensor]:
    """Computes spectra of frames that begin with each block of x, their powers, or bands."""
    n, exponent = recipe.held[0], recipe.layout[0] if recipe.layout else 2
    blocks, hop = x[0].shape
    frames = x[0].flatten().unfold(0, n, hop) * x[1]
    spectra = scale * torch.fft.rfft(frames)
    is_kept = ALGORITHMS[recipe.algorithm].kind == FRAME_SPECTRA
    found = [spectra.real, spectra.imag] if is_kept else [spectra.abs().pow(exponent)]
    found = [torch.nn.functional.pad(y, (0, 0, 0, blocks - len(y))) for y in found]
    return found if len(x) == 2 else [x[2].mT @ found[0].mT]


def _circulant(recipe: Recipe, x: Parts) -> list[torch.Tensor]:
    """Multiplies rows [B, q, k] by a weight [p, q, k] and adds a bias; returns spectra, too."""
    rows, weight, bias = x
    of_x, of_w = (_slots(matrix) for matrix in (rows, weight))
    y = _blocks(_products("jsi,jsb->isb", of_w, of_x), bias.shape[-1]) + bias
    return [y.flatten(1), *(_padded(part, bias.shape[-1]) for part in (of_x, of_w))]


def _circulant_gradients(recipe: Recipe, x: Parts) -> list[torch.Tensor]:
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
    """Computes the inverse of `_slots`."""
    _, back = _tables(k, spectra.device)
    return spectra.permute(2, 0, 1) @ back


def _tables(k: int, device: torch.device) -> list[torch.Tensor]:
    """Returns the kernels' matrices for one block, of which their tables hold several."""
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
    blocks, _, rows = spectra.shape
    pitch = spectra_shape(blocks, k, rows)[2]
    return torch.nn.functional.pad(spectra, (0, pitch - rows))
