"""Transforms by the NKI kernels: on a NeuronCore, or in the CPU simulator of one.

Several dimensions are one launch where the planner knows one, else one launch each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from nki_kernels import simulator
from trnfft.backends.backend import Backend, Call, Parts
from trnfft.backends.device_tables import uploaded
from trnfft.backends.half_spectrum import half_of, whole_of
from trnfft.config import NEURON_DEVICES
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.plan import Recipe
from trnfft.planner.planner import plan
from trnfft.planner.problem import C2C, C2R, R2C


class Nki(Backend):
    """The kernels: "nki" on a NeuronCore, "nki-sim" in the simulator. Float32 data only.

    Raises, of every method:
        RuntimeError: it is "nki", and the tensors are on another device.
        TypeError: the tensors are not float32.
        NotImplementedError: no kernel can do a length with this precision.
    """

    has_kernels = True

    def __init__(self, name: str) -> None:
        self.name = name

    def c2c(self, parts: Parts, call: Call) -> Parts:
        if call.planned:
            return self._in_planned_order(parts, call)
        return self._launched_or_else(C2C, super().c2c, parts, call)

    def r2c(self, parts: Parts, call: Call) -> Parts:
        return self._launched_or_else(R2C, super().r2c, parts, call)

    def c2r(self, parts: Parts, call: Call) -> Parts:
        return self._launched_or_else(C2R, super().c2r, parts, call)

    def c2c_rows(self, parts: Parts, call: Call) -> Parts:
        return self._launched(C2C, parts, call)

    def r2c_rows(self, parts: Parts, call: Call) -> Parts:
        return self._launched(R2C, parts, call)

    def c2r_rows(self, parts: Parts, call: Call) -> Parts:
        return self._launched(C2R, parts, call)

    def run(
        self, recipe: Recipe, x: Parts, inverse: bool = False, scale: float = 1.0
    ) -> list[torch.Tensor]:
        self._check(x[0])
        algorithm = ALGORITHMS[recipe.algorithm]
        if self.name == "nki":
            tables = uploaded(x[0].device, None, algorithm.arguments, recipe, inverse, scale)
            y = algorithm.kernel(*(part.contiguous() for part in x), *tables)
            return list(y) if isinstance(y, (tuple, list)) else [y]
        arrays = [part.detach().resolve_neg().cpu().contiguous().numpy() for part in x]
        arguments = algorithm.arguments(recipe, inverse, scale)
        y = simulator.simulate(algorithm.kernel)(*arrays, *arguments)
        results: list[np.ndarray] = list(y) if isinstance(y, (tuple, list)) else [y]
        return [torch.from_numpy(part).to(x[0].device) for part in results]

    def _launched_or_else(self, kind: str, by_dimensions: Any, parts: Parts, call: Call) -> Parts:
        """One kernel where there is one for these sizes, else one launch a dimension."""
        if len(call.sizes) > 1:
            try:
                return self._launched(kind, parts, call)
            except NotImplementedError:
                pass
        return by_dimensions(parts, call)

    def _launched(self, kind: str, parts: Parts, call: Call) -> Parts:
        """One kernel. NotImplementedError where there is none for these sizes."""
        self._check(parts[0])
        shape = call.sizes
        x = tuple(part.reshape(-1, *part.shape[part.ndim - len(shape) :]) for part in parts)
        recipe = plan(
            n=shape[0] if len(shape) == 1 else None,
            shape=shape if len(shape) > 1 else None,
            batch=x[0].shape[0],
            inverse=call.inverse if kind == C2C else kind == C2R,
            real=kind != C2C,
            precision=call.precision,
        ).recipe
        is_complex = ALGORITHMS[recipe.algorithm].kind != kind  # cheaper than a real kernel
        if is_complex:
            x = (x[0], torch.zeros_like(x[0])) if kind == R2C else whole_of(x[0], x[1], shape[-1])
        y = self.run(recipe, x, call.inverse, call.scale)
        if is_complex:
            y = y[:1] if kind == C2R else list(half_of(y[0], y[1]))
        lead = parts[0].shape[: parts[0].ndim - len(shape)]
        return tuple(part.reshape(*lead, *part.shape[1:]) for part in y)

    def _check(self, x: torch.Tensor) -> None:
        if self.name == "nki" and x.device.type not in NEURON_DEVICES:
            raise RuntimeError(
                f"argument 'input' is on device '{x.device}', backend \"nki\" allows "
                f'{", ".join(NEURON_DEVICES)}; move it with .to("xla"), or use backend "nki-sim"'
            )
        if x.dtype != torch.float32:
            raise TypeError(
                f"argument 'input' has {x.dtype} parts, backend \"{self.name}\" allows "
                f"torch.float32: the NeuronCore has no float64; use input.float(), for a complex "
                f'tensor input.to(torch.complex64), or trnfft.set_backend("matmul")'
            )
