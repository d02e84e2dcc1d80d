"""The rules of NKI's two front ends, and the source of each rule.

NKI 0.7 traces a kernel as plain Python. NKI 0.6 parses a subset of Python. A rule holds in both
releases, or in one of them; `rules_of` says which rules hold in a release.

Sources in `RULES`, `DEPRECATED`, `WARNINGS` and `CONTESTED`:

quickstart nki/get-started/quickstart-implement-run-kernel.rst of the SDK 2.32
guide      NKI Language Guide (values, control flow, classes, "Kernel Caching")
migration  NKI Migration Guides ("Language restrictions", "Deprecated", "Decorators on sub-kernels")
api        docstrings of `nki.language`
loops      nki/deep-dives/nki-loops of the SDK 2.33 (NKI 0.7)
scalar     nki/deep-dives/nki-scalar of the SDK 2.33
lnc        nki/get-started/about/lnc and compiler/error-codes/EVRF066 of the SDK 2.33
notes      NKI release notes, "Known Issues"
compiler   KLR, an open-source compiler front end for NKI, github.com/leanprover/KLR
           (interop/klr/gather.c, KLR/NKI/Simplify.lean, KLR/Trace/Python.lean; March 2026)
project    no document forbids the construct, but no document shows it either
kiln       notes of github.com/foxl-ai/kiln: kernels on trn1, NKI 0.6 (device)
spectral-dns, vllm-neuron, others: further public projects that compiled their kernels by NKI
           (device), or whose comments make a claim about NKI (claim)
nkilib     AWS's nki-library (NKI 0.3), whose kernels use the construct

Violations of `RULES` are errors. `DEPRECATED` has constructs that still work and will be removed.
`WARNINGS` has constructs that are right unless something outside of the file interferes.
`CONTESTED` has constructs that a record calls broken and another source shows; `lint(kernel,
contested=True)` reports these, too. Each of the four has a severity of its own. In NKI 0.6,
keywords in calls of nl and nisa are documented and allowed, and so are omitted defaults of an
NKIObject's constructor, as the guide writes `C(1)` for a class with two fields. Keywords of
constructors are contested.
"""

import re
from dataclasses import dataclass

from nki_sim.base.releases import PARSED

Sourced = dict[str, dict[str, str]]  # source -> rule -> message

_OF_BOTH: Sourced = {
    "compiler": {"async": "async code is not supported; write a plain synchronous function"},
    "migration 0.6, api, loops 0.7": {
        "loop-body": "the body of nl.fori_loop or nl.while_loop is traced once; do not put the "
        "loop inside nl.no_reorder(), do not return a value from the body of a fori_loop, and do "
        "not change Python state in a body, but carry state in SBUF or HBM"
    },
    "kiln (device)": {
        "nested-loop": "a loop on the device is inside of another one; unroll the inner loop by "
        "range()"
    },
    "notes 0.3-0.4": {
        "no-instruction": "the hardware has no instruction for nl.mod, nl.fmod and nl.divide; use "
        "`%` on ints, and nl.multiply with nl.reciprocal on tiles"
    },
    "migration 0.4": {
        "neuronxcc": "an import of `neuronxcc` is a compile error; import the same name from `nki`"
    },
    "migration, notes": {"removed": "NKI has removed this name or argument"},
    "api": {
        "unknown-name": "this release of NKI does not have the name",
        "arguments": "the function has other arguments in this release of NKI",
    },
    "guide, api": {
        "tensor-condition": "a tensor's elements are not known while the kernel is compiled; "
        "select by nl.where or nisa.tensor_copy_predicated, or loop by nl.while_loop"
    },
    "quickstart (step 5), api (nki.language, nki.isa)": {
        "tensor-operator": "a tensor's elements are not known while the kernel is built, so "
        "Python's operators and NumPy's functions do not work on it; compute with functions of "
        "nisa, such as nisa.tensor_tensor(dst, data1, data2, op=nl.add), or of nl, such as "
        "nl.add(x, y)"
    },
    "quickstart (step 7)": {
        "lost-output": "the kernel writes this tensor in nl.shared_hbm, and neither returns nor "
        "reads it, so that its values are lost; add the tensor to what the kernel returns"
    },
    "api; others (device)": {
        "broadcast-method": "a tensor has no method broadcast_to; call nl.broadcast_to(x, shape)"
    },
    "guide": {
        "impure": "a kernel is cached and must be a pure function of its arguments, so it must "
        "not use random numbers, the time or the environment; pass the value as an argument",
        "mutable-global": "a kernel is cached by its arguments, so the value of a mutable global "
        "may be outdated; make the global a tuple, or pass it as an argument",
    },
    "migration 0.3": {
        "keyword-only": "a kernel cannot have keyword-only parameters; make these ordinary "
        "parameters",
        "list-argument": "an argument of a kernel cannot be a list; use a tuple",
    },
}

