"""Benchmarks: programs to run from the root of the repository, with `python -m`.

    bench.run              measures time and error of every operation; writes JSON
    bench.accuracy         measures errors over N in every precision mode; writes JSON
    bench.parity           compares results of a backend with those of the simulator; writes JSON
    bench.page             shows these files as one HTML page with charts and tables
    bench.tables           prints tables of modelled times, as the pages have them
    bench.calls            measures calls on this CPU, by subject
    bench.block_circulant  models times, memory and accuracy of block circulant layers
    bench.probes           asks a chip open questions, and says what the answers would change
    bench.model_check      compares published measurements of Trainium with the simulator's times

The cases of the first three programs are in the folder `cases`. docs/benchmarks.md lists all
programs.
"""
