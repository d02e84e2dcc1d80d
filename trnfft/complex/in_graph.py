"""`join` and `parts_of` in the graphs of torch.compile and torch.export.

torch.compile calls them without looking inside. A program of torch.export consists of the real
operators of which functions of ComplexTensors consist. It has `trnfft::join` where a ComplexTensor
is returned, and `trnfft::real` and `trnfft::imag` for each ComplexTensor that it gets. make_fx
records these operators, too, and `trnfft::pairs` for torch.view_as_real. All of them have
derivatives.

This module loads torch's compiler, and is imported only where code is compiled.
"""

import weakref
from typing import Any

import torch
from torch.fx import Proxy

from trnfft.base.torch_private import OpOverload, proxy_tensor, tree_leaves
from trnfft.complex import parts
from trnfft.complex.parts import _Join, _Split
from trnfft.complex.table import Arguments, Function, NamedArguments
from trnfft.complex.tensor import ComplexTensor


@torch.compiler.allow_in_graph
def join(real: torch.Tensor, imag: torch.Tensor) -> ComplexTensor:
    z = _Join.apply(real, imag)
    if torch.compiler.is_exporting():
        # Not the proxies of copies without a derivative, which are the parts of z.
        _note(z._real, _proxy(real))
        _note(z._imag, _proxy(imag))
        note_joined(z)
    return z


@torch.compiler.allow_in_graph
def parts_of(z: ComplexTensor) -> tuple[torch.Tensor, torch.Tensor]:
    if not torch.compiler.is_exporting():
        return _Split.apply(z)
    note_parts(z)
    with proxy_tensor.disable_proxy_modes_tracing():
        real, imag = _Split.apply(z)
    _note(real, _proxy(z._real))  # not the proxies of the views that these are
    _note(imag, _proxy(z._imag))
    return real, imag


@torch.compiler.allow_in_graph
def as_pairs(z: ComplexTensor) -> torch.Tensor:
    return parts.as_pairs(z)


# While a program to export is traced, it knows a tensor by its proxy.

_LIBRARY = torch.library.Library("trnfft", "FRAGMENT")
_LIBRARY.define("join(Tensor real, Tensor imag) -> Tensor")
_LIBRARY.define("real(Tensor z) -> Tensor")
_LIBRARY.define("imag(Tensor z) -> Tensor")
_LIBRARY.define("pairs(Tensor z) -> Tensor")
_LIBRARY.impl("join", lambda real, imag: parts.join(real, imag), "CompositeImplicitAutograd")
_LIBRARY.impl("real", lambda z: parts.parts_of(z)[0], "CompositeImplicitAutograd")
_LIBRARY.impl("imag", lambda z: parts.parts_of(z)[1], "CompositeImplicitAutograd")
_LIBRARY.impl("pairs", lambda z: parts.as_pairs(z), "CompositeImplicitAutograd")


def recorded(name: str, function: Function, *inputs: torch.Tensor) -> Any:
    """Calls a function of tensors, which make_fx records as the operator of this name."""
    proxies = [_proxy(x) for x in inputs]
    if all(proxy is None for proxy in proxies):
        return function(*inputs)
    with proxy_tensor.disable_proxy_modes_tracing():
        made = function(*inputs)
    given = [x if proxy is None else proxy for x, proxy in zip(inputs, proxies, strict=True)]
    _note(made, _called(getattr(torch.ops.trnfft, name).default, *given))
    return made


def recorded_whole(operator: OpOverload, args: Arguments, kwargs: NamedArguments) -> Any:
    """Calls an operator of complex tensors that make_fx does not know as tensors of its graph.

    make_fx leaves such an operator to the classes of its arguments, and would record what becomes
    of their parts, but not that the result consists of them. The graph keeps the tensors as
    constants here, as it keeps native tensors, so that make_fx records the operator as a whole.

    Returns:
        NotImplemented where a compiler records the parts of the arguments.
    """
    tensors = [x for x in tree_leaves((args, kwargs)) if hasattr(type(x), "__tensor_flatten__")]
    unknown = [x for x in tensors if _proxy(x) is None]
    if any(_proxy(part) is not None for x in unknown for part in (x._real, x._imag)):
        return NotImplemented
    for x in unknown:
        constant = proxy_tensor.Proxy(_tracer().create_arg(x), _tracer())
        proxy_tensor.track_tensor_tree(x, constant, constant=None, tracer=_tracer())
    return operator(*args, **kwargs) if unknown else NotImplemented


def note_joined(values: object) -> None:
    """Lets a program that is being traced make these values' ComplexTensors from their parts."""
    for z in _complex_tensors(values):
        real, imag = _proxy(z._real), _proxy(z._imag)
        if _proxy(z) is None and real is not None and imag is not None:
            joined = _called(torch.ops.trnfft.join.default, real, imag)
            _note(z, joined)
            proxy_tensor.set_proxy_slot(z, _tracer(), _Joined(z, joined))


def note_parts(*values: object) -> None:
    """Lets a program that is being traced take the parts of these values' ComplexTensors."""
    for z in _complex_tensors(values):
        proxy = _proxy(z)
        if proxy is not None and _proxy(z._real) is None:
            _note(z._real, _called(torch.ops.trnfft.real.default, proxy))
            _note(z._imag, _called(torch.ops.trnfft.imag.default, proxy))


class _Joined(proxy_tensor._ProxyTensor):
    """The proxy of a ComplexTensor that a program has in parts; it is joined where it is used.

    Everything that the program wrote into the parts before is then in it, also for autograd.
    """

    def __init__(self, z: ComplexTensor, joined: Proxy) -> None:
        self.whole, self.joined, self.constant = weakref.ref(z), joined, None

    @property
    def proxy(self) -> Any:  # type: ignore[override]
        z, node = self.whole(), self.joined.node
        last = next(reversed(node.graph.nodes))
        if z is None or last.op == "output":
            return self.joined
        if node.users:
            proxies = _proxy(z._real), _proxy(z._imag)
            self.joined = _called(torch.ops.trnfft.join.default, *proxies)
            self.joined.node.meta.update(node.meta)
        elif last is not node:
            last.append(node)
        return self.joined


def _complex_tensors(values: object) -> list[ComplexTensor]:
    return [z for z in tree_leaves(values) if isinstance(z, ComplexTensor)]


def _tracer() -> Any:
    mode = proxy_tensor.get_proxy_mode()
    return None if mode is None else mode.tracer


def _proxy(x: torch.Tensor) -> Proxy | None:
    tracer = _tracer()
    slot = None if tracer is None else proxy_tensor.get_proxy_slot(x, tracer, None)
    return None if slot is None else slot.proxy


def _called(operator: OpOverload, *proxies: object) -> Any:
    return _tracer().create_proxy("call_function", operator, proxies, {})


def _note(x: torch.Tensor, proxy: Proxy | None) -> None:
    if proxy is not None:
        proxy_tensor.track_tensor_tree(x, proxy, constant=None, tracer=_tracer())
