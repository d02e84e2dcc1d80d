"""The functions of torch that ComplexTensors need above autograd, because operators are not enough.

Three groups of functions need an implementation above autograd. The parts of a ComplexTensor are
views of it, and a real dtype in `z.to(dtype)` means the dtype of the parts. The functions of
torch.fft, torch.stft and torch.istft are those of this library, with their own derivatives, which
their files in trnfft/functions enter into the table. torch's formulas for some derivatives would
make native complex tensors.

`docs/complex_operators.md` lists all operators.
"""

import functools
import itertools
import numbers
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from trnfft.base import backward_pass
from trnfft.base import torch_private as private
from trnfft.base.autograd_types import Gradients
from trnfft.complex import arithmetic as arithmetic  # these modules fill the tables
from trnfft.complex import called as called
from trnfft.complex import composites as composites
from trnfft.complex import creation as creation
from trnfft.complex import device_derivatives as device_derivatives
from trnfft.complex import linear_algebra as linear_algebra
from trnfft.complex import memory_doors as memory_doors
from trnfft.complex import pairs as pairs
from trnfft.complex import products as products
from trnfft.complex import reductions as reductions
from trnfft.complex import selection as selection
from trnfft.complex.composites import as_torch, opened
from trnfft.complex.given_parts import dtype_of_parts
from trnfft.complex.graphs import is_asked_by_converter, is_in_graph
from trnfft.complex.parts import (
    as_pairs,
    is_conjugate,
    is_followed,
    is_sharded,
    is_transformed,
    join,
    of_parts,
    parts_of,
    parts_to_transform,
    real_tensors_of,
    view_of_part,
    with_conjugation,
)
from trnfft.complex.parts import split as split_native
from trnfft.complex.refusals import refusing
from trnfft.complex.table import FUNCTIONS, Function, NamedArguments
from trnfft.complex.tensor import ComplexTensor

Tensors = torch.Tensor | Sequence[torch.Tensor]

# torch's annotations declare these descriptors as tensors.
_GRAD, _H, _DATA = (getattr(torch.Tensor, name) for name in ("grad", "H", "data"))


def real(input: ComplexTensor) -> torch.Tensor:
    return _part(input, 0)


def imag(input: ComplexTensor) -> torch.Tensor:
    return _part(input, 1)


def _part(input: ComplexTensor, which: int) -> torch.Tensor:
    if is_transformed() and is_conjugate(input):
        name = ("real", "imag")[which]
        raise RuntimeError(
            f"argument 'input' is conjugated lazily, allowed are tensors with numbers of their own "
            f"in forward mode and in functions of torch.func; write z.resolve_conj().{name}"
        )
    if torch.compiler.is_compiling() or is_transformed() or torch.jit.is_tracing():
        return parts_of(input)[which]
    if which and is_conjugate(input) and not (is_sharded(input) or input.device.type == "xla"):
        return _negated(input.conj())
    return view_of_part(input, which)


def _negated(input: ComplexTensor) -> torch.Tensor:
    # A tensor that torch negates lazily and that is contiguous would lose the sign in a file.
    return private.neg_view(
        as_pairs(input)[..., 1:].squeeze(-1)
    )  # torch would replay [..., 1] as a part


def view_as_real(input: ComplexTensor) -> torch.Tensor:
    if is_in_graph(input._real) and is_asked_by_converter():
        return input  # the converter takes the steps of the view of a part one by one
    if is_conjugate(input):
        return as_torch(torch.view_as_real, input)  # torch's error says what to do
    if torch.compiler.is_compiling():
        from trnfft.complex import in_graph

        return in_graph.as_pairs(input)
    return as_torch(torch.view_as_real, input) if is_transformed() else as_pairs(input)


def _backward(
    self: torch.Tensor, gradient: torch.Tensor | None = None, *args: object, **kwargs: object
) -> None:
    gradient = _complex_tensor(gradient) if isinstance(self, ComplexTensor) else gradient
    with backward_pass.under(private.EnableTorchFunction):
        as_torch(torch.Tensor.backward, self, gradient, *args, **kwargs)


def _backward_of(*args: object, **kwargs: object) -> None:
    with backward_pass.under(private.EnableTorchFunction):
        as_torch(torch.autograd.backward, *args, **kwargs)


