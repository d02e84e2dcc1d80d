"""Weights of Fourier layers in factors, from which the whole weight is contracted.

Mathematics.  A weight w[m_1, ..., m_d] has the channels and the frequencies as its modes. It is

    Tucker:        w = sum_r c[r_1, ..., r_d] A_1[m_1, r_1] ... A_d[m_d, r_d]
    CP:            w = sum_r v[r] A_1[m_1, r] ... A_d[m_d, r]
    tensor train:  w = sum_r A_1[1, m_1, r_1] A_2[r_1, m_2, r_2] ... A_d[r_(d-1), m_d, 1]

(Kolda and Bader, "Tensor decompositions and applications", 2009; Oseledets, "Tensor-train
decomposition", 2011.) The whole weight is contracted for each call, by few products, and then used
as a dense one, because the kernels mix the channels by a matrix for each frequency.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from string import ascii_lowercase
from typing import Any

import torch
from torch import nn

from trnfft.base.checks import brief
from trnfft.complex.dispatch import Parts
from trnfft.complex.products import bilinear_parts
from trnfft.functions.arguments import check_parameters
from trnfft.ops import autocast

_TRAIN = "tt"
FACTORIZATIONS = ("tucker", "cp", _TRAIN)
Rank = float | str | Sequence[int]
_RANKS = {
    "cp": "an int, 1 or more",
    "tucker": "a tuple of {} ints, each 1 or more",
    _TRAIN: "a tuple of {} ints, each 1 or more, of which the first and the last are 1",
}


class FactorizedWeight(nn.Module):
    """A complex weight as the factors of a decomposition, each in two real parameters.

    Args:
        name: "tucker", "cp" or "tt".
        shape: shape of the whole weight.
        rank: the ranks, an int or a tuple, or which share of the numbers of a dense weight the
            factors have; tensorly finds the ranks of a share.
        fixed_modes: of a Tucker decomposition, the modes whose ranks are their sizes.
        deviation: standard deviation of the first values of the whole weight.
        device: of the parameters.
    """

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        rank: Rank,
        fixed_modes: list[int] | None,
        deviation: float,
        device: torch.device | str | None,
    ) -> None:
        super().__init__()
        self.name, self.shape, self.deviation = name, shape, deviation
        self.rank = _ranks(name, shape, rank, fixed_modes)
        self.sizes = dict(_sizes(name, shape, self.rank))
        for factor, size in self.sizes.items():
            check_parameters(device, None, size, rank=max(self._all_ranks))
            for part in ("real", "imag"):
                empty = torch.empty(size, device=device)
                self.register_parameter(f"{factor}_{part}", nn.Parameter(empty))
        self.reset_parameters()

    @property
    def _all_ranks(self) -> tuple[int, ...]:
        return (self.rank,) if isinstance(self.rank, int) else self.rank

    def reset_parameters(self) -> None:
        """Draws new normal factors, so that the whole weight has its standard deviation."""
        drawn = len(self.sizes) - (self.name == "cp")  # whose vector begins with ones
        std = (self.deviation / math.sqrt(math.prod(self._all_ranks))) ** (1 / drawn)
        with torch.no_grad():
            for part in (part for name in self.sizes for part in self.factor(name)):
                part.normal_(0, std / math.sqrt(2))
            if self.name == "cp":
                self.factor("weights").real.fill_(1)
                self.factor("weights").imag.fill_(0)

    def factor(self, name: str) -> Parts:
        """Returns the parameters of a factor, by its name."""
        return Parts(getattr(self, f"{name}_real"), getattr(self, f"{name}_imag"))

    @property
    def parts(self) -> Parts:
        """The whole weight."""
        first, *rest = (self.factor(name) for name in self.sizes)
        modes = ascii_lowercase[: len(self.shape)]
        if self.name == "tucker":
            for index, factor in enumerate(rest):
                ranks = modes[:index] + "z" + modes[index + 1 :]
                first = _contracted(f"{ranks},{modes[index]}z->{modes}", first, factor)
            return first
        if self.name == "cp":
            equations = [f"{modes[:i]}z,{mode}z->{modes[: i + 1]}z" for i, mode in enumerate(modes)]
            equations[-1] = equations[-1][:-1]  # sums over the rank
        else:
            first = Parts(first.real[0], first.imag[0])
            equations = [
                f"{modes[:i]}y,y{modes[i]}z->{modes[: i + 1]}z" for i in range(1, len(modes))
            ]
        for equation, factor in zip(equations, rest, strict=True):
            first = _contracted(equation, first, factor)
        if self.name == _TRAIN:
            first = Parts(first.real[..., 0], first.imag[..., 0])
        return first

    def load(self, state: dict[str, torch.Tensor], prefix: str, theirs: str) -> None:
        """Renames the complex factors of tensorly-torch in a state, and takes them apart.

        prefix: of the names of this module's parameters. theirs: of the names of the factors.
        """
        for name in self.sizes:
            middle = "factors." if name.startswith("factor_") else ""
            given = state.pop(f"{theirs}{middle}{name}", None)
            if given is not None:
                state[f"{prefix}{name}_real"], state[f"{prefix}{name}_imag"] = (
                    given.real,
                    given.imag,
                )

    def extra_repr(self) -> str:
        return f"{self.name!r}, {self.shape}, rank={self.rank}"


def _contracted(equation: str, x: Parts, y: Parts) -> Parts:
    with autocast.switched_off(x.real.device):
        return bilinear_parts(partial(torch.einsum, equation), x, y)


def _sizes(
    name: str, shape: tuple[int, ...], rank: int | tuple[int, ...]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yields the names and the shapes of the factors."""
    if isinstance(rank, int):  # of "cp"
        yield "weights", (rank,)
        for index, size in enumerate(shape):
            yield f"factor_{index}", (size, rank)
        return
    if name == "tucker":
        yield "core", rank
    for index, size in enumerate(shape):
        if name == "tucker":
            yield f"factor_{index}", (size, rank[index])
        else:
            yield f"factor_{index}", (rank[index], size, rank[index + 1])


