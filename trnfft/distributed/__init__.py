"""Transforms of tensors that many devices hold: a DTensor gives a DTensor.

The functions and layers of `trnfft` also accept DTensors, and ComplexTensors of DTensors. Results
have the placements of the input. Devices may split the dimensions along which a function does not
work, at no communication. All-to-all exchanges make the other dimensions whole, split further
dimensions in their place, and restore the placements afterwards. If a tensor has no further
dimensions, only Fourier transforms and `convolve` are computed across devices, and the other
functions raise a NotImplementedError.

Every device has a copy of the other tensors that a function needs, such as filters, windows and
parameters of layers, as a DTensor or as a tensor. Their gradients are sums over all devices. Layers
whose parameters are split compute DTensors by torch's own rules.

The functions of this module have one argument more than those of `trnfft`, `out_placements`. It
gives the result other placements, which may save an exchange. `plan` models what a transform over
many devices would do.

All processes of a mesh must make the same calls. Before the first exchange they compare their
arguments. If the arguments differ, or a process has died, all processes raise a RuntimeError. They
wait for a late process until the timeout that init_process_group was given, by default 60 s on
CPUs.
"""

from trnfft.distributed.functions import fftn, ifftn, irfftn, rfftn
from trnfft.distributed.model.plan import plan
from trnfft.distributed.run import shards as _shards  # noqa: F401
from trnfft.distributed.run import strategies as _strategies  # noqa: F401
from trnfft.distributed.run.convolution import convolve
from trnfft.distributed.run.four_step import frequencies

__all__ = ["convolve", "fftn", "frequencies", "ifftn", "irfftn", "plan", "rfftn"]
