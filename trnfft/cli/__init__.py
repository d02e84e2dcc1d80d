"""The ``trnfft`` command.

``trnfft spectrum`` shows one kernel launch on a simulated NeuronCore, ``trnfft plan`` what the
planner chooses and why, ``trnfft bloom`` the glow of a picture's lights, ``trnfft doctor`` what is
installed and whether it works.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import numpy as np
import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nki_kernels import hardware, simulator
from nki_kernels.kernels.dft_gemm import MAX_LENGTH, dft_gemm
from nki_kernels.simulator.timeline import Timeline
from trnfft.backends.choice import backend_for
from trnfft.cli.doctor import BROKEN, Check, examine
from trnfft.cli.picture import Picture, PictureError, check_writable, read_picture, write_picture
from trnfft.cli.recording import FloatArray, Recording, read_recording
from trnfft.convolution import point_spread_functions
from trnfft.convolution.bloom import BloomFilter
from trnfft.planner import algorithms, cost
from trnfft.planner.plan import Candidate, Plan
from trnfft.planner.planner import plan as make_plan
from trnfft.planner.problem import C2C
from trnfft.planner.tables import dft_matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FRAME = MAX_LENGTH  # points in a frame: the longest transform that DFT-GEMM computes
LONGEST = 2**20  # samples: more would keep the simulator busy for more than about five seconds
HOP = FRAME // 2  # Hann windows that overlap by half add up to one
TOLERANCE = 5e-7  # relative L2 error that float32 DFT-GEMM stays below
PLOTTED = 2**16  # longest transform in the plot of prices
PSF_NAMES = ("gaussian", "star", "heart")
WIDEST_PSF = 2048  # pixels: more takes minutes to make
LOWEST_DB = -160.0  # float32 holds no more than this below the strongest line
ENGINES = {
    "tensor": "tab:blue",
    "vector": "tab:green",
    "scalar": "tab:orange",
    "gpsimd": "tab:purple",
    "dma": "tab:red",
}

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def main() -> None:
    """Fast Fourier transforms for AWS Trainium."""


@app.command()
def spectrum(
    file: Annotated[
        Path | None,
        typer.Argument(help="Recording: .wav (PCM), .npy or .csv; an ECG when left out."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Picture to write, a PNG.")] = Path("spectrum.png"),
    target: Annotated[str, typer.Option(help="Chip to simulate: trn1, trn2 or trn3.")] = "trn1",
) -> None:
    """Spectrum of a recording, transformed by one kernel launch on a simulated NeuronCore."""
    try:
        chip = hardware.chip(target)
        recording = shorten(read_recording(file))
        check_output(out, file)
    except ValueError as error:  # RecordingError is one
        stop(str(error), 2)
    except OSError as error:
        stop(f"cannot write {out}: {error.strerror or error}", 2)
    launch = transform(cut_frames(recording.samples), chip)
    Console().print(summary(recording, launch))
    if not launch.error <= TOLERANCE:  # also catches NaN
        stop(f"the error {launch.error:.1e} is above the limit of {TOLERANCE:.0e}: no picture", 1)
    save_picture(lambda: draw(recording, launch), out)


@app.command()
def plan(
    n: Annotated[
        int | None, typer.Argument(metavar="N", help="Length of the transform.", show_default=False)
    ] = None,
    shape: Annotated[
        str | None, typer.Option(help="Instead of N, lengths along several axes: 1080x1920.")
    ] = None,
    real: Annotated[bool, typer.Option("--real", help="Of real data, or to real data.")] = False,
    inverse: Annotated[bool, typer.Option("--inverse", help="The inverse transform.")] = False,
    padded_from: Annotated[
        str | None, typer.Option(help="Shape of the data before it is padded with zeros: 720x1280.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Number of transforms.")] = 1,
    target: Annotated[str, typer.Option(help="Chip: trn1, trn2 or trn3.")] = "trn1",
    precision: Annotated[
        str, typer.Option(help="Precision: fast, kahan, double, bf16 or bf16_refined.")
    ] = "fast",
    everything: Annotated[
        bool, typer.Option("--all", help="List every candidate, not the best of each algorithm.")
    ] = False,
    perfetto: Annotated[
        Path | None, typer.Option(help="Save the timeline here, for ui.perfetto.dev.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw time against N for all algorithms: a PNG.")
    ] = None,
) -> None:
    """What the planner chooses for N points or a shape, what it costs, and what it rejected."""
    for out in (perfetto, plot):
        try:
            if out is not None:
                check_output(out, None)
        except ValueError as error:
            stop(str(error), 2)
        except OSError as error:
            stop(f"cannot write {out}: {error.strerror or error}", 2)
    try:
        check_size(n, shape)
        if plot is not None and (shape or padded_from):
            raise ValueError(
                f"argument '--plot' is {plot}, allowed only with N, which it draws prices against; "
                f"leave out --shape and --padded-from"
            )
        found = make_plan(
            n,
            shape=parse_shape("--shape", shape),
            real=real,
            inverse=inverse,
            padded_from=parse_shape("--padded-from", padded_from),
            batch=batch,
            target=target,
            precision=precision,
        )
    except (ValueError, NotImplementedError) as error:
        stop(str(error), 2)
    console = Console()
    console.print(found.tree(), markup=False, highlight=False, soft_wrap=True)
    console.print(candidate_table(found, everything))
    if perfetto is not None:
        save_timeline(found, perfetto)
    if plot is not None:
        save_picture(lambda: draw_prices(found), plot)


@app.command()
def bloom(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="IMAGE", help="Picture: .png, .jpg or .npy; a portrait if left out."
        ),
    ] = None,
    psf: Annotated[
        str, typer.Option(help="Point spread function: gaussian, star, heart, or a picture of it.")
    ] = "gaussian",
    size: Annotated[
        int | None,
        typer.Option(help="Its pixels; half of the picture's shorter side when left out."),
    ] = None,
    strength: Annotated[float, typer.Option(help="From 0, the picture itself, to 1.")] = 0.4,
    padding: Annotated[str, typer.Option(help="Around the picture: zero or mirror.")] = "zero",
    out: Annotated[Path, typer.Option(help="Picture to write, .png or .npy.")] = Path("bloom.png"),
) -> None:
    """A picture with the glow of its lights: a convolution in linear light."""
    try:
        picture = read_picture(file)
        check_output(out, file)
        check_writable(out, len(picture.light))
        kernel = point_spread_function(psf, size, picture)
        check_output(out, None if psf in PSF_NAMES else Path(psf))
        light = torch.from_numpy(picture.light)
        bloom_filter = BloomFilter(kernel, light.shape[-2:], padding=padding)
        bloomed = bloom_filter(light, strength)
    except (ValueError, RuntimeError, ImportError) as error:  # the latter two: the backend cannot
        stop(str(error), 2)
    except MemoryError:
        stop("the picture and its spectra do not fit in memory", 2)
    except OSError as error:
        stop(f"cannot write {out}: {error.strerror or error}", 2)
    Console().print(bloom_summary(picture, psf, bloom_filter, strength, light, bloomed))
    try:
        write_whole_file(lambda path: write_picture(bloomed.numpy(), path, out), out)
    except OSError as error:
        stop(f"cannot write {out}: {error.strerror or error}", 2)
    typer.echo(f"wrote {out}")


@app.command()
def doctor() -> None:
    """What is installed, which backend runs and why; ends with 1 if something is broken."""
    sections = examine()
    Console().print(doctor_screen(sections))
    broken = [check for checks in sections.values() for check in checks if check.status == BROKEN]
    for name, advice in dict.fromkeys((check.name, check.advice) for check in broken):
        typer.echo(f"{name}: {advice}", err=True)
    if broken:
        raise typer.Exit(1)
    typer.echo("nothing is broken")


def doctor_screen(sections: dict[str, list[Check]]) -> Table:
    """One row a check, sections below each other."""
    colors = {"ok": "green", "note": "yellow", BROKEN: "bold red"}
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for title, checks in sections.items():
        table.add_row("", f"[bold]{escape(title)}", "")
        for check in checks:
            status = f"[{colors[check.status]}]{check.status}"
            table.add_row(status, escape(check.name), escape(check.detail))
    return table


def check_size(n: int | None, shape: str | None) -> None:
    """Refuses what is not exactly one of N and a shape."""
    if n is None and shape is None:
        raise ValueError("argument 'N' is missing; give a length or a shape, --shape 1080x1920")
    if n is not None and shape is not None:
        raise ValueError(f"arguments 'N' and '--shape' are {n} and {shape}, allowed is one of them")


def parse_shape(name: str, text: str | None) -> tuple[int, ...] | None:
    """The sizes of a shape like 1080x1920; None of None."""
    if text is None:
        return None
    sizes = text.split("x")
    if not all(size.isascii() and size.isdigit() and int(size) for size in sizes):
        raise ValueError(
            f"argument '{name}' is {text!r}, allowed are sizes of 1 or more with an x between "
            f"them, as in 1080x1920"
        )
    return tuple(map(int, sizes))


def point_spread_function(name: str, size: int | None, picture: Picture) -> torch.Tensor:
    """[size, size] of a name; or [h, w] or [C, h, w] from a picture's light, with sums of 1."""
    if name in PSF_NAMES:
        half = min(picture.light.shape[1:]) // 2
        pixels = min(max(half, 1), WIDEST_PSF) if size is None else size
        if not 1 <= pixels <= WIDEST_PSF:
            raise ValueError(f"argument '--size' is {pixels}, allowed is 1 to {WIDEST_PSF}")
        if name == "gaussian":
            return point_spread_functions.gaussian(pixels, pixels / 8)
        return getattr(point_spread_functions, name)(pixels)
    if not Path(name).exists():
        raise ValueError(
            f"argument '--psf' is {name!r}, allowed are {', '.join(PSF_NAMES)} and names of "
            f"pictures; there is no such file"
        )
    if size is not None:
        raise ValueError(
            f"argument '--size' is {size}, allowed only where argument '--psf' is one of "
            f"{', '.join(PSF_NAMES)}; a picture has its size"
        )
    light = torch.from_numpy(read_picture(name).light).double()
    sums = light.sum((-2, -1), keepdim=True)
    if light.min() < 0 or sums.min() <= 0:
        raise PictureError(f"{name} is no point spread function: a channel is negative or black")
    channels, expected = len(light), len(picture.light)
    if channels not in (1, expected):
        raise PictureError(
            f"{name} has {channels} channels and the picture {expected}, allowed are 1 or as many"
        )
    return (light / sums).squeeze(0).float()


