"""Problem: the question that the planner answers, checked, as immutable data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, get_args

from nki_sim import hardware
from trnfft.base import config
from trnfft.base.checks import brief, finite
from trnfft.planner import accuracy
from trnfft.planner.kinds import K, Part, Transform
from trnfft.planner.kinds.kind import at_least_one, checked_shape
from trnfft.planner.kinds.padded import checked_data

Execution = Literal["graph", "eager"]
"""How launches and operators of torch run: in one graph, or each launched by itself."""

DTYPES = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True, kw_only=True)
class Problem(Generic[K]):
    """`batch` times what `kind` says, on the chip `target`.

    Attributes:
        kind: what is computed: a record of `trnfft.planner.kinds`, such as `Transform`.
        batch: number of transforms, rows, samples or frames.
        inverse: the direction.
        precision: the precision mode.
        target: name of the chip.
        max_error: upper bound of the relative L2 error of the result.
        cores: the degree of LNC (logical NeuronCore configuration), which is how many physical
            cores work on one launch.
        execution: "graph" for a compiled graph and for PyTorch/XLA, where launches and operators of
            torch are launched together; "eager" for TorchNeuron's eager mode, which launches each.
    """

    kind: K
    batch: int = 1
    inverse: bool = False
    precision: str
    target: str
    max_error: float
    cores: int = 1
    execution: Execution = "graph"

    @property
    def n(self) -> int:
        """Number of points of a transform: its length, or the product of the sizes of its kind."""
        return self.kind.points

    @property
    def is_usual(self) -> bool:
        """Whether the allowed error is that of the precision mode, so that plans are remembered."""
        return self.max_error == accuracy.MAX_ERRORS[self.precision]

    @property
    def dma_floor_ns(self) -> float:
        """The least time in ns in which all cores read the input and write the output once."""
        least = self.kind.least_bytes(self.batch)
        return hardware.chip(self.target).dma_floor_ns(1, least, self.cores)

    @property
    def title(self) -> str:
        """The transform, its size and its place: a line that differs for all remembered plans."""
        what = f"{'inverse ' if self.inverse else ''}{self.kind.title}"
        eager = ", eager" if self.execution == "eager" else ""
        place = f"{self.precision}, {self.where}{eager}"
        return f"{what}, {self.kind.size}, batch {self.batch}, {place}"

    @property
    def where(self) -> str:
        """Chip and degree of LNC, for which each modelled time holds, as "trn2, LNC=2"."""
        return f"{self.target}, LNC={self.cores}"


def checked_transform(n: object, shape: object, padded_from: object, part: Part) -> Transform:
    """Returns the kind of a transform from the arguments of `plan`."""
    if shape is not None and n is not None:
        raise TypeError(
            f"arguments 'n' and 'shape' are {brief(n)} and {brief(shape)}, allowed is one of them"
        )
    lengths = (at_least_one("n", n),) if shape is None else checked_shape("shape", shape)
    if padded_from is None:
        return Transform(lengths, part=part)
    data = checked_data("padded_from", padded_from, lengths)
    return Transform(lengths, data, part)


def checked_accuracy(precision: str, dtype: object, max_error: float | None) -> tuple[str, float]:
    """Returns precision mode and largest error of a problem; float64 data has the mode "double"."""
    config.check_precision(precision, "precision")
    if _dtype_name(dtype) == "float64" or precision == "double":
        return "double", accuracy.MAX_ERRORS["double"]
    budget = accuracy.MAX_ERRORS[precision] if max_error is None else finite("max_error", max_error)
    if not budget > 0:
        raise ValueError(f"argument 'max_error' is {max_error!r}, allowed is any positive number")
    return precision, budget


def checked_execution(execution: object) -> Execution:
    """Returns argument 'execution'."""
    if not isinstance(execution, str) or execution not in ("graph", "eager"):
        allowed = " and ".join(map(repr, get_args(Execution)))
        raise ValueError(f"argument 'execution' is {brief(execution)}, allowed are {allowed}")
    return "eager" if execution == "eager" else "graph"


def checked_launch(target: str | None, cores: object) -> tuple[hardware.NeuronCore, int]:
    """Returns chip and degree of LNC; for None, those of the launches on this computer."""
    named = None if target is None else _chip(target)
    chip = named or hardware.current()
    return chip, hardware.degree(named) if cores is None else checked_cores(cores, chip)


def _chip(target: str) -> hardware.NeuronCore:
    try:
        return hardware.chip(target)
    except (ValueError, TypeError):  # TypeError for values that cannot be looked up
        known = ", ".join(hardware.NAMES)
        raise ValueError(f"argument 'target' is {brief(target)}, allowed are {known}") from None


def checked_cores(cores: object, chip: hardware.NeuronCore) -> int:
    """Returns the degree of LNC of a problem."""
    degree, most = at_least_one("cores", cores), chip.programs_per_launch
    if degree > most:
        allowed = f"1 to {most} on {chip.name}"
        if most == 1:
            allowed = f"1: {chip.name} has degree 1 only"
        raise ValueError(f"argument 'cores', the degree of LNC, is {degree}, allowed is {allowed}")
    return degree


def _dtype_name(dtype: object) -> str:
    name = str(getattr(dtype, "__name__", dtype)).removeprefix("torch.")
    if name not in DTYPES:
        raise TypeError(
            f"argument 'dtype' is {brief(dtype)}, allowed are {', '.join(DTYPES)}: the dtype of "
            f"the real and imaginary part"
        )
    return name
