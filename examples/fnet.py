"""FNet of the package transformers, changed in one line only.

FNet (Lee-Thorp et al., "FNet: mixing tokens with Fourier transforms", 2021) uses a Fourier
transform over tokens and channels instead of attention. The model stores the function
torch.fft.fftn when it is made; `trnfft.patch_torch()` replaces the stored function, too. The
weights are random here; FNetModel.from_pretrained("google/fnet-base") loads trained weights.

Needs:   pip install . transformers
Run:     python examples/fnet.py
         python examples/fnet.py --backend nki-sim     # the NKI kernels, in the simulator
Prints:  the number of launched kernels; the relative L2 error, against float64, of the output and
         of the gradient of the word embeddings; and the same errors with torch.fft.
"""

import argparse
import copy

import torch
from transformers import FNetConfig, FNetModel

import nki_sim
import trnfft


def main() -> None:
    parser = argparse.ArgumentParser(description="transformers' FNet, changed in one line only.")
    parser.add_argument("--backend", default="matmul", help="auto, torch, matmul or nki-sim")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    config = FNetConfig(
        vocab_size=100,
        hidden_size=64,
        num_hidden_layers=2,
        intermediate_size=128,
        max_position_embeddings=64,
    )
    model = FNetModel(config).eval()
    words = torch.randint(0, 100, (2, 64))

    exact = output_and_gradient(copy.deepcopy(model).double(), words)
    by_torch = output_and_gradient(model, words)
    backend = trnfft.backend(arguments.backend)
    with backend, nki_sim.record() as timeline, trnfft.patch_torch():  # the one line
        ours = output_and_gradient(model, words)
    print(f"{timeline.launches} launches of kernels")
    for name, results in ((arguments.backend, ours), ("torch.fft", by_torch)):
        output, gradient = map(relative_error, results, exact)
        print(f"{name:10} relative L2 error {output:.1e}, of the gradient {gradient:.1e}")


def output_and_gradient(model: torch.nn.Module, words: torch.Tensor) -> list[torch.Tensor]:
    """Returns the last layer's states, and the embeddings' gradient of a weighted sum of them."""
    model.zero_grad()
    states = model(input_ids=words).last_hidden_state
    (states * torch.linspace(-1, 1, 64).roll(7)).sum().backward()
    embeddings = model.get_input_embeddings().weight  # type: ignore[operator]
    return [states.detach(), embeddings.grad]


def relative_error(actual: torch.Tensor, exact: torch.Tensor) -> float:
    return float((actual - exact).norm() / exact.norm())


if __name__ == "__main__":
    main()
