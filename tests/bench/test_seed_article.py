"""The article's chain of launches is a Fourier transform, and its model that of a real run."""

import itertools

import numpy as np
import pytest

import nki_sim
from bench.seed_article.structure import launches, timelines, transform
from nki_sim import hardware
from tests import sweeps
from tests.tolerances import near, transforms

BATCH = 128


@pytest.fixture(autouse=True)
def on_trn1():
    with hardware.select(hardware.TRN1):
        yield


# Batches of one, of a few, and of more transforms than partitions.
@sweeps.some(
    "n, radix, batch",
    [
        *itertools.product((8, 64, 512), (8,), (1, 3)),
        *itertools.product((4, 64, 256), (4,), (1, 3)),
        *itertools.product((64,), (4, 8), (130,)),
    ],
    [(64, 8, 3), (64, 4, 3)],
)
def test_the_chain_is_a_fourier_transform(n, radix, batch):
    x = np.random.default_rng(n).standard_normal((2, batch, n)).astype(np.float32)
    x = x[0] + 1j * x[1]
    near(transform(x, radix), np.fft.fft(x.astype(np.complex128)), transforms(n))


@pytest.mark.parametrize("radix", [4, 8])
def test_the_modelled_time_is_that_of_a_real_run(radix):
    x = np.random.default_rng(0).standard_normal((5, 64)).astype(np.complex64)
    with nki_sim.record() as timeline:
        transform(x, radix)
    chain = timelines(64, radix, 5)
    assert timeline.launches == len(chain)
    assert sum(t.total_ns for _, t in chain) == pytest.approx(timeline.total_ns)


def test_launches_of_a_chain():
    """s stages have s - 1 twiddle products, and s + 1 (radix 8) or s - 1 (radix 4) permutes."""
    for radix, stages, permutes in ((8, 4, 5), (4, 6, 5)):
        kinds = [launch.kind for launch in launches(4096, radix, BATCH)]
        counts = [kinds.count(kind) for kind in (f"radix{radix}", "twiddle", "permute")]
        assert counts == [stages, stages - 1, permutes]


@pytest.mark.parametrize("n, radix", [(64, 2), (256, 8), (512, 4), (1, 4), (4**7, 4)])
def test_what_the_chain_refuses(n, radix):
    with pytest.raises(ValueError, match="must be|whole rows"):
        launches(n, radix, 1)
