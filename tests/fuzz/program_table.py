"""Programs of one step of the tables, alone or in a function that is compiled or transformed."""

from __future__ import annotations

from tests.fuzz.program import NATIVE, WRAPPERS, Program, Step, run
from tests.fuzz.program_drawing import TABLES, is_free

_COUNT = "torch.arange(1.0, 10, dtype=D).reshape(3, 3)"
_MADE = (
    Step("leaf", f"a0 = ({_COUNT} * 1.3).cos().requires_grad_()"),
    Step("leaf", f"a1 = ({_COUNT} * 2.1).cos().requires_grad_()"),
    Step("source", "z0 = made(a0, a1) * 1", "z0"),
    Step("leaf", f"n0 = torch.polar({_COUNT}, {_COUNT}).requires_grad_()"),
)
# What else a step uses, of z0 alone, so that a function of one tensor contains it.
_OTHERS = (
    Step("source", "z1 = fft(z0)", "z1"),
    Step("read", "t0 = z1.real * 0.1", "t0"),
    Step("native", "n1 = torch.polar(t0 + 2, t0) * 1", "n1"),
)
_PLACES = {"x": "z0", "y": "z1", "o": "z1", "z": "z0", "w": "z1", "r": "t0", "n": "n1", "l": "a0"}
_PLACES |= {"i": "1", "k": "0", "weigh": "weigh"}
# Functions of real numbers only, of which a function makes a complex tensor.
_OF_REAL = ("jacfwd", "jacrev", "hessian", "jacobian", "vectorized", "vectorized_forward")
STEPS = [(kind, text) for kind, table in TABLES.items() for text in dict.fromkeys(table)]
_NATIVE_WRITES = ("{n}", "torch._foreach_add_([{n}", "torch.view_as_real({n})", "torch.add({n}")


def one_step(table: str, template: str, wrapper: str) -> Program | None:
    """Returns a program with the step and with gradients, or None where torch refuses it.

    wrapper: of the function that contains the step; "" for none.
    """
    kind = table.split()[-1]
    is_native = kind == "native" or kind == "write" and template.startswith(_NATIVE_WRITES)
    target = "n2" if is_native else "t1"
    text = template.format(**_PLACES, result=target)
    if kind in ("view", "read", "native"):
        text = f"{target} = {text}"
    steps = [Step(kind, f"with torch.no_grad(): {text}" if kind == "no_grad" else text, target)]
    if kind in ("write", "no_grad"):
        steps.append(Step("read", f"{target} = {'n1' if is_native else 'z0'} * 2", target))
    if wrapper:
        if not is_free(steps[0], wrapper) or "{l}" in template:
            return None
        is_of_real = wrapper in _OF_REAL
        first = ["z0 = made(a0, a0 * 2) * 1"] if is_of_real else []
        body = "\n    ".join([*first, *(step.text for step in (*_OTHERS, *steps))])
        name = "a0" if is_of_real else "z0"
        call = WRAPPERS[wrapper].format(args=name)
        function = f"def middle({name}):\n    {body}\n    return {target}\n{target} = {call}"
        program = Program((*_MADE, Step(wrapper, function, target)))
    else:
        native = Step("native", "n1 = n0 * 1", "n1")
        program = Program((*_MADE, *_OTHERS[:2], native, *steps))
    outcome = run(program, NATIVE)
    if outcome.error is not None:
        return None
    losses = ["z0 * z0"]
    if getattr(outcome.found.get(target), "requires_grad", False):
        losses.insert(0, target)
    ends = [Step("gradient", f"weigh({loss}).backward(retain_graph=True)") for loss in losses]
    return Program((*program.steps, *ends))
