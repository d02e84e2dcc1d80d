"""Batch normalisation of complex numbers."""

import math

import torch
from torch import nn

from trnfft.arguments import (
    as_complex,
    check_device,
    check_flags,
    check_parameters,
    check_positive,
    widened,
)
from trnfft.checks import finite
from trnfft.complex.kinds import made_of, with_parts_in
from trnfft.ops.sharded import is_sharded, like_copies, replicated, summed

Covariance = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class ComplexBatchNorm(nn.Module):
    """Whiten every channel as a cloud of points of the plane, then stretch and move it.

        y = G V^(-1/2) (x - m) + b,  x = (Re x, Im x),  V = [[rr, ri], [ri, ii]] + eps I

    m is the mean and V the 2x2 covariance over all dimensions but the channels; G is symmetric.
    m and V are of the batch in training, when running averages follow them, and these averages in
    evaluation (Trabelsi et al., "Deep complex networks", 2018, section 3.5). Averages take the
    unbiased covariance, as in torch.nn.BatchNorm1d. float16 and bfloat16 are computed in float32.

    Parameters are `weight_rr`, `weight_ri` and `weight_ii` (G, first 1/sqrt(2) times the unit
    matrix, which makes E|y|^2 = 1) and `bias_real` and `bias_imag` (b, first 0). Buffers are
    `running_mean_real`, `running_mean_imag` (first 0) and `running_rr`, `running_ri`, `running_ii`
    (first 1/sqrt(2) times the unit matrix). All have shape [num_features].

    Args:
        num_features: the number C of channels.
        eps: what the variances get added, so that V has an inverse.
        momentum: weight of a new batch in the running averages.
        affine: whether there are G and b.
        track_running_stats: whether there are running averages; if not, evaluation takes the
            statistics of its batch.
        device, dtype: of parameters and buffers; `dtype` is real.

    Input: complex or real, [B, C, ...] with any number of dimensions. Output: complex of
    the same shape and dtype.

    Raises:
        ValueError: `num_features` is less than 1; on call, the input has another shape, or one
            number per channel in training.
        TypeError: `dtype` is not real; on call, the input is no tensor or of integers.
    """

    weight_rr: nn.Parameter
    weight_ri: nn.Parameter
    weight_ii: nn.Parameter
    bias_real: nn.Parameter
    bias_imag: nn.Parameter

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_positive(num_features=num_features)
        check_flags(affine=affine, track_running_stats=track_running_stats)
        check_parameters(device, dtype, (num_features,), num_features=num_features)
        if not finite("eps", eps) >= 0:
            raise ValueError(f"argument 'eps' is {eps}, allowed is 0 or more")
        if not 0 <= finite("momentum", momentum) <= 1:
            raise ValueError(f"argument 'momentum' is {momentum}, allowed is 0 to 1")
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        for name in ("weight_rr", "weight_ri", "weight_ii", "bias_real", "bias_imag"):
            value = torch.empty(num_features, device=device, dtype=dtype)
            self.register_parameter(name, nn.Parameter(value) if affine else None)
        for name in ("mean_real", "mean_imag", "rr", "ri", "ii"):
            value = torch.empty(num_features, device=device, dtype=dtype)
            self.register_buffer(f"running_{name}", value if track_running_stats else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set parameters and running averages to their first values."""
        tensors = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        for name, tensor in tensors.items():
            is_diagonal = name.endswith(("_rr", "_ii"))
            nn.init.constant_(tensor, 1.0 / math.sqrt(2.0) if is_diagonal else 0.0)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        x = as_complex("input", input)
        if x.ndim < 2 or x.shape[1] != self.num_features:
            raise ValueError(
                f"argument 'input' has shape {tuple(x.shape)}, allowed is "
                f"[B, {self.num_features}, ...]; bring the channels to dimension 1"
            )
        for tensor in (*self.parameters(), *self.buffers()):
            check_device("input", x.device, "the layer", tensor.device)
        dtype = x.real.dtype
        x = widened(x)
        if self.training or not self.track_running_stats:
            mean_real, mean_imag, *covariance = self._of_batch(x)
        else:
            mean_real, mean_imag, *covariance = (replicated(buffer, x) for buffer in self.buffers())
        shape = (-1,) + (1,) * (x.ndim - 2)
        x = made_of(x.real - mean_real.view(shape), x.imag - mean_imag.view(shape), x)
        x = _stretched(x, *_inverse_square_root(self.eps, *covariance))
        if self.affine:
            *weight, bias_real, bias_imag = (replicated(value, x) for value in self.parameters())
            x = _stretched(x, *weight)
            x = made_of(x.real + bias_real.view(shape), x.imag + bias_imag.view(shape), x)
        return with_parts_in(x, dtype)

    def _of_batch(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Mean and covariance of the batch, in the order of the buffers.

        The running averages follow them in training.
        """
        count = x.numel() // self.num_features
        if count < 2:
            raise ValueError(
                f"argument 'input' has shape {tuple(x.shape)}, allowed is one with more than one "
                f"number per channel where their statistics are taken; call .eval()"
            )
        dims = [dim for dim in range(x.ndim) if dim != 1]
        means = [_mean(part, dims, keepdim=True) for part in (x.real, x.imag)]
        real, imag = x.real - means[0], x.imag - means[1]
        products = (real * real, real * imag, imag * imag)
        means = [mean.flatten() for mean in means]
        covariance = [_mean(product, dims) for product in products]
        if self.training and self.track_running_stats:
            unbiased = [value * (count / (count - 1)) for value in covariance]
            for average, value in zip(self.buffers(), means + unbiased, strict=True):
                value = like_copies(value.detach(), average)
                average.lerp_(value.to(average.dtype), self.momentum)
        return *means, *covariance

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, track_running_stats={self.track_running_stats}"
        )


def _mean(x: torch.Tensor, dims: list[int], keepdim: bool = False) -> torch.Tensor:
    """The mean along these dimensions; of a DTensor, whose shards may be uneven, that of all."""
    if not is_sharded(x):
        return x.mean(dims, keepdim=keepdim)
    return summed(x.sum(dims, keepdim=keepdim)) / math.prod(x.shape[dim] for dim in dims)


def _stretched(
    x: torch.Tensor, rr: torch.Tensor, ri: torch.Tensor, ii: torch.Tensor
) -> torch.Tensor:
    """Every channel times its symmetric matrix [[rr, ri], [ri, ii]]."""
    shape = (-1,) + (1,) * (x.ndim - 2)
    rr, ri, ii = rr.view(shape), ri.view(shape), ii.view(shape)
    return made_of(rr * x.real + ri * x.imag, ri * x.real + ii * x.imag, x)


def _inverse_square_root(
    eps: float, rr: torch.Tensor, ri: torch.Tensor, ii: torch.Tensor
) -> Covariance:
    """(V + eps I)^(-1/2) of covariances V = [[rr, ri], [ri, ii]], in closed form.

    For A = V + eps I with s = sqrt(det A) and t = sqrt(trace A + 2 s), sqrt(A) is (A + s I) / t,
    whose inverse is [[ii + s, -ri], [-ri, rr + s]] / (s t).
    """
    # det(V + eps I) = det V + eps trace V + eps^2: so written, rounding cannot make it negative
    # where real and imaginary part are (almost) proportional and det V cancels.
    trace = rr + ii
    s = torch.sqrt((rr * ii - ri * ri).clamp(min=0) + eps * trace + eps * eps)
    scale = 1.0 / (s * torch.sqrt(trace + 2.0 * eps + 2.0 * s))
    return (ii + eps + s) * scale, -ri * scale, (rr + eps + s) * scale
