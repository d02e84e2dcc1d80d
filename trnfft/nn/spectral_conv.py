"""The Fourier layers of neural operators."""

import torch

from trnfft.complex.dispatch import Parts
from trnfft.functions.arguments import (
    check_device,
    check_parameters,
    check_positive,
    floating_point,
)
from trnfft.nn.split import SplitWeight
from trnfft.ops.many_devices import of_shards, takes_shards
from trnfft.ops.operand import Operand, operand_of
from trnfft.ops.spectral_convolution import spectral_convolution


class _SpectralConv(SplitWeight):
    """The part that the layers of one, two and three dimensions share.

    Args:
        in_channels, out_channels: numbers of channels.
        modes: numbers of frequencies by their names: of each sign, except for the last dimension.
        device, dtype: of the parameters.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        modes: dict[str, int],
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        channels = {"in_channels": in_channels, "out_channels": out_channels}
        check_positive(**channels, **modes)
        *signed, last = modes.values()
        shape = (in_channels, out_channels, *(2 * count for count in signed), last)
        check_parameters(device, dtype, shape, **channels, **modes)
        super().__init__(shape, in_channels, out_channels, 0, device, dtype)
        self.in_channels, self.out_channels = in_channels, out_channels
        self._modes = modes

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        counts = tuple(self._modes.values())
        given = operand_of(floating_point("input", input, TypeError, with_integers=False))
        check_shape(input, len(counts), self.in_channels)
        if takes_shards(self, given.is_sharded):
            return of_shards(self, input, range(1, input.ndim))
        sizes = input.shape[2:]
        for i, (name, count) in enumerate(self._modes.items()):
            most = sizes[i] // 2 + int(i == len(counts) - 1)
            if count > most:
                raise ValueError(
                    f"argument 'input' has {sizes[i]} points and {most} frequencies, allowed are "
                    f"{count} or more, because the layer has {name}={count}; use longer data or "
                    f"fewer modes"
                )
        return convolved(given, self.parts)

    def extra_repr(self) -> str:
        modes = ", ".join(f"{name}={count}" for name, count in self._modes.items())
        return f"{self.in_channels}, {self.out_channels}, {modes}"


class SpectralConv1d(_SpectralConv):
    """Convolves over the whole length with a kernel that is given by its lowest frequencies.

        y = irfft(Y),  Y[o, k] = sum_i w[i, o, k] X[i, k] for k < modes, else 0,  X = rfft(x)

    (Li et al., "Fourier neural operator for parametric partial differential equations", 2021,
    section 4.) The parameters are `weight_real` and `weight_imag`, of shape [in_channels,
    out_channels, modes]. `trnfft.nn.split.SplitWeight` describes their first values. float16 and
    bfloat16 are computed in float32. The transforms are those of `torch.fft.rfft`. See
    `docs/layers.md`.

    Args:
        in_channels, out_channels: numbers of channels.
        modes: the number of frequencies that are kept.
        device, dtype: of the parameters; `dtype` is real.

    Input: a real tensor of shape [B, in_channels, N] with N // 2 + 1 >= modes. Output: a real
    tensor of shape [B, out_channels, N] and of the same dtype.

    Examples:
        >>> import torch, trnfft
        >>> layer = trnfft.nn.SpectralConv1d(2, 4, modes=16)
        >>> layer(torch.ones(10, 2, 64)).shape
        torch.Size([10, 4, 64])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        modes: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_channels, out_channels, {"modes": modes}, device, dtype)
        self.modes = modes


