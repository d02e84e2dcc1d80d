"""Steps before and after a transform, which one launch computes with it where a kernel can.

`trnfft.plan_fft(x, before=..., after=...)` takes a step, or several in their order. They work along
the dimension of the transform, and stand for what cuFFT and VkFFT call callbacks; but they form a
closed set, so that kernels know them:

    before   Multiply, Pad, Trim
    after    Multiply, Pad, Trim, Power, Magnitude, Log, Bands

On the backends with kernels, one launch computes a float32 transform of real data ("r2c") with
products by real numbers before it, and powers or magnitudes and their sums in bands after it: see
nki_kernels/spectral/frames.py. All other steps are operations of torch around the launch, and so
are all steps on other backends, with the same numbers and the same derivatives.

A step raises a TypeError for an argument of the wrong type, and a ValueError for one whose value or
shape is not as described.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from trnfft.base.checks import brief, finite
from trnfft.complex.given_parts import COMPLEX_DTYPES
from trnfft.complex.kinds import as_complex_tensor
from trnfft.complex.parts import is_sharded
from trnfft.complex.tensor import ComplexTensor
from trnfft.functions.arguments import check_tensor, integer
from trnfft.ops import frames
from trnfft.ops.operand import operand_of


class Row(NamedTuple):
    """What a step meets along the dimension: so many numbers, which are complex or real."""

    length: int
    is_complex: bool


class Step:
    """A step before or after a transform."""

    def result(self, row: Row) -> Row:
        """Returns what the step makes of a row: as many numbers, which are real.

        Raises:
            ValueError: the step does not fit the row.
        """
        return Row(row.length, False)

    def __call__(self, x: torch.Tensor, dim: int) -> torch.Tensor:
        """Returns the result along a dimension, counted from 0."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Multiply(Step):
    """Multiplies by a number, or by a vector along the dimension: a window, a chirp or a filter.

    Args:
        factor: a number, or a real or complex tensor of shape [length], which may have gradients.
            Its numbers are converted to the precision of the data.
    """

    factor: float | complex | torch.Tensor

    def __post_init__(self) -> None:
        if isinstance(self.factor, torch.Tensor):
            _check_plain("factor", self.factor, 1)
        elif isinstance(self.factor, bool) or not isinstance(self.factor, (int, float, complex)):
            raise TypeError(
                f"argument 'factor' is {brief(self.factor)}, allowed are numbers and tensors of "
                f"one dimension"
            )
        else:
            finite("factor", abs(self.factor))

    def __repr__(self) -> str:
        if isinstance(self.factor, torch.Tensor):
            return f"Multiply({len(self.factor)} numbers)"
        return f"Multiply({self.factor})"

    def result(self, row: Row) -> Row:
        if not isinstance(self.factor, torch.Tensor):
            return Row(row.length, row.is_complex or isinstance(self.factor, complex))
        if len(self.factor) != row.length:
            raise ValueError(f"{self} has another length than the row, which has {row.length}")
        return Row(row.length, row.is_complex or self.factor.is_complex())

    def __call__(self, x: torch.Tensor, dim: int) -> torch.Tensor:
        factor: Any = self.factor
        if not isinstance(factor, torch.Tensor):
            return x * factor
        if factor.is_complex() and isinstance(x, ComplexTensor):
            factor = as_complex_tensor(factor)
        part = x.real.dtype
        factor = factor.to(x.device, COMPLEX_DTYPES[part] if factor.is_complex() else part)
        return x * factor.reshape(-1, *[1] * (x.ndim - 1 - dim))


@dataclass(frozen=True)
class Pad(Step):
    """Adds zeros before and after the numbers."""

    before: int = 0
    after: int = 0

    def __post_init__(self) -> None:
        for name in ("before", "after"):
            if integer(name, getattr(self, name)) < 0:
                raise ValueError(
                    f"argument '{name}' is {getattr(self, name)}, allowed is 0 or more"
                )

    def result(self, row: Row) -> Row:
        return Row(self.before + row.length + self.after, row.is_complex)

    def __call__(self, x: torch.Tensor, dim: int) -> torch.Tensor:
        zeros = [0, 0] * (x.ndim - 1 - dim) + [self.before, self.after]
        return torch.nn.functional.pad(x, zeros)


