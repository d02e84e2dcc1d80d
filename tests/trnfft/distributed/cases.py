"""Transforms by several processes; each process compares its part with torch.fft's whole result."""

from dataclasses import dataclass, field

import torch


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


def errors(rank, cases):
    """For each case the largest error of this process's part, relative to the largest number."""
    return [error_of(rank, case) for case in cases]


def error_of(rank, case):
    from torch.distributed.tensor.debug import CommDebugMode

    import trnfft

    x = sample(case)
    given = spread(x, case)
    with CommDebugMode() as counted:
        result = transformed(given, case)
    assert not gathers(counted), f"{case}: {counted.get_comm_counts()}"
    wanted_placements = placements_of(case.out) if case.out else summed_of(case.placements)
    wanted = reference(x, case)
    part = result.real if isinstance(result, trnfft.ComplexTensor) else result
    assert part.placements == wanted_placements, (case, part.placements)
    assert part.shape == wanted.shape, (case, part.shape, wanted.shape)
    assert part.dtype == case.dtype
    own = local(result)
    expected = own_part(wanted, part)
    assert own.shape == expected.shape, (case, own.shape, expected.shape)
    if own.numel() == 0:
        return 0.0
    return ((own - expected).abs().max() / wanted.abs().max()).item()


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


def gathers(counted):
    """How many gathers there were."""
    counts = counted.get_comm_counts()
    return sum(count for operator, count in counts.items() if "gather" in str(operator))


def text_of(call):
    """The type and the text of the error of a call."""
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    return "none", ""
