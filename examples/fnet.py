"""FNet of the package transformers, unchanged but for one line.

FNet (Lee-Thorp et al., "FNet: mixing tokens with Fourier transforms", 2021) has a Fourier
transform of tokens and channels in place of attention. The model keeps torch.fft.fftn as it was
when the model was made; `trnfft.patch_torch()` takes that, too. Weights are random here;
FNetModel.from_pretrained("google/fnet-base") has learned ones.

Needs:   pip install . transformers
Run:     python examples/fnet.py
         python examples/fnet.py --backend nki-sim     # the NKI kernels, in the simulator
Prints:  how many kernels were launched, the relative L2 error of the output and of the gradient of
         the word embeddings against float64, and that of torch.
"""

import argparse
import copy

import torch
from transformers import FNetConfig, FNetModel

import trnfft
from nki_kernels import simulator


def main() -> None:
    parser = argparse.ArgumentParser(description="transformers' FNet, unchanged.")
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
    with backend, simulator.record() as timeline, trnfft.patch_torch():  # the one line
        ours = output_and_gradient(model, words)
    print(f"{timeline.launches} launches of kernels")
    for name, results in ((arguments.backend, ours), ("torch.fft", by_torch)):
        output, gradient = map(relative_error, results, exact)
        print(f"{name:10} relative L2 error {output:.1e}, of the gradient {gradient:.1e}")


def output_and_gradient(model: torch.nn.Module, words: torch.Tensor) -> list[torch.Tensor]:
    """The states of the last layer, and the gradient of a sum of them in the embeddings."""
    model.zero_grad()
    states = model(input_ids=words).last_hidden_state
    (states * torch.linspace(-1, 1, 64).roll(7)).sum().backward()
    embeddings = model.get_input_embeddings().weight  # type: ignore[operator]
    return [states.detach(), embeddings.grad]


def relative_error(actual: torch.Tensor, exact: torch.Tensor) -> float:
    return float((actual - exact).norm() / exact.norm())


if __name__ == "__main__":
    main()