# Rules of NKI 0.6, whose compiler parses a subset of Python.
_OF_PARSER: Sourced = {
    "compiler": {
        "del": "`del` is not supported; remove the statement",
        "global": "`global` is not supported; pass the value as an argument and return it",
        "nonlocal": "`nonlocal` is not supported; keep shared state in a dict or a tensor",
        "import": "`import` inside a kernel is not supported; move it to the module's top",
        "inner-class": "a class inside a kernel is not supported; define it in the module",
        "match": "`match` is not supported; use if/elif",
        "raise": "`raise` is not supported; use `assert`",
        "try": "`try` is not supported; test the condition with `if` or `assert`",
        "type-alias": "a `type` statement is not supported; move it to the module's top",
        "for-target": "a `for` target must be one name; unpack the item in the loop body",
        "loop-else": "`else` on a loop is not supported; set a flag and test it afterwards",
        "comprehension": "comprehensions are not supported; append to a list in a loop",
        "lambda": "`lambda` is not supported; define a function at module level",
        "walrus": "`:=` is not supported; assign in a statement of its own",
        "yield": "generators are not supported; fill a list and return it",
        "matmul-operator": "`@` is not supported; call nisa.nc_matmul",
        "star-unpack": "`*` and `**` unpacking is not supported; write the items out",
        "format-spec": "f-string format specs are not supported; write `{x}` without one",
        "unsupported-builtin": "the compiler does not have this built-in function; use a loop "
        "over range(len(...)) and plain arithmetic",
        "varargs": "`*args` and `**kwargs` are not supported; name every parameter",
        "method-decorator": "@staticmethod is the only decorator that a method can have; make a "
        "property an ordinary method",
        "no-source": "the compiler needs the source; define the function in a file",
    },
    "compiler; migration 0.6 allows loop bodies": {
        "inner-function": "an inner function is allowed only as the body of nl.fori_loop or "
        "nl.while_loop; move it to module level and pass what it captures as arguments"
    },
    "api, compiler": {
        "with": "`with` is supported only for a single `nl.no_reorder()`, without arguments and "
        "`as`"
    },
    "migration 0.6, api": {
        "loop-variable": "the variable of a loop on the device has no arithmetic; pass the "
        "variable as `.ap(scalar_offset=...)`"
    },
    "migration 0.6": {
        "deprecated-dynamic-loop": "dynamic_range and `while <register>` are deprecated; use "
        "nl.fori_loop or nl.while_loop"
    },
    "migration 0.3": {"identity": "`is` and `is not` are not supported; write `==` and `!=`"},
    "guide, compiler": {
        "dict-key": "a dict key must be a string literal; use a list for int keys",
        "unsupported-value": "sets, bytes and complex numbers are not values of NKI; use lists, "
        "strings, or a real and an imaginary number",
        "base-classes": "a class used in a kernel must inherit from NKIObject or Enum, and from "
        "no other class; copy the fields, or hold the other object in a field",
        "closure": "the function captures variables of an enclosing function; pass them as "
        "arguments",
        "plain-class": "a class used in a kernel must inherit from NKIObject or Enum; inherit, or "
        "pass the numbers it holds as arguments",
    },
    "project": {
        "numpy-call": "NumPy does not run in a kernel; pass the array as an argument, or use nl "
        "and nisa"
    },
    "migration 0.2": {
        "decorated-helper": "a kernel calls a decorated function; call the plain function, and "
        "decorate at the launch"
    },
}

# Rules of NKI 0.7, which traces a kernel by running it as Python once.
_OF_TRACER: Sourced = {
    "migration 0.7 (the kernel runs as Python)": {
        "generator-kernel": "a kernel with `yield` returns a generator, which nothing runs; "
        "return tensors, and use `yield` in a helper only"
    },
    "loops 0.7": {
        "register-operator": "a register has no value while the kernel is traced, so it has no "
        "arithmetic, comparisons or truth value; pass the register as `.ap(scalar_offset=...)` or "
        "as a bound of nl.fori_loop, or load an NkiScalar by nisa.scalar_load"
    },
    "scalar 0.7": {
        "scalar-operator": "an NkiScalar, such as the loop variable of nl.fori_loop, supports "
        "only `+`, `-` and `*`; it has no other arithmetic, no comparisons and no truth value, "
        "and is not an index"
    },
    "migration 0.6, loops 0.7": {
        "loop-tensor": "a tensor that the body of a loop on the device allocates is not visible "
        "outside of the body; allocate the tensor before the loop, and write to it in the body"
    },
}

# Rules of NKI 0.7 on constructs that still work and will be removed.
DEPRECATED: dict[str, tuple[str, str]] = {
    "deprecated-range": (
        "loops 0.7",
        "this range equals Python's range since NKI 0.7; write range",
    ),
    "launch-bracket": (
        "lnc 0.7, NCC_EVRF066",
        "NEURON_LOGICAL_NC_CONFIG sets the degree of LNC of a launch; call the kernel without a "
        "bracket",
    ),
}

RULES = {
    rule: (source, message)
    for of in (_OF_BOTH, _OF_PARSER, _OF_TRACER)
    for source, messages in of.items()
    for rule, message in messages.items()
}

