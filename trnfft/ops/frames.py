"""Spectrograms in one launch: powers of the spectra of frames, or their sums in bands.

    S[b, k, t] = |s sum_n w[n] x[b, t h + n] exp(-2 pi i n k / N)|^p          M = bank^T S

On backends with NKI kernels, where the planner says so, one kernel reads the samples and writes S
or M. Everywhere else these are operations of torch and one transform, which also give the
derivatives. The operator is `trnfft::frame_bands` of torch.library.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from trnfft import config
from trnfft.backends.choice import backend_for, named
from trnfft.complex.tensor import ComplexTensor, is_sharded
from trnfft.ops import autocast
from trnfft.ops.transforms import owned, rfft


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
        if x.device.type == "neuron":  # whose compiler accepts only launches that trnfft names
            return by_transform(x, window, bank, hop, power, scale)
        return _frame_bands(x, window, bank, hop, power, scale, "")
    backend = _kernel_backend(x, window.shape[0], bank, hop)
    if not backend:
        return by_transform(x, window, bank, hop, power, scale)
    return _Bands.apply(x, window, bank, hop, power, scale, backend)  # type: ignore[no-any-return]


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
    is_able = named(name).has_kernels and _recipe(x, n, bank, hop) is not None
    return name if is_able else ""


def _blocks(length: int, hop: int) -> int:
    """Returns how many blocks of `hop` samples a signal fills."""
    return -(-length // hop)


def _recipe(x: torch.Tensor, n: int, bank: torch.Tensor | None, hop: int) -> Any:
    """Returns the recipe of the kernel, or None where a transform is cheaper."""
    from trnfft.planner.planner import plan_frames  # only its users load the kernels
    from trnfft.planner.separate import SEPARATE

    count = x.shape[0] * _blocks(x.shape[1], hop) - (n - 1) // hop
    try:
        plan = plan_frames(n, hop, batch=count, bands=None if bank is None else bank.shape[1])
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
    recipe = _recipe(x, n, bank, hop) if backend else None
    if recipe is None:
        with autocast.switched_off(x.device):
            return owned(by_transform(x, window, bank, hop, power, scale))
    blocks, count = _blocks(x.shape[1], hop), (x.shape[1] - n) // hop + 1
    missing = blocks * hop - x.shape[1]
    samples = torch.nn.functional.pad(x, (0, missing)) if missing else x
    parts = [samples.reshape(-1, hop), window.reshape(1, n), *([] if bank is None else [bank])]
    if power == 1:
        recipe = replace(recipe, layout=(1,))
    (y,) = named(backend).run(recipe, tuple(parts), False, scale)
    if bank is None:
        result = y.unflatten(0, (-1, blocks))[:, :count].mT
    else:
        result = y.unflatten(1, (-1, blocks))[..., :count].transpose(0, 1)
    return result.detach() if is_eager else owned(result)


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
    n = window.shape[0]
    kept = n // 2 + 1 if bank is None else bank.shape[1]
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

    generate_vmap_rule = True
    setup_context = staticmethod(_setup)
    backward = staticmethod(_backward)  # type: ignore[assignment]

    @staticmethod
    def forward(*arguments: Any) -> torch.Tensor:
        return _frame_bands(*arguments)


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
