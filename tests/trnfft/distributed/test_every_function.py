"""Every public name with DTensors: no communication, all-to-alls only, or an error with advice.

Each call in the table runs with an input that is split along each of its dimensions in turn. Along
dimensions on which the function does not work, nothing may be sent; along the others, only
all-to-alls.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch

import trnfft
from tests import sweeps
from tests.tolerances import sums, together, transforms
from tests.trnfft.distributed import cases
from tests.trnfft.distributed.cases import Case
from trnfft import nn

# Names that take no tensors, or make the functions and tensors of the table.
WITHOUT_INPUT = {
    *("as_complex_tensor", "as_native"),
    *("get_complex_storage", "set_complex_storage"),
    *("FftPlan", "__version__", "backend", "distributed", "export_wisdom", "fft_workspace_bytes"),
    *("fftfreq", "fhtoffset", "forget_wisdom", "get_backend", "get_precision", "import_wisdom"),
    *("next_fast_len", "nn", "nn.convert_linear", "order", "plan", "plan_layer"),
    *(
        "point_spread_functions",
        "precision",
        "rfftfreq",
        "scipy_backend",
        "set_backend",
        "set_precision",
    ),
}


@dataclass(frozen=True)
class Entry:
    """A call.

    Attributes:
        call: of a tensor.
        shape: of the tensor.
        free: dimensions whose splits need no communication.
        along: those whose splits need all-to-alls.
        is_complex: whether the tensor is.
        layer: makes one; `call` gets the layer first.
    """

    call: Callable
    shape: tuple
    free: tuple
    along: tuple
    is_complex: bool = False
    layer: Callable | None = None


ROWS, SPECTRA, IMAGES = (7, 10, 12), (7, 5, 9), (7, 4, 8, 10)
TAPS = torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
PSF = torch.arange(15, dtype=torch.float64).reshape(3, 5) / 105
WINDOW = torch.hann_window(8, dtype=torch.float64)


def table():
    return {**functions(), **methods(), **layers()}


def like(values, x):
    """A constant of the table in the dtype of the parts of an input."""
    return values.to(x.real.dtype)


def functions():
    found = {
        "bloom": Entry(lambda x: trnfft.bloom(x, like(PSF, x)), IMAGES, (0, 1), (2, 3)),
        "bloom by channels": Entry(
            lambda x: trnfft.bloom(x, like(PSF, x).expand(4, 3, 5)), IMAGES, (0,), (1, 2, 3)
        ),
        "BloomFilter": Entry(
            lambda x: trnfft.BloomFilter(like(PSF, x), (8, 10), padding="mirror")(x, 0.5),
            *(IMAGES, (0, 1), (2, 3)),
        ),
        "convolve": Entry(
            lambda x: trnfft.convolve(x, like(TAPS, x), "same", -1), ROWS, (0, 1), (2,)
        ),
        "convolve circular": Entry(
            lambda x: trnfft.convolve(x, like(TAPS, x), "same", -1, "circular"), ROWS, (0, 1), (2,)
        ),
        "convolve mirror": Entry(
            lambda x: trnfft.convolve(x, like(PSF, x)[None], "same", (1, 2), "mirror"),
            *(ROWS, (0,), (1, 2)),
        ),
        "oaconvolve": Entry(
            lambda x: trnfft.oaconvolve(x, like(TAPS, x), dims=-1), ROWS, (0, 1), (2,)
        ),
        "oaconvolve by rows": Entry(
            lambda x: trnfft.oaconvolve(x, like(TAPS, x).expand(10, 3), dims=-1),
            *(ROWS, (0,), (1, 2)),
        ),
        "czt": Entry(lambda x: trnfft.czt(x, 5, 0.99 + 0.1j), ROWS, (0, 1), (2,)),
        "zoom_fft": Entry(
            lambda x: trnfft.zoom_fft(x, [0.1, 0.3], 7, axis=1), ROWS, (0, 2), (1,), True
        ),
        "fht": Entry(lambda x: trnfft.fht(x, 0.1, 0.5), ROWS, (0, 1), (2,)),
        "ifht": Entry(lambda x: trnfft.ifht(x, 0.1, 0.5, bias=0.1), ROWS, (0, 1), (2,)),
        "fft planned": Entry(lambda x: trnfft.fft(x, order="planned"), ROWS, (0, 1), ()),
        "fftshift": Entry(lambda x: trnfft.fftshift(x, (1, 2)), ROWS, (0,), (1, 2)),
        "ifftshift": Entry(lambda x: trnfft.ifftshift(x, 1), ROWS, (0, 2), (1,), True),
        "stft": Entry(lambda x: trnfft.stft(x, 8, 2, window=like(WINDOW, x)), (6, 40), (0,), (1,)),
        "stft as pairs": Entry(
            lambda x: trnfft.stft(x, 8, 2, return_complex=False), (6, 40), (0,), (1,)
        ),
        "istft": Entry(
            lambda x: trnfft.istft(x, 8, 2, window=like(WINDOW, x)), SPECTRA, (0,), (1, 2), True
        ),
        "pack_spectrum": Entry(trnfft.pack_spectrum, SPECTRA, (0, 1), (2,), True),
        "unpack_spectrum": Entry(trnfft.unpack_spectrum, SPECTRA, (0, 1), (2,), True),
        "plan_fft": Entry(lambda x: trnfft.plan_fft(x, "r2c", dim=1)(x), ROWS, (0, 2), (1,)),
        "patch_torch fft": Entry(
            lambda x: patched(lambda: torch.fft.fft(x, 14, 1)), ROWS, (0, 2), (1,), True
        ),
        "patch_torch rfft2": Entry(
            lambda x: patched(lambda: torch.fft.rfft2(x)), ROWS, (0,), (1, 2)
        ),
        "patch_torch stft": Entry(
            lambda x: patched(lambda: torch.stft(x, 8, 2, return_complex=True)), (6, 40), (0,), (1,)
        ),
    }
    for name in ("dct", "dst", "idct", "idst"):
        for kind in (1, 2, 3, 4):
            found[f"{name} {kind}"] = Entry(
                lambda x, name=name, kind=kind: getattr(trnfft, name)(x, kind, 11, 1),
                *(ROWS, (0, 2), (1,), kind == 2),
            )
        found[f"{name}n"] = Entry(
            lambda x, name=name: getattr(trnfft, f"{name}n")(x, 2, axes=(1, 2)), ROWS, (0,), (1, 2)
        )
    for name in trnfft.__all__:
        if "fft" in name and hasattr(torch.fft, name) and "shift" not in name and "q" not in name:
            is_complex = name not in ("rfft", "rfft2", "rfftn", "ihfft", "ihfft2", "ihfftn")
            dims = (1, 2) if name[-1] in "2n" else (1,)
            found[name] = Entry(
                lambda x, name=name, dims=dims: getattr(trnfft, name)(
                    x, dim=dims if len(dims) > 1 else dims[0]
                ),
                *(ROWS, (0,) if len(dims) > 1 else (0, 2), dims, is_complex),
            )
    return found


def patched(call):
    with trnfft.patch_torch():
        return call()


METHODS = {
    "real": lambda z: z.real,
    "imag": lambda z: z.imag,
    "abs": lambda z: z.abs(),
    "angle": lambda z: z.angle(),
    "conj": lambda z: z.conj(),
    "exp": lambda z: z.exp(),
    "+": lambda z: z + z.real + 1j,
    "-": lambda z: 2 - z,
    "*": lambda z: z * z * 2j,
    "/": lambda z: (1 + z) / z,
    "**": lambda z: z**2,
    "==": lambda z: (z == z).double(),
    "in place": lambda z: z.clone().mul_(2j).add_(z),
    "sum": lambda z: z.sum(2),
    "mean": lambda z: z.mean(2),
    "[]": lambda z: z[..., 1:3],
    "mT": lambda z: z.transpose(0, 1).contiguous().transpose(0, 1),
    "to": lambda z: z.to(torch.float32).to(torch.complex128),
    "detach": lambda z: z.clone().detach(),
    "where": lambda z: torch.where(z.real > 0, z, -z),
    "cat": lambda z: torch.cat([z, z], 2),
    "stack": lambda z: torch.stack([z, z], -1),
    "zeros_like": lambda z: torch.zeros_like(z) + 1,
    "view_as_real": lambda z: torch.view_as_real(z) + 0,
    "vector_norm": lambda z: torch.linalg.vector_norm(z, dim=2),
    "copy": copy.deepcopy,
}


def methods():
    """Of ComplexTensors whose parts are DTensors, with uneven shards."""
    return {
        f"ComplexTensor {name}": Entry(call, (5, 7, 9), (0, 1), (), True)
        for name, call in METHODS.items()
    }


def layers():
    complex_rows, fields = (ROWS, (0,), (1, 2), True), ((7, 3, 8, 10), (0,), (1, 2, 3))
    of_rows = (ROWS, (0,), (1, 2))
    found = {
        "BlockCirculantLinear": (lambda: nn.BlockCirculantLinear(12, 8, 4), ROWS, (0, 1), (2,)),
        "ComplexBatchNorm": (lambda: nn.ComplexBatchNorm(10).eval(), ROWS, (0, 1, 2), (), True),
        "ComplexConv1d": (lambda: nn.ComplexConv1d(10, 4, 3, padding=1), *complex_rows),
        "ComplexConv2d": (lambda: nn.ComplexConv2d(4, 4, 3), IMAGES, (0,), (1, 2, 3), True),
        "ComplexLinear": (lambda: nn.ComplexLinear(12, 8), ROWS, (0, 1), (2,), True),
        "FFTConv1d": (lambda: nn.FFTConv1d(10, 4, 3, padding=1), *of_rows),
        "FFTConv1d by channels": (lambda: nn.FFTConv1d(10, 10, 3, groups=10), *of_rows),
        "FFTConv2d": (lambda: nn.FFTConv2d(4, 4, 3, padding=1), IMAGES, (0,), (1, 2, 3)),
        "FNetMixer": (lambda: nn.FNetMixer(), *of_rows),
        "InverseSpectrogram": (
            lambda: nn.InverseSpectrogram(8, hop_length=2),
            *(SPECTRA, (0,), (1, 2), True),
        ),
        "MelScale": (lambda: nn.MelScale(4, n_stft=5), SPECTRA, (0, 2), (1,)),
        "MelSpectrogram": (
            lambda: nn.MelSpectrogram(n_fft=8, hop_length=2, n_mels=4),
            *((6, 40), (0,), (1,)),
        ),
        "ModReLU": (lambda: nn.ModReLU(10), ROWS, (0, 1, 2), (), True),
        "Spectrogram": (lambda: nn.Spectrogram(8, hop_length=2), (6, 5, 40), (0, 1), (2,)),
        "SpectralConv": (lambda: nn.SpectralConv(3, 2, (4, 4)), *fields),
        "SpectralConv1d": (lambda: nn.SpectralConv1d(10, 4, 3), *of_rows),
        "SpectralConv2d": (lambda: nn.SpectralConv2d(3, 2, 3, 3), *fields),
        "SpectralConv3d": (
            lambda: nn.SpectralConv3d(3, 2, 2, 2, 2),
            *((6, 3, 4, 5, 6), (0,), (1, 2, 3, 4)),
        ),
    }
    made = {
        f"nn.{name}": Entry(lambda layer, x: layer(x), *rest, layer=layer)
        for name, (layer, *rest) in found.items()
    }
    made["nn.LongConv"] = Entry(
        lambda layer, x: layer(x, like(PSF, x)[:1]), ROWS, (0, 1), (2,), layer=nn.LongConv
    )
    return made


def tolerance(dtype, degree=1):
    """Of a layer: four transforms of up to 40 points in four dimensions, and sums over 120 numbers.

    Those of a function are fewer. Derivatives of some degree are of as many layers in turn.
    """
    return together(transforms(40**2, 4 * degree, dtype), sums(120 * degree, dtype))


# Each kind of work for backends that plan it.
OF_BACKENDS = ("fft", "fft planned", "rfft2", "irfft", "dct 2", "czt", "stft", "convolve")


def outcomes(rank, processes, backend, form, splits):
    """What each call with each split sends; fails unless its result is as by one process.

    splits: "all", or "some", which is one of those that send nothing, and the others; or "rows"
        of some functions, of which there are so few that the last of four processes has none.
    """
    found = {}
    with trnfft.backend(backend):
        for name, entry in table().items():
            if splits == "rows":
                if name in OF_BACKENDS:
                    few = replace(entry, shape=(6, *entry.shape[1:]))
                    found[name, 0] = outcome(name, few, 0, processes, backend, form)
                continue
            if (form == "tensors" and entry.layer) or (form != "tensors" and not entry.layer):
                continue
            dims = (*entry.free[: None if splits == "all" else 1], *entry.along)
            if form == "copies" or name.endswith((" 1", " 3", " 4")) or not entry.along:
                dims = (*entry.free[:1], *entry.along[:1])  # others like them have other splits
            for dim in dims:
                found[name, dim] = outcome(name, entry, dim, processes, backend, form)
    return found


def layers_of(entry, form, dtype, processes=2):
    """The layer of an entry, and a copy, whose parameters are DTensors for the form "copies"."""
    from torch.distributed.tensor import distribute_module

    torch.manual_seed(0)
    layer = entry.layer().to(dtype)
    spread_layer = copy.deepcopy(layer)
    if form == "copies":
        spread_layer = distribute_module(spread_layer, cases.mesh_of((processes,)))
    return layer, spread_layer


def outcome(name, entry, dim, processes, backend, form):
    dtype = torch.float64 if backend == "torch" else torch.float32
    mesh = (processes,)
    case = Case("", entry.shape, mesh, (dim,), is_complex=entry.is_complex, form="parts")
    x = cases.sample(case)
    x = trnfft.ComplexTensor.from_complex(x) if entry.is_complex else x
    given = cases.spread(trnfft.as_native(x) if entry.is_complex else x, case)
    x, given = x.to(dtype), given.to(dtype)
    call = spread_call = entry.call
    if entry.layer is not None:
        both = layers_of(entry, form, dtype, processes)
        call, spread_call = (lambda x, one=one: entry.call(one, x) for one in both)
    with torch.no_grad():
        y, counts = cases.counted(lambda: spread_call(given))
        wanted = call(x)
    check(y, wanted, tolerance(dtype), f"{name}, {dim}")
    return set(counts)


def check(y, wanted, tolerance, message):
    """Fails unless y is split, and this process's part is of `wanted`."""
    part = y.real if y.is_complex() else y
    assert all(placement.is_shard() for placement in part.placements), (message, part.placements)
    cases.compare(y, wanted, tolerance, message=message)


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("processes", "backend", "form", "splits"),
    [
        ("two", "torch", "tensors", "some"),
        ("two", "torch", "layers", "some"),
        ("two", "torch", "copies", "some"),
        ("four", "matmul", "tensors", "rows"),
        sweeps.whole("two", "torch", "tensors", "all"),
        sweeps.whole("two", "torch", "layers", "all"),
        *(
            pytest.param(*case, "all", marks=pytest.mark.slow)
            for case in [
                ("four", "torch", "tensors"),
                ("four", "torch", "copies"),
                ("four", "matmul", "tensors"),
                ("four", "matmul", "layers"),
                ("two", "nki-sim", "tensors"),
                ("two", "nki-sim", "layers"),
            ]
        ),
    ],
)
def test_numbers_and_communication(request, processes, backend, form, splits):
    """Layers with parameters of each process, and with such that are DTensors of copies.

    Slow for all functions with four, and with backends that plan or simulate.
    """
    group, count = request.getfixturevalue(processes), {"two": 2, "four": 4}[processes]
    entries = table()
    for found in group.run(outcomes, count, backend, form, splits):
        for (name, dim), sent in found.items():
            assert all("all_to_all" in each or "alltoall" in each for each in sent), (name, sent)
            assert bool(sent) == (dim in entries[name].along), (name, dim, sent)


