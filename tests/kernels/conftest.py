"""What all tests of kernels share."""

import numpy as np
import pytest

from . import samples


@pytest.fixture(autouse=True)
def _same_numbers_in_every_order():
    samples.RNG = np.random.default_rng(20)
