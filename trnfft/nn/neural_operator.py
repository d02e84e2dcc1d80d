"""The Fourier layer with the arguments of neuraloperator's layer, for neuraloperator's models."""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import nn

from trnfft.base.checks import brief, finite
from trnfft.complex.dispatch import Parts
from trnfft.functions.arguments import (
    check_flags,
    check_parameters,
    check_positive,
    floating_point,
    integers,
    normalization,
)
from trnfft.functions.fft import irfftn, rfftn
from trnfft.nn.factorized_weight import FACTORIZATIONS, FactorizedWeight, Rank
from trnfft.nn.spectral_conv import check_shape, convolved
from trnfft.nn.split import SplitWeight
from trnfft.ops.many_devices import of_shards, takes_shards
from trnfft.ops.operand import operand_of
from trnfft.ops.spectral_convolution import lowest, mix_channels, multiply, spread


class SpectralConv(SplitWeight):
    """Computes neuraloperator's SpectralConv: `FNO(..., conv_module=trnfft.nn.SpectralConv)`.

        y = irfftn(Y) + b,  Y[o, k] = sum_i w[i, o, k] X[i, k],  X = rfftn(x)

    for the lowest frequencies k, as in `SpectralConv1d` to `SpectralConv3d`. Among n_modes
    frequencies along a dimension, the lowest is -(n_modes // 2). Along the last dimension there are
    n_modes // 2 + 1 frequencies, from 0 on. An input with fewer frequencies uses the part of the
    weight that belongs to them. See `docs/layers.md`.

    The parameters are `weight_real` and `weight_imag`, of shape [in_channels, out_channels, *modes]
    with the frequencies in ascending order, and `bias`, of shape [out_channels, 1, ...]. With a
    factorization, the module `weight_factors` has the parameters of the factors, from which each
    call contracts the weight. `load_state_dict` also reads the complex weights of neuraloperator.

    neuraloperator 2.0.0 differs in two cases of several dimensions. It moves the frequencies of odd
    sizes by one, and for another `output_shape` it leaves the negative frequencies where they were.

    Args:
        in_channels, out_channels: numbers of channels.
        n_modes: the number of frequencies along each dimension; along the last one, of both signs.
        complex_data: only False is allowed: the data is real.
        max_n_modes: only None is allowed: the number of frequencies stays the same.
        bias: whether there is a bias b.
        separable: whether each channel is multiplied by a number for each frequency, w[c, k], in
            place of a matrix. There is no kernel for this, so it is computed by transforms.
        resolution_scaling_factor: None, or how much finer the output is: one number, or one for
            each dimension.
        fno_block_precision: only "full" is allowed; see `trnfft.precision` for other precisions.
        factorization: None for a dense weight, "tucker", "cp" or "tt", also in upper case.
        rank: which share of the numbers of a dense weight the factors have, or their ranks, an int
            or a tuple. tensorly finds the ranks of a share.
        implementation: "reconstructed" or "factorized", which are the same here.
        fixed_rank_modes: whether in_channels stays whole in a Tucker decomposition, or a list of
            the modes that do.
        decomposition_kwargs: accepted and not used.
        init_std: standard deviation of the first values of weight and bias, or "auto" for sqrt(2 /
            (in_channels + out_channels)).
        fft_norm: "backward", "ortho" or "forward", as in `torch.fft`.
        device: of the parameters.

    Input: a real tensor of shape [B, in_channels, d1, ..., dN]. Output: a real tensor of shape [B,
    out_channels, ...] and of the same dtype. Its sizes are `output_shape` or, without it, the
    scaled sizes of the input.

    Raises:
        NotImplementedError: an argument has a value that is not allowed.
        ImportError: the layer has a factorization, and tensorly is missing.

    Examples:
        >>> import torch, trnfft
        >>> layer = trnfft.nn.SpectralConv(2, 4, n_modes=(8, 8))
        >>> layer(torch.ones(10, 2, 32, 32)).shape
        torch.Size([10, 4, 32, 32])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        n_modes: int | Iterable[int],
        complex_data: bool = False,
        max_n_modes: Iterable[int] | None = None,
        bias: bool = True,
        separable: bool = False,
        resolution_scaling_factor: float | Sequence[float] | None = None,
        fno_block_precision: str = "full",
        rank: Rank = 0.5,
        factorization: str | None = None,
        implementation: str = "reconstructed",
        fixed_rank_modes: bool | list[int] = False,
        decomposition_kwargs: dict[str, object] | None = None,
        init_std: float | str = "auto",
        fft_norm: str = "forward",
        device: torch.device | str | None = None,
    ) -> None:
        _check_only("complex_data", complex_data, False)
        _check_only("max_n_modes", max_n_modes, None)
        _check_only("fno_block_precision", fno_block_precision, "full")
        channels = {"in_channels": in_channels, "out_channels": out_channels}
        check_positive(**channels)
        check_flags(bias=bias, separable=separable)
        name = _factorization(factorization, implementation)
        normalization(fft_norm, "fft_norm")
        modes = integers("n_modes", n_modes)
        if not modes:
            raise ValueError("argument 'n_modes' is empty, allowed is a number for each dimension")
        for count in modes:
            check_positive(n_modes=count)
        self.modes = (*modes[:-1], modes[-1] // 2 + 1)
        shape = (in_channels, out_channels, *self.modes)
        if separable:
            if in_channels != out_channels:
                raise ValueError(
                    f"argument 'out_channels' is {out_channels} and 'in_channels' is "
                    f"{in_channels}, allowed are equal numbers where 'separable' is True"
                )
            shape = shape[1:]
        check_parameters(device, None, shape, **channels)
        std = _deviation(init_std, in_channels + out_channels)
        dense = None if name else shape
        super().__init__(dense, in_channels, out_channels, 0, device, None, std / math.sqrt(2))
        self.in_channels, self.out_channels, self.n_modes = in_channels, out_channels, modes
        self.fft_norm, self.separable = fft_norm, separable
        self.scale = _scale(resolution_scaling_factor, len(modes))
        self.register_parameter("bias", None)
        if bias:
            values = torch.randn(out_channels, *(1 for _ in modes), device=device)
            self.bias = nn.Parameter(std * values)
        self.weight_factors: FactorizedWeight | None = None
        if name:
            fixed = _fixed_modes(fixed_rank_modes, len(shape))
            self.weight_factors = FactorizedWeight(name, shape, rank, fixed, std, device)

    def reset_parameters(self) -> None:
        """Draws a new weight, or new factors of it."""
        super().reset_parameters()
        for factors in self.children():
            factors.reset_parameters()  # type: ignore[operator]

    @property
    def parts(self) -> Parts:
        """The parts of the weight, contracted if it is given by factors."""
        if self.weight_factors is not None:
            return self.weight_factors.parts
        return Parts(self.weight_real, self.weight_imag)  # graphs have no super().parts

    def forward(
        self, input: torch.Tensor, output_shape: Sequence[int] | None = None
    ) -> torch.Tensor:
        given = operand_of(floating_point("input", input, TypeError, with_integers=False))
        order = len(self.modes)
        check_shape(input, order, self.in_channels)
        if takes_shards(self, given.is_sharded):
            rest = (range(1, input.ndim), output_shape)
            return of_shards(self, input, *rest)
        sizes = self._sizes(input, output_shape)
        if self._is_whole(input, sizes):
            y = convolved(given, self.parts, is_centered=True)
            return self._with_bias(y)
        dims = tuple(range(-order, 0))
        spectrum = operand_of(rfftn(input, dim=dims, norm=self.fft_norm))
        # No more frequencies than the input has, and no more than the output has.
        coarse = [min(pair) for pair in zip(input.shape[2:], sizes, strict=True)]
        coarse[-1] = coarse[-1] // 2 + 1
        counts = [min(pair) for pair in zip(self.modes, coarse, strict=True)]
        signed = [(count - count // 2, count // 2) for count in counts[:-1]]
        low = lowest(tuple(part[..., : counts[-1]] for part in spectrum.parts), signed)
        mix = multiply if self.separable else mix_channels
        mixed = spread(mix(low, self._weight_of(counts)), signed, sizes)
        y = irfftn(spectrum.joined(mixed), tuple(sizes), dims, norm=self.fft_norm).to(input.dtype)
        return self._with_bias(y)

    def _with_bias(self, y: torch.Tensor) -> torch.Tensor:
        bias = self.bias
        return y if bias is None else (y + bias).to(y.dtype)

    def _is_whole(self, x: torch.Tensor, sizes: Sequence[int]) -> bool:
        """Returns whether a launch may compute the layer.

        This is so where channels are mixed, the input has all frequencies of the weight, and the
        output has the sizes of the input.
        """
        *lengths, last = x.shape[2:]
        most = (*lengths, last // 2 + 1)
        fits = all(count <= size for count, size in zip(self.modes, most, strict=True))
        return fits and not self.separable and tuple(sizes) == tuple(x.shape[2:])

    def transform(self, x: torch.Tensor, output_shape: Sequence[int] | None = None) -> torch.Tensor:
        """Returns `x` in the sizes of the output, for the skip connections of a block.

        Args:
            x: a real tensor of shape [B, C, d1, ..., dN].
            output_shape: as in a call of the layer.

        Returns:
            A tensor of shape [B, C, ...]. It is interpolated linearly for one dimension,
            bicubically for two, both with the outermost points in place, and trigonometrically for
            more.
        """
        sizes = self._sizes(x, output_shape)
        if tuple(sizes) == tuple(x.shape[2:]):
            return x
        if len(sizes) < 3:
            mode = "linear" if len(sizes) == 1 else "bicubic"
            return nn.functional.interpolate(x, tuple(sizes), mode=mode, align_corners=True)
        dims = tuple(range(-len(sizes), 0))
        counts = [min(pair) for pair in zip(x.shape[2:], sizes, strict=True)]
        signed = [(count - count // 2, count // 2) for count in counts[:-1]]
        spectrum = operand_of(rfftn(x, dim=dims, norm="forward"))
        cut = tuple(part[..., : counts[-1] // 2 + 1] for part in spectrum.parts)
        y = spectrum.joined(spread(lowest(cut, signed), signed, sizes))
        return irfftn(y, tuple(sizes), dims, norm="forward").to(x.dtype)

    def _sizes(self, x: torch.Tensor, output_shape: Sequence[int] | None) -> Sequence[int]:
        if output_shape is not None:
            given = integers("output_shape", output_shape)
            if len(given) != len(self.modes) or min(given) < 1:
                raise ValueError(
                    f"argument 'output_shape' is {brief(output_shape)}, allowed are "
                    f"{len(self.modes)} numbers, each 1 or more"
                )
            return given
        sizes = x.shape[2:]
        if self.scale is None:
            return list(sizes)
        return [round(size * factor) for size, factor in zip(sizes, self.scale, strict=True)]

    def _weight_of(self, counts: Sequence[int]) -> Parts:
        """Returns the weight of the lowest frequencies, with the frequencies from 0 on first."""

        def lowest_of(part: torch.Tensor) -> torch.Tensor:
            signed = zip(counts[:-1], self.modes[:-1], strict=True)
            for dim, (count, size) in enumerate(signed, -len(counts)):
                part = part.narrow(dim, (size - count) // 2, count)
                part = part.roll(-(count // 2), dim)
            return part[..., : counts[-1]]

        return Parts(*map(lowest_of, self.parts))

    def _load_from_state_dict(
        self, state_dict: dict[str, torch.Tensor], prefix: str, *args: object
    ) -> None:
        if self.weight_factors is not None:
            self.weight_factors.load(state_dict, f"{prefix}weight_factors.", f"{prefix}weight.")
        dense = state_dict.pop(f"{prefix}weight.tensor", None)
        if dense is not None:
            state_dict[f"{prefix}weight_real"] = dense.real
            state_dict[f"{prefix}weight_imag"] = dense.imag
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, n_modes={self.n_modes}"


def _scale(given: float | Sequence[float] | None, dimensions: int) -> tuple[float, ...] | None:
    """Returns argument 'resolution_scaling_factor' for each dimension."""
    if given is None:
        return None
    factors = tuple(given) if isinstance(given, Sequence) else (given,) * dimensions
    factors = tuple(finite("resolution_scaling_factor", factor) for factor in factors)
    if len(factors) != dimensions or min(factors) <= 0:
        raise ValueError(
            f"argument 'resolution_scaling_factor' is {brief(given)}, allowed is a positive number "
            f"or {dimensions} of them, one for each dimension"
        )
    return factors


def _deviation(init_std: object, channels: int) -> float:
    """Returns argument 'init_std' as a number."""
    if isinstance(init_std, str) and init_std == "auto":
        return (2 / channels) ** 0.5
    std = finite("init_std", init_std)
    if std < 0:
        raise ValueError(f"argument 'init_std' is {std}, allowed is 0 or more, and 'auto'")
    return std


def _factorization(given: object, implementation: object) -> str:
    """Returns argument 'factorization' in lower case, "" for a dense weight."""
    if implementation not in ("reconstructed", "factorized"):
        raise ValueError(
            f"argument 'implementation' is {brief(implementation)}, allowed are 'reconstructed' "
            f"and 'factorized'"
        )
    name = given.lower() if isinstance(given, str) else given
    if name in (None, "dense"):
        return ""
    if name not in FACTORIZATIONS:
        raise NotImplementedError(
            f"argument 'factorization' is {brief(given)}, allowed are None, 'tucker', 'cp' and "
            f"'tt'; for other values use neuraloperator's own SpectralConv inside "
            f"trnfft.patch_torch()"
        )
    return str(name)


def _fixed_modes(given: object, count: int) -> list[int] | None:
    """Returns argument 'fixed_rank_modes' as a list of modes."""
    if isinstance(given, bool):
        return [0] if given else None
    modes = list(integers("fixed_rank_modes", given))
    if not all(0 <= mode < count for mode in modes):
        raise ValueError(
            f"argument 'fixed_rank_modes' is {brief(given)}, allowed are False, True and modes "
            f"from 0 to {count - 1}"
        )
    return modes


def _check_only(name: str, value: object, allowed: object) -> None:
    if type(value) is not type(allowed) or value != allowed:
        raise NotImplementedError(
            f"argument '{name}' is {brief(value)}, allowed is {allowed!r}; for other values use "
            f"neuraloperator's own SpectralConv inside trnfft.patch_torch()"
        )
