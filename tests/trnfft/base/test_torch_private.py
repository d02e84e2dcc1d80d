"""Each private API of PyTorch does what trnfft needs, and only torch_private.py names one."""

import ast
import contextlib
import datetime
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import trnfft
from trnfft.base import torch_private as private

PACKAGE = Path(trnfft.__file__).parent
FILE = Path(private.__file__)
aten = torch.ops.aten


class Mode(private.TorchDispatchMode):
    """A mode that notes the operators that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
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


def memoryless() -> torch.Tensor:
    of_cpu = None, torch.complex64, torch.strided, torch.device("cpu")
    return private.make_wrapper_subclass(Memoryless, (2,), (1,), 0, *of_cpu)


def overridden() -> torch.Tensor:
    return torch.ones(2).as_subclass(Overriding)


def inside(context, ask: Callable[[], object]) -> object:
    with context:
        return ask()


def in_backward(ask: Callable[[], object]) -> list[object]:
    """Returns what a function returns in a hook of a backward pass."""
    x, found = torch.ones(2, requires_grad=True), []
    y = 2 * x
    y.register_hook(lambda gradient: found.append(ask()))
    y.sum().backward()
    return found


def in_vmap(ask: Callable[[torch.Tensor], object]) -> list[object]:
    found = []
    torch.vmap(lambda x: (found.append(ask(x)), x)[1])(torch.ones(2, 3))
    return found


def in_graph(ask: Callable[[torch.Tensor], object]) -> list[object]:
    """Returns what a function of a tensor returns while make_fx records it."""
    found = []
    make_fx(lambda x: (found.append(ask(x)), 2 * x)[1])(torch.ones(2))
    return found


def in_old_batch(ask: Callable[[torch.Tensor], object]) -> list[object]:
    """Returns what a function returns of a gradient that torch.autograd.grad batches."""
    x, found = torch.ones(2, requires_grad=True), []
    y = 2 * x
    y.register_hook(lambda gradient: found.append(ask(gradient)))
    torch.autograd.grad(y, x, torch.eye(2), is_grads_batched=True)
    return found


def raises(function: Callable[[], object], match: str = "") -> bool:
    with pytest.raises(RuntimeError, match=match):
        function()
    return True


def wrapped(wrap: Callable, run: Callable[[], object], undo: tuple[object, ...], name: str) -> bool:
    """Returns whether a wrapper that is installed meets a call."""
    calls: list[object] = []
    before = [getattr(place, name) for place in undo]

    def wrapper(function):
        return lambda *args, **kwargs: (calls.append(function), function(*args, **kwargs))[1]

    wrap(wrapper)
    try:
        run()
    finally:
        for place, function in zip(undo, before, strict=True):
            setattr(place, name, function)
    return len(calls) > 0


def backward() -> None:
    torch.ones(2, requires_grad=True).sum().backward()


def checkpointed() -> None:
    x = torch.ones(2, requires_grad=True)
    torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False).sum().backward()


def zero_tangent() -> torch.Tensor:
    return torch._efficientzerotensor(2)


def views_of_sign() -> bool:
    z = torch.tensor([1 + 2j]).conj()
    return z.imag.is_neg() and not private.neg_view(z.imag).is_neg()


def written() -> torch.Tensor:
    return torch.ones(2).add_(1)


KEYS = private.DispatchKeySet(private.DispatchKey.Conjugate)


def forced() -> bool:
    """Whether keys that are included hold in the block."""
    included = private.dispatch_tls_local_include_set()
    excluded = private.dispatch_tls_local_exclude_set() | KEYS
    with private.ForceDispatchKeyGuard(included, excluded):
        return str(private.dispatch_tls_local_exclude_set()) == str(excluded)


def excluded() -> bool:
    with private.ExcludeDispatchKeyGuard(KEYS):
        return str(private.dispatch_tls_local_exclude_set() & KEYS) == str(KEYS)


def follows(context) -> bool:
    with context:
        return (2 * torch.ones(2, requires_grad=True)).requires_grad


class Doubled(private.SingleLevelFunction):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


def at_one_level() -> bool:
    x = torch.ones(2, requires_grad=True)
    with private.enable_single_level_autograd_function():
        Doubled.apply(x).sum().backward()
    return x.grad.tolist() == [2, 2]


def graphs_inside(inner: Callable, call: Callable = lambda function, x: function(x)) -> int:
    """Returns how many graphs torch.compile makes of a function below one that it leaves out."""
    graphs = []

    def note(graph, inputs):
        graphs.append(graph)
        return graph.forward

    @torch.compiler.disable(recursive=False)
    def middle(x):
        return call(inner, x)

    torch.compile(lambda x: middle(x), backend=note)(torch.ones(2))
    return len(graphs)


def kept() -> int:
    call = lambda function, x: function(x)  # noqa: E731
    private.keep_from_compiler(call)
    return graphs_inside(lambda x: x + 2, call)


def traced() -> bool:
    found = []
    torch.jit.trace(lambda x: (found.append(private.is_tracing()), x + 1)[1], torch.ones(2))
    return True in found and not private.is_tracing()


def scripted() -> object:
    def double(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    return torch.jit.script(double)


def found_again() -> bool:
    """Whether a script calls a builtin operator under the name of another function."""

    def stands_for(x):
        raise AssertionError

    private.register_builtin(stands_for, private.find_builtin(torch.sin))
    return private.find_builtin(stands_for) == private.find_builtin(torch.sin)


def cached_script() -> bool:
    def stands_for(x):
        raise AssertionError

    private.set_jit_function_cache(stands_for, scripted())
    return torch.jit._state._try_get_jit_cached_function(stands_for) is not None


def nonstrict() -> bool:
    seen = []

    @private.nonstrict_trace
    def inner(x):
        seen.append(type(x))  # which Dynamo would trace as a constant
        return x + 1

    compiled = torch.compile(lambda x: inner(x), backend="aot_eager", fullgraph=True)
    return compiled(torch.ones(2)).tolist() == [2, 2] and len(seen) > 0


def strided() -> bool:
    placed = private.strided_shard()(0, split_factor=2)
    return (placed.dim, placed.split_factor) == (0, 2)


def shards() -> bool:
    from torch.distributed.tensor import DTensor

    before = len(DTensor._op_dispatcher.sharding_propagator.op_to_schema_info)
    decorate = private.register_sharding(torch.ops.aten.sgn.default)
    return callable(decorate) and before > 0


@contextlib.contextmanager
def one_process() -> Iterator[torch.distributed.ProcessGroup]:
    store = torch.distributed.HashStore()
    limit = datetime.timedelta(seconds=77)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1, timeout=limit)
    try:
        yield torch.distributed.group.WORLD
    finally:
        torch.distributed.destroy_process_group()


def resolved() -> bool:
    with one_process() as group:
        return private.resolve_process_group(group.group_name) is group


def exchanged() -> bool:
    with one_process() as group:
        collectives = private.functional_collectives()
        x = torch.arange(2.0)
        y = collectives.wait_tensor(collectives.all_to_all_single(x, [2], [2], group))
        z = collectives.wait_tensor(collectives.all_reduce(x, "sum", group))
        return torch.equal(x, y) and torch.equal(x, z)


def patient() -> bool:
    with one_process() as group:
        return private.timeout_of(group, torch.device("cpu"), None).total_seconds() == 77


def called_back() -> list[str]:
    order: list[str] = []

    def hook():
        private.queue_callback(lambda: order.append("end"))
        order.append("hook")

    in_backward(hook)
    return order


def shaped() -> bool:
    with torch._subclasses.FakeTensorMode():
        return isinstance(torch.ones(2), private.FakeTensor)


def functional() -> bool:
    with torch._subclasses.functional_tensor.FunctionalTensorMode() as mode:
        x = torch._subclasses.functional_tensor.FunctionalTensor.to_functional(torch.ones(2))
        is_seen = private.functional_mode() is mode
    return is_seen and isinstance(x, private.FunctionalTensor) and not private.functional_mode()


def graph_of_now() -> bool:
    torch._dynamo.reset()
    seen = []

    @torch.compiler.assume_constant_result
    def ask():
        made = private.CompileContext.current_compile_id()
        stack = private.TracingContext.extract_stack()
        seen.append((made.frame_compile_id, bool(stack), private.TracingContext.try_get()))
        return 1

    torch.compile(lambda x: x + ask(), backend="eager")(torch.ones(2))
    frame, has_stack, context = seen[0]
    return frame == 0 and has_stack and len(context.tensor_to_context) >= 0


def proxied() -> list[bool]:
    def ask(x):
        tracer = private.proxy_mode().tracer
        return private.proxy_tensor.get_proxy_slot(x, tracer, None) is not None

    return in_graph(ask)


def functionalized() -> list[bool]:
    found = [private.is_functionalized()]
    function = torch.func.functionalize(lambda x: (found.append(private.is_functionalized()), x)[1])
    function(torch.ones(2))
    return found


def unwrapped() -> bool:
    def level(x):
        return private.is_functorch_wrapped_tensor(private.get_unwrapped(x))

    return in_vmap(private.is_functorch_wrapped_tensor) == [True] and in_vmap(level) == [False]


def old_batches() -> bool:
    seen = []
    inner = torch.ones(2, 3)
    function = private.vmap_of_autograd(lambda x: (seen.append(x), 2 * x)[1])
    is_right = torch.equal(function(inner), 2 * inner)
    return is_right and private.is_legacy_batchedtensor(seen[0])


def unbatched() -> bool:
    calls = []

    class Noting(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            calls.append(func)
            return func(*args, **(kwargs or {}))

    with Noting():
        private.vmap_of_autograd(lambda x: 2 * x)(torch.ones(2, 3))
    return callable(private.remove_batch_dim) and private.remove_batch_dim in calls


def switched_derivatives() -> bool:
    with private.set_fwd_grad_enabled(False):
        return not private.is_fwd_grad_enabled()


def forward_level() -> list[bool]:
    with torch.autograd.forward_ad.dual_level():
        return [private.is_forward_mode()]


def seen_by_mode(context) -> list[object]:
    with Mode() as mode, context:
        torch.ones(2).add(1)
    return mode.seen


def storage_of_argument() -> bool:
    x, y = memoryless(), memoryless()
    private.functionalize_unsafe_set(x, y)
    return private.have_one_storage(x, y)


def library() -> torch.library.CustomOpDef:
    @torch.library.custom_op("trnfft_private_test::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    return double


def opdef() -> bool:
    operator = library()
    found = private.maybe_get_opdef(torch.ops.trnfft_private_test.double.default)
    return found is operator and found._init_fn(torch.ones(1)).item() == 2


def compiling() -> bool:
    return inside(private.compiling(), torch.compiler.is_compiling)


def versions() -> list[int]:
    return [private.version_of(torch.ones(2)), private.version_of(written())]


def lazily() -> bool:
    z = torch.tensor([1 + 2j])
    private.set_conj(z, True)
    return z.is_conj() and not private.conj_view(z).is_conj()


def batched_keys() -> bool:
    key = private.dispatch_key_parse("VmapMode")
    asked = []
    function = private.vmap_of_autograd(
        lambda x: (asked.append(private.dispatch_tls_is_dispatch_key_included(key)), x * 2)[1]
    )
    function(torch.ones(2, 3))
    return asked == [True] and not private.dispatch_tls_is_dispatch_key_included(key)


def refuses_pointer() -> bool:
    x = memoryless()
    private.set_throw_on_mutable_data_ptr(x)
    return raises(x.data_ptr)


def enabled_again() -> bool:
    with private.DisableTorchFunctionSubclass():
        return inside(private.EnableTorchFunction(), lambda: overridden() + 1) == "seen"


def calls_without_subclass(context) -> bool:
    return isinstance(inside(context, lambda: torch.add(overridden(), 1)), torch.Tensor)


CHECKS: dict[str, Callable[[], object]] = {
    "tree_any": lambda: private.tree_any(lambda x: x == 1, ([0], {"a": 1})),
    "tree_leaves": lambda: private.tree_leaves(([1], {"a": 2})) == [1, 2],
    "tree_map": lambda: private.tree_map(lambda x: 2 * x, ([1],)) == ([2],),
    "tree_map_only": lambda: private.tree_map_only(int, str, ([1], 2.0)) == (["1"], 2.0),
    "default_collate_fn_map": lambda: torch.Tensor in private.default_collate_fn_map,
    "make_wrapper_subclass": lambda: memoryless().dtype == torch.complex64,
    "set_throw_on_mutable_data_ptr": refuses_pointer,
    "set_conj": lazily,
    "functionalize_unsafe_set": storage_of_argument,
    "has_compatible_shallow_copy_type": lambda: private.has_compatible_shallow_copy_type(
        torch.ones(2), torch.ones(3)
    ),
    "typed_storage": lambda: len(private.typed_storage(torch.ones(3))) == 3,
    "is_view_of_memory": lambda: private.is_view_of_memory(torch.ones(2)[:1]),
    "is_zerotensor": lambda: private.is_zerotensor(zero_tangent()),
    "neg_view": views_of_sign,
    "conj_view": lazily,
    "version_of": lambda: versions() == [0, 1],
    "have_one_storage": storage_of_argument,
    "len_torch_dispatch_stack": lambda: inside(Mode(), private.len_torch_dispatch_stack) == 1,
    "len_torch_function_stack": lambda: (
        inside(torch.device("cpu"), private.len_torch_function_stack) == 1
    ),
    "DisableTorchFunctionSubclass": lambda: calls_without_subclass(
        private.DisableTorchFunctionSubclass()
    ),
    "DisableTorchFunction": lambda: calls_without_subclass(private.DisableTorchFunction()),
    "EnableTorchFunction": enabled_again,
    "is_torch_function_enabled": lambda: (
        private.is_torch_function_enabled()
        and not inside(private.DisableTorchFunction(), private.is_torch_function_enabled)
    ),
    "disabled_torch_function_impl": lambda: (
        type(torch.ones(2).as_subclass(Quiet) + 1) is (torch.Tensor)
    ),
    "DisableTorchDispatch": lambda: seen_by_mode(private.DisableTorchDispatch()) == [],
    "TorchDispatchMode": lambda: len(seen_by_mode(contextlib.nullcontext())) == 2,
    "get_current_dispatch_mode_stack": lambda: (
        len(inside(Mode(), private.get_current_dispatch_mode_stack)) == 1
    ),
    "disable_current_modes": lambda: seen_by_mode(private.disable_current_modes()) == [],
    "proxy_mode": lambda: in_graph(lambda x: private.proxy_mode() is not None) == [True],
    "functional_mode": functional,
    "DispatchKey": lambda: str(private.DispatchKey.Conjugate) == "DispatchKey.Conjugate",
    "DispatchKeySet": lambda: "Conjugate" in str(KEYS | KEYS),
    "dispatch_key_parse": lambda: (
        private.dispatch_key_parse("Conjugate") == (private.DispatchKey.Conjugate)
    ),
    "dispatch_tls_local_include_set": forced,
    "dispatch_tls_local_exclude_set": forced,
    "dispatch_tls_is_dispatch_key_included": batched_keys,
    "ForceDispatchKeyGuard": forced,
    "ExcludeDispatchKeyGuard": excluded,
    "AutoDispatchBelowAutograd": lambda: not follows(private.AutoDispatchBelowAutograd()),
    "OpOverload": lambda: isinstance(aten.add.Tensor, private.OpOverload),
    "dispatch_has_kernel_for_dispatch_key": lambda: private.dispatch_has_kernel_for_dispatch_key(
        "aten::linalg_multi_dot", "CompositeImplicitAutograd"
    ),
    "maybe_get_opdef": opdef,
    "decomposition_table": lambda: aten.logaddexp.default in private.decomposition_table(),
    "any_requires_grad": lambda: private.any_requires_grad(1, torch.ones(2, requires_grad=True)),
    "is_forward_mode": lambda: [private.is_forward_mode(), *forward_level()] == [False, True],
    "set_fwd_grad_enabled": switched_derivatives,
    "is_fwd_grad_enabled": private.is_fwd_grad_enabled,
    "SingleLevelFunction": at_one_level,
    "enable_single_level_autograd_function": at_one_level,
    "current_autograd_node": lambda: (
        in_backward(lambda: private.current_autograd_node() is not None) == [True]
    ),
    "current_graph_task_id": lambda: (
        private.current_graph_task_id() == -1 != in_backward(private.current_graph_task_id)[0]
    ),
    "queue_callback": lambda: called_back() == ["hook", "end"],
    "wrap_engine": lambda: wrapped(
        private.wrap_engine,
        backward,
        (torch.autograd.graph, torch.autograd),
        "_engine_run_backward",
    ),
    "wrap_checkpoint": lambda: wrapped(
        private.wrap_checkpoint,
        checkpointed,
        (torch.utils.checkpoint,),
        "_checkpoint_without_reentrant_generator",
    ),
    "are_functorch_transforms_active": lambda: (
        in_vmap(lambda x: private.are_functorch_transforms_active()) == [True]
    ),
    "is_functorch_wrapped_tensor": unwrapped,
    "get_unwrapped": unwrapped,
    "is_legacy_batchedtensor": lambda: in_old_batch(private.is_legacy_batchedtensor) == [True],
    "remove_batch_dim": unbatched,
    "vmap_of_autograd": old_batches,
    "is_functionalized": lambda: functionalized() == [False, True],
    "FakeTensor": shaped,
    "FunctionalTensor": functional,
    "CONVERTER": lambda: (
        (torch._subclasses.meta_utils.MetaConverter.meta_tensor.__code__.co_filename)
        == private.CONVERTER
    ),
    "TracingContext": graph_of_now,
    "CompileContext": graph_of_now,
    "proxy_tensor": lambda: proxied() == [True],
    "is_tracing": traced,
    "ScriptFunction": lambda: isinstance(scripted(), private.ScriptFunction),
    "ScriptMethod": lambda: isinstance(
        torch.jit.script(torch.nn.Linear(2, 2)).forward, private.ScriptMethod
    ),
    "find_builtin": found_again,
    "register_builtin": found_again,
    "set_jit_function_cache": cached_script,
    "jit_get_all_schemas": lambda: (
        "aten::zeros" in {schema.name for schema in private.jit_get_all_schemas()}
    ),
    "device_constructors": lambda: torch.zeros in private.device_constructors(),
    "keep_from_compiler": lambda: (kept(), graphs_inside(lambda x: x + 1)) == (0, 1),
    "uncompiled": lambda: graphs_inside(lambda x: x + 3, private.uncompiled) == 0,
    "compiling": compiling,
    "nonstrict_trace": nonstrict,
    "dynamo_config": lambda: private.dynamo_config().recompile_limit > 0,
    "ConvNd": lambda: isinstance(torch.nn.Conv2d(1, 1, 1), private.ConvNd),
    "functional_collectives": exchanged,
    "strided_shard": strided,
    "register_sharding": shards,
    "resolve_process_group": resolved,
    "timeout_of": patient,
}


def names_of(path: Path) -> list[str]:
    """Returns the names that a module defines, except aliases and variables of types."""
    found = []
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.append(node.name)
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        for target in targets:
            found += [x.id for x in ast.walk(target) if isinstance(x, ast.Name)] if target else []
    return [name for name in found if name not in ("Result", "Wrapper")]


@pytest.mark.parametrize("name", names_of(FILE))
def test_a_private_api_does_what_is_needed(name):
    assert CHECKS[name]()


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