@dataclass(frozen=True)
class Trim(Step):
    """Keeps a range of numbers: `length` of them from `start` on."""

    start: int
    length: int

    def __post_init__(self) -> None:
        for name, least in (("start", 0), ("length", 1)):
            value = integer(name, getattr(self, name))
            if value < least:
                raise ValueError(f"argument '{name}' is {value}, allowed is {least} or more")

    def result(self, row: Row) -> Row:
        if self.start + self.length > row.length:
            raise ValueError(f"{self} ends after the row, which has {row.length} numbers")
        return Row(self.length, row.is_complex)

    def __call__(self, x: torch.Tensor, dim: int) -> torch.Tensor:
        return x.narrow(dim, self.start, self.length)


@dataclass(frozen=True)
class Power(Step):
    """Computes |z|^2."""

    def __call__(self, x: torch.Tensor, dim: int) -> torch.Tensor:
        return x.real.square() + x.imag.square() if x.is_complex() else x.square()


@dataclass(frozen=True)
class Magnitude(Step):
    """Computes |z|, whose derivative at 0 is 0."""

    def __call__(self, x: torch.Tensor, dim: int) -> torch.Tensor:
        return x.abs()


@dataclass(frozen=True)
class Log(Step):
    """Computes the natural logarithm of real numbers, of which small ones count as `floor`."""

    floor: float = 1e-10

    def __post_init__(self) -> None:
        if finite("floor", self.floor) <= 0:
            raise ValueError(f"argument 'floor' is {self.floor}, allowed are numbers above 0")

    def result(self, row: Row) -> Row:
        return _real(self, row)

    def __call__(self, x: torch.Tensor, dim: int) -> torch.Tensor:
        return x.clamp(min=self.floor).log()


@dataclass(frozen=True, eq=False)
class Bands(Step):
    """Sums real numbers in bands: a mel, bark or octave scale.

    Args:
        bank: weights, a real tensor of shape [length, bands], which may have gradients.
    """

    bank: torch.Tensor

    def __post_init__(self) -> None:
        _check_plain("bank", self.bank, 2)
        if self.bank.is_complex():
            raise ValueError(
                f"argument 'bank' has dtype {self.bank.dtype}, allowed are real dtypes"
            )

    def __repr__(self) -> str:
        return f"Bands({' x '.join(map(str, self.bank.shape))})"

    def result(self, row: Row) -> Row:
        if len(self.bank) != row.length:
            raise ValueError(f"{self} takes another length than the row, which has {row.length}")
        return Row(self.bank.shape[1], _real(self, row).is_complex)

    def __call__(self, x: torch.Tensor, dim: int) -> torch.Tensor:
        bank = self.bank.to(x)
        return torch.matmul(x.movedim(dim, -1), bank).movedim(-1, dim)


def _check_plain(name: str, x: torch.Tensor, dims: int) -> None:
    """Raises an error unless an argument is a tensor of one device with so many dimensions."""
    check_tensor(name, x)
    if x.ndim != dims or x.numel() == 0 or is_sharded(x):
        what = "a DTensor" if is_sharded(x) else f"shape {tuple(x.shape)}"
        raise ValueError(
            f"argument '{name}' has {what}, allowed are {dims} dimensions that are not empty, on "
            f"one device"
        )


def _real(step: Step, row: Row) -> Row:
    if row.is_complex:
        raise ValueError(f"{step} takes real numbers: write Power() or Magnitude() before it")
    return row


def checked(name: str, given: object, allowed: tuple[type[Step], ...]) -> tuple[Step, ...]:
    """Returns the steps of an argument, which is one step or several.

    Raises:
        TypeError: it holds something else than the steps that are allowed there.
    """
    several = [given] if isinstance(given, Step) or not isinstance(given, Sequence) else given
    steps: list[Step] = []
    for step in several:
        if not isinstance(step, allowed):
            names = ", ".join(each.__name__ for each in allowed)
            raise TypeError(
                f"argument '{name}' has {brief(step)}, allowed are these steps of trnfft.steps: "
                f"{names}"
            )
        steps.append(step)
    return tuple(steps)


