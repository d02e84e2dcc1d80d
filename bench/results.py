"""Results of the benchmark programs as JSON, checked when read, and written whole or not at all.

Times are in microseconds. A file keeps the percentiles of samples, not the samples.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError

from nki_sim.base.whole_file import write_whole

FORMAT: Final = "trnfft benchmark"
VERSION: Final = 1
SHOWN_PROBLEMS = 5

Program = Literal["run", "parity", "accuracy"]  # the programs that write results
Key = tuple[str, str, str, tuple[int, ...], int, str]


class ResultsError(ValueError):
    """The file does not hold results that this version can read."""


class Strict(BaseModel):
    """A record that accepts no unknown field, no missing field and no wrong type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Environment(Strict):
    """The environment of a benchmark; "" or None for what is absent or unknown."""

    date: str  # ISO 8601, UTC
    device: str  # name of the Neuron device, for example Trainium1
    instance: str
    sdk: str  # release of the Neuron SDK that the version of NKI belongs to
    nki: str  # version of the real package, or "simulator"
    driver: str
    packages: dict[str, str]
    system_packages: dict[str, str]
    python: str
    system: str
    cpu: str
    cpu_count: int
    git_revision: str
    git_is_dirty: bool | None


class Latency(Strict):
    """Percentiles of the time from the start of a call until its result is there."""

    min_us: FiniteFloat
    p50_us: FiniteFloat
    p90_us: FiniteFloat
    p99_us: FiniteFloat
    mean_us: FiniteFloat
    calls: int


class Asked(Strict):
    """The request: the case, and the way to compute it."""

    operation: str
    case: str
    algorithm: str  # "" for the planner's choice
    shape: tuple[int, ...]
    batch: int
    precision: str

    @property
    def key(self) -> Key:
        """The whole request, by which rows of different files are matched."""
        return (
            self.operation,
            self.case,
            self.algorithm,
            self.shape,
            self.batch,
            self.precision,
        )


class Row(Asked):
    """The results of one case on one backend.

    A field is None where the program or the backend has no value for it. `kernel_time_source` is
    "modelled" (the simulator's timeline), "measured" (on a device), or "" where `kernel_us` is
    None; `method` says how the kernel's time was separated from the launch. `latency` is always
    measured by the host's clock. `dma_floor_us` is the least time in which `cores` cores of
    `target` can read the inputs and write the results once. `predicted_us` is the planner's price.
    `with_launches_us` stands beside a modelled time; it is about the time with the launches, whose
    overhead others measured.
    """

    backend: str
    target: str
    cores: int = 1  # degree of LNC
    recipe: str = ""  # the planner's choice, where it plans the call as a whole
    latency: Latency | None = None
    kernel_us: FiniteFloat | None = None
    kernel_time_source: Literal["modelled", "measured", ""] = ""
    with_launches_us: FiniteFloat | None = None
    launch_overhead_us: FiniteFloat | None = None
    fit_residual_us: FiniteFloat | None = None
    method: str = ""
    launches: int | None = None
    dma_floor_us: FiniteFloat | None = None
    predicted_us: FiniteFloat | None = None
    relative_error: FiniteFloat | None = None  # against float64 NumPy
    round_trip_error: FiniteFloat | None = None  # error of the transform followed by its inverse
    predicted_error: FiniteFloat | None = None
    relative_difference: FiniteFloat | None = None  # from the backend "nki-sim"
    tolerance: FiniteFloat | None = None  # largest allowed `relative_difference`

    @property
    def time_us(self) -> float | None:
        """The kernel's time, or the median latency of a call where there is none."""
        if self.kernel_us is not None:
            return self.kernel_us
        return self.latency.p50_us if self.latency is not None else None

    @property
    def where(self) -> str:
        """The chip and the degree of LNC: "trn2, LNC=2"."""
        return f"{self.target}, LNC={self.cores}"

    @property
    def time_source(self) -> str:
        """The kind of `time_us`: "modelled", "measured", or "host" for a whole call on a CPU."""
        return self.kernel_time_source or ("host" if self.latency is not None else "")


class Missing(Asked):
    """A case without a row: the backend does not support it, or it failed."""

    reason: str
    is_failure: bool


Checked = TypeVar("Checked", bound=BaseModel)


class Results(Strict):
    """All rows of one run of a program."""

    format: Literal["trnfft benchmark"] = FORMAT
    version: Literal[1] = VERSION
    program: Program
    backend: str
    target: str
    cores: int = 1  # degree of LNC; files written before this field existed have 1
    environment: Environment
    rows: list[Row]
    missing: list[Missing]

    @property
    def where(self) -> str:
        """The chip and the degree of LNC: "trn2, LNC=2"."""
        return f"{self.target}, LNC={self.cores}"


def save(results: BaseModel, path: Path) -> None:
    """Writes the results, whole or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    write_whole(path, results.model_dump_json(indent=1) + "\n")


def load(path: Path) -> Results:
    """Returns the results of a benchmark program in a file. Raises as `load_as` does."""
    return load_as(Results, path, f"{FORMAT} version {VERSION}")


def load_as(model: type[Checked], path: Path, title: str) -> Checked:
    """Returns the contents of a JSON file, checked against a model.

    Args:
        model: the record that the file has to hold.
        path: the file.
        title: a description of the expected contents, for the message.

    Raises:
        ResultsError: the file is absent or no JSON, or has another version or wrong fields. The
            message names the first of them.
    """
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ResultsError(f"cannot read {path}: {error.strerror or error}") from None
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, problem['loc'])) or 'the file'}: {problem['msg']}"
            for problem in error.errors(include_url=False)
        ]
        more = len(problems) - SHOWN_PROBLEMS
        shown = "; ".join(problems[:SHOWN_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
        raise ResultsError(f"{path} holds no results of {title}: {shown}") from None
