"""The rules of NKI's two front ends, and where each of them is documented.

NKI 0.7 traces a kernel, as plain Python; NKI 0.6 parses a subset of Python. A rule holds in both
releases, in that of the parser or in that of the tracer: `rules_of` says which.

Sources in `RULES`, `DEPRECATED` and `CONTESTED`:

guide      NKI Language Guide (values, control flow, classes, "Kernel Caching")
migration  NKI Migration Guides ("Language restrictions", "Deprecated", "Decorators on sub-kernels")
api        docstrings of `nki.language`
loops      nki/deep-dives/nki-loops of the SDK 2.33 (NKI 0.7)
scalar     nki/deep-dives/nki-scalar of the SDK 2.33
lnc        nki/get-started/about/lnc and compiler/error-codes/EVRF066 of the SDK 2.33
notes      NKI release notes, "Known Issues"
compiler   KLR, an open-source compiler front end for NKI, github.com/leanprover/KLR
           (interop/klr/gather.c, KLR/NKI/Simplify.lean, KLR/Trace/Python.lean; March 2026)
project    not forbidden by a document, but outside of everything the documents show
kiln       notes of github.com/foxl-ai/kiln: kernels on trn1, NKI 0.6 (device)
spectral-dns, vllm-neuron, others: further public projects whose kernels met the NKI compiler
           (device), or whose comments say so (claim)
nkilib     AWS's nki-library (NKI 0.3), whose kernels use the construct

`RULES` are errors. `DEPRECATED` is what works and will not for long. `CONTESTED` are constructs
that a record calls broken and another source shows: `lint(kernel, contested=True)` reports them,
too. Each has a severity of its own. For NKI 0.6, keywords on calls of nl and nisa are documented
and allowed. So are omitted defaults of an NKIObject's constructor: the guide writes `C(1)` for a
class of two fields. Keywords on constructors are contested.
"""

import re

from nki_kernels.releases import PARSED

