"""An activation that keeps phases."""

import torch
from torch import nn

from trnfft.arguments import as_complex, check_device, check_parameters, check_positive
from trnfft.complex.kinds import made_of, with_parts_in
from trnfft.ops.sharded import replicated


class ModReLU(nn.Module):
    """y = ReLU(|x| + b) x / |x|, and 0 for x = 0.

    (Arjovsky, Shah & Bengio, "Unitary evolution recurrent neural networks", 2016.) The
    real parameter `bias` (b, [num_features], first 0) is the radius of the disc that becomes 0
    where it is negative.

    Args:
        num_features: 1, or the size of dimension 1 of the input, as for torch.nn.PReLU.
        device, dtype: of the parameter; `dtype` is real.

    Input: complex or real, [B, num_features, ...]. Output: complex of the same shape.

    Raises:
        ValueError: `num_features` is less than 1; on call, the input has another shape.
        TypeError: `dtype` is not real; on call, the input is no tensor or of integers.
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
        check_device("input", x.device, "the bias", self.bias.device)
        if self.num_features > 1 and (x.ndim < 2 or x.shape[1] != self.num_features):
            raise ValueError(
                f"argument 'input' has shape {tuple(x.shape)}, allowed is "
                f"[B, {self.num_features}, ...]; bring the features to dimension 1"
            )
        # The phase of a bfloat16 number has its accuracy only if it is computed in the wider dtype.
        x = with_parts_in(x, torch.promote_types(x.real.dtype, self.bias.dtype))
        bias = replicated(self.bias, x).view((-1,) + (1,) * max(x.ndim - 2, 0))
        size = x.abs()
        # The phase first: quotients of small numbers stay at most 1.
        safe = size.masked_fill(size == 0, 1)
        kept = torch.relu(size + bias)
        return made_of(x.real / safe * kept, x.imag / safe * kept, x)

    def extra_repr(self) -> str:
        return f"{self.num_features}"
