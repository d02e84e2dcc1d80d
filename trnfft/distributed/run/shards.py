"""Functions of DTensors that each device computes on its own part, and exchanges around them.

A function works along some dimensions. Where these are whole on every device, each device computes
its shard, without communication. Where they are split, exchanges split other dimensions in their
place (`route.py`), and after the function they restore the former splits:

    x, split along what is transformed -> all-to-all -> function of shards -> all-to-all -> y
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.placement_types import Placement

from trnfft.base.torch_private import tree_leaves, tree_map_only
from trnfft.complex.dtensor import (
    Kind,
    distributed,
    is_pending,
    local_of,
    summed_placements,
    without_partial,
)
from trnfft.complex.kinds import of_kind
from trnfft.complex.parts import join, real_tensors_of, split
from trnfft.distributed.dtensor import check_fits, local_copy_of, misfit
from trnfft.distributed.layout import Layout, layout_of
from trnfft.distributed.model.route import Exchanged, Line, Problem, route
from trnfft.distributed.run import agreement
from trnfft.distributed.run.exchange import Exchange, Parts, coordinate_of, exchanged
from trnfft.distributed.run.exclusive_exchanges import exclusive
from trnfft.distributed.run.transforms import dtensors_of
from trnfft.functions.convolve import lengthened
from trnfft.ops import many_devices

# types whose texts are the same in all processes
_SETTINGS = (bool, int, float, str, tuple, dict, type(None))


def apply(
    function: many_devices.Function,
    x: torch.Tensor,
    dims: Iterable[int],
    *arguments: object,
    **named: object,
) -> Any:
    """Applies `function` to a DTensor, or a ComplexTensor of two: each device computes its shard.

    Args:
        function: a function of a tensor, `arguments` and `named`, which works along `dims` only. It
            keeps the dimensions before them, and all dimensions if it returns as many. For a module
            it is `forward`. Every device has a copy of the tensors among the arguments, parameters
            and buffers, as DTensors or not.
        x: the tensor.
        dims: dimensions of x, which may be counted from the end. Dimensions that x does not have
            are left for `function` to refuse.

    Returns:
        The result of `function`, as DTensors with the placements of x. If the result has fewer
        dimensions, its last one is split in place of the missing ones.

    Raises:
        NotImplementedError: `dims` are split, and no other dimension can take their place; or an
            argument is split.
        RuntimeError: exchanges are needed, and the devices were not asked for the same, or one of
            them has failed.
    """
    given = x
    if isinstance(x, DTensor) and x.is_complex():
        x = split(x)
    parts = dtensors_of(x)
    ndim = parts[0].ndim
    along = tuple(sorted({d % ndim for d in dims if isinstance(d, int) and -ndim <= d < ndim}))
    call = _Call(function, arguments, named)
    if torch.compiler.is_compiling():  # a graph cannot contain the comparison
        return _applied(call, along, parts, given)
    way = _Way.of(parts[0], along, len(parts))
    held = (*parts, *tree_leaves((_held(function), arguments, named)))
    meets = bool(way.steps) or any(map(is_pending, held))
    with exclusive(parts[0].device_mesh, meets):
        if meets:
            _check(call, along, parts, way)
        return _applied(call, along, parts, given)


class _Call(NamedTuple):
    """A function, or a module, and its arguments besides the tensor."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    named: dict[str, Any]


def _applied(call: _Call, along: tuple[int, ...], parts: list[DTensor], given: torch.Tensor) -> Any:
    """Returns the result of `apply` for a tensor with these parts, of the kind of `given`."""
    function, arguments, named = call
    ndim = parts[0].ndim
    parts = [without_partial(part) for part in parts]
    like = parts[0]
    local = many_devices.call("to_whole", along, *parts)
    # Some functions refuse empty tensors, and a shard of a small tensor may be empty.
    empty = [d for d in range(ndim) if local[0].shape[d] == 0 < like.shape[d]]
    for dim in empty:
        local = tuple(lengthened(part, dim, 1) for part in local)
    mesh = like.device_mesh
    split_along = tuple(i for i, p in enumerate(like.placements) if not isinstance(p, Replicate))

    def own(y: torch.Tensor) -> torch.Tensor:
        return local_copy_of(y, mesh, split_along)

    if isinstance(function, torch.nn.Module):
        function = _with(function, own)
    arguments, named = tree_map_only(torch.Tensor, own, (arguments, named))
    result = function(_joined(local), *arguments, **named)

    def whole(y: torch.Tensor) -> Any:
        for dim in empty:
            y = y.narrow(dim, 0, 0)
        parts = (part.contiguous() for part in real_tensors_of(y))
        made = many_devices.call("from_whole", along, like, *parts)
        return of_kind(_joined(made), given)

    return tree_map_only(torch.Tensor, whole, result)


