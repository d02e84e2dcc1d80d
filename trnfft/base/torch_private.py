"""Every private API of PyTorch that `trnfft` uses: why, and what breaks without it.

No other file of `trnfft` names one, so this is the file to read for a new version of PyTorch.
`tests/trnfft/base/test_torch_private.py` has a check for each name. Names are those of PyTorch
without the underscore, where they are PyTorch's own objects. Functions stand for what takes long to
load, for what changes, and for what PyTorch is made to call. What PyTorch itself calls of our
classes is not here, such as `__tensor_flatten__` and `_load_from_state_dict`, nor are operators of
ATen whose names begin with an underscore. `trnfft/base/cache.py`, which needs no torch, marks
functions by one attribute of Dynamo, `_dynamo_marked_constant`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch import _guards, _ops, _vmap_internals
from torch._functorch import utils as functorch_utils
from torch._library import custom_ops
from torch._subclasses import fake_tensor, functional_tensor, meta_utils
from torch.autograd import forward_ad
from torch.fx.experimental import proxy_tensor as proxy_tensor_of_torch
from torch.jit import _builtins, _state
from torch.utils import _device, _python_dispatch, _pytree, checkpoint
from torch.utils.data._utils import collate

Result = TypeVar("Result")

# Tensors in nested arguments

# Find and replace tensors in nested arguments, in torch's own order. Without them: functions of our
# own, into which torch.compile would look each time.
tree_any, tree_leaves = _pytree.tree_any, _pytree.tree_leaves
tree_map, tree_map_only = _pytree.tree_map, _pytree.tree_map_only

# How a DataLoader makes a batch, by type. Without it: no batches of ComplexTensors.
default_collate_fn_map = collate.default_collate_fn_map

# Tensors without memory of their own

# Makes a ComplexTensor or RealPairs: a tensor of any dtype and strides without memory. Without it:
# there is no ComplexTensor; the public torch.Tensor.__new__ allocates.
make_wrapper_subclass: Any = torch.Tensor._make_wrapper_subclass

# Makes data_ptr of such a tensor an error. Without it: a null pointer goes to code in C.
set_throw_on_mutable_data_ptr = torch._C._set_throw_on_mutable_data_ptr

# Sets the bit of lazy conjugation. Without it: every conj() computes.
set_conj = torch._C._set_conj

# Gives a view in a graph the storage of its base. Without it: torch.compile does not know that the
# result of a graph is a view of an argument.
functionalize_unsafe_set: Any = torch._functionalize_unsafe_set

# What Module.to asks before it sets the data of a parameter, and a method that reads memory: both
# are replaced for ComplexTensors. Without them: stray memory is read, or a parameter loses a part.
has_compatible_shallow_copy_type = torch._has_compatible_shallow_copy_type
typed_storage = torch.Tensor._typed_storage

# What a tensor does not tell publicly

# Whether a tensor is a view, whose memory its base has. Without it: `join` would share memory.
is_view_of_memory = torch.Tensor._is_view

# Whether a tensor is a tangent of zeros without memory. Without it: operators on parts fail.
is_zerotensor = torch.Tensor._is_zerotensor

# The view with the other sign, or conjugated, as operators below autograd see it. Without them: the
# imaginary part of a lazily conjugated tensor is a copy, and writes into it are lost.
neg_view, conj_view = torch.Tensor._neg_view, torch.Tensor._conj


def version_of(x: torch.Tensor) -> int:
    """Returns how often a tensor was written; without it, model_check misses writes."""
    return x._version


def have_one_storage(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether tensors have one storage, empty ones included; without it, loaded parts share it."""
    return x.untyped_storage()._cdata == y.untyped_storage()._cdata


# Who sees functions and operators

# How many modes see operators, and how many see functions: none, in most calls. Without them: each
# operation of two ComplexTensors goes through the dispatcher, in several times the time.
len_torch_dispatch_stack = torch._C._len_torch_dispatch_stack
len_torch_function_stack = torch._C._len_torch_function_stack

# Switch `__torch_function__` off, for subclasses only and for modes too, and on again. Without
# them: a function that stands for torch's own calls itself.
DisableTorchFunctionSubclass = torch._C.DisableTorchFunctionSubclass
DisableTorchFunction = torch._C.DisableTorchFunction
EnableTorchFunction = torch._C._EnableTorchFunction
is_torch_function_enabled = torch._C._is_torch_function_enabled
disabled_torch_function_impl: Any = torch._C._disabled_torch_function_impl

# Switches `__torch_dispatch__` off. Without it: changing the shape of a ComplexTensor in place
# calls itself, and modes see the tensors of the host.
DisableTorchDispatch = torch._C._DisableTorchDispatch

