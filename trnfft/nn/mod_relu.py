"""An activation that keeps phases."""

import torch
from torch import nn

from trnfft.complex.kinds import made_of, with_parts_in
from trnfft.complex.sharded import replicated
from trnfft.functions.arguments import as_complex, check_device, check_parameters, check_positive


class ModReLU(nn.Module):
    """Computes y = ReLU(|x| + b) x / |x|, and 0 for x = 0.

    (Arjovsky, Shah & Bengio, "Unitary evolution recurrent neural networks", 2016.) The real
    parameter `bias` is b, has shape [num_features] and begins as 0. Where b is negative, all
    numbers in a disc of radius -b become 0. The counterpart for real numbers is `torch.nn.ReLU`.
    See `docs/layers.md`.

    Args:
        num_features: 1, or the size of dimension 1 of the input, as for torch.nn.PReLU.
        device, dtype: of the parameter; `dtype` is real.

    Input: a complex or real tensor of shape [B, num_features, ...]. Output: a complex tensor of the
    same shape.

    Examples:
        >>> import torch, trnfft
        >>> layer = trnfft.nn.ModReLU(1)
        >>> _ = torch.nn.init.constant_(layer.bias, -1.0)
        >>> layer(torch.tensor([0.5 + 0j, 6 + 8j])).detach()  # |6 + 8j| = 10 becomes 9
        tensor([0.0000+0.0000j, 5.4000+7.2000j])
    """

    def __init__(
        self,
        num_features: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_positive(num_features=num_features)
        check_parameters(device, dtype, (num_features,), num_features=num_features)
        self.num_features = num_features
        self.bias = nn.Parameter(torch.zeros(num_features, device=device, dtype=dtype))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        x = as_complex("input", input)
        parameter = self.bias  # read once: a parametrization computes it
        check_device("input", x.device, "the bias", parameter.device)
        if parameter.is_complex():
            raise TypeError(
                f"the parameter 'bias' has dtype {parameter.dtype}, allowed are real dtypes; write "
                f"real numbers into it"
            )
        if self.num_features > 1 and (x.ndim < 2 or x.shape[1] != self.num_features):
            raise ValueError(
                f"argument 'input' has shape {tuple(x.shape)}, allowed is "
                f"[B, {self.num_features}, ...]; bring the features to dimension 1"
            )
        # The phase of a bfloat16 number is accurate only if it is computed in the wider dtype.
        x = with_parts_in(x, torch.promote_types(x.real.dtype, parameter.dtype))
        bias = replicated(parameter, x).view((-1,) + (1,) * max(x.ndim - 2, 0))
        size = x.abs()
        # The phase is computed first, so that quotients of small numbers stay at most 1.
        safe = size.masked_fill(size == 0, 1)
        kept = torch.relu(size + bias)
        return made_of(x.real / safe * kept, x.imag / safe * kept, x)

    def extra_repr(self) -> str:
        return f"{self.num_features}"
