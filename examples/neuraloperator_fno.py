"""A Fourier neural operator of the package neuraloperator, changed in one line only.

The operator learns to move waves by a quarter of their domain. Its spectral layers call torch.fft,
slice the spectra, multiply them by complex weights, and write the products into a native tensor of
zeros. Inside `trnfft.patch_torch()` all of this runs on the backend that --backend selects. The
same model with the layer `trnfft.nn.SpectralConv` has no native complex numbers at all, which a
NeuronCore may not support.

Needs:   pip install . ; pip install --no-deps neuraloperator==2.0.0 tensorly==0.10.0
             tensorly-torch==0.5.0 opt-einsum==3.4.0 (or neuraloperator with its dependencies)
Run:     python examples/neuraloperator_fno.py
         python examples/neuraloperator_fno.py --backend nki-sim     # kernels, in the simulator
Prints:  the loss before and after training: with torch, with trnfft, and with trnfft's layer.
"""

import argparse
import copy

import torch
from neuralop.models import FNO

import trnfft

POINTS, WAVES = 32, 8


def main() -> None:
    parser = argparse.ArgumentParser(description="neuraloperator's FNO, changed in one line only.")
    parser.add_argument("--backend", default="matmul", help="auto, torch, matmul or nki-sim")
    parser.add_argument("--steps", type=int, default=60, help="steps of training; default: 60")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    model = operator()
    weights = copy.deepcopy(model.state_dict())
    report("torch", train(model, arguments.steps))

    unchanged = operator()
    unchanged.load_state_dict(weights)
    with trnfft.backend(arguments.backend), trnfft.patch_torch():  # the one line
        report("unchanged", train(unchanged, arguments.steps))

    with_our_layer = operator(conv_module=trnfft.nn.SpectralConv)
    with_our_layer.load_state_dict(weights)
    with trnfft.backend(arguments.backend):
        report("SpectralConv", train(with_our_layer, arguments.steps))


def operator(**arguments: object) -> FNO:
    return FNO((16,), 1, 1, hidden_channels=16, n_layers=2, **arguments)


def train(model: torch.nn.Module, steps: int) -> tuple[float, float]:
    """Trains the model, and returns the first and the last loss."""
    torch.manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(steps):
        x = waves()
        loss = (model(x) - x.roll(POINTS // 4, -1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[0], losses[-1]


def waves() -> torch.Tensor:
    """Returns means of four sines with random phases, [WAVES, 1, POINTS]."""
    frequencies = torch.arange(1, 5)[:, None]
    angles = 2 * torch.pi * (frequencies * torch.arange(POINTS) / POINTS + torch.rand(WAVES, 4, 1))
    return torch.sin(angles).mean(1, keepdim=True)


def report(name: str, losses: tuple[float, float]) -> None:
    print(f"{name:12}  loss {losses[0]:.4f} -> {losses[1]:.4f}")


if __name__ == "__main__":
    main()
