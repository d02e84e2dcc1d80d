"""Transforms by the NKI kernels: on a NeuronCore, or in the CPU simulator of one.

Data is [..., N1, N2, ...] with the transformed dimensions last. Several of them are one launch
where the planner knows one, else one launch each.
"""

from typing import Any

import numpy as np
import torch

from nki_kernels import simulator
from trnfft.backends.half_spectrum import half_of, whole_of
from trnfft.config import NEURON_DEVICES
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.plan import Recipe
from trnfft.planner.planner import plan
from trnfft.planner.problem import C2C, C2R, R2C

Parts = tuple[torch.Tensor, ...]

_uploaded: dict[Any, Any] = {}  # tables on devices, once a plan


def run(
    kind: str,
    parts: Parts,
    shape: tuple[int, ...],
    inverse: bool,
    scale: float,
    backend: str,
    precision: str,
) -> Parts:
    """Transform the last dimensions of float32 tensors, outside autograd.

    Args:
        kind: "c2c", "r2c" or "c2r".
        parts: real and imaginary part, [..., *shape], for "c2r" with N // 2 + 1 numbers in the
            last dimension; for "r2c" the real tensor alone.
        shape: lengths of the transforms.
        inverse: the sign of the exponent.
        scale: a factor on the result.
        backend: "nki" for a NeuronCore, "nki-sim" for the simulator.
        precision: the mode.

    Returns:
        Real and imaginary part, for "c2r" the real tensor alone.

    Raises:
        RuntimeError: backend "nki", and the tensors are on another device.
        TypeError: the tensors are not float32.
        NotImplementedError: no kernel can do a length with this precision.
    """
    device = parts[0].device
    if backend == "nki" and device.type not in NEURON_DEVICES:
        raise RuntimeError(
            f"argument 'input' is on device '{device}', backend \"nki\" allows "
            f'{", ".join(NEURON_DEVICES)}; move it with .to("xla"), or use backend "nki-sim"'
        )
    _check_float32(parts[0], backend)
    if len(shape) == 1:
        return _launch(kind, parts, shape, inverse, scale, backend, precision)
    try:
        return _launch(kind, parts, shape, inverse, scale, backend, precision)
    except NotImplementedError:
        return _one_by_one(kind, parts, shape, inverse, scale, backend, precision)


def _launch(
    kind: str,
    parts: Parts,
    shape: tuple[int, ...],
    inverse: bool,
    scale: float,
    backend: str,
    precision: str,
) -> Parts:
    """One kernel. NotImplementedError where there is none for this shape."""
    x = [part.reshape(-1, *part.shape[part.ndim - len(shape) :]) for part in parts]
    size = {"n": shape[0]} if len(shape) == 1 else {"shape": shape}
    recipe = plan(
        batch=x[0].shape[0],
        inverse=inverse if kind == C2C else kind == C2R,
        real=kind != C2C,
        precision=precision,
        **size,  # type: ignore[arg-type]
    ).recipe
    kernel_kind = ALGORITHMS[recipe.algorithm].kind
    if kernel_kind != kind:
        x = _as_complex(kind, x, shape[-1])
    y = run_recipe(recipe, x, inverse, scale, backend)
    if kernel_kind != kind:
        y = y[:1] if kind == C2R else list(half_of((y[0], y[1])))
    lead = parts[0].shape[: parts[0].ndim - len(shape)]
    return tuple(part.reshape(*lead, *part.shape[1:]) for part in y)


def run_recipe(
    recipe: Recipe, x: list[torch.Tensor], inverse: bool, scale: float, backend: str
) -> list[torch.Tensor]:
    """The results of a recipe's kernel, on the device of its float32 input.

    Args:
        recipe: of any plan.
        x: the kernel's input, of the shapes that its algorithm's `inputs` gives.
        inverse, scale, backend: as for `run`.
    """
    algorithm = ALGORITHMS[recipe.algorithm]
    if backend == "nki-sim":
        arrays = [part.detach().resolve_neg().cpu().contiguous().numpy() for part in x]
        arguments = algorithm.arguments(recipe, inverse, scale)
        y = simulator.simulate(algorithm.kernel)(*arrays, *arguments)
        results = y if isinstance(y, (tuple, list)) else [y]
        return [torch.from_numpy(part).to(x[0].device) for part in results]
    key = (recipe, inverse, scale, x[0].device)
    if key not in _uploaded:
        _uploaded[key] = _on_device(algorithm.arguments(recipe, inverse, scale), x[0].device)
    y = algorithm.kernel(*(part.contiguous() for part in x), *_uploaded[key])
    return list(y) if isinstance(y, (tuple, list)) else [y]


def run_convolution(recipe: Recipe, x: Parts, backend: str) -> torch.Tensor:
    """The kernel of a `plan_convolution`, of x [B, N] or [B, h, w] and both parts of a spectrum."""
    _check_float32(x[0], backend)
    return run_recipe(recipe, list(x), False, 1.0, backend)[0]


def run_block_circulant(recipe: Recipe, x: Parts, backend: str) -> Parts:
    """The kernel of a `plan_block_circulant`, and its results."""
    _check_float32(x[0], backend)
    return tuple(run_recipe(recipe, list(x), False, 1.0, backend))


def _one_by_one(
    kind: str,
    parts: Parts,
    shape: tuple[int, ...],
    inverse: bool,
    scale: float,
    backend: str,
    precision: str,
) -> Parts:
    """A launch for each dimension, the real one first or last."""
    rest = (inverse, scale, backend, precision)
    if kind == R2C:
        parts, rest = _launch(kind, parts, shape[-1:], *rest), (inverse, 1.0, backend, precision)
    for index in range(len(shape) - (kind != C2C)):
        dim = index - len(shape)
        moved = tuple(part.transpose(dim, -1) for part in parts)
        parts = _launch(C2C, moved, shape[index : index + 1], *rest)
        parts = tuple(part.transpose(dim, -1) for part in parts)
        rest = (inverse, 1.0, backend, precision)
    return _launch(kind, parts, shape[-1:], *rest) if kind == C2R else parts


def _as_complex(kind: str, x: list[torch.Tensor], n: int) -> list[torch.Tensor]:
    """Both parts of the complex data that real data, or a half spectrum, stands for."""
    return [x[0], torch.zeros_like(x[0])] if kind == R2C else list(whole_of(x[0], x[1], n))


def _on_device(tables: Any, device: torch.device) -> Any:
    """Nested tuples with tensors on the device in place of the arrays."""
    if isinstance(tables, tuple):
        return tuple(_on_device(item, device) for item in tables)
    return torch.tensor(tables).to(device) if isinstance(tables, np.ndarray) else tables


def _check_float32(x: torch.Tensor, backend: str) -> None:
    if x.dtype != torch.float32:
        raise TypeError(
            f"argument 'input' has {x.dtype} parts, backend \"{backend}\" allows "
            f"torch.float32: the NeuronCore has no float64; use input.float(), for a complex "
            f'tensor input.to(torch.complex64), or trnfft.set_backend("matmul")'
        )
