"""Published measurements of kernels on Trainium, and the same kernels in the simulator.

    published_measurements   figures of AWS's documentation, two of Autocomp, with their sources
    published_kernels        the kernels of these figures, rebuilt
    modelled_measurements    the modelled values of these figures
    launch_overhead          predicts whole transforms of the seed article
    points                   pairs each measurement with its modelled value
    report, picture          show the pairs in tables and in a picture

`device_records`, `device_kernels` and `modelled_records` do the same as the first three modules for
small kernels that others timed; `labs_records`, `labs_kernels` and `modelled_labs` for whole
kernels; `small_copies_records`, `vector_add_kernels`, `turbulence_kernels` and
`modelled_small_copies` for kernels with many small copies; `autocomp_records`, `autocomp_kernels`
and `modelled_autocomp` for kernels that Autocomp's search produced; `nkibench_records`,
`nkibench_kernels` and `modelled_nkibench` for whole kernels of a benchmark; `convolution_records`,
`convolution_kernels` and `modelled_convolution` for a transpose and convolutions of a course.
"""
