"""Transforms by several processes; each process compares its part with torch.fft's whole result."""

import math
from collections import Counter
from dataclasses import dataclass, field

import torch

from tests import tolerances
from tests.tolerances import sums, transforms
from tests.trnfft.distributed.processes import failures

EXCHANGE = "c10d_functional.all_to_all_single"

# Of numbers on the unit circle in float64, whose angles of up to pi are rounded three times.
ANGLES = math.pi * sums(3, "float64")


@dataclass(frozen=True)
class Case:
    """A transform.

    placements: one for each dimension of the mesh: its number for a Shard of a dimension, "R", "P".
    out: those of the result, where they are others.
    form: of a complex input: "native", "joined" as a DTensor of ComplexTensors, or "parts".
    """

    name: str
    shape: tuple
    mesh: tuple
    placements: tuple
    arguments: dict = field(default_factory=dict)
    is_complex: bool = True
    out: tuple | None = None
    form: str = "native"
    dtype: torch.dtype = torch.float64
    backend: str = "torch"
    seed: int = 0


def near(actual, expected, tolerance, **options):
    """Compares whole tensors as tests.tolerances.near; a process fails after all of its calls."""
    try:
        tolerances.near(whole_of(actual), whole_of(expected), tolerance, **options)
    except AssertionError as error:
        failures.append(str(error))


def check(rank, cases):
    """Fails unless this process's part of each transform is that of torch.fft."""
    for case in cases:
        check_one(case)


def check_one(case):
    """Fails unless this process's part of a transform is that of torch.fft."""
    import trnfft

    x = sample(case)
    given = spread(x, case)
    result, counts = counted(lambda: transformed(given, case))
    assert not gathers(counts), f"{case}: {counts}"
    wanted_placements = placements_of(case.out) if case.out else summed_of(case.placements)
    wanted = reference(x, case)
    part = result.real if isinstance(result, trnfft.ComplexTensor) else result
    assert part.placements == wanted_placements, (case, part.placements)
    assert part.dtype == case.dtype
    # The reference has an error, too, and Bluestein's algorithm those of two longer transforms.
    tolerance = transforms(4 * max(x.numel(), wanted.numel()), 3, case.dtype)
    compare(result, wanted, tolerance, message=str(case))


def compare(result, whole, tolerance, *, part_of=None, message=""):
    """Fails unless this process's part of a result is that of all numbers, `whole`.

    part_of: returns it, from `whole` and a DTensor; by default by the placements of the result.
    """
    import trnfft

    like = result.real if result.is_complex() else result
    whole = trnfft.as_native(whole)
    assert like.shape == whole.shape, f"{message}: {like.shape}, {whole.shape}"
    expected = (part_of or own_part)(whole, like)
    near(local(result), expected, tolerance, scale=whole, message=message)


def transformed(given, case):
    """The case's transform of DTensors."""
    import trnfft

    namespace, more = trnfft, {}
    if case.out is not None:
        namespace, more = trnfft.distributed, {"out_placements": placements_of(case.out)}
    with trnfft.backend(case.backend):
        return getattr(namespace, case.name)(given, **case.arguments, **more)


def sample(case):
    generator = torch.Generator().manual_seed(case.seed)
    dtype = case.dtype.to_complex() if case.is_complex else case.dtype
    return torch.randn(case.shape, dtype=dtype, generator=generator)


def reference(x, case):
    from trnfft.distributed import frequencies

    arguments = {name: value for name, value in case.arguments.items() if name != "order"}
    if x.numel() == 0:  # MKL refuses it
        return x
    wanted = getattr(torch.fft, case.name)(x, **arguments)
    if case.arguments.get("order") == "planned":
        wanted = wanted[..., frequencies(wanted.shape[-1], case.mesh[0])]
    return wanted


def placements_of(names):
    from torch.distributed.tensor import Partial, Replicate, Shard

    symbols = {"R": Replicate(), "P": Partial()}
    return tuple(symbols.get(name) or Shard(name) for name in names)


def summed_of(names):
    """Those of results: what is pending is summed."""
    return placements_of("R" if name == "P" else name for name in names)


def mesh_of(shape):
    from torch.distributed.device_mesh import init_device_mesh

    if shape not in _MESHES:
        _MESHES[shape] = init_device_mesh("cpu", shape)
    return _MESHES[shape]


