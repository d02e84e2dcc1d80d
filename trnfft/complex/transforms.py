"""The operators of torch.fft on ComplexTensors: this library's transforms of the parts.

torch calls them below `torch.func`, and in derivatives of its own.
"""

import torch

from trnfft.complex.dispatch import aten, implements
from trnfft.complex.tensor import ComplexTensor
from trnfft.ops import transforms

# torch's numbers of norms for the forward direction; the inverse direction has the opposite.
_NORMS = {0: "backward", 1: "ortho", 2: "forward"}
_INVERSE_NORMS = {0: "forward", 1: "ortho", 2: "backward"}


@implements(aten._fft_c2c.default)
def c2c(self: ComplexTensor, dim: list[int], normalization: int, forward: bool) -> torch.Tensor:
    dims = tuple(d % self.ndim for d in dim)
    sizes = tuple(self.shape[d] for d in dims)
    norm = (_NORMS if forward else _INVERSE_NORMS)[normalization]
    return transforms.c2c(self, sizes, dims, not forward, norm)


@implements(aten._fft_c2r.default)
def c2r(
    self: ComplexTensor, dim: list[int], normalization: int, last_dim_size: int
) -> torch.Tensor:
    dims = tuple(d % self.ndim for d in dim)
    sizes = (*(self.shape[d] for d in dims[:-1]), last_dim_size)
    return transforms.c2r(self, sizes, dims, True, _INVERSE_NORMS[normalization])