def _gradients(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensors | None,
    is_grads_batched: bool = False,
    **named: Any,
) -> Any:
    if is_grads_batched:  # torch's function would leave parts of the results batched
        of_row = functools.partial(_gradients, outputs, inputs, **named)
        return private.vmap_of_autograd(of_row, allow_none_pass_through=True)(grad_outputs)
    outputs = (outputs,) if isinstance(outputs, torch.Tensor) else outputs
    given: Sequence[torch.Tensor | None] | None
    given = (grad_outputs,) if isinstance(grad_outputs, torch.Tensor) else grad_outputs
    if given is not None and len(given) == len(outputs):  # else torch has an error for it
        given = _of_class_of(outputs, given)
    with backward_pass.under(private.EnableTorchFunction):
        gradients = as_torch(torch.autograd.grad, outputs, inputs, given, **named)
    return _of_class_of((inputs,) if isinstance(inputs, torch.Tensor) else inputs, gradients)


def _of_class_of(
    tensors: Iterable[torch.Tensor], gradients: Iterable[torch.Tensor | None]
) -> Gradients:
    pairs = zip(tensors, gradients, strict=True)
    return tuple(_complex_tensor(g) if isinstance(x, ComplexTensor) else g for x, g in pairs)


def _gradient(self: ComplexTensor) -> torch.Tensor | None:
    """Returns the attribute `grad`, which torch's formulas may have left as a native tensor."""
    held = as_torch(_GRAD.__get__, self)
    gradient = _complex_tensor(held)
    if gradient is not held:
        as_torch(_GRAD.__set__, self, gradient)
    return gradient


def _complex_tensor(gradient: torch.Tensor | None) -> torch.Tensor | None:
    if isinstance(gradient, ComplexTensor) or not isinstance(gradient, torch.Tensor):
        return gradient
    return split_native(gradient) if gradient.is_complex() else gradient


def _set_real(self: ComplexTensor, value: torch.Tensor) -> None:
    self.copy_(join(value.expand_as(self).clone(), imag(self)))


def _set_imag(self: ComplexTensor, value: torch.Tensor) -> None:
    self.copy_(join(real(self), value.expand_as(self).clone()))


def _set_data(self: ComplexTensor, value: ComplexTensor) -> None:
    fits = isinstance(value, ComplexTensor) and value.shape == self.shape
    if not fits or value.real.dtype != self.real.dtype or value.device != self.device:
        raise RuntimeError(
            f"argument 'data' is {getattr(value, 'dtype', type(value).__name__)} of shape "
            f"{tuple(getattr(value, 'shape', ()))}, allowed is a ComplexTensor with the shape "
            f"{tuple(self.shape)}, dtype and device of this one; see torch.utils.swap_tensors"
        )
    value = value.detach()
    self._real, self._imag = value._real, value._imag
    with_conjugation(self, is_conjugate(value))


def hermitian(self: ComplexTensor) -> ComplexTensor:
    if self.ndim == 2:
        return self.mH
    return as_torch(_H.__get__, self)


def angle(input: ComplexTensor) -> torch.Tensor:
    a, b = parts_of(input)
    return torch.atan2(b, a)


def to(self: ComplexTensor, *args: Any, **kwargs: Any) -> ComplexTensor:
    """Returns the tensor on another device or in another dtype, as torch.Tensor.to.

    A complex dtype stands for the dtype of its parts: `x.to(torch.complex64)` and
    `x.to(torch.float32)` are the same.
    """
    if args and isinstance(args[0], ComplexTensor):
        args = (args[0].device, args[0].real.dtype, *args[1:])
    args = tuple(map(dtype_of_parts, args))
    kwargs = {name: dtype_of_parts(value) for name, value in kwargs.items()}
    a, b = parts_of(self)
    real, imag = a.to(*args, **kwargs), b.to(*args, **kwargs)
    return self if real is a and imag is b else ComplexTensor(real, imag)


def _between_numbers(function: Function) -> Any:
    """Returns a function whose tensors without dimensions stand for numbers, as linspace."""

    def number(x: object) -> Any:
        return x.item() if isinstance(x, ComplexTensor) else x

    def implementation(start: object, end: object, *args: object, **kwargs: object) -> torch.Tensor:
        return function(number(start), number(end), *args, **kwargs)

    return implementation


def _as_dtype(dtype: torch.dtype) -> Any:
    return lambda self, **kwargs: to(self, dtype, **kwargs)


