"""`trnfft spectrum`: one kernel launch on a simulated NeuronCore, from a recording to a picture."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nki_sim import hardware
from nki_sim.measured_times import about
from trnfft.cli.chip_options import Lnc, Target, chip_and_cores
from trnfft.cli.output_file import check_output, save_picture
from trnfft.cli.stop import stop
from trnfft_demo.recording import FloatArray, Recording, read_recording

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nki_sim.report.timeline import Timeline
    from trnfft.planner.plan import Plan, Recipe

FRAME_SECONDS = 0.04  # about the length of a frame, as is usual for speech and music
SHORTEST = 256  # points of a frame, unless the recording is shorter or the user asks for fewer
LONGEST = 2**20  # samples: more would keep the simulator busy for more than about five seconds
TOLERANCE = 1e-6  # relative L2 error that kernels in the precision mode "fast" stay below
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
        typer.Argument(
            metavar="RECORDING",
            help="Recording: a .wav, .npy or .csv file. Default: an electrocardiogram.",
            show_default=False,
        ),
    ] = None,
    frame: Annotated[
        int | None,
        typer.Option(
            help="Points of a frame, which is one transform. Default: the power of two nearest to "
            f"{1e3 * FRAME_SECONDS:g} ms, at least {SHORTEST}.",
            show_default=False,
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(
            help="Column of a .csv file that has several: its name in the first line, or its "
            "number, from 1 on.",
        ),
    ] = None,
    target: Target = None,
    lnc: Lnc = None,
    out: Annotated[Path, typer.Option(help="PNG file to write.")] = Path("spectrum.png"),
) -> None:
    """Shows one kernel launch on a simulated NeuronCore: the spectrum of a recording.

    The recording is cut into windowed frames that overlap by half. One launch of the kernel that
    the planner chooses transforms all of them. The picture shows the recording, its mean spectrum
    and the modelled timeline of the launch.
    """
    try:
        chip, cores = chip_and_cores(target, lnc)
        recording = shorten(read_recording(file, column))
        points = frame_points(recording, frame)
        check_output(out, file)
        launch = transform(cut_frames(recording.samples, points), chip, cores)
    except (ValueError, NotImplementedError) as error:  # RecordingError is a ValueError
        stop(str(error), 2)
    console = Console()
    console.print(summary(recording, launch))
    console.print(" ".join(launch.timeline.launch_notes), highlight=False)
    if not launch.error <= TOLERANCE:  # also catches NaN
        stop(
            f"the error {launch.error:.1e} is above the limit of {TOLERANCE:.0e}, so that no "
            f"picture is written",
            1,
        )
    save_picture(lambda: draw(recording, launch), out)


def shorten(recording: Recording) -> Recording:
    """Returns the first LONGEST samples, with a name that says so."""
    total = len(recording.samples)
    if total <= LONGEST:
        return recording
    name = f"beginning of {recording.name} ({total} samples)"
    return replace(recording, name=name, samples=recording.samples[:LONGEST])


def frame_points(recording: Recording, asked: int | None) -> int:
    """Returns the points of a frame: those that the user asks for, or a default.

    The default is the power of two nearest to FRAME_SECONDS, and SHORTEST where that is more or the
    sample rate is not known. A recording that is shorter gets the largest power of two that it
    fills, or one frame where it has fewer than SHORTEST samples.

    Raises:
        ValueError: `asked` is not 2 to the number of samples.
    """
    samples = len(recording.samples)
    if asked is not None:
        if not 2 <= asked <= samples:
            raise ValueError(
                f"argument '--frame' is {asked}, allowed is 2 to {samples}, the number of samples "
                f"of {recording.name}"
            )
        return asked
    rate = recording.sample_rate or 0.0
    wanted = 2 ** round(math.log2(max(rate * FRAME_SECONDS, 1.0)))
    largest = 2 ** (samples.bit_length() - 1)
    return min(max(min(wanted, largest), SHORTEST), samples)


def cut_frames(samples: FloatArray, points: int) -> FloatArray:
    """Returns windowed frames [frames, points] that overlap by half.

    The last samples are left out where they do not fill half a frame.
    """
    window = np.hanning(points + 1)[:-1]  # periodic, so that half overlapping windows add up to one
    frames = np.lib.stride_tricks.sliding_window_view(samples, points)
    return frames[:: max(points // 2, 1)] * window


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel on a simulated chip: what it computed, and its modelled timeline."""

    plan: Plan
    spectra: np.ndarray  # complex [frames, points // 2 + 1], up to a power of two as a factor
    error: float  # relative L2 distance from float64 numpy.fft
    timeline: Timeline

    @property
    def floor_ns(self) -> float:
        """Time to read every point and to write half of the spectrum once, and nothing else."""
        return self.plan.dma_floor_ns


