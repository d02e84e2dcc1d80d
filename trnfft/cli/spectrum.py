"""`trnfft spectrum`: one kernel launch on a simulated NeuronCore, from a recording to a picture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nki_kernels import hardware, simulator
from nki_kernels.kernels.dft_gemm import MAX_LENGTH, dft_gemm
from nki_kernels.measured_times import about
from nki_kernels.simulator.timeline import Timeline
from trnfft.cli.output_file import check_output, save_picture
from trnfft.cli.recording import FloatArray, Recording, read_recording
from trnfft.cli.stop import stop
from trnfft.planner.tables import dft_matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FRAME = MAX_LENGTH  # points in a frame: the longest transform that DFT-GEMM computes
LONGEST = 2**20  # samples: more would keep the simulator busy for more than about five seconds
HOP = FRAME // 2  # Hann windows that overlap by half add up to one
TOLERANCE = 5e-7  # relative L2 error that float32 DFT-GEMM stays below
LOWEST_DB = -160.0  # float32 holds no more than this below the strongest line
ENGINES = {
    "tensor": "tab:blue",
    "vector": "tab:green",
    "scalar": "tab:orange",
    "gpsimd": "tab:purple",
    "dma": "tab:red",
}


def spectrum(
    file: Annotated[
        Path | None,
        typer.Argument(help="Recording: .wav, .npy or .csv; an ECG when left out."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Picture to write, a PNG.")] = Path("spectrum.png"),
    column: Annotated[
        str | None,
        typer.Option(
            help="Column of a .csv file that has several: its name in the first line, or its "
            "number, from 1."
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Chip to simulate: trn1, trn2 or trn3. Default: what "
            f"{hardware.TARGET_VARIABLE} says, else the instance's, else trn1.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Spectrum of a recording, transformed by one kernel launch on a simulated NeuronCore."""
    try:
        named = None if target is None else hardware.chip(target)
        chip, cores = named or hardware.current(), hardware.degree(named)
        recording = shorten(read_recording(file, column))
        check_output(out, file)
    except ValueError as error:  # RecordingError is one
        stop(str(error), 2)
    launch = transform(cut_frames(recording.samples), chip, cores)
    console = Console()
    console.print(summary(recording, launch))
    console.print(" ".join(launch.timeline.launch_notes), highlight=False, soft_wrap=True)
    if not launch.error <= TOLERANCE:  # also catches NaN
        stop(f"the error {launch.error:.1e} is above the limit of {TOLERANCE:.0e}: no picture", 1)
    save_picture(lambda: draw(recording, launch), out)


def shorten(recording: Recording) -> Recording:
    """The first LONGEST samples, and a name that says so."""
    total = len(recording.samples)
    if total <= LONGEST:
        return recording
    name = f"beginning of {recording.name} ({total} samples)"
    return replace(recording, name=name, samples=recording.samples[:LONGEST])


