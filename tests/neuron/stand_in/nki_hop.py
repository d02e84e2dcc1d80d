"""`wrap_nki` and `nki_op` by their published contract; kernels run in this project's simulator.

The contract, as both packages with these functions keep it:
- `wrap_nki(kernel)` returns a caller. `[(lnc,)]` of a caller sets the degree of LNC. The
  caller accepts arguments by position and by name.
- A tensor argument is an operand of the kernel. Any other argument is a constant of the
  kernel, and is hashed. A tensor inside of a tuple would be a constant, and is refused here.
- A call is one node of a graph, of the higher order operator `nki_kernel_wrapper`, with
  rules for fake tensors, for tracing and for functionalization. The node has no derivative.
- `nki_op` makes a torch.library operator from a function whose body is traced into graphs.

The stand-in is stricter than the contract: the degree must be that of the runtime, and operands
must be on the device.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch._C import DispatchKey
from torch._dynamo import allow_in_graph
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
from torch.fx.experimental.proxy_tensor import (
    ProxyTorchDispatchMode,
    disable_proxy_modes_tracing,
    track_tensor_tree,
)
from torch.utils import _pytree as pytree

import nki_sim
from nki_sim import hardware

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int32)
OPERATORS: set[str] = set()  # names of operators that `nki_op` made
LAUNCHES: list[tuple[str, int]] = []  # kernels that ran, with their degrees of LNC
# Whether the bracket needs a tuple, as in torch_neuronx but not in the lite package.
wants_tuple = False

kernels: list[Any] = []
constants: dict[int, dict[str, Any]] = {}
device: Any = None  # the library of the device, set when it is installed


class KernelWrapper(HigherOrderOperator):
    def __init__(self) -> None:
        super().__init__("nki_kernel_wrapper", cacheable=True)

    def __call__(
        self, *, kernel: int, grid: tuple[int, ...], names: tuple[str, ...], key: int, operands: Any
    ) -> Any:
        return super().__call__(kernel=kernel, grid=grid, names=names, key=key, operands=operands)


nki_kernel_wrapper = allow_in_graph(KernelWrapper())


class Caller:
    """The result of `wrap_nki`."""

    def __init__(self, index: int, grid: tuple[int, ...] = ()) -> None:
        self.index, self.grid = index, grid

    def __getitem__(self, grid: Any) -> Caller:
        if isinstance(grid, int) and not wants_tuple:
            grid = (grid,)
        return Caller(self.index, tuple(map(int, grid)))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(kernels[self.index].func).bind(*args, **kwargs)
        bound.apply_defaults()
        operands = {k: v for k, v in bound.arguments.items() if isinstance(v, torch.Tensor)}
        others = {k: v for k, v in bound.arguments.items() if k not in operands}
        for name, value in others.items():
            if any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value)):
                raise TypeError(
                    f"wrap_nki: argument {name} holds tensors inside of a {type(value)}"
                )
        key = hash(tuple(sorted(others.items())))  # a constant without a hash raises TypeError
        constants[key] = others
        return nki_kernel_wrapper(
            kernel=self.index,
            grid=self.grid,
            names=tuple(operands),
            key=key,
            operands=tuple(operands.values()),
        )


def wrap_nki(kernel: Any) -> Caller:
    """Returns a caller of an `nki.jit` kernel that torch.compile can trace."""
    if not isinstance(kernel, nki_sim.Kernel):
        raise TypeError(f"wrap_nki takes nki.jit kernels, not {type(kernel).__name__}")
    if kernel not in kernels:
        kernels.append(kernel)
    return Caller(kernels.index(kernel))


@contextlib.contextmanager
def kernels_are_called() -> Iterator[None]:
    """Makes kernels accept tensors of the device inside the block.

    The degree of LNC is NEURON_LOGICAL_NC_CONFIG, or 1 without this variable.
    """
    simulated_call = nki_sim.Kernel.__call__

    def call(kernel: nki_sim.Kernel, *args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        if not any(isinstance(x, torch.Tensor) and x.device.type == "neuron" for x in given):
            return simulated_call(kernel, *args, **kwargs)
        degree = int(os.environ.get(hardware.LNC_VARIABLE) or 1)
        return wrap_nki(kernel)[(degree,)](*args, **kwargs)

    nki_sim.Kernel.__call__ = call
    try:
        yield
    finally:
        nki_sim.Kernel.__call__ = simulated_call


def check(grid: tuple[int, ...], operands: Any) -> None:
    """Raises an error where the runtime would refuse a launch."""
    degree = grid[0] if grid else 1
    if degree != hardware.degree():
        raise RuntimeError(
            f"NCC_EVRF066: kernel compiled for LNC={degree}, neuronx-cc has LNC={hardware.degree()}"
        )
    for x in operands:
        if x.device.type != "neuron":
            raise RuntimeError(f"nki_kernel_wrapper: an operand is on {x.device}")
        if x.dtype not in DTYPES:
            raise TypeError(f"nki_kernel_wrapper: an operand has {x.dtype}")


def simulated(kernel: int, grid: Any, names: Any, key: int, arrays: Any) -> Any:
    """Returns the kernel's results for NumPy arrays.

    The run is strict: anything that a device may refuse is an error.
    """
    arguments = {**dict(zip(names, arrays, strict=True)), **constants[key]}
    with nki_sim.strict():
        return nki_sim.simulate(kernels[kernel]).with_programs(*(grid or (1,)))(**arguments)


def array_of(x: torch.Tensor) -> Any:
    host = device.on_host(x.detach())
    if not host.is_contiguous():
        raise RuntimeError("nki_kernel_wrapper: an operand is not contiguous")
    if host.dtype == torch.bfloat16:
        return host.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return host.numpy()


@nki_kernel_wrapper.py_impl(DispatchKey.PrivateUse1)
def run_on_device(*, kernel: int, grid: Any, names: Any, key: int, operands: Any) -> Any:
    check(grid, operands)
    LAUNCHES.append((kernels[kernel].__name__, grid[0] if grid else 1))
    y = simulated(kernel, grid, names, key, [array_of(x) for x in operands])
    return pytree.tree_map(on_device, tuple(y) if isinstance(y, (tuple, list)) else y)


def on_device(y: np.ndarray) -> torch.Tensor:
    """Returns a result as a tensor on the device, without counting a copy over the bus."""
    result = torch.empty(y.shape, dtype=getattr(torch, str(y.dtype)), device="neuron")
    device.on_host(result).copy_(torch.from_numpy(y))
    return result


@functools.cache
def shapes(kernel: int, grid: Any, names: Any, key: int, specs: Any) -> Any:
    """Returns the shapes and dtypes of results, by a run on ones, as in AWS's CPU mode."""
    arrays = [np.ones(shape, dtype) for shape, dtype in specs]
    y = simulated(kernel, grid, names, key, arrays)
    return pytree.tree_map(lambda x: (x.shape, str(x.dtype)), y)


