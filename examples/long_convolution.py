"""Long convolution: a recording in a room whose echo lasts as long as the recording.

A direct convolution of n points with a filter of n points needs n^2 products; with transforms it
needs about n log n operations. The result is the same, and longer filters save more time.
`trnfft.convolve` is a function, and `trnfft.nn.FFTConv1d` is a layer that replaces
`torch.nn.Conv1d`. Convolutions of torch are correlations, so that conv1d gets a reversed filter.

Needs:   pip install .
Run:     python examples/long_convolution.py
         python examples/long_convolution.py --longest 65536
Prints:  for several lengths, milliseconds on one core of this CPU, and the results' difference.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

import trnfft


def main() -> None:
    parser = argparse.ArgumentParser(description="Convolution with a filter as long as the signal.")
    parser.add_argument("--longest", type=int, default=32768, help="largest length; default: 32768")
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
    """Returns the milliseconds of the three ways, and the largest relative L2 difference."""
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
    """Returns noise that fades by 60 dB, [1, 1, points]."""
    return torch.randn(1, 1, points) * torch.logspace(0, -3, points)


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """Returns a function's result, and the milliseconds of the shortest of three more calls."""
    result = function()
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return result, 1000 * min(seconds)


if __name__ == "__main__":
    main()