def transform(frames: FloatArray, chip: hardware.NeuronCore, cores: int = 1) -> Launch:
    """Transforms all frames in one launch and compares the spectra with those of numpy.fft.

    Raises:
        NotImplementedError: no kernel transforms frames of this length.
    """
    import nki_sim
    from trnfft.planner.planner import plan

    batch, points = frames.shape
    found = plan(points, batch=batch, real=True, target=chip.name, cores=cores, precision="fast")
    # Scaled by a power of two, which is exact: no recording is too loud or too soft for float32.
    x = np.ldexp(frames, -np.frexp(np.abs(frames).max())[1]).astype(np.float32)
    with hardware.select(chip), nki_sim.record() as timeline:
        re, im = launched(found.recipe, x, cores)
    spectra = np.asarray(re, np.float64) + 1j * np.asarray(im, np.float64)
    spectra = spectra[:, : points // 2 + 1]
    expected = np.fft.rfft(x.astype(np.float64))
    distance = float(np.linalg.norm(spectra - expected))
    error = distance / (float(np.linalg.norm(expected)) or 1.0)
    return Launch(found, spectra, error, timeline)


def launched(recipe: Recipe, x: np.ndarray, cores: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns both parts of the spectra of rows x, by a kernel in the simulator.

    The plan of a real transform may be that of a complex one, whose imaginary input is zero.
    """
    import nki_sim
    from trnfft.planner.algorithms import ALGORITHMS
    from trnfft.planner.kinds import R2C

    algorithm = ALGORITHMS[recipe.algorithm]
    inputs = (x,) if algorithm.kind == R2C else (x, np.zeros_like(x))
    kernel = nki_sim.simulate(algorithm.kernel).with_programs(cores)
    return kernel(*inputs, *algorithm.arguments(recipe))


def summary(recording: Recording, launch: Launch) -> Table:
    """Returns the launch in figures."""
    frames = len(launch.spectra)
    timeline, points = launch.timeline, launch.plan.n
    busy = timeline.engine_busy_ns
    bound = max(busy, key=lambda engine: busy[engine])
    rate = recording.sample_rate
    at_rate = f" at {rate:g} Hz" if rate else ""
    lasts = f", {1e3 * points / rate:.3g} ms" if rate else ""
    table = Table(title=f"One kernel launch on a simulated {timeline.where}", show_header=False)
    rows = {"signal": f"{recording.name}, {len(recording.samples)} samples{at_rate}"}
    if recording.channels > 1:
        rows["channels"] = f"the mean of {recording.channels} channels is transformed"
    rows |= {
        "frames": f"{frames}, which overlap by half",
        "length of a frame": f"{points} points{lasts}",
        "algorithm": str(launch.plan.recipe),
        "launches": str(timeline.launches),
        "relative L2 error": f"{launch.error:.1e} against float64 numpy.fft",
        "kernel, modelled": f"{timeline.total_ns / 1e3:.4g} us",
        "with a launch, about": about(timeline.with_launches_ns),
        "DMA floor": f"{launch.floor_ns / 1e3:.3g} us, "
        f"{100 * launch.floor_ns / timeline.total_ns:.3g}% of the modelled time",
        "bound engine": f"{bound}, busy for {busy[bound] / timeline.total_ns:.0%} of that time",
    }
    for name, value in rows.items():
        table.add_row(name, escape(value))
    return table


def draw(recording: Recording, launch: Launch) -> Figure:
    """Draws three panels: the signal, its mean spectrum and the timeline of the engines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 9), layout="constrained")
    signal_axes, spectrum_axes, timeline_axes = figure.subplots(3)
    draw_signal(signal_axes, recording)
    draw_spectrum(spectrum_axes, recording, launch)
    draw_timeline(timeline_axes, launch)
    return figure


def draw_signal(axes: Axes, recording: Recording) -> None:
    """Draws amplitude against time."""
    rate = recording.sample_rate
    axes.plot(np.arange(len(recording.samples)) / (rate or 1.0), recording.samples, linewidth=0.8)
    axes.set_title(recording.name, parse_math=False)
    axes.set_xlabel("time (s)" if rate else "sample")
    axes.set_ylabel("amplitude")
    axes.margins(x=0)


def draw_spectrum(axes: Axes, recording: Recording, launch: Launch) -> None:
    """Draws the mean magnitude of the frames against frequency, in dB below the strongest."""
    frames, points = len(launch.spectra), launch.plan.n
    magnitude = np.abs(launch.spectra).mean(axis=0)
    magnitude /= magnitude.max() or 1.0
    level = 20 * np.log10(np.maximum(magnitude, 10 ** (LOWEST_DB / 20)))
    bins = np.arange(len(level))
    rate = recording.sample_rate
    axes.plot(bins * rate / points if rate else bins, level, linewidth=1)
    axes.set_title(f"Mean magnitude of {frames} frames of {points} points")
    axes.set_xlabel("frequency (Hz)" if rate else "bin")
    axes.set_ylabel("level (dB), the strongest is 0")
    axes.margins(x=0)
    axes.grid(alpha=0.3)


def draw_timeline(axes: Axes, launch: Launch) -> None:
    """Draws when each engine is busy, in one lane an engine; two cores are halves of each lane."""
    cores = launch.plan.cores
    height = 0.8 / cores
    for lane, (engine, color) in enumerate(ENGINES.items()):
        # Transfers of several DMA engines overlap: the darker, the more of them.
        alpha = 0.5 if engine == "dma" else 1.0
        for core in range(cores):
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
    axes.set_title(f"Modelled timeline of {launch.plan.algorithm} on {launch.timeline.where}")
    axes.set_xlabel("time on the chip (us), modelled")