# Constructs that work as long as nothing else happens.
WARNINGS: dict[str, tuple[str, str]] = {
    "constant-global": (
        "guide",
        "a kernel is cached by its arguments, and would not see that another module changes this "
        "global, which its own file does not change; make the global a tuple",
    ),
    "no-reorder-engines": (
        "guide",
        "a no_reorder block runs one instruction after the other, also on different engines, which "
        "then wait for each other; leave instructions of one engine in the block, or name the few "
        "dependencies by depends_on",
    ),
}

# rule -> (sources against / sources for, message)
CONTESTED: dict[str, tuple[str, str]] = {
    "assert": (
        "others (device) / guide, nkilib",
        "a record says that `assert` is rejected; check the condition before the launch",
    ),
    "constant-method": (
        "others (claim: the front end resolves names, not method calls on them) / none",
        "the kernel calls a method of a number, string or tuple; call the method before the "
        "launch, and pass the result",
    ),
    "constructor-keyword": (
        "guide (shows positional arguments), vllm-neuron (claim) / api (NKIObject takes **kwargs)",
        "a constructor is called with keywords; pass the arguments in the order of the fields",
    ),
    "helper-default": (
        "vllm-neuron (claim: the front end drops defaults) / nkilib",
        "a helper is called without an argument that has a default; pass every argument",
    ),
    "helper-keyword": (
        "vllm-neuron (claim: the front end drops keywords) / nkilib, guide",
        "a helper is called with keywords; pass the arguments in the order of its signature",
    ),
    "list-method": (
        "project (kernels that ran use append only) / guide",
        "the kernel calls a method of a list other than append; append in a loop, or build another "
        "list",
    ),
    "view-broadcast": (
        "others (device: AttributeError in 0.6.0) / api",
        "a record says that `.broadcast(dim, size)` of a view fails; use nl.broadcast_to, which "
        "copies, or a stride of 0 in .ap, which does not",
    ),
}

ALL_RULES = {**RULES, **DEPRECATED, **WARNINGS, **CONTESTED}

# Constructs that are contested in the parser only, as a tracer runs all of them.
_CONTESTED_OF_PARSER = frozenset(CONTESTED) - {"view-broadcast"}


def rules_of(release: str) -> frozenset[str]:
    """Returns the names of the rules that hold in a release of NKI."""
    always = _names(_OF_BOTH) | {*WARNINGS, *CONTESTED}
    if release == PARSED:
        return frozenset(always | _names(_OF_PARSER))
    return frozenset(always | _names(_OF_TRACER) | {*DEPRECATED}) - _CONTESTED_OF_PARSER


def _names(rules: Sourced) -> set[str]:
    return {rule for messages in rules.values() for rule in messages}


def severity_of(rule: str) -> str:
    """Returns the severity of a rule: "error", "deprecated", "warning" or "contested"."""
    if rule in DEPRECATED:
        return "deprecated"
    if rule in WARNINGS:
        return "warning"
    return "contested" if rule in CONTESTED else "error"


def message_of(rule: str) -> str:
    """Returns the message of a rule: what is wrong, and what to write instead."""
    return ALL_RULES[rule][1]


@dataclass(frozen=True)
class Violation:
    """One place where a kernel breaks a rule.

    Attributes:
        file: Path of the source file.
        line: Line in that file, starting at 1.
        function: Name of the kernel or helper that contains the line.
        rule: Key into `RULES`, `DEPRECATED`, `WARNINGS` or `CONTESTED`.
        message: What is wrong, and what to write instead.
        severity: "error", "deprecated", "warning", or "contested" if the sources disagree.
    """

    file: str
    line: int
    function: str
    rule: str
    message: str
    severity: str = "error"

    def __str__(self) -> str:
        tag = self.rule if self.severity == "error" else f"{self.rule}, {self.severity}"
        return f"{self.file}:{self.line}: {self.function}: {self.message} [{tag}]"


# Syntax that is a violation anywhere.
FORBIDDEN_SYNTAX: dict[str, str] = {
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

# Built-in functions that the compiler supports, and sets of names of APIs.
BUILTINS = frozenset(
    (abs, bool, dict, divmod, float, int, isinstance, len, list, max, min, print)
    + (range, slice, str, tuple, type)
)
NO_INSTRUCTION = frozenset(f"nki.language.{name}" for name in ("mod", "fmod", "divide"))
TENSOR_MAKERS = frozenset(
    f"nki.language.{name}"
    for name in ("ndarray", "zeros", "ones", "full", "zeros_like", "empty_like", "load")
)
# Methods of a tensor that return a view of it.
VIEWS = frozenset(
    ("ap", "broadcast", "expand_dim", "flatten_dims", "permute", "rearrange", "reshape")
    + ("reshape_dim", "select", "slice", "squeeze_dim", "vector_select", "view")
)
IMPURE = frozenset({"datetime", "os", "random", "secrets", "time", "uuid"})
LOOPS = frozenset({"fori_loop", "while_loop"})
RANGES = frozenset(f"nki.language.{name}_range" for name in ("affine", "sequential", "static"))
NUMPY_DTYPE = re.compile(r"numpy\.((u?int|float|complex|bool)(\d+|_)?|dtype|finfo|iinfo)")
