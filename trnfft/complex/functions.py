"""The table of what functions of torch do on ComplexTensors: what they do on native complex ones.

Importing this file makes torch call these implementations (`ComplexTensor.__torch_function__`)
and gives ComplexTensor the methods that torch.Tensor has for them. The other files of this folder
have the implementations, by kind. Each is a few torch operations on the parts: differentiable, and
without native complex dtypes, so that it runs on every device.

Arguments are named as in torch; for `dtype`, a complex dtype and that of its parts are the same.
What the arguments may be is decided, and errors are raised, by torch's function on the parts.
"""

import math
import operator
from collections.abc import Callable, Iterable, Iterator

import torch

from trnfft import transforms
from trnfft.complex import (
    arithmetic,
    creation,
    elementary,
    frequencies,
    lifting,
    products,
    reductions,
    selection,
    shape,
)
from trnfft.complex.lifting import Function
from trnfft.complex.tensor import FUNCTIONS, ComplexTensor

# Functions that do the same to the real and to the imaginary part, and to nothing else.
_ON_EACH_PART = """
    atleast_1d atleast_2d atleast_3d bfloat16 broadcast_to cat chunk clone column_stack concat
    concatenate contiguous cpu cuda cumsum detach diag diag_embed diagonal diff double dsplit
    dstack expand flatten flip fliplr flipud float gather half hsplit hstack index_add index_copy
    index_select masked_scatter masked_select mean moveaxis movedim narrow neg negative new_empty
    new_zeros permute positive ravel repeat repeat_interleave reshape roll rot90 scatter_add
    select split split_with_sizes squeeze stack sum swapaxes swapdims t take take_along_dim
    tensor_split tile trace transpose tril triu unbind unflatten unfold unsqueeze vsplit vstack
"""

# Functions that make a tensor of the shape and dtype of another; a real dtype makes a real tensor.
_LIKE = "empty_like rand_like zeros_like"

# Functions linear in each of their first two arguments.
_BILINEAR = "bmm dot inner kron linalg.matmul matmul mm mv outer tensordot"

# Functions that ask of every number whether it is zero.
_OF_NONZERO = "all any argwhere count_nonzero logical_not nonzero"

# Functions with a form that writes into the first argument, named with an underscore at the end.
_WITH_IN_PLACE_FORM = """
    add conj_physical cos cosh div divide exp index_add index_copy log masked_fill masked_scatter
    mul multiply neg negative pow reciprocal scatter_add sgn sin sinh sqrt square sub subtract
    tanh true_divide
"""

_TRANSFORMS = """
    fft fft2 fftn ifft ifft2 ifftn rfft rfft2 rfftn irfft irfft2 irfftn hfft hfft2 hfftn ihfft
    ihfft2 ihfftn
"""

