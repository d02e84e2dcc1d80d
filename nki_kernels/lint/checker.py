"""The check of one function: a walk over its syntax tree."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import re
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

from nki_kernels.removed_api import SHORT, removed_argument

from . import api
from .calls import MUTATORS, contested_call, names_a_key
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
from .rules import (
    BUILTINS,
    CONTESTED,
    FORBIDDEN_SYNTAX,
    IMPURE,
    LOOPS,
    NO_INSTRUCTION,
    NUMPY_DTYPE,
    RULES,
    TENSOR_MAKERS,
)
from .source import (
    assigned_to,
    assigned_values,
    bound_names,
    counters,
    definition_of,
    last_name,
    loop_bodies,
    registers,
    unwrap,
)
from .violation import Violation


class Checker(ast.NodeVisitor):
    """Checks one function and collects the functions it refers to."""

    def __init__(self, function: FunctionType, is_kernel: bool) -> None:
        self.function = function
        self.is_kernel = is_kernel
        self.helpers: list[FunctionType] = []
        self.found: list[Violation] = []
        self.line = function.__code__.co_firstlineno
        self.no_reorder = 0
        self.names = Names(function.__globals__, frozenset())
        self.registers: set[str] = set()
        self.lists: set[str] = set()
        self.dicts: set[str] = set()
        self.counters: set[str] = set()
        self.tensors: set[str] = set()
        self.loop_bodies: dict[str, str] = {}

    def run(self) -> list[Violation]:
        definition = definition_of(self.function)
        if definition is None:
            self.report("lambda" if self.function.__name__ == "<lambda>" else "no-source")
            return self.found
        self.line = definition.lineno
        self.names = Names(self.function.__globals__, frozenset(bound_names(definition)))
        self.registers = set(registers(definition))
        self.lists = set(assigned_to(definition, ast.List, "list"))
        self.dicts = set(assigned_to(definition, ast.Dict, "dict"))
        self.counters = set(counters(definition))
        self.tensors = {
            name for name, values in assigned_values(definition).items() if self.are_tensors(values)
        }
        self.loop_bodies = loop_bodies(definition)
        if self.function.__code__.co_freevars:
            self.report("closure", ", ".join(self.function.__code__.co_freevars))
        if isinstance(definition, ast.AsyncFunctionDef):
            self.report("async")
        if self.is_kernel:
            self.check_kernel_signature(definition.args)
        self.visit(definition.args)
        self.visit_all(definition.body)
        return self.found

    def are_tensors(self, values: list[ast.expr]) -> bool:
        calls = [value.func for value in values if isinstance(value, ast.Call)]
        return len(calls) == len(values) and {self.names.path(f) for f in calls} <= TENSOR_MAKERS

    def report(self, rule: str, what: str = "", line: int | None = None, message: str = "") -> None:
        severity = "contested" if rule in CONTESTED else "error"
        message = message or (CONTESTED if rule in CONTESTED else RULES)[rule][1]
        name = self.function.__name__
        file = inspect.getsourcefile(self.function) or self.function.__code__.co_filename
        text = f"{what}: {message}" if what else message
        self.found.append(Violation(file, line or self.line, name, rule, text, severity))

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

    def visit_Assert(self, node: ast.Assert) -> None:
        self.report("assert")
        self.check_condition(node.test)
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Stop here: naming the exception's class as well would only repeat the finding."""

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Stop here: the class has to leave the function first."""

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
        loop = self.loop_bodies.get(node.name)
        if loop:
            self.check_loop_body(node, loop)
        else:
            self.report("inner-function", node.name)
        self.visit(node.args)
        self.visit_all(node.body)

    def check_loop_body(self, body: ast.FunctionDef, loop: str) -> None:
        parameters = {arg.arg for arg in body.args.args}
        local = set(bound_names(body))
        for node in ast.walk(body):
            if isinstance(node, ast.Call) and last_name(node.func) in LOOPS:
                self.report("nested-loop", ast.unparse(node.func), node.lineno)
            changed = self.changed_name(node)
            if changed and changed not in local:
                line = getattr(node, "lineno", body.lineno)
                self.report("loop-body", ast.unparse(node), line)
            if isinstance(node, ast.BinOp | ast.AugAssign):
                operands = ast.iter_child_nodes(node)
                if any(isinstance(n, ast.Name) and n.id in parameters for n in operands):
                    self.report("loop-body", ast.unparse(node), node.lineno)
            if isinstance(node, ast.Return) and node.value and loop == "fori_loop":
                self.report("loop-body", ast.unparse(node), node.lineno)

    def changed_name(self, node: ast.AST) -> str:
        """The name of the Python object that a node changes; '' of none or of a tensor."""
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
        self.generic_visit(node)

    def visit_If(self, node: ast.If | ast.IfExp) -> None:
        self.check_condition(node.test)
        self.generic_visit(node)

    visit_IfExp = visit_If

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for value in node.values:
            self.check_condition(value)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.check_condition(node.operand)
        self.generic_visit(node)

    def check_condition(self, test: ast.expr) -> None:
        """Report a truth value of a tensor, or of a comparison of one with anything but None."""
        if isinstance(test, ast.Compare):
            operands = [test.left, *test.comparators]
            is_none = any(isinstance(o, ast.Constant) and o.value is None for o in operands)
            if not is_none and any(map(self.is_tensor, operands)):
                self.report("tensor-condition", ast.unparse(test))
        elif self.is_tensor(test):
            self.report("tensor-condition", ast.unparse(test))

    def is_tensor(self, node: ast.expr) -> bool:
        inner = node.value if isinstance(node, ast.Subscript) else node
        return isinstance(inner, ast.Name) and inner.id in self.tensors

    def visit_While(self, node: ast.While) -> None:
        self.check_condition(node.test)
        if isinstance(node.test, ast.Name) and node.test.id in self.registers:
            self.report("deprecated-dynamic-loop", f"while {node.test.id}")
        if node.orelse:
            self.report("loop-else")
        self.generic_visit(node)

    def visit_With(self, node: ast.With) -> None:
        if [ast.unparse(item).rpartition(".")[2] for item in node.items] != ["no_reorder()"]:
            self.report("with")
        self.no_reorder += 1
        self.visit_all(node.body)
        self.no_reorder -= 1

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
        if self.no_reorder and last_name(node.func) in LOOPS:
            self.report("loop-body", ast.unparse(node.func))
        self.generic_visit(node)

    def check_arguments(self, path: str, node: ast.Call) -> None:
        """Report arguments that a function of nki.language or nki.isa does not take, or misses."""
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

    # What a name refers to

    def check_reference(self, node: ast.Name | ast.Attribute) -> bool:
        """Check what a name stands for. Return True if the whole expression is dealt with."""
        path = self.names.path(node)
        if path.partition(".")[0] == "neuronxcc":
            self.report("neuronxcc", ast.unparse(node))
        elif path in NO_INSTRUCTION:
            self.report("no-instruction", ast.unparse(node))
        elif path == "nki.language.dynamic_range":
            self.report("deprecated-dynamic-loop", ast.unparse(node))
        elif path in ALIASES.values():
            return True
        else:
            value = self.names.resolve(node)
            if value is UNKNOWN:
                return self.check_api_name(path)
            self.check_value(ast.unparse(node), value)
        return True

    def check_api_name(self, path: str) -> bool:
        """Report a name of nki, nki.language or nki.isa that these do not have."""
        found = api.missing(path)
        if found:
            rule, message = found
            self.report(rule, message=message)
        return found is not None

    def check_value(self, name: str, value: Any) -> None:
        if origin(value).partition(".")[0] in IMPURE:
            self.report("impure", name)
        elif isinstance(value, set | frozenset | bytes | complex):
            self.report("unsupported-value", name)
        elif vars(builtins).get(name, UNKNOWN) is value:
            if callable(value) and value not in BUILTINS:
                self.report("unsupported-builtin", name)
        elif is_mutable(value):
            self.report("mutable-global", name)
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
            return
        if not has_one_base(cls):
            bases = ", ".join(base.__name__ for base in cls.__bases__)
            self.report("base-classes", f"{name} of {bases}")
        if not issubclass(cls, Enum):
            for attribute, value in vars(cls).items():
                self.check_method(f"{name}.{attribute}", value)

    def check_method(self, name: str, value: Any) -> None:
        if isinstance(value, property | functools.cached_property):
            self.report("method-decorator", name)
            return
        method = unwrap(value)
        if method is None or not is_user_module(method.__module__):
            return  # Python 3.13 gives a dataclass a function of its own module
        # What `dataclass` generates has no file; the compiler generates its own.
        if not method.__code__.co_filename.startswith("<"):
            self.helpers.append(method)
            if method is not value and not isinstance(value, staticmethod):
                self.report("method-decorator", name)
