"""Spectra of overlapping frames in one launch, their powers, or sums of powers in bands.

    X[b, t, k] = s sum_n w[n] x[b, t h + n] exp(-2 pi i n k / N)
    S[b, k, t] = |X[b, t, k]|^p          M = bank^T S

On backends with NKI kernels, where the planner says so, one kernel reads the samples and writes X,
S or M. Everywhere else these are operations of torch and one transform. X is linear in x and w:

    dx[b, t h + n] = sum_t w[n] G[b, t, n]    dw[n] = sum_bt x[b, t h + n] G[b, t, n]
    G = c2r of dX with its interior halved, times s

Where S or M has a derivative, the launch writes X, which the derivative needs, and operations of
torch compute S and M. The operators are `trnfft::frame_spectra` and `trnfft::frame_bands` of
torch.library. Graphs of TorchNeuron contain launches instead, which are chosen while the graph is
made.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from trnfft.backends.backend import Call
from trnfft.backends.choice import named
from trnfft.backends.half_spectrum import interior
from trnfft.base import cache, config
from trnfft.base.autograd_types import Context, Gradients
from trnfft.base.devices import backend_for
from trnfft.base.torch_private import keep_from_compiler
from trnfft.complex.parts import Values, is_transformed, parts_of_values
from trnfft.ops import autocast, operators
from trnfft.ops.operand import Operand, operand_of
from trnfft.ops.operators import one_by_one
from trnfft.ops.overlap import cut_frames, overlap_add
from trnfft.ops.reference import reference_of
from trnfft.ops.transforms import owned, transformed_values
from trnfft.planner import kinds

if TYPE_CHECKING:
    from trnfft.planner.plan import Recipe


class Frames(NamedTuple):
    """The fields of `kinds.Frames` as a tuple, which Dynamo knows; for spectra the power is 0."""

    n: int
    hop: int
    power: int = 0
    bands: int | None = None

    def blocks(self, length: int) -> int:
        """Returns how many blocks of `hop` samples a signal fills."""
        return -(-length // self.hop)

    def count(self, length: int) -> int:
        """Returns how many frames lie in a signal."""
        return (length - self.n) // self.hop + 1


def frame_spectra(
    given: Operand, window: torch.Tensor, hop: int, scale: float = 1.0
) -> torch.Tensor:
    """Computes half spectra of the frames of `frame_bands`. Differentiable, any number of times.

    Returns:
        [B, T, N // 2 + 1], of the kind that `trnfft.rfft` returns, with T frames.
    """
    return given.joined(_values(given, window, hop, scale))


def _values(given: Operand, window: torch.Tensor, hop: int, scale: float) -> Values:
    """Returns `frame_spectra` as values, by a launch where plans say so."""
    x = given.like
    parts: Any = None
    if not given.is_plain(window):
        pass
    elif given.is_neuron_graph:
        parts = _in_neuron_graph((x, window), hop, 0, scale)
    elif given.is_in_graph:
        parts = _frame_spectra(x, window, hop, scale, "")
    elif not is_transformed():
        backend = _kernel_backend(given, Frames(window.shape[0], hop))
        parts = _Spectra.apply(x, window, hop, scale, backend) if backend else None
    return _values_by_transform(given, window, hop, scale) if parts is None else parts


def frame_bands(
    given: Operand,
    window: torch.Tensor,
    bank: torch.Tensor | None,
    hop: int,
    power: int,
    scale: float = 1.0,
) -> torch.Tensor:
    """Computes a spectrogram, or its sums in bands. Differentiable, also twice.

    Args:
        given: real, [B, L], in which each frame lies wholly.
        window: real, [N].
        bank: weights of the bins [N // 2 + 1, M], or None for the spectrogram itself.
        hop: distance between the starts of two frames.
        power: exponent of the absolute value, 1 or 2.
        scale: a factor on spectra.

    Returns:
        [B, M, T], or [B, N // 2 + 1, T], with T frames.
    """
    x = given.like
    tensors = (x, window) if bank is None else (x, window, bank)
    is_eager = not given.is_in_graph
    if not given.is_plain(*tensors[1:]) or _is_followed(tensors) or is_eager and is_transformed():
        return _powers(given, _values(given, window, hop, scale), bank, power)
    if given.is_neuron_graph:
        results = _in_neuron_graph(tensors, hop, power, scale)
        if results is None:
            return by_transform(given, window, bank, hop, power, scale)
        return results[0]
    if given.is_in_graph:
        return _frame_bands(x, window, bank, hop, power, scale, "")
    backend = _kernel_backend(given, _frames(window, bank, hop, power))
    if not backend:
        return by_transform(given, window, bank, hop, power, scale)
    return _frame_bands(x, window, bank, hop, power, scale, backend)


def has_kernel(given: Operand) -> bool:
    """Returns whether kernels may transform frames of a signal, or compiled code may ask."""
    return given.is_in_graph or bool(given.kernel_backend())


def by_transform(
    given: Operand,
    window: torch.Tensor,
    bank: torch.Tensor | None,
    hop: int,
    power: int,
    scale: float,
) -> torch.Tensor:
    """Computes `frame_bands` by a transform of frames, and operations of torch around it."""
    return _powers(given, _values_by_transform(given, window, hop, scale), bank, power)


def _powers(given: Operand, spectra: Values, bank: torch.Tensor | None, power: int) -> torch.Tensor:
    """Computes `frame_bands` from spectra [B, T, N // 2 + 1]."""
    if power == 2:
        real, imag = parts_of_values(spectra)
        powers = real.square() + imag.square()
    else:  # abs() has the derivative 0 at 0, unlike a square root
        powers = given.joined(spectra).abs()
    if bank is None:
        return powers.mT
    with autocast.switched_off(powers.device):
        return torch.matmul(bank.mT, powers.mT)


def recipe_for(count: int, frames: Frames, execution: str = "graph") -> Any:
    """Returns the recipe of the kernel for so many frames, or None where a transform is cheaper."""
    powers: tuple[kinds.Power | None, ...] = (None, 1, 2)
    # the planner's record, of which Dynamo can make none
    kind = kinds.Frames(frames.n, frames.hop, powers[frames.power], frames.bands)
    return operators.recipe_for(kind, count, execution=execution)


def _frames(window: torch.Tensor, bank: torch.Tensor | None, hop: int, power: int) -> Frames:
    # operator.index fixes numbers that Dynamo may keep open, because a kernel has one shape.
    bands = None if bank is None else operator.index(bank.shape[1])
    return Frames(operator.index(window.shape[0]), hop, power, bands)


def _values_by_transform(given: Operand, window: torch.Tensor, hop: int, scale: float) -> Values:
    if scale != 1.0:
        window = window * scale
    frames = cut_frames(given.like, window.shape[0], hop) * window
    call = Call("r2c", False, (frames.shape[-1],), (frames.ndim - 1,))
    return transformed_values(given.of(frames), call)


def _is_followed(tensors: Sequence[torch.Tensor]) -> bool:
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)


def _kernel_backend(given: Operand, frames: Frames) -> str:
    """Returns the backend whose kernel does the work, or "" where a transform does."""
    name = given.kernel_backend()
    if not name or _recipe(given.like.shape, frames, given.execution) is None:
        return ""
    return name


def _recipe(x: Sequence[int], frames: Frames, execution: str = "graph") -> Any:
    """Returns the recipe of the kernel for signals of a shape [B, L], or None."""
    blocks = x[0] * frames.blocks(x[1])
    return recipe_for(blocks - (frames.n - 1) // frames.hop, frames, execution)


# What a kernel reads and writes.


@reference_of(kinds.Frames)
def reference(
    recipe: Recipe, x: Sequence[torch.Tensor], inverse: bool, scale: float
) -> list[torch.Tensor]:
    """Returns what the kernel of a recipe returns, by torch.fft: see `trnfft.ops.reference`."""
    n, power = recipe.kind.n, recipe.kind.power
    blocks, hop = x[0].shape
    frames = x[0].flatten().unfold(0, n, hop) * x[1]
    spectra = scale * torch.fft.rfft(frames)
    results = [spectra.real, spectra.imag] if power is None else [spectra.abs().pow(power)]
    results = [torch.nn.functional.pad(y, (0, 0, 0, blocks - len(y))) for y in results]
    return results if len(x) == 2 else [x[2].mT @ results[0].mT]


def _operands(tensors: Sequence[torch.Tensor], hop: int) -> tuple[torch.Tensor, ...]:
    """Returns the kernel's input: whole blocks of samples, the window and the bank."""
    x, window, *bank = tensors
    missing = -x.shape[1] % hop
    samples = torch.nn.functional.pad(x, (0, missing)) if missing else x
    return samples.reshape(-1, hop), window.reshape(1, -1), *bank


def _kernel_shape(signals: int, length: int, frames: Frames) -> tuple[int, int]:
    """Returns the shape of the kernel's results, which have a frame for every block."""
    blocks, bands = signals * frames.blocks(length), frames.bands
    return (blocks, frames.n // 2 + 1) if bands is None else (bands, blocks)


def _of_frames(y: torch.Tensor, length: int, frames: Frames) -> torch.Tensor:
    """Returns a kernel's result, without frames that end in another signal.

    The result is [B, T, N // 2 + 1] for spectra, else [B, M, T].
    """
    blocks, count = frames.blocks(length), frames.count(length)
    if frames.bands is not None:
        return y.reshape(frames.bands, -1, blocks)[..., :count].transpose(0, 1)
    rows = y.reshape(-1, blocks, frames.n // 2 + 1)[:, :count]
    return rows.mT if frames.power else rows


def _launched(
    tensors: tuple[torch.Tensor, ...], frames: Frames, scale: float, backend: str
) -> list[torch.Tensor] | None:
    """Returns the results of a kernel of a backend, or of the run's for ""; None without one.

    In eager mode results are views; compiled code knows their strides beforehand.
    """
    x, is_eager = tensors[0], bool(backend)
    given = operand_of(x)
    backend = backend or _kernel_backend(given, frames)
    recipe = _recipe(x.shape, frames, given.execution) if backend else None
    if recipe is None:
        return None
    rows = named(backend).run(recipe, _operands(tensors, frames.hop), False, scale)
    results = [_of_frames(y, x.shape[1], frames) for y in rows]
    return [y.detach() if is_eager else owned(y) for y in results]


def _fake(x: torch.Tensor, frames: Frames, backend: str) -> torch.Tensor:
    """Returns a result of `_launched` without numbers."""
    if backend:
        y = x.new_empty(_kernel_shape(x.shape[0], x.shape[1], frames))
        return _of_frames(y, x.shape[1], frames)
    count, kept = frames.count(x.shape[1]), frames.n // 2 + 1
    if frames.power == 0:
        return x.new_empty(x.shape[0], count, kept)
    return x.new_empty(x.shape[0], kept if frames.bands is None else frames.bands, count)


def _in_neuron_graph(
    tensors: tuple[torch.Tensor, ...], hop: int, power: int, scale: float
) -> list[torch.Tensor] | None:
    """Computes the results in a graph of TorchNeuron, in one launch if plans say so.

    Returns None where a transform does: also where a tensor needs a gradient.
    """
    from trnfft.ops import neuron_graph, neuron_launches  # here: they load torch's compiler

    neuron_graph.check_shapes_are_static()
    x, window, *bank = tensors
    frames = _frames(window, bank[0] if bank else None, hop, power)
    signals, length = map(operator.index, x.shape)
    step = ""
    if not _is_followed(tensors):
        what = frames.n, frames.hop, frames.power, frames.bands  # Dynamo knows plain tuples
        step = _step((signals, length), what, scale, x.device)
    if not step:
        return None
    shapes = (_kernel_shape(signals, length, frames),) * (1 if power else 2)
    rows = neuron_launches.launch(_operands(tensors, hop), shapes, step)
    return [_of_frames(y, length, frames).contiguous() for y in rows]


@cache.constant_when_compiled
def _step(
    x: tuple[int, int],
    what: tuple[int, int, int, int | None],
    scale: float,
    device: torch.device,
) -> str:
    """Returns the text of the step that computes these `Frames`, or "" for a transform."""
    if config.get_precision() != "fast" or backend_for(device) != "nki":
        return ""
    recipe = _recipe(x, Frames(*what))
    if recipe is None:
        return ""
    from trnfft.ops.neuron_launches import Step  # here: it loads torch's compiler

    return Step(recipe, scale=scale).text()


# Operators.


@torch.library.custom_op("trnfft::frame_spectra", mutates_args=())
def _frame_spectra(
    x: torch.Tensor, window: torch.Tensor, hop: int, scale: float, backend: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes both parts of `frame_spectra` for a backend, or for "" by this call's choice."""
    spectra = _launched((x, window), Frames(window.shape[0], hop), scale, backend)
    if spectra is not None:
        return spectra[0], spectra[1]
    with autocast.switched_off(x.device):
        values = _values_by_transform(operand_of(x), window, hop, scale)
    real, imag = parts_of_values(values)
    return owned(real), owned(imag)


@_frame_spectra.register_fake
def _(
    x: torch.Tensor, window: torch.Tensor, hop: int, scale: float, backend: str
) -> tuple[torch.Tensor, torch.Tensor]:
    frames = Frames(window.shape[0], hop)
    return _fake(x, frames, backend), _fake(x, frames, backend)


def _keep_spectra(
    ctx: Context, inputs: tuple[torch.Tensor, torch.Tensor, int, float, str], output: object
) -> None:
    x, window, ctx.hop, ctx.scale, _ = inputs
    ctx.save_for_backward(x, window)


def _spectra_backward(ctx: Context, of_real: torch.Tensor, of_imag: torch.Tensor) -> Gradients:
    x, window = ctx.saved_tensors
    n, hop = window.shape[0], ctx.hop
    weights = ctx.scale * interior(of_real, n, 0.5)
    halved = [part * weights for part in (of_real, of_imag)]
    given = operand_of(of_real)
    (frames,) = transformed_values(given.of(*halved), Call("c2r", True, (n,), (2,), "forward"))
    of_x = of_window = None
    if ctx.needs_input_grad[0]:
        of_x = overlap_add(frames * window, hop)
        of_x = torch.nn.functional.pad(of_x, (0, x.shape[1] - of_x.shape[1]))
    if ctx.needs_input_grad[1]:
        of_window = (frames * cut_frames(x, n, hop)).sum((0, 1))
    return of_x, of_window, None, None, None


_frame_spectra.register_autograd(_spectra_backward, setup_context=_keep_spectra)


class _Spectra(torch.autograd.Function):
    """`_frame_spectra` in eager mode."""

    forward = staticmethod(_frame_spectra)
    setup_context = staticmethod(_keep_spectra)
    backward = staticmethod(_spectra_backward)


keep_from_compiler(_spectra_backward)


_frame_spectra.register_vmap(one_by_one(_frame_spectra, is_foldable=True))


@torch.library.custom_op("trnfft::frame_bands", mutates_args=())
def _frame_bands(
    x: torch.Tensor,
    window: torch.Tensor,
    bank: torch.Tensor | None,
    hop: int,
    power: int,
    scale: float,
    backend: str,
) -> torch.Tensor:
    """Computes `frame_bands` for a backend, or for "" by the choice of this call."""
    tensors = (x, window) if bank is None else (x, window, bank)
    results = _launched(tensors, _frames(window, bank, hop, power), scale, backend)
    if results is not None:
        return results[0]
    with autocast.switched_off(x.device):
        return owned(by_transform(operand_of(x), window, bank, hop, power, scale))


@_frame_bands.register_fake
def _(
    x: torch.Tensor,
    window: torch.Tensor,
    bank: torch.Tensor | None,
    hop: int,
    power: int,
    scale: float,
    backend: str,
) -> torch.Tensor:
    bands = None if bank is None else bank.shape[1]
    return _fake(x, Frames(window.shape[0], hop, power, bands), backend)


def _keep_bands(
    ctx: Context,
    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, int, int, float, str],
    output: object,
) -> None:
    x, window, bank, *ctx.settings, _ = inputs
    ctx.save_for_backward(x, window, bank)


def _bands_backward(ctx: Context, grad: torch.Tensor) -> Gradients:
    """Returns the gradients of `by_transform`, which is computed again.

    `frame_bands` needs no such derivative; those who call the operator itself may.
    """
    needed = [i for i in range(3) if ctx.needs_input_grad[i]]
    is_twice = torch.is_grad_enabled()
    values = list(ctx.saved_tensors)
    with torch.enable_grad(), autocast.switched_off(grad.device):
        for i in needed:
            value = values[i] if is_twice else values[i].detach()
            values[i] = value.view_as(value).requires_grad_()
        x, window, bank = values
        y = by_transform(operand_of(x), window, bank, *ctx.settings)
        wanted = [values[i] for i in needed]
        known = torch.autograd.grad(y, wanted, grad, create_graph=is_twice)
    gradients: list[torch.Tensor | None] = [None] * 7
    for i, gradient in zip(needed, known, strict=True):
        gradients[i] = gradient
    return tuple(gradients)


_frame_bands.register_autograd(_bands_backward, setup_context=_keep_bands)
keep_from_compiler(_bands_backward)


_frame_bands.register_vmap(one_by_one(_frame_bands, is_foldable=True))