def cut_frames(samples: FloatArray) -> FloatArray:
    """Overlapping windowed frames [frames, points]; a signal shorter than FRAME is one frame.

    The last samples, fewer than HOP, are left out where they do not fill a frame.
    """
    points = min(FRAME, len(samples))
    window = np.hanning(points + 1)[:-1]  # periodic, so that half overlapping windows add up to one
    return np.lib.stride_tricks.sliding_window_view(samples, points)[::HOP] * window


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel on a simulated chip: what it computed and how long it took there."""

    chip: hardware.NeuronCore
    cores: int  # the degree of LNC
    spectra: np.ndarray  # complex [frames, points], but for a common power of two
    error: float  # relative L2 distance from float64 numpy.fft
    timeline: Timeline

    @property
    def floor_ns(self) -> float:
        """Time to read and write every point once, with nothing else to do."""
        return self.chip.dma_floor_ns(self.spectra.size, cores=self.cores)


def transform(frames: FloatArray, chip: hardware.NeuronCore, cores: int = 1) -> Launch:
    """Transforms every frame in one launch of DFT-GEMM and checks it against numpy.fft."""
    # Scaled by a power of two, which is exact: no recording is too loud or too soft for float32.
    re = np.ldexp(frames, -np.frexp(np.abs(frames).max())[1]).astype(np.float32)
    im = np.zeros_like(re)
    with hardware.select(chip), simulator.record() as timeline:
        table = dft_matrix(re.shape[1], False, 1.0)
        kernel = simulator.simulate(dft_gemm).with_programs(cores)
        out_re, out_im = kernel(re, im, table)
    spectra = np.asarray(out_re, np.float64) + 1j * np.asarray(out_im, np.float64)
    expected = np.fft.fft(re.astype(np.float64))
    distance = float(np.linalg.norm(spectra - expected))
    error = distance / (float(np.linalg.norm(expected)) or 1.0)
    return Launch(chip, cores, spectra, error, timeline)


def summary(recording: Recording, launch: Launch) -> Table:
    """The launch in figures."""
    frames, points = launch.spectra.shape
    timeline = launch.timeline
    busy = timeline.engine_busy_ns
    bound = max(busy, key=lambda engine: busy[engine])
    rate = f" at {recording.sample_rate:g} Hz" if recording.sample_rate else ""
    table = Table(title=f"One kernel launch on a simulated {timeline.where}", show_header=False)
    for name, value in {
        "signal": f"{recording.name}, {len(recording.samples)} samples{rate}",
        "frames": str(frames),
        "length of a frame": f"{points} points",
        "algorithm": "DFT-GEMM",
        "launches": str(timeline.launches),
        "relative L2 error": f"{launch.error:.1e} against float64 numpy.fft",
        "kernel, modelled": f"{timeline.total_ns / 1e3:.4g} us",
        "with a launch, about": about(timeline.with_launches_ns),
        "DMA floor": f"{launch.floor_ns / 1e3:.3g} us, "
        f"{100 * launch.floor_ns / timeline.total_ns:.3g}% of the modelled time",
        "bound engine": f"{bound}, busy for {busy[bound] / timeline.total_ns:.0%} of that time",
    }.items():
        table.add_row(name, escape(value))
    return table


def draw(recording: Recording, launch: Launch) -> Figure:
    """Three panels: the signal, its mean spectrum and the engines' timeline."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 9), layout="constrained")
    signal_axes, spectrum_axes, timeline_axes = figure.subplots(3)
    draw_signal(signal_axes, recording)
    draw_spectrum(spectrum_axes, recording, launch)
    draw_timeline(timeline_axes, launch)
    return figure


def draw_signal(axes: Axes, recording: Recording) -> None:
    """Amplitude against time."""
    rate = recording.sample_rate
    axes.plot(np.arange(len(recording.samples)) / (rate or 1.0), recording.samples, linewidth=0.8)
    axes.set_title(recording.name, parse_math=False)
    axes.set_xlabel("time (s)" if rate else "sample")
    axes.set_ylabel("amplitude")
    axes.margins(x=0)


def draw_spectrum(axes: Axes, recording: Recording, launch: Launch) -> None:
    """Mean magnitude of the frames against frequency, in dB relative to the strongest."""
    frames, points = launch.spectra.shape
    magnitude = np.abs(launch.spectra[:, : points // 2 + 1]).mean(axis=0)
    magnitude /= magnitude.max() or 1.0
    level = 20 * np.log10(np.maximum(magnitude, 10 ** (LOWEST_DB / 20)))
    bins = np.arange(len(level))
    rate = recording.sample_rate
    axes.plot(bins * rate / points if rate else bins, level, linewidth=1)
    axes.set_title(f"Mean magnitude, {frames} x {points} points")
    axes.set_xlabel("frequency (Hz)" if rate else "bin")
    axes.set_ylabel("dB relative to the strongest")
    axes.margins(x=0)
    axes.grid(alpha=0.3)


def draw_timeline(axes: Axes, launch: Launch) -> None:
    """What every engine did when: one lane an engine, of two cores one above the other."""
    height = 0.8 / launch.cores
    for lane, (engine, color) in enumerate(ENGINES.items()):
        # Transfers of several DMA engines overlap: the darker, the more of them.
        alpha = 0.5 if engine == "dma" else 1.0
        for core in range(launch.cores):
            spans = [
                (event.start_ns / 1e3, (event.end_ns - event.start_ns) / 1e3)
                for event in launch.timeline.events
                if (event.engine, event.core) == (engine, core)
            ]
            place = lane - 0.4 + core * height, height
            axes.broken_barh(spans, place, color=color, linewidth=0, alpha=alpha)
    axes.set_yticks(range(len(ENGINES)), list(ENGINES))
    axes.invert_yaxis()
    axes.set_xlim(0, launch.timeline.total_ns / 1e3)
    axes.set_title(f"Modelled timeline of DFT-GEMM on {launch.timeline.where}")
    axes.set_xlabel("time on the chip (us), modelled")
