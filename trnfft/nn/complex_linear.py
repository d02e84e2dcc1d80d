"""A complex linear layer."""

import torch

from trnfft.complex.parts import is_sharded
from trnfft.functions.arguments import check_flags, check_parameters, check_positive
from trnfft.nn.split import SplitWeight, bilinear
from trnfft.ops.many_devices import of_shards, takes_shards


class ComplexLinear(SplitWeight):
    """Computes y = x A^T + b with complex A and b, without conjugation.

    The counterpart in torch is `torch.nn.Linear`. The parameters are `weight_real` and
    `weight_imag`, of shape [out_features, in_features], and `bias_real` and `bias_imag`, of shape
    [out_features]. `trnfft.nn.split.SplitWeight` describes their first values. See
    `docs/layers.md`.

    Args:
        in_features: size of the last dimension of the input.
        out_features: size of the last dimension of the output.
        bias: whether there is a bias b.
        device, dtype: of the parameters; `dtype` is real.

    Input: a complex or real tensor of shape [..., in_features]. Output: a complex tensor of shape
    [..., out_features].

    Examples:
        >>> import torch, trnfft
        >>> layer = trnfft.nn.ComplexLinear(8, 4)
        >>> y = layer(torch.ones(10, 8, dtype=torch.complex64))
        >>> y.shape, y.dtype
        (torch.Size([10, 4]), torch.complex64)
        >>> [name for name, _ in layer.named_parameters()]
        ['weight_real', 'bias_real', 'weight_imag', 'bias_imag']
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        sizes = {"in_features": in_features, "out_features": out_features}
        check_positive(**sizes)
        check_flags(bias=bias)
        check_parameters(device, dtype, sizes.values(), **sizes)
        size = out_features if bias else 0
        super().__init__(
            (out_features, in_features), in_features, out_features, size, device, dtype
        )
        self.in_features = in_features
        self.out_features = out_features

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        x, weight = self.checked(input)
        if x.ndim == 0 or x.shape[-1] != self.in_features:
            raise RuntimeError(
                f"argument 'input' has shape {tuple(x.shape)}, allowed is "
                f"[..., {self.in_features}]; bring the features to the last dimension"
            )
        if takes_shards(self, is_sharded(x)):
            return of_shards(self, x, (-1,))
        return self.biased(bilinear(torch.nn.functional.linear, x, weight), (-1,))

    def extra_repr(self) -> str:
        bias = self.bias_real is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={bias}"
