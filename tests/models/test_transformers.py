"""FNet of the package transformers, unchanged; it stores functools.partial(torch.fft.fftn)."""

import copy

import pytest
import torch

import trnfft
from tests.tolerances import near

from . import fnet
from .comparison import BACKENDS, TRAINING, assert_accurate, losses_of_training

pytest.importorskip("transformers", reason="transformers is not installed")

from transformers import FNetModel  # noqa: E402


class LastState(torch.nn.Module):
    """The model with a tensor for a result."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.model = FNetModel(fnet.configuration(), add_pooling_layer=False)

    def forward(self, words):
        return self.model(input_ids=words).last_hidden_state


WORDS = torch.arange(32).reshape(2, 16)


@pytest.mark.parametrize("backend", BACKENDS)
def test_unchanged(backend):
    with trnfft.backend(backend):
        assert_accurate(LastState(), WORDS)


def test_training_unchanged():
    model = LastState()
    expected = losses_of_training(copy.deepcopy(model), WORDS)
    assert expected[-1] < expected[0]
    with trnfft.patch_torch(), trnfft.backend("matmul"):
        near(losses_of_training(model, WORDS), expected, TRAINING)
