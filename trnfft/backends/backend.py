"""What every backend is: transforms of split parts along their last dimensions, by one record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from trnfft.backends.half_spectrum import half_of, whole_of

if TYPE_CHECKING:
    from trnfft.planner.plan import Recipe

Parts = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Call:
    """What is done to split parts.

    Attributes:
        sizes: lengths of the transforms, of the last dimensions in their order. Half spectra have
            sizes[-1] // 2 + 1 numbers in the last one.
        inverse: the sign of the exponent: False for exp(-2 pi i j k / N), True for exp(+ ...).
        scale: a factor on the result.
        precision: the mode, as in `trnfft.config`.
        planned: whether the frequencies, which are the input of an inverse, are in planned order
            (see trnfft/planner/order.py); of one dimension and complex data only.
    """

    sizes: tuple[int, ...]
    inverse: bool
    scale: float
    precision: str
    planned: bool = False


class Backend:
    """Transforms along the last dimensions of split parts: `c2c`, `r2c` and `c2r`.

    A backend needs `c2c_rows` only. The others are made of it here: several dimensions one after
    the other, real data and half spectra as complex data. All take parts on one device, of one
    dtype, and raise NotImplementedError for what the backend cannot do. Parts of a result share
    memory neither with each other nor with the input; they have any strides.
    """

    name: str
    takes_whole = False  # also complex tensors of torch with any dimensions: `torch_native`
    has_kernels = False  # NKI kernels, convolutions and others among them: `run`
    has_derivatives = False  # those of the torch operations that it is made of
    has_planned_order = False  # transforms in planned order cost it nothing more

    def c2c_rows(self, parts: Parts, call: Call) -> Parts:
        """`c2c` along the last dimension alone."""
        raise NotImplementedError

    def r2c_rows(self, parts: Parts, call: Call) -> Parts:
        """`r2c` along the last dimension alone."""
        return half_of(*self.c2c_rows((parts[0], torch.zeros_like(parts[0])), call))

    def c2r_rows(self, parts: Parts, call: Call) -> Parts:
        """`c2r` along the last dimension alone."""
        real, imag = parts
        return self.c2c_rows(whole_of(real, imag, call.sizes[-1]), call)[:1]

    def c2c(self, parts: Parts, call: Call) -> Parts:
        """Real and imaginary part [..., *sizes] of complex data to those of its transform."""
        if call.planned and not self.has_planned_order:
            return self._in_planned_order(parts, call)
        if len(call.sizes) == 1:
            return self.c2c_rows(parts, call)
        return self._dimensions(parts, call, len(call.sizes))

    def r2c(self, parts: Parts, call: Call) -> Parts:
        """One real part [..., *sizes] to the parts of the half spectrum of its transform."""
        if len(call.sizes) == 1:
            return self.r2c_rows(parts, call)
        half = self.r2c_rows(parts, replace(call, sizes=call.sizes[-1:]))
        return self._dimensions(half, replace(call, scale=1.0), len(call.sizes) - 1)

    def c2r(self, parts: Parts, call: Call) -> Parts:
        """The parts of a half spectrum of Hermitian data to one real part [..., *sizes]."""
        if len(call.sizes) == 1:
            return self.c2r_rows(parts, call)
        parts = self._dimensions(parts, replace(call, scale=1.0), len(call.sizes) - 1)
        return self.c2r_rows(parts, replace(call, sizes=call.sizes[-1:]))

    def prepared(self, kind: str, like: torch.Tensor, call: Call) -> Callable[[Parts], Parts]:
        """The method `kind` for this call, of parts like this one: what can be looked up is.

        Raises:
            NotImplementedError, RuntimeError, TypeError: the backend cannot do it.
        """
        return partial(getattr(self, kind), call=call)

    def run(
        self, recipe: Recipe, x: Parts, inverse: bool = False, scale: float = 1.0
    ) -> list[torch.Tensor]:
        """The results of the kernel of any plan's recipe, on the device of its float32 input.

        Args:
            recipe: of any plan.
            x: the kernel's input, of the shapes that its algorithm's `inputs` gives.
            inverse: the sign of the exponent.
            scale: a factor on the result.

        Raises:
            NotImplementedError: the backend has no kernels.
        """
        raise NotImplementedError(f'backend "{self.name}" has no kernels; use "nki" or "nki-sim"')

    def _dimensions(self, parts: Parts, call: Call, count: int) -> Parts:
        """Transforms along the first `count` of the dimensions, the last of these first."""
        last = len(call.sizes)
        for index in reversed(range(count)):
            dim = index - last
            one = replace(call, sizes=(call.sizes[index],))
            real, imag = self.c2c_rows(tuple(part.transpose(dim, -1) for part in parts), one)
            parts = real.transpose(dim, -1), imag.transpose(dim, -1)
            call = replace(call, scale=1.0)
        return parts

    def _in_planned_order(self, parts: Parts, call: Call) -> Parts:
        """`c2c` in planned order, by transforms that have the natural one."""
        from trnfft.planner import order  # here, so that only its users load the planner

        radices = order.radices(call.sizes[-1])
        natural = replace(call, planned=False)
        if call.inverse:
            return self.c2c(_reordered(parts, radices), natural)
        return _reordered(self.c2c(parts, natural), radices[::-1])


def without_views(function: Any, device: torch.device) -> Any:
    """`function` of tensors on the device; on an XLA one it computes with copies, not views.

    torch_xla does so by itself, but not inside of a custom operator, where views of views have
    wrong values.
    """
    if device.type != "xla":
        return function
    return torch.func.functionalize(function, remove="mutations_and_views")


def _reordered(parts: Parts, radices: tuple[int, ...]) -> Parts:
    reverse = without_views(_digits_reversed, parts[0].device)
    return tuple(reverse(part, radices) for part in parts)


def _digits_reversed(x: torch.Tensor, radices: tuple[int, ...]) -> torch.Tensor:
    """The last dimension with the digits of its index, of these radices, in reverse order."""
    lead = x.ndim - 1
    digits = x.reshape(*x.shape[:-1], *radices)
    reverse = range(digits.ndim - 1, lead - 1, -1)
    return digits.permute(*range(lead), *reverse).reshape(x.shape)
