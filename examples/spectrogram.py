"""Spectrogram of a recording: the frequencies that sound at each time.

The short-time Fourier transform cuts a recording into overlapping frames, multiplies each frame by
a window, and transforms all frames at once. Without a file the script uses the electrocardiogram of
PyWavelets, which has three heart beats, and the hum of the mains as a line at 60 Hz.

Needs:   pip install ".[demo]"
Run:     python examples/spectrogram.py
         python examples/spectrogram.py speech.wav --frame 512 --out speech.png    # or .npy, .csv
         python examples/spectrogram.py --backend nki-sim    # the NKI kernels, in the simulator
Prints:  the size of the spectrogram, and the error of the recording that `istft` restores.
Writes:  a picture, spectrogram.png.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

import trnfft
from trnfft_demo.recording import read_recording

RANGE_DB = 60  # magnitudes that are weaker than the strongest by more are black


def main() -> None:
    parser = argparse.ArgumentParser(description="Spectrogram of a recording.")
    parser.add_argument("file", nargs="?", type=Path, help="recording; default: an ECG")
    parser.add_argument("--frame", type=int, default=96, help="samples of a frame; default: 96")
    parser.add_argument("--backend", default="auto", help="auto, torch, matmul or nki-sim")
    parser.add_argument("--out", type=Path, default=Path("spectrogram.png"), help="PNG to write")
    arguments = parser.parse_args()

    recording = read_recording(arguments.file)
    samples = torch.from_numpy(recording.samples - recording.samples.mean()).float()
    rate = recording.sample_rate or 1.0
    frame = arguments.frame
    n_fft = 4 * frame  # zeros around every frame make the steps between frequencies smaller
    hop = max(1, frame // 16)
    window = torch.hann_window(frame)
    with trnfft.backend(arguments.backend):
        spectrum = trnfft.stft(samples, n_fft, hop, frame, window)  # complex [F, T]
        restored = trnfft.istft(spectrum, n_fft, hop, frame, window, length=len(samples))
    error = (restored - samples).norm() / samples.norm()

    frequencies, frames = spectrum.shape
    print(f"recording     {len(samples)} samples at {rate:g} Hz: {len(samples) / rate:.2f} s")
    print(f"spectrogram   {frequencies} frequencies x {frames} frames of {frame} samples")
    print(f"steps         {rate / n_fft:.2f} Hz in frequency, {1000 * hop / rate:.1f} ms in time")
    print(f"istft         restores the recording with a relative L2 error of {error:.0e}")
    draw(samples, spectrum.abs(), rate, hop, arguments.out)
    print(f"wrote         {arguments.out}")


def draw(samples: torch.Tensor, magnitude: torch.Tensor, rate: float, hop: int, out: Path) -> None:
    """Draws the recording, and below it the magnitudes [F, T] relative to the strongest, in dB."""
    level = 20 * torch.log10(magnitude / magnitude.max() + 1e-9)
    frequencies, frames = magnitude.shape
    figure = Figure(figsize=(8, 5), layout="constrained")
    above, below = figure.subplots(2, sharex=True, height_ratios=(1, 2))
    above.plot(np.arange(len(samples)) / rate, samples, linewidth=0.8)
    above.set_ylabel("amplitude")
    image = below.imshow(
        level,
        origin="lower",
        aspect="auto",
        interpolation="bilinear",
        extent=(0, (frames - 1) * hop / rate, 0, rate / 2),
        vmin=-RANGE_DB,
        cmap="magma",
    )
    below.set_xlabel("time (s)")
    below.set_ylabel("frequency (Hz)")
    figure.colorbar(image, ax=below, label="dB, the strongest is 0")
    figure.savefig(out, dpi=100)


if __name__ == "__main__":
    main()
