"""Long convolution: a recording in a room whose echo lasts as long as the recording.

Convolving n points with a filter of n points takes n^2 products; by transforms it takes about
n log n operations. The result is the same, and the longer the filter, the more time is saved.
`trnfft.convolve` is the function, `trnfft.nn.FFTConv1d` the layer that takes the place of a
`torch.nn.Conv1d`. As everywhere in torch, conv1d correlates: it gets the filter backwards.

Needs:   pip install .
Run:     python examples/long_convolution.py
         python examples/long_convolution.py --longest 65536
Prints:  for several lengths, milliseconds on one core of this CPU, and how far the results differ.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

import trnfft


def main() -> None:
    parser = argparse.ArgumentParser(description="Convolution with a filter as long as the signal.")
    parser.add_argument("--longest", type=int, default=32768, help="points; default: 32768")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)

    print("            conv1d   FFTConv1d    convolve")
    print("  points        ms          ms          ms   difference")
    for points in (512, 2048, 8192, arguments.longest):
        direct, layer, function, difference = compare(points)
        print(f"{points:8}{direct:10.2f}{layer:12.2f}{function:12.2f}{difference:13.0e}")
    print(f"At {points} points, transforms take 1/{direct / function:.0f} of the time.")


@torch.no_grad()
def compare(points: int) -> tuple[float, float, float, float]:
    """Milliseconds of the three ways, and the largest relative L2 difference from conv1d."""
    recording, echo = torch.randn(1, 1, points), room_echo(points)
    after_silence = torch.nn.functional.pad(recording, (points - 1, 0))
    backwards = echo.flip(-1)
    layer = trnfft.nn.FFTConv1d(1, 1, points, bias=False)
    layer.load_state_dict({"weight": backwards})  # as saved by torch.nn.Conv1d

    direct, direct_ms = timed(lambda: torch.nn.functional.conv1d(after_silence, backwards))
    of_layer, layer_ms = timed(lambda: layer(after_silence))
    full, function_ms = timed(lambda: trnfft.convolve(recording, echo, dims=-1))
    others = (of_layer, full[..., :points])  # convolve goes on until the echo has died away
    difference = max((other - direct).norm() / direct.norm() for other in others)
    return direct_ms, layer_ms, function_ms, float(difference)


def room_echo(points: int) -> torch.Tensor:
    """Noise that fades by 60 dB, [1, 1, points]."""
    return torch.randn(1, 1, points) * torch.logspace(0, -3, points)


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """What a function returns, and the shortest of three calls after the first in milliseconds."""
    result = function()
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return result, 1000 * min(seconds)


if __name__ == "__main__":
    main()
