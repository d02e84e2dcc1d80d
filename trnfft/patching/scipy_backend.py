"""A backend of scipy.fft, for programs that call SciPy and not this library:

    with scipy.fft.set_backend(trnfft.scipy_backend):
        scipy.signal.fftconvolve(a, b)

The module itself is the backend. It implements uarray's protocol, `__ua_domain__` and
`__ua_function__`, which `scipy.fft.set_backend` expects. It computes all transforms of `scipy.fft`:
complex, real, Hermitian, cosine, sine and Hankel transforms. It accepts float16 and float32, which
it computes and returns in single precision, and float64, complex64, complex128 and integers, which
it computes in double precision. SciPy itself computes long double, also after
`scipy.fft.set_global_backend(trnfft.scipy_backend)`.

Arguments, defaults and types of errors are those of `scipy.fft`. `overwrite_x` and `workers` have
no effect, and `plan` is refused, as SciPy refuses it. `trnfft.backend` and `trnfft.precision`
choose how the transforms are computed. Two results differ from SciPy's: complex input of cosine and
sine transforms obeys `orthogonalize`, and a Hankel transform of float32 with a `bias` stays in
single precision.
"""

import inspect
import operator
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from trnfft.base import cache
from trnfft.complex.table import Arguments, NamedArguments
from trnfft.functions import cosine as real_transforms
from trnfft.functions import fft as transforms
from trnfft.functions import hankel as fftlog

__ua_domain__ = "numpy.scipy.fft"

_REAL_INPUT = ("rfft", "rfft2", "rfftn", "ihfft", "ihfft2", "ihfftn")
_REAL_RESULT = ("irfft", "irfft2", "irfftn", "hfft", "hfft2", "hfftn")
_COMPLEX = ("fft", "fft2", "fftn", "ifft", "ifft2", "ifftn")
_COSINE_SINE = ("dct", "dst", "idct", "idst", "dctn", "dstn", "idctn", "idstn")
_HANKEL = ("fht", "ifht")
_DTYPES = tuple(map(np.dtype, (np.float32, np.float64, np.complex64, np.complex128)))

_signature = cache.cached(64)(inspect.signature)


def __ua_function__(method: Callable, args: Arguments, kwargs: NamedArguments) -> Any:
    """Returns `method(*args, **kwargs)` for a function of scipy.fft."""
    name = method.__name__
    if name not in _REAL_INPUT + _REAL_RESULT + _COMPLEX + _COSINE_SINE + _HANKEL:
        return _by_others(method, args, kwargs)
    call = _signature(method).bind(*args, **kwargs)
    call.apply_defaults()
    given = call.arguments
    _check(given)
    x = next(iter(given.values()))
    array = _array(x)
    if array.dtype not in _DTYPES:
        return _by_others(method, args, kwargs)
    if name in _REAL_INPUT + _HANKEL and array.dtype.kind == "c":
        raise TypeError(
            f"argument 'x' has dtype {array.dtype}, {name} allows real dtypes only; take its .real"
        )
    if name in _COMPLEX + _COSINE_SINE and np.size(given.get("axes")) == 0:
        return _by_others(method, args, kwargs)  # SciPy returns real data as it is
    return _transform(name, array, given).numpy()


def _check(given: dict[str, Any]) -> None:
    """Refuses what SciPy refuses of the arguments without an effect."""
    if given.get("plan") is not None:
        raise NotImplementedError(
            "argument 'plan' is given, allowed is None; trnfft plans each transform itself, and "
            "trnfft.plan_fft returns a plan for many calls"
        )
    workers = given.get("workers")
    if workers is not None:
        workers, most = operator.index(workers), os.cpu_count() or 1
        if workers == 0 or workers < -most:
            raise ValueError(
                f"argument 'workers' is {workers}, allowed are None, numbers from 1 and "
                f"{-most} to -1"
            )


def _by_others(method: Callable, args: Arguments, kwargs: NamedArguments) -> Any:
    """Calls the program's other backends of scipy.fft and, last, SciPy itself.

    This module does not return NotImplemented. Where it is the global backend, SciPy's own backend
    is no longer there, and NotImplemented is an error.
    """
    import scipy.fft  # imported here: whoever calls this function has SciPy

    try:
        with scipy.fft.skip_backend(sys.modules[__name__]):
            return method(*args, **kwargs)
    except NotImplementedError:
        with scipy.fft.set_backend("scipy"):
            return method(*args, **kwargs)


def _transform(name: str, array: np.ndarray, given: dict[str, Any]) -> Any:
    """Returns the transform with SciPy's arguments, by their names, and with scipy.fft's errors."""
    x, many = torch.from_numpy(array), "axes" in given
    mistakes = (RuntimeError, IndexError) if many else RuntimeError
    try:
        if name in _HANKEL:
            return getattr(fftlog, name)(x, *list(given.values())[1:])
        if name in _COSINE_SINE:
            kind, sizes, axes, norm = list(given.values())[1:5]
            options = {"orthogonalize": given["orthogonalize"]}
            return getattr(real_transforms, name)(x, kind, sizes, axes, norm, **options)
        sizes, axes, norm = list(given.values())[1:4]
        if many and name in _REAL_RESULT:
            sizes = _whole_sizes(sizes, axes, array.shape)
        return getattr(transforms, name)(x, sizes, axes, norm)
    except NotImplementedError:  # a subclass of RuntimeError, which is about the backend
        raise
    except mistakes as error:
        raise ValueError(str(error)) from error


def _array(x: object) -> np.ndarray:
    """Returns `x` in the dtype in which SciPy computes, in memory that torch can share."""
    array = np.asarray(x)
    if array.dtype == np.float16:
        dtype: np.dtype = np.dtype(np.float32)
    elif array.dtype.kind in "fc":
        dtype = array.dtype.newbyteorder("=")
    else:
        dtype = np.dtype(np.float64)
    return np.require(array, dtype, ["C", "ALIGNED", "WRITEABLE"])


def _whole_sizes(
    sizes: int | Iterable[int] | None, axes: int | Iterable[int] | None, shape: tuple[int, ...]
) -> list[int] | None:
    """Returns `sizes` with the last -1 replaced.

    In scipy.fft, -1 for the last axis means the size of half a spectrum. In trnfft, it means the
    size of the result.
    """
    if sizes is None:
        return None
    whole = list(np.atleast_1d(sizes))  # type: ignore[arg-type]
    if whole[-1:] == [-1]:
        last = -1 if axes is None else np.atleast_1d(axes)[-1]  # type: ignore[arg-type]
        whole[-1] = shape[last]
    return whole
