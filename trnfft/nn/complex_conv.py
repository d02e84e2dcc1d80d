"""Complex convolution layers."""

import functools
import math
from collections.abc import Callable

import torch

from trnfft.complex.parts import is_sharded
from trnfft.functions.arguments import check_parameters, integers
from trnfft.nn.conv_arguments import check_conv, check_points, check_shape, plain_sizes
from trnfft.nn.split import SplitWeight, bilinear
from trnfft.ops.many_devices import of_shards, takes_shards

Size = int | tuple[int, ...]


class _ComplexConv(SplitWeight):
    """A convolution over `_DIMENSIONS` dimensions, which `_convolve` computes."""

    _DIMENSIONS: int
    _convolve: Callable[..., torch.Tensor]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        channels = {"in_channels": in_channels, "out_channels": out_channels}
        given = {**channels, "groups": groups}
        check_conv(given, self._DIMENSIONS, kernel_size, stride, padding, dilation, bias)
        sizes = integers("kernel_size", kernel_size)
        kernel_size = sizes * (self._DIMENSIONS // len(sizes))
        points = math.prod(kernel_size)
        shape = (out_channels, in_channels // groups, *kernel_size)
        check_parameters(device, dtype, shape, **channels, kernel_size=points)
        super().__init__(
            shape,
            in_channels // groups * points,
            out_channels // groups * points,
            out_channels if bias else 0,
            device,
            dtype,
        )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = kernel_size
        self.settings = dict(
            stride=plain_sizes("stride", stride),
            padding=plain_sizes("padding", padding),
            dilation=plain_sizes("dilation", dilation),
            groups=groups,
        )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        convolve = functools.partial(self._convolve, **self.settings)
        x, weight = self.checked(input)
        check_shape(x, self.in_channels, self._DIMENSIONS)
        if takes_shards(self, is_sharded(x)):
            return of_shards(self, x, range(-self._DIMENSIONS - 1, 0))
        check_points(x, self.kernel_size, self.settings["padding"], self.settings["dilation"])
        return self.biased(bilinear(convolve, x, weight), (-1,) + (1,) * self._DIMENSIONS)

    def extra_repr(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, {settings}, "
            f"bias={self.bias_real is not None}"
        )


class ComplexConv1d(_ComplexConv):
    """Computes the complex cross-correlation over one dimension, without conjugation.

        y[o, l] = b[o] + sum_{i, k} w[o, i, k] x[i, stride l + dilation k - padding]

    The counterpart in torch is `torch.nn.Conv1d`. The parameters are `weight_real` and
    `weight_imag`, of shape [out_channels, in_channels / groups, K], and `bias_real` and
    `bias_imag`, of shape [out_channels]. `trnfft.nn.split.SplitWeight` describes their first
    values. See `docs/layers.md`.

    Args:
        in_channels, out_channels: numbers of channels, multiples of `groups`.
        kernel_size, stride, padding, dilation, groups, bias: as for `torch.nn.Conv1d`.
        device, dtype: of the parameters; `dtype` is real.

    Input: a complex or real tensor of shape [B, in_channels, L] or [in_channels, L]. Output: a
    complex tensor of shape [B, out_channels, M] or [out_channels, M], where M is as in
    `torch.nn.Conv1d`.

    Examples:
        >>> import torch, trnfft
        >>> layer = trnfft.nn.ComplexConv1d(2, 4, kernel_size=3, padding=1)
        >>> layer(torch.ones(10, 2, 50, dtype=torch.complex64)).shape
        torch.Size([10, 4, 50])
    """

    _DIMENSIONS = 1
    _convolve = staticmethod(torch.nn.functional.conv1d)


class ComplexConv2d(_ComplexConv):
    """Computes the complex cross-correlation over two dimensions, without conjugation.

        y[o, l, m] = b[o] + sum_{i, j, k} w[o, i, j, k] x[i, stride l + dilation j - padding, ...]

    The parameters are those of `ComplexConv1d`, but for the weight of shape [out_channels,
    in_channels / groups, J, K]. The counterpart in torch is `torch.nn.Conv2d`.

    Args:
        kernel_size, stride, padding, dilation: as for `torch.nn.Conv2d`.
        in_channels, out_channels, groups, bias, device, dtype: as for `ComplexConv1d`.

    Input: a complex or real tensor of shape [B, in_channels, H, W] or [in_channels, H, W]. Output:
    a complex tensor of shape [B, out_channels, M, N] or [out_channels, M, N], where M and N are as
    in `torch.nn.Conv2d`.

    Examples:
        >>> import torch, trnfft
        >>> layer = trnfft.nn.ComplexConv2d(2, 4, kernel_size=3, stride=2)
        >>> layer(torch.ones(10, 2, 9, 9, dtype=torch.complex64)).shape
        torch.Size([10, 4, 4, 4])
    """

    _DIMENSIONS = 2
    _convolve = staticmethod(torch.nn.functional.conv2d)
