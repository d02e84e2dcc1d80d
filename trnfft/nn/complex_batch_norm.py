"""Batch normalisation of complex numbers."""

import math

import torch
from torch import nn

from trnfft.base.checks import finite
from trnfft.complex.kinds import made_of, with_parts_in
from trnfft.complex.parts import is_sharded
from trnfft.complex.sharded import like_copies, replicated, summed
from trnfft.functions.arguments import (
    as_complex,
    check_device,
    check_flags,
    check_parameters,
    check_positive,
    widened,
)

Covariance = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


_PARAMETERS = ("weight_rr", "weight_ri", "weight_ii", "bias_real", "bias_imag")
_BUFFERS = tuple(f"running_{name}" for name in ("mean_real", "mean_imag", "rr", "ri", "ii"))


class ComplexBatchNorm(nn.Module):
    """Whitens every channel as a cloud of points of the plane, then stretches and moves it.

        y = G V^(-1/2) (x - m) + b,  x = (Re x, Im x),  V = [[rr, ri], [ri, ii]] + eps I

    m is the mean and V the 2x2 covariance over all dimensions except the channels. G is symmetric.
    In training, m and V are those of the batch, and the running averages follow them. In
    evaluation, m and V are the running averages (Trabelsi et al., "Deep complex networks", 2018,
    section 3.5). The averages use the unbiased covariance, as in `torch.nn.BatchNorm1d`, the
    layer's counterpart in torch. float16 and bfloat16 are computed in float32. See
    `docs/layers.md`.

    The parameters are `weight_rr`, `weight_ri` and `weight_ii` (G) and `bias_real` and `bias_imag`
    (b). G begins as 1/sqrt(2) times the unit matrix, for which E|y|^2 = 1, and b begins as 0. The
    buffers are `running_mean_real` and `running_mean_imag`, which begin as 0, and `running_rr`,
    `running_ri` and `running_ii`, which begin as 1/sqrt(2) times the unit matrix. All have shape
    [num_features].

    Args:
        num_features: the number C of channels.
        eps: a number added to the variances, so that V has an inverse.
        momentum: weight of a new batch in the running averages.
        affine: whether there are G and b.
        track_running_stats: whether there are running averages. Without them, evaluation uses the
            statistics of its batch.
        device, dtype: of parameters and buffers; `dtype` is real.

    Input: a complex or real tensor of shape [B, C, ...] with any number of dimensions. Output: a
    complex tensor of the same shape and dtype.

    Raises:
        ValueError: the input of a call has one number per channel in training.

    Examples:
        >>> import torch, trnfft
        >>> layer = trnfft.nn.ComplexBatchNorm(3)
        >>> y = layer(5 + 2 * torch.randn(1000, 3, dtype=torch.complex64))
        >>> round(y.abs().square().mean().item(), 3)
        1.0
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
        for name in _PARAMETERS:
            value = torch.empty(num_features, device=device, dtype=dtype)
            self.register_parameter(name, nn.Parameter(value) if affine else None)
        for name in _BUFFERS:
            value = torch.empty(num_features, device=device, dtype=dtype)
            self.register_buffer(name, value if track_running_stats else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets parameters and running averages to their first values."""
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
            averages = self._named(_BUFFERS)
            mean_real, mean_imag, *covariance = (replicated(value, x) for value in averages)
        shape = (-1,) + (1,) * (x.ndim - 2)
        x = made_of(x.real - mean_real.view(shape), x.imag - mean_imag.view(shape), x)
        x = _stretched(x, *_inverse_square_root(self.eps, *covariance))
        if self.affine:
            parameters = self._named(_PARAMETERS)
            *weight, bias_real, bias_imag = (replicated(value, x) for value in parameters)
            x = _stretched(x, *weight)
            x = made_of(x.real + bias_real.view(shape), x.imag + bias_imag.view(shape), x)
        return with_parts_in(x, dtype)

    def _named(self, names: tuple[str, ...]) -> list[torch.Tensor]:
        # by name, as parametrizations and pruning replace and add some
        return [getattr(self, name) for name in names]

    def _of_batch(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Returns mean and covariance of the batch, in the order of the buffers.

        In training, the running averages follow them.
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
            for average, value in zip(self._named(_BUFFERS), means + unbiased, strict=True):
                value = like_copies(value.detach(), average)
                average.lerp_(value.to(average.dtype), self.momentum)
        return *means, *covariance

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, track_running_stats={self.track_running_stats}"
        )


def _mean(x: torch.Tensor, dims: list[int], keepdim: bool = False) -> torch.Tensor:
    if not is_sharded(x):
        return x.mean(dims, keepdim=keepdim)
    return summed(x.sum(dims, keepdim=keepdim)) / math.prod(x.shape[dim] for dim in dims)


def _stretched(
    x: torch.Tensor, rr: torch.Tensor, ri: torch.Tensor, ii: torch.Tensor
) -> torch.Tensor:
    """Returns every channel times its symmetric matrix [[rr, ri], [ri, ii]]."""
    shape = (-1,) + (1,) * (x.ndim - 2)
    rr, ri, ii = rr.view(shape), ri.view(shape), ii.view(shape)
    return made_of(rr * x.real + ri * x.imag, ri * x.real + ii * x.imag, x)


def _inverse_square_root(
    eps: float, rr: torch.Tensor, ri: torch.Tensor, ii: torch.Tensor
) -> Covariance:
    """Returns (V + eps I)^(-1/2) of covariances V = [[rr, ri], [ri, ii]], in closed form.

    For A = V + eps I with s = sqrt(det A) and t = sqrt(trace A + 2 s), sqrt(A) is (A + s I) / t.
    Its inverse is [[ii + s, -ri], [-ri, rr + s]] / (s t).
    """
    # det(V + eps I) = det V + eps trace V + eps^2. In this form, rounding cannot make it negative
    # where real and imaginary part are (almost) proportional and det V cancels.
    trace = rr + ii
    s = torch.sqrt((rr * ii - ri * ri).clamp(min=0) + eps * trace + eps * eps)
    scale = 1.0 / (s * torch.sqrt(trace + 2.0 * eps + 2.0 * s))
    return (ii + eps + s) * scale, -ri * scale, (rr + eps + s) * scale