# rule -> (source, message)
_OF_BOTH: dict[str, tuple[str, str]] = {
    "async": ("compiler", "async code is not supported; write a plain synchronous function"),
    "loop-body": (
        "migration 0.6, api, loops 0.7",
        "nl.fori_loop and nl.while_loop: not inside nl.no_reorder(), no return value from a "
        "fori_loop body, no change of Python state (the body is traced once; carry state in SBUF "
        "or HBM)",
    ),
    "nested-loop": (
        "kiln (device)",
        "a loop on the device inside of another one; unroll the inner one with range()",
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
    "removed": ("migration, notes", "NKI has this no longer"),
    "unknown-name": ("api", "the release of NKI has no such name"),
    "arguments": ("api", "the release of NKI takes other arguments"),
    "tensor-condition": (
        "guide, api",
        "a tensor's elements are not known while the kernel is compiled; select by nl.where or "
        "nisa.tensor_copy_predicated, or loop by nl.while_loop",
    ),
    "broadcast-method": (
        "api; others (device)",
        "a tensor has no method broadcast_to; call nl.broadcast_to(x, shape)",
    ),
    "impure": (
        "guide",
        "a kernel is cached and must be a pure function of its arguments: no random numbers, time "
        "or environment; pass the value as an argument",
    ),
    "mutable-global": (
        "guide",
        "a kernel is cached by its arguments, so a mutable global may be stale; "
        "make it a tuple or pass it as an argument",
    ),
    "keyword-only": ("migration 0.3", "a kernel cannot take `*`; make these ordinary parameters"),
    "list-argument": ("migration 0.3", "a kernel argument cannot be a list; use a tuple"),
}

# Those of NKI 0.6, whose compiler parses a subset of Python.
_OF_PARSER: dict[str, tuple[str, str]] = {
    # Statements
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
    "loop-variable": (
        "migration 0.6, api",
        "no arithmetic on the variable of a loop on the device; read it by "
        "`.ap(scalar_offset=...)`",
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
    # Signatures
    "varargs": ("compiler", "`*args` and `**kwargs` are not supported; name every parameter"),
    # What a kernel refers to
    "base-classes": (
        "guide, compiler",
        "a class used in a kernel inherits from NKIObject (or Enum) and from no other class; "
        "copy the fields, or hold the other object in one",
    ),
    "closure": (
        "guide, compiler",
        "the function captures variables of an enclosing one; pass them as arguments",
    ),
    "decorated-helper": (
        "migration 0.2",
        "a decorated function is called from a kernel; call the plain one, decorate at the launch",
    ),
    "method-decorator": (
        "compiler",
        "a method takes no decorator but @staticmethod; make a property an ordinary method",
    ),
    "no-source": ("compiler", "the compiler needs the source; define the function in a file"),
    "plain-class": (
        "guide, compiler",
        "a class used in a kernel must inherit from NKIObject or Enum; "
        "inherit, or pass the numbers it holds as arguments",
    ),
}

# Those of NKI 0.7, which traces a kernel: it runs as Python once.
_OF_TRACER: dict[str, tuple[str, str]] = {
    "generator-kernel": (
        "migration 0.7 (the kernel runs as Python)",
        "a kernel with `yield` returns a generator, which nothing runs; return tensors, and "
        "generate in a helper",
    ),
    "register-operator": (
        "loops 0.7",
        "a register has no value while the kernel is traced: no arithmetic, comparison or truth "
        "value; pass it as `.ap(scalar_offset=...)` or as a bound of nl.fori_loop, or load an "
        "NkiScalar by nisa.scalar_load",
    ),
    "scalar-operator": (
        "scalar 0.7",
        "an NkiScalar, which the body of nl.fori_loop gets, takes `+`, `-` and `*` alone; no other "
        "arithmetic, comparison, truth value or index",
    ),
    "loop-tensor": (
        "migration 0.6, loops 0.7",
        "a tensor that the body of a loop on the device makes is not visible outside of it; make "
        "it before the loop, and write to it in the body",
    ),
}

# Those of NKI 0.7 on what still works and will not for long.
DEPRECATED: dict[str, tuple[str, str]] = {
    "deprecated-range": (
        "loops 0.7",
        "these ranges are Python's range since NKI 0.7; write range",
    ),
    "launch-bracket": (
        "lnc 0.7, NCC_EVRF066",
        "a launch takes its degree of LNC from NEURON_LOGICAL_NC_CONFIG; call the kernel without a "
        "bracket",
    ),
}

RULES: dict[str, tuple[str, str]] = {**_OF_BOTH, **_OF_PARSER, **_OF_TRACER}

# rule -> (sources against / sources for, message)
CONTESTED: dict[str, tuple[str, str]] = {
    "assert": (
        "others (device) / guide, nkilib",
        "records list `assert` as rejected; check in Python before the launch",
    ),
    "constant-method": (
        "others (claim: the front end resolves names, not method calls on them) / none",
        "a method of a number, string or tuple; compute it before the launch and pass it",
    ),
    "constructor-keyword": (
        "guide (shows positional arguments), vllm-neuron (claim) / api (NKIObject takes **kwargs)",
        "a constructor is called with keywords; write its arguments in the order of the fields",
    ),
    "helper-default": (
        "vllm-neuron (claim: the front end drops defaults) / nkilib",
        "a helper is called without an argument that has a default; write every argument out",
    ),
    "helper-keyword": (
        "vllm-neuron (claim: the front end drops keywords) / nkilib, guide",
        "a helper is called with keywords; write its arguments in the order of its signature",
    ),
    "list-method": (
        "project (kernels that ran use append only) / guide",
        "a method of a list other than append; append in a loop, or build another list",
    ),
    "view-broadcast": (
        "others (device: AttributeError in 0.6.0) / api",
        "`.broadcast(dim, size)` of a view; nl.broadcast_to copies, a stride of 0 in .ap does not",
    ),
}

ALL_RULES = {**RULES, **DEPRECATED, **CONTESTED}

# What is contested of the parser alone: a tracer runs all of it.
_CONTESTED_OF_PARSER = frozenset(CONTESTED) - {"view-broadcast"}


def rules_of(release: str) -> frozenset[str]:
    """The names of the rules that hold in a release of NKI."""
    if release == PARSED:
        return frozenset({**_OF_BOTH, **_OF_PARSER, **CONTESTED})
    return frozenset({**_OF_BOTH, **_OF_TRACER, **DEPRECATED, **CONTESTED}) - _CONTESTED_OF_PARSER


def severity_of(rule: str) -> str:
    """ "error", "deprecated" or "contested"."""
    if rule in DEPRECATED:
        return "deprecated"
    return "contested" if rule in CONTESTED else "error"


def message_of(rule: str) -> str:
    """What is wrong, and what to write instead."""
    return ALL_RULES[rule][1]


# Syntax that is a violation wherever it stands.
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

# What the compiler knows of Python's built-ins, and what is special among the names of APIs.
BUILTINS = frozenset(
    (abs, bool, dict, divmod, float, int, isinstance, len, list, max, min, print)
    + (range, slice, str, tuple, type)
)
NO_INSTRUCTION = frozenset(f"nki.language.{name}" for name in ("mod", "fmod", "divide"))
TENSOR_MAKERS = frozenset(
    f"nki.language.{name}"
    for name in ("ndarray", "zeros", "ones", "full", "zeros_like", "empty_like", "load")
)
IMPURE = frozenset({"datetime", "os", "random", "secrets", "time", "uuid"})
LOOPS = frozenset({"fori_loop", "while_loop"})
RANGES = frozenset(f"nki.language.{name}_range" for name in ("affine", "sequential", "static"))
NUMPY_DTYPE = re.compile(r"numpy\.((u?int|float|complex|bool)(\d+|_)?|dtype|finfo|iinfo)")
