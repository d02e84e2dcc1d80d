"""The interface of a backend: transforms of split parts along their last dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

import torch

from trnfft.backends.half_spectrum import half_of, whole_of

if TYPE_CHECKING:
    from trnfft.planner.plan import Recipe

Parts = tuple[torch.Tensor, ...]
Function = TypeVar("Function", bound=Callable[..., object])


class Call(NamedTuple):
    """A transform, on its way from the public functions to a backend.

    Attributes:
        kind: "c2c", "r2c" for real data, or "c2r" for a real result.
        inverse: the sign of the exponent: False for exp(-2 pi i j k / N), True for exp(+ ...).
        sizes: lengths of the transforms, for the dimensions in their order. A half spectrum has
            sizes[-1] // 2 + 1 numbers in the last of them.
        dims: the dimensions, each once, counted from 0. Backends transform the last dimensions of
            split parts, whatever is said here.
        norm: a name, as in torch.fft for a transform whose forward direction has the negative sign,
            or a factor on the result.
        precision: the mode, as in `trnfft.base.config`; "" for that of the run.
        planned: whether the frequencies are in planned order (see trnfft/planner/order.py); for an
            inverse, the frequencies are the input. Only for one dimension and complex data.
    """

    kind: str
    inverse: bool
    sizes: tuple[int, ...] = ()
    dims: tuple[int, ...] = ()
    norm: str | float = "backward"
    precision: str = ""
    planned: bool = False

    @property
    def scale(self) -> float:
        """The factor on the result."""
        return scale_of(self.norm, self.sizes, self.inverse)


def scale_of(norm: str | float, sizes: tuple[int, ...], inverse: bool) -> float:
    """Returns the factor of `norm` on a sum over `sizes` points."""
    if not isinstance(norm, str):
        return norm
    n = math.prod(sizes)
    # from a trace, which otherwise would keep it or round it to float32
    if isinstance(n, torch.Tensor):
        n = n.double()
    if norm == "ortho":
        return n**-0.5
    return 1.0 / n if (norm == "backward") == inverse else 1.0


class Backend:
    """Transforms along the last dimensions of split parts: `c2c`, `r2c` and `c2r`.

    A backend has to implement `c2c_rows` only. The other methods are built from it in this class:
    several dimensions as one transform after the other, real data and half spectra as complex data.
    All methods accept parts on one device and of one dtype, and raise NotImplementedError for what
    the backend cannot do. The parts of a result share memory neither with each other nor with the
    input, and may have any strides.
    """

    name: str
    # whether it also accepts complex tensors of torch with any dimensions: `whole`
    takes_whole = False
    has_kernels = False  # whether it has NKI kernels, those of convolutions among them: `run`
    has_derivatives = False  # whether it consists of torch operations, which have derivatives
    has_planned_order = False  # whether transforms in planned order cost it nothing more

    def whole(self, x: Parts, call: Call, native: bool) -> Parts:
        """Transforms both parts or a tensor of any kind, where the backend `takes_whole`."""
        raise NotImplementedError

    def c2c_rows(self, parts: Parts, call: Call) -> Parts:
        """Computes `c2c` along the last dimension only."""
        raise NotImplementedError

    def r2c_rows(self, parts: Parts, call: Call) -> Parts:
        """Computes `r2c` along the last dimension only."""
        return half_of(*self.c2c_rows((parts[0], torch.zeros_like(parts[0])), call))

    def c2r_rows(self, parts: Parts, call: Call) -> Parts:
        """Computes `c2r` along the last dimension only."""
        real, imag = parts
        return self.c2c_rows(whole_of(real, imag, call.sizes[-1]), call)[:1]

    def c2c(self, parts: Parts, call: Call) -> Parts:
        """Transforms complex data: real and imaginary part [..., *sizes] to those of the result."""
        if call.planned and not self.has_planned_order:
            return self._in_planned_order(parts, call)
        if len(call.sizes) == 1:
            return self.c2c_rows(parts, call)
        return self._dimensions(parts, call, len(call.sizes))

    def r2c(self, parts: Parts, call: Call) -> Parts:
        """Transforms real data: one part [..., *sizes] to the two parts of its half spectrum."""
        if len(call.sizes) == 1:
            return self.r2c_rows(parts, call)
        half = self.r2c_rows(parts, call._replace(sizes=call.sizes[-1:], norm=call.scale))
        return self._dimensions(half, call._replace(norm=1.0), len(call.sizes) - 1)

    def c2r(self, parts: Parts, call: Call) -> Parts:
        """Transforms the two parts of a half spectrum to one real part [..., *sizes]."""
        if len(call.sizes) == 1:
            return self.c2r_rows(parts, call)
        parts = self._dimensions(parts, call._replace(norm=1.0), len(call.sizes) - 1)
        return self.c2r_rows(parts, call._replace(sizes=call.sizes[-1:], norm=call.scale))

    def prepared(self, like: torch.Tensor, call: Call) -> Callable[[Parts], Parts]:
        """Returns the method for this call and parts like `like`, plan and tables ready.

        Raises:
            NotImplementedError, RuntimeError, TypeError: the backend cannot do the transform.
        """
        return partial(getattr(self, call.kind), call=call)

    def run(
        self, recipe: Recipe, x: Parts, inverse: bool = False, scale: float = 1.0
    ) -> list[torch.Tensor]:
        """Returns the results of the kernel of any plan's recipe, on the device of its input.

        Raises:
            NotImplementedError: the backend has no kernels.
        """
        raise NotImplementedError(f'backend "{self.name}" has no kernels; use "nki" or "nki-sim"')

    def _dimensions(self, parts: Parts, call: Call, count: int) -> Parts:
        """Transforms along the first `count` of the dimensions, the last of these first."""
        last, scale = len(call.sizes), call.scale
        for index in reversed(range(count)):
            dim = index - last
            alone = call._replace(sizes=(call.sizes[index],), norm=scale)
            real, imag = self.c2c_rows(tuple(part.transpose(dim, -1) for part in parts), alone)
            parts = real.transpose(dim, -1), imag.transpose(dim, -1)
            scale = 1.0
        return parts

    def _in_planned_order(self, parts: Parts, call: Call) -> Parts:
        """Computes `c2c` in planned order, by transforms in natural order."""
        from trnfft.planner import order  # here, so that only its users load the planner

        radices = order.radices(call.sizes[-1])
        natural = call._replace(planned=False)
        if call.inverse:
            return self.c2c(_reordered(parts, radices), natural)
        return _reordered(self.c2c(parts, natural), radices[::-1])


def without_views(function: Function, device: torch.device) -> Function:
    """Returns `function` for tensors on the device; on XLA it uses copies in place of views.

    torch_xla itself does this, but not inside a custom operator, where views of views have wrong
    values.
    """
    if device.type != "xla":
        return function
    return cast("Function", torch.func.functionalize(function, remove="mutations_and_views"))


def _reordered(parts: Parts, radices: tuple[int, ...]) -> Parts:
    reverse = without_views(_digits_reversed, parts[0].device)
    return tuple(reverse(part, radices) for part in parts)


def _digits_reversed(x: torch.Tensor, radices: tuple[int, ...]) -> torch.Tensor:
    """Returns the last dimension with its index's digits, in these radices, in reverse order."""
    lead = x.ndim - 1
    digits = x.reshape(*x.shape[:-1], *radices)
    reverse = range(digits.ndim - 1, lead - 1, -1)
    return digits.permute(*range(lead), *reverse).reshape(x.shape)
