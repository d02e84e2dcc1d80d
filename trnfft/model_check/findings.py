"""The report of a check, as immutable data that can be written as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nki_sim import hardware
from nki_sim.measured_times import about
from trnfft.model_check.sites import Site

FORWARD, BACKWARD = "forward", "backward"


@dataclass(frozen=True)
class Launches:
    """Equal launches of one kernel that come from one line of the program.

    Attributes:
        phase: FORWARD or BACKWARD.
        site: the line; in the backward pass, the line whose derivative is computed.
        operation: the function or layer that the line calls.
        points: lengths of the transforms, or the shape of a block circulant weight.
        batch: the number of transforms, convolutions or rows in one launch.
        recipe: the planner's choice, as text.
        algorithm: the name of the kernel's algorithm.
        work: what one launch computes, in words.
        count: the number of launches.
        predicted_ns: the modelled time of one launch; None where the kernel has no price.
        hbm_bytes: the bytes that one launch moves from and to HBM; None likewise.
    """

    phase: str
    site: Site
    operation: str
    points: tuple[int, ...]
    batch: int
    recipe: str
    algorithm: str
    work: str
    count: int
    predicted_ns: float | None
    hbm_bytes: int | None = None


@dataclass(frozen=True)
class Finding:
    """An operation that does not run on the device, or does not run there as one kernel.

    Attributes:
        phase: FORWARD or BACKWARD.
        site: the line that calls the operation.
        operation: the operation's name.
        message: the reason, with a replacement where there is one.
        count: the number of calls.
    """

    phase: str
    site: Site
    operation: str
    message: str
    count: int


@dataclass(frozen=True)
class Report:
    """The launches and findings of one run of a model.

    Attributes:
        target, cores: the chip and the degree of LNC that the launches are planned for.
        device: "cpu" or "meta", the device of the run.
        launches: of kernels, in the order of their first calls.
        refused: operations that are not supported on a device without complex dtypes.
        fallbacks: operations that run on the host, or by operators of torch in place of a kernel.
        operators: by phase, the number of torch's operators that run beside the kernels, copies of
            tensors into another layout among them.
        copied_bytes: by phase, the bytes that these copies read and write.
        complex_operations: the number of calls of torch's functions with complex numbers.
        has_backward: whether a backward pass was run.
        ended: the reason why the run ended before the end of the model; "" for a whole run.
    """

    target: str
    cores: int
    device: str
    launches: tuple[Launches, ...]
    refused: tuple[Finding, ...]
    fallbacks: tuple[Finding, ...]
    operators: dict[str, int]
    copied_bytes: dict[str, int]
    complex_operations: int
    has_backward: bool
    ended: str = ""

    @property
    def is_supported(self) -> bool:
        """Returns whether every operation is supported."""
        return not self.refused and not self.ended

    @property
    def is_untouched(self) -> bool:
        """Returns whether the model has neither transforms nor complex numbers."""
        return not (self.launches or self.refused or self.fallbacks or self.complex_operations)

    def launch_count(self, phase: str = "") -> int:
        """Returns the number of launches in a pass, by default in all passes."""
        return sum(launch.count for launch in self._of(phase))

    def predicted_ns(self, phase: str = "") -> float:
        """Returns the modelled time of the kernels in a pass, by default in all passes."""
        return sum(launch.count * (launch.predicted_ns or 0.0) for launch in self._of(phase))

    def hbm_bytes(self, phase: str = "") -> int:
        """Returns the bytes that the kernels of a pass move from and to HBM."""
        return sum(launch.count * (launch.hbm_bytes or 0) for launch in self._of(phase))

    def with_launches_ns(self, phase: str = "") -> float:
        """Returns about the time of an eager call: `predicted_ns`, and what launches add.

        TorchNeuron launches each kernel and each operator of torch, PyTorch/XLA the graph of a
        call. Others measured what a launch takes; what the operators compute is not modelled.
        """
        launched = self.launch_count(phase), self.operator_count(phase)
        return hardware.chip(self.target).with_launches_ns(self.predicted_ns(phase), *launched)

    def operator_count(self, phase: str = "") -> int:
        """Returns the number of torch's operators in a pass, by default in all passes."""
        return sum(n for each, n in self.operators.items() if phase in ("", each))

    def launched_in_words(self) -> str:
        """Returns what an eager call launches, in words."""
        launches = hardware.chip(self.target).launches
        return launches.in_words(self.launch_count(), self.operator_count())

    def __str__(self) -> str:
        """Returns a table of the launches, and a line for each other finding."""
        phases = (FORWARD, BACKWARD) if self.has_backward else (FORWARD,)
        cores = "core" if self.cores == 1 else "cores"
        lines = [f"modelled, on {self.cores} {cores} of {self.target}"]
        for phase in phases:
            total = self._line(self.launch_count(phase), self.predicted_ns(phase), phase)
            copied = self.copied_bytes[phase]
            copies = f", which copy {copied / 1e6:.2f} MB into other layouts" if copied else ""
            others = f"{self.operators[phase]} other operators of torch{copies}"
            lines.append(f"{phase:<10}{total}, {others}")
            for each in self._of(phase):
                ns = each.count * (each.predicted_ns or 0.0)
                points = " x ".join(map(str, each.points))
                what = f"{each.recipe}, {points} points, batch {each.batch}"
                lines.append(f"  {self._line(each.count, ns, phase, each)}: {what}")
        for title, findings in (("refused", self.refused), ("falls back", self.fallbacks)):
            lines += [f"{title}: {each.operation} {each.message}" for each in findings]
        eager = f"eager, {self.launched_in_words()}, about {about(self.with_launches_ns())}"
        return "\n".join([*lines, eager])

    def _line(self, count: int, ns: float, phase: str, launch: Launches | None = None) -> str:
        nbytes = self.hbm_bytes(phase)
        if launch is not None:
            nbytes = launch.count * (launch.hbm_bytes or 0)
        launches = "launch" if count == 1 else "launches"
        return f"{count} {launches}, {ns / 1e3:.1f} us, {nbytes / 1e6:.2f} MB of HBM"

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as JSON types."""
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
                    "hbm_bytes": self.hbm_bytes(phase),
                    "other_operators": self.operators[phase],
                    "copied_bytes": self.copied_bytes[phase],
                }
                for phase in phases
            },
            "launches": [_entry(each) for each in self.launches],
            "refused": [_entry(each) for each in self.refused],
            "fallbacks": [_entry(each) for each in self.fallbacks],
        }

    def _of(self, phase: str) -> list[Launches]:
        return [launch for launch in self.launches if phase in ("", launch.phase)]


def _entry(record: Launches | Finding) -> dict[str, Any]:
    site = record.site
    fields = {name: value for name, value in vars(record).items() if name != "site"}
    return {"file": site.file, "line": site.line, "module": site.module, **fields}
