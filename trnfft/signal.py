"""Short-time Fourier transform and its inverse: arguments as in torch.stft and torch.istft.

With a window w of N = n_fft numbers, which is the given one between zeros, and a hop h:

    stft:   X[f, t] = scale * sum_k w[k] x[t h + k] exp(-2 pi i f k / N)
    istft:  x[j] = (sum_t w[j - t h] y[t, j - t h]) / (sum_t w[j - t h]^2),  y = ifft of X / scale

The latter has the least squared error of all signals (Griffin & Lim, "Signal estimation from
modified short-time Fourier transform", 1984).
"""

import math
import warnings

import torch

from trnfft.arguments import (
    DTYPE_ERROR,
    NOT_COMPLEX_ERROR,
    Input,
    check_choice,
    check_flags,
    check_tensor,
    floating_point,
    integer,
    of_given_kind,
    widened,
)
from trnfft.backends.choice import COMPLEX_DEVICES
from trnfft.checks import shown
from trnfft.complex.parts import Numbers, each_part
from trnfft.complex.tensor import ComplexTensor
from trnfft.memory import check_memory, may_be_too_many
from trnfft.ops.sharded import is_sharded, of_shards
from trnfft.transforms import fft, ifft, irfft, rfft

PAD_MODES = ("constant", "reflect", "replicate", "circular")
# Where the squared windows add up to less, istft has nothing to compute a sample from.
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
    """Short-time Fourier transform: the spectra of windowed, overlapping frames of a signal.

    float16 and bfloat16 are computed in float32; a wider window widens the result.

    Args:
        input: real, native complex or ComplexTensor, [L] or [B, L].
        n_fft: length N of a frame and of its transform.
        hop_length: distance h of the frames. Default: n_fft // 4.
        win_length: length of the window, which zeros on both sides bring to n_fft.
            Default: n_fft.
        window: real, native complex or ComplexTensor, [win_length]. Default: ones.
        center: whether frame t is centred at t h, for which `input` is padded by n_fft // 2 on
            both sides, instead of starting there.
        pad_mode: how `center` pads, see torch.nn.functional.pad.
        normalized: whether scale is 1 / sqrt(n_fft), not 1.
        onesided: whether to keep only f = 0 ... n_fft // 2. Default: where that loses nothing,
            because input and window are real.
        return_complex: False for a real tensor with real and imaginary parts in one more, last
            dimension of size 2. Default: a complex one (which torch wants to be asked for).
        align_to_window: whether the windows' first sample, not the frames', is the first of
            `input`; with `center` only None is allowed.

    Returns:
        A complex tensor [F, T] or [B, F, T], of the kind that `trnfft.fft` gives, with F the number
        of frequencies and T of frames.

    Raises:
        TypeError: an argument is of the wrong type.
        NotImplementedError: `pad_mode` is unknown.
        RuntimeError: `input` or `window` has a dtype or shape other than above; not
            0 < n_fft <= L after padding, hop_length > 0 or 0 < win_length <= n_fft; the input is
            too short to pad; `onesided` for complex data; `align_to_window` with `center`.
    """
    if is_sharded(input):
        rest = (n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided)
        more = (return_complex, align_to_window)
        return of_shards(stft, input, (-1,), *rest, *more)
    check_flags(center=center, normalized=normalized)
    _check_optional_flags(
        onesided=onesided, return_complex=return_complex, align_to_window=align_to_window
    )
    check_choice("pad_mode", pad_mode, PAD_MODES, NotImplementedError)
    x = _samples(input)
    n_fft, hop, size = _lengths(n_fft, hop_length, win_length)
    _check_signal(x, center, align_to_window)
    if center:
        _check_padding(n_fft // 2, x.shape, pad_mode)
        x = _padded(x, n_fft // 2, n_fft // 2, pad_mode)
    elif align_to_window:
        x = _padded(x, *_margins(n_fft, size), "constant")
    _check_frames(n_fft, hop, size, x.shape[-1])
    frames = _product(_frames(x, n_fft, hop), _window(window, size, n_fft, x))
    result = _spectra(frames, "ortho" if normalized else None, onesided).transpose(-1, -2)
    if return_complex or return_complex is None:
        return result
    return torch.stack([result.real, result.imag], -1)


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
    """Inverse of `stft`: the signal whose frames are nearest to those with the given spectra.

    Args:
        input: native complex or ComplexTensor, [F, T] or [B, F, T], as `stft` returns.
        n_fft, hop_length, win_length, window, center, normalized: as given to `stft`.
        onesided: whether F is n_fft // 2 + 1, not n_fft. Default: whether F is not n_fft.
        length: length L of the result: zeros follow where the frames end earlier. Default: to
            the end of the last frame, without the padding of `center`.
        return_complex: whether the signal is complex, for which F must be n_fft.

    Returns:
        torch.Tensor [L] or [B, L]; a complex one with `return_complex`.

    Raises:
        TypeError: an argument is of the wrong type.
        RuntimeError: `input` is real (a TypeError from torch 2.14 on, as torch's own is), empty or
            of another shape than above; not 0 < hop_length <= win_length <= n_fft; `window` has
            another shape or is complex where the result is real; squared windows add up to less
            than 1e-11 at some sample (the condition "nonzero overlap add"), there is no sample, or
            no memory for `length` of them. On other devices than the CPU, and compiled, samples
            with such sums come back infinite or NaN instead: to read a sum would stop the device,
            and break the graph.
    """
    if is_sharded(input):
        rest = (n_fft, hop_length, win_length, window, center, normalized, onesided, length)
        return of_shards(istft, input, (-2, -1), *rest, return_complex)
    check_flags(center=center, normalized=normalized, return_complex=return_complex)
    _check_optional_flags(onesided=onesided)
    x = _samples(input)
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
            "argument 'window' is complex, allowed is a real one for a real signal; "
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
    """The transforms of frames [..., n_fft], of which `onesided` keeps the first half."""
    if not frames.is_complex():
        return fft(frames, norm=norm) if onesided is False else rfft(frames, norm=norm)
    if onesided:
        raise RuntimeError(
            "argument 'onesided' is True, allowed are False and None where input or window is "
            "complex, because the second half of the spectrum is no copy of the first"
        )
    return fft(frames, norm=norm)


def _signals(spectra: torch.Tensor, n_fft: int, norm: str | None, is_complex: bool) -> torch.Tensor:
    """The frames [..., n_fft] with these spectra, of which real ones take the first half."""
    if is_complex:
        return ifft(spectra, norm=norm)
    return irfft(spectra[..., : n_fft // 2 + 1], n_fft, norm=norm)


def _frames(x: Numbers, size: int, hop: int) -> Numbers:
    """Frames [..., T, size] of samples [..., L], of which frame t starts at t hop.

    XLA has no `unfold`. There rows are moved as `overlap_add` does it, the other way round: T + B
    - 1 blocks of `hop` numbers, B times, read as rows of T + B.
    """

    def cut(part: torch.Tensor) -> torch.Tensor:
        if part.device.type in COMPLEX_DEVICES:
            return part.unfold(-1, size, hop)
        count = (part.shape[-1] - size) // hop + 1
        blocks = -(-size // hop)
        rows = count + blocks - 1
        part = part[..., : rows * hop]
        part = torch.nn.functional.pad(part, (0, rows * hop - part.shape[-1]))
        part = part.unflatten(-1, (1, rows, hop))
        moved = part.expand(*part.shape[:-3], blocks, rows, hop).flatten(-3, -2)
        moved = torch.nn.functional.pad(moved, (0, 0, 0, blocks))
        moved = moved.unflatten(-2, (blocks, rows + 1))[..., :count, :]
        return moved.transpose(-3, -2).flatten(-2)[..., :size]

    return each_part(cut, x)


def overlap_add(frames: Numbers, hop: int) -> Numbers:
    """The sum of frames [..., T, N], of which frame t starts at t hop: [..., N + hop (T - 1)].

    Frames are cut into blocks of `hop` numbers, so that block b of frame t belongs to block t + b
    of the sum. Rows of T + B numbers, read as rows of T + B - 1, move by one each: that brings
    what belongs together below each other without an index, which a NeuronCore is slow at.
    """

    def add(part: torch.Tensor) -> torch.Tensor:
        count, size = part.shape[-2:]
        blocks = -(-size // hop)
        rows = torch.nn.functional.pad(part, (0, blocks * hop - size))
        rows = rows.unflatten(-1, (blocks, hop)).transpose(-3, -2)
        rows = torch.nn.functional.pad(rows, (0, 0, 0, blocks)).flatten(-3, -2)
        moved = rows[..., :-blocks, :].unflatten(-2, (blocks, count + blocks - 1))
        return moved.sum(-3).flatten(-2)[..., : size + hop * (count - 1)]

    return each_part(add, frames)


def _count_of(length: int, x: torch.Tensor, is_complex: bool) -> int:
    """Argument 'length' as a number of samples; RuntimeError for more than memory holds."""
    count = max(integer("length", length), 0)
    shape = (*x.shape[:-2], count)
    if may_be_too_many(math.prod(shape)):
        what = f"argument 'length' is {shown(count)}"
        check_memory(what, shape, x.real.element_size() * (2 if is_complex else 1), x.device)
    return count


def _lengthened(signal: torch.Tensor, missing: int) -> torch.Tensor:
    if missing <= 0:
        return signal
    warnings.warn(
        f"argument 'length' is {signal.shape[-1] + missing}, but the frames have only "
        f"{signal.shape[-1]} samples; zeros follow them",
        stacklevel=3,
    )
    return each_part(lambda part: torch.nn.functional.pad(part, (0, missing)), signal)


def _window(window: Input | None, size: int, n_fft: int, like: torch.Tensor) -> torch.Tensor:
    """The window between zeros: `n_fft` numbers."""
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
    """How many zeros are before and after the window in a frame."""
    left = (n_fft - size) // 2
    return left, n_fft - size - left


def _padded(x: Numbers, left: int, right: int, mode: str) -> Numbers:
    """More samples on both sides."""

    def pad(part: torch.Tensor) -> torch.Tensor:
        # All modes but "constant" need leading dimensions.
        shape = (*part.shape[:-1], left + part.shape[-1] + right)
        leading = part.reshape((1,) * (3 - part.ndim) + part.shape)
        return torch.nn.functional.pad(leading, (left, right), mode).reshape(shape)

    return each_part(pad, x)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return b * a if isinstance(b, ComplexTensor) else a * b


def _samples(x: Input) -> torch.Tensor:
    """Argument 'input': real, or complex of the kind that it gives; in float32 or float64."""
    return widened(of_given_kind(floating_point("input", x, DTYPE_ERROR, with_integers=False)))


def _lengths(n_fft: int, hop: int | None, size: int | None) -> tuple[int, int, int]:
    """n_fft, hop_length and win_length, with their defaults."""
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
    """RuntimeError for signals that have too few samples to pad."""
    length = shape[-1] if shape.numel() else 0
    most = {"reflect": length - 1, "circular": length, "replicate": width if length else 0}
    if width > most.get(mode, width):
        raise RuntimeError(
            f"argument 'input' has shape {tuple(shape)}, too few samples for {width} more on each "
            f"side by argument 'pad_mode' {mode!r}; take 'constant', or center=False"
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
            f"'n_fft' is {n_fft} and 'onesided' is {onesided}; pass those given to stft"
        )
    if onesided and return_complex:
        raise RuntimeError(
            "argument 'return_complex' is True, allowed is False where half of the spectrum is "
            "given, because that is of a real signal; use stft(..., onesided=False)"
        )


def _check_envelope(envelope: torch.Tensor) -> None:
    """RuntimeError where there is nothing to divide by."""
    if envelope.numel() == 0:
        raise RuntimeError(
            "the signal would have no samples: argument 'input' has too few frames or argument "
            "'length' is less than 1"
        )
    if envelope.device.type != "cpu" or torch.compiler.is_compiling():
        return  # reading a number would stop the device, and break its graphs
    least = envelope.abs().min().item()
    if least < _LEAST_ENVELOPE:
        raise RuntimeError(
            f"argument 'window', squared, adds up to {least} at some sample, allowed is "
            f"{_LEAST_ENVELOPE} or more (nonzero overlap add); pass center=True, a smaller "
            f"'hop_length', a window without zeros or a 'length' without the last samples"
        )
