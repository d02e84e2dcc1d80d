"""Placements that the operators of torch.library accept: splits of all but the last dimensions.

Along the other dimensions rows are independent: each device transforms its own rows, without
communication. Public functions work with shards before they call operators. These rules are for
operators that get DTensors themselves, for example from a program of torch.export.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor.placement_types import Placement

from trnfft.base.torch_private import register_sharding
from trnfft.ops import (  # noqa: F401  (which make the operators)
    block_circulant,
    convolution,
    spectral_convolution,
)

# placements of results and of arguments; None for an argument that is not a tensor
Rule = tuple[Sequence[Placement | None], Sequence[Placement | None]]

operators: Any = torch.ops.trnfft

_OF_ROWS = Shard(2)  # placement of the spectra that block_circulant makes from its rows


class Spec(Protocol):
    """What DTensor says of an argument that is a tensor."""

    ndim: int
    shape: torch.Size
    placements: tuple[Placement, ...]


def _rules(tensors: int, results: int, others: int, batch: int) -> list[Rule]:
    """Returns rules for copies, and for splits along one of the first `batch` dimensions."""
    placements: list[Placement | None] = [Replicate(), *(Shard(dim) for dim in range(batch))]
    return [([p] * results, [p] * tensors + [None] * others) for p in placements]


def _of_rows(
    results: Sequence[Placement | None], arguments: Sequence[Placement | None]
) -> list[Rule]:
    """Returns the rules for copies, and for rows that are split so."""
    copies = [[x and Replicate() for x in each] for each in (results, arguments)]
    return [(copies[0], copies[1]), (results, arguments)]


@register_sharding(operators.c2c.default)
def _c2c(real: Spec, imag: Spec, inverse: bool, scale: float, *rest: object) -> list[Rule]:
    return _rules(2, 2, 2 + len(rest), real.ndim - _dims(rest, 2))


@register_sharding(operators.r2c.default)
def _r2c(x: Spec, inverse: bool, scale: float, *rest: object) -> list[Rule]:
    return _rules(1, 2, 2 + len(rest), x.ndim - _dims(rest, 2))


@register_sharding(operators.c2r.default)
def _c2r(real: Spec, imag: Spec, n: int, inverse: bool, scale: float, *rest: object) -> list[Rule]:
    return _rules(2, 1, 3 + len(rest), real.ndim - _dims(rest, 2))


@register_sharding(operators.convolve_rows.default)
def _convolve_rows(x: Spec, real: Spec, imag: Spec, n: int, kept: int, backend: str) -> list[Rule]:
    return _filtered(x, real, 1)


@register_sharding(operators.convolve_images.default)
def _convolve_images(
    x: Spec, real: Spec, imag: Spec, padded: list[int], kept: list[int], backend: str
) -> list[Rule]:
    return _filtered(x, real, 2)


def _filtered(x: Spec, spectrum: Spec, last: int) -> list[Rule]:
    """Returns rules for splits of x, except its `last` dimensions, and spectra that broadcast."""
    rules = _rules(3, 1, 3, 0)
    more = max(spectrum.ndim - x.ndim, 0)
    for dim in range(x.ndim - last):
        aligned = dim - x.ndim + spectrum.ndim
        is_split = aligned >= 0 and spectrum.shape[aligned] > 1
        of_spectrum = Shard(aligned) if is_split else Replicate()
        given = [Shard(dim), of_spectrum, of_spectrum, None, None, None]
        if x.shape[dim] > 1 or not is_split:
            rules.append(([Shard(dim + more)], given))
    return rules


@register_sharding(operators.block_circulant.default)
def _block_circulant(x: Spec, weight: Spec, bias: Spec | None, backend: str) -> list[Rule]:
    of_bias = None if bias is None else Replicate()
    return _of_rows([Shard(0), _OF_ROWS, Replicate()], [Shard(0), Replicate(), of_bias, None])


@register_sharding(operators.block_circulant_gradients.default)
def _block_circulant_gradients(
    grad: Spec, of_x: Spec, of_w: Spec, k: int, backend: str
) -> list[Rule]:
    rules: list[Rule] = []
    # Spectra of rows are packed by each device: they can be neither gathered nor split.
    if Replicate() in of_x.placements:
        rules.append(([Replicate()] * 2, [Replicate()] * 3 + [None] * 2))
    if _OF_ROWS in of_x.placements:
        results = [Shard(0), Partial()]
        rules.append((results, [Shard(0), _OF_ROWS, Replicate(), None, None]))
    return rules


@register_sharding(operators.spectral_convolution.default)
def _spectral_convolution(
    x: Spec, real: Spec, imag: Spec, is_centered: bool, is_adjoint: bool, backend: str
) -> list[Rule]:
    return _of_rows([Shard(0)], [Shard(0), Replicate(), Replicate(), None, None, None])


@register_sharding(operators.spectral_convolution_kept.default)
def _spectral_convolution_kept(
    x: Spec, real: Spec, imag: Spec, is_centered: bool, backend: str
) -> list[Rule]:
    return _of_rows([Shard(0)] * 2, [Shard(0), Replicate(), Replicate(), None, None])


@register_sharding(operators.spectral_gradients.default)
def _spectral_gradients(
    grad: Spec, spectra: Spec, real: Spec, imag: Spec, is_centered: bool, backend: str
) -> list[Rule]:
    given = [Shard(0), Shard(0), Replicate(), Replicate(), None, None]
    return _of_rows([Shard(0), Partial(), Partial()], given)


def _dims(rest: tuple[Any, ...], index: int) -> int:
    return rest[index] if len(rest) > index else 1
