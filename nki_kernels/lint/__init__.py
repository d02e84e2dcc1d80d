"""Does a kernel stay inside the Python subset that the NKI compiler accepts?

A simulator runs a kernel as ordinary Python, so it accepts far more than the compiler does.
`lint` reads the source of a kernel, and of every function the kernel uses, and reports what the
compiler would reject or silently get wrong. Nothing is executed and no device is needed.

Every rule in `RULES` names its source:

guide      NKI Language Guide (values, control flow, classes, "Kernel Caching")
migration  NKI Migration Guides ("Language restrictions", "Deprecated", "Decorators on sub-kernels")
api        docstrings of `nki.language`
notes      NKI release notes, "Known Issues"
compiler   KLR, an open-source compiler front end for NKI, github.com/leanprover/KLR
           (interop/klr/gather.c, KLR/NKI/Simplify.lean, KLR/Trace/Python.lean; March 2026)
project    not forbidden by a document, but outside of everything the documents show

What source code cannot show is not checked: types and shapes of tensors, and tensors of a loop
body that are used after the loop.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
from collections.abc import Iterator, MutableMapping, MutableSequence, MutableSet
from dataclasses import dataclass
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any


@dataclass(frozen=True)
class Violation:
    """One place where a kernel leaves the accepted subset.

    Attributes:
        file: Path of the source file.
        line: Line in that file, starting at 1.
        function: Name of the kernel or helper that holds the line.
        rule: Key into `RULES`.
        message: What is wrong and what to write instead.
    """

    file: str
    line: int
    function: str
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.function}: {self.message} [{self.rule}]"


# rule -> (source, message)
RULES: dict[str, tuple[str, str]] = {
    # Statements
    "async": ("compiler", "async code is not supported; write a plain synchronous function"),
    "del": ("compiler", "`del` is not supported; let the name go out of use"),
    "global": (
        "compiler",
        "`global` is not supported; pass the value as an argument and return it",
    ),
    "nonlocal": (
        "compiler",
        "`nonlocal` is not supported; keep shared state in a dict or a tensor",
    ),
    "import": (
        "compiler",
        "`import` inside a kernel is not supported; move it to the module's top",
    ),
    "inner-class": (
        "compiler",
        "a class inside a kernel is not supported; define it in the module",
    ),
    "inner-function": (
        "compiler; migration 0.6 allows loop bodies",
        "an inner function is allowed only as the body of nl.fori_loop or nl.while_loop; "
        "move it to module level and pass what it captures as arguments",
    ),
    "match": ("compiler", "`match` is not supported; use if/elif"),
    "raise": ("compiler", "`raise` is not supported; use `assert`"),
    "try": ("compiler", "`try` is not supported; test the condition with `if` or `assert`"),
    "type-alias": ("compiler", "a `type` statement is not supported; move it to the module's top"),
    "with": (
        "api, compiler",
        "`with` takes only a single `nl.no_reorder()`, without arguments or `as`",
    ),
    # Loops
    "for-target": ("compiler", "a `for` target must be one name; unpack the item in the loop body"),
    "loop-else": (
        "compiler",
        "`else` on a loop is not supported; set a flag and test it afterwards",
    ),
    "loop-body": (
        "migration 0.6, api",
        "nl.fori_loop and nl.while_loop: not inside nl.no_reorder(), no arithmetic on the loop "
        "variable (read it by `.ap(scalar_offset=...)`), no return value from a fori_loop body",
    ),
    "deprecated-dynamic-loop": (
        "migration 0.6",
        "dynamic_range and `while <register>` are deprecated; use nl.fori_loop or nl.while_loop",
    ),
    # Expressions
    "comprehension": ("compiler", "comprehensions are not supported; append to a list in a loop"),
    "lambda": ("compiler", "`lambda` is not supported; define a function at module level"),
    "walrus": ("compiler", "`:=` is not supported; assign in a statement of its own"),
    "yield": ("compiler", "generators are not supported; fill a list and return it"),
    "identity": ("migration 0.3", "`is` and `is not` are not supported; write `==` and `!=`"),
    "matmul-operator": ("compiler", "`@` is not supported; call nisa.nc_matmul"),
    "star-unpack": ("compiler", "`*` and `**` unpacking is not supported; write the items out"),
    "dict-key": ("guide, compiler", "a dict key must be a string literal; use a list for int keys"),
    "format-spec": ("compiler", "f-string format specs are not supported; write `{x}` without one"),
    "unsupported-value": (
        "guide, compiler",
        "sets, bytes and complex numbers are no NKI values; use lists, strings, real and imaginary",
    ),
    "unsupported-builtin": (
        "compiler",
        "the compiler has no such built-in; use a loop over range(len(...)) and plain arithmetic",
    ),
    "numpy-call": (
        "project",
        "NumPy does not run in a kernel; pass the array as an argument, or use nl and nisa",
    ),
    "no-instruction": (
        "notes 0.3-0.4",
        "nl.mod, nl.fmod and nl.divide have no hardware instruction; use `%` on ints, "
        "nl.multiply with nl.reciprocal on tiles",
    ),
    "neuronxcc": (
        "migration 0.4",
        "`neuronxcc` is a compile error; import the same name from `nki`",
    ),
    # Signatures
    "keyword-only": ("migration 0.3", "a kernel cannot take `*`; make these ordinary parameters"),
    "list-argument": ("migration 0.3", "a kernel argument cannot be a list; use a tuple"),
    "varargs": ("compiler", "`*args` and `**kwargs` are not supported; name every parameter"),
    # What a kernel refers to
    "closure": (
        "guide, compiler",
        "the function captures variables of an enclosing one; pass them as arguments",
    ),
    "decorated-helper": (
        "migration 0.2",
        "a decorated function is called from a kernel; call the plain one, decorate at the launch",
    ),
    "mutable-global": (
        "guide",
        "a kernel is cached by its arguments, so a mutable global may be stale; "
        "make it a tuple or pass it as an argument",
    ),
    "no-source": ("compiler", "the compiler needs the source; define the function in a file"),
    "plain-class": (
        "guide, compiler",
        "a class used in a kernel must inherit from NKIObject or Enum; "
        "inherit, or pass the numbers it holds as arguments",
    ),
}

# Syntax that is a violation wherever it stands.
_FORBIDDEN: dict[str, str] = {
    "AsyncFor": "async",
    "AsyncFunctionDef": "async",
    "AsyncWith": "async",
    "Await": "async",
    "ClassDef": "inner-class",
    "Delete": "del",
    "DictComp": "comprehension",
    "GeneratorExp": "comprehension",
    "Global": "global",
    "Import": "import",
    "ImportFrom": "import",
    "Is": "identity",
    "IsNot": "identity",
    "Lambda": "lambda",
    "ListComp": "comprehension",
    "MatMult": "matmul-operator",
    "Match": "match",
    "NamedExpr": "walrus",
    "Nonlocal": "nonlocal",
    "Raise": "raise",
    "Set": "unsupported-value",
    "SetComp": "comprehension",
    "Starred": "star-unpack",
    "Try": "try",
    "TryStar": "try",
    "TypeAlias": "type-alias",
    "Yield": "yield",
    "YieldFrom": "yield",
}

_BUILTINS = frozenset(
    (abs, bool, dict, divmod, float, int, isinstance, len, list, max, min, print)
    + (range, slice, str, tuple, type)
)
_NO_INSTRUCTION = frozenset(f"nki.language.{name}" for name in ("mod", "fmod", "divide"))
_LOOPS = frozenset({"fori_loop", "while_loop"})
_NUMPY_DTYPE = re.compile(r"numpy\.((u?int|float|complex|bool)(\d+|_)?|dtype|finfo|iinfo)")

# The customary names. They count even where a stand-in replaces the real module.
_ALIASES = {
    "nki": "nki",
    "nl": "nki.language",
    "nisa": "nki.isa",
    "ncc": "nki.collectives",
    "np": "numpy",
    "numpy": "numpy",
}
_SIMULATOR = "nki_kernels.simulator"
_LIBRARIES = frozenset({"nki", "neuronxcc", "numpy", "ml_dtypes"}) | sys.stdlib_module_names
_UNKNOWN = object()


def lint(kernel: Any) -> list[Violation]:
    """Check a kernel and every function it uses.

    Args:
        kernel: A Python function, or an object that wraps one in `__wrapped__`, `func` or
            `__func__`, such as the result of `nki.jit`.

    Returns:
        The violations, those of the kernel first, then those of its helpers in the order in
        which they were met. An empty list means that nothing was found.

    Raises:
        TypeError: `kernel` is no Python function, or its source cannot be read.
    """
    entry = _unwrap(kernel)
    if entry is None:
        raise TypeError(f"lint() needs a Python function or a wrapper of one, got {kernel!r}")
    if _definition(entry) is None and entry.__name__ != "<lambda>":
        raise TypeError(
            f"lint() cannot read the source of {entry.__qualname__}; define it in a file"
        )
    found: list[Violation] = []
    queue = [entry]
    seen = {entry.__code__}
    for function in queue:  # grows while it is read
        checker = _Checker(function, is_kernel=function is entry)
        found += checker.run()
        for helper in checker.helpers:
            if helper.__code__ not in seen:
                seen.add(helper.__code__)
                queue.append(helper)
    return list(dict.fromkeys(found))


def _unwrap(kernel: Any) -> FunctionType | None:
    """Return the innermost function, or None if there is none."""
    for _ in range(16):  # a bound, since an object may answer to every attribute name
        if isinstance(kernel, type | ModuleType):
            return None
        for name in ("__wrapped__", "func", "__func__"):
            inner = getattr(kernel, name, None)
            if callable(inner):
                kernel = inner
                break
        else:
            break
    return kernel if isinstance(kernel, FunctionType) else None


def _definition(function: FunctionType) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Find the function in its file. Parsing the whole file keeps the line numbers right."""
    try:
        lines, _ = inspect.findsource(function)
        tree = ast.parse("".join(lines))
    except (OSError, SyntaxError):
        return None
    code = function.__code__
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    return None


