"""The result of torch.view_as_real for a ComplexTensor: a real tensor [..., 2] with its parts.

The two parts are not interleaved in memory, so that no tensor with strides can be this view.
RealPairs exists for writes in place, as optimizers do with complex parameters; other operators get
a copy. It has the strides of a native complex tensor's view, because torch makes views again by
strides, also of its gradients, which may be native.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from trnfft.base import torch_private as private
from trnfft.complex.collectives import on_each_part
from trnfft.complex.dispatch import (
    aten,
    each_of_lists,
    implements,
    inference_of_view,
    joined,
    keys_of_batches,
    written_by,
)
from trnfft.complex.graphs import (
    is_in_graph,
    is_seen_by_compiler,
    is_view,
    recorded_whole,
    with_storage,
)
from trnfft.complex.parts import TAKING_PARTS, is_vectorized, not_vectorized
from trnfft.complex.table import Arguments, Function, NamedArguments
from trnfft.complex.tensor import ComplexTensor


class RealPairs(torch.Tensor):
    """A real tensor [..., 2] whose [..., 0] and [..., 1] are two tensors, the parts; or its view.

    Attributes:
        _real, _imag: the parts.
        _views: the functions that make the view from the whole, one after the other; () for the
            whole itself.
        of_function: whether `trnfft.complex.parts.as_pairs` made it, rather than torch under
            autograd.
    """

    _real: torch.Tensor
    _imag: torch.Tensor
    _views: tuple[View, ...]
    of_function = False
    _is_argument = False  # as of a ComplexTensor
    __torch_function__ = private.disabled_torch_function_impl

    @staticmethod
    def __new__(
        cls: type[RealPairs], real: torch.Tensor, imag: torch.Tensor, *views: View
    ) -> RealPairs:
        shape, strides, offset = (*real.shape, 2), _strides(real), _offset(real)
        if views:
            viewed = _unsigned_view(_layout(real), views)
            shape, strides = viewed.shape, viewed.stride()
            offset += viewed.storage_offset()
        made = private.make_wrapper_subclass(
            cls,
            shape,
            strides=strides,
            storage_offset=offset,
            dtype=real.dtype,
            device=real.device,
        )
        made._real, made._imag, made._views = real, imag, views
        private.set_throw_on_mutable_data_ptr(made)  # because it has no memory
        return made

    def __init__(self, real: torch.Tensor, imag: torch.Tensor, *views: View) -> None:
        """Does nothing, because `__new__` does everything."""

    def __repr__(self, *, tensor_contents: object = None) -> str:  # type: ignore[override]
        return f"RealPairs({self._copied()!r})"

    def __format__(self, spec: str) -> str:
        return format(self._copied(), spec)

    def __float__(self) -> float:
        return float(self._copied())

    def __int__(self) -> int:
        return int(self._copied())

    def detach(self) -> torch.Tensor:
        """Returns the pairs without a graph; for a gradient in compiled code a plain tensor."""
        if is_in_graph(self._real) and _is_example_of_gradient():
            return self._copied()
        return super().detach()

    def __coerce_same_metadata_as_tangent__(
        self, context: object, expected_type: object = None
    ) -> torch.Tensor:
        """Returns the gradient of a compiled result as the plain tensor expected there."""
        return self._copied()

    # Access to its memory, of which it has none of its own: copies

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """Returns a NumPy array, which is a copy."""
        return self.clone().numpy(force=force)

    def __array__(self, *args: object, **kwargs: object) -> np.ndarray:
        return self.clone().__array__(*args, **kwargs)

    def tolist(self) -> Any:
        """Returns nested lists of Python numbers, or one number if there are no dimensions."""
        return self._copied().detach().tolist()

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        return self.clone().__dlpack__(*args, **kwargs)

    def __dlpack_device__(self) -> Any:
        return self._real.__dlpack_device__()

    def untyped_storage(self) -> torch.UntypedStorage:
        """Returns a copy's storage; torch's compiler gets the storage that tells views apart."""
        if is_seen_by_compiler(self._real):
            return super().untyped_storage()
        return self._copied().untyped_storage()

    def storage(self) -> Any:
        """Returns the storage of a copy."""
        return self._copied().storage()

    def data_ptr(self) -> int:
        """Refuses to return an address, as there is none.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            "data_ptr of a view of the parts of a ComplexTensor is not allowed, as these are two "
            "tensors with memory of their own; write x.clone().data_ptr()"
        )

    def resolve_neg(self) -> torch.Tensor:
        """Returns a copy of the negative of a part, as torch of what it negates lazily."""
        return self.clone() if _are_negative(self._views) else self

    def apply_(self, function: Function) -> torch.Tensor:
        """Replaces each number by a Python function of it."""
        return self.copy_(self._copied().apply_(function))

    share_memory_: Any = ComplexTensor.share_memory_
    is_shared: Any = ComplexTensor.is_shared
    is_pinned: Any = ComplexTensor.is_pinned

    def __reduce_ex__(self, protocol: object) -> Any:
        return self._like_this(self._copied()).__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        if not self.is_leaf:
            return super().__deepcopy__(memo)  # which says what is allowed
        memo[id(self)] = self._like_this(self._copied())
        return memo[id(self)]

    def _like_this(self, copied: torch.Tensor) -> torch.Tensor:
        if isinstance(self, torch.nn.Parameter):
            return torch.nn.Parameter(copied, self.requires_grad)
        return copied.requires_grad_(self.requires_grad)

    def _gives_parts(self) -> bool:
        # Only the part itself, or where torch needs no strides of the whole.
        if self.of_function or is_in_graph(self._real) or TAKING_PARTS.get():
            return True
        return private.is_legacy_batchedtensor(self._real)  # for writes into batches

    def _whole(self) -> torch.Tensor:
        if not any(view.func == aten.as_strided.default for view in self._views):
            return torch.stack([self._real, self._imag], -1)
        whole = torch.empty_strided(
            (*self._real.shape, 2),
            _layout(self._real).stride(),
            dtype=self.dtype,
            device=self.device,
        )
        whole[..., 0], whole[..., 1] = self._real, self._imag
        return whole

    def _copied(self) -> torch.Tensor:
        return _seen(self._whole(), self._views)

    def _write(self, whole: torch.Tensor) -> None:
        self._real.copy_(whole[..., 0])
        self._imag.copy_(whole[..., 1])

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["_real", "_imag"], self._views

    @staticmethod
    def __tensor_unflatten__(
        parts: dict[str, torch.Tensor],
        context: tuple[View, ...],
        size: Sequence[int],
        stride: Sequence[int],
    ) -> RealPairs:
        made = RealPairs(parts["_real"], parts["_imag"], *context)
        made._is_argument = is_in_graph(made._real)
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: private.OpOverload,
        types: object,
        args: Arguments = (),
        kwargs: NamedArguments | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if private.len_torch_dispatch_stack():
            recorded = recorded_whole(func, args, kwargs)
            if recorded is not NotImplemented:
                return recorded
        if (mode := inference_of_view(func, args)) is not None:
            with torch.inference_mode(mode):
                return cls.__torch_dispatch__(func, types, args, kwargs)
        if (keys := keys_of_batches()) is not None:
            with private.ForceDispatchKeyGuard(*keys):
                return _dispatched(func, args, kwargs)
        return with_storage(func, args, _dispatched(func, args, kwargs))


