"""Fixtures for tests of kernels."""

import numpy as np
import pytest

from nki_kernels.base import launch

from . import independence, samples


@pytest.fixture(autouse=True)
def _same_numbers_in_every_order(monkeypatch):
    monkeypatch.setattr(samples, "RNG", np.random.default_rng(20))


@pytest.fixture(autouse=True)
def _rows_of_sweeps_are_spoiled_in_every_way(monkeypatch, request):
    if request.node.get_closest_marker("sweep"):
        monkeypatch.setattr(independence, "EVERY", True)


@pytest.fixture
def short_loops(monkeypatch):
    """Device loops of one block or two at batches that a test can run."""
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 150)
