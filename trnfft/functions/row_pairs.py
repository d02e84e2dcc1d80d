"""Real transforms by complex transforms: two real rows in one transform.

The transform Z of a + i b, with a and b real, holds the spectra A and B of both. Their symmetries
separate them:

    A[k] = (Z[k] + conj Z[N-k]) / 2,   B[k] = (Z[k] - conj Z[N-k]) / 2i

(Press et al., "Numerical Recipes", section "FFT of Real Functions".) In the other direction, Z = A
+ i B. This halves the work where a backend computes a real transform as a complex transform, as
"matmul" does.
"""

import torch

from trnfft.complex.kinds import made_of
from trnfft.functions.fft import fft, ifft


def separate_pair(z: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the spectra A and B of a and b, given the transform `z` of a + i b along `dim`."""
    m = mirrored(z, dim)
    a = made_of((z.real + m.real) / 2, (z.imag - m.imag) / 2, z)
    return a, made_of((z.imag + m.imag) / 2, (m.real - z.real) / 2, z)


def mirrored(z: torch.Tensor, dim: int) -> torch.Tensor:
    """Returns Z[-k] along `dim`: the first number, then all others in reverse order."""
    first, rest = z.narrow(dim, 0, 1), z.narrow(dim, 1, z.shape[dim] - 1)
    return torch.cat([first, rest.flip(dim)], dim)


def rfft_of_pairs(rows: torch.Tensor, n: int) -> torch.Tensor:
    """Returns `rfft(rows, n)`, computed by one complex transform for every two rows.

    It halves the work on backends that compute `rfft` as a complex transform.

    Args:
        rows: real tensor of shape [..., R, P], which zeros extend to [..., R, n].
        n: length of the transform.

    Returns:
        ComplexTensor of shape [..., R, n // 2 + 1].
    """
    count = rows.shape[-2]
    rows = torch.nn.functional.pad(rows, (0, 0, 0, count % 2))
    z = fft(made_of(rows[..., 0::2, :], rows[..., 1::2, :], rows), n)
    a, b = (spectrum[..., : n // 2 + 1] for spectrum in separate_pair(z, -1))
    return torch.stack([a, b], -2).flatten(-3, -2)[..., :count, :]


def irfft_of_pairs(spectra: torch.Tensor, n: int) -> torch.Tensor:
    """Returns `irfft(spectra, n)`, computed by one complex transform for every two rows; n is even.

    Args:
        spectra: complex tensor of shape [..., R, n/2 + 1], whose first and last column are real.
        n: length of the result.

    Returns:
        Real tensor of shape [..., R, n].
    """
    count = spectra.shape[-2]
    odd = (0, 0, 0, count % 2)
    real, imag = (torch.nn.functional.pad(part, odd) for part in (spectra.real, spectra.imag))
    a_real, a_imag = real[..., 0::2, :], imag[..., 0::2, :]
    b_real, b_imag = real[..., 1::2, :], imag[..., 1::2, :]
    # A + i B, and from N/2 + 1 on conj A[N-k] + i conj B[N-k].
    upper_real = (a_real + b_imag)[..., 1:-1].flip(-1)
    upper_imag = (b_real - a_imag)[..., 1:-1].flip(-1)
    z_real = torch.cat([a_real - b_imag, upper_real], -1)
    z_imag = torch.cat([a_imag + b_real, upper_imag], -1)
    z = ifft(made_of(z_real, z_imag, spectra))
    return torch.stack([z.real, z.imag], -2).flatten(-3, -2)[..., :count, :]