def _dispatched(func: private.OpOverload, args: Arguments, kwargs: NamedArguments) -> Any:
    """Returns the result of `RealPairs.__torch_dispatch__`."""
    pairs: Any = args[0]
    is_forward = is_vectorized() and private.is_forward_mode()
    if is_forward and isinstance(pairs, RealPairs) and written_by(func):
        raise not_vectorized(f"{func} of parts in forward mode")
    if torch.Tag.inplace_view in func.tags:
        raise RuntimeError(
            f"{func} of a view of the parts of a ComplexTensor is not allowed, as they have no "
            f"storage in common; make a new tensor, for example with .clone()"
        )
    if func in (aten.detach.default, aten.alias.default):
        return RealPairs(pairs._real, pairs._imag, *pairs._views)
    if func == aten.view_as_complex.default and not pairs._views:
        return joined(pairs._real, pairs._imag)
    is_pair = func == aten.select.int and args[1] in (-1, pairs.ndim - 1)
    is_pair = is_pair and args[2] in (-2, -1, 0, 1)  # torch has an error for others
    if is_pair and not pairs._views and pairs._gives_parts():
        part = pairs._imag if args[2] in (1, -1) else pairs._real
        if private.is_legacy_batchedtensor(part):  # torch cannot alias such tensors
            return aten.view.default(part, part.shape)
        return aten.alias.default(part)  # for which no DTensor exchanges numbers
    if is_view(func) and isinstance(pairs, RealPairs):
        return _viewed(func, pairs, args[1:], kwargs)
    if func.overloadpacket.__name__.startswith("_foreach_"):
        return each_of_lists(func, *args, **kwargs)
    if func.namespace == "c10d":
        return on_each_part(func, RealPairs, args, kwargs)
    return _by_copies(func, args, kwargs)