def test_all_names_are_here():
    names = {name.split()[0] for name in table()}
    public = {*trnfft.__all__, *(f"nn.{name}" for name in nn.__all__)}
    assert public - names == WITHOUT_INPUT


# Where parameters or arguments get gradients: shards, and dimensions to split.
TRAINED = {
    "nn.BlockCirculantLinear": (0, 2),
    "nn.ComplexBatchNorm": (0, 2),
    "nn.ComplexConv1d": (0, 1),
    "nn.ComplexLinear": (1, 2),
    "nn.FFTConv1d": (0, 2),
    "nn.FFTConv1d by channels": (0, 1),
    "nn.ModReLU": (0, 1),
    "nn.SpectralConv": (0, 2),
    "nn.SpectralConv2d": (0, 3),
}


def loss_of(y):
    size = y.real * y.real + y.imag * y.imag if y.is_complex() else y * y
    return (size * size).sum()


def gradients(rank, form, splits):
    """Fails unless gradients of each layer and of so many splits are as by one process."""
    from torch.distributed.tensor import DTensor

    entries = table()
    for name, dims in TRAINED.items():
        entry = entries[name]
        for dim in dims[:splits]:
            case = Case("", entry.shape, (2,), (dim,), is_complex=entry.is_complex, form="parts")
            x = cases.sample(case)
            given = cases.spread(x, case).requires_grad_()
            x = (trnfft.ComplexTensor.from_complex(x) if entry.is_complex else x).requires_grad_()
            layer, spread_layer = layers_of(entry, form, torch.float64)
            loss_of(layer(x)).backward()
            loss_of(spread_layer(given)).backward()
            message = f"{name}, {dim}"
            check(given.grad, x.grad.detach(), tolerance("float64", 2), message)
            for one, own in zip(layer.parameters(), spread_layer.parameters(), strict=True):
                assert isinstance(own.grad, DTensor) == (form == "copies")
                cases.near(own.grad, one.grad, tolerance("float64", 2), message=message)


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("form", "splits"), [("layers", 2), ("copies", 1), sweeps.whole("copies", 2)]
)
def test_gradients_of_parameters(two, form, splits):
    two.run(gradients, form, splits)


