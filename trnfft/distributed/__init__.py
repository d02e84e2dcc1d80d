"""Transforms of tensors that many devices hold: DTensor in, DTensor out.

The functions and layers of `trnfft` take DTensors, too, and ComplexTensors of DTensors; results
have the placements of the input. Dimensions that they do not work along may be split, at no
communication. Those that they work along are made whole by all-to-alls, which split others in their
place, and bring back afterwards what was split. Where a tensor has no others, only Fourier
transforms and `convolve` are computed across devices; the rest raises a NotImplementedError.

What else a function takes, as filters, windows and parameters of layers, every device has a copy
of, as a DTensor or not: gradients of these are sums over all devices. Layers whose parameters are
split compute DTensors by torch's own rules.

Here are transforms with an argument more, `out_placements`: other placements of the result, which
may save an exchange. `plan` says what a transform over many devices would take.

All processes of a mesh call them alike. Before the first exchange they compare what they were
asked for: where that differs, or one has died, all raise a RuntimeError. For one that is late they
wait for the timeout that init_process_group was given, by default 60 s on CPUs.
"""

from trnfft.distributed import strategies as _strategies  # noqa: F401
from trnfft.distributed.convolution import convolve
from trnfft.distributed.four_step import frequencies
from trnfft.distributed.functions import fftn, ifftn, irfftn, rfftn
from trnfft.distributed.plan import plan

__all__ = ["convolve", "fftn", "frequencies", "ifftn", "irfftn", "plan", "rfftn"]
