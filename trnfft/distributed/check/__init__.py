"""A self-test of distributed transforms; `trnfft check` prints its report: see trnfft.cli.check.

processes    starts processes, or takes those of torchrun, and reports what becomes of them
known        signals whose spectra are known: every process has its part of both
stopwatch    how long operators of each kind take, and what is sent to whom
self_test    the transforms that are compared and timed, and the links between processes
"""
