"""What to do about a script that launches no kernel."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

from nki_sim.launch.kernel import Kernel

_WIDTH = 96
_SHAPE = "128x512"


def advice(script: str, names: dict[str, Any]) -> str:
    """Returns what to do about a script that has launched no kernel.

    Args:
        script: the path of the script.
        names: the names of the script with their values, or {} if they are not known.
    """
    kernels = {
        name: value
        for name, value in names.items()
        if isinstance(value, Kernel) and value.func.__module__ == "__main__"
    }
    said = f"{script}: no kernel was launched in this process. "
    if not kernels:
        said += (
            "A kernel is a function under @nki.jit, and a call of it with NumPy arrays or torch "
            "tensors launches it: write such a call into the file"
        )
        return textwrap.fill(said, _WIDTH)
    name, kernel = min(kernels.items(), key=lambda item: item[1].func.__code__.co_firstlineno)
    parameters = inspect.signature(kernel.func).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty]
    said += (
        f"The file defines {_listed(list(kernels))}, and a call launches a kernel. Write a call "
        f"into the file, such as"
    )
    then = "or model the time of a kernel from the shapes of its arguments, without data:"
    call = f"{name}({', '.join(needed)})  # with NumPy arrays or torch tensors"
    shapes = f" --shape{f' {_SHAPE}' * len(needed)}" if needed else ""
    lines = [
        textwrap.fill(said, _WIDTH),
        f"    {call}",
        then,
        f"    nki-sim profile {script}::{name}{shapes}",
    ]
    return "\n".join(lines)


def _listed(names: list[str]) -> str:
    kind = "the kernel" if len(names) == 1 else "the kernels"
    return f"{kind} {', '.join(names[:3])}{' and others' if len(names) > 3 else ''}"
