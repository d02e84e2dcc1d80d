"""What ComplexTensor calls and files above it define: they register their functions here."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

# Implementations of torch's functions for ComplexTensors, where operators are not enough.
# trnfft.complex.functions fills the table, and trnfft.transforms and trnfft.signal enter theirs.
FUNCTIONS: dict[Any, Callable[..., Any]] = {}

# trnfft.complex.dispatch sets the following functions of its own:
dispatch: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]  # calls an operator of ATen
exported: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]  # the same for torch.export
in_graph: Callable[[], ModuleType]  # returns `in_graph`, which loads torch's compiler
