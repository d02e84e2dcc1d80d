"""Self-tests in which one process fails, in a module of their own, as each process imports it."""

import os
import signal

import torch.distributed as dist

from trnfft.distributed.check import self_test

POINTS = 64


def with_wrong_numbers(device):
    """One number of a result is wrong, on the second process."""
    original = self_test.transform

    def transform(case, x):
        y = original(case, x)
        if dist.get_rank() == 1 and case.function == "irfftn":
            y.to_local()[0, 0, 0] += 0.01
        return y

    self_test.transform = transform
    return self_test.run(device, POINTS)


def failing(device, how):
    """The second process dies or raises an error, while the others exchange."""
    if dist.get_rank() == 1:
        if how == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        raise MemoryError("no room")
    return self_test.run(device, POINTS)
