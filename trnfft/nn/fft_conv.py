"""`torch.nn.Conv1d` and `torch.nn.Conv2d` computed by transforms, for long filters."""

import contextlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from trnfft.base import config
from trnfft.base.devices import backend_for
from trnfft.base.torch_private import ConvNd
from trnfft.complex.parts import is_followed
from trnfft.functions.arguments import (
    check_choice,
    check_device,
    check_parameters,
    check_real,
    computed_dtype,
    integers,
)
from trnfft.functions.convolve import fast_length, lengthened, periodic
from trnfft.functions.fft import irfftn, rfftn
from trnfft.nn.conv_arguments import (
    Padding,
    Sizes,
    check_conv,
    check_padded,
    check_shape,
    plain_sizes,
)
from trnfft.nn.split import bilinear
from trnfft.ops import autocast
from trnfft.ops.convolution import (
    convolve_images,
    filtered_rows,
    has_kernels,
    spectrum_for_images,
)
from trnfft.ops.many_devices import of_shards, takes_shards
from trnfft.ops.operand import Operand, operand_of

Form = Callable[[torch.Tensor, tuple[int, ...]], torch.Tensor]  # (taps, sizes) to spectra

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _Kept(NamedTuple):
    """The spectrum of a filter, and what it was computed of."""

    weight: torch.Tensor  # a copy
    settings: tuple[Any, ...]
    spectrum: torch.Tensor


