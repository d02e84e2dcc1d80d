"""Packed spectra: the spectrum of N real numbers, N even, in N/2 complex numbers.

`rfft` returns N/2 + 1 numbers, of which X[0] and X[N/2] are real. The packed spectrum P stores both
in one complex number, so that it is as large as the data:

    P[0] = X[0] + i X[N/2],   P[k] = X[k] for 0 < k < N/2

A transform along another dimension then has N/2 columns instead of N/2 + 1. For powers of two, N/2
columns leave no tile of a NeuronCore nearly empty. Column 0 becomes the transform of a pair of real
columns, which `trnfft.functions.row_pairs.separate_pair` separates.
"""

import torch

from trnfft.complex.kinds import made_of
from trnfft.complex.parts import is_sharded
from trnfft.functions.arguments import Input, check_length, check_tensor, integer, of_given_kind
from trnfft.ops.many_devices import of_shards


def pack_spectrum(input: Input, n: int | None = None) -> torch.Tensor:
    """Returns the packed form of a spectrum from `rfft`: the last number moves into the first.

    Args:
        input: a native complex tensor or a ComplexTensor of shape [..., n/2 + 1]: the spectrum of n
            real numbers. The imaginary parts of the first and the last number, which are zero in
            such a spectrum, are ignored.
        n: the number of real numbers, which is even. Default: 2 * (size - 1).

    Returns:
        A complex tensor of shape [..., n/2]. Its first number has the real part of the first number
        of `input` and, as imaginary part, the real part of the last number. The others are as in
        `input`.

    Raises:
        TypeError: an argument has the wrong type.
        RuntimeError: `input` has no dimension or not n/2 + 1 numbers, or n is odd or less than 2.

    Examples:
        >>> import torch, trnfft
        >>> X = trnfft.rfft(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        >>> X
        tensor([10.+0.j, -2.+2.j, -2.+0.j])
        >>> trnfft.pack_spectrum(X)
        tensor([10.-2.j, -2.+2.j])
    """
    if is_sharded(input):
        return of_shards(pack_spectrum, input, (-1,), n)
    x = _complex(input)
    n = 2 * (x.shape[-1] - 1) if n is None else integer("n", n)
    if n % 2 or n < 2:
        raise RuntimeError(
            f"argument 'n' is {n}, allowed are even numbers from 2 on, because the spectrum of an "
            f"odd number of points has no real last number to move; use the spectrum as it is"
        )
    if x.shape[-1] != n // 2 + 1:
        raise RuntimeError(
            f"argument 'input' has {x.shape[-1]} numbers in its last dimension, allowed is "
            f"{n // 2 + 1} for n={n}; make them with rfft"
        )
    first = made_of(x.real[..., :1], x.real[..., -1:], x)
    return torch.cat([first, x[..., 1:-1]], -1)


def unpack_spectrum(input: Input) -> torch.Tensor:
    """Returns the spectrum, as `rfft` returns it, whose packed form is given.

    It is the inverse of `pack_spectrum`.

    Args:
        input: a native complex tensor or a ComplexTensor of shape [..., n/2], with n/2 at least 1.

    Returns:
        A complex tensor of shape [..., n/2 + 1]. The imaginary parts of its first and its last
        number are zero.

    Raises:
        TypeError: `input` is not a complex tensor.
        RuntimeError: `input` has no dimension, or no number in the last one.

    Examples:
        >>> import torch, trnfft
        >>> P = trnfft.pack_spectrum(trnfft.rfft(torch.tensor([1.0, 2.0, 3.0, 4.0])))
        >>> trnfft.unpack_spectrum(P)
        tensor([10.+0.j, -2.+2.j, -2.+0.j])
    """
    if is_sharded(input):
        return of_shards(unpack_spectrum, input, (-1,))
    x = _complex(input)
    check_length("n", None, x.shape[-1], x.shape[-1])
    zero = torch.zeros_like(x.real[..., :1])
    real = torch.cat([x.real, x.imag[..., :1]], -1)
    return made_of(real, torch.cat([zero, x.imag[..., 1:], zero], -1), x)


def _complex(input: Input) -> torch.Tensor:
    """Returns argument 'input', checked, as a complex tensor of the kind that it gives."""
    if isinstance(input, torch.Tensor):
        check_tensor("input", input)
    x = of_given_kind(input)
    if not isinstance(x, torch.Tensor) or not x.is_complex():
        kind = x.dtype if isinstance(x, torch.Tensor) else type(x).__name__
        raise TypeError(
            f"argument 'input' is of type {kind}, allowed are complex tensors; make it with rfft"
        )
    if x.ndim == 0:
        raise RuntimeError(
            "argument 'input' has no dimensions, allowed are spectra with at least one; "
            "make it with rfft"
        )
    return x
