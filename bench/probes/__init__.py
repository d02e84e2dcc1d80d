"""Probes: small kernels that ask a chip what its records and documents leave open.

    python -m bench.probes run --out probes.json    asks the chip, or the simulator without a chip
    python -m bench.probes propose probes.json      shows what the answers would change, and where

Each probe has a kernel with the construct in question, and a twin that computes the same result in
a way that is known to be right; mostly both are one kernel with another argument. Both results are
compared with NumPy in float64. Where the result of a different interpretation is known, the
kernel's result is also compared with that result. A probe that times something measures how much
longer the kernel gets than its twin with each repetition. This difference contains neither the
launch nor the work that both kernels do.

    probe.py            the parts of a probe
    registry.py         all probes; beside it one file with kernels for each topic
    complex_tensors.py  asks PyTorch on the device "neuron" instead of a kernel
    launcher.py         the only place that launches: simulator, PyTorch-XLA or device "neuron"
    asking.py           runs a probe, on a chip in a process of its own
    modelled.py         the model's time of a probe, and the constant that gives a measured time
    report.py           answers as JSON, checked when read, and as a table
    proposals.py        changes of nki_sim/hardware.py that a report suggests; edits nothing
"""