def _is_user_module(name: str | None) -> bool:
    """Tell the modules whose functions the compiler must compile from the API and libraries."""
    if not name or name == _SIMULATOR or name.startswith(_SIMULATOR + "."):
        return False
    return name.partition(".")[0] not in _LIBRARIES


def _is_mutable(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_is_mutable(item) for item in value)
    is_array = (type(value).__module__, type(value).__name__) == ("numpy", "ndarray")
    return is_array or isinstance(value, MutableSequence | MutableMapping | MutableSet)


def _is_nki_class(cls: type) -> bool:
    return issubclass(cls, Enum) or any(base.__name__ == "NKIObject" for base in cls.__mro__)


def _bound_names(definition: ast.AST) -> Iterator[str]:
    """Every name that the function binds: parameters, assignments, inner functions."""
    for node in ast.walk(definition):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node is not definition:
            yield node.name


def _registers(definition: ast.AST) -> Iterator[str]:
    """The names that hold a hardware register."""
    for node in ast.walk(definition):
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
            continue
        if _last_name(node.value.func) == "register_alloc":
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _loop_bodies(definition: ast.AST) -> dict[str, str]:
    """Map each function that is passed to nl.fori_loop or nl.while_loop to that loop."""
    bodies: dict[str, str] = {}
    for node in ast.walk(definition):
        if isinstance(node, ast.Call) and _last_name(node.func) in _LOOPS:
            for value in [*node.args, *(keyword.value for keyword in node.keywords)]:
                if isinstance(value, ast.Name):
                    bodies[value.id] = _last_name(node.func)
    return bodies


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


