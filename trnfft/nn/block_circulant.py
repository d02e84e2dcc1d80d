"""A linear layer with a block circulant weight, and its conversion from and to dense layers."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

from trnfft.base.checks import brief
from trnfft.functions.arguments import (
    check_device,
    check_flags,
    check_parameters,
    check_positive,
    check_real,
    computed_dtype,
)
from trnfft.ops.block_circulant import block_circulant_product, saved_bytes
from trnfft.ops.many_devices import of_shards, takes_shards
from trnfft.ops.operand import operand_of


class BlockCirculantLinear(nn.Module):
    """Computes y = x A^T + b, where A has circulant blocks of k x k: k numbers in place of k^2.

    (Ding et al., "CirCNN", 2017.) The parameter `weight` has shape [p, q, k] and holds the first
    column of each block: A[i k + m, j k + n] = weight[i, j, (m - n) mod k], with p =
    ceil(out_features / k) and q = ceil(in_features / k). A is the part [out_features, in_features]
    of this matrix. Both parameters begin with the distribution of `torch.nn.Linear`, the layer's
    counterpart in torch. Because an output is a sum over in_features different numbers of the
    weight, the variances are the same, too. float16 and bfloat16 are computed in float32. The
    backward pass needs spectra in place of the input; `saved_bytes` returns their size. See
    `docs/layers.md`.

    Args:
        in_features: size of the last dimension of the input.
        out_features: size of the last dimension of the output.
        block_size: k.
        bias: whether there is a bias b of shape [out_features].
        device, dtype: of the parameters; `dtype` is real.

    Input: a real tensor of shape [..., in_features]. Output: a real tensor of shape [...,
    out_features] and of the same dtype.

    Examples:
        >>> import torch, trnfft
        >>> layer = trnfft.nn.BlockCirculantLinear(256, 128, block_size=64)
        >>> layer.weight.shape, round(layer.compression_ratio)
        (torch.Size([2, 4, 64]), 51)
        >>> layer(torch.ones(10, 256)).shape
        torch.Size([10, 128])
    """

    bias: nn.Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        block_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        sizes = {"in_features": in_features, "out_features": out_features, "block_size": block_size}
        check_positive(**sizes)
        check_flags(bias=bias)
        shape = (-(-out_features // block_size), -(-in_features // block_size), block_size)
        check_parameters(device, dtype, shape, **sizes)
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.block_size = block_size
        self.weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        zeros = torch.empty(out_features, device=device, dtype=dtype)
        self.register_parameter("bias", nn.Parameter(zeros) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws a new weight and a new bias."""
        bound = 1 / math.sqrt(self.in_features)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        _check_input(input, self.in_features)
        given = operand_of(input)
        if takes_shards(self, given.is_sharded):
            return of_shards(self, input, (-1,))
        weight, bias = self.weight, self.bias  # read once: parametrizations compute them
        check_device("input", input.device, "the weight", weight.device)
        wide = computed_dtype(input.dtype)
        p, q, k = weight.shape
        x = _padded(input.to(wide), q * k).reshape(-1, q * k)
        added = None if bias is None else _padded(bias.to(wide), p * k)
        y = block_circulant_product(given.of(x), weight.to(wide), added)[:, : self.out_features]
        return y.reshape(*input.shape[:-1], self.out_features).to(input.dtype)

    @classmethod
    def from_dense(cls, linear: nn.Linear, block_size: int) -> BlockCirculantLinear:
        """Returns the layer whose matrix is nearest to a dense layer's, in the Frobenius norm.

        Each number of the weight is the mean of the numbers of the matrix that it stands for. The
        bias is the same.
        """
        has_bias = linear.bias is not None
        features = linear.in_features, linear.out_features
        layer = cls(*features, block_size, has_bias, linear.weight.device, linear.weight.dtype)
        with torch.no_grad():
            index = layer._index(layer.weight).flatten()
            total = torch.zeros(layer.weight.numel(), device=index.device, dtype=torch.float64)
            ones = torch.ones_like(index, dtype=torch.float64)
            count = total.index_add(0, index, ones).clamp(min=1)
            total = total.index_add(0, index, linear.weight.flatten().double())
            layer.weight.copy_((total / count).view_as(layer.weight))
            if layer.bias is not None:
                layer.bias.copy_(linear.bias)
        return layer.train(linear.training)

    def to_dense(self) -> nn.Linear:
        """Returns a dense layer that computes the same."""
        weight, bias = self.weight, self.bias  # read once, as in `forward`
        options = {"device": weight.device, "dtype": weight.dtype}
        linear = nn.Linear(self.in_features, self.out_features, bias is not None, **options)
        with torch.no_grad():
            linear.weight.copy_(weight.flatten()[self._index(weight)])
            if bias is not None:
                linear.bias.copy_(bias)
        return linear.train(self.training)

    @property
    def parameter_count(self) -> int:
        """How many numbers weight and bias have."""
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def compression_ratio(self) -> float:
        """How many numbers a dense layer has in weight and bias, divided by `parameter_count`."""
        bias = self.out_features if self.bias is not None else 0
        return (self.in_features * self.out_features + bias) / self.parameter_count

    def saved_bytes(self, rows: int, dtype: torch.dtype = torch.float32) -> int:
        """Returns the bytes that are kept from forward to backward for an input of so many rows.

        For each block of the input and of the weight these are 2 (k // 2 + 1) numbers. Where a
        kernel computes the layer, they are k numbers, or k + 1 for odd k.

        Args:
            rows: number of rows of the input.
            dtype: of the input.
        """
        wide = computed_dtype(dtype)
        _, q, k = self.weight.shape
        x = torch.empty(1, dtype=wide, device=self.weight.device).expand(rows, q * k)
        return saved_bytes(x, self.weight.to(wide))

    def _index(self, weight: torch.Tensor) -> torch.Tensor:
        """Returns the place in the flat weight of each number of the dense matrix."""
        _, q, k = weight.shape
        rows = torch.arange(self.out_features, device=weight.device)[:, None]
        columns = torch.arange(self.in_features, device=weight.device)
        return (rows // k * q + columns // k) * k + (rows - columns) % k

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"block_size={self.block_size}, bias={self.bias is not None}"
        )


