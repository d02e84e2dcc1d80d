"""The kind of products of rows with a block circulant matrix, and of their gradients."""

from __future__ import annotations

from trnfft.planner.kinds.kind import Count, KindRecord, at_least_one, checked_flag, number_of

CIRCULANT, CIRCULANT_GRADIENTS = "block_circulant", "block_circulant_gradients"


class BlockCirculant(KindRecord, tag=CIRCULANT, frozen=True):
    """Rows times a block circulant matrix, or the gradients of this product. See `docs/layers.md`.

    Attributes:
        p, q, k: shape of the weight: blocks of the result and of a row, numbers of a block.
        gradients: whether the launch computes the gradients instead.
    """

    p: Count
    q: Count
    k: Count
    gradients: bool = False

    def __post_init__(self) -> None:
        self._check(p=at_least_one, q=at_least_one, k=at_least_one, gradients=checked_flag)

    @property
    def name(self) -> str:
        return CIRCULANT_GRADIENTS if self.gradients else CIRCULANT

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.p, self.q, self.k

    @property
    def title(self) -> str:
        product = "product with a block circulant matrix"
        return f"gradients of a {product}" if self.gradients else product

    def work(self, batch: int) -> str:
        return f"{number_of(batch, 'row')}, weight {self.size}"

    def least_bytes(self, batch: int) -> int:
        p, q, k = self.sizes
        numbers = batch * (p + q) * k + p * q * k
        if self.gradients:
            numbers += batch * q * k + p * q * k
        return 4 * numbers
