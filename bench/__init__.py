"""Benchmarks: programs to run from the root of the repository, with `python -m`.

    bench.run              time and error of every operation, as JSON
    bench.accuracy         errors over N in every precision mode, as JSON
    bench.parity           whether a backend computes what the simulator does, as JSON
    bench.compare          these files side by side: tables and plots
    bench.block_circulant  times, memory and accuracy of block circulant layers
    bench.probes           what a chip answers to open questions, and what that would change
    bench.model_check      published measurements of Trainium against the simulator's times

The cases of the first three are in `cases`. The files test_*_bench.py are for pytest:
`pytest bench --benchmark-only`, or one of them with `-s` where it prints a table.
"""
