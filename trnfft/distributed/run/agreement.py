"""A check, before devices exchange numbers, that all of them were asked for the same.

A device with another shape, dtype or version would wait for devices that never send, or get their
numbers in the wrong places. So each device sends a digest of 64 bits of its description to all
others along each dimension of the mesh. Where the digests differ, all exchange the full texts, too,
and all raise an error that says what differs. A difference along one dimension of the mesh is
passed on along the next, so that every device of the mesh learns of it.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import threading
import time
from collections.abc import Sequence
from importlib.metadata import version
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch.distributed.constants import default_pg_timeout
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from trnfft.base import config
from trnfft.base.cache import cached
from trnfft.base.torch_private import timeout_of
from trnfft.distributed.run import exclusive_exchanges

VERSION = version("trnfft-nki")  # of this package
_TEXT_BYTES = 32768  # size of a description: 20 values, whose characters JSON may double
_MOST_CHARACTERS = 700  # of a value
_PATIENCE = datetime.timedelta(seconds=60)
_CALLS = "calls over this process group so far"
_FOUND = "found"  # the key of a description that is an error

_ASCENDING: WeakKeyDictionary[DeviceMesh, bool] = WeakKeyDictionary()  # what `_ascends` has found
_LOCK = threading.Lock()  # guards it


def check(parts: Sequence[DTensor], asked: dict[str, str]) -> None:
    """Checks that all devices of a mesh were asked for the same, for such an input.

    Args:
        parts: the parts of the input, as they were given. All devices of the first part's mesh call
            this function at the same time. Their ranks have to ascend along each dimension, as
            their numbers in torch's groups do.
        asked: what else has to be equal, by names for the error. The input and the configuration
            are always compared.

    Raises:
        RuntimeError: on all devices, if they differ, if another device does not come within the
            time of `patience`, if its process ends, or if the ranks do not ascend.
    """
    like = parts[0]
    mesh = like.device_mesh
    if not _ascends(mesh):
        raise RuntimeError(
            f"argument 'input' is on {mesh}, allowed for exchanges are meshes whose ranks ascend "
            f"along each dimension; make one with init_device_mesh"
        )
    description = {
        "version of trnfft": VERSION,
        "version of torch": torch.__version__,
        "shape of 'input'": str(tuple(like.shape)),
        "numbers of 'input'": "complex" if len(parts) > 1 else "real",
        "dtype of the parts": str(like.dtype),
        "shape of the mesh": str(tuple(mesh.shape)),
        "placements of 'input'": " and ".join(dict.fromkeys(str(x.placements) for x in parts)),
        **asked,
        "backend": config.get_backend(),
        "precision": config.get_precision(),
        "gradients": str(like.requires_grad and torch.is_grad_enabled()),
    }
    for along, size in enumerate(mesh.shape):
        if size > 1:
            description = _compared_in_time(mesh, along, description)
    if _FOUND in description:
        raise RuntimeError(description[_FOUND])


def patience(device_type: str) -> datetime.timedelta:
    """Returns how long devices wait for others: the timeout of init_process_group, or a default.

    The default is 60 s on CPUs. torch's own default of half an hour is for collectives that move
    data in programs without errors; a user who expects that a process comes late gives a timeout.
    Other devices keep torch's default, because one device may be compiling a kernel that the others
    have.
    """
    assert dist.group.WORLD is not None
    given = timeout_of(dist.group.WORLD, torch.device(device_type), default_pg_timeout)
    is_default = given == default_pg_timeout and device_type == "cpu"
    return _PATIENCE if is_default else given


def _ascends(mesh: DeviceMesh) -> bool:
    """Returns whether the ranks of a mesh ascend along each dimension."""
    with _LOCK:
        ascends = _ASCENDING.get(mesh)
    if ascends is None:
        ascends = all(bool((mesh.mesh.diff(dim=dim) > 0).all()) for dim in range(mesh.ndim))
        with _LOCK:
            _ASCENDING[mesh] = ascends
    return ascends


def _compared_in_time(mesh: DeviceMesh, along: int, own: dict[str, str]) -> dict[str, str]:
    """Calls `_compared`; its error says for what the others did not come, and how long it took."""
    start = time.monotonic()
    try:
        return _compared(mesh, along, own)
    except RuntimeError as error:
        asked = ", ".join(f"{name}: {value}" for name, value in own.items())
        ranks = _ranks(dist.get_process_group_ranks(mesh.get_group(along)))
        seconds, passed = patience(mesh.device_type).total_seconds(), time.monotonic() - start
        if passed < 0.9 * seconds:  # a clock may be a little fast
            raise RuntimeError(
                f"the exchange of rank {dist.get_rank()} with all of {ranks} has failed after "
                f"{passed:.2f} s: a process has died, or has ended with an error of its own, which "
                f"names the cause. This rank was asked for {asked}"
            ) from error
        raise RuntimeError(
            f"rank {dist.get_rank()} has waited {seconds:g} s for all of {ranks}: a process has "
            f"died, or was asked for something else than this: {asked}; if a process may come "
            f"later, give init_process_group a longer timeout"
        ) from error


def _compared(mesh: DeviceMesh, along: int, own: dict[str, str]) -> dict[str, str]:
    """Returns the description that all devices along a dimension have, or that of a difference."""
    group = mesh.get_group(along)
    count = dist.get_world_size(group)
    calls = json.dumps({_CALLS: str(exclusive_exchanges.calls_over(group))}).encode()
    text = _encoded(tuple(own.items()))[:-1] + b", " + calls[1:]  # one dictionary
    digest = int.from_bytes(hashlib.sha256(text).digest()[:8], "little", signed=True)
    mine = torch.full((count,), digest, dtype=torch.int64, device=mesh.device_type)
    digests = _sent(mine, group)
    if set(digests.tolist()) == {digest}:
        return own
    padded = torch.frombuffer(bytearray(text.ljust(_TEXT_BYTES)), dtype=torch.uint8)
    texts = _sent(padded.to(mesh.device_type).repeat(count), group).cpu().view(count, _TEXT_BYTES)
    others = [json.loads(bytes(row.tolist())) for row in texts]
    for other in others:
        if _FOUND in other:
            return other
    return {_FOUND: _difference(others, dist.get_process_group_ranks(group))}


@cached(1024)
def _encoded(described: tuple[tuple[str, str], ...]) -> bytes:
    return json.dumps({name: _shortened(value) for name, value in described}).encode()


def _shortened(value: str) -> str:
    """Returns a value that fits, and that differs from other values with the same beginning."""
    value = value.encode("ascii", "backslashreplace").decode()
    if len(value) <= _MOST_CHARACTERS:
        return value
    digest = hashlib.sha256(value.encode()).hexdigest()[:8]
    return f"{value[:_MOST_CHARACTERS]}... (digest {digest})"


def _sent(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """Returns what each device of the group has sent to this one; all pieces have equal sizes."""
    received = torch.empty_like(x)
    options = dist.AllToAllOptions()
    options.timeout = patience(x.device.type)
    work = group.alltoall_base(received, x, [], [], options)
    work.wait()
    return received


def _difference(descriptions: list[dict[str, str]], ranks: list[int]) -> str:
    """Returns an error message that names what differs, and on which ranks."""
    first = descriptions[0]
    differences = []
    for name in first:
        by_value: dict[str, list[int]] = {}
        for rank, description in zip(ranks, descriptions, strict=True):
            by_value.setdefault(description.get(name, "missing"), []).append(rank)
        if len(by_value) > 1:
            values = "; ".join(f"{value} on {_ranks(of)}" for value, of in by_value.items())
            differences.append(f"{name}: {values}")
    listed = ", ".join(differences)
    return f"the processes were asked for different transforms, all must be equal: {listed}"


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
