"""What the layers share: complex weights and products in split form."""

import math
from collections.abc import Callable

import torch
from torch import nn

from trnfft.arguments import Input, as_complex, check_device, check_same_dtype
from trnfft.complex.dispatch import Parts
from trnfft.complex.kinds import made_of
from trnfft.complex.tensor import ComplexTensor

Operation = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class SplitWeight(nn.Module):
    """A layer with a complex weight, and perhaps a complex bias, as pairs of real parameters.

    The weight's magnitudes begin with Rayleigh's distribution and its phases with the uniform one,
    with E|w|^2 = 2 / (fan_in + fan_out); equivalently, both parts are normal with half of that
    variance. As Glorot's values do for real weights, they keep the variances of signals and of
    gradients (Trabelsi et al., "Deep complex networks", 2018, section 3.6). The bias begins as 0.

    Args:
        shape: of the weight.
        fan_in: the number of inputs that an output is a sum over.
        fan_out: the number of outputs that an input goes to.
        bias: size of the bias, 0 for none.
        device, dtype: of the parameters, as `check_parameters` allows them.
    """

    weight_real: nn.Parameter
    weight_imag: nn.Parameter
    bias_real: nn.Parameter | None
    bias_imag: nn.Parameter | None

    def __init__(
        self,
        shape: tuple[int, ...],
        fan_in: float,
        fan_out: float,
        bias: int,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        self.deviation = 1.0 / math.sqrt(fan_in + fan_out)
        for part in ("real", "imag"):
            weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
            zeros = nn.Parameter(torch.empty(bias, device=device, dtype=dtype)) if bias else None
            self.register_parameter(f"weight_{part}", weight)
            self.register_parameter(f"bias_{part}", zeros)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw a new weight, and set the bias to zero."""
        for weight, bias in (
            (self.weight_real, self.bias_real),
            (self.weight_imag, self.bias_imag),
        ):
            nn.init.normal_(weight, std=self.deviation)
            if bias is not None:
                nn.init.zeros_(bias)

    @property
    def weight(self) -> torch.Tensor:
        """A copy of the weight, whose parts are the parameters."""
        return ComplexTensor(self.weight_real, self.weight_imag)

    @property
    def parts(self) -> Parts:
        """The parameters that are the parts of the weight."""
        return Parts(self.weight_real, self.weight_imag)

    def checked_input(self, input: Input) -> torch.Tensor:
        """The input as complex numbers, of the weight's dtype and on its device."""
        x = as_complex("input", input)
        check_device("input", x.device, "the weight", self.weight_real.device)
        check_same_dtype("input", x, self.weight_real.dtype)
        return x

    def biased(self, x: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        """`x` plus the bias in a shape that broadcasts."""
        if self.bias_real is None or self.bias_imag is None:
            return x
        real, imag = self.bias_real.view(shape), self.bias_imag.view(shape)
        return made_of(x.real + real, x.imag + imag, x)


def bilinear(operation: Operation, x: torch.Tensor, y: torch.Tensor | Parts) -> torch.Tensor:
    """The complex form of a real bilinear operation, such as a product or a convolution.

        (a + ib) * (c + id) = (a * c - b * d) + i (a * d + b * c)

    Of native tensors it is torch's own.

    Args:
        operation: bilinear in its two tensors, real or native complex ones.
        x, y: complex tensors of whatever shapes it takes; of the second one the parts will do.
    """
    if not isinstance(x, ComplexTensor) and not isinstance(y, ComplexTensor):
        return operation(x, torch.complex(*y) if isinstance(y, Parts) else y)
    (a, b), (c, d) = (x.real, x.imag), (y.real, y.imag)
    real, imag = operation(a, c) - operation(b, d), operation(a, d) + operation(b, c)
    return made_of(real, imag, x)
