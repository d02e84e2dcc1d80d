"""What to write instead of Python's operators, and NumPy's functions and methods, on tensors."""

from __future__ import annotations

_OPERATORS = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "**": "power",
    "&": "bitwise_and",
    "|": "bitwise_or",
    "^": "bitwise_xor",
    "<<": "left_shift",
    ">>": "right_shift",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
# NumPy's functions of the same name and arguments as nl's.
_OF_TWO = frozenset(("add", "subtract", "multiply", "power", "maximum", "minimum"))
_OF_ONE = frozenset(
    ("abs", "negative", "exp", "log", "sqrt", "square", "sin", "cos", "tanh", "sign", "reciprocal")
)
_OTHERWISE = (
    "compute with functions of nisa, such as nisa.tensor_tensor(dst, data1, data2, op=nl.add), or "
    "of nl, such as nl.add(x, y)"
)


_REDUCTIONS = {"sum": "add", "max": "maximum", "min": "minimum", "prod": "multiply"}
_METHODS = {
    "astype": "nisa.tensor_copy(dst, src), whose dst has the other dtype",
    "copy": "nisa.tensor_copy(dst, src)",
    "dot": "nisa.nc_matmul(dst, stationary, moving), whose dst is a tile in PSUM",
    "fill": "nisa.memset(dst, value)",
    "flatten": "x.reshape(shape) or x.flatten_dims(start_dim, end_dim)",
    "mean": "nl.mean(x, axis)",
    "ravel": "x.reshape(shape) or x.flatten_dims(start_dim, end_dim)",
    "T": "nisa.nc_transpose(dst, data) for a tile, or x.permute(dims) for a tensor in HBM",
    "transpose": "nisa.nc_transpose(dst, data) for a tile, or x.permute(dims) for a tensor in HBM",
    **{
        name: f"nisa.tensor_reduce(dst=dst, op=nl.{op}, data=x, axis=1)"
        for name, op in _REDUCTIONS.items()
    },
}


def no_attribute(name: str) -> str:
    """Returns the message about an attribute that a tensor lacks, and what to write instead."""
    text = f"a tensor in a kernel has no attribute {name!r}"
    return f"{text}: write {_METHODS[name]}" if name in _METHODS else text


def why_not(operation: str) -> str:
    """Returns why a tensor does not support an operation, and what to write instead.

    Args:
        operation: an operator of two operands, such as "*", or the name of a function of Python or
            NumPy, such as "exp".
    """
    return f"a tensor's elements are not known while the kernel is built, so {_instead(operation)}"


def _instead(operation: str) -> str:
    name = _OPERATORS.get(operation, operation)
    if operation in ("/", "divide", "true_divide"):
        by = "nisa.reciprocal(dst, data) or nl.reciprocal(x)"
        return f"multiply by a reciprocal, which {by} computes"
    if operation in ("@", "matmul", "dot"):
        return "write nisa.nc_matmul(dst, stationary, moving), whose dst is a tile in PSUM"
    if operation in _OPERATORS or name in _OF_TWO:
        return (
            f"write nisa.tensor_scalar(dst, data, op0=nl.{name}, operand0=number) for a tile and a "
            f"number, nisa.tensor_tensor(dst, data1, data2, op=nl.{name}) for two tiles, or "
            f"nl.{name}(x, y), which returns a new tile"
        )
    if name in _OF_ONE:
        return f"write nl.{name}(x), which returns a new tile"
    return _OTHERWISE
