"""Tensors that XLA's partitioner splits over four virtual devices: transforms exchange nothing.

The tests run in a process of their own, because torch_xla fixes the number of devices and the
partitioning of programs when it first runs.
"""

import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import trnfft
from tests.tolerances import near, sums, together, transforms
from trnfft import ComplexTensor

torch_xla = pytest.importorskip("torch_xla", reason="needs torch_xla: ./scripts/test.sh --xla")

DEVICES = 4
COLLECTIVES = re.compile(
    r" (all-gather|all-to-all|all-reduce|reduce-scatter|collective-[a-z]+)(?:-start)?\("
)

# The lengths make all calls different programs, because XLA compiles equal programs only once.
CALLS = {
    "fft": lambda f, x: f.fft(x),
    "fft, Stockham": lambda f, x: f.fft(x, 1000),
    "fft, Bluestein": lambda f, x: f.fft(x, 257),
    "ifft": lambda f, x: f.ifft(x, 98),
    "rfft": lambda f, x: f.rfft(x),
    "irfft": lambda f, x: f.irfft(x),
    "fft2": lambda f, x: f.fft2(x.unflatten(-1, (10, 10))),
    "irfftn": lambda f, x: f.irfftn(x.unflatten(-1, (10, 10)), dim=(2, 3)),
    "fft of another dimension": lambda f, x: f.fft(x.unflatten(-1, (20, 5)), dim=2),
}


@pytest.fixture(scope="module")
def devices(tmp_path_factory):
    """Returns a function that calls another function in a process with four devices.

    The first argument of the other function is the folder for the programs that XLA compiles.
    """
    folder = tmp_path_factory.mktemp("compiled")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=_start) as process:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("PJRT_DEVICE", "CPU")
            environment.setenv("CPU_NUM_DEVICES", str(DEVICES))
            environment.setenv("XLA_FLAGS", f"--xla_dump_to={folder} --xla_dump_hlo_as_text")
            assert process.submit(_count).result() == DEVICES  # this call starts the process
        yield lambda function, *arguments: process.submit(function, folder, *arguments).result()


def _start():
    import torch_xla.runtime

    torch_xla.runtime.use_spmd()


def _count():
    import torch_xla.runtime

    return torch_xla.runtime.global_runtime_device_count()


def spread(x, dim, mesh_shape=(DEVICES,)):
    """Returns a tensor on the devices, split along the dimension.

    On a mesh of two dimensions the tensor is split along the next dimension, too.
    """
    from torch_xla.distributed import spmd

    names = tuple(f"devices {axis}" for axis in range(len(mesh_shape)))
    mesh = spmd.Mesh(np.arange(DEVICES), mesh_shape, names)
    spec = [None] * x.ndim
    spec[dim : dim + len(names)] = names
    given = x.to("xla")
    spmd.mark_sharding(given, mesh, tuple(spec))
    return given


def sharding_of(x):
    return torch_xla._XLAC._get_xla_sharding_spec(x)


def parts_of(y):
    return [y.real, y.imag] if y.is_complex() else [y]


def collectives_of(folder, tensors):
    """Returns the devices' exchanges to compute the tensors, from XLA's program for each device."""
    for file in Path(folder).iterdir():
        file.unlink()
    torch_xla._XLAC._xla_sync_multi(tensors, devices=[], wait=True)
    programs = [file.read_text() for file in Path(folder).glob("*after_optimizations.txt")]
    assert programs, "nothing was compiled"
    return sorted({name for text in programs for name in COLLECTIVES.findall(text)})


def check(parts, wanted, tolerance):
    """Fails unless a result, of two parts or of a real tensor, is near what is wanted."""
    parts = [part.cpu() for part in parts]
    near(ComplexTensor(*parts) if len(parts) == 2 else parts[0], wanted, tolerance)


def is_split_like(x, given):
    """Returns whether the first two dimensions are split over the devices in the same way."""
    specs = [re.findall(r"devices=\[(\d+),(\d+)", sharding_of(y)) for y in (x, given)]
    return specs[0] == specs[1] != []