def bloom_summary(
    picture: Picture,
    psf: str,
    bloom_filter: BloomFilter,
    strength: float,
    light: torch.Tensor,
    bloomed: torch.Tensor,
) -> Table:
    """What was convolved, how, and what became of its energy."""
    channels, height, width = light.shape
    taps_high, taps_wide = bloom_filter.psf_size
    padded_high, padded_wide = bloom_filter.padded_size
    before, after = (float(x.double().sum()) for x in (light, bloomed))
    table = Table(title="Bloom", show_header=False)
    for name, value in {
        "picture": f"{picture.name}, {width} x {height} pixels, {channels} channels",
        "point spread function": f"{psf}, {taps_wide} x {taps_high} pixels",
        "strength": f"{strength:g}",
        "transforms": f"{padded_wide} x {padded_high} points, {bloom_filter.padding} padding",
        "transformed first": bloom_filter.order,
        "backend": backend_for(light.device),
        "energy before": f"{before:.6g}, the sum of all values in linear light",
        "energy after": f"{after:.6g}" + (f", {after / before:.2%}" if before else ""),
    }.items():
        table.add_row(name, escape(value))
    return table


def save_picture(drawing: Callable[[], Figure], out: Path) -> None:
    """Draws and writes a picture, or ends the command with the reason why not."""
    try:
        write_png(drawing(), out)
    except ImportError:
        stop('the picture needs matplotlib: pip install "trnfft[demo]"', 2)
    except OSError as error:
        stop(f"cannot write {out}: {error.strerror or error}", 2)
    typer.echo(f"wrote {out}")


