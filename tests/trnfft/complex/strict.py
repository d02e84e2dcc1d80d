"""A mode without complex storage: no operation may make a native complex tensor."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trnfft import ComplexTensor


class NoComplexDtypes(TorchDispatchMode):
    """An error wherever an operation makes a native complex tensor."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if ComplexTensor in types:
            return NotImplemented  # whose operators come here themselves
        result = func(*args, **(kwargs or {}))
        for x in tree_leaves(result):
            is_native = isinstance(x, torch.Tensor) and not isinstance(x, ComplexTensor)
            assert not (is_native and x.is_complex()), f"{func} makes a native complex tensor"
        return result
