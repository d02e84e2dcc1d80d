"""Each private API of PyTorch does what trnfft needs, and only torch_private.py names one."""

import ast
import contextlib
import datetime
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.tensor import DTensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

import trnfft
from trnfft.base import torch_private as private

PACKAGE = Path(trnfft.__file__).parent
FILE = Path(private.__file__)
aten = torch.ops.aten
CHECKS: dict[str, Callable[[], None]] = {}


def of(*names: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Makes a function the check of these names, which are used together."""

    def decorate(check: Callable[[], None]) -> Callable[[], None]:
        CHECKS.update(dict.fromkeys(names, check))
        return check

    return decorate


def leaf() -> torch.Tensor:
    return torch.ones(2, requires_grad=True)


class Noted(list):
    """The results of a function of a tensor that is called where torch calls what returns it."""

    def __init__(self, function: Callable[[Any], object]):
        super().__init__()
        self.function = function

    def __call__(self, x: Any) -> Any:
        self.append(self.function(x))
        return 2 * x


class Seen(private.TorchDispatchMode):
    """A mode that notes the operators that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[object] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operators.append(func)
        return func(*args, **(kwargs or {}))


class Overriding(torch.Tensor):
    """A tensor whose functions all return 'seen'."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "seen"


class Quiet(torch.Tensor):
    __torch_function__ = private.disabled_torch_function_impl


class Memoryless(torch.Tensor):
    """A tensor without memory, which no operator may read."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError(func)


class Doubled(private.SingleLevelFunction):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


@of("tree_any", "tree_leaves", "tree_map", "tree_map_only", "default_collate_fn_map")
def nested_arguments() -> None:
    assert private.tree_any(lambda x: x == 1, ([0], {"a": 1}))
    assert private.tree_leaves(([1], {"a": 2})) == [1, 2]
    assert private.tree_map(lambda x: 2 * x, ([1],)) == ([2],)
    assert private.tree_map_only(int, str, ([1], 2.0)) == (["1"], 2.0)
    assert torch.Tensor in private.default_collate_fn_map


@of("make_wrapper_subclass", "set_throw_on_mutable_data_ptr", "functionalize_unsafe_set")
@of("have_one_storage")
def tensors_without_memory() -> None:
    of_cpu = None, torch.complex64, torch.strided, torch.device("cpu")
    x, y = (private.make_wrapper_subclass(Memoryless, (2,), (1,), 0, *of_cpu) for _ in range(2))
    assert x.dtype == torch.complex64 and not private.have_one_storage(x, y)
    private.functionalize_unsafe_set(x, y)
    assert private.have_one_storage(x, y)
    private.set_throw_on_mutable_data_ptr(x)
    with pytest.raises(RuntimeError):
        x.data_ptr()


@of("set_conj", "neg_view", "conj_view", "version_of", "is_view_of_memory", "is_zerotensor")
@of("has_compatible_shallow_copy_type", "typed_storage")
def what_a_tensor_says() -> None:
    z = torch.tensor([1 + 2j])
    private.set_conj(z, True)
    assert z.is_conj() and not private.conj_view(z).is_conj()
    assert z.imag.is_neg() and not private.neg_view(z.imag).is_neg()
    x = torch.ones(3)
    assert [private.version_of(x), private.version_of(x.add_(1))] == [0, 1]
    assert private.is_view_of_memory(x[:1]) and not private.is_view_of_memory(x)
    assert private.is_zerotensor(torch._efficientzerotensor(2)) and not private.is_zerotensor(x)
    assert private.has_compatible_shallow_copy_type(x, z.real)
    assert len(private.typed_storage(x)) == 3


@of("DisableTorchFunctionSubclass", "DisableTorchFunction", "EnableTorchFunction")
@of("is_torch_function_enabled", "disabled_torch_function_impl", "len_torch_function_stack")
def who_sees_functions() -> None:
    x = torch.ones(2).as_subclass(Overriding)
    assert type(torch.ones(2).as_subclass(Quiet) + 1) is torch.Tensor
    with private.DisableTorchFunctionSubclass():
        assert isinstance(torch.add(x, 1), torch.Tensor)
        with private.EnableTorchFunction():
            assert torch.add(x, 1) == "seen"
    assert private.is_torch_function_enabled()
    with private.DisableTorchFunction():
        assert isinstance(torch.add(x, 1), torch.Tensor)
        assert not private.is_torch_function_enabled()
    with torch.device("cpu"):
        assert private.len_torch_function_stack() == 1


@of("TorchDispatchMode", "DisableTorchDispatch", "disable_current_modes")
@of("get_current_dispatch_mode_stack", "len_torch_dispatch_stack")
def who_sees_operators() -> None:
    for context, count in (
        (contextlib.nullcontext, 2),
        (private.DisableTorchDispatch, 0),
        (private.disable_current_modes, 0),
    ):
        with Seen() as mode, context():
            torch.ones(2).add(1)
        assert len(mode.operators) == count
    with Seen():
        stack = private.get_current_dispatch_mode_stack()
        assert private.len_torch_dispatch_stack() == len(stack) == 1


@of("DispatchKey", "DispatchKeySet", "dispatch_key_parse", "dispatch_tls_local_include_set")
@of("dispatch_tls_local_exclude_set", "ForceDispatchKeyGuard", "ExcludeDispatchKeyGuard")
@of("AutoDispatchBelowAutograd")
def keys_of_dispatch() -> None:
    key = private.dispatch_key_parse("Conjugate")
    assert key == private.DispatchKey.Conjugate
    keys = private.DispatchKeySet(key)
    included = private.dispatch_tls_local_include_set()
    excluded = private.dispatch_tls_local_exclude_set() | keys
    with private.ForceDispatchKeyGuard(included, excluded):
        assert str(private.dispatch_tls_local_exclude_set()) == str(excluded)
    with private.ExcludeDispatchKeyGuard(keys):
        assert str(private.dispatch_tls_local_exclude_set() & keys) == str(keys)
    with private.AutoDispatchBelowAutograd():
        assert not (2 * leaf()).requires_grad


@of("OpOverload", "dispatch_has_kernel_for_dispatch_key", "decomposition_table")
@of("maybe_get_opdef", "jit_get_all_schemas", "device_constructors")
def operators() -> None:
    assert isinstance(aten.add.Tensor, private.OpOverload)
    assert private.dispatch_has_kernel_for_dispatch_key(
        "aten::linalg_multi_dot", "CompositeImplicitAutograd"
    )
    assert aten.logaddexp.default in private.decomposition_table()
    assert "aten::zeros" in {schema.name for schema in private.jit_get_all_schemas()}
    assert torch.zeros in private.device_constructors()

    @torch.library.custom_op("trnfft_private_test::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    found = private.maybe_get_opdef(torch.ops.trnfft_private_test.double.default)
    assert found is double and found._init_fn(torch.ones(1)).item() == 2


@of("any_requires_grad", "is_forward_mode", "set_fwd_grad_enabled", "is_fwd_grad_enabled")
@of("SingleLevelFunction", "enable_single_level_autograd_function")
def derivatives() -> None:
    x = leaf()
    assert private.any_requires_grad(1, x) and not private.any_requires_grad(1, x.detach())
    assert not private.is_forward_mode()
    with torch.autograd.forward_ad.dual_level():
        assert private.is_forward_mode() and private.is_fwd_grad_enabled()
    with private.set_fwd_grad_enabled(False):
        assert not private.is_fwd_grad_enabled()
    with private.enable_single_level_autograd_function():
        Doubled.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


@of("current_autograd_node", "current_graph_task_id", "queue_callback")
def a_backward_pass() -> None:
    order: list[object] = []

    def hook(gradient):
        private.queue_callback(lambda: order.append("end"))
        order.append(private.current_graph_task_id())
        order.append(private.current_autograd_node() is not None)

    y = 2 * leaf()
    y.register_hook(hook)
    y.sum().backward()
    number, *rest = order
    assert private.current_graph_task_id() == -1 != number and rest == [True, "end"]


def checkpointed() -> None:
    torch.utils.checkpoint.checkpoint(torch.sin, leaf(), use_reentrant=False).sum().backward()


@of("wrap_engine", "wrap_checkpoint")
def wrapped_functions() -> None:
    for wrap, places, name in (
        (private.wrap_engine, (torch.autograd.graph, torch.autograd), "_engine_run_backward"),
        (
            private.wrap_checkpoint,
            (torch.utils.checkpoint,),
            "_checkpoint_without_reentrant_generator",
        ),
    ):
        calls: list[object] = []

        def wrapper(function, calls=calls):
            return lambda *args, **kwargs: (calls.append(1), function(*args, **kwargs))[1]

        with pytest.MonkeyPatch.context() as patch:
            for place in places:
                patch.setattr(place, name, getattr(place, name))
            wrap(wrapper)
            checkpointed()
        assert calls


@of("are_functorch_transforms_active", "is_functorch_wrapped_tensor", "get_unwrapped")
@of("is_functionalized", "functional_mode", "FunctionalTensor", "FakeTensor")
def transforms() -> None:
    asked = Noted(
        lambda x: (
            private.are_functorch_transforms_active(),
            private.is_functorch_wrapped_tensor(x),
            private.is_functorch_wrapped_tensor(private.get_unwrapped(x)),
        )
    )
    torch.vmap(asked)(torch.ones(2, 3))
    assert asked == [(True, True, False)]
    asked = Noted(lambda x: private.is_functionalized())
    asked(torch.ones(2))
    torch.func.functionalize(asked)(torch.ones(2))
    assert asked == [False, True]
    functional = torch._subclasses.functional_tensor
    with functional.FunctionalTensorMode() as mode:
        x = functional.FunctionalTensor.to_functional(torch.ones(2))
        assert private.functional_mode() is mode and isinstance(x, private.FunctionalTensor)
    assert private.functional_mode() is None
    with torch._subclasses.FakeTensorMode():
        assert isinstance(torch.ones(2), private.FakeTensor)


@of("is_legacy_batchedtensor", "remove_batch_dim", "vmap_of_autograd")
@of("dispatch_tls_is_dispatch_key_included")
def older_batches() -> None:
    key, removed = private.dispatch_key_parse("VmapMode"), []

    class Noting(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            removed.append(func is private.remove_batch_dim)
            return func(*args, **(kwargs or {}))

    asked = Noted(
        lambda x: (
            private.is_legacy_batchedtensor(x),
            private.dispatch_tls_is_dispatch_key_included(key),
        )
    )
    with Noting():
        found = private.vmap_of_autograd(asked)(torch.ones(2, 3))
    assert found.tolist() == [[2.0] * 3] * 2 and asked == [(True, True)] and any(removed)
    assert not private.dispatch_tls_is_dispatch_key_included(key)


@of("proxy_mode", "proxy_tensor", "CONVERTER", "is_tracing")
def traced_functions() -> None:
    def has_proxy(x):
        return private.proxy_tensor.get_proxy_slot(x, private.proxy_mode().tracer, None) is not None

    asked = Noted(has_proxy)
    make_fx(asked)(torch.ones(2))
    assert asked == [True]
    converter = torch._subclasses.meta_utils.MetaConverter
    assert converter.meta_tensor.__code__.co_filename == private.CONVERTER
    asked = Noted(lambda x: private.is_tracing())
    torch.jit.trace(lambda x: asked(x), torch.ones(2))
    assert True in asked and not private.is_tracing()


@of("ScriptFunction", "ScriptMethod", "find_builtin", "register_builtin")
@of("set_jit_function_cache")
def scripts() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    def stands_for(x):
        raise AssertionError

    scripted = torch.jit.script(double)
    assert isinstance(scripted, private.ScriptFunction)
    linear = torch.jit.script(torch.nn.Linear(2, 2))
    assert isinstance(linear.forward, private.ScriptMethod)
    private.register_builtin(stands_for, private.find_builtin(torch.sin))
    assert private.find_builtin(stands_for) == private.find_builtin(torch.sin)
    private.set_jit_function_cache(stands_for, scripted)
    assert torch.jit._state._try_get_jit_cached_function(stands_for) is not None


def graphs_inside(inner: Callable, call: Callable = lambda function, x: function(x)) -> int:
    """Returns how many graphs torch.compile makes of a function below one that it leaves out."""
    graphs = []

    @torch.compiler.disable(recursive=False)
    def middle(x):
        return call(inner, x)

    def note(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch.compile(lambda x: middle(x), backend=note)(torch.ones(2))
    return len(graphs)


@of("keep_from_compiler", "uncompiled", "compiling", "nonstrict_trace", "dynamo_config")
@of("TracingContext", "CompileContext")
def compiled_functions() -> None:
    kept = lambda function, x: function(x)  # noqa: E731
    private.keep_from_compiler(kept)
    assert graphs_inside(lambda x: x + 1) == 1
    assert graphs_inside(lambda x: x + 2, kept) == 0
    assert graphs_inside(lambda x: x + 3, private.uncompiled) == 0
    with private.compiling():
        assert torch.compiler.is_compiling()
    assert private.dynamo_config().recompile_limit > 0
    seen = []

    @private.nonstrict_trace
    def inner(x):
        seen.append(type(x))  # which Dynamo would trace as a constant
        return x + 1

    compiled = torch.compile(lambda x: inner(x), backend="aot_eager", fullgraph=True)
    assert compiled(torch.ones(2)).tolist() == [2, 2] and seen
    torch._dynamo.reset()

    @torch.compiler.assume_constant_result
    def ask():
        made = private.CompileContext.current_compile_id()
        stack = private.TracingContext.extract_stack()
        seen.append((made.frame_compile_id, bool(stack), private.TracingContext.try_get()))
        return 1

    torch.compile(lambda x: x + ask(), backend="eager")(torch.ones(2))
    frame, has_stack, context = seen[-1]
    assert frame == 0 and has_stack and len(context.tensor_to_context) >= 0


@of("ConvNd", "functional_collectives", "strided_shard", "register_sharding")
@of("resolve_process_group", "timeout_of")
def layers_and_processes() -> None:
    assert isinstance(torch.nn.Conv2d(1, 1, 1), private.ConvNd)
    placed = private.strided_shard()(0, split_factor=2)
    assert (placed.dim, placed.split_factor) == (0, 2)
    assert len(DTensor._op_dispatcher.sharding_propagator.op_to_schema_info) > 0
    assert callable(private.register_sharding(aten.sgn.default))
    distributed, x = torch.distributed, torch.arange(2.0)
    store, limit = distributed.HashStore(), datetime.timedelta(seconds=77)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1, timeout=limit)
    try:
        group = distributed.group.WORLD
        assert private.resolve_process_group(group.group_name) is group
        assert private.timeout_of(group, torch.device("cpu"), None).total_seconds() == 77
        collectives = private.functional_collectives()
        for y in (
            collectives.all_to_all_single(x, [2], [2], group),
            collectives.all_reduce(x, "sum", group),
        ):
            assert torch.equal(collectives.wait_tensor(y), x)
    finally:
        distributed.destroy_process_group()


@pytest.mark.parametrize("check", dict.fromkeys(CHECKS.values()), ids=lambda check: check.__name__)
def test_private_apis_do_what_is_needed(check):
    check()


def names_of(path: Path) -> set[str]:
    """Returns the names that a module defines, except aliases of types."""
    found = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        for target in targets:
            found |= (
                {x.id for x in ast.walk(target) if isinstance(x, ast.Name)} if target else set()
            )
    return found - {"Wrapper", "Result"}


def test_each_name_has_a_check():
    assert names_of(FILE) == set(CHECKS)


def private_names(path: Path) -> set[str]:
    """Returns the private modules and attributes of torch that a file imports or reads."""
    tree, found, modules = ast.parse(path.read_text("utf-8")), set(), {"torch": "torch"}
    for node in ast.walk(tree):
        names = node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ()
        for alias in names:
            head = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            whole = f"{head}{alias.name}"
            if whole.split(".")[0] == "torch":
                modules[alias.asname or alias.name.split(".")[0]] = whole if head else "torch"
                found.add(whole)
    for node in ast.walk(tree):
        dotted = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
        first, _, rest = dotted.partition(".")
        if first in modules and re.fullmatch(r"[\w.]+", rest):
            found.add(f"{modules[first]}.{rest}")
    is_operator = re.compile(r"torch\.ops\b")
    is_private = re.compile(r"\.(_[a-zA-Z]|experimental\b)|^torch\._C\b")
    return {name for name in found if is_private.search(name) and not is_operator.match(name)}


def test_no_other_file_names_a_private_api():
    found = {path: private_names(path) for path in PACKAGE.rglob("*.py") if path != FILE}
    assert {path: names for path, names in found.items() if names} == {}
    assert len(private_names(FILE)) > 60