def result_of(name: str, steps: Sequence[Step], row: Row) -> Row:
    """Returns what steps make of a row.

    Raises:
        ValueError: a step of the argument does not fit.
    """
    for step in steps:
        try:
            row = step.result(row)
        except ValueError as reason:
            raise ValueError(f"argument '{name}': {reason}") from None
    return row


def applied(steps: Sequence[Step], x: torch.Tensor, dim: int) -> torch.Tensor:
    """Returns the result of steps along a dimension, by operations of torch."""
    for step in steps:
        x = step(x, dim)
    return x


BEFORE = (Multiply, Pad, Trim)
AFTER = (Multiply, Pad, Trim, Power, Magnitude, Log, Bands)


@dataclass(frozen=True)
class Launch:
    """Steps that one launch computes with a transform of real rows, and those around it.

    Attributes:
        before, after: the steps that are operations of torch.
        inside: the steps in the launch.
        n: points of the transform.
        scale: a factor on spectra.
        power: exponent of absolute values, or 0 for spectra.
        bank: of bands, or None.
    """

    before: tuple[Step, ...]
    inside: tuple[Step, ...]
    after: tuple[Step, ...]
    n: int
    scale: float
    power: int = 0
    bank: torch.Tensor | None = field(default=None, repr=False)

    def is_shorter(self, rows: int, execution: str) -> bool:
        """Returns whether a kernel computes so many rows in this launch, and is the cheaper way."""
        bands = None if self.bank is None else self.bank.shape[1]
        what = frames.Frames(self.n, self.n, self.power, bands)
        return frames.recipe_for(rows, what, execution) is not None

    def __call__(self, x: torch.Tensor, dim: int) -> torch.Tensor:
        """Returns the transform of real numbers along a dimension, with all steps."""
        x = applied(self.before, x, dim).movedim(dim, -1)
        window = self._window(x)
        rows = operand_of(x.reshape(-1, self.n))
        if self.power == 0:
            y = frames.frame_spectra(rows, window, self.n, self.scale)[:, 0]
        else:
            bank = None if self.bank is None else self.bank.to(x)
            y = frames.frame_bands(rows, window, bank, self.n, self.power, self.scale)[..., 0]
        y = y.reshape(*x.shape[:-1], y.shape[-1]).movedim(-1, dim)
        return applied(self.after, y, dim)

    def _window(self, like: torch.Tensor) -> torch.Tensor:
        """Returns the product of all vectors before the transform, or ones."""
        product = like.new_ones(self.n)
        for step in self.inside:
            if isinstance(step, Multiply) and isinstance(step.factor, torch.Tensor):
                product = product * step.factor.to(product)
        return product


def launches(
    before: tuple[Step, ...], after: tuple[Step, ...], n: int, scale: float
) -> list[Launch]:
    """Returns the ways in which a launch may hold steps, the one with the most steps first."""
    inside: tuple[Multiply, ...] = ()
    for step in reversed(before):
        if not isinstance(step, Multiply) or not _is_real(step.factor):
            break
        inside = (step, *inside)
    around = before[: len(before) - len(inside)]
    has_window = any(isinstance(step.factor, torch.Tensor) for step in inside)
    for step in inside:
        if isinstance(step.factor, (int, float)):
            scale *= step.factor
    ways = []
    if after and isinstance(after[0], (Power, Magnitude)):
        power = 2 if isinstance(after[0], Power) else 1
        if len(after) > 1 and isinstance(after[1], Bands):
            bank = after[1].bank
            ways.append(Launch(around, (*inside, *after[:2]), after[2:], n, scale, power, bank))
        ways.append(Launch(around, (*inside, *after[:1]), after[1:], n, scale, power))
    if has_window:
        ways.append(Launch(around, inside, after, n, scale))
    return ways


def _is_real(factor: torch.Tensor | complex) -> bool:
    if isinstance(factor, torch.Tensor):
        return not factor.is_complex()
    return not isinstance(factor, complex)
