"""Torch's random numbers, which hypothesis seeds and restores for each example, as NumPy's."""

import hypothesis
import torch


class TorchRandom:
    """What `hypothesis.register_random` expects of a source of random numbers."""

    def seed(self, seed):
        # torch.manual_seed also keeps a formatted stack for each call until CUDA is used.
        torch.default_generator.manual_seed(seed)

    def getstate(self):
        return torch.get_rng_state()

    def setstate(self, state):
        torch.set_rng_state(state)


SOURCE = TorchRandom()  # hypothesis holds a weak reference


def register():
    hypothesis.register_random(SOURCE)
