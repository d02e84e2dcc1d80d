"""Random transforms of DTensors: shapes, meshes, placements, lengths, norms, precisions."""

import random

import pytest
import torch

from tests.trnfft.distributed import cases
from tests.trnfft.distributed.cases import Case

NAMES = [
    *("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"),
    *("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"),
]
REAL = ("rfft", "ihfft", "rfft2", "rfftn")


def random_case(generator, processes, backend):
    name = generator.choice(NAMES)
    least = 2 if name.endswith("2") else 1
    shape = tuple(generator.randint(1, 12) for _ in range(generator.randint(least, 4)))
    if name in ("irfft", "hfft", "irfft2", "irfftn"):
        shape = tuple(max(size, 2) for size in shape)
    if len(shape) == 1:
        shape = (generator.randint(2, 200),)
    mesh = generator.choice([(processes,), (2, processes // 2), (processes // 2, 2)])
    # Both dimensions of a mesh along the only one of a tensor is what is refused.
    placements = [generator.choice([*range(len(shape)), "R"]) for _ in mesh]
    if len(shape) == 1 and len(mesh) == 2:
        placements[generator.randrange(2)] = "R"
    if generator.random() < 0.1 and "R" in placements:
        placements[placements.index("R")] = "P"
    is_complex = name not in REAL and generator.random() < 0.8
    return Case(
        name,
        shape,
        mesh,
        tuple(placements),
        random_arguments(generator, name, shape),
        is_complex,
        form=generator.choice(["native", "joined", "parts"]),
        dtype=torch.float64 if backend == "torch" else torch.float32,
        backend=backend,
        seed=generator.randint(0, 1000),
    )


def random_arguments(generator, name, shape):
    arguments = {"norm": generator.choice([None, "backward", "ortho", "forward"])}
    if name[-1] in "2n":
        count = 2 if name.endswith("2") else generator.randint(1, len(shape))
        arguments["dim"] = generator.sample(range(-len(shape), 0), count)
        if generator.random() < 0.4:
            arguments["s"] = [generator.randint(1, 14) for _ in range(count)]
    else:
        arguments["dim"] = generator.randint(-len(shape), len(shape) - 1)
        if generator.random() < 0.4:
            arguments["n"] = generator.randint(1, 40)
    return arguments


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "backend", "count"),
    [
        ("two", "torch", 100),
        ("four", "torch", 250),
        ("four", "matmul", 50),
        ("four", "nki-sim", 20),
        ("eight", "torch", 100),
    ],
)
def test_random(request, processes, backend, count):
    """Slow, as it is hundreds of cases, and up to eight processes."""
    group = request.getfixturevalue(processes)
    generator = random.Random(count)
    size = {"two": 2, "four": 4, "eight": 8}[processes]
    chosen = [random_case(generator, size, backend) for _ in range(count)]
    group.run(cases.check, chosen)