_OTHERS: dict[str, Function] = {
    "abs": ComplexTensor.abs,
    "absolute": ComplexTensor.abs,
    "add": arithmetic.with_alpha(arithmetic.add),
    "adjoint": lambda input: input.mH,
    "allclose": arithmetic.allclose,
    "angle": ComplexTensor.angle,
    "broadcast_tensors": shape.broadcast_tensors,
    "conj": ComplexTensor.conj,
    "conj_physical": ComplexTensor.conj,
    "cos": elementary.cos,
    "cosh": elementary.cosh,
    "div": arithmetic.div,
    "divide": arithmetic.div,
    "einsum": products.einsum,
    "eq": arithmetic.eq,
    "equal": arithmetic.equal,
    "exp": elementary.exp,
    "full_like": creation.full_like,
    "imag": lambda input: input.imag,
    "is_complex": ComplexTensor.is_complex,
    "is_conj": lambda input: False,
    "is_floating_point": ComplexTensor.is_floating_point,
    "isclose": arithmetic.isclose,
    "isfinite": lambda input: input.real.isfinite() & input.imag.isfinite(),
    "isinf": lambda input: input.real.isinf() | input.imag.isinf(),
    "isnan": lambda input: input.real.isnan() | input.imag.isnan(),
    "isreal": lambda input: input.imag == 0,
    "linalg.norm": reductions.linalg_norm,
    "linalg.vector_norm": reductions.vector_norm,
    "log": elementary.log,
    "log10": lambda input: elementary.log(input) / math.log(10),
    "log2": lambda input: elementary.log(input) / math.log(2),
    "masked_fill": selection.masked_fill,
    "mul": arithmetic.mul,
    "multiply": arithmetic.mul,
    "ne": arithmetic.ne,
    "nn.functional.conv1d": products.convolution(torch.nn.functional.conv1d),
    "nn.functional.conv2d": products.convolution(torch.nn.functional.conv2d),
    "nn.functional.conv3d": products.convolution(torch.nn.functional.conv3d),
    "nn.functional.linear": products.linear,
    "nn.functional.pad": shape.pad,
    "norm": reductions.norm,
    "not_equal": arithmetic.ne,
    "numel": ComplexTensor.numel,
    "ones_like": lambda input, **kwargs: creation.full_like(input, 1, **kwargs),
    "pow": arithmetic.pow,
    "prod": reductions.prod,
    "randn_like": creation.randn_like,
    "real": lambda input: input.real,
    "reciprocal": lambda input: 1 / input,
    "resolve_conj": lambda input: input,
    "resolve_neg": lambda input: input,
    "rsqrt": lambda input: 1 / elementary.sqrt(input),
    "rsub": lambda input, other, alpha=1: arithmetic.with_alpha(arithmetic.sub)(
        other, input, alpha=alpha
    ),
    "sgn": elementary.sgn,
    "sin": elementary.sin,
    "sinh": elementary.sinh,
    "sqrt": elementary.sqrt,
    "square": lambda input: input * input,
    "std": reductions.std,
    "sub": arithmetic.with_alpha(arithmetic.sub),
    "subtract": arithmetic.with_alpha(arithmetic.sub),
    "tan": lambda input: -1j * elementary.tanh(1j * input),
    "tanh": elementary.tanh,
    "true_divide": arithmetic.div,
    "var": reductions.var,
    "vdot": products.vdot,
    "view": shape.view,
    "view_as_real": lambda input: torch.stack([input.real, input.imag], dim=-1),
    "where": selection.where,
}


def _named(names: Iterable[str]) -> Iterator[tuple[str, Function]]:
    """The function of torch and the method of torch.Tensor of each name, where they exist."""
    for name in names:
        for owner in (torch, torch.Tensor):
            try:
                function = operator.attrgetter(name)(owner)
            except AttributeError:
                continue
            if callable(function):
                yield name, function


_GROUPS: tuple[tuple[str, Callable[[Function], Function]], ...] = (
    (_ON_EACH_PART, lifting.on_each_part),
    (_LIKE, creation.like_each_part),
    (_BILINEAR, products.bilinear),
    (_OF_NONZERO, lifting.of_nonzero),
)
for _names, _implementation_of in _GROUPS:
    FUNCTIONS.update(
        (function, _implementation_of(function)) for _, function in _named(_names.split())
    )
FUNCTIONS.update((function, _OTHERS[name]) for name, function in _named(_OTHERS))
FUNCTIONS[torch.Tensor.where] = lambda self, condition, other: selection.where(
    condition, self, other
)
FUNCTIONS.update(
    (getattr(torch.fft, name), getattr(transforms, name)) for name in _TRANSFORMS.split()
)
FUNCTIONS[torch.fft.fftshift] = frequencies.fftshift
FUNCTIONS[torch.fft.ifftshift] = frequencies.ifftshift

# The methods of ComplexTensor, where the class itself does not define them.
_METHODS: dict[str, Function] = {
    "fill_": ComplexTensor.copy_,
    "zero_": lambda self: self.copy_(0),
}
for _name in {function.__name__ for function in FUNCTIONS}:
    _method = getattr(torch.Tensor, _name, None)
    if _method in FUNCTIONS:
        _METHODS[_name] = FUNCTIONS[_method]
for _name in _WITH_IN_PLACE_FORM.split():
    _METHODS[f"{_name}_"] = lifting.in_place(_METHODS[_name])
for _name, _method in _METHODS.items():
    _method.__doc__ = _method.__doc__ or f"As torch.Tensor.{_name}."
    if _name not in vars(ComplexTensor):
        setattr(ComplexTensor, _name, _method)
