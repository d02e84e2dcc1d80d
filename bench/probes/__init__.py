"""Probes: small kernels that ask a chip what its records and documents leave open.

    python -m bench.probes run --out probes.json    asks; in the simulator where there is no chip
    python -m bench.probes propose probes.json      what the answers would change, and where

Each probe is a kernel with the construct in question, and a twin that computes the same by a way
known to be right. Both are compared with NumPy in float64. Where it is known what a chip computes
that takes the construct otherwise, that is compared, too. Where a probe times something, what
counts is the difference of the two: how much longer the kernel gets with each repetition of what
it asks about, which neither the launch nor the work of both has a part in.

    probe.py            what a probe is
    registry.py         all of them; beside it one file a topic, with the kernels
    complex_tensors.py  the one that asks PyTorch on the device "neuron" instead of a kernel
    launcher.py         the one place that launches: simulator, PyTorch-XLA, or the device "neuron"
    asking.py           runs a probe, on a chip in a process of its own
    modelled.py         what the model says of a probe, and which value of a constant would say else
    report.py           answers as JSON, checked when read, and as a table
    proposals.py        from a report to changes of nki_kernels/hardware.py; it edits nothing
"""