def save_timeline(found: Plan, out: Path) -> None:
    """Writes the plan's timeline, or ends the command with the reason why not."""
    if not found.launches:
        stop('there is no timeline: precision "double" runs on the host', 2)
    try:
        chip = hardware.chip(found.target)
        cost.timeline(found.recipe, found.batch, chip).save_perfetto(out)
    except OSError as error:
        stop(f"cannot write {out}: {error.strerror or error}", 2)
    typer.echo(f"wrote {out}")


def candidate_table(found: Plan, everything: bool) -> Table:
    """The candidates, the choice first: all, or the first of every algorithm."""
    table = Table(title="Candidates" if everything else "Candidates, the best of each algorithm")
    for name in ("recipe", "time", "bound", "error", "launches", "verdict"):
        is_number = name in ("time", "error", "launches")
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    shown = found.candidates if everything else best_of_each(found.candidates)
    for candidate in shown:
        time, error = candidate.predicted_ns, candidate.predicted_error
        table.add_row(
            escape(str(candidate.recipe)),
            "" if time is None else f"{time / 1e3:.4g} us",
            candidate.bound,
            "" if error is None else f"{error:.1e}",
            str(candidate.launches or ""),
            escape(candidate.rejected or "chosen"),
        )
    return table


def best_of_each(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The first candidate of each algorithm; they come in order of their prices."""
    found: dict[str, Candidate] = {}
    for candidate in candidates:
        found.setdefault(candidate.recipe.algorithm, candidate)
    return list(found.values())


def draw_prices(found: Plan) -> Figure:
    """Modelled time against N, a line an algorithm, for the plan's batch, chip and precision."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.subplots()
    plans = [found, *priced_lengths(found)]
    plans.sort(key=lambda one: one.n)
    for name in algorithms.ALGORITHMS:
        points = [
            (one.n, candidate.predicted_ns / 1e3)
            for one in plans
            for candidate in best_of_each(one.candidates)
            if candidate.recipe.algorithm == name and candidate.predicted_ns is not None
        ]
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
    floor = [one.dma_floor_ns / 1e3 for one in plans]
    axes.plot([one.n for one in plans], floor, "k--", label="DMA floor")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("N")
    axes.set_ylabel("time on the chip (us), modelled")
    data = "" if found.kind == C2C else ", real data"
    axes.set_title(f"Batch {found.batch} on {found.target}, precision {found.precision}{data}")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def priced_lengths(found: Plan) -> list[Plan]:
    """Plans like `found` for the powers of two up to PLOTTED that a kernel can do."""
    plans = []
    for exponent in range(1, PLOTTED.bit_length()):
        try:
            plans.append(
                make_plan(
                    1 << exponent,
                    real=found.kind != C2C,
                    inverse=found.inverse,
                    batch=found.batch,
                    target=found.target,
                    precision=found.precision,
                )
            )
        except NotImplementedError:
            continue
    return plans


def stop(sentence: str, code: int) -> NoReturn:
    """Ends the command with one sentence on stderr."""
    typer.echo(sentence, err=True)
    raise typer.Exit(code)


def check_output(out: Path, file: Path | None) -> None:
    """Refuses, before any work, an output path that can only be a mistake."""
    if not out.parent.is_dir():
        raise ValueError(f"cannot write {out}: there is no folder {out.parent}")
    if out.exists() and not out.is_file():
        raise ValueError(f"cannot write {out}: it is not a regular file")
    if file is not None and out.exists() and out.samefile(file):
        raise ValueError(f"cannot write {out}: it is the input itself")


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
    spectra: np.ndarray  # complex [frames, points], but for a common power of two
    error: float  # relative L2 distance from float64 numpy.fft
    timeline: Timeline

    @property
    def floor_ns(self) -> float:
        """Time to read and write every point once, with nothing else to do."""
        return self.chip.dma_floor_ns(self.spectra.size)


def transform(frames: FloatArray, chip: hardware.NeuronCore) -> Launch:
    """Transforms every frame in one launch of DFT-GEMM and checks it against numpy.fft."""
    # Scaled by a power of two, which is exact: no recording is too loud or too soft for float32.
    re = np.ldexp(frames, -np.frexp(np.abs(frames).max())[1]).astype(np.float32)
    im = np.zeros_like(re)
    with hardware.select(chip), simulator.record() as timeline:
        table = dft_matrix(re.shape[1], False, 1.0)
        out_re, out_im = simulator.simulate(dft_gemm)(re, im, table)
    spectra = np.asarray(out_re, np.float64) + 1j * np.asarray(out_im, np.float64)
    expected = np.fft.fft(re.astype(np.float64))
    distance = float(np.linalg.norm(spectra - expected))
    error = distance / (float(np.linalg.norm(expected)) or 1.0)
    return Launch(chip, spectra, error, timeline)


def summary(recording: Recording, launch: Launch) -> Table:
    """The launch in figures."""
    frames, points = launch.spectra.shape
    timeline = launch.timeline
    busy = timeline.engine_busy_ns
    bound = max(busy, key=lambda engine: busy[engine])
    rate = f" at {recording.sample_rate:g} Hz" if recording.sample_rate else ""
    table = Table(title=f"One kernel launch on a simulated {launch.chip.name}", show_header=False)
    for name, value in {
        "signal": f"{recording.name}, {len(recording.samples)} samples{rate}",
        "frames": str(frames),
        "length of a frame": f"{points} points",
        "algorithm": "DFT-GEMM",
        "launches": str(timeline.launches),
        "relative L2 error": f"{launch.error:.1e} against float64 numpy.fft",
        "time on the chip": f"{timeline.total_ns / 1e3:.4g} us, modelled",
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
    """What every engine did when, one lane an engine."""
    for lane, (engine, color) in enumerate(ENGINES.items()):
        spans = [
            (event.start_ns / 1e3, (event.end_ns - event.start_ns) / 1e3)
            for event in launch.timeline.events
            if event.engine == engine
        ]
        # Transfers of several DMA engines overlap: the darker, the more of them.
        alpha = 0.5 if engine == "dma" else 1.0
        axes.broken_barh(spans, (lane - 0.4, 0.8), color=color, linewidth=0, alpha=alpha)
    axes.set_yticks(range(len(ENGINES)), list(ENGINES))
    axes.invert_yaxis()
    axes.set_xlim(0, launch.timeline.total_ns / 1e3)
    axes.set_title(f"Modelled timeline of DFT-GEMM on {launch.chip.name}")
    axes.set_xlabel("time on the chip (us), modelled")


def write_png(figure: Figure, out: Path) -> None:
    """Writes the whole picture or nothing."""
    write_whole_file(lambda path: figure.savefig(path, format="png", dpi=120), out)


def write_whole_file(write: Callable[[Path], None], out: Path) -> None:
    """Writes all or nothing: a failure leaves an existing file as it was."""
    out = out.resolve()
    temporary = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        write(temporary)
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)
