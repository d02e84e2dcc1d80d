"""A self-test of distributed transforms: python -m trnfft.distributed.check --nproc 4

    processes    starts processes, or takes those of torchrun, and reports what becomes of them
    known        signals whose spectra are known: every process has its part of both
    stopwatch    how long operators of each kind take, and what is sent to whom
    self_test    the transforms that are compared and timed, and the links between processes

`trnfft check` is the same command; both print a table of `trnfft.cli.check`.
"""