class _FFTConv(ConvNd):
    """The part that both layers share, for the dimensions of the weight beyond its channels.

    A cross-correlation is a product with the conjugate spectrum of the filter. In transforms as
    long as the padded input, the points that wrap around come last, after the points of the result.
    Where each channel has a filter of its own (groups == in_channels == out_channels), kernels
    convolve rows in one launch, and images as well if the filter is constant.
    """

    _DIMENSIONS: int
    _kept: _Kept | None = None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Padding = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        channels = {"in_channels": in_channels, "out_channels": out_channels}
        given = {**channels, "groups": groups}
        check_conv(given, self._DIMENSIONS, kernel_size, stride, padding, dilation, bias)
        check_choice("padding_mode", padding_mode, PADDING_MODES)
        size = max(integers("kernel_size", kernel_size))
        shape = (out_channels, in_channels // groups, *(size,) * self._DIMENSIONS)
        check_parameters(device, dtype, shape, **channels, kernel_size=size)
        super().__init__(  # type: ignore[call-arg]  # the arguments of Conv1d and Conv2d
            in_channels,
            out_channels,
            plain_sizes("kernel_size", kernel_size),
            plain_sizes("stride", stride),
            plain_sizes("padding", padding),
            plain_sizes("dilation", dilation),
            groups=groups,
            bias=bias,
            padding_mode=padding_mode,  # type: ignore[arg-type]
            device=device,
            dtype=dtype,
        )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Returns the layer's output, as the class describes it."""
        weight, bias = self.weight, self.bias  # read once: parametrizations compute them
        _check_input(input, weight, self.in_channels)
        given = operand_of(input)
        if takes_shards(self, given.is_sharded):
            return of_shards(self, input, range(-self._DIMENSIONS - 1, 0))
        wide = computed_dtype(input.dtype)
        batch = input if input.ndim == weight.ndim else input[None]
        check_padded(batch, self.padding, self._DIMENSIONS)
        x = batch.to(wide)
        margins = self._margins()
        lengths = [n + sum(margin) for n, margin in zip(x.shape[2:], margins, strict=True)]
        counts = self._counts(lengths)
        if self.padding_mode != "zeros" and any(map(any, margins)):
            pairs = [points for margin in reversed(margins) for points in margin]
            x = nn.functional.pad(x, pairs, self.padding_mode)
        strides: list[Any] = [slice(0, None, stride) for stride in self.stride]
        y = self._correlated(given.of(x), weight, lengths, counts)[(..., *strides)]
        if bias is not None:
            y = y + bias.to(wide).view(-1, *(1,) * self._DIMENSIONS)
        return (y if batch is input else y[0]).contiguous().to(input.dtype)

    def _correlated(
        self, given: Operand, weight: torch.Tensor, lengths: list[int], counts: list[int]
    ) -> torch.Tensor:
        """Returns the first `counts` points, with stride 1, of data padded to `lengths`."""
        x, has_own = given.like, self._has_own_filters()
        if has_own and self._DIMENSIONS == 2 and has_kernels(given) and _is_constant(weight):
            with contextlib.suppress(NotImplementedError):
                return self._correlated_images(x, weight, lengths, counts)
        is_row = has_own and self._DIMENSIONS == 1
        sizes = tuple(fast_length(length, x.device, is_row) for length in lengths)
        form = _of_rows if has_own else self._of_groups
        filters = self._spectrum(weight, sizes, x.dtype, form)
        if is_row:
            return filtered_rows(given, filters, sizes[0], counts[0])
        axes = tuple(range(2, x.ndim))
        y = irfftn(self._mixed(rfftn(x, sizes, axes), filters), sizes, axes)
        kept: list[Any] = [slice(count) for count in counts]
        return y[(..., *kept)]

    def _correlated_images(
        self, x: torch.Tensor, weight: torch.Tensor, lengths: list[int], counts: list[int]
    ) -> torch.Tensor:
        """Returns `_correlated`, from one launch; NotImplementedError where no kernel exists."""
        from trnfft.planner.lengths import plan_images  # imported here: it loads the kernels

        height, width = x.shape[-2:]
        plan = plan_images((height, width), (lengths[0], lengths[1]))
        (m, n), is_transposed = plan.kind.lengths, plan.kind.held != (height, width)
        padded = m, n
        form = _of_transposed_images if is_transposed else _of_images
        sizes = padded[::-1] if is_transposed else padded
        filters = self._spectrum(weight, sizes, x.dtype, form)
        if is_transposed:
            return convolve_images(x.mT, filters, padded, (counts[1], counts[0])).mT
        return convolve_images(x, filters, padded, (counts[0], counts[1]))

    def _has_own_filters(self) -> bool:
        return self.in_channels == self.groups == self.out_channels

    def _margins(self) -> list[tuple[int, int]]:
        """Returns how many points `padding` adds before and after the data, for each dimension."""
        margins = []
        for i, (size, step) in enumerate(zip(self.kernel_size, self.dilation, strict=True)):
            before = after = 0
            if not isinstance(self.padding, str):
                before = after = int(self.padding[i])
            elif self.padding == "same":
                before = step * (size - 1) // 2
                after = step * (size - 1) - before
            margins.append((before, after))
        return margins

    def _counts(self, lengths: list[int]) -> list[int]:
        """Returns the points of a correlation with data of these lengths, with stride 1.

        Raises:
            ValueError: the filter is longer than the data.
        """
        counts = []
        for length, size, step in zip(lengths, self.kernel_size, self.dilation, strict=True):
            reach = step * (size - 1)
            if reach >= length:
                raise ValueError(
                    f"argument 'input' has {length} points with its padding, allowed are "
                    f"{reach + 1} or more, the length of the filter; use longer data or padding"
                )
            counts.append(length - reach)
        return counts

    def _mixed(self, spectrum: torch.Tensor, filters: torch.Tensor) -> torch.Tensor:
        """Returns the channels of each group, mixed by a matrix for each frequency."""
        if self._has_own_filters():
            return spectrum * filters
        batch, _, *points = spectrum.shape
        shape = batch, self.groups, self.in_channels // self.groups, math.prod(points)
        # [groups, F, B, in] @ [groups, F, in, out]: torch multiplies contiguous tensors fast.
        grouped = spectrum.reshape(shape).permute(1, 3, 0, 2).contiguous()
        with autocast.switched_off(spectrum.device):  # transforms promise the dtype
            product = bilinear(torch.matmul, grouped, filters)
        return product.permute(2, 0, 3, 1).reshape(batch, self.out_channels, *points)

    def _spectrum(
        self, weight: torch.Tensor, sizes: tuple[int, ...], dtype: torch.dtype, form: Form
    ) -> torch.Tensor:
        """Returns the filter's conjugate spectrum, which is kept for a filter of the same numbers.

        No version or identity of a tensor tells that its numbers are the same: optimizers of torch
        and writes into weight.data leave both as they are. So the numbers are compared.
        """
        if not _is_comparable(weight):
            return form(self._taps(weight, sizes, dtype), sizes)
        # A tensor made in inference mode must not be used in a graph later.
        chosen = (
            backend_for(weight.device),
            config.get_precision(),
            torch.is_inference_mode_enabled(),
        )
        settings = sizes, dtype, form, *chosen
        kept = self._kept  # read once, as another thread may replace it
        if kept is None or kept.settings != settings or not _are_same(kept.weight, weight):
            copied = weight.detach().clone()  # because another thread may write
            spectrum = form(self._taps(copied, sizes, dtype), sizes)
            kept = self._kept = _Kept(copied, settings, spectrum)
        return kept.spectrum

    def _taps(
        self, weight: torch.Tensor, sizes: tuple[int, ...], dtype: torch.dtype
    ) -> torch.Tensor:
        """Returns the filter [out, in / groups, ...] on circles of these sizes, begun early."""
        taps = weight.to(dtype)
        for dim, step in reversed(list(enumerate(self.dilation, 2))):
            if step > 1:  # zeros between the taps
                taps = lengthened(taps.unsqueeze(dim + 1), dim + 1, step).flatten(dim, dim + 1)
        # The zeros before the data are the zeros at the end of the circle, for taps moved back.
        before = [margin[0] if self.padding_mode == "zeros" else 0 for margin in self._margins()]
        if any(before):
            for dim, (size, start) in enumerate(zip(sizes, before, strict=True), 2):
                taps = periodic(lengthened(taps, dim, size), start, start + size, dim)
        return taps

    def _of_groups(self, taps: torch.Tensor, sizes: tuple[int, ...]) -> torch.Tensor:
        """Returns conjugate spectra as the matrices [groups, F, in / groups, out / groups]."""
        shape = self.groups, self.out_channels // self.groups, taps.shape[1], -1
        return _conjugate(taps, sizes).reshape(shape).permute(0, 3, 2, 1).contiguous()

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        self._kept = None  # .to() and similar methods give the parameters new data
        return super()._apply(fn, recurse)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}


