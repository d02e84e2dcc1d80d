"""The check of one function, which walks over its syntax tree."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import re
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

from nki_sim.base import releases
from nki_sim.base.removed_api import SHORT, WHILE_LOOP, is_absent, removed_argument
from nki_sim.base.syntax_names import last_name

from . import api
from .calls import MUTATORS, contested_call, engines_of, names_a_key
from .held_values import REGISTER, HeldValues
from .names import (
    ALIASES,
    UNKNOWN,
    Names,
    has_one_base,
    is_mutable,
    is_nki_class,
    is_user_module,
    origin,
)
from .outputs import lost_outputs
from .rules import (
    BUILTINS,
    FORBIDDEN_SYNTAX,
    IMPURE,
    LOOPS,
    NO_INSTRUCTION,
    NUMPY_DTYPE,
    RANGES,
    TENSOR_MAKERS,
    Violation,
)
from .source import (
    Loop,
    assigned,
    assigned_to,
    assigned_values,
    bound_names,
    changed_globals,
    counters,
    definition_of,
    is_none,
    loop_bodies,
    loops_on_device,
    own_nodes,
    unwrap,
)


class Checker(HeldValues):
    """Checks one function in the current release, and collects the functions it refers to."""

    def __init__(
        self, function: FunctionType, is_kernel: bool = False, loop: Loop | None = None
    ) -> None:
        self.outside = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
        super().__init__(function, self.outside)
        self.is_kernel = is_kernel
        self.is_traced = releases.is_traced()
        self.helpers: list[FunctionType] = []
        self.helper_loops: dict[Any, Loop] = {}  # loops whose bodies are helpers, by their code
        self.no_reorder = 0
        self.loop = loop

    def run(self) -> list[Violation]:
        definition = definition_of(self.function)
        if definition is None:
            self.report("no-source")
            return self.found
        self.line = definition.lineno
        self.names = Names(self.outside, frozenset(bound_names(definition)))
        self.lists = set(assigned_to(definition, ast.List, "list"))
        self.dicts = set(assigned_to(definition, ast.Dict, "dict"))
        self.counters = set(counters(definition))
        self.tensors = {
            name for name, values in assigned_values(definition).items() if self.are_tensors(values)
        }
        self.register_names = {
            name
            for name, value in assigned(definition)
            if isinstance(value, ast.Call) and last_name(value.func) == "register_alloc"
        }
        self.loops = loops_on_device(definition, self.register_names)
        self.loop_bodies = loop_bodies(definition, self.loops)
        if self.function.__code__.co_freevars:
            self.report("closure", ", ".join(self.function.__code__.co_freevars))
        if isinstance(definition, ast.AsyncFunctionDef):
            self.report("async")
        if self.is_kernel:
            self.check_kernel_signature(definition.args)
            for name, line in lost_outputs(definition, self.names):
                self.report("lost-output", name, line)
            if self.function.__code__.co_flags & inspect.CO_GENERATOR:
                yields = (
                    n for n in ast.walk(definition) if isinstance(n, ast.Yield | ast.YieldFrom)
                )
                self.report("generator-kernel", line=min(node.lineno for node in yields))
        if isinstance(definition, ast.Lambda):
            self.report("lambda")
        if not isinstance(definition, ast.AsyncFunctionDef):
            self.visit_function(definition, self.loop)
        return self.found

    def are_tensors(self, values: list[ast.expr]) -> bool:
        calls = [value.func for value in values if isinstance(value, ast.Call)]
        return len(calls) == len(values) and {self.names.path(f) for f in calls} <= TENSOR_MAKERS

    def check_kernel_signature(self, args: ast.arguments) -> None:
        if args.kwonlyargs:
            names = ", ".join(arg.arg for arg in args.kwonlyargs)
            self.report("keyword-only", names, args.kwonlyargs[0].lineno)
        positional = [*args.posonlyargs, *args.args]
        missing = [None] * (len(positional) - len(args.defaults))
        defaults = [*missing, *args.defaults, *args.kw_defaults]
        for arg, default in zip([*positional, *args.kwonlyargs], defaults, strict=True):
            annotation = ast.unparse(arg.annotation) if arg.annotation else ""
            if re.search(r"\b[Dd]ict\[int\b", annotation):
                self.report("dict-key", arg.arg, arg.lineno)
            if isinstance(default, ast.List) or re.search(r"\b[Ll]ist\b", annotation):
                self.report("list-argument", arg.arg, arg.lineno)

    # Walking

    def visit(self, node: ast.AST) -> None:
        outer, self.line = self.line, getattr(node, "lineno", self.line)
        rule = FORBIDDEN_SYNTAX.get(type(node).__name__)
        if rule:
            self.report(rule)
        self.check_operation(node)
        if isinstance(node, ast.If | ast.IfExp | ast.Assert):
            self.check_condition(node.test)
        elif isinstance(node, ast.BoolOp):
            for value in node.values:
                self.check_condition(value)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.check_condition(node.operand)
        super().visit(node)
        self.line = outer

    def visit_all(self, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            self.visit(node)

    def visit_arguments(self, node: ast.arguments) -> None:
        extra = node.vararg or node.kwarg
        if extra:
            self.report("varargs", extra.arg, extra.lineno)
        for default in [*node.defaults, *node.kw_defaults]:  # annotations are not compiled
            if default:
                self.visit(default)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if re.search(r"\b[Dd]ict\[int\b", ast.unparse(node.annotation)):
            self.report("dict-key", ast.unparse(node.annotation))
        self.visit(node.target)
        if node.value:
            self.visit(node.value)
            self.note(node.target, node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        self.report("assert")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise | ast.ClassDef) -> None:
        """Visits errors and inner classes for a tracer only, as a parser refuses them entirely."""
        if self.is_traced:
            self.generic_visit(node)

    visit_ClassDef = visit_Raise

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self.visit_all(node.body)

    def visit_Import(self, node: ast.Import) -> None:
        if any(alias.name.partition(".")[0] == "neuronxcc" for alias in node.names):
            self.report("neuronxcc")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if (node.module or "").partition(".")[0] == "neuronxcc":
            self.report("neuronxcc")

    # Statements

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        loop = self.loop_bodies.get(node)
        if loop is None:
            self.report("inner-function", node.name)
        self.visit_function(node, loop)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit_function(node, self.loop_bodies.get(node))

    def visit_function(self, node: ast.FunctionDef | ast.Lambda, loop: Loop | None) -> None:
        """Checks a function, which may be the body of a loop on the device."""
        self.visit(node.args)
        parameters = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
        if loop is not None:
            self.check_loop_body(node, loop, parameters[:1])
        with self.later_values(parameters, loop):
            if isinstance(node, ast.Lambda):
                self.visit(node.body)
            else:
                self.visit_all(node.body)

    def check_loop_body(
        self, body: ast.FunctionDef | ast.Lambda, loop: Loop, parameters: list[str]
    ) -> None:
        local = set(bound_names(body)) - self.check_rebound(body)
        own = set(own_nodes(body))
        for node in ast.walk(body):
            if isinstance(node, ast.Call) and last_name(node.func) in LOOPS:
                self.report("nested-loop", ast.unparse(node.func), node.lineno)
            changed = self.changed_name(node)
            if changed and changed not in local:
                line = getattr(node, "lineno", body.lineno)
                self.report(self.rule_of_change(node, body), ast.unparse(node), line)
            if isinstance(node, ast.BinOp | ast.AugAssign):
                operands = ast.iter_child_nodes(node)
                if any(isinstance(n, ast.Name) and n.id in parameters for n in operands):
                    self.report("loop-variable", ast.unparse(node), node.lineno)
            is_result = isinstance(node, ast.Return) and node in own and not is_none(node.value)
            if is_result and loop.kind == "fori_loop":
                self.report("loop-body", ast.unparse(node), getattr(node, "lineno", body.lineno))

    def check_rebound(self, body: ast.FunctionDef | ast.Lambda) -> set[str]:
        """Reports outside variables that the body of a loop binds anew, and returns their names."""
        if not self.is_traced:
            return set()  # because `nonlocal` itself is a violation
        nodes = list(ast.walk(body))
        kinds = ast.Nonlocal | ast.Global
        names = {name for node in nodes if isinstance(node, kinds) for name in node.names}
        for node in nodes:
            if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Store):
                tensor = node.id in self.made_in(body)
                self.report("loop-tensor" if tensor else "loop-body", node.id, node.lineno)
        return names

    def made_in(self, body: ast.AST) -> set[str]:
        """Returns the names of tensors that the body of a loop allocates."""
        return {name for name, value in assigned(body) if self.are_tensors([value])}

    def rule_of_change(self, node: ast.AST, body: ast.AST) -> str:
        """Returns the rule that a body breaks if it changes an outside list or similar object."""
        given = node.args if isinstance(node, ast.Call) else []
        names = {value.id for value in given if isinstance(value, ast.Name)}
        return "loop-tensor" if self.is_traced and names & self.made_in(body) else "loop-body"

    def changed_name(self, node: ast.AST) -> str:
        """Returns the name of the Python object that a node changes, or ''; '' for a tensor."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, changes = node.func.value, node.func.attr in MUTATORS
        elif isinstance(node, ast.Attribute | ast.Subscript):
            owner, changes = node.value, not isinstance(node.ctx, ast.Load)
            if isinstance(node, ast.Subscript) and isinstance(owner, ast.Name):
                changes = changes and owner.id in self.lists | self.dicts
        else:
            return ""
        if not (changes and isinstance(owner, ast.Name)):
            return ""
        return "" if self.names.path(owner) in ALIASES.values() else owner.id

    def visit_For(self, node: ast.For) -> None:
        if not isinstance(node.target, ast.Name):
            self.report("for-target", ast.unparse(node.target))
        if node.orelse:
            self.report("loop-else")
        self.visit(node.iter)
        self.visit(node.target)
        self.note(node.target, None)
        self.visit_all([*node.body, *node.orelse])

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        before = self.tiles
        self.visit_all(node.body)
        self.tiles = before
        self.visit_all(node.orelse)

    def check_condition(self, test: ast.expr) -> None:
        """Reports the truth value of a tensor, or of its comparison with anything but None."""
        if isinstance(test, ast.Compare):
            operands = [test.left, *test.comparators]
            about_objects = all(isinstance(op, ast.Is | ast.IsNot) for op in test.ops)
            if self.is_traced and about_objects:
                return
            if not any(map(is_none, operands)) and any(map(self.is_tensor, operands)):
                self.refused_elsewhere.add(test)
                self.report("tensor-condition", ast.unparse(test))
        elif self.is_tensor(test):
            self.report("tensor-condition", ast.unparse(test))
        elif rule := self.rule_of(test):
            self.report(rule, ast.unparse(test))

    def is_register_of_parser(self, node: ast.expr) -> bool:
        """Returns whether a name holds a register anywhere, as the parser of NKI 0.6 decides."""
        return not self.is_traced and isinstance(node, ast.Name) and node.id in self.register_names

    def is_tensor(self, node: ast.expr) -> bool:
        inner = node.value if isinstance(node, ast.Subscript) else node
        return isinstance(inner, ast.Name) and inner.id in self.tensors

    def visit_While(self, node: ast.While) -> None:
        if self.rule_of(node.test) == REGISTER or self.is_register_of_parser(node.test):
            text = f"while {ast.unparse(node.test)}"
            self.report("deprecated-dynamic-loop", text)
            if WHILE_LOOP.is_gone:
                self.report("removed", text, message=f"`while register:` was {WHILE_LOOP}")
        else:
            self.check_condition(node.test)
        if node.orelse:
            self.report("loop-else")
        self.generic_visit(node)

    def visit_With(self, node: ast.With) -> None:
        items = [ast.unparse(item).rpartition(".")[2] for item in node.items]
        if items != ["no_reorder()"]:
            self.report("with")
        depth = sum(item.startswith("no_reorder(") for item in items)
        engines = sorted(engines_of(node.body, self.names))
        if depth and len(engines) > 1:
            self.report("no-reorder-engines", ", ".join(engines))
        self.no_reorder += depth
        self.visit_all(node.body)
        self.no_reorder -= depth

    # Expressions

    def visit_Dict(self, node: ast.Dict) -> None:
        for key in node.keys:
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                line = key.lineno if key else node.lineno
                self.report("dict-key", ast.unparse(key) if key else "**", line)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        is_dict = isinstance(node.value, ast.Name) and node.value.id in self.dicts
        if is_dict and not names_a_key(node.slice, self.counters):
            self.report("dict-key", ast.unparse(node))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bytes | complex):
            self.report("unsupported-value", repr(node.value))

    def visit_FormattedValue(self, node: ast.FormattedValue) -> None:
        if node.format_spec:
            self.report("format-spec", ast.unparse(node.value))
        self.visit(node.value)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg is None:
            self.report("star-unpack")
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        path = self.names.path(node.func)
        if path.startswith("numpy.") and not NUMPY_DTYPE.fullmatch(path):
            self.report("numpy-call", ast.unparse(node.func))
        if not path.startswith("nki."):
            for rule, what in contested_call(node, self.names, self.lists):
                self.report(rule, what)
        self.check_arguments(path, node)
        self.check_dict_method(node)
        self.note_module_body(node)
        if isinstance(node.func, ast.Subscript) and self.is_kernel_name(node.func.value):
            self.report("launch-bracket", ast.unparse(node.func))
        if self.no_reorder and last_name(node.func) in LOOPS:
            self.report("loop-body", ast.unparse(node.func))
        self.generic_visit(node)

    def check_arguments(self, path: str, node: ast.Call) -> None:
        """Reports unknown or missing arguments of a function of nki.language or nki.isa."""
        module, _, function = path.rpartition(".")
        if module not in SHORT:
            return
        known = api.parameters(module, function)
        for keyword in node.keywords:
            removed = removed_argument(module, function, keyword.arg or "")
            if removed and keyword.arg not in known:
                message = f"{SHORT[module]}.{function}'s {keyword.arg} was {removed}"
                self.report("removed", "", keyword.value.lineno, message)
                return
        wrong = api.misfit(module, function, node)
        if wrong:
            self.report("arguments", message=wrong)

    def note_module_body(self, node: ast.Call) -> None:
        """Notes functions outside of this function that are bodies of loops on the device."""
        loop = self.loops.get(node)
        if loop is None:
            return
        for value in [*node.args, *(k.value for k in node.keywords)]:
            found = unwrap(self.names.resolve(value))
            if found is not None and is_user_module(found.__module__):
                self.helper_loops[found.__code__] = loop

    def is_kernel_name(self, node: ast.expr) -> bool:
        """Returns whether a name stands for a kernel under nki.jit, or for a wrapped function."""
        value = self.names.resolve(node)
        inner = unwrap(value)
        return inner is not None and inner is not value

    def check_dict_method(self, node: ast.Call) -> None:
        function = node.func
        if not (isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)):
            return
        takes_key = function.attr in ("get", "pop", "setdefault") and node.args
        is_dict = function.value.id in self.dicts
        if takes_key and is_dict and not names_a_key(node.args[0], self.counters):
            self.report("dict-key", ast.unparse(node))

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.check_reference(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not self.check_reference(node):
            self.visit(node.value)

    # The objects to which names refer

    def check_reference(self, node: ast.Name | ast.Attribute) -> bool:
        """Checks the object of a name. Returns True if the whole expression was checked."""
        path = self.names.path(node)
        if path.partition(".")[0] == "neuronxcc":
            self.report("neuronxcc", ast.unparse(node))
        elif path in NO_INSTRUCTION:
            self.report("no-instruction", ast.unparse(node))
        elif path == "nki.language.dynamic_range" and not self.is_traced:
            self.report("deprecated-dynamic-loop", ast.unparse(node))
        elif is_absent(path):
            return self.check_api_name(path)
        elif path in RANGES:
            self.report("deprecated-range", ast.unparse(node))
        elif path in ALIASES.values():
            return True
        else:
            value = self.names.resolve(node)
            if value is UNKNOWN:
                return self.check_api_name(path)
            self.check_value(ast.unparse(node), value)
        return True

    def check_api_name(self, path: str) -> bool:
        """Reports a name that nki, nki.language or nki.isa does not have."""
        found = api.missing(path)
        if found:
            rule, message = found
            self.report(rule, message=message)
        return found is not None

    def check_value(self, name: str, value: object) -> None:
        if origin(value).partition(".")[0] in IMPURE:
            self.report("impure", name)
        elif isinstance(value, frozenset | bytes | complex):
            self.report("unsupported-value", name)
        elif vars(builtins).get(name, UNKNOWN) is value:
            if callable(value) and value not in BUILTINS:
                self.report("unsupported-builtin", name)
        elif is_mutable(value):
            is_changed = name in changed_globals(self.function)
            self.report("mutable-global" if is_changed else "constant-global", name)
        elif isinstance(value, type):
            self.check_class(name, value)
        elif (inner := unwrap(value)) is not None:
            if not is_user_module(inner.__module__):
                return
            if inner is not value:
                self.report("decorated-helper", name)
            self.helpers.append(inner)
        elif not isinstance(value, ModuleType):
            self.check_class(name, type(value))

    def check_class(self, name: str, cls: type) -> None:
        if not is_user_module(cls.__module__) or issubclass(cls, tuple):
            return
        if not is_nki_class(cls):
            self.report("plain-class", name)
            if not self.is_traced:
                return
        elif not has_one_base(cls):
            bases = ", ".join(base.__name__ for base in cls.__bases__)
            self.report("base-classes", f"{name} of {bases}")
        if issubclass(cls, Enum):
            return
        for base in cls.__mro__ if self.is_traced else (cls,):
            for attribute, value in vars(base).items() if is_user_module(base.__module__) else ():
                self.check_method(f"{name}.{attribute}", value)

    def check_method(self, name: str, value: object) -> None:
        if isinstance(value, property | functools.cached_property):
            self.report("method-decorator", name)
            if not self.is_traced:
                return
        value = value.fget if isinstance(value, property) else value
        method = unwrap(value)
        if method is None or not is_user_module(method.__module__):
            return  # in Python 3.13 a dataclass has a function of the module dataclasses
        # Methods that `dataclass` generates have no file, and the compiler generates its own.
        if not method.__code__.co_filename.startswith("<"):
            self.helpers.append(method)
            if method is not value and not isinstance(value, staticmethod):
                self.report("method-decorator", name)
