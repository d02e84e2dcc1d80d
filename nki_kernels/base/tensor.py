"""The type of NKI's tensors, of which the language publishes no class that every release has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Tensor(Protocol):
    """A tensor in HBM, SBUF or PSUM, or a view of one; the first dimension is the partition."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""

    @property
    def dtype(self) -> Any:
        """The type of the numbers, such as ``nl.float32``."""

    def __getitem__(self, key: Any, /) -> Tensor:
        """Returns a view by ints, slices with steps, and an ellipsis."""

    def reshape(self, shape: Sequence[int], /) -> Tensor:
        """Returns a view of contiguous numbers in another shape."""

    def reshape_dim(self, dim: int, shape: Sequence[int], /) -> Tensor:
        """Returns a view in which several dimensions replace one."""

    def flatten_dims(self, start_dim: int, end_dim: int, /) -> Tensor:
        """Returns a view in which one dimension replaces several."""

    def expand_dim(self, dim: int, /) -> Tensor:
        """Returns a view with a dimension of size 1 more."""

    def permute(self, dims: Sequence[int], /) -> Tensor:
        """Returns a view with the dimensions in another order."""

    def view(self, dtype: Any, /) -> Tensor:
        """Returns a view of the bits as another type."""

    def ap(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int = 0,
        *,
        scalar_offset: object = None,
        indirect_dim: int = 0,
    ) -> Tensor:
        """Returns a view of a whole tensor by [stride, count] of each dimension."""
