"""A layer of a Hyena-like language model: a convolution as long as the sequence.

Hyena (Poli et al., "Hyena hierarchy: towards larger convolutional language models", 2023) replaces
attention by gates and causal convolutions whose filters a small network computes from positions.
`trnfft.nn.LongConv` convolves 65,536 points by transforms of 131,072 points, in about n log n
operations.

Needs:   pip install .
Run:     python examples/hyena.py
         python examples/hyena.py --points 4096 --backend nki-sim    # kernels, in the simulator
Prints:  the losses of a few steps of training, in which the layer learns how loud the last 16
         points were; and how much the output changes before a change of the input.
"""

import argparse

import torch
from torch import nn

import trnfft


class Hyena(nn.Module):
    """Computes y = gate * (filter convolved with (gate' * value)), all [B, L, channels]."""

    def __init__(self, channels: int, features: int = 16) -> None:
        super().__init__()
        self.projections = nn.Linear(channels, 3 * channels)
        self.filter = nn.Sequential(
            nn.Linear(features, 32), nn.SiLU(), nn.Linear(32, channels, bias=False)
        )
        self.long_conv = trnfft.nn.LongConv()
        self.out = nn.Linear(channels, channels)
        self.features = features

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate_in, gate_out = self.projections(x).mT.chunk(3, dim=1)  # [B, channels, L]
        y = self.long_conv(gate_in * value, self.filters(x.shape[1])) * gate_out
        return self.out(y.mT)

    def filters(self, length: int) -> torch.Tensor:
        """Returns filters [channels, length], computed from sines and cosines, which fade away."""
        position = torch.arange(length)[:, None]
        angles = position * 2.0 ** -torch.arange(self.features // 2)
        waves = torch.cat([torch.sin(angles), torch.cos(angles)], -1)
        # The first channel forgets after some points, the last channel remembers all points.
        memory = torch.logspace(1, torch.tensor(length).log10(), self.out.in_features)
        filters = self.filter(waves) * torch.exp(-position / memory)
        return (filters / filters.norm(dim=0)).mT


def main() -> None:
    parser = argparse.ArgumentParser(
        description="A Hyena-like layer that learns how loud noise is."
    )
    parser.add_argument("--points", type=int, default=65536, help="length; default: 65536")
    parser.add_argument("--steps", type=int, default=40, help="steps of training; default: 40")
    parser.add_argument("--backend", default="auto", help="auto, torch, matmul or nki-sim")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 8), Hyena(8), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    signal = torch.randn(1, arguments.points, 1)
    target = moving_average(signal.square() - 1)

    with trnfft.backend(arguments.backend):
        for step in range(arguments.steps):
            loss = (model(signal) - target).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 10 == 0 or step == arguments.steps - 1:
                print(f"step {step:2}  mean squared error {loss.item():.4f}")
        change = change_before(model, signal)
        print(f"relative change of the output before a change of the input: {change:.0e}")


def moving_average(signal: torch.Tensor) -> torch.Tensor:
    """Returns sums over the last 16 points, divided by 4, [B, L, 1]."""
    return nn.functional.conv1d(nn.functional.pad(signal.mT, (15, 0)), torch.ones(1, 1, 16) / 4).mT


@torch.no_grad()
def change_before(model: nn.Module, signal: torch.Tensor) -> float:
    """Changes the input from the middle on, and returns the output's largest change before that.

    The change is relative to the largest output.
    """
    middle = signal.shape[1] // 2
    other = signal.clone()
    other[:, middle:] += 1
    before, after = model(signal), model(other)
    return float((after - before)[:, :middle].abs().max() / before.abs().max())


if __name__ == "__main__":
    main()