# The base class of modes that see operators; the modes that see them now; none of them. Without
# them: no trnfft.model_check, no times by kind in the self-test of a cluster, and error messages
# whose questions to torch are seen by the program's modes.
TorchDispatchMode = _python_dispatch.TorchDispatchMode
get_current_dispatch_mode_stack = _python_dispatch._get_current_dispatch_mode_stack
disable_current_modes = _python_dispatch._disable_current_modes


def proxy_mode() -> Any:
    """Returns make_fx's mode or None; without it, graphs lose how parts became a ComplexTensor."""
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY)


def functional_mode() -> Any:
    """Returns the mode that removes writes, or None; without it, as `proxy_mode`."""
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FUNCTIONAL)


# The keys by which torch dispatches. Operators on parts run below the key of their ComplexTensor,
# where torch leaves out keys that they need: for batches, for lazy signs, for PyTorch-XLA, and for
# exported programs. Without them: parts in batches and views of parts on XLA fail.
DispatchKey = torch._C.DispatchKey
DispatchKeySet = torch._C.DispatchKeySet
dispatch_key_parse = torch._C._dispatch_key_parse
dispatch_tls_local_include_set = torch._C._dispatch_tls_local_include_set
dispatch_tls_local_exclude_set = torch._C._dispatch_tls_local_exclude_set
dispatch_tls_is_dispatch_key_included = torch._C._dispatch_tls_is_dispatch_key_included
ForceDispatchKeyGuard = torch._C._ForceDispatchKeyGuard
ExcludeDispatchKeyGuard = torch._C._ExcludeDispatchKeyGuard
AutoDispatchBelowAutograd = torch._C._AutoDispatchBelowAutograd

# The class of operators, whether torch composes an operator of others, and the body of an operator
# of torch.library. Without them: ComplexTensors lack such operators, and model_check finds no
# launches on device meta.
OpOverload = _ops.OpOverload
dispatch_has_kernel_for_dispatch_key = torch._C._dispatch_has_kernel_for_dispatch_key
maybe_get_opdef = custom_ops._maybe_get_opdef


def decomposition_table() -> dict[Any, Callable[..., Any]]:
    """Returns torch's decompositions; without them, some 200 operators more are refused."""
    from torch._decomp import decomposition_table as table  # here: it loads many modules

    return table


# Autograd

# Whether a value among arguments requires a gradient, which it reads of ComplexTensors without
# `__torch_function__`. Without it: small calls take twice the time.
any_requires_grad: Any = torch._C._any_requires_grad


def is_forward_mode() -> bool:
    """Whether forward-mode derivatives are computed; without it, tangents are lost."""
    return forward_ad._current_level >= 0


# Switch forward mode, for an autograd function inside of torch.func whose forward outer levels have
# to record, and the class of functions at one level. Without them: torch.view_as_real inside of
# torch.func has native gradients, on devices that have no complex numbers.
set_fwd_grad_enabled = forward_ad._set_fwd_grad_enabled
is_fwd_grad_enabled = torch._C._is_fwd_grad_enabled
SingleLevelFunction: Any = torch.autograd.function._SingleLevelFunction
enable_single_level_autograd_function = functorch_utils.enable_single_level_autograd_function

# The node and the number of the backward pass that runs. Without them: model_check does not know of
# which call a derivative is, and exchanges of two backward passes mix.
current_autograd_node: Callable[[], Any] = torch._C._current_autograd_node
current_graph_task_id = torch._C._current_graph_task_id


def queue_callback(function: Callable[[], Any]) -> None:
    """Calls a function when the backward pass ends; without it, threads wait for a turn forever."""
    torch.autograd.Variable._execution_engine.queue_callback(function)


Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


def wrap_engine(wrapper: Wrapper) -> None:
    """Replaces the call of torch's engine; without it, backward passes lack `patch_torch`."""
    wrapped = wrapper(torch.autograd.graph._engine_run_backward)
    for module in (torch.autograd.graph, torch.autograd):  # torch.compiler replaces both as well
        module._engine_run_backward = wrapped  # type: ignore[attr-defined]


def wrap_checkpoint(wrapper: Wrapper) -> None:
    """Replaces what computes a checkpoint again; without it, with other settings than before."""
    of_torch = checkpoint._checkpoint_without_reentrant_generator
    checkpoint._checkpoint_without_reentrant_generator = wrapper(of_torch)


# torch.func

# Whether a transform is active, and the tensors in its wrappers. Without them: ComplexTensors
# inside of torch.func have no derivatives.
are_functorch_transforms_active = torch._C._are_functorch_transforms_active
is_functorch_wrapped_tensor = torch._C._functorch.is_functorch_wrapped_tensor
get_unwrapped = torch._C._functorch.get_unwrapped

# What torch.autograd.functional batches where it vectorizes, by older means than torch.func.
# Without them: is_grads_batched of ComplexTensors fails, or leaves results in batches.
is_legacy_batchedtensor = torch._C._functorch.is_legacy_batchedtensor
remove_batch_dim: Any = torch._remove_batch_dim
vmap_of_autograd = _vmap_internals._vmap