def gradients_of_arguments(rank):
    """Checks gradients of arguments that all have copies of, first and second."""
    case = Case("", IMAGES, (2,), (0,), is_complex=False)
    x = cases.sample(case)
    for name, call, values in [
        ("oaconvolve", lambda x, h: trnfft.oaconvolve(x, h, dims=-1), TAPS),
        ("convolve", lambda x, h: trnfft.convolve(x, h, dims=-1), TAPS),
        ("convolve circular", lambda x, h: trnfft.convolve(x, h, "same", -1, "circular"), TAPS),
        ("LongConv", lambda x, k: nn.LongConv()(x[:, 0], k), PSF[:1]),
        ("bloom", trnfft.bloom, PSF),
        ("BloomFilter", lambda x, psf: trnfft.BloomFilter(psf, (8, 10))(x), PSF),
        ("stft", lambda x, w: trnfft.stft(x.flatten(1), 8, 3, window=w), WINDOW + 1),
    ]:
        for dim in (0, 3) if name not in ("stft", "LongConv") else (0,):
            split = cases.spread(x, Case("", IMAGES, (2,), (dim,), is_complex=False))
            found = []
            for given in (x, split):
                argument = values.clone().requires_grad_()
                loss = loss_of(call(given, argument))
                (first,) = torch.autograd.grad(loss, argument, create_graph=True)
                (second,) = torch.autograd.grad((first * first).sum(), argument)
                found.append((first, second))
            for wanted, own in zip(*found, strict=True):
                cases.near(own, wanted, tolerance("float64", 4), message=f"{name}, {dim}")


