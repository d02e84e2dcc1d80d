"""Transforms in numbers of chunks other than the cheapest, and the order of their steps."""

from contextlib import contextmanager
from unittest import mock

import torch


@contextmanager
def in_chunks(count):
    """Exchanges with a transform in so many chunks, as far as there are rows; None: by price."""
    from trnfft.distributed.run import overlap

    def chunks_of(work):
        return max(1, min(count, work.most)) if work.exchanges else 1

    with (
        mock.patch.object(overlap, "chunks_of", chunks_of if count else overlap.chunks_of),
        mock.patch.object(overlap, "settings_of", lambda device: count),  # plans are kept by these
    ):
        yield


class Events(torch.utils._python_dispatch.TorchDispatchMode):
    """Starts of all-to-alls and waits for them, transforms, and the bytes of all copies."""

    def __init__(self):
        super().__init__()
        self.order, self.copied = [], 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func).split(".")[1]
        result = func(*args, **(kwargs or {}))
        if name == "all_to_all_single":
            self.order.append("start")
        elif name == "wait_tensor":
            self.order.append("wait")
        elif name in ("_fft_c2c", "_fft_r2c", "_fft_c2r"):
            self.order.append("transform")
        elif name in ("copy_", "clone", "cat", "_to_copy"):
            self.copied += result.numel() * result.element_size()
        return result