def convert_linear(
    model: nn.Module,
    block_size: int,
    predicate: Callable[[str, nn.Linear], bool] | None = None,
) -> nn.Module:
    """Replaces the linear layers of a model by the nearest block circulant layers, in place.

    Subclasses of torch.nn.Linear stay, because other layers read their weights, as
    torch.nn.MultiheadAttention does. A layer that occurs in several places of a model remains one
    layer. See `docs/layers.md`.

    Args:
        model: any model. A `torch.nn.Linear` itself is not changed.
        block_size: of the new layers.
        predicate: a function of the name of a layer and the layer, which returns whether to replace
            the layer. Default: layers whose numbers of features are both at least the block size
            are replaced.

    Returns:
        The model, or the layer that replaces it.

    Examples:
        >>> import trnfft
        >>> from torch.nn import Linear, ReLU, Sequential
        >>> model = Sequential(Linear(64, 64), ReLU(), Linear(64, 2))
        >>> trnfft.nn.convert_linear(model, block_size=16)
        Sequential(
          (0): BlockCirculantLinear(in_features=64, out_features=64, block_size=16, bias=True)
          (1): ReLU()
          (2): Linear(in_features=64, out_features=2, bias=True)
        )
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"argument 'model' is of type {type(model).__name__}, allowed is torch.nn.Module"
        )
    check_positive(block_size=block_size)
    if predicate is not None and not callable(predicate):
        raise TypeError(f"argument 'predicate' is {brief(predicate)}, allowed is a function")
    replacements: dict[nn.Module, nn.Module] = {}
    for name, module in model.named_modules():
        if type(module) is not nn.Linear:
            continue
        smallest = min(module.in_features, module.out_features)
        if predicate(name, module) if predicate is not None else block_size <= smallest:
            try:
                replacements[module] = BlockCirculantLinear.from_dense(module, block_size)
            except (TypeError, ValueError, RuntimeError) as error:
                reason = f"argument 'model' has the layer {name!r}, for which {error}"
                raise type(error)(reason) from error
    for parent in list(model.modules()):
        for name, child in parent._modules.items():
            if child in replacements:
                parent._modules[name] = replacements[child]
                if isinstance(parent, nn.TransformerEncoderLayer):
                    # Without gradients, the layer would pass the weights to a fused dense kernel.
                    parent.activation_relu_or_gelu = 0
    return replacements.get(model, model)


def _padded(x: torch.Tensor, size: int) -> torch.Tensor:
    missing = size - x.shape[-1]
    return nn.functional.pad(x, (0, missing)) if missing else x


def _check_input(input: torch.Tensor, features: int) -> None:
    check_real("input", input)
    if input.ndim == 0 or input.shape[-1] != features:
        raise ValueError(
            f"argument 'input' has shape {tuple(input.shape)}, allowed is [..., {features}]; "
            f"bring the features to the last dimension"
        )
