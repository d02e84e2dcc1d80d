"""NkiScalar: an integer that is known only at run time, with sums and products of it.

Sources: nki/deep-dives/nki-scalar and nki/api/generated/nki.isa.NkiScalar of the Neuron SDK 2.33
(NKI 0.7). A scalar is an int32 or int64 that never changes. The operators `+`, `-` and `*` are
recorded, and wrap around. Comparisons of int32 are recorded, but their results cannot be used;
comparisons of int64 are refused. The simulator refuses what these pages do not name, and what could
not be read of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from nki_sim.base.running import Launch
from nki_sim.errors import NkiValidationError

from .register import Life, RunTimeValue

# How a scalar was computed: the number of a load, or an operator and what it computes with.
Recorded = int | tuple[Any, ...]
BITS = {"int32": 32, "int64": 64}
_USES = (
    "pass it to x.ap(pattern, scalar_offset=scalar), use it as a bound of nl.fori_loop, or store "
    "it by nisa.scalar_store"
)


class NkiScalar(RunTimeValue):
    """A signed integer of 32 or 64 bits in the engines' sequencers.

    ``nisa.scalar_load`` and ``nl.fori_loop`` make scalars. The attribute ``dtype`` is "int32" or
    "int64".
    """

    __slots__ = ("_is_comparison", "_scope", "_session", "_state", "dtype", "life", "recorded")
    _state: int
    dtype: str
    _is_comparison: bool
    _session: Any  # the launch that made it
    _scope: Any  # the body of a device loop that made it; None outside of loops
    life: Life
    recorded: Recorded  # see loop_body.py
    _instead = (
        "an NkiScalar is not known while the kernel is built, and supports only +, - and * with "
        f"ints and NkiScalars of its dtype: {_USES}"
    )

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError(
            "NkiScalar(...) cannot be called: nisa.scalar_load returns an NkiScalar, and "
            "nl.fori_loop passes one to its body"
        )

    @property
    def value(self) -> int:
        """The value, for the simulator."""
        if self._is_comparison:
            raise TypeError(
                "the result of a comparison of NkiScalars cannot be used (nki/deep-dives/"
                "nki-scalar): compare on a tile"
            )
        return self._state

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"the {name} of an NkiScalar cannot be set, as it never changes")

    def check_is_alive(self) -> NkiScalar:
        """Returns itself; raises NkiValidationError after the end of its loop or launch."""
        session = self._session
        is_open = self._scope is None or self._scope in session.open_scopes
        if is_open and not session.is_over:
            return self
        rule = (
            "the body of a loop made it, and no document says whether it can be used outside of "
            "that body"
        )
        if session.is_over:
            rule = "it is from a launch that has ended"
        raise NkiValidationError("NkiScalar", "the scalar", repr(self), rule)

    def _with(self, other: object, operator: str) -> NkiScalar:
        value = _OPERATORS[operator](self.check_is_alive().value, self._number(other))
        operand = other.recorded if isinstance(other, NkiScalar) else ("int", other)
        return _made(self._session, value, self.dtype, (operator, self.recorded, operand))

    def _number(self, other: object) -> int:
        """Returns the other operand; raises TypeError unless it is an int or of the same dtype."""
        if isinstance(other, NkiScalar):
            if other.dtype != self.dtype:
                raise TypeError(
                    f"an NkiScalar of {self.dtype} cannot be combined with one of {other.dtype}: "
                    f"load both with the same dtype"
                )
            return other.check_is_alive().value
        if type(other) is not int:
            raise TypeError(
                f"an NkiScalar cannot be combined with {other!r} of type {type(other).__name__}, "
                f"allowed are an int, such as int(n), and an NkiScalar of {self.dtype}"
            )
        if wrapped(other, self.dtype) != other:
            raise TypeError(
                f"the operand {other} does not fit into {self.dtype}, the dtype of the NkiScalar, "
                f"and no document says what happens then"
            )
        return other

    def __add__(self, other: object) -> NkiScalar:
        return self._with(other, "+")

    def __sub__(self, other: object) -> NkiScalar:
        return self._with(other, "-")

    def __rsub__(self, other: object) -> NkiScalar:
        return self._with(other, "from")

    def __mul__(self, other: object) -> NkiScalar:
        return self._with(other, "*")

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> NkiScalar:
        return self._with(0, "from")

    def _compare(self, other: object) -> Any:
        """Records a comparison of int32. Other values than numbers are compared by Python."""
        if not isinstance(other, (int, float, NkiScalar)):
            return NotImplemented
        self._number(other)
        if self.dtype == "int64":
            raise TypeError("NkiScalars of int64 cannot be compared, as the compiler refuses it")
        return _made(self._session, 0, self.dtype, ("comparison",), is_comparison=True)

    __lt__ = __le__ = __gt__ = __ge__ = _compare
    __eq__ = __ne__ = _compare
    __hash__ = object.__hash__

    __index__ = __bool__ = RunTimeValue._refuse

    def __repr__(self) -> str:
        return f"NkiScalar({self._state}, {self.dtype})"


_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "from": lambda a, b: b - a,
    "*": lambda a, b: a * b,
}


def scalar(session: Launch, value: int, dtype: str = "int32") -> NkiScalar:
    """Returns a scalar that was loaded, or that is passed to the body of a loop."""
    session.scalars_made += 1
    return _made(session, value, dtype, session.scalars_made)


def _made(
    session: Launch, value: int, dtype: str, recorded: Recorded, is_comparison: bool = False
) -> NkiScalar:
    made = NkiScalar.__new__(NkiScalar)
    values = {"_state": wrapped(value, dtype), "dtype": dtype, "recorded": recorded}
    values["life"] = Life(session.count if type(recorded) is int else None, BITS[dtype] // 32)
    values |= {"_is_comparison": is_comparison, "_session": session, "_scope": session.loop_scope}
    for name, held in values.items():
        object.__setattr__(made, name, held)
    return made


def wrapped(value: int, dtype: str) -> int:
    """Returns ``value`` wrapped around to the bits of a dtype, as a signed number."""
    half = 1 << BITS[dtype] - 1
    return (value + half) % (2 * half) - half


_TAKES_INT64 = {"nisa.dma_copy", "nisa.memset", "nisa.scalar_load", "nisa.scalar_store"}


def check_int64(issue: Any, writes: Sequence[Any], reads: Sequence[Any]) -> None:
    """Raises NkiValidationError if no document describes the instruction on int64 operands."""
    found = {t.dtype for t in (*writes, *reads)}
    if "int64" not in found:
        return
    if issue.instruction not in _TAKES_INT64:
        rule = (
            f"int64 is documented for scalars only, in {', '.join(sorted(_TAKES_INT64))}: pass an "
            f"array of another dtype, such as x.astype(np.int32)"
        )
        raise NkiValidationError(issue.instruction, "dtype", "int64", rule)
    if len(found) > 1:
        rule = "no document describes a cast of int64: use operands of the same dtype"
        raise NkiValidationError(issue.instruction, "dtype", " and ".join(sorted(found)), rule)


def check_offset(index: object, is_on_chip: bool) -> None:
    """Raises NkiValidationError for an offset that an address cannot have.

    Raises TypeError for the result of a comparison.
    """
    if not isinstance(index, NkiScalar):
        return
    index.check_is_alive()
    if index.dtype == "int64" and is_on_chip:
        rule = "addresses in SBUF and PSUM need an NkiScalar of int32, and int64 is not narrowed"
        raise NkiValidationError("NkiTensor", "scalar_offset", "an NkiScalar of int64", rule)
    _ = index.value  # raises for the result of a comparison