class _Checker(ast.NodeVisitor):
    """Checks one function and collects the functions it refers to."""

    def __init__(self, function: FunctionType, is_kernel: bool) -> None:
        self.function = function
        self.is_kernel = is_kernel
        self.helpers: list[FunctionType] = []
        self.found: list[Violation] = []
        self.line = function.__code__.co_firstlineno
        self.no_reorder = 0
        self.locals: set[str] = set()
        self.registers: set[str] = set()
        self.loop_bodies: dict[str, str] = {}

    def run(self) -> list[Violation]:
        definition = _definition(self.function)
        if definition is None:
            self.report("lambda" if self.function.__name__ == "<lambda>" else "no-source")
            return self.found
        self.line = definition.lineno
        self.locals = set(_bound_names(definition))
        self.registers = set(_registers(definition))
        self.loop_bodies = _loop_bodies(definition)
        if self.function.__code__.co_freevars:
            self.report("closure", ", ".join(self.function.__code__.co_freevars))
        if isinstance(definition, ast.AsyncFunctionDef):
            self.report("async")
        if self.is_kernel:
            self.check_kernel_signature(definition.args)
        self.visit(definition.args)
        self.visit_all(definition.body)
        return self.found

    def report(self, rule: str, what: str = "", line: int | None = None) -> None:
        message = RULES[rule][1]
        name = self.function.__name__
        file = inspect.getsourcefile(self.function) or self.function.__code__.co_filename
        text = f"{what}: {message}" if what else message
        self.found.append(Violation(file, line or self.line, name, rule, text))

    def check_kernel_signature(self, args: ast.arguments) -> None:
        if args.kwonlyargs:
            names = ", ".join(arg.arg for arg in args.kwonlyargs)
            self.report("keyword-only", names, args.kwonlyargs[0].lineno)
        positional = [*args.posonlyargs, *args.args]
        missing = [None] * (len(positional) - len(args.defaults))
        defaults = [*missing, *args.defaults, *args.kw_defaults]
        for arg, default in zip([*positional, *args.kwonlyargs], defaults, strict=True):
            annotation = ast.unparse(arg.annotation) if arg.annotation else ""
            if isinstance(default, ast.List) or re.search(r"\b[Ll]ist\b", annotation):
                self.report("list-argument", arg.arg, arg.lineno)

    # Walking

    def visit(self, node: ast.AST) -> None:
        outer, self.line = self.line, getattr(node, "lineno", self.line)
        rule = _FORBIDDEN.get(type(node).__name__)
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
        self.visit(node.target)
        if node.value:
            self.visit(node.value)

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
        for node in ast.walk(body):
            if isinstance(node, ast.BinOp | ast.AugAssign):
                operands = ast.iter_child_nodes(node)
                if any(isinstance(n, ast.Name) and n.id in parameters for n in operands):
                    self.report("loop-body", ast.unparse(node), node.lineno)
            if isinstance(node, ast.Return) and node.value and loop == "fori_loop":
                self.report("loop-body", ast.unparse(node), node.lineno)

    def visit_For(self, node: ast.For) -> None:
        if not isinstance(node.target, ast.Name):
            self.report("for-target", ast.unparse(node.target))
        if node.orelse:
            self.report("loop-else")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
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
        path = self.path(node.func)
        if path.startswith("numpy.") and not _NUMPY_DTYPE.fullmatch(path):
            self.report("numpy-call", ast.unparse(node.func))
        if self.no_reorder and _last_name(node.func) in _LOOPS:
            self.report("loop-body", ast.unparse(node.func))
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.check_reference(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not self.check_reference(node):
            self.visit(node.value)

    # What a name refers to

    def resolve(self, node: ast.expr) -> Any:
        """Return the global object that `name` or `module.name` stands for, or _UNKNOWN."""
        if isinstance(node, ast.Name) and node.id not in self.locals:
            outside = vars(builtins).get(node.id, _UNKNOWN)
            return self.function.__globals__.get(node.id, outside)
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value)
            if isinstance(base, ModuleType):
                return vars(base).get(node.attr, _UNKNOWN)
        return _UNKNOWN

    def path(self, node: ast.expr) -> str:
        """Return the full name of an API, such as `nki.language.mod` for `nl.mod`, else ''."""
        value = self.resolve(node)
        if isinstance(value, ModuleType):
            return value.__name__.replace(_SIMULATOR, "nki")
        if isinstance(node, ast.Attribute):
            base = self.path(node.value)
            return f"{base}.{node.attr}" if base else ""
        if isinstance(node, ast.Name) and node.id not in self.locals:
            if node.id in _ALIASES:
                return _ALIASES[node.id]
            module = getattr(value, "__module__", None)  # from nki.language import mod
            if isinstance(module, str) and not _is_user_module(module):
                return f"{module.replace(_SIMULATOR, 'nki')}.{node.id}"
            return node.id
        return ""

    def check_reference(self, node: ast.Name | ast.Attribute) -> bool:
        """Check what a name stands for. Return True if the whole expression is dealt with."""
        path = self.path(node)
        if path.partition(".")[0] == "neuronxcc":
            self.report("neuronxcc", ast.unparse(node))
        elif path in _NO_INSTRUCTION:
            self.report("no-instruction", ast.unparse(node))
        elif path == "nki.language.dynamic_range":
            self.report("deprecated-dynamic-loop", ast.unparse(node))
        elif path in _ALIASES.values():
            return True
        else:
            value = self.resolve(node)
            if value is not _UNKNOWN:
                self.check_value(ast.unparse(node), value)
            return value is not _UNKNOWN
        return True

    def check_value(self, name: str, value: Any) -> None:
        if vars(builtins).get(name, _UNKNOWN) is value:
            if callable(value) and value not in _BUILTINS:
                self.report("unsupported-builtin", name)
        elif _is_mutable(value):
            self.report("mutable-global", name)
        elif isinstance(value, type):
            self.check_class(name, value)
        elif (inner := _unwrap(value)) is not None:
            if not _is_user_module(inner.__module__):
                return
            if inner is not value:
                self.report("decorated-helper", name)
            self.helpers.append(inner)
        elif not isinstance(value, ModuleType):
            self.check_class(name, type(value))

    def check_class(self, name: str, cls: type) -> None:
        if not _is_user_module(cls.__module__) or issubclass(cls, tuple):
            return
        if not _is_nki_class(cls):
            self.report("plain-class", name)
        elif not issubclass(cls, Enum):
            for method in map(_unwrap, vars(cls).values()):
                if method is None or not _is_user_module(method.__module__):
                    continue  # Python 3.13 gives a dataclass a function of its own module
                # What `dataclass` generates has no file; the compiler generates its own.
                if not method.__code__.co_filename.startswith("<"):
                    self.helpers.append(method)