class FFTConv1d(_FFTConv, nn.Conv1d):
    """Computes torch.nn.Conv1d by transforms, in a time that hardly depends on `kernel_size`.

        y[o, l] = b[o] + sum_{i, k} w[o, i, k] x[i, stride l + dilation k - padding]

    The counterpart in torch is `torch.nn.Conv1d`. The parameters, their first values and the
    state_dict are those of torch's layer. All points are computed, and the points between strides
    are dropped. float16 and bfloat16 are computed in float32. Where no gradient of the weight is
    needed and the weight is in the host's memory, the spectrum of the weight is kept for the next
    input of the same size: it is used again while the weight has the same numbers, whoever wrote
    them. On other devices, each call transforms the weight. See `docs/convolution.md`.

    Args:
        in_channels, out_channels, kernel_size, stride: as for `torch.nn.Conv1d`.
        padding, dilation, groups, bias, padding_mode, device, dtype: as for `torch.nn.Conv1d`.

    Input: a real tensor of shape [B, in_channels, L] or [in_channels, L]. Output: a real tensor of
    shape [B, out_channels, M] or [out_channels, M] and of the same dtype, where M is as in
    torch.nn.Conv1d.

    Raises:
        RuntimeError: the input of a call is too short for its `padding_mode`.

    Examples:
        >>> import torch, trnfft
        >>> layer = trnfft.nn.FFTConv1d(1, 2, kernel_size=101, padding="same")
        >>> layer(torch.ones(10, 1, 1000)).shape
        torch.Size([10, 2, 1000])
    """

    _DIMENSIONS = 1


class FFTConv2d(_FFTConv, nn.Conv2d):
    """Computes torch.nn.Conv2d by transforms, in a time that hardly depends on `kernel_size`.

        y[o, l, m] = b[o] + sum_{i, j, k} w[o, i, j, k] x[i, stride l + dilation j - padding, ...]

    `FFTConv1d` says what else holds. The counterpart in torch is `torch.nn.Conv2d`.

    Args:
        in_channels, out_channels, kernel_size, stride: as for `torch.nn.Conv2d`.
        padding, dilation, groups, bias, padding_mode, device, dtype: as for `torch.nn.Conv2d`.

    Input: a real tensor of shape [B, in_channels, H, W] or [in_channels, H, W]. Output: a real
    tensor of shape [B, out_channels, M, N] or [out_channels, M, N] and of the same dtype, where M
    and N are as in torch.nn.Conv2d.

    Examples:
        >>> import torch, trnfft
        >>> layer = trnfft.nn.FFTConv2d(3, 3, kernel_size=31, groups=3, padding=15)
        >>> layer(torch.ones(1, 3, 64, 64)).shape
        torch.Size([1, 3, 64, 64])
    """

    _DIMENSIONS = 2


def _conjugate(taps: torch.Tensor, sizes: tuple[int, ...]) -> torch.Tensor:
    return torch.conj_physical(rfftn(taps, sizes, tuple(range(2, taps.ndim))))


def _of_rows(taps: torch.Tensor, sizes: tuple[int, ...]) -> torch.Tensor:
    """Returns conjugate spectra [channels, ...], for a filter of each channel."""
    return _conjugate(taps, sizes)[:, 0].contiguous()


def _of_images(taps: torch.Tensor, sizes: tuple[int, ...]) -> torch.Tensor:
    return spectrum_for_images(_of_rows(taps, sizes))


def _of_transposed_images(taps: torch.Tensor, sizes: tuple[int, ...]) -> torch.Tensor:
    return _of_images(taps.mT, sizes[::-1])


def _is_constant(weight: torch.Tensor) -> bool:
    if torch.compiler.is_compiling() or not isinstance(weight, nn.Parameter):
        return False
    return not (torch.is_grad_enabled() and weight.requires_grad)


def _is_comparable(weight: torch.Tensor) -> bool:
    # A comparison on another device would need launches for which the host waits.
    is_plain = type(weight) is nn.Parameter and weight.device.type == "cpu"
    return is_plain and not is_followed(weight) and not torch.jit.is_tracing()


def _are_same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(a, b)


def _check_input(input: torch.Tensor, weight: torch.Tensor, channels: int) -> None:
    check_real("input", input, ", for complex numbers use ComplexConv")
    check_shape(input, channels, weight.ndim - 2, ValueError)
    check_device("input", input.device, "the weight", weight.device)
