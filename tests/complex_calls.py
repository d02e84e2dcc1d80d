"""All calls of torch's functions that make complex tensors of real ones, or of no tensors.

torch itself says which functions there are, and which of the tried arguments lead to a complex
result: the table is not written by hand.
"""

from dataclasses import dataclass
from types import BuiltinFunctionType, MethodDescriptorType
from typing import Any

import numpy as np
import torch
from torch.overrides import get_ignored_functions, get_overridable_functions, resolve_name

_BUILT_IN = (BuiltinFunctionType, MethodDescriptorType)
C = torch.complex64
ARRAY = np.array([1, 2j], dtype=np.complex64)

# The tried arguments, of a real tensor x of shape [3, 2].
PATTERNS = {
    "3, dtype": lambda x: ((3,), {"dtype": C}),
    "(3, 2), dtype": lambda x: (((3, 2),), {"dtype": C}),
    "(3,), 1, dtype": lambda x: (((3,), 1), {"dtype": C}),
    "(3,), 1j, dtype": lambda x: (((3,), 1j), {"dtype": C}),
    "(3, 2), (1, 3), dtype": lambda x: (((3, 2), (1, 3)), {"dtype": C}),
    "(3, 2), (1, 0), dtype": lambda x: (((3, 2), (1, 0)), {"dtype": C}),
    "0, 1, 5, dtype": lambda x: ((0, 1, 5), {"dtype": C}),
    "0., 0., (3,), dtype": lambda x: ((0.0, 0.0, (3,)), {"dtype": C}),
    "1j": lambda x: ((1j,), {}),
    "1j, dtype": lambda x: ((1j,), {"dtype": C}),
    "(2,), 1j": lambda x: (((2,), 1j), {}),
    "0, 1j, steps": lambda x: ((0, 1j), {"steps": 5}),
    "[1, 2j]": lambda x: (([1, 2j],), {}),
    "[1., 2.], dtype": lambda x: (([1.0, 2.0],), {"dtype": C}),
    "array": lambda x: ((ARRAY,), {}),
    "x": lambda x: ((x,), {}),
    "x, dtype": lambda x: ((x,), {"dtype": C}),
    "x, by position": lambda x: ((x, C), {}),
    "x, 0, dtype": lambda x: ((x, 0), {"dtype": C}),
    "x, 1j": lambda x: ((x, 1j), {}),
    "1j, x": lambda x: ((1j, x), {}),
    "x, 2j, dtype": lambda x: ((x, 2j), {"dtype": C}),
    "x > 2, x, 1j": lambda x: ((x > 2, x, 1j), {}),
    "x, x > 2, 1j": lambda x: ((x, x > 2, 1j), {}),
    "integers, 1j": lambda x: ((x.int(), 1j), {}),
    "1j, integers": lambda x: ((1j, x.int()), {}),
    "integers, dtype": lambda x: ((x.int(),), {"dtype": C}),
    "integers, by position": lambda x: ((x.int(), C), {}),
    "x, (3,), dtype": lambda x: ((x, (3,)), {"dtype": C}),
    "x, (3,), 1j, dtype": lambda x: ((x, (3,), 1j), {"dtype": C}),
    "x, (3, 2), (1, 3), dtype": lambda x: ((x, (3, 2), (1, 3)), {"dtype": C}),
    "x, [1, 2j], dtype": lambda x: ((x, [1, 2j]), {"dtype": C}),
    "x, x": lambda x: ((x, x), {}),
    "x.mT @ x": lambda x: ((x.mT @ x,), {}),
    "x, tensor of 1j": lambda x: ((x, torch.tensor(1j)), {}),
}
# Functions of symbolic integers, of NumPy's memory and of sparse tensors: no device has these.
_NOT_FOR_DEVICES = {torch.sym_sum, torch.from_numpy, torch.sparse_coo_tensor}


@dataclass(frozen=True)
class Maker:
    """A function of torch, and the name of a pattern of arguments."""

    function: Any
    pattern: str

    def __str__(self) -> str:
        return f"{_name(self.function)}({self.pattern})"

    @property
    def has_tensor(self) -> bool:
        """Whether an argument is a real tensor."""
        return any(isinstance(x, torch.Tensor) for x in PATTERNS[self.pattern](torch.ones(2, 2))[0])

    @property
    def has_device(self) -> bool:
        """Whether the function has an argument 'device'."""
        try:
            self(torch.ones(2, 2), device="cpu")
        except TypeError:
            return False
        return True

    @property
    def has_place(self) -> bool:
        """Whether programs look the function up in torch or on a tensor."""
        owner = _name(self.function).rpartition(".")[0]
        return owner == "torch" or owner == "torch.Tensor" and self.pattern[0] in "xi"

    def looked_up(self, x: torch.Tensor, **options: Any) -> Any:
        """Calls the function as programs do: of the module torch, or as a method of `x`."""
        args, kwargs = PATTERNS[self.pattern](x)
        owner, _, name = _name(self.function).rpartition(".")
        if owner == "torch.Tensor":
            return getattr(args[0], name)(*args[1:], **kwargs)
        return getattr(torch, name)(*args, **kwargs, **options)

    @property
    def is_random(self) -> bool:
        """Whether two calls have different results, as those of random numbers or of no numbers."""
        return any(word in self.function.__name__ for word in ("rand", "empty", "normal"))

    def __call__(self, x: torch.Tensor, **options: Any) -> Any:
        args, kwargs = PATTERNS[self.pattern](x)
        return self.function(*args, **kwargs, **options)


def all_makers(x: torch.Tensor) -> dict[Maker, torch.Tensor]:
    """Returns the calls with complex results, and these results, for a real tensor on the CPU."""
    functions = {
        getattr(owner, name)
        for owner in (torch, torch.Tensor)
        for name in dir(owner)
        if isinstance(getattr(owner, name), _BUILT_IN)
        and getattr(owner, name) in get_ignored_functions()
        and not name.startswith("set_")
    }
    for namespace, each in get_overridable_functions().items():
        if namespace is not torch.fft:
            functions.update(each)
    made = {}
    functions -= _NOT_FOR_DEVICES
    for function in sorted(functions, key=_name):
        for pattern in PATTERNS:
            maker = Maker(function, pattern)
            try:
                result = maker(x.clone())
            except Exception:
                continue
            if isinstance(result, torch.Tensor) and result.is_complex():
                made[maker] = result
    return made


def _name(function: Any) -> str:
    return resolve_name(function) or f"torch.{function.__name__}"