def _is_example_of_gradient() -> bool:
    """Whether torch's compiler asks, two calls above, what a result's gradient will look like.

    It would expect pairs because the result is one, but autograd's formulas make plain tensors.
    """
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame.f_back if frame is not None else None
    name = "coerce_tangent_and_suggest_memory_format"
    return frame is not None and frame.f_code.co_name == name


class View(NamedTuple):
    """An operator that makes a view; of several views, the one at an index."""

    func: Any
    args: Arguments
    kwargs: tuple[tuple[str, Any], ...]
    position: int | None = None


def _unsigned_view(x: torch.Tensor, views: tuple[View, ...]) -> torch.Tensor:
    """Returns what the views, one after the other, show of a tensor, without their signs."""
    for view in views:
        if view.func != aten._neg_view.default:
            viewed = view.func(x, *view.args, **dict(view.kwargs))
            x = viewed if view.position is None else viewed[view.position]
    return x


def _are_negative(views: tuple[View, ...]) -> bool:
    return sum(view.func == aten._neg_view.default for view in views) % 2 == 1


def _seen(x: torch.Tensor, views: tuple[View, ...]) -> torch.Tensor:
    viewed = _unsigned_view(x, views)
    return -viewed if _are_negative(views) else viewed  # lazy signs are not seen below autograd


def _layout(real: torch.Tensor) -> torch.Tensor:
    """Returns a tensor without numbers in the layout of a native complex tensor's view."""
    return torch.empty_strided((*real.shape, 2), _strides(real), device="meta")


def _strides(real: torch.Tensor) -> tuple[int, ...]:
    return (*(2 * step for step in real.stride()), 1)


def _offset(real: torch.Tensor) -> Any:
    return 2 * real.storage_offset()


def _counted_from_here(
    pairs: RealPairs, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> tuple[Any, ...]:
    """Returns arguments of as_strided for numbers whose storage begins with the first part's."""
    offset = pairs.storage_offset() if storage_offset is None else storage_offset
    return size, stride, offset - _offset(pairs._real)


def _viewed(func: Function, pairs: RealPairs, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns pairs seen through one more view, or a list of such pairs."""
    options = tuple(kwargs.items())
    if func == aten.as_strided.default:
        args = _counted_from_here(pairs, *args, **kwargs)
        options = ()
    if func == aten.view_as_complex.default:
        raise NotImplementedError(
            "argument 'input' is a view of the parts of a ComplexTensor, allowed is what "
            "torch.view_as_real made itself; write torch.view_as_complex(x.clone())"
        )
    view_before = _unsigned_view(_layout(pairs._real), pairs._views)
    result = func(view_before, *args, **dict(options))

    def seen(position: int | None) -> RealPairs:
        view = View(func, args, options, position)
        return RealPairs(pairs._real, pairs._imag, *pairs._views, view)

    if isinstance(result, torch.Tensor):
        return seen(None)
    return type(result)(map(seen, range(len(result))))


def _by_copies(func: private.OpOverload, args: Arguments, kwargs: NamedArguments) -> Any:
    """Calls the operator on copies, and writes its changes in place into the parts."""
    named = dict(zip((a.name for a in func._schema.arguments), args, strict=False)) | kwargs
    written = private.tree_leaves([named[name] for name in written_by(func) if name in named])
    wholes: dict[int, torch.Tensor] = {}
    copies: dict[int, torch.Tensor] = {}

    def copied(x: RealPairs) -> torch.Tensor:
        if id(x) not in copies:
            wholes[id(x)] = x._whole()
            copies[id(x)] = _seen(wholes[id(x)], x._views)
        return copies[id(x)]

    args, kwargs = private.tree_map_only(RealPairs, copied, (args, kwargs))
    result = func(*args, **kwargs)
    for pairs in written:
        if isinstance(pairs, RealPairs):
            whole, written_copy = wholes[id(pairs)], copies[id(pairs)]
            if _are_negative(pairs._views):
                _unsigned_view(whole, pairs._views).copy_(-written_copy)
            pairs._write(whole)
            result = pairs if result is written_copy else result
    return result


# torch calls this function wherever it makes views again.
private.keep_from_compiler(RealPairs.__torch_dispatch__)


@implements(aten.view_as_real.default)
def view_as_real(self: ComplexTensor) -> torch.Tensor:
    is_batched = private.is_legacy_batchedtensor(self._real)
    is_tangent = is_batched and private.is_forward_mode()
    if is_tangent and not TAKING_PARTS.get():  # which nothing writes, unlike some gradients
        if self.storage_offset() or not self.is_contiguous():  # torch compares its strides
            raise not_vectorized("parts of views of these ComplexTensors")
        return torch.stack([self._real, self._imag], -1)
    return RealPairs(self._real, self._imag)
