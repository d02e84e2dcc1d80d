"""Judges whether a program on ComplexTensors computes the same as on torch's complex dtypes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tests.fuzz.program import (
    NATIVE,
    NATIVE_COMPILED,
    OF_ONE,
    SPLIT,
    Outcome,
    Program,
    run,
    settings,
)
from tests.fuzz.program_drawing import NAME
from trnfft import ComplexTensor

TYPED = (IndexError, NotImplementedError, RuntimeError, TypeError, ValueError)
# Parts of clear messages: this library's messages, which say what is allowed, and torch's own.
CLEAR = (
    r"allowed (is|are)",
    r"(is|are) not allowed",
    r"is not supported",
    r"they must be equal, see torch\.",
    r"modified by an inplace operation",
    r"modified inplace",
    r"Can't detach views in-place",
    r"being modified in-place",
    r"refers? to a single memory location",
    r"we guessed its metadata",  # a compiled function's complex result on which no loss depends
    r"trying to get value out of a tracing tensor",
    r"DynamicOutputShapeException",  # a compiled function takes some numbers of a tensor
    r"currently unsupported",  # two results of a compiled function share memory
    # torch frees the whole graph of a compiled function
    r"backward through the graph a second time",
    r"Use \.reshape",  # a recording of make_fx gets a tensor with other strides
)
# Messages of torch's compiler where a function writes numbers with derivatives into an argument
# without, and returns a view of its parts, or a result and a view of it: docs/complex_tensor.md.
OF_THE_COMPILER = (
    r"expected SubclassCreationMeta|was invalid, but is output|tensors_saved_with_vc_check"
)
# Parts of messages about torch's internals.
UNCLEAR = (
    r"INTERNAL ASSERT",
    r"has no attribute",
    r"NoneType",
    r"unexpected keyword",
    r"missing \d",
    r"unpack",
)
# torch refuses these writes because its operator keeps a result or an argument for the derivative.
KEPT = r"modified by an inplace operation"
# torch refuses these writes because derivatives would be wrong.
OF_AUTOGRAD = KEPT + r"|inplace|in-place|leaf Variable|requires? grad|a view"
TOLERANCE = {"float64": 1e-8, "float32": 2e-3}


@dataclass(frozen=True)
class Verdict:
    """The result of a comparison.

    Attributes:
        kind: "same", "same error", "refused", "allowed" or "different".
        text: the message, or the difference.
    """

    kind: str
    text: str = ""


def judged(program: Program) -> Verdict:
    """Returns the verdict on a program."""
    verdict = _against(run(program, NATIVE), program)
    is_compiled = any(re.search(r"(compiled|traced)\(", step.text) for step in program.steps)
    if verdict.kind == "different" and is_compiled:
        compiled = _against(run(program, NATIVE_COMPILED), program)
        if compiled.kind != "different":
            return Verdict("same", "as what torch compiles, which is not what it does eagerly")
    return verdict


def _against(native: Outcome, program: Program) -> Verdict:
    split = run(program, SPLIT)
    if split.error is not None and (native.error is None or split.ended < native.ended):
        return _refused(program, split)
    if native.error is not None and split.error is None:
        return _allowed(program, native, split)
    is_partial = native.error is not None and program.steps[native.ended].kind == "gradient"
    different = None if is_partial else compared(native, split, program)
    if different is not None:
        return different
    return Verdict("same" if native.error is None else "same error")


def _refused(program: Program, split: Outcome) -> Verdict:
    """Returns the verdict on an error that torch does not raise."""
    error, step = split.error, program.steps[split.ended]
    message = " ".join(str(error).split("from user code")[0].split())
    text = f"{type(error).__name__} in a {step.kind}: {message}"
    if re.search(OF_THE_COMPILER, message):
        return Verdict("refused", text)
    if not isinstance(error, TYPED) or isinstance(error, RecursionError):
        return Verdict("different", f"unclear error: {text}")
    is_clear = any(re.search(part, message) for part in CLEAR)
    is_internal = type(error).__name__.startswith("Internal") and not is_clear
    if is_internal or any(re.search(part, str(error)) for part in UNCLEAR):
        return Verdict("different", f"unclear error: {text}")
    if not is_clear:
        return Verdict("different", f"error to judge: {text}")
    # Python computes a[i] *= 2 in two steps, and functions may write before torch sees the result.
    # A view of a tensor that was detached in place, of which torch knew nothing, is not checked.
    is_one = " *= " not in step.text and "Doubled" not in step.text
    is_one = is_one and "detached in place" not in message
    if is_one and step.kind in ("view", "read", "write", "no_grad"):
        before = compared(run(program, NATIVE, split.ended), split, program)
        if before is not None and before.kind == "different":
            return Verdict("different", f"half done: {text}; {before.text}")
    return Verdict("refused", text)


def _allowed(program: Program, native: Outcome, split: Outcome) -> Verdict:
    """Returns the verdict on steps that torch refuses and ComplexTensors compute.

    Where torch can compute the result in another way, it must be the same.
    """
    message = str(native.error).strip().split("\n")[0]
    if not re.search(OF_AUTOGRAD, message):
        return Verdict("allowed", f"torch says: {message[:80]}")
    if not re.search(KEPT, message):
        if _is_torchs_mistake(program, native):
            return Verdict("allowed", "unchecked: torch takes a conjugate for a leaf")
        return Verdict("different", f"no error, where torch says: {message[:100]}")
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        native = run(program, NATIVE)
    if native.error is not None:
        return Verdict("allowed", f"unchecked: {message[:60]}")
    different = compared(native, split, program)
    if different is not None and different.kind == "different":  # torch's other way has errors
        return Verdict("allowed", f"unchecked: {message[:60]}")
    return Verdict("allowed", "torch keeps what is written, and the result is right")


def _is_torchs_mistake(program: Program, native: Outcome) -> bool:
    """Returns whether torch takes a conjugate that was written before for a leaf."""
    written = re.match(r"(\w+)\.fill_\(", program.steps[native.ended].text)
    if written is None:
        return False
    target = native.found.get(written[1])
    return isinstance(target, torch.Tensor) and target.is_conj() and not target.is_leaf


def compared(native: Outcome, split: Outcome, program: Program) -> Verdict | None:
    """Returns the difference between the results of two runs, or None without one."""
    with settings(NATIVE), torch.no_grad():
        for name, expected in native.found.items():
            if not NAME.fullmatch(name):
                continue
            if _is_unreadable(expected):
                continue
            try:
                text = _difference(program, name, split.found.get(name), expected)
            except RuntimeError as error:
                if any(re.search(part, str(error)) for part in CLEAR):
                    return Verdict("refused", f"at the end: {str(error).split(chr(10))[0]}")
                return Verdict("different", f"error to judge, at the end: {error}")
            if text:
                return Verdict("different", f"{_kind_of(program, name)}.{text}")
    return None


def _is_unreadable(x: Any) -> bool:
    """Returns whether torch has lost the derivative of a view, and fails at any access."""
    try:
        return isinstance(x, torch.Tensor) and x.grad_fn is x
    except RuntimeError:
        return True


def _kind_of(program: Program, name: str) -> str:
    """Returns the kind of the step that made a result, or of an earlier transform of torch.func."""
    kinds = [step.kind for step in program.steps if step.target == name]
    return next((step.kind for step in program.steps if step.kind in OF_ONE), (*kinds, "leaf")[0])


def _difference(program: Program, name: str, x: Any, expected: Any) -> str:
    """Returns the difference between two results with this name, or ""."""
    tolerance, kind = TOLERANCE[program.dtype], _kind_of(program, name)
    grad = _grad_of_leaf if _has_second_order(program) else _grad
    uses_func = any(re.search(r"func\.|vmap", step.text) for step in program.steps)
    is_jacobian = any(step.target == name and "forward-mode" in step.text for step in program.steps)
    if not isinstance(expected, torch.Tensor):
        return "" if _are_close(x, expected, tolerance) else f"value: {name} is {x}, not {expected}"
    if not isinstance(x, torch.Tensor):
        return f"class: {name} is a {type(x).__name__}"
    for each, wanted, what in ((x, expected, ""), (grad(x), grad(expected), "grad.")):
        if wanted is None and what and each is not None and not each.any():
            continue  # a gradient of zeros may be None, as in torch's compiler
        if what and kind == "jvp" and x.is_leaf != expected.is_leaf:
            continue  # the formula decides whether a tangent depends on primals, and is a leaf
        if (each is None) != (wanted is None):
            return f"{what}value: {name} has {each}, not {wanted}"
        if wanted is None:
            continue
        is_split = wanted.is_complex() and name[0] != "n"
        # Gradients of torch.func may be native: docs/complex_tensor.md.
        is_of_func = wanted.is_complex() and (kind in OF_ONE or what and uses_func)
        if not is_of_func and is_split != isinstance(each, ComplexTensor):
            return f"{what}class: {name} has {type(each).__name__}"
        for attribute in ("shape", "dtype", "requires_grad", "is_leaf"):
            found, right = getattr(each, attribute), getattr(wanted, attribute)
            is_tracked = attribute in ("requires_grad", "is_leaf")
            is_tracked = is_tracked and (each.requires_grad or bool(what))
            if attribute in ("requires_grad", "is_leaf") and is_jacobian:
                continue  # no graph leads through these: docs/interoperability.md
            if is_tracked and (kind in ("jvp", "gradient", "compiled") or what):
                # These depend on derivatives that are zero or that torch refuses, and on whether
                # compiled code returns its argument or a view of it.
                continue
            if found != right:
                return f"{what}{attribute}: {name} has {found}, not {right}"
        if not _are_close(each, wanted, tolerance):
            return f"{what}value: {name} has {each.detach()}, not {wanted.detach()}"
    return ""


def _grad(x: torch.Tensor) -> torch.Tensor | None:
    return x.grad if x.is_leaf or x.retains_grad else None


def _grad_of_leaf(x: torch.Tensor) -> torch.Tensor | None:
    return x.grad if x.is_leaf else None


def _has_second_order(program: Program) -> bool:
    """Returns whether gradients have gradients.

    Then the formula of a derivative decides whether gradients pass through results.
    """
    return any("create_graph" in step.text for step in program.steps)


def _are_close(x: Any, expected: Any, tolerance: float) -> bool:
    if x is None or expected is None:
        return x is expected
    found, right = _as_array(x), _as_array(expected)
    if found.shape != right.shape:
        return False
    if found.size == 0:
        return True
    finite = np.isfinite(right)
    if not np.array_equal(np.isfinite(found), finite):
        return False
    size = max(1.0, float(np.abs(right[finite]).max(initial=0.0)))
    return bool(np.all(np.abs(found[finite] - right[finite]) <= tolerance * size))


def _as_array(x: Any) -> np.ndarray:
    if isinstance(x, ComplexTensor):
        x = x.detach().to_complex()
    if isinstance(x, torch.Tensor):
        x = x.detach().clone().resolve_conj().resolve_neg().numpy()
    return np.asarray(x).astype(complex)
