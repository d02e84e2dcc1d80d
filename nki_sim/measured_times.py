"""Times of launches and of exchanges between cores, which others measured, with their sources.

The simulator models the time of a kernel on the chip. Before a kernel runs, the host must launch
the kernel, which takes longer than many kernels. This project has not measured these times itself.
They are defined in this file only; `hardware.NeuronCore` refers to the times of its chip.

Sources, as cited below:
  [dispatch]  xpu_perf, micro_perf's backend NEURON, its implementation notes: TorchNeuron on a
              trn2.3xlarge, perf_counter around torch_neuronx.synchronize()
  [cookbook]  jimburtoft/cookbook, branch neuron-pytorch-native, its report of 2026-07-21: one chip
              of a trn2.48xlarge, 8 ranks, LNC=1, float32, TorchNeuron Beta 3
  [kiln]      foxl-ai/kiln, docs/neuron-notes.md: trn1, an empty graph and its result
  [article]   "FFT is a GEMM, and then it isn't": trn1, PyTorch/XLA
  [deep_ep]   deep_ep_trn, its table of the platform's constraints, number 8: trn2.3xlarge, LNC=2,
              torch-neuronx 2.14.3, NKI 0.7.0b1
  [hw]        aws-samples/sample-spectral-dns-on-aws-neuron, docs/results.md: 32 cores of trn1
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MeasuredTime:
    """A time that others measured: a range, and the single figure that this project counts."""

    what: str
    least_ns: float
    most_ns: float
    about_ns: float
    chip: str  # the name of the chip in `hardware`
    measured_on: str
    source: str  # one of the sources above, in brackets

    @property
    def range(self) -> str:
        """The measured range as a text, such as "55 to 65 us"."""
        size, unit = (1e6, "ms") if self.most_ns >= 1e6 else (1e3, "us")
        ends = dict.fromkeys(f"{ns / size:g}" for ns in (self.least_ns, self.most_ns))
        return f"{' to '.join(ends)} {unit}"


@dataclass(frozen=True)
class LaunchTimes:
    """The time of launching a kernel, in addition to the kernel's time on the chip.

    ``eager`` is the time of one launch. TorchNeuron's eager mode launches each kernel and each
    operator of torch. ``compiled`` is the time of a whole graph of torch.compile, whatever the
    number of its kernels, or None for PyTorch/XLA, which launches every call as a graph.
    """

    framework: str
    eager: MeasuredTime
    compiled: MeasuredTime | None = None

    def added_ns(self, launches: int, operators: int = 0) -> float:
        """Returns about the time that the launches of an eager call add to its kernels."""
        calls = launches + operators
        return self.eager.about_ns * (min(calls, 1) if self.compiled is None else calls)

    def in_words(self, launches: int, operators: int = 0) -> str:
        """Returns what an eager call launches, in words: "with a launch" for a kernel alone."""
        if launches + operators == 1:
            return "with a launch"
        return "with a launch of " + ("their graph" if self.compiled is None else "each")

    def note(self, chip: str) -> str:
        """Returns sentences about what was measured, and where, for readers of a time on a chip."""
        eager, compiled = self.eager, self.compiled
        text = f"A launch by {self.framework} takes {eager.range}"
        if compiled is not None:
            text += f" in eager mode, a compiled graph {compiled.range}"
        text += f", as others measured on {eager.measured_on}."
        if eager.chip != chip:
            text += f" No launch was measured on {chip}, so the time on {eager.chip} is used."
        return text


TORCH_NEURON_LAUNCHES = LaunchTimes(
    framework="TorchNeuron",
    eager=MeasuredTime(
        what="a launch in eager mode",
        least_ns=55e3,
        most_ns=65e3,
        about_ns=60e3,
        chip="trn2",
        measured_on="a trn2.3xlarge",
        source="[dispatch]",
    ),
    compiled=MeasuredTime(
        what="a compiled graph",
        least_ns=95e3,
        most_ns=100e3,
        about_ns=100e3,
        chip="trn2",
        measured_on="a trn2.3xlarge",
        source="[dispatch]",
    ),
)
# PyTorch/XLA compiles every graph, so one record is enough. The shortest time is that of an empty
# graph, the longest that of a stage of the article's transforms. The counted time is their mean.
XLA_LAUNCHES = LaunchTimes(
    framework="PyTorch/XLA",
    eager=MeasuredTime(
        what="a launch",
        least_ns=140e3,
        most_ns=700e3,
        about_ns=420e3,
        chip="trn1",
        measured_on="trn1",
        source="[kiln], [article]",
    ),
)

# An all-to-all of torch.distributed takes the same time for 512 bytes and for 16 MB.
TORCH_ALL_TO_ALL = MeasuredTime(
    what="an all-to-all by torch.distributed",
    least_ns=1.1e6,
    most_ns=1.4e6,
    about_ns=1.25e6,
    chip="trn2",
    measured_on="8 cores of a trn2.48xlarge, LNC=1, TorchNeuron Beta 3",
    source="[cookbook]",
)
XLA_ALL_TO_ALL = MeasuredTime(
    what="an all-to-all, however small",
    least_ns=2e6,
    most_ns=2e6,
    about_ns=2e6,
    chip="trn1",
    measured_on="32 cores of trn1",
    source="[hw]",
)
# The time of a kernel of nki.collectives. No transform of this project uses such a kernel yet.
NKI_ALL_TO_ALL = MeasuredTime(
    what="an all-to-all by an NKI collective, up to 4 MB",
    least_ns=130e3,
    most_ns=140e3,
    about_ns=135e3,
    chip="trn2",
    measured_on="8 cores of a trn2.48xlarge, LNC=1, TorchNeuron Beta 3",
    source="[cookbook]",
)
NKI_ALL_TO_ALL_16_MB = MeasuredTime(
    what="an all-to-all by an NKI collective, 16 MB",
    least_ns=405e3,
    most_ns=405e3,
    about_ns=405e3,
    chip="trn2",
    measured_on="8 cores of a trn2.48xlarge, LNC=1, TorchNeuron Beta 3",
    source="[cookbook]",
)

# The time for which a tensor moves to the host and back, for an operation that the chip does not
# have. The author of the record attributes it to copies by the driver that wait.
HOST_ROUND_TRIP = MeasuredTime(
    what="a tensor's way from the device to the host and back",
    least_ns=0.7e6,
    most_ns=3.5e6,
    about_ns=2.1e6,
    chip="trn2",
    measured_on="a trn2.3xlarge, torch-neuronx 2.14.3",
    source="[deep_ep]",
)


def in_words(launches: int) -> str:
    """Returns a number of launches in words: "a launch" or "3 launches"."""
    return "a launch" if launches == 1 else f"{launches} launches"


def about(ns: float) -> str:
    """Returns an approximate time with its unit, such as "87 us", "450 us" or "1.29 ms"."""
    rounded = float(f"{ns:.2g}")
    if rounded < 1e6:
        return f"{rounded / 1e3:g} us"
    return f"{ns / 1e6:.3g} ms" if ns < 1e9 else f"{ns / 1e6:.0f} ms"
