"""A mode without complex storage: no operation may make a native complex tensor."""

import contextlib
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trnfft import ComplexTensor
from trnfft.complex import on_the_host


class NoComplexDtypes(TorchDispatchMode):
    """An error wherever an operation makes a native complex tensor on the device.

    The functions that the host computes are allowed. `of_host` gets their names.
    """

    def __init__(self):
        super().__init__()
        self.of_host = set()
        self._is_on_host = False
        self._patches = mock.patch.multiple(
            on_the_host, LISTENER=self._listener, stores_complex=lambda device: False
        )

    def __enter__(self):
        self._patches.start()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self._patches.stop()

    @contextlib.contextmanager
    def _listener(self, name):
        self.of_host.add(name)
        before, self._is_on_host = self._is_on_host, True
        try:
            yield
        finally:
            self._is_on_host = before

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if ComplexTensor in types:
            return NotImplemented  # whose operators come here themselves
        result = func(*args, **(kwargs or {}))
        for x in tree_leaves(result):
            is_native = isinstance(x, torch.Tensor) and not isinstance(x, ComplexTensor)
            if is_native and x.is_complex():
                assert self._is_on_host, f"{func} makes a native complex tensor"
        return result
