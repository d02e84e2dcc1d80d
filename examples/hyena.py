"""A layer of a Hyena-like language model: a convolution as long as the sequence.

Hyena (Poli et al., "Hyena hierarchy: towards larger convolutional language models", 2023) replaces
attention by gates and causal convolutions whose filters a small network computes from positions.
With `trnfft.nn.LongConv` 65,536 points take n log n operations, and are computed by transforms of
131,072.

Needs:   pip install .
Run:     python examples/hyena.py
         python examples/hyena.py --points 4096 --backend nki-sim    # kernels, in the simulator
Prints:  losses of a few steps of training, which learns how loud the last points were; and
         whether a point depends on later ones.
"""

import argparse

import torch
from torch import nn

import trnfft


class Hyena(nn.Module):
    """y = gate * (filter convolved with (gate' * value)), [B, L, channels] to the same shape."""

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
        """[channels, length], of sines and cosines of the position that fade away."""
        position = torch.arange(length)[:, None]
        angles = position * 2.0 ** -torch.arange(self.features // 2)
        waves = torch.cat([torch.sin(angles), torch.cos(angles)], -1)
        # The first channel forgets after some points, the last one never.
        memory = torch.logspace(1, torch.tensor(length).log10(), self.out.in_features)
        filters = self.filter(waves) * torch.exp(-position / memory)
        return (filters / filters.norm(dim=0)).mT


def main() -> None:
    parser = argparse.ArgumentParser(
        description="A Hyena-like layer that learns how loud noise is."
    )
    parser.add_argument("--points", type=int, default=65536, help="default: 65536")
    parser.add_argument("--steps", type=int, default=40, help="of training; default: 40")
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
        print(f"changes before a point that changed: {change_before(model, signal):.0e}")


def moving_average(signal: torch.Tensor) -> torch.Tensor:
    """Sums over the last 16 points, [B, L, 1]."""
    return nn.functional.conv1d(nn.functional.pad(signal.mT, (15, 0)), torch.ones(1, 1, 16) / 4).mT


@torch.no_grad()
def change_before(model: nn.Module, signal: torch.Tensor) -> float:
    """The largest change of the output before the middle, where the input changes; of its size."""
    middle = signal.shape[1] // 2
    other = signal.clone()
    other[:, middle:] += 1
    before, after = model(signal), model(other)
    return float((after - before)[:, :middle].abs().max() / before.abs().max())


if __name__ == "__main__":
    main()
