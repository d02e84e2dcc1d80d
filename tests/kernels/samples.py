"""What tests of kernels compare by."""

import numpy as np


def error(result, reference):
    """Relative L2 error of an array of the same shape."""
    assert result.shape == reference.shape
    return np.linalg.norm(result - reference) / np.linalg.norm(reference)
