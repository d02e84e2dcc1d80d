"""A low-pass filter that is learned: gradient descent finds the gain of every frequency.

Slow waves are buried in white noise. The filter has one gain for each frequency, which is 1 at
first, and the gradient of its error passes through `trnfft.irfft` and `trnfft.rfft`. For such noise
the best filter is known: Wiener's filter has the gain signal / (signal + noise), in power. The
filter learned from examples should come close to it.

Needs:   pip install ".[demo]"
Run:     python examples/low_pass_filter.py
         python examples/low_pass_filter.py --backend matmul    # real matrix products
Prints:  the error of the filtered signals during training, and that of Wiener's filter.
Writes:  a picture, low_pass_filter.png: the gains, and a signal before and after filtering.
"""

import argparse
from pathlib import Path

import torch
from matplotlib.figure import Figure

import trnfft

POINTS, CUTOFF, NOISE = 512, 0.03, 0.7  # cutoff in cycles a point; signals have variance 1
FREQUENCIES = trnfft.rfftfreq(POINTS)
SHAPE = 1 / (1 + (FREQUENCIES / CUTOFF) ** 4)  # the signals' power spectrum, up to a factor
POWER = SHAPE / (2 * SHAPE[1:-1].sum() + SHAPE[0] + SHAPE[-1]) * POINTS


def main() -> None:
    parser = argparse.ArgumentParser(description="Learn a low-pass filter.")
    parser.add_argument("--steps", type=int, default=300, help="steps of descent; default: 300")
    parser.add_argument("--backend", default="auto", help="auto, torch or matmul")
    parser.add_argument(
        "--out", type=Path, default=Path("low_pass_filter.png"), help="PNG to write"
    )
    arguments = parser.parse_args()
    trnfft.set_backend(arguments.backend)
    torch.manual_seed(0)

    gain = torch.ones(len(FREQUENCIES), requires_grad=True)
    optimizer = torch.optim.Adam([gain], lr=0.02)
    for step in range(arguments.steps + 1):
        clean, noisy = signals(64)
        loss = (filtered(noisy, gain) - clean).square().mean()
        if step % 50 == 0:
            print(f"step {step:3}   mean squared error {loss:.4f}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    gain = gain.detach()
    wiener = POWER / (POWER + NOISE**2)
    clean, noisy = signals(1000)  # new signals
    error = (filtered(noisy, gain) - clean).square().mean()
    least = (filtered(noisy, wiener) - clean).square().mean()
    print(f"new signals: {error:.4f} with the learned filter, {least:.4f} with Wiener's")
    draw(gain, wiener, clean[0], noisy[0], arguments.out)
    print(f"wrote {arguments.out}")


def filtered(signal: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    """Returns signals [..., POINTS] with every frequency multiplied by its gain."""
    return trnfft.irfft(trnfft.rfft(signal) * gain, POINTS)


def signals(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns random waves [count, POINTS] with the power spectrum POWER, clean and noisy."""
    clean = filtered(torch.randn(count, POINTS), POWER.sqrt())
    return clean, clean + NOISE * torch.randn(count, POINTS)


def draw(
    gain: torch.Tensor, wiener: torch.Tensor, clean: torch.Tensor, noisy: torch.Tensor, out: Path
) -> None:
    """Draws the gains of both filters, and a signal before and after the learned filter."""
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 3))
    left.plot(FREQUENCIES, gain, label="learned")
    left.plot(FREQUENCIES, wiener, "k--", label="Wiener")
    left.set(xlabel="frequency (cycles a point)", ylabel="gain")
    left.legend()
    right.plot(noisy, color="0.8", label="noisy")
    right.plot(clean, "k--", linewidth=1, label="clean")
    right.plot(filtered(noisy, gain), label="filtered")
    right.set(xlabel="point", ylabel="signal", ylim=(-4.5, 4))
    right.legend(ncols=3, loc="lower center")
    figure.savefig(out, dpi=100)


if __name__ == "__main__":
    main()
