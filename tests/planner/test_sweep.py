"""The acceptance sweep: accuracy, predicted error and launches of transforms of every kind.

The lengths are divided into chunks, so that `pytest -m slow -n auto tests/planner/test_sweep.py`
runs them in parallel.
"""

import itertools

import numpy as np
import platformdirs
import pytest
import torch

import nki_sim
import trnfft
from nki_sim import hardware
from tests.tolerances import relative_error
from trnfft.planner import planner
from trnfft.planner.accuracy import MAX_ERRORS

pytestmark = pytest.mark.slow

BATCHES = (1, 2, 130)  # the last one does not fill its second round of 128 partitions
CHUNK = 32
LONG = sorted(
    {2**k for k in range(11, 17)}
    | {997, 4099, 65537}
    | set(np.random.default_rng(6).integers(1025, 20001, 40).tolist())
)
CHUNKS = [range(first, first + CHUNK) for first in range(1, 1025, CHUNK)] + [(n,) for n in LONG]


@pytest.fixture(autouse=True)
def small_wisdom(tmp_path, monkeypatch):
    """Remembered plans in a folder of the chunk: every plan found rewrites the whole file."""
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn1")
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path))
    planner.forget()
    yield
    planner.forget()


def measure(n, batch, precision):
    """The plan of a transform of random normal data, its relative L2 error and its launches."""
    re, im = np.random.default_rng(n).standard_normal((2, batch, n)).astype(np.float32)
    x = torch.complex(torch.from_numpy(re), torch.from_numpy(im))
    with trnfft.backend("nki-sim"), trnfft.precision(precision), nki_sim.record() as timeline:
        y = trnfft.as_native(trnfft.fft(x)).numpy()
        plan = trnfft.plan(n, batch=batch)
    expected = np.fft.fft(re + 1j * im.astype(np.float64))
    return plan, relative_error(y, expected), timeline.launches


def complaints(lengths, precision="fast"):
    """What is wrong with any of the transforms: one line each."""
    for n, batch in itertools.product(lengths, BATCHES):
        plan, error, launches = measure(n, batch, precision)
        measured = f"{plan.recipe}, batch {batch}, {precision}: error {error:.2e}"
        if not error <= MAX_ERRORS[precision]:
            yield f"{measured} exceeds the limit"
        # One or two points are only copied or added: the error is 0 or a few roundings. A single
        # row of 3 or 4 has too small an error in about one draw of 50, not in those drawn here.
        if n > 2 and not 1 / 3 <= error / plan.predicted_error <= 3:
            yield f"{measured} is not within 3 times the predicted {plan.predicted_error:.2e}"
        if launches != 1:
            yield f"{measured}, {launches} launches"


@pytest.mark.parametrize("lengths", CHUNKS, ids=lambda lengths: f"{lengths[0]}-{lengths[-1]}")
def test_float32(lengths):
    assert list(complaints(lengths)) == []


@pytest.mark.parametrize(
    ("precision", "lengths"),
    [
        ("kahan", (256, 512, 1024, 4096)),
        ("bf16_refined", (128, 256, 1000, 1024, 4096)),
        ("bf16", (128, 256, 1000, 1024, 4096)),
    ],
)
def test_other_precisions(precision, lengths):
    assert list(complaints(lengths, precision)) == []
