"""Spectrograms in one launch: powers of the spectra of frames, or their sums in bands.

    S[b, k, t] = |s sum_n w[n] x[b, t h + n] exp(-2 pi i n k / N)|^p          M = bank^T S

On backends with NKI kernels, where the planner says so, one kernel reads the samples and writes S
or M. Everywhere else these are operations of torch and one transform, which also give the
derivatives. The operator is `trnfft::frame_bands` of torch.library. Graphs of TorchNeuron contain
launches instead, which are chosen while the graph is made.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from trnfft import cache, config
from trnfft.backends.choice import backend_for, named
from trnfft.complex.tensor import ComplexTensor, is_sharded, is_transformed, keep_from_compiler
from trnfft.ops import autocast
from trnfft.ops.transforms import is_neuron_graph, owned, rfft


def frame_bands(
    x: torch.Tensor,
    window: torch.Tensor,
    bank: torch.Tensor | None,
    hop: int,
    power: int,
    scale: float = 1.0,
) -> torch.Tensor:
    """Computes a spectrogram, or its sums in bands. Differentiable, also twice.

    Args:
        x: real, [B, L], in which each frame lies wholly.
        window: real, [N].
        bank: weights of the bins [N // 2 + 1, M], or None for the spectrogram itself.
        hop: distance between the starts of two frames.
        power: exponent of the absolute value, 1 or 2.
        scale: a factor on spectra.

    Returns:
        [B, M, T], or [B, N // 2 + 1, T], with T frames.
    """
    tensors = [x, window, *([] if bank is None else [bank])]
    is_plain = all(
        t.dtype == torch.float32
        and t.numel() > 0
        and not is_sharded(t)
        and not isinstance(t, ComplexTensor)
        for t in tensors
    )
    if not is_plain or torch.jit.is_tracing():
        return by_transform(x, window, bank, hop, power, scale)
    if torch.compiler.is_compiling():
        if is_neuron_graph(x.device):
            return _in_neuron_graph(x, window, bank, hop, power, scale)
        return _frame_bands(x, window, bank, hop, power, scale, "")
    backend = _kernel_backend(x, window.shape[0], bank, hop)
    if not backend or is_transformed():  # as the derivative is one of autograd alone
        return by_transform(x, window, bank, hop, power, scale)
    return _Bands.apply(x, window, bank, hop, power, scale, backend)  # type: ignore[no-any-return]


def _in_neuron_graph(
    x: torch.Tensor,
    window: torch.Tensor,
    bank: torch.Tensor | None,
    hop: int,
    power: int,
    scale: float,
) -> torch.Tensor:
    """Computes `frame_bands` in a graph of TorchNeuron, in one launch if plans say so.

    Where a tensor needs a gradient it is a transform, whose spectra the derivative reads: after a
    kernel it would compute them again, in a launch more.
    """
    from trnfft.ops import neuron_graph, neuron_launches  # here: they load torch's compiler

    neuron_graph.check_shapes_are_static()
    # operator.index fixes numbers that Dynamo may keep open, because a kernel has one shape.
    n, signals, length = operator.index(window.shape[0]), *map(operator.index, x.shape)
    bands = None if bank is None else operator.index(bank.shape[1])
    tensors = (x, window) if bank is None else (x, window, bank)
    is_followed = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    step = ""
    if not is_followed:
        step = _step((signals, length), n, bands, hop, power, scale, x.device)
    if not step:
        return by_transform(x, window, bank, hop, power, scale)
    shape = _kernel_shape(signals, length, n, bands, hop)
    (y,) = neuron_launches.launch(_operands(x, window, bank, hop), (shape,), step)
    return _frames_of(y, x, n, bands, hop).contiguous()


@cache.constant_when_compiled
def _step(
    x: tuple[int, int],
    n: int,
    bands: int | None,
    hop: int,
    power: int,
    scale: float,
    device: torch.device,
) -> str:
    """Returns the text of the step that computes a spectrogram, or "" for a transform."""
    if config.get_precision() != "fast" or backend_for(device) != "nki":
        return ""
    recipe = _recipe(x, n, bands, hop)
    if recipe is None:
        return ""
    from trnfft.ops.neuron_launches import Step  # here: it loads torch's compiler

    return Step(_with_power(recipe, power), scale=scale).text()


def has_kernel(x: torch.Tensor) -> bool:
    """Returns whether kernels may compute spectrograms of a signal, or compiled code may ask."""
    if torch.compiler.is_compiling():
        return True
    return config.get_precision() == "fast" and named(backend_for(x.device)).has_kernels


def by_transform(
    x: torch.Tensor,
    window: torch.Tensor,
    bank: torch.Tensor | None,
    hop: int,
    power: int,
    scale: float,
) -> torch.Tensor:
    """Computes `frame_bands` by a transform of frames, and operations of torch around it."""
    frames = x.unfold(-1, window.shape[0], hop) * window
    spectra = rfft(frames)
    # abs() has the derivative 0 at 0, unlike a square root.
    squares = spectra.real.square() + spectra.imag.square() if power == 2 else None
    powers = (spectra.abs() if squares is None else squares).mT
    if scale != 1.0:
        powers = powers * scale**power
    return powers if bank is None else torch.matmul(bank.mT, powers)


def _kernel_backend(x: torch.Tensor, n: int, bank: torch.Tensor | None, hop: int) -> str:
    """Returns the backend whose kernel computes the spectrogram, or "" where a transform does."""
    if config.get_precision() != "fast":
        return ""
    name = backend_for(x.device)
    bands = None if bank is None else bank.shape[1]
    is_able = named(name).has_kernels and _recipe(x.shape, n, bands, hop) is not None
    return name if is_able else ""


def _blocks(length: int, hop: int) -> int:
    """Returns how many blocks of `hop` samples a signal fills."""
    return -(-length // hop)


def _recipe(x: Sequence[int], n: int, bands: int | None, hop: int) -> Any:
    """Returns the recipe of the kernel, or None where a transform is cheaper."""
    from trnfft.planner.planner import plan_frames  # only its users load the kernels
    from trnfft.planner.separate import SEPARATE

    count = x[0] * _blocks(x[1], hop) - (n - 1) // hop
    try:
        plan = plan_frames(n, hop, batch=count, bands=bands)
    except NotImplementedError:
        return None
    return None if plan.algorithm == SEPARATE else plan.recipe


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
    n = window.shape[0]
    is_eager = bool(backend)  # compiled code knows the strides of results beforehand
    backend = backend or _kernel_backend(x, n, bank, hop)
    bands = None if bank is None else bank.shape[1]
    recipe = _recipe(x.shape, n, bands, hop) if backend else None
    if recipe is None:
        with autocast.switched_off(x.device):
            return owned(by_transform(x, window, bank, hop, power, scale))
    parts = _operands(x, window, bank, hop)
    (y,) = named(backend).run(_with_power(recipe, power), parts, False, scale)
    result = _frames_of(y, x, n, bands, hop)
    return result.detach() if is_eager else owned(result)


def _operands(
    x: torch.Tensor, window: torch.Tensor, bank: torch.Tensor | None, hop: int
) -> tuple[torch.Tensor, ...]:
    """Returns the kernel's input: whole blocks of samples, the window and the bank."""
    missing = -x.shape[1] % hop
    samples = torch.nn.functional.pad(x, (0, missing)) if missing else x
    parts = samples.reshape(-1, hop), window.reshape(1, -1)
    return parts if bank is None else (*parts, bank)


def _kernel_shape(
    signals: int, length: int, n: int, bands: int | None, hop: int
) -> tuple[int, int]:
    """Returns the shape of the kernel's result, which has a frame for every block."""
    blocks = signals * _blocks(length, hop)
    return (blocks, n // 2 + 1) if bands is None else (bands, blocks)


def _frames_of(
    y: torch.Tensor, x: torch.Tensor, n: int, bands: int | None, hop: int
) -> torch.Tensor:
    """Returns the kernel's result as [B, M, T], without frames that end in another signal."""
    blocks, count = _blocks(x.shape[1], hop), (x.shape[1] - n) // hop + 1
    if bands is None:
        return y.reshape(-1, blocks, n // 2 + 1)[:, :count].mT
    return y.reshape(bands, -1, blocks)[..., :count].transpose(0, 1)


def _with_power(recipe: Any, power: int) -> Any:
    return replace(recipe, layout=(1,)) if power == 1 else recipe


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
    n, bands = window.shape[0], None if bank is None else bank.shape[1]
    if backend:
        y = x.new_empty(_kernel_shape(x.shape[0], x.shape[1], n, bands, hop))
        return _frames_of(y, x, n, bands, hop)
    kept = n // 2 + 1 if bands is None else bands
    return x.new_empty(x.shape[0], kept, (x.shape[1] - n) // hop + 1)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, window, bank, *ctx.settings, _ = inputs
    ctx.save_for_backward(x, window, bank)


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    """Returns the gradients of `by_transform`, which is computed again."""
    is_twice = torch.is_grad_enabled()
    saved = [t if t is None or is_twice else t.detach() for t in ctx.saved_tensors]
    needed = [place for place in range(3) if ctx.needs_input_grad[place]]
    with torch.enable_grad():
        values = list(saved)
        for place in needed:
            values[place] = saved[place].view_as(saved[place]).requires_grad_()
        y = by_transform(*values, *ctx.settings)
        wanted = [values[place] for place in needed]
        found = torch.autograd.grad(y, wanted, grad, create_graph=is_twice)
    gradients: list[torch.Tensor | None] = [None] * 7
    for place, gradient in zip(needed, found, strict=True):
        gradients[place] = gradient
    return tuple(gradients)


_frame_bands.register_autograd(_backward, setup_context=_setup)


class _Bands(torch.autograd.Function):
    """`_frame_bands` in eager mode."""

    forward = staticmethod(_frame_bands)
    setup_context = staticmethod(_setup)
    backward = staticmethod(_backward)  # type: ignore[assignment]


keep_from_compiler(_backward.__code__)


def _batched(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, int]:
    """The vmap rule: more signals, or a call for each window or bank."""
    x, window, bank, *rest = arguments
    if in_dims[0] is not None and in_dims[1] is None and in_dims[2] is None:
        signals = x.movedim(in_dims[0], 0)
        y = _frame_bands(signals.flatten(0, 1), window, bank, *rest)
        return y.unflatten(0, signals.shape[:2]), 0
    found = [
        _frame_bands(
            *(
                t if dim is None else t.select(dim, index)
                for t, dim in zip((x, window, bank), in_dims[:3], strict=True)
            ),
            *rest,
        )
        for index in range(info.batch_size)
    ]
    return torch.stack(found), 0


_frame_bands.register_vmap(_batched)