@nki_kernel_wrapper.py_impl(FakeTensorMode)
def run_fake(mode: Any, *, kernel: int, grid: Any, names: Any, key: int, operands: Any) -> Any:
    check(grid, operands)
    specs = tuple((tuple(map(int, x.shape)), str(x.dtype).removeprefix("torch.")) for x in operands)
    with unset_fake_temporarily():
        found = shapes(kernel, grid, names, key, specs)
    many = isinstance(found[0][0], tuple)
    with mode:
        results = tuple(
            torch.empty(shape, dtype=getattr(torch, dtype), device="neuron")
            for shape, dtype in (found if many else [found])
        )
    return results if many else results[0]


@nki_kernel_wrapper.py_impl(ProxyTorchDispatchMode)
def trace(mode: Any, **arguments: Any) -> Any:
    with disable_proxy_modes_tracing():
        result = nki_kernel_wrapper(**arguments)
    proxies = pytree.tree_map(mode.tracer.unwrap_proxy, arguments)
    name = f"{kernels[arguments['kernel']].__name__}_proxy"
    node = mode.tracer.create_proxy("call_function", nki_kernel_wrapper, (), proxies, name=name)
    return track_tensor_tree(result, node, constant=None, tracer=mode.tracer)


def take_no_complex(mode: Any, **arguments: Any) -> Any:
    """Launches in a graph whose complex operations are decomposed, where all operands are real.

    The stand-in assumes that TorchNeuron's operator passes its own decomposition.
    """
    return nki_kernel_wrapper(**arguments)


try:
    from torch._subclasses.complex_tensor import WrapComplexMode
except ImportError:  # PyTorch 2.12 and earlier have no such decomposition
    pass
else:
    nki_kernel_wrapper.py_impl(WrapComplexMode)(take_no_complex)


@nki_kernel_wrapper.py_functionalize_impl
def functionalize(ctx: Any, **arguments: Any) -> Any:
    unwrapped = {**arguments, "operands": ctx.unwrap_tensors(arguments["operands"])}
    with ctx.redispatch_to_next():
        return ctx.wrap_tensors(nki_kernel_wrapper(**unwrapped))


for passed in (
    DispatchKey.PythonDispatcher,
    DispatchKey.PythonTLSSnapshot,
    DispatchKey.ADInplaceOrView,
    DispatchKey.BackendSelect,
    DispatchKey.AutocastCPU,
    DispatchKey.AutocastPrivateUse1,
    DispatchKey.AutogradCPU,
):
    nki_kernel_wrapper.fallthrough(passed)


@nki_kernel_wrapper.py_impl(DispatchKey.AutogradPrivateUse1)
def refuse_autograd(**arguments: Any) -> Any:
    """Refuses operands with gradients; only an operator around the launch has a derivative."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in arguments["operands"]):
        raise NotImplementedError("nki_kernel_wrapper has no rule for AutogradPrivateUse1")
    with torch._C._AutoDispatchBelowAutograd():
        return nki_kernel_wrapper(**arguments)


def nki_op(name: str, fn: Any = None, mutates_args: Any = ()) -> Any:
    """Makes an operator of torch.library whose body is traced into graphs."""
    if fn is None:
        return functools.partial(nki_op, name, mutates_args=mutates_args)
    made = torch.library.custom_op(
        name,
        lambda *args: fn(*args),
        mutates_args=mutates_args,
        schema=torch.library.infer_schema(fn, mutates_args=mutates_args),
    )
    made.register_fake(fn)

    def traced(mode: Any, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
        known = (torch.Tensor, FunctionalTensor)
        if not all(t in known or issubclass(t, FakeTensor) for t in types):
            return NotImplemented
        with mode:
            return fn(*args, **kwargs)

    made.register_torch_dispatch(FunctionalTensorMode, traced)
    OPERATORS.add(name)
    return made
