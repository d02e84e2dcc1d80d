"""The part that the layers share: complex weights and products of complex numbers in two parts."""

import math
from collections.abc import Callable

import torch
from torch import nn

from trnfft.complex.dispatch import Parts
from trnfft.complex.kinds import made_of
from trnfft.complex.tensor import ComplexTensor
from trnfft.functions.arguments import Input, as_complex, check_device, check_same_dtype

Operation = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class SplitWeight(nn.Module):
    """A layer with a complex weight, and an optional complex bias, as pairs of real parameters.

    The magnitudes of the weight begin with Rayleigh's distribution and its phases with the uniform
    distribution, with E|w|^2 = 2 / (fan_in + fan_out). Equivalently, both parts are normal with
    half of that variance. Like Glorot's values for real weights, they keep the variances of signals
    and of gradients (Trabelsi et al., "Deep complex networks", 2018, section 3.6). The bias begins
    as 0.

    Args:
        shape: shape of the weight; None where a subclass has it in another form.
        fan_in: number of inputs in the sum of an output.
        fan_out: number of outputs to which an input contributes.
        bias: size of the bias, 0 for none.
        device, dtype: of the parameters; `dtype` is real.
        deviation: standard deviation of the parts. Default: that which follows from the fans.
    """

    weight_real: nn.Parameter
    weight_imag: nn.Parameter
    bias_real: nn.Parameter | None
    bias_imag: nn.Parameter | None

    def __init__(
        self,
        shape: tuple[int, ...] | None,
        fan_in: float,
        fan_out: float,
        bias: int,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
        deviation: float | None = None,
    ) -> None:
        super().__init__()
        self.deviation = 1.0 / math.sqrt(fan_in + fan_out) if deviation is None else deviation
        for part in ("real", "imag"):
            weight = None
            if shape is not None:
                weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
            zeros = nn.Parameter(torch.empty(bias, device=device, dtype=dtype)) if bias else None
            self.register_parameter(f"weight_{part}", weight)
            self.register_parameter(f"bias_{part}", zeros)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws a new weight and sets the bias to zero."""
        for weight, bias in (
            (self.weight_real, self.bias_real),
            (self.weight_imag, self.bias_imag),
        ):
            if weight is not None:
                nn.init.normal_(weight, std=self.deviation)
            if bias is not None:
                nn.init.zeros_(bias)

    @property
    def weight(self) -> torch.Tensor:
        """A copy of the weight, as a ComplexTensor."""
        return ComplexTensor(*self.parts)

    @property
    def parts(self) -> Parts:
        """The parameters that are the parts of the weight."""
        return Parts(self.weight_real, self.weight_imag)

    def checked(self, input: Input) -> tuple[torch.Tensor, Parts]:
        """Returns the input as complex numbers, and the weight, whose dtype and device it has.

        The weight is read once, as a parametrization computes it.
        """
        x, parts = as_complex("input", input), self.parts
        check_device("input", x.device, "the weight", parts.real.device)
        check_same_dtype("input", x, parts.real.dtype)
        return x, parts

    def biased(self, x: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        """Returns `x` plus the bias in a shape that broadcasts."""
        real, imag = self.bias_real, self.bias_imag
        if real is None or imag is None:
            return x
        return made_of(x.real + real.view(shape), x.imag + imag.view(shape), x)


def bilinear(operation: Operation, x: torch.Tensor, y: torch.Tensor | Parts) -> torch.Tensor:
    """Returns the complex form of a real bilinear operation, such as a product or a convolution.

        (a + ib) * (c + id) = (a * c - b * d) + i (a * d + b * c)

    For native tensors, torch computes it.

    Args:
        operation: a function of two real or native complex tensors, linear in each.
        x, y: complex tensors of the shapes that `operation` accepts. `y` may be given as its parts.
    """
    if not isinstance(x, ComplexTensor) and not isinstance(y, ComplexTensor):
        return operation(x, torch.complex(*y) if isinstance(y, Parts) else y)
    (a, b), (c, d) = (x.real, x.imag), (y.real, y.imag)
    real, imag = operation(a, c) - operation(b, d), operation(a, d) + operation(b, c)
    return made_of(real, imag, x)