def _of_mixed(function: Function) -> Any:
    """Returns a function, linear in each tensor, that accepts real tensors beside complex ones.

    torch's products and their derivatives need tensors of one dtype.
    """

    def implementation(*args: object, **kwargs: object) -> Any:
        tensors = {i: x for i, x in enumerate(args) if isinstance(x, torch.Tensor)}
        if all(x.is_complex() for x in tensors.values()):
            return as_torch(function, *args, **kwargs)
        sums: list[Any] = [None, None]
        parts = (enumerate(real_tensors_of(x)) for x in tensors.values())
        for choice in itertools.product(*parts):
            # The factor of this term is i ** power: 1, i, -1, -i.
            power = sum(i for i, _ in choice)
            chosen = dict(zip(tensors, (part for _, part in choice), strict=True))
            term = function(*(chosen.get(i, x) for i, x in enumerate(args)), **kwargs)
            term = -term if power % 4 >= 2 else term
            total = sums[power % 2]
            sums[power % 2] = term if total is None else total + term
        return join(*sums)

    return implementation


def _linear(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    if input.is_complex() and weight.is_complex():
        return as_torch(torch.nn.functional.linear, input, weight, bias)
    product = torch.matmul(input, weight.mT if weight.ndim > 1 else weight)
    return product if bias is None else product + bias


def _einsum(equation: object, *operands: object) -> Any:
    operands = tuple(operands[0]) if isinstance(operands[0], (list, tuple)) else operands
    return _of_mixed(torch.einsum)(equation, *operands)


# Types whose parts can be used as they are, where nothing follows them.
_PLAIN = {ComplexTensor, torch.Tensor, torch.nn.Parameter, int, float, complex}


def _of_unfollowed(compute: Function, first: object, second: object) -> Any:
    """Returns the result, without dispatch, for operands that nothing follows; else None."""
    if type(first) in _PLAIN and type(second) in _PLAIN and not is_followed(first, second):
        if private.is_tracing():  # with gradients and without, a trace has to be the same
            return None
        try:
            return of_parts(*compute(first, second))
        except RuntimeError:
            pass  # torch's own error names the shapes, devices or memory
    return None


def _of_numbers(
    function: Function, compute: Function, is_reflected: bool, is_in_place: bool
) -> Any:
    """Returns a function of two operands, of which one may be a number or a real tensor.

    torch makes a native complex tensor of a complex number, and treats NumPy's complex numbers as
    real. Real tensors are multiplied with both parts above autograd, because torch's derivatives,
    and PyTorch-XLA, mix them with complex tensors in ways that do not work for ComplexTensors.
    """

    def implementation(input: Any, other: Any, **kwargs: object) -> Any:
        if not kwargs and not is_in_place:
            operands = (other, input) if is_reflected else (input, other)
            result = _of_unfollowed(compute, *operands)
            if result is not None:
                return result
        if isinstance(input, ComplexTensor) and isinstance(other, ComplexTensor):
            return as_torch(function, input, other, **kwargs)
        return mixed(input, other, kwargs)

    def mixed(input: Any, other: Any, kwargs: NamedArguments) -> Any:
        if isinstance(input, ComplexTensor):
            other = _as_tensor(other, input)
        else:
            input = _as_tensor(input, other)
        if (
            kwargs
            or not (_is_real(input) or _is_real(other))
            or not arithmetic.fit(input.shape, other.shape)
        ):
            return as_torch(function, input, other, **kwargs)
        operands = (other, input) if is_reflected else (input, other)
        result = join(*compute(*map(opened, operands)))
        return input.copy_(result) if is_in_place else result

    return implementation


def _is_finite(input: torch.Tensor) -> torch.Tensor:
    return selection.is_finite(*parts_of(input))


def _has_no_imag(input: torch.Tensor) -> torch.Tensor:
    return parts_of(input)[1] == 0


def _is_real(x: object) -> bool:
    return isinstance(x, torch.Tensor) and not isinstance(x, ComplexTensor) and not x.is_complex()


def _as_tensor(value: object, like: torch.Tensor) -> Any:
    """Returns a complex number as a ComplexTensor without dimensions; other values as they are."""
    if isinstance(value, (int, float, torch.Tensor)) or not isinstance(value, numbers.Complex):
        return value
    if isinstance(value, numbers.Real):
        return float(value)
    number = complex(value)
    like = real(like) if isinstance(like, ComplexTensor) else like
    return join(*(like.new_ones(()) * part for part in (number.real, number.imag)))


_WITH_NUMBERS = {
    arithmetic.total: "add __add__ __radd__ __iadd__ add_",
    arithmetic.difference: "sub subtract rsub __sub__ __rsub__ __isub__ sub_ subtract_",
    arithmetic.product: "mul multiply __mul__ __rmul__ __imul__ mul_ multiply_",
    arithmetic.quotient: "div divide true_divide __truediv__ __rtruediv__ __rdiv__ __itruediv__ "
    "div_ divide_ true_divide_",
}


def _operator(function: Function, compute: Function, is_reflected: bool) -> Any:
    """Returns a Python operator that avoids `__torch_function__` where it can."""

    def method(self: ComplexTensor, other: object) -> Any:
        if not private.len_torch_function_stack():  # modes must see functions
            first, second = (other, self) if is_reflected else (self, other)
            result = _of_unfollowed(compute, first, second)
            if result is not None:
                return result
        return function(self, other)

    return functools.wraps(function)(method)


for _compute, _names in _WITH_NUMBERS.items():
    for _name in _names.split():
        _is_reflected = _name.lstrip("_").startswith("r")
        _is_in_place = _name.startswith("__i") or _name[-1] == "_" != _name[0]
        for _owner in (torch, torch.Tensor):
            _function = getattr(_owner, _name, None)
            if _function is not None:
                FUNCTIONS[_function] = _of_numbers(_function, _compute, _is_reflected, _is_in_place)
        if _function is not None and _name.startswith("__") and not _is_in_place:
            setattr(ComplexTensor, _name, _operator(_function, _compute, _is_reflected))

_PRODUCTS = "matmul mm bmm mv dot inner tensordot linalg.matmul"
for _name in _PRODUCTS.split():
    for _owner in (torch, torch.Tensor):
        try:
            _function = operator.attrgetter(_name)(_owner)
        except AttributeError:
            continue
        FUNCTIONS[_function] = _of_mixed(_function)
FUNCTIONS[torch.Tensor.__matmul__] = _of_mixed(torch.matmul)
FUNCTIONS[torch.Tensor.__rmatmul__] = lambda self, other: torch.matmul(other, self)
FUNCTIONS[torch.einsum] = _einsum
FUNCTIONS[torch.nn.functional.linear] = _linear


def _unbatched(self: ComplexTensor, level: int, batch_size: int, out_dim: int) -> torch.Tensor:
    parts = parts_to_transform(self)
    return join(*(private.remove_batch_dim(part, level, batch_size, out_dim) for part in parts))


_ATTRIBUTES: dict[str, tuple[Any, Any]] = {"real": (real, _set_real), "imag": (imag, _set_imag)}
for _name, (_get, _set) in _ATTRIBUTES.items():
    _descriptor = getattr(torch.Tensor, _name)
    FUNCTIONS[_descriptor.__get__] = _get
    FUNCTIONS[_descriptor.__set__] = _set
FUNCTIONS[_DATA.__set__] = _set_data
FUNCTIONS |= {
    torch.real: real,
    torch.imag: imag,
    torch.view_as_real: view_as_real,
    private.remove_batch_dim: _unbatched,
    torch.Tensor.backward: _backward,
    _GRAD.__get__: _gradient,
    torch.autograd.backward: _backward_of,
    torch.autograd.grad: _gradients,
    _H.__get__: hermitian,
    torch.angle: angle,
    torch.Tensor.angle: angle,
    # torch's implementations of these two write into parts or view them, so DTensors would gather.
    torch.isfinite: _is_finite,
    torch.Tensor.isfinite: _is_finite,
    torch.isreal: _has_no_imag,
    torch.Tensor.isreal: _has_no_imag,
    torch.Tensor.to: to,
    torch.linspace: _between_numbers(torch.linspace),
    torch.logspace: _between_numbers(torch.logspace),
    torch.Tensor.half: _as_dtype(torch.float16),
    torch.Tensor.bfloat16: _as_dtype(torch.bfloat16),
    torch.Tensor.float: _as_dtype(torch.float32),
    torch.Tensor.double: _as_dtype(torch.float64),
}


# Autograd would look for views of the old tensor in the new one.
_IN_PLACE = "as_strided squeeze swapaxes swapdims t transpose unsqueeze"
for _name in _IN_PLACE.split():
    FUNCTIONS[getattr(torch.Tensor, f"{_name}_")] = refusing(
        NotImplementedError,
        f"{_name}_ of a ComplexTensor is not allowed, because torch could then not tell of which "
        f"tensor its views are; assign a new tensor, as in z = z.{_name}(...)",
    )


def _collated(batch: list[torch.Tensor], *, collate_fn_map: object = None) -> torch.Tensor:
    # A DataLoader's process hands over a batch in shared memory.
    z = torch.stack(batch)
    return z if torch.utils.data.get_worker_info() is None else z.share_memory_()


private.default_collate_fn_map[ComplexTensor] = _collated
