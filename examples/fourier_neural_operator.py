"""A Fourier neural operator learns what Burgers' equation does to waves.

Burgers' equation, du/dt + u du/dx = nu d2u/dx2 on a circle, makes waves steeper until friction
holds the fronts. A network gets the waves at time 0 and predicts them at TIME. Its layers are
convolutions over the whole circle, given by their spectrum (trnfft.nn.SpectralConv1d). For
comparison, the same network gets convolutions of three points, which see only near points.
A spectrum has the same meaning on any grid: trained on 64 points, the operator also works on 256.

Needs:   pip install ".[demo]"
Run:     python examples/fourier_neural_operator.py    # about 10 s on one core
Prints:  the relative L2 error of both networks on waves that they have not seen, on both grids.
Writes:  a picture, fourier_neural_operator.png: three of these waves and the predictions.
"""

import argparse
import time
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import nn

import trnfft

POINTS, EVERY = 256, 4  # points of the fine grid; the coarse grid has every fourth point
TRAINING, TEST = 512, 64  # waves
TIME, FRICTION = 0.25, 0.02
WIDTH, MODES = 24, 12  # channels; frequencies of a spectral convolution
CONVOLUTIONS = {
    "spectral": lambda: trnfft.nn.SpectralConv1d(WIDTH, WIDTH, MODES),
    "three points": lambda: nn.Conv1d(WIDTH, WIDTH, 3, padding=1, padding_mode="circular"),
}


class Operator(nn.Module):
    """Maps waves at time 0, [B, N], to waves at TIME, [B, N], for any number N of points."""

    def __init__(self, convolution: str, layers: int = 3) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, WIDTH, 1)
        self.wide = nn.ModuleList(CONVOLUTIONS[convolution]() for _ in range(layers))
        self.pointwise = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 1) for _ in range(layers))
        self.last = nn.Sequential(nn.Conv1d(WIDTH, 64, 1), nn.GELU(), nn.Conv1d(64, 1, 1))

    def forward(self, waves: torch.Tensor) -> torch.Tensor:
        x = self.first(waves[:, None])
        for wide, pointwise in zip(self.wide, self.pointwise, strict=True):
            x = nn.functional.gelu(wide(x) + pointwise(x))
        return self.last(x)[:, 0]


def main() -> None:
    parser = argparse.ArgumentParser(description="Learn the operator of Burgers' equation.")
    parser.add_argument("--steps", type=int, default=200, help="steps of training; default: 200")
    parser.add_argument(
        "--out", type=Path, default=Path("fourier_neural_operator.png"), help="PNG to write"
    )
    arguments = parser.parse_args()
    torch.manual_seed(0)

    waves = random_waves(TRAINING + TEST)
    waves = torch.stack([waves, burgers(waves)])  # at time 0 and at TIME
    training, test = waves[:, :TRAINING, ::EVERY], waves[:, TRAINING:]
    predictions = {}
    print(f"convolutions   error on {POINTS // EVERY} points   on {POINTS} points   training")
    for name in CONVOLUTIONS:
        began = time.perf_counter()
        operator = fit(Operator(name), training, arguments.steps)
        seconds = time.perf_counter() - began
        with torch.no_grad():
            predictions[name] = operator(test[0, :, ::EVERY])
            coarse = relative_error(predictions[name], test[1, :, ::EVERY])
            fine = relative_error(operator(test[0]), test[1])
        print(f"{name:14}{coarse:19.1%}{fine:16.1%}{seconds:9.1f} s")
    draw(test, predictions, arguments.out)
    print(f"wrote {arguments.out}")


def random_waves(count: int) -> torch.Tensor:
    """Returns sums of five sines and cosines with random amplitudes, [count, POINTS]."""
    order = torch.arange(1, 6)
    angle = 2 * torch.pi * order[:, None] * torch.arange(POINTS) / POINTS
    sines, cosines = torch.randn(2, count, 5) / order
    return sines @ angle.sin() + cosines @ angle.cos()


def burgers(u: torch.Tensor) -> torch.Tensor:
    """Returns waves at TIME: u = -2 nu phi'/phi, where phi obeys the heat equation (Cole, Hopf).

    In a spectrum, a derivative is a product with i k, and an integral is a quotient by i k.
    """
    k = 2 * torch.pi * trnfft.rfftfreq(POINTS, 1 / POINTS, dtype=torch.float64)
    integral = trnfft.irfft(trnfft.rfft(u.double()) / (1j * k.clamp(min=1)), POINTS)
    phi = trnfft.rfft(torch.exp(-integral / (2 * FRICTION))) * torch.exp(-FRICTION * k**2 * TIME)
    slope = trnfft.irfft(phi * (1j * k), POINTS)
    return (-2 * FRICTION * slope / trnfft.irfft(phi, POINTS)).float()


def fit(operator: Operator, waves: torch.Tensor, steps: int) -> Operator:
    """Trains the operator with random batches of waves [2, count, N], which are at time 0 and TIME.

    Returns the operator.
    """
    start, end = waves
    optimizer = torch.optim.Adam(operator.parameters(), lr=6e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        batch = torch.randint(len(start), (32,))
        loss = relative_error(operator(start[batch]), end[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return operator


def relative_error(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Returns the L2 norm of the error over that of the wave, averaged over all waves."""
    return ((found - wanted).norm(dim=-1) / wanted.norm(dim=-1)).mean()


def draw(waves: torch.Tensor, predictions: dict[str, torch.Tensor], out: Path) -> None:
    """Draws the first three waves at time 0 and at TIME, and the predictions of both networks."""
    start, end = waves
    x = torch.arange(POINTS) / POINTS
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    for i, axes in enumerate(figure.subplots(1, 3)):
        axes.plot(x, start[i], color="0.75", label="time 0")
        axes.plot(x, end[i], color="black", label=f"time {TIME}")
        for name, color in ("three points", "tab:red"), ("spectral", "tab:blue"):
            points = predictions[name][i]
            axes.plot(x[::EVERY], points, ".", markersize=4, color=color, label=name)
        axes.set_xlabel("x")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=4)
    figure.savefig(out, dpi=100)


if __name__ == "__main__":
    main()
