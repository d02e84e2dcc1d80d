"""Published measurements of kernels on Trainium, and the same kernels in the simulator.

A figure is one record (`measured.Measured`): its source, its chip, its value, how it is modelled,
and what it was used for. The records stand beside the functions that model them, and beside the
kernels, rebuilt from the parts in `tiles`, in one module for each origin. Large kernels have a
module of their own:

    documentation    AWS's documentation, and two of Autocomp: published_kernels
    device           small kernels that others timed: device_kernels
    labs             whole kernels of trainium-agent-labs: labs_kernels
    small_copies     kernels with many small copies: turbulence_kernels
    autocomp         kernels that Autocomp's search produced
    nkibench         whole kernels of a benchmark
    convolution      a transpose and convolutions of a course
    launch_overhead  whole transforms of the seed article, whose launches it predicts

`points` collects all records and models them; `report` shows them. A new figure of a
kernel that stands here is one more record in one of these modules.
"""