_MESHES: dict = {}


def spread(x, case):
    """The tensor as DTensors, by no communication."""
    from trnfft import ComplexTensor

    if not x.is_complex() or case.form == "native":
        return one(x, case)
    if case.form == "joined":
        return one(ComplexTensor.from_complex(x), case)
    return ComplexTensor(*(one(part.contiguous(), case) for part in (x.real, x.imag)))


def one(x, case):
    from torch.distributed.tensor import DTensor

    mesh, placements = mesh_of(case.mesh), placements_of(case.placements)
    mine = own_of(x, mesh, placements)
    strides = x.contiguous().stride()
    for dim, name in enumerate(case.placements):
        if name == "P":
            mine = mine / case.mesh[dim]
    return DTensor.from_local(
        mine, mesh, placements, run_check=False, shape=x.shape, stride=strides
    )


def own_of(x, mesh, placements):
    """The part of a whole tensor that this process has."""
    for owner, placement in enumerate(placements):
        if placement.is_shard():
            count, index = mesh.size(owner), mesh.get_local_rank(owner)
            chunks = x.chunk(count, placement.dim)
            x = chunks[index] if index < len(chunks) else x.narrow(placement.dim, 0, 0)
    return x.contiguous()


def own_part(whole, like):
    return own_of(whole, like.device_mesh, like.placements)


def local(result):
    from trnfft import ComplexTensor

    if isinstance(result, ComplexTensor):
        return torch.complex(result.real.to_local(), result.imag.to_local())
    return result.to_local()


def whole_of(x):
    """All numbers of a tensor, of which each process may have a part."""
    from torch.distributed._functional_collectives import AsyncCollectiveTensor
    from torch.distributed.tensor import DTensor

    if isinstance(x, AsyncCollectiveTensor):
        return x.wait()
    if x.is_complex() and isinstance(x.real, DTensor):
        return torch.complex(*(part.full_tensor() for part in (x.real, x.imag)))
    return x.full_tensor() if isinstance(x, DTensor) else x


def counted(call):
    """The result of a call, and how often it has run each collective, by name."""
    from torch.distributed.tensor.debug import CommDebugMode

    with CommDebugMode() as mode:
        result = call()
    counts = mode.get_comm_counts().items()
    return result, Counter({str(operator): count for operator, count in counts if count})


def all_to_alls(noted):
    """The arguments of each all-to-all that a mode has noted."""
    exchange = torch.ops._c10d_functional.all_to_all_single.default
    return [args for operator, args, _ in noted.calls if operator is exchange]


def compiled(call, leaves, tolerance, message=""):
    """The collectives of a compiled call, forward and backward, in their order.

    Fails unless its result, and gradients of a sum of third order, are as those of the call.
    """
    from torch._dynamo.backends.common import aot_autograd

    collectives = []

    def noted(graph, inputs):
        names = [str(node.target) for node in graph.graph.nodes]
        names = [name.split(".")[1] for name in names if "_c10d_functional" in name]
        collectives.extend(name for name in names if name != "wait_tensor")
        return graph

    def loss(*leaves):
        y = call(*leaves)
        y = y.real if y.is_complex() else y
        return y.detach(), (y * y * y).sum()

    torch._dynamo.reset()
    run = torch.compile(loss, backend=aot_autograd(fw_compiler=noted), fullgraph=True)
    results = []
    for function in (run, loss):
        y, total = function(*leaves)
        results.append([y, *torch.autograd.grad(total, leaves)])
    assert getattr(results[0][0], "placements", None) == getattr(results[1][0], "placements", None)
    for one, other in zip(*results, strict=True):
        near(one, other, tolerance, message=message)
    return collectives


def gathers(counts):
    """How many gathers there were."""
    return sum(count for name, count in counts.items() if "gather" in name)


def text_of(call):
    """The type and the text of the error of a call."""
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    return "none", ""


def assert_refused(found, wanted):
    """Fails unless errors of `text_of` have these types, and these parts of texts."""
    for (kind, text), (wanted_kind, wanted_text) in zip(found, wanted, strict=True):
        assert kind == wanted_kind, (kind, text)
        assert wanted_text in text, text
