"""`join` and `parts_of` as torch.compile takes them: whole, without a look inside.

Imported where code is compiled only, as it loads torch's compiler.
"""

import torch

from trnfft.complex.tensor import ComplexTensor, _Join, _Split


@torch.compiler.allow_in_graph
def join(real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
    return _Join.apply(real, imag)


@torch.compiler.allow_in_graph
def parts_of(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return _Split.apply(z)