def is_functionalized() -> bool:
    """Whether functionalize is the innermost transform; without it, torch's assertion fails."""
    functorch = torch._C._functorch
    stack = functorch.peek_interpreter_stack()
    return stack is not None and stack.key() == functorch.TransformType.Functionalize


# torch.compile, torch.export and TorchScript

# The classes of tensors in graphs. Without them: launches and copies of parts are tried on tensors
# that have no numbers.
FakeTensor = fake_tensor.FakeTensor
FunctionalTensor = functional_tensor.FunctionalTensor

# The file that makes a twin of a tensor for a graph and asks what it is a view of. Without it:
# graphs do not tell views of parts from copies.
CONVERTER: str = meta_utils.__file__

# Whether a graph is made, of which inputs, and which one in a row. Without them: functions of the
# host end up in graphs, and nothing warns before Dynamo falls back to eager mode.
TracingContext, CompileContext = _guards.TracingContext, _guards.CompileContext

# Which proxy stands for a tensor in make_fx. Without it: exported programs have no ComplexTensors.
proxy_tensor = proxy_tensor_of_torch

# As torch.jit.is_tracing, in half of the time. Without it: small calls take 0.3 us longer.
is_tracing: Callable[[], bool] = torch._C._is_tracing

# The classes of scripted code, whose call refuses devices without complex storage; what scripted
# code finds under the name of a replaced function; the names of all operators with a dtype, and of
# functions that make tensors. Without them: scripted models see `patch_torch` half.
ScriptFunction, ScriptMethod = torch._C.ScriptFunction, torch._C.ScriptMethod
find_builtin, register_builtin = _builtins._find_builtin, _builtins._register_builtin
set_jit_function_cache = _state._set_jit_function_cache
jit_get_all_schemas = torch._C._jit_get_all_schemas
device_constructors = _device._device_constructors


def keep_from_compiler(function: Callable[..., object]) -> None:
    """Keeps torch.compile out of a function, where compiled functions fall back to eager mode.

    Without it, Dynamo compiles the inside of autograd functions. torch._dynamo's own function for
    this purpose takes seconds to import.
    """
    frames: Any = torch._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
        frames.set_code_exec_strategy(function.__code__, skip)  # type: ignore[attr-defined]


def uncompiled(function: Callable[..., Result], *args: object) -> Result:
    """Calls a function of which torch.compile makes no graph after a fallback to eager mode.

    Without it, Dynamo compiles torch's own code for autograd functions inside of torch.func.
    """
    before = torch._C._dynamo.eval_frame.set_eval_frame(None)
    try:
        return function(*args)
    finally:
        torch._C._dynamo.eval_frame.set_eval_frame(before)


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """A context in which torch.compiler.is_compiling is True, as around functions in a graph.

    Without it, such functions would do as in eager mode, because it is False inside them.
    """
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


def nonstrict_trace(function: Callable[..., Result]) -> Callable[..., Result]:
    """Lets Dynamo call a function on fake tensors; without it, it traces the planner."""
    from torch._dynamo import nonstrict_trace as of_torch  # here: it takes seconds to import

    return of_torch(function)


def dynamo_config() -> Any:
    """Returns Dynamo's settings; without them, dynamic shapes fail in TorchNeuron's compiler."""
    return torch._dynamo.config  # loaded where it is asked


# torch.nn

# The common class of torch's convolutions, which FFTConv is, too. Without it: FFTConv cannot load
# and show what torch's layers do.
ConvNd = torch.nn.modules.conv._ConvNd

# torch.distributed


def functional_collectives() -> ModuleType:
    """Returns exchanges that graphs can have; without them, DTensors cannot be compiled."""
    import torch.distributed._functional_collectives as collectives  # here, as few need it

    return collectives


def strided_shard() -> Any:
    """Returns the placement that FSDP makes of split parameters; without it, they are refused."""
    from torch.distributed.tensor.placement_types import _StridedShard  # here, as it loads DTensor

    return _StridedShard


def register_sharding(operator: OpOverload) -> Callable[..., Any]:
    """Tells DTensor how an operator splits; without it, DTensor gathers its arguments."""
    from torch.distributed.tensor.experimental import register_sharding as of_torch

    return of_torch(operator)


def resolve_process_group(name: Any) -> Any:
    """Returns the process group of a name in a graph; without it, bytes have no receiver."""
    return torch.distributed.distributed_c10d._resolve_process_group(name)


def timeout_of(
    group: torch.distributed.ProcessGroup, device: torch.device, default: timedelta
) -> timedelta:
    """Returns how long a group waits for others; without it, the user's timeout is ignored."""
    backend = group._get_backend(device)
    return getattr(getattr(backend, "options", None), "_timeout", default)
