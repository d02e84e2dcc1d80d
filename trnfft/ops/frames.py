"""Spectra of overlapping frames in one launch, their powers, or sums of powers in bands.

    X[b, t, k] = s sum_n w[n] x[b, t h + n] exp(-2 pi i n k / N)
    S[b, k, t] = |X[b, t, k]|^p          M = bank^T S

On backends with NKI kernels, where the planner says so, one kernel reads the samples and writes X,
S or M. Everywhere else these are operations of torch and one transform, which also give the
derivatives of S and M. X is linear in x and w:

    dx[b, t h + n] = sum_t w[n] G[b, t, n]    dw[n] = sum_bt x[b, t h + n] G[b, t, n]
    G = c2r of dX with its interior halved, times s

The operators are `trnfft::frame_spectra` and `trnfft::frame_bands` of torch.library.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from trnfft import config
from trnfft.backends.choice import backend_for, named
from trnfft.backends.half_spectrum import interior
from trnfft.complex.kinds import has_native, native_of
from trnfft.complex.tensor import ComplexTensor, is_sharded, join_to_read
from trnfft.ops import autocast
from trnfft.ops.transforms import c2r, owned, rfft


def frame_spectra(
    x: torch.Tensor, window: torch.Tensor, hop: int, scale: float = 1.0
) -> torch.Tensor:
    """Computes half spectra of frames. Differentiable, any number of times.

    Args:
        x, window, hop, scale: as for `frame_bands`.

    Returns:
        [B, T, N // 2 + 1], of the kind that `trnfft.rfft` returns, with T frames.
    """
    is_compiling = torch.compiler.is_compiling()
    if not _is_plain(x, window) or (is_compiling and x.device.type == "neuron"):
        return _spectra(x, window, hop, scale)
    if is_compiling:
        parts = _frame_spectra(x, window, hop, scale, "")
    elif not (backend := _kernel_backend(x, (window.shape[0], hop), None)):
        return _spectra(x, window, hop, scale)
    else:
        parts = _Spectra.apply(x, window, hop, scale, backend)
    is_native = has_native(x.device, "" if is_compiling else backend_for(x.device))
    return native_of(*parts) if is_native else join_to_read(*parts)


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
    if not _is_plain(x, window, bank):
        return by_transform(x, window, bank, hop, power, scale)
    if torch.compiler.is_compiling():
        if x.device.type == "neuron":  # whose compiler accepts only launches that trnfft names
            return by_transform(x, window, bank, hop, power, scale)
        return _frame_bands(x, window, bank, hop, power, scale, "")
    backend = _kernel_backend(x, (window.shape[0], hop), power, bank)
    if not backend:
        return by_transform(x, window, bank, hop, power, scale)
    return _Bands.apply(x, window, bank, hop, power, scale, backend)  # type: ignore[no-any-return]


def has_kernel_for(
    rows: int, frames: tuple[int, int], power: int | None, bands: int | None
) -> bool:
    """Returns whether a kernel computes so many frames, and is cheaper than a transform.

    frames: their length, and hop. power: None for spectra. bands: of a bank, or None.
    """
    return _recipe_for(rows, frames, power, bands) is not None


def has_kernel(x: torch.Tensor) -> bool:
    """Returns whether kernels may transform frames of a signal, or compiled code may ask."""
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
    spectra = _spectra(x, window, hop)
    # abs() has the derivative 0 at 0, unlike a square root.
    squares = spectra.real.square() + spectra.imag.square() if power == 2 else None
    powers = (spectra.abs() if squares is None else squares).mT
    if scale != 1.0:
        powers = powers * abs(scale) ** power
    return powers if bank is None else torch.matmul(bank.mT, powers)


def _spectra(x: torch.Tensor, window: torch.Tensor, hop: int, scale: float = 1.0) -> torch.Tensor:
    """Computes `frame_spectra` by a transform of frames."""
    spectra = rfft(x.unfold(-1, window.shape[0], hop) * window)
    return spectra if scale == 1.0 else spectra * scale


def _is_plain(*tensors: torch.Tensor | None) -> bool:
    """Returns whether kernels may take the tensors, of which some may be None."""
    return not torch.jit.is_tracing() and all(
        t.dtype == torch.float32
        and t.numel() > 0
        and not is_sharded(t)
        and not isinstance(t, ComplexTensor)
        for t in tensors
        if t is not None
    )


def _kernel_backend(
    x: torch.Tensor, frames: tuple[int, int], power: int | None, bank: torch.Tensor | None = None
) -> str:
    """Returns the backend whose kernel does the work, or "" where a transform does.

    frames: their length, and hop. power: None for spectra.
    """
    if config.get_precision() != "fast":
        return ""
    name = backend_for(x.device)
    is_able = named(name).has_kernels and _recipe(x, frames, power, bank) is not None
    return name if is_able else ""


def _blocks(length: int, hop: int) -> int:
    """Returns how many blocks of `hop` samples a signal fills."""
    return -(-length // hop)


def _recipe(
    x: torch.Tensor, frames: tuple[int, int], power: int | None, bank: torch.Tensor | None = None
) -> Any:
    """Returns the recipe of the kernel for a signal, or None where a transform is cheaper."""
    n, hop = frames
    count = x.shape[0] * _blocks(x.shape[1], hop) - (n - 1) // hop
    return _recipe_for(count, frames, power, None if bank is None else bank.shape[1])


def _recipe_for(count: int, frames: tuple[int, int], power: int | None, bands: int | None) -> Any:
    """Returns the recipe of the kernel for so many frames, or None."""
    from trnfft.planner.planner import plan_frames  # only its users load the kernels
    from trnfft.planner.separate import SEPARATE

    try:
        plan = plan_frames(*frames, batch=count, power=power, bands=bands)
    except NotImplementedError:
        return None
    if plan.algorithm == SEPARATE:
        return None
    return replace(plan.recipe, layout=(1,)) if power == 1 else plan.recipe


def _blocked(x: torch.Tensor, hop: int) -> torch.Tensor:
    """Returns samples [B, L] as blocks [S, hop], with zeros after each signal."""
    missing = -x.shape[1] % hop
    samples = torch.nn.functional.pad(x, (0, missing)) if missing else x
    return samples.reshape(-1, hop)


@torch.library.custom_op("trnfft::frame_spectra", mutates_args=())
def _frame_spectra(
    x: torch.Tensor, window: torch.Tensor, hop: int, scale: float, backend: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes both parts of `frame_spectra` for a backend, or for "" by this call's choice."""
    n = window.shape[0]
    is_eager = bool(backend)  # compiled code knows the strides of results beforehand
    backend = backend or _kernel_backend(x, (n, hop), None)
    recipe = _recipe(x, (n, hop), None) if backend else None
    if recipe is None:
        with autocast.switched_off(x.device):
            spectra = _spectra(x, window, hop, scale)
        return owned(spectra.real), owned(spectra.imag)
    blocks, count = _blocks(x.shape[1], hop), (x.shape[1] - n) // hop + 1
    parts = _blocked(x, hop), window.reshape(1, n)
    found = named(backend).run(recipe, parts, False, scale)
    re, im = (y.unflatten(0, (-1, blocks))[:, :count] for y in found)
    return (re.detach(), im.detach()) if is_eager else (owned(re), owned(im))


@_frame_spectra.register_fake
def _(
    x: torch.Tensor, window: torch.Tensor, hop: int, scale: float, backend: str
) -> tuple[torch.Tensor, torch.Tensor]:
    n = window.shape[0]
    shape = x.shape[0], (x.shape[1] - n) // hop + 1, n // 2 + 1
    return x.new_empty(shape), x.new_empty(shape)


def _keep_spectra(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, window, ctx.hop, ctx.scale, _ = inputs
    ctx.save_for_backward(x, window)


def _spectra_backward(ctx: Any, of_real: torch.Tensor, of_imag: torch.Tensor) -> tuple[Any, ...]:
    x, window = ctx.saved_tensors
    n, hop = window.shape[0], ctx.hop
    halved = [part * interior(part, n, 0.5 * ctx.scale) for part in (of_real, of_imag)]
    frames = c2r(join_to_read(*halved), (n,), (2,), True, "forward")
    of_x = of_window = None
    if ctx.needs_input_grad[0]:
        of_x = torch.ops.aten.unfold_backward(frames * window, x.shape, 1, n, hop)
    if ctx.needs_input_grad[1]:
        of_window = (frames * x.unfold(1, n, hop)).sum((0, 1))
    return of_x, of_window, None, None, None


_frame_spectra.register_autograd(_spectra_backward, setup_context=_keep_spectra)


class _Spectra(torch.autograd.Function):
    """`_frame_spectra` in eager mode."""

    generate_vmap_rule = True
    setup_context = staticmethod(_keep_spectra)
    backward = staticmethod(_spectra_backward)  # type: ignore[assignment]

    @staticmethod
    def forward(*arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return _frame_spectra(*arguments)


def _batched_spectra(
    info: Any, in_dims: tuple[Any, ...], *arguments: Any
) -> tuple[Any, tuple[int, int]]:
    """The vmap rule: more signals, or a call for each window."""
    x, window, *rest = arguments
    if in_dims[0] is not None and in_dims[1] is None:
        signals = x.movedim(in_dims[0], 0)
        parts = _frame_spectra(signals.flatten(0, 1), window, *rest)
        return tuple(part.unflatten(0, signals.shape[:2]) for part in parts), (0, 0)
    calls = [
        _frame_spectra(*_selected((x, window), in_dims, index), *rest)
        for index in range(info.batch_size)
    ]
    return tuple(torch.stack(parts) for parts in zip(*calls, strict=True)), (0, 0)


_frame_spectra.register_vmap(_batched_spectra)


def _selected(tensors: tuple[Any, ...], in_dims: tuple[Any, ...], index: int) -> list[Any]:
    """Returns the tensors of one call of vmap."""
    return [
        t if dim is None else t.select(dim, index)
        for t, dim in zip(tensors, in_dims[: len(tensors)], strict=True)
    ]


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
    backend = backend or _kernel_backend(x, (n, hop), power, bank)
    recipe = _recipe(x, (n, hop), power, bank) if backend else None
    if recipe is None:
        with autocast.switched_off(x.device):
            return owned(by_transform(x, window, bank, hop, power, scale))
    blocks, count = _blocks(x.shape[1], hop), (x.shape[1] - n) // hop + 1
    parts = [_blocked(x, hop), window.reshape(1, n), *([] if bank is None else [bank])]
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
        _frame_bands(*_selected((x, window, bank), in_dims, index), *rest)
        for index in range(info.batch_size)
    ]
    return torch.stack(found), 0


_frame_bands.register_vmap(_batched)