def _ranks(
    name: str, shape: tuple[int, ...], rank: Rank, fixed_modes: list[int] | None
) -> int | tuple[int, ...]:
    """Returns the rank of a CP decomposition, or the ranks of another one."""
    if isinstance(rank, bool):
        raise TypeError(f"argument 'rank' is {rank}, allowed are a share, an int, or a tuple")
    try:
        ranks = _validator(name, fixed_modes)(shape, rank)
        ranks = int(ranks) if name == "cp" else tuple(map(int, ranks))
    except (AssertionError, TypeError, ValueError, IndexError) as reason:
        raise ValueError(
            f"argument 'rank' is {brief(rank)}, which fits no {name}: {reason}"
        ) from None
    given = (ranks,) if isinstance(ranks, int) else ranks
    expected = {"cp": 1, "tucker": len(shape), _TRAIN: len(shape) + 1}[name]
    ends = (given[0], given[-1]) if name == _TRAIN else (1, 1)
    if len(given) != expected or min(given) < 1 or ends != (1, 1):
        raise ValueError(
            f"argument 'rank' is {brief(rank)}, allowed for {name!r} are a share above 0, as a "
            f"float, and {_RANKS[name].format(expected)}"
        )
    return ranks


def _validator(name: str, fixed_modes: list[int] | None) -> Callable[..., Any]:
    """Returns tensorly's function that finds ranks."""
    try:
        from tensorly.cp_tensor import validate_cp_rank
        from tensorly.tt_tensor import validate_tt_rank
        from tensorly.tucker_tensor import validate_tucker_rank
    except ImportError as reason:
        raise ImportError(
            f"argument 'factorization' is {name!r}, whose ranks tensorly finds, which is missing: "
            f"pip install tensorly"
        ) from reason
    if name == "cp":
        return validate_cp_rank
    if name == _TRAIN:
        return validate_tt_rank
    return partial(validate_tucker_rank, fixed_modes=fixed_modes)
