"""NkiScalar: an integer that is known at run time only, with sums and products of it.

nki/deep-dives/nki-scalar and nki/api/generated/nki.isa.NkiScalar of the Neuron SDK 2.33 (NKI 0.7):
int32 or int64, fixed when it is made; `+`, `-` and `*` are recorded and wrap around; comparisons of
int32 are recorded and cannot be used, those of int64 are refused. What these pages do not name, or
what of them could not be read, is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from .errors import NkiValidationError
from .register import RunTimeValue

if TYPE_CHECKING:
    from .issue import Issue
    from .tensor import NkiTensor

BITS = {"int32": 32, "int64": 64}
_USES = "pass it as x.ap(pattern, scalar_offset=scalar), as a bound of nl.fori_loop, or store it"


class NkiScalar(RunTimeValue):
    """A 32-bit or 64-bit signed integer of the engines' sequencers.

    ``nisa.scalar_load`` and ``nl.fori_loop`` make them. Attributes: ``dtype``, "int32" or "int64".
    """

    __slots__ = ("_is_comparison", "_scope", "_session", "_state", "dtype", "recorded")
    _state: int
    dtype: str
    _is_comparison: bool
    _session: Any  # the launch that made it
    _scope: Any  # the body of a loop on the device that made it; None outside of loops
    recorded: Any  # the number of what was loaded, or operator and operands: see loop_body.py
    _instead = (
        "an NkiScalar is not known while the kernel is built: it takes +, - and * with ints and "
        f"NkiScalars of its dtype, and nothing else; {_USES}"
    )

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError("an NkiScalar is made by nisa.scalar_load, or given to a body of fori_loop")

    @property
    def value(self) -> int:
        """The value, for the simulator."""
        if self._is_comparison:
            raise TypeError(
                "the result of a comparison of NkiScalars cannot be used: see nki-scalar"
            )
        return self._state

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"an NkiScalar is fixed when it is made: its {name} cannot be set")

    def check_is_alive(self) -> NkiScalar:
        """Itself; NkiValidationError after the end of its loop, or of its launch."""
        session = self._session
        is_open = self._scope is None or self._scope in session.open_scopes
        if is_open and not session.is_over:
            return self
        rule = "whether one that a loop's body made can be used outside of it is not documented"
        if session.is_over:
            rule = "it is of a launch that has ended"
        raise NkiValidationError("NkiScalar", "scalar", repr(self), rule)

    def _with(self, other: Any, operator: str) -> NkiScalar:
        value = _OPERATORS[operator](self.check_is_alive().value, self._number(other))
        operand = other.recorded if isinstance(other, NkiScalar) else ("int", other)
        return _made(value, self, (operator, self.recorded, operand))

    def _number(self, other: Any) -> int:
        """The other operand; TypeError where it is no int, or a scalar of another dtype."""
        if isinstance(other, NkiScalar):
            if other.dtype != self.dtype:
                raise TypeError(
                    f"an NkiScalar of {self.dtype} and one of {other.dtype} do not go together: "
                    f"load both with one dtype"
                )
            return other.check_is_alive().value
        if type(other) is not int:
            raise TypeError(
                f"an NkiScalar and {other!r} of {type(other).__name__} do not go together: allowed "
                f"are int, as int(n), and NkiScalar of {self.dtype}"
            )
        if wrapped(other, self.dtype) != other:
            raise TypeError(
                f"{other} does not fit into {self.dtype}: what an NkiScalar makes of such an int "
                f"is not documented"
            )
        return other

    def __add__(self, other: Any) -> NkiScalar:
        return self._with(other, "+")

    def __sub__(self, other: Any) -> NkiScalar:
        return self._with(other, "-")

    def __rsub__(self, other: Any) -> NkiScalar:
        return self._with(other, "from")

    def __mul__(self, other: Any) -> NkiScalar:
        return self._with(other, "*")

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> NkiScalar:
        return self._with(0, "from")

    def _compare(self, other: Any) -> Any:
        """Recorded, of int32; of a thing that is no number it is Python's own."""
        if not isinstance(other, (int, float, NkiScalar)):
            return NotImplemented
        self._number(other)
        if self.dtype == "int64":
            raise TypeError("NkiScalars of int64 cannot be compared: the compiler refuses it")
        return _made(0, self, ("comparison",), is_comparison=True)

    __lt__ = __le__ = __gt__ = __ge__ = _compare
    __eq__ = __ne__ = _compare  # type: ignore[assignment]
    __hash__ = object.__hash__

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(self._instead)

    __index__ = __bool__ = _refuse

    def __repr__(self) -> str:
        return f"NkiScalar({self._state}, {self.dtype})"


_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "from": lambda a, b: b - a,
    "*": lambda a, b: a * b,
}


def scalar(session: Any, value: int, dtype: str = "int32") -> NkiScalar:
    """A scalar of a launch that nothing was computed for: loaded, or given to a body."""
    session.scalars_made += 1
    made = NkiScalar.__new__(NkiScalar)
    _set(made, wrapped(value, dtype), dtype, session, session.scalars_made)
    return made


def _made(value: int, of: NkiScalar, recorded: Any, is_comparison: bool = False) -> NkiScalar:
    """A scalar that was computed of another one."""
    made = NkiScalar.__new__(NkiScalar)
    _set(made, wrapped(value, of.dtype), of.dtype, of._session, recorded, is_comparison)
    return made


def _set(
    made: NkiScalar,
    value: int,
    dtype: str,
    session: Any,
    recorded: Any,
    is_comparison: bool = False,
) -> None:
    values = {"_state": value, "dtype": dtype, "recorded": recorded}
    values |= {"_is_comparison": is_comparison, "_session": session, "_scope": session.loop_scope}
    for name, held in values.items():
        object.__setattr__(made, name, held)


def wrapped(value: int, dtype: str) -> int:
    """``value`` as that many bits hold it, signed."""
    half = 1 << BITS[dtype] - 1
    return (value + half) % (2 * half) - half


_TAKES_INT64 = {"nisa.dma_copy", "nisa.memset", "nisa.scalar_load", "nisa.scalar_store"}


def check_int64(issue: Issue, writes: list[NkiTensor], reads: list[NkiTensor]) -> None:
    """NkiValidationError for an instruction whose int64 operands no document speaks of."""
    found = {t.dtype for t in (*writes, *reads)}
    if "int64" not in found:
        return
    if issue.instruction not in _TAKES_INT64:
        rule = (
            f"int64 is documented for scalars only, by {', '.join(sorted(_TAKES_INT64))}: pass an "
            f"array as x.astype(np.int32), say"
        )
        raise NkiValidationError(issue.instruction, "dtype", "int64", rule)
    if len(found) > 1:
        rule = "a cast of int64 is not documented: give both operands one dtype"
        raise NkiValidationError(issue.instruction, "dtypes", " and ".join(sorted(found)), rule)


def check_offset(index: Any, is_on_chip: bool) -> None:
    """NkiValidationError for an offset that an address cannot take; TypeError for a comparison."""
    if not isinstance(index, NkiScalar):
        return
    index.check_is_alive()
    if index.dtype == "int64" and is_on_chip:
        rule = "SBUF and PSUM take an int32: one of int64 is not narrowed"
        raise NkiValidationError("NkiTensor", "scalar_offset", "NkiScalar of int64", rule)
    _ = index.value  # a comparison has none
