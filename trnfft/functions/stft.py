"""Short-time Fourier transform and its inverse, as `torch.stft` and `torch.istft`.

The window w has N = n_fft numbers: the given window, with zeros on both sides. With a hop of h
samples, the transforms are

    stft    X[f, t] = scale * sum_k w[k] x[t h + k] exp(-2 pi i f k / N)
    istft   x[j] = (sum_t w[j - t h] y[t, j - t h]) / (sum_t w[j - t h]^2),  y = ifft of X / scale

Among all signals, the result of `istft` has the spectra that are nearest to X in the sense of least
squares (Griffin & Lim, "Signal estimation from modified short-time Fourier transform", 1984).
"""

import math
import warnings

import torch

from trnfft.base.checks import brief
from trnfft.base.memory import check_memory, may_be_too_many
from trnfft.base.torch_private import get_unwrapped, is_functorch_wrapped_tensor
from trnfft.complex.parts import Numbers, each_part, is_sharded
from trnfft.complex.table import FUNCTIONS
from trnfft.complex.tensor import ComplexTensor
from trnfft.functions.arguments import (
    NOT_COMPLEX_ERROR,
    Input,
    check_choice,
    check_flags,
    check_tensor,
    integer,
    of_given_kind,
    to_compute,
)
from trnfft.functions.fft import fft, ifft, irfft, rfft
from trnfft.ops import overlap
from trnfft.ops.frames import frame_spectra, has_kernel
from trnfft.ops.many_devices import of_shards
from trnfft.ops.operand import operand_of
from trnfft.ops.overlap import cut_frames

PAD_MODES = ("constant", "reflect", "replicate", "circular")
# Where the squared windows add up to less, no frame determines the sample.
_LEAST_ENVELOPE = 1e-11


