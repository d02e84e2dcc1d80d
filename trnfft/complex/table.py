"""What ComplexTensor calls and files above it define: they register their functions here."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Function = Callable[..., Any]

# Those of a call of torch, by position and by name.
Arguments = tuple[object, ...]
NamedArguments = dict[str, object]

# Implementations of torch's functions for ComplexTensors, where operators are not enough.
# trnfft.complex.functions fills the table, and the functions of the face enter theirs.
FUNCTIONS: dict[Any, Function] = {}

# trnfft.complex.dispatch sets the following functions of its own:
dispatch: Callable[[Any, Arguments, NamedArguments], Any]  # calls an operator of ATen
exported: Callable[[Any, Arguments, NamedArguments], Any]  # the same for torch.export
in_graph: Callable[[], ModuleType]  # returns `in_graph`, which loads torch's compiler

# trnfft.complex.called:
called: Callable[[Any, Arguments, NamedArguments], Any]  # calls a function of torch

# trnfft.complex.parts:
join: Callable[[torch.Tensor, torch.Tensor], Any]
copied: Callable[[torch.Tensor], torch.Tensor]
split: Callable[[str, torch.Tensor], Any]
parts_of: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
parts_to_transform: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
wrapped: Callable[[torch.Tensor, torch.Tensor], Any]
of_parts: Callable[[torch.Tensor, torch.Tensor], Any]
with_conjugation: Callable[[Any, bool], Any]
is_sharded: Callable[[object], bool]
