"""What a check has found, as immutable data that travels as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nki_kernels import hardware
from trnfft.model_check.sites import Site

FORWARD, BACKWARD = "forward", "backward"


@dataclass(frozen=True)
class Launches:
    """Launches of one kernel by one line of the program.

    Attributes:
        phase: FORWARD or BACKWARD.
        site: the line; of the backward pass the one whose derivative it is.
        operation: what was called there.
        points: lengths of the transforms, or the shape of a weight.
        batch: how many of them one launch transforms.
        recipe: what the planner has chosen, as text.
        algorithm: the name of its kernel.
        count: launches.
        predicted_ns: modelled time of one; None where the kernel cannot be priced.
    """

    phase: str
    site: Site
    operation: str
    points: tuple[int, ...]
    batch: int
    recipe: str
    algorithm: str
    count: int
    predicted_ns: float | None


@dataclass(frozen=True)
class Finding:
    """An operation that does not run on the device, or not as one kernel there.

    Attributes:
        phase: FORWARD or BACKWARD.
        site: the line that calls it.
        operation: its name.
        message: what happens, and what to write instead.
        count: how often.
    """

    phase: str
    site: Site
    operation: str
    message: str
    count: int


@dataclass(frozen=True)
class Report:
    """What a run of a model has shown.

    Attributes:
        target, cores: the chip and the degree of LNC that the launches are planned for.
        device: "cpu" or "meta", where the run was.
        launches: of kernels, in the order of their first calls.
        refused: what is not supported on a device without complex dtypes.
        fallbacks: what runs on the host, or by torch's operators in place of one kernel.
        operators: by phase, how many operators of torch run on the device beside the kernels.
        complex_operations: how many functions of torch had complex numbers.
        has_backward: whether a backward pass was run.
        ended: why the run ended before the end of the model; "" where it did not.
    """

    target: str
    cores: int
    device: str
    launches: tuple[Launches, ...]
    refused: tuple[Finding, ...]
    fallbacks: tuple[Finding, ...]
    operators: dict[str, int]
    complex_operations: int
    has_backward: bool
    ended: str = ""

    @property
    def is_supported(self) -> bool:
        """Whether every operation runs."""
        return not self.refused and not self.ended

    @property
    def is_untouched(self) -> bool:
        """Whether the model has neither transforms nor complex numbers."""
        return not (self.launches or self.refused or self.fallbacks or self.complex_operations)

    def launch_count(self, phase: str = "") -> int:
        """Launches of a pass; of all passes by default."""
        return sum(one.count for one in self._of(phase))

    def predicted_ns(self, phase: str = "") -> float:
        """Modelled time of the kernels of a pass; of all passes by default."""
        return sum(one.count * (one.predicted_ns or 0.0) for one in self._of(phase))

    def with_launches_ns(self, phase: str = "") -> float:
        """About the time of these kernels with what their launches add, which others measured."""
        chip = hardware.chip(self.target)
        return chip.with_launches_ns(self.predicted_ns(phase), self.launch_count(phase))

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        phases = (FORWARD, BACKWARD) if self.has_backward else (FORWARD,)
        return {
            "supported": self.is_supported,
            "target": self.target,
            "cores": self.cores,
            "device": self.device,
            "ended": self.ended,
            "totals": {
                phase: {
                    "launches": self.launch_count(phase),
                    "predicted_ns": round(self.predicted_ns(phase), 1),
                    "with_launches_ns": round(self.with_launches_ns(phase), 1),
                    "other_operators": self.operators[phase],
                }
                for phase in phases
            },
            "launches": [_entry(one) for one in self.launches],
            "refused": [_entry(one) for one in self.refused],
            "fallbacks": [_entry(one) for one in self.fallbacks],
        }

    def _of(self, phase: str) -> list[Launches]:
        return [one for one in self.launches if phase in ("", one.phase)]


def _entry(one: Launches | Finding) -> dict[str, Any]:
    """The fields, with the site as the file, the line and the module."""
    site = one.site
    fields = {name: value for name, value in vars(one).items() if name != "site"}
    return {"file": site.file, "line": site.line, "module": site.module, **fields}