def _with(module: torch.nn.Module, own: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Returns `forward` of a module without children, with copies of its parameters and buffers."""
    given = {**module._parameters, **module._buffers}
    copies = {name: own(x) for name, x in given.items() if x is not None}
    # the compiler traces no copy of a module; this call runs hooks again
    if torch.compiler.is_compiling():
        return lambda *args, **named: torch.func.functional_call(module, copies, args, named)
    if all(copies.get(name) is x for name, x in given.items()):
        return module.forward  # the module may keep what it has computed from them
    twin = copy.copy(module)
    for kind in ("_parameters", "_buffers"):
        twin.__dict__[kind] = {name: copies.get(name) for name in getattr(module, kind)}
    return twin.forward


def _check(call: _Call, along: tuple[int, ...], parts: Sequence[DTensor], way: _Way) -> None:
    """Checks that all devices of exchanges or pending sums were asked for the same."""
    described = {
        **_described(call.function, (call.arguments, call.named)),
        "dimensions": str(along),
        "shards of 'input'": misfit(parts, way.shard) or "as placed",
    }
    agreement.check(parts, described)


def to_whole(along: tuple[int, ...], *parts: DTensor) -> Parts:
    """Returns the shards of DTensors, rearranged so that some dimensions are whole."""
    way = _Way.of(parts[0], along, len(parts))
    check_fits(misfit(parts, way.shard))
    return way.there([local_of(part) for part in parts])


def from_whole(along: tuple[int, ...], like: DTensor, *local: torch.Tensor) -> tuple[Any, ...]:
    """Returns DTensors placed as `like`, from results for the shards that `to_whole` returned."""
    way = _Way.of(like, along, 1)
    return way.back(list(local))


many_devices.FUNCTIONS.update(apply=apply, to_whole=to_whole, from_whole=from_whole)


@dataclass(frozen=True)
class _Way:
    """The exchanges that make dimensions whole."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    shape: tuple[int, ...]
    source: Layout
    layout: Layout
    steps: tuple[Exchanged, ...]

    @staticmethod
    def of(like: DTensor, along: tuple[int, ...], count: int) -> _Way:
        """Returns the way for `count` DTensors like this one."""
        coordinate_of(like.device_mesh)
        shape = tuple(map(int, like.shape))
        placements = summed_placements(like)
        source = layout_of("input", placements, tuple(like.device_mesh.shape), shape)
        steps = _steps(shape, along, count, source, None)
        layout = source
        for step in steps:
            layout = layout.moved(step.source, step.target)
        return _Way(like.device_mesh, placements, shape, source, layout, steps)

    @property
    def shard(self) -> tuple[int, ...]:
        """Returns the shape of this device's shard before."""
        return self.source.local_shape(self.shape, coordinate_of(self.mesh))

    def there(self, parts: list[torch.Tensor]) -> Parts:
        """Exchanges the shards of the source for shards with whole dimensions."""
        return _rearranged(parts, self.shape, self.source, self.steps, self.mesh)

    def back(self, parts: list[torch.Tensor]) -> tuple[DTensor, ...]:
        """Returns DTensors with the placements, from results for such shards."""
        ndim = parts[0].ndim
        more = ((),) * (ndim - len(self.shape))
        layout = Layout(self.layout.mesh, (*self.layout.owners[:ndim], *more))
        shape = tuple(
            self.shape[dim] if owners else int(size)
            for dim, (owners, size) in enumerate(zip(layout.owners, parts[0].shape, strict=True))
        )
        placements = tuple(_within(placement, ndim) for placement in self.placements)
        target = layout_of("input", placements, layout.mesh, shape)
        steps = _steps(shape, (), len(parts), layout, target)
        made = _rearranged(parts, shape, layout, steps, self.mesh)
        kind = Kind.in_rows(self.mesh, placements, shape)
        return tuple(distributed(part, kind) for part in made)


def _steps(
    shape: tuple[int, ...],
    along: tuple[int, ...],
    count: int,
    source: Layout,
    target: Layout | None,
) -> tuple[Exchanged, ...]:
    """Returns the cheapest exchanges after which `along` are whole, or that end at a layout."""
    if source == target or not any(source.owners[dim] for dim in along) and target is None:
        return ()
    lines = tuple(Line(size, None, (0, size)) for size in shape)
    steps = route(Problem("whole", lines, along, count == 1, False, source, target))
    return tuple(step for step in steps if isinstance(step, Exchanged))


def _rearranged(
    parts: list[torch.Tensor],
    shape: Sequence[int],
    layout: Layout,
    steps: Iterable[Exchanged],
    mesh: DeviceMesh,
) -> Parts:
    """Returns this device's shards of tensors of this shape, after some exchanges."""
    for step in steps:
        after = layout.moved(step.source, step.target)
        parts = exchanged(parts, Exchange.of_layouts(mesh, step.along, shape, layout, after))
        layout = after
    return tuple(parts)


def _within(placement: Placement, ndim: int) -> Placement:
    if getattr(placement, "dim", 0) < ndim:
        return placement
    return Shard(ndim - 1)


def _held(function: object) -> dict[str, torch.Tensor]:
    if not isinstance(function, torch.nn.Module):
        return {}
    return {**dict(function.named_parameters()), **dict(function.named_buffers())}


def _described(function: object, arguments: object) -> dict[str, str]:
    """Returns a call as texts, with tensors described without their numbers."""
    known = getattr(function, "__dict__", {})
    public = {name: x for name, x in known.items() if not name.startswith("_")}
    settings = {name: x for name, x in public.items() if isinstance(x, _SETTINGS)}

    def words(x: torch.Tensor) -> str:
        placements = f" {x.placements}" if isinstance(x, DTensor) else ""
        return f"{x.dtype}{tuple(x.shape)}{placements}"

    name = getattr(function, "__name__", type(function).__name__)
    return {
        "function": f"{name}{tree_map_only(torch.Tensor, words, arguments)}",
        "settings of the layer": str(settings),
        "parameters": str(tree_map_only(torch.Tensor, words, _held(function))),
    }


def _joined(parts: Parts) -> Any:
    return join(*parts) if len(parts) == 2 else parts[0]