def stft(
    input: Input,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Input | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> torch.Tensor:
    """Returns the short-time Fourier transform: the spectra of windowed, overlapping frames.

    The counterpart in torch is `torch.stft`. See `docs/getting_started.md`. float16 and bfloat16
    are computed in float32. A window with a wider dtype widens the result.

    Args:
        input: a real tensor, a native complex tensor or a ComplexTensor of shape [L] or [B, L].
        n_fft: length N of a frame and of its transform.
        hop_length: distance h between the starts of two frames. Default: n_fft // 4.
        win_length: length of the window. Zeros on both sides extend it to n_fft. Default: n_fft.
        window: a real tensor, a native complex tensor or a ComplexTensor of shape [win_length].
            Default: ones.
        center: whether sample t h is the centre of frame t. `input` is then padded by n_fft // 2 on
            both sides. Otherwise, frame t starts at sample t h.
        pad_mode: how `center` pads: "constant", "reflect", "replicate" or "circular", as in
            `torch.nn.functional.pad`.
        normalized: whether scale is 1 / sqrt(n_fft). Otherwise, it is 1.
        onesided: whether to return only f = 0 ... n_fft // 2. Default: True where input and window
            are real, because the other frequencies then hold nothing new.
        return_complex: False for a real tensor whose last dimension, of size 2, holds real and
            imaginary parts. Default: a complex tensor. (torch requires this argument.)
        align_to_window: whether the first sample of the window, not of the frame, is the first
            sample of `input`. With `center`, only None is allowed.

    Returns:
        A complex tensor of shape [F, T] or [B, F, T], of the kind that `trnfft.fft` returns, with F
        frequencies and T frames.

    Raises:
        TypeError: an argument has the wrong type.
        NotImplementedError: `pad_mode` is unknown.
        RuntimeError: `input` or `window` has another dtype or shape; n_fft is not in 1 ... L after
            padding, hop_length is less than 1, or win_length is not in 1 ... n_fft; the input is
            too short to pad; `onesided` is True for complex data; or `align_to_window` is given
            with `center`.

    Examples:
        >>> import torch, trnfft
        >>> x = torch.cos(torch.pi / 2 * torch.arange(64))  # a quarter of the sampling frequency
        >>> window = torch.hann_window(16)
        >>> X = trnfft.stft(x, 16, hop_length=8, window=window, center=False)
        >>> X.shape
        torch.Size([9, 7])
        >>> X.abs().argmax(0)  # bin 4 of 16 in every frame
        tensor([4, 4, 4, 4, 4, 4, 4])
    """
    if is_sharded(input):
        rest = (n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided)
        more = (return_complex, align_to_window)
        return of_shards(stft, input, (-1,), *rest, *more)
    check_flags(center=center, normalized=normalized)
    _check_optional_flags(
        onesided=onesided, return_complex=return_complex, align_to_window=align_to_window
    )
    lengths = n_fft, hop_length, win_length
    x, weights, hop = framed(input, lengths, window, center, pad_mode, align_to_window)
    n_fft = weights.shape[-1]
    is_plain = x.dtype == weights.dtype == torch.float32
    if onesided in (None, True) and is_plain and has_kernel(given := operand_of(x)):
        signals = given.of(x if x.ndim == 2 else x[None])
        spectra = frame_spectra(signals, weights, hop, n_fft**-0.5 if normalized else 1.0)
        result = spectra if x.ndim == 2 else spectra[0]
    else:
        frames = _product(_frames(x, n_fft, hop), weights)
        result = _spectra(frames, "ortho" if normalized else None, onesided)
    result = result.transpose(-1, -2)
    if return_complex or return_complex is None:
        return result
    return torch.stack([result.real, result.imag], -1)


def framed(
    input: Input,
    lengths: tuple[int, int | None, int | None],
    window: Input | None,
    center: bool,
    pad_mode: str,
    align_to_window: bool | None = None,
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Returns the padded samples of `stft`, its window in the length of a frame, and its hop.

    lengths: n_fft, hop_length and win_length. Other arguments, and errors, are those of `stft`.
    """
    check_choice("pad_mode", pad_mode, PAD_MODES, NotImplementedError)
    x = to_compute("input", input, with_integers=False)
    n_fft, hop, size = _lengths(*lengths)
    _check_signal(x, center, align_to_window)
    if center:
        _check_padding(n_fft // 2, x.shape, pad_mode)
        x = _padded(x, n_fft // 2, n_fft // 2, pad_mode)
    elif align_to_window:
        x = _padded(x, *_margins(n_fft, size), "constant")
    _check_frames(n_fft, hop, size, x.shape[-1])
    return x, _window(window, size, n_fft, x), hop


def istft(
    input: torch.Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Input | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> torch.Tensor:
    """Returns the signal whose frames are nearest to the frames with the given spectra.

    It is the inverse of `stft`. The counterpart in torch is `torch.istft`. See
    `docs/getting_started.md`.

    Args:
        input: a native complex tensor or a ComplexTensor of shape [F, T] or [B, F, T], as `stft`
            returns it.
        n_fft, hop_length, win_length, window, center, normalized: as given to `stft`.
        onesided: whether F is n_fft // 2 + 1. Otherwise, F is n_fft. Default: True unless F is
            n_fft.
        length: length L of the result. Zeros follow where the frames end earlier. Default: up to
            the end of the last frame, without the padding of `center`.
        return_complex: whether the signal is complex. F must then be n_fft.

    Returns:
        A tensor of shape [L] or [B, L], which is complex with `return_complex` and otherwise real.

    Raises:
        TypeError: an argument has the wrong type.
        RuntimeError: `input` is real (a TypeError from torch 2.14 on, as in torch), is empty or has
            another shape; hop_length is not in 1 ... win_length, or win_length not in 1 ... n_fft;
            `window` has another shape, or is complex where the result is real; the squared windows
            add up to less than 1e-11 at a sample (the condition "nonzero overlap add"); the result
            has no samples; or the memory is too small for `length`. On other devices than the CPU,
            and in compiled code, samples with too small a sum are infinite or NaN instead, because
            reading the sums would stop the device or break the graph.

    Examples:
        >>> import torch, trnfft
        >>> x, window = torch.arange(64.0), torch.hann_window(16)
        >>> X = trnfft.stft(x, n_fft=16, window=window)
        >>> y = trnfft.istft(X, n_fft=16, window=window)
        >>> torch.allclose(x, y, atol=1e-4)
        True
    """
    if is_sharded(input):
        rest = (n_fft, hop_length, win_length, window, center, normalized, onesided, length)
        return of_shards(istft, input, (-2, -1), *rest, return_complex)
    check_flags(center=center, normalized=normalized, return_complex=return_complex)
    _check_optional_flags(onesided=onesided)
    x = to_compute("input", input, with_integers=False)
    n_fft, hop, size = _lengths(n_fft, hop_length, win_length)
    if not x.is_complex() or x.ndim not in (2, 3) or x.numel() == 0:
        raise (RuntimeError if x.is_complex() else NOT_COMPLEX_ERROR)(
            f"argument 'input' has shape {tuple(x.shape)} and dtype {x.dtype}, allowed are "
            f"[F, T] and [B, F, T], not empty, of complex numbers; make them with stft"
        )
    _check_range("win_length", size, n_fft, "n_fft")
    _check_range("hop_length", hop, size, "win_length")
    onesided = x.shape[-2] != n_fft if onesided is None else onesided
    _check_frequencies(x.shape[-2], n_fft, onesided, return_complex)
    weights = _window(window, size, n_fft, x.real)
    if weights.is_complex() and not return_complex:
        raise RuntimeError(
            "argument 'window' is complex, allowed is a real window for a real signal; "
            "pass return_complex=True"
        )
    count = None if length is None else _count_of(length, x, return_complex)
    frames = _signals(x.transpose(-1, -2), n_fft, "ortho" if normalized else None, return_complex)
    squares = each_part(lambda part: part.expand(x.shape[-1], n_fft), _product(weights, weights))
    start = n_fft // 2 if center else 0
    total = n_fft + hop * (x.shape[-1] - 1)
    stop = total - start if count is None else start + count
    envelope = overlap_add(squares, hop)[..., start:stop]
    _check_envelope(envelope)
    signal = overlap_add(_product(frames, weights), hop)[..., start:stop] / envelope
    return _lengthened(signal, stop - total)


def _spectra(frames: torch.Tensor, norm: str | None, onesided: bool | None) -> torch.Tensor:
    """Returns the transforms of frames [..., n_fft], or their first half with `onesided`."""
    if not frames.is_complex():
        return fft(frames, norm=norm) if onesided is False else rfft(frames, norm=norm)
    if onesided:
        raise RuntimeError(
            "argument 'onesided' is True, allowed are False and None where input or window is "
            "complex, because the second half of the spectrum is no copy of the first"
        )
    return fft(frames, norm=norm)


def _signals(spectra: torch.Tensor, n_fft: int, norm: str | None, is_complex: bool) -> torch.Tensor:
    """Returns the frames [..., n_fft] with these spectra; real frames need the first half only."""
    if is_complex:
        return ifft(spectra, norm=norm)
    return irfft(spectra[..., : n_fft // 2 + 1], n_fft, norm=norm)


def _frames(x: Numbers, size: int, hop: int) -> Numbers:
    """Returns frames [..., T, size] of samples [..., L]; frame t starts at sample t hop."""
    return each_part(lambda part: cut_frames(part, size, hop), x)


def overlap_add(frames: Numbers, hop: int) -> Numbers:
    """Returns the sum [..., N + hop (T - 1)] of frames [..., T, N], hop numbers apart."""
    return each_part(lambda part: overlap.overlap_add(part, hop), frames)


def _count_of(length: int, x: torch.Tensor, is_complex: bool) -> int:
    """Returns argument 'length' as a number of samples; RuntimeError for too little memory."""
    count = max(integer("length", length), 0)
    shape = (*x.shape[:-2], count)
    if may_be_too_many(math.prod(shape)):
        what = f"argument 'length' is {brief(count)}"
        check_memory(what, shape, x.real.element_size() * (2 if is_complex else 1), x.device)
    return count


def _lengthened(signal: torch.Tensor, missing: int) -> torch.Tensor:
    """Returns the signal followed by `missing` zeros, with a warning."""
    if missing <= 0:
        return signal
    warnings.warn(
        f"argument 'length' is {signal.shape[-1] + missing}, but the frames have only "
        f"{signal.shape[-1]} samples; zeros follow them",
        stacklevel=3,
    )
    return each_part(lambda part: torch.nn.functional.pad(part, (0, missing)), signal)


def _window(window: Input | None, size: int, n_fft: int, like: torch.Tensor) -> torch.Tensor:
    """Returns the window with zeros on both sides: `n_fft` numbers."""
    if window is None:
        window = torch.ones(size, dtype=like.real.dtype, device=like.device)
    check_tensor("window", window)
    if window.shape != (size,):
        raise RuntimeError(
            f"argument 'window' has shape {tuple(window.shape)}, allowed is ({size},), the "
            f"length of the window; pass argument 'win_length' for another"
        )
    margins = _margins(n_fft, size)
    return each_part(lambda part: torch.nn.functional.pad(part, margins), of_given_kind(window))


def _margins(n_fft: int, size: int) -> tuple[int, int]:
    left = (n_fft - size) // 2
    return left, n_fft - size - left


def _padded(x: Numbers, left: int, right: int, mode: str) -> Numbers:
    """Returns `x` with more samples on both sides."""

    def pad(part: torch.Tensor) -> torch.Tensor:
        # All modes but "constant" need leading dimensions.
        shape = (*part.shape[:-1], left + part.shape[-1] + right)
        leading = part.reshape((1,) * (3 - part.ndim) + part.shape)
        return torch.nn.functional.pad(leading, (left, right), mode).reshape(shape)

    return each_part(pad, x)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return b * a if isinstance(b, ComplexTensor) else a * b


def _lengths(n_fft: int, hop: int | None, size: int | None) -> tuple[int, int, int]:
    n_fft = integer("n_fft", n_fft)
    hop = n_fft // 4 if hop is None else integer("hop_length", hop)
    return n_fft, hop, n_fft if size is None else integer("win_length", size)


def _check_optional_flags(**flags: bool | None) -> None:
    check_flags(**{name: flag for name, flag in flags.items() if flag is not None})


def _check_signal(x: torch.Tensor, center: bool, align_to_window: bool | None) -> None:
    if x.ndim not in (1, 2):
        raise RuntimeError(
            f"argument 'input' has shape {tuple(x.shape)}, allowed are [L] and [B, L]; "
            f"join leading dimensions with .flatten(0, -2)"
        )
    if center and align_to_window is not None:
        raise RuntimeError(
            f"argument 'align_to_window' is {align_to_window}, allowed is only None where "
            f"argument 'center' is True; pass center=False"
        )


def _check_padding(width: int, shape: torch.Size, mode: str) -> None:
    """Raises RuntimeError for signals that have too few samples for the padding."""
    length = 0 if 0 in shape else shape[-1]  # shape.numel() would fix open sizes in graphs
    most = {"reflect": length - 1, "circular": length, "replicate": width if length else 0}
    if width > most.get(mode, width):
        raise RuntimeError(
            f"argument 'input' has shape {tuple(shape)}, too few samples for {width} more on each "
            f"side by argument 'pad_mode' {mode!r}; use 'constant', or center=False"
        )


def _check_frames(n_fft: int, hop: int, size: int, available: int) -> None:
    _check_range("n_fft", n_fft, available, "the length of the (padded) input")
    _check_range("win_length", size, n_fft, "n_fft")
    if hop < 1:
        raise RuntimeError(f"argument 'hop_length' is {hop}, allowed is 1 or more")


def _check_range(name: str, value: int, most: int, meaning: str) -> None:
    if not 0 < value <= most:
        raise RuntimeError(
            f"argument '{name}' is {value}, allowed is 1 to {most}, which is {meaning}"
        )


def _check_frequencies(count: int, n_fft: int, onesided: bool, return_complex: bool) -> None:
    expected = n_fft // 2 + 1 if onesided else n_fft
    if count != expected:
        raise RuntimeError(
            f"argument 'input' has {count} frequencies, allowed is {expected} where argument "
            f"'n_fft' is {n_fft} and 'onesided' is {onesided}; pass the values given to stft"
        )
    if onesided and return_complex:
        raise RuntimeError(
            "argument 'return_complex' is True, allowed is False where half of the spectrum is "
            "given, because only a real signal has half a spectrum; use stft(..., onesided=False)"
        )


def _check_envelope(envelope: torch.Tensor) -> None:
    """Raises RuntimeError where the sum of squared windows is too small to divide by."""
    if envelope.numel() == 0:
        raise RuntimeError(
            "the signal would have no samples: argument 'input' has too few frames or argument "
            "'length' is less than 1"
        )
    if envelope.device.type != "cpu" or torch.compiler.is_compiling():
        return  # reading a number would stop the device and break graphs
    sums = envelope.abs()
    while is_functorch_wrapped_tensor(sums):  # vmap reads no numbers of a batch
        sums = get_unwrapped(sums)
    least = sums.min().item()
    if least < _LEAST_ENVELOPE:
        raise RuntimeError(
            f"argument 'window', squared, adds up to {least} at some sample, allowed is "
            f"{_LEAST_ENVELOPE} or more (nonzero overlap add); pass center=True, a smaller "
            f"'hop_length', a window without zeros or a 'length' without the last samples"
        )


# What torch's own functions do with ComplexTensors.
for _owner in (torch, torch.Tensor):
    FUNCTIONS |= {_owner.stft: stft, _owner.istft: istft}