def test_gradients_of_arguments(two):
    two.run(gradients_of_arguments)


def compiled(rank, chosen):
    """Collectives of compiled calls; fails unless they and their gradients are as without."""
    found, entries = {}, table()
    for name, dim, form in chosen:
        entry = entries[name]
        case = Case("", entry.shape, (2,), (dim,), is_complex=False)
        x, call, parameters = cases.spread(cases.sample(case), case), entry.call, []
        if entry.layer is not None:
            _, call = layers_of(entry, form, torch.float64)
            parameters = list(call.parameters())
        collectives = cases.compiled(
            lambda x, *parameters, call=call: call(x),
            [x.requires_grad_(), *parameters],
            tolerance("float64", 2),
            f"{name}, {dim}, {form}",
        )
        found[name, dim, form] = set(collectives)
    return found


@pytest.mark.slow
def test_compiled(two):
    """Slow, as it loads torch's compiler."""
    chosen = [
        ("fft", 1, ""),
        ("rfft", 0, ""),
        ("fftn", 1, ""),
        ("convolve", 2, ""),
        ("dct 1", 1, ""),
        ("stft", 1, ""),
        ("fht", 2, ""),
        ("nn.ComplexLinear", 1, "layers"),
        ("nn.ComplexLinear", 2, "copies"),
        ("nn.FFTConv1d", 0, "copies"),
        ("nn.FFTConv1d", 2, "layers"),
    ]
    entries = table()
    for found in two.run(compiled, chosen):
        for (name, dim, form), collectives in found.items():
            sums = {"all_reduce"} if form == "layers" else set()  # of gradients of parameters
            exchanges = {"all_to_all_single"} if dim in entries[name].along else set()
            assert collectives == sums | exchanges, (name, dim, form)
