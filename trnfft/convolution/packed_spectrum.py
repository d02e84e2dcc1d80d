"""Packed spectra: those of N real numbers, N even, in N/2 complex numbers.

`rfft` makes N/2 + 1 numbers, of which X[0] and X[N/2] are real. The packed spectrum P has both in
one, so that it is as large as the data:

    P[0] = X[0] + i X[N/2],   P[k] = X[k] for 0 < k < N/2

A transform along another dimension has N/2 columns then instead of N/2 + 1, which for powers of two
leaves no tile of a NeuronCore nearly empty. Column 0 becomes the transform of a pair of real
columns; `trnfft.convolution.row_pairs.separate_pair` separates them.
"""

import torch

from trnfft.arguments import Input, check_length, check_tensor, integer, of_given_kind
from trnfft.complex.kinds import made_of
from trnfft.ops.sharded import is_sharded, of_shards


def pack_spectrum(input: Input, n: int | None = None) -> torch.Tensor:
    """The packed form of a spectrum from `rfft`: the last number moves into the first.

    Args:
        input: native complex or ComplexTensor [..., n/2 + 1]: the spectrum of n real numbers.
            The imaginary parts of the first and the last number, which are zero in such, are
            ignored.
        n: the number of real numbers, even. Default: 2 * (size - 1).

    Returns:
        A complex tensor [..., n/2]: [..., 0] has the real part of the first number of `input` and,
        as imaginary part, that of its last; all others are as in `input`.

    Raises:
        TypeError: an argument is of the wrong type.
        RuntimeError: `input` has no dimension or not n/2 + 1 numbers, or n is odd or less than 2.
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
    return torch.cat([first, x[..., 1:-1]], -1)  # type: ignore[list-item, return-value]


def unpack_spectrum(input: Input) -> torch.Tensor:
    """Inverse of `pack_spectrum`: a spectrum as `rfft` returns it and `irfft` takes it.

    Args:
        input: native complex or ComplexTensor [..., n/2], with n/2 at least 1.

    Returns:
        A complex tensor [..., n/2 + 1], whose first and last number have zero imaginary parts.

    Raises:
        TypeError: `input` is no complex tensor.
        RuntimeError: `input` has no dimension, or no number in the last one.
    """
    if is_sharded(input):
        return of_shards(unpack_spectrum, input, (-1,))
    x = _complex(input)
    check_length("n", None, x.shape[-1], x.shape[-1])
    zero = torch.zeros_like(x.real[..., :1])
    real = torch.cat([x.real, x.imag[..., :1]], -1)
    return made_of(real, torch.cat([zero, x.imag[..., 1:], zero], -1), x)


def _complex(input: Input) -> torch.Tensor:
    """Argument 'input' as a ComplexTensor of at least one dimension."""
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
