"""Fixtures for tests on an XLA device, which ./scripts/test.sh --xla runs."""

from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest


@dataclass
class Counts:
    """The work of PyTorch-XLA during a block."""

    compiled: int = 0
    executed: int = 0
    to_device: int = 0
    from_device: int = 0
    lowered: set[str] = field(default_factory=set)  # operators that XLA supports
    # Operators that XLA lacks, so that the CPU computes them.
    on_host: set[str] = field(default_factory=set)


@contextmanager
def _counted():
    """Yields Counts, which are filled in at the end of the block, after its graph has run."""
    import torch_xla
    from torch_xla.debug import metrics

    torch_xla.sync(wait=True)
    metrics.clear_all()
    counts = Counts()
    yield counts
    torch_xla.sync(wait=True)
    samples = {name: metrics.metric_data(name)[0] for name in metrics.metric_names()}
    names = metrics.counter_names()
    counts.compiled = samples.get("CompileTime", 0)
    counts.executed = metrics.counter_value("ExecuteComputation") or 0
    counts.to_device = samples.get("TransferToDeviceTime", 0)
    counts.from_device = samples.get("TransferFromDeviceTime", 0)
    counts.lowered = {name for name in names if name.startswith("xla::")}
    counts.on_host = {name for name in names if name.startswith("aten::")}


@pytest.fixture
def counted():
    """Returns a context manager: `with counted() as counts`."""
    return _counted


@pytest.fixture(scope="session")
def device():
    """Returns the XLA device."""
    import torch_xla

    return torch_xla.device()
