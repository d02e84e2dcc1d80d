"""Overlapping frames of real numbers, and their sum, by moves of whole blocks.

Index operations are slow on a NeuronCore, and XLA has no `unfold`. Both functions cut a frame of N
numbers into B blocks of `hop` numbers, so that block b of frame t is block t + b of the signal.
Rows of T + B blocks, read as rows of T + B - 1 blocks or the other way round, move by one block
each. Blocks that belong to the same place then lie below each other.
"""

from __future__ import annotations

import torch

from trnfft.base.devices import COMPLEX_DEVICES


def cut_frames(x: torch.Tensor, size: int, hop: int) -> torch.Tensor:
    """Returns frames [..., T, N] of samples [..., L]; frame t starts at sample t hop.

    On the CPU and on CUDA they are a view.
    """
    if x.device.type in COMPLEX_DEVICES:
        return x.unfold(-1, size, hop)
    count = (x.shape[-1] - size) // hop + 1
    blocks = -(-size // hop)
    rows = count + blocks - 1
    x = x[..., : rows * hop]
    x = torch.nn.functional.pad(x, (0, rows * hop - x.shape[-1]))
    x = x.unflatten(-1, (1, rows, hop))
    moved = x.expand(*x.shape[:-3], blocks, rows, hop).flatten(-3, -2)
    moved = torch.nn.functional.pad(moved, (0, 0, 0, blocks))
    moved = moved.unflatten(-2, (blocks, rows + 1))[..., :count, :]
    return moved.transpose(-3, -2).flatten(-2)[..., :size]


def overlap_add(frames: torch.Tensor, hop: int) -> torch.Tensor:
    """Returns the sum [..., N + hop (T - 1)] of frames [..., T, N], hop numbers apart."""
    count, size = frames.shape[-2:]
    blocks = -(-size // hop)
    rows = torch.nn.functional.pad(frames, (0, blocks * hop - size))
    rows = rows.unflatten(-1, (blocks, hop)).transpose(-3, -2)
    rows = torch.nn.functional.pad(rows, (0, 0, 0, blocks)).flatten(-3, -2)
    moved = rows[..., :-blocks, :].unflatten(-2, (blocks, count + blocks - 1))
    return moved.sum(-3).flatten(-2)[..., : size + hop * (count - 1)]