def sample(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def transformed(folder, call, mesh_shape):
    """Returns the collectives, and whether the checked result is split like the input."""
    x = sample(8, 4, 100)
    given = spread(x, 0, mesh_shape)
    torch_xla.sync(wait=True)
    parts = parts_of(CALLS[call](trnfft, given))
    collectives = collectives_of(folder, parts)
    is_split = all(is_split_like(part, given) for part in parts)
    check(parts, CALLS[call](torch.fft, x.double()), transforms(4 * 1000, 2))
    return collectives, is_split


def layer(name, *arguments):
    """Returns a layer of trnfft.nn as a function with the same weights on every device."""

    def apply(x):
        torch.manual_seed(0)
        return getattr(trnfft.nn, name)(*arguments).to(x.device)(x)

    return apply


def there_and_back(x):
    window = torch.hann_window(32).to(x.device)
    return trnfft.istft(trnfft.stft(x[:, 0], 32, 8, window=window), 32, 8, window=window)


def with_bloom(x):
    light = trnfft.point_spread_functions.gaussian(5, 1.0).to(x.device)
    return trnfft.bloom(x.unflatten(-1, (10, 10)), light, strength=0.5)


OTHERS = {
    "dct": trnfft.dct,
    "czt": lambda x: trnfft.czt(x, 20),
    "fht": lambda x: trnfft.fht(x, 0.1, 0.5),
    "stft and istft": there_and_back,
    "bloom": with_bloom,
    "SpectralConv1d": layer("SpectralConv1d", 4, 4, 9),
    "FFTConv1d": layer("FFTConv1d", 4, 4, 7),
    "BlockCirculantLinear": layer("BlockCirculantLinear", 100, 64, 16),
}


def computed(folder, name):
    """Returns the results of `transformed`, compared with the same computation on the CPU."""
    x = sample(8, 4, 100)
    given = spread(x, 0)
    torch_xla.sync(wait=True)
    with torch.no_grad():
        parts, wanted = parts_of(OTHERS[name](given)), OTHERS[name](x)
    collectives = collectives_of(folder, parts)
    is_split = all(is_split_like(part, given) for part in parts)
    # At most a convolution of twice the points, and sums over channels, on both places.
    check(parts, wanted, together(transforms(4 * 100, 4), sums(2 * 2 * 4 * 7)))
    return collectives, is_split


def in_planned_order(folder, rows, mesh_shape):
    """Returns the results of `transformed` for an inverse of products in planned order."""
    z = ComplexTensor(sample(rows, 4, 72), sample(rows, 4, 72, seed=1))
    given_parts = [spread(part, 0, mesh_shape) for part in (z.real, z.imag)]
    given = ComplexTensor(*given_parts)
    torch_xla.sync(wait=True)
    spectrum = trnfft.fft(given, order="planned")
    parts = parts_of(trnfft.ifft(spectrum * spectrum, order="planned"))
    collectives = collectives_of(folder, parts)
    is_split = all(is_split_like(part, given_parts[0]) for part in parts)
    wanted = torch.fft.ifft(torch.fft.fft(z.to_complex().to(torch.complex128)) ** 2)
    check(parts, wanted, together(transforms(72, 2), sums(2)))
    return collectives, is_split


def convolved(folder):
    x, h = sample(8, 4, 100), sample(9)
    given, filter = spread(x, 0), h.to("xla")
    torch_xla.sync(wait=True)
    y = trnfft.convolve(given, filter, "same", dims=-1)
    collectives = collectives_of(folder, [y])
    wanted = trnfft.convolve(x.double(), h.double(), "same", dims=-1)
    check([y], wanted, transforms(4 * 100, 2))
    return collectives, is_split_like(y, given)


def derivatives_of(x, weights):
    """Returns the gradient of a function of third order, and the gradient of its square."""
    y = trnfft.rfft(x)
    size = (y.real * y.real + y.imag * y.imag) * y.real
    (first,) = torch.autograd.grad(size, x, weights, create_graph=True)
    (second,) = torch.autograd.grad(first * first, x, torch.ones_like(x))
    return [first.detach(), second]


def derivatives(folder, n):
    """Returns collectives of both derivatives, which are checked, and whether both are split."""
    x, weights = sample(8, 4, n), sample(8, 4, n // 2 + 1, seed=1)
    given, given_weights = spread(x, 0).requires_grad_(), spread(weights, 0)
    torch_xla.sync(wait=True)
    found = derivatives_of(given, given_weights)
    collectives = collectives_of(folder, found)
    wanted = derivatives_of(x.double().requires_grad_(), weights.double())
    is_split = all(is_split_like(y, given) for y in found)
    for y, w in zip(found, wanted, strict=True):
        check([y], w, transforms(4 * n, 2 * 4))  # four transforms lead to the second derivative
    return collectives, is_split


MESHES = [(4,), (2, 2)]
SPLIT = [
    *((transformed, call, mesh) for call in CALLS for mesh in MESHES),
    *((computed, name) for name in OTHERS),
    *((in_planned_order, 4, mesh) for mesh in MESHES),
    (convolved,),
    *((derivatives, n) for n in (30, 1000, 257)),
]


@pytest.mark.parametrize("case", SPLIT, ids=lambda case: f"{case[0].__name__} {case[1:]}")
def test_nothing_is_exchanged(devices, case):
    collectives, is_split = devices(*case)
    assert collectives == []
    assert is_split


def by_backend(folder, backend):
    """Returns the number of reads by the host, and how the result, which is checked, is split."""
    from torch_xla.debug import metrics

    x = sample(8, 4, 90)
    given = spread(x, 0)
    torch_xla.sync(wait=True)
    metrics.clear_all()
    with trnfft.backend(backend):
        parts = parts_of(trnfft.fft(given))
    torch_xla.sync(wait=True)
    reads = (metrics.metric_data("TransferFromDeviceTime") or (0,))[0]
    check(parts, torch.fft.fft(x.double()), transforms(90))
    return reads, sharding_of(parts[0])


@pytest.mark.parametrize("backend", ["torch", "nki-sim"])
def test_backends_of_the_host_bring_all_there(devices, backend):
    reads, sharding = devices(by_backend, backend)
    assert reads > 0
    assert "replicated" in sharding


def along_the_split(folder):
    x = sample(8, 4, 60)
    given = spread(x, 2)
    torch_xla.sync(wait=True)
    parts = parts_of(trnfft.fft(given))
    collectives = collectives_of(folder, parts)
    check(parts, torch.fft.fft(x.double()), transforms(60))
    return collectives


def test_a_split_dimension_is_gathered(devices):
    """XLA gathers a dimension that is split and transformed; the measure above detects it."""
    assert devices(along_the_split) == ["all-gather"]
