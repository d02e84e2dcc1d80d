"""The Fourier layers of neural operators."""

import torch

from trnfft.arguments import check_device, check_parameters, check_positive, floating_point
from trnfft.complex.parts import each_part
from trnfft.complex.tensor import ComplexTensor
from trnfft.nn.split import SplitWeight, bilinear
from trnfft.transforms import irfft, irfft2, rfft, rfft2


class SpectralConv1d(SplitWeight):
    """A convolution over the whole length, given by the lowest frequencies of its kernel.

        y = irfft(Y),  Y[o, k] = sum_i w[i, o, k] X[i, k] for k < modes, else 0,  X = rfft(x)

    (Li et al., "Fourier neural operator for parametric partial differential equations", 2021,
    section 4.) Parameters are `weight_real` and `weight_imag`, [in_channels, out_channels, modes];
    `trnfft.nn.split.SplitWeight` gives their first values. float16 and bfloat16 are computed in
    float32.

    Args:
        in_channels, out_channels: numbers of channels.
        modes: the number of frequencies kept.
        device, dtype: of the parameters; `dtype` is real.

    Input: real, [B, in_channels, N] with N // 2 + 1 >= modes. Output: a real tensor
    [B, out_channels, N] of the same dtype.

    Raises:
        ValueError: a number is less than 1; on call, the input has another shape.
        TypeError: `dtype` is not real; on call, the input is no tensor, or of integers.
        RuntimeError: on call, the input is complex.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        modes: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        sizes = {"in_channels": in_channels, "out_channels": out_channels, "modes": modes}
        check_positive(**sizes)
        shape = (in_channels, out_channels, modes)
        check_parameters(device, dtype, shape, **sizes)
        super().__init__(shape, in_channels, out_channels, 0, device, dtype)
        self.in_channels, self.out_channels, self.modes = in_channels, out_channels, modes

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        floating_point("input", input, TypeError, with_integers=False)
        _check_shape(input, 3, self.in_channels)
        length = input.shape[-1]
        _check_modes("modes", self.modes, length // 2 + 1, length)
        spectrum = rfft(input)
        kept = _mixed("bik,iok->bok", spectrum[..., : self.modes], self.weight)
        return irfft(kept, length).to(input.dtype)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, modes={self.modes}"


class SpectralConv2d(SplitWeight):
    """A convolution over the whole plane, given by the lowest frequencies of its kernel.

        y = irfft2(Y),  Y[o, j, k] = sum_i w[i, o, j, k] X[i, j, k],  X = rfft2(x)

    for -modes1 <= j < modes1 and 0 <= k < modes2; all other Y are 0. The weight has j >= 0 first,
    then j < 0, as the transform has (Li et al., "Fourier neural operator for parametric partial
    differential equations", 2021, section 4). Parameters are `weight_real` and `weight_imag`,
    [in_channels, out_channels, 2 * modes1, modes2]; `trnfft.nn.split.SplitWeight` gives their first
    values. float16 and bfloat16 are computed in float32.

    Args:
        in_channels, out_channels: numbers of channels.
        modes1: the number of frequencies kept of each sign along the last but one dimension.
        modes2: the number of frequencies kept along the last dimension.
        device, dtype: of the parameters; `dtype` is real.

    Input: real, [B, in_channels, H, W] with H >= 2 * modes1 and W // 2 + 1 >= modes2. Output: a
    real tensor [B, out_channels, H, W] of the same dtype.

    Raises:
        ValueError: a number is less than 1; on call, the input has another shape.
        TypeError: `dtype` is not real; on call, the input is no tensor, or of integers.
        RuntimeError: on call, the input is complex.
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
        channels = {"in_channels": in_channels, "out_channels": out_channels}
        sizes = {**channels, "modes1": modes1, "modes2": modes2}
        check_positive(**sizes)
        shape = (in_channels, out_channels, 2 * modes1, modes2)
        check_parameters(device, dtype, shape, **sizes)
        super().__init__(shape, in_channels, out_channels, 0, device, dtype)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.modes1, self.modes2 = modes1, modes2

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        floating_point("input", input, TypeError, with_integers=False)
        _check_shape(input, 4, self.in_channels)
        height, width = input.shape[-2:]
        _check_modes("modes1", self.modes1, height // 2, height)
        _check_modes("modes2", self.modes2, width // 2 + 1, width)
        spectrum = rfft2(input)
        rows, low = self.modes1, spectrum[..., : self.modes2]
        low = each_part(
            lambda part: torch.cat([part[..., :rows, :], part[..., -rows:, :]], -2), low
        )
        mixed = _mixed("bijk,iojk->bojk", low, self.weight)
        gap = (0, 0, 0, height - 2 * rows)
        mixed = each_part(
            lambda part: torch.cat(
                [torch.nn.functional.pad(part[..., :rows, :], gap), part[..., rows:, :]], -2
            ),
            mixed,
        )
        return irfft2(mixed, (height, width)).to(input.dtype)

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, modes1={self.modes1}, modes2={self.modes2}"
        )


def _mixed(sum: str, spectrum: ComplexTensor, weight: ComplexTensor) -> ComplexTensor:
    """The channels mixed by a matrix for every frequency, in the dtype of the spectrum."""
    check_device("input", spectrum.device, "the weight", weight.device)
    weight = weight.to(spectrum.real.dtype)
    return bilinear(lambda x, w: torch.einsum(sum, x, w), spectrum, weight)


def _check_shape(input: torch.Tensor, ndim: int, channels: int) -> None:
    if input.ndim != ndim or input.shape[1] != channels:
        points = "N" if ndim == 3 else "H, W"
        raise ValueError(
            f"argument 'input' has shape {tuple(input.shape)}, allowed is "
            f"[B, {channels}, {points}]; bring the channels to dimension 1"
        )


def _check_modes(name: str, modes: int, most: int, length: int) -> None:
    if modes > most:
        raise ValueError(
            f"the layer keeps {name}={modes} frequencies, but argument 'input' with {length} "
            f"points has {most}; use longer data or fewer modes"
        )
