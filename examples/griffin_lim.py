"""Griffin-Lim: a signal from the absolute values of its spectrogram, with torch's own functions.

After `trnfft.patch_torch().start()`, the first line of `main`, trnfft computes torch.stft and
torch.istft in every thread. The algorithm itself is written for PyTorch alone. Its spectra are
ComplexTensors, whose absolute values, products and quotients are written like those of native
tensors. (Griffin and Lim, "Signal estimation from modified short-time Fourier transform", 1984.)

Needs:   pip install .
Run:     python examples/griffin_lim.py
         python examples/griffin_lim.py --backend nki-sim    # the NKI kernels, in the simulator
Prints:  the difference of the estimate's spectrogram from the given one, as the estimate improves.
"""

import argparse

import torch

import trnfft

FRAME, HOP = 128, 32
WINDOW = torch.hann_window(FRAME)


def main() -> None:
    trnfft.patch_torch().start()  # the one line
    parser = argparse.ArgumentParser(description="Estimate a signal from its spectrogram.")
    parser.add_argument("--steps", type=int, default=60, help="iterations; default: 60")
    parser.add_argument("--backend", default="auto", help="auto, torch, matmul or nki-sim")
    arguments = parser.parse_args()
    trnfft.set_backend(arguments.backend)
    torch.manual_seed(0)

    signal = chirp(4000)
    magnitudes = spectra_of(signal).abs()
    spectra = magnitudes * spectra_of(torch.randn(4000)).sgn()  # phases of noise
    for step in range(arguments.steps + 1):
        estimate = torch.istft(spectra, FRAME, HOP, window=WINDOW, length=len(signal))
        consistent = spectra_of(estimate)
        if step % 20 == 0:
            distance = (consistent.abs() - magnitudes).norm() / magnitudes.norm()
            print(f"step {step:3}  spectrogram off by {distance.item():6.1%}")
        spectra = magnitudes * consistent.sgn()
    print(f"spectra have the dtype {spectra.dtype}")


def spectra_of(signal: torch.Tensor) -> torch.Tensor:
    return torch.stft(signal, FRAME, HOP, window=WINDOW, return_complex=True)


def chirp(length: int) -> torch.Tensor:
    """Returns a tone that rises from 1/40 to 1/8 of the sampling rate, and a third above it."""
    position = torch.arange(length) / length
    phase = 2 * torch.pi * length * (position / 40 + position**2 / 20)
    return torch.sin(phase) + 0.5 * torch.sin(1.26 * phase)


if __name__ == "__main__":
    main()
