"""What tests of kernels share."""

import pytest

from nki_kernels import row_blocks


@pytest.fixture
def short_loops(monkeypatch):
    """Device loops of one block or two at batches that a test can run."""
    monkeypatch.setattr(row_blocks, "_BODY_INSTRUCTIONS", 150)