class SpectralConv2d(_SpectralConv):
    """Convolves over the whole plane with a kernel that is given by its lowest frequencies.

        y = irfft2(Y),  Y[o, j, k] = sum_i w[i, o, j, k] X[i, j, k],  X = rfft2(x)

    for -modes1 <= j < modes1 and 0 <= k < modes2; all other Y are 0. The weight stores j >= 0
    first, then j < 0, in the order of `torch.fft.rfft2`; its shape is [in_channels, out_channels,
    2 * modes1, modes2]. `SpectralConv1d` says what else holds.

    Args:
        modes1: the number of frequencies of each sign that are kept along the last but one
            dimension.
        modes2: the number of frequencies that are kept along the last dimension.
        in_channels, out_channels, device, dtype: as for `SpectralConv1d`.

    Input: a real tensor of shape [B, in_channels, H, W] with H >= 2 * modes1 and W // 2 + 1 >=
    modes2. Output: a real tensor of shape [B, out_channels, H, W] and of the same dtype.

    Examples:
        >>> import torch, trnfft
        >>> layer = trnfft.nn.SpectralConv2d(2, 4, modes1=8, modes2=8)
        >>> layer(torch.ones(10, 2, 32, 32)).shape
        torch.Size([10, 4, 32, 32])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        modes1: int,
        modes2: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        modes = {"modes1": modes1, "modes2": modes2}
        super().__init__(in_channels, out_channels, modes, device, dtype)
        self.modes1, self.modes2 = modes1, modes2


class SpectralConv3d(_SpectralConv):
    """Convolves over the whole volume with a kernel that is given by its lowest frequencies.

        y = irfftn(Y),  Y[o, j, k, l] = sum_i w[i, o, j, k, l] X[i, j, k, l],  X = rfftn(x)

    for -modes1 <= j < modes1, -modes2 <= k < modes2 and 0 <= l < modes3; all other Y are 0. The
    weight stores j >= 0 first, then j < 0, and k likewise, in the order of `torch.fft.rfftn`; its
    shape is [in_channels, out_channels, 2 * modes1, 2 * modes2, modes3]. `SpectralConv1d` says what
    else holds.

    Args:
        modes1, modes2: the numbers of frequencies of each sign that are kept along the last but two
            and the last but one dimension.
        modes3: the number of frequencies that are kept along the last dimension.
        in_channels, out_channels, device, dtype: as for `SpectralConv1d`.

    Input: a real tensor of shape [B, in_channels, D, H, W] with D >= 2 * modes1, H >= 2 * modes2
    and W // 2 + 1 >= modes3. Output: a real tensor of shape [B, out_channels, D, H, W] and of the
    same dtype.

    Examples:
        >>> import torch, trnfft
        >>> layer = trnfft.nn.SpectralConv3d(2, 4, modes1=2, modes2=2, modes3=2)
        >>> layer(torch.ones(3, 2, 8, 8, 8)).shape
        torch.Size([3, 4, 8, 8, 8])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        modes1: int,
        modes2: int,
        modes3: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        modes = {"modes1": modes1, "modes2": modes2, "modes3": modes3}
        super().__init__(in_channels, out_channels, modes, device, dtype)
        self.modes1, self.modes2, self.modes3 = modes1, modes2, modes3


def convolved(given: Operand, weight: Parts, is_centered: bool = False) -> torch.Tensor:
    """Returns the spectral convolution of an input, computed in float32 or float64."""
    input = given.like
    if given.is_complex:
        raise RuntimeError(
            f"argument 'input' has dtype {input.dtype}, allowed are real dtypes; give the real and "
            f"the imaginary part a call each"
        )
    check_device("input", input.device, "the weight", weight.real.device)
    dtype = torch.float64 if input.dtype == torch.float64 else torch.float32
    if weight.real.dtype != dtype:
        weight = Parts(weight.real.to(dtype), weight.imag.to(dtype))
    if input.dtype == dtype:
        return spectral_convolution(given, weight, is_centered)
    return spectral_convolution(given.of(input.to(dtype)), weight, is_centered).to(input.dtype)


def check_shape(input: torch.Tensor, ndim: int, channels: int) -> None:
    """Raises ValueError unless the input has channels before `ndim` dimensions of points."""
    if input.ndim != ndim + 2 or input.shape[1] != channels:
        points = {1: "N", 2: "H, W", 3: "D, H, W"}.get(ndim, f"{ndim} dimensions")
        raise ValueError(
            f"argument 'input' has shape {tuple(input.shape)}, allowed is "
            f"[B, {channels}, {points}]; bring the channels to dimension 1"
        )
