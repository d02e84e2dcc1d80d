"""`trnfft bloom`: a picture with the glow of its lights."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nki_sim import hardware
from nki_sim.base.whole_file import write_whole
from nki_sim.measured_times import about
from trnfft.cli.chip_options import Lnc, Target, chip_and_cores
from trnfft.cli.output_file import check_output, writing
from trnfft.cli.printable import printable
from trnfft.cli.stop import stop
from trnfft_demo.picture import (
    LARGEST,
    Picture,
    PictureError,
    check_writable,
    keeps_alpha,
    read_picture,
    write_picture,
)

if TYPE_CHECKING:
    import torch

    from trnfft_demo.glow import Glow

PSF_NAMES = ("star", "gaussian", "heart")
MOST_STOPS = 32.0
HIGHLIGHTS, MOST_HIGHLIGHTS = 50.0, 1000.0


def bloom(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="IMAGE",
            help="Picture: a .png, .jpg, .npy, .exr or .hdr file. Default: a portrait.",
            show_default=False,
        ),
    ] = None,
    psf: Annotated[
        str,
        typer.Option(
            help="Point spread function: star (rays of an aperture), gaussian (a soft halo), "
            "heart, or a picture of one."
        ),
    ] = "star",
    size: Annotated[
        int | None,
        typer.Option(
            help="Width and height of the point spread function in pixels. Default: half of the "
            "shorter side of the picture.",
            show_default=False,
        ),
    ] = None,
    strength: Annotated[
        float, typer.Option(help="How much of the light is spread, from 0 to 1.")
    ] = 0.4,
    highlights: Annotated[
        float | None,
        typer.Option(
            help="Of a PNG or JPEG, whose lights are clipped at white: how many times as bright "
            f"as white a light is taken to be at most. Default: {HIGHLIGHTS:g}.",
            show_default=False,
        ),
    ] = None,
    exposure: Annotated[
        float, typer.Option(help="Stops: the result is multiplied by 2 to this power.")
    ] = 0.0,
    padding: Annotated[
        str, typer.Option(help="What surrounds the picture: mirror (its mirror images) or zero.")
    ] = "mirror",
    target: Target = None,
    lnc: Lnc = None,
    out: Annotated[Path, typer.Option(help="File to write: .png, .npy, .exr or .hdr.")] = Path(
        "bloom.png"
    ),
) -> None:
    """Adds the glow of its lights to a picture, by a convolution in linear light.

    A .npy, .exr or .hdr picture holds light of any range, and all of it is spread. A PNG or JPEG
    has lights that are clipped at white: the command estimates how bright they were, the brighter
    the darker their surroundings are, and adds their glow. No pixel gets darker.
    """
    from trnfft_demo import glow

    try:
        check_range("--strength", strength, 0, 1)
        check_range("--exposure", exposure, -MOST_STOPS, MOST_STOPS)
        chip, cores = chip_and_cores(target, lnc)
        picture = read_picture(file)
        check_highlights(highlights, picture)
        factor = exposure_factor(picture, exposure)
        check_output(out, file)
        check_writable(out, len(picture.light))
        spread = point_spread_function(psf, size, picture)
        check_output(out, None if psf in PSF_NAMES else Path(psf))
        bloomed = glow.with_glow(
            picture, spread, strength, padding, HIGHLIGHTS if highlights is None else highlights
        )
        bloomed.light.mul_(factor)
        rows = summary(picture, psf, strength, exposure, bloomed, out)
        rows |= modelled_rows(bloomed, chip, cores)
    except (ValueError, RuntimeError, ImportError) as error:  # the latter two: the backend cannot
        stop(str(error), 2)
    except MemoryError:
        stop("the picture and its spectra do not fit in memory; make the picture smaller", 2)
    table = Table(title="Bloom", show_header=False)
    for name, value in rows.items():
        table.add_row(name, escape(value))
    console = Console()
    console.print(table)
    if "kernel, modelled" in rows:
        console.print(chip.launches.note(chip.name), highlight=False)
    light, alpha = bloomed.light.numpy(), picture.alpha
    if alpha is not None and not keeps_alpha(out):
        light, alpha = light * alpha, None
    with writing(out):
        write_whole(out, lambda file: write_picture(light, file, out, alpha))


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Raises ValueError where the value of an option is outside of its range, or NaN."""
    if not least <= value <= most:
        raise ValueError(f"argument '{name}' is {value:g}, allowed is {least:g} to {most:g}")


def check_highlights(highlights: float | None, picture: Picture) -> None:
    """Raises ValueError where the option has no meaning for the picture, or is out of range."""
    if highlights is None:
        return
    if not picture.is_clipped:
        raise ValueError(
            f"argument '--highlights' is {highlights:g}, allowed only for PNG and JPEG pictures: "
            f"{picture.name} holds light of any range; leave it out"
        )
    check_range("--highlights", highlights, 1, MOST_HIGHLIGHTS)


def exposure_factor(picture: Picture, stops: float) -> float:
    """Returns 2^stops. ValueError where that makes light that is out of range."""
    factor = 2.0**stops
    brightest = float(max(picture.light.max(), -picture.light.min())) * factor
    if brightest > LARGEST:
        raise ValueError(
            f"argument '--exposure' is {stops:g}, which makes light of {brightest:.2g}, allowed is "
            f"up to {LARGEST:g}"
        )
    return factor


def point_spread_function(name: str, size: int | None, picture: Picture) -> torch.Tensor:
    """Returns a point spread function, whose channels have sums of 1.

    Args:
        name: one of PSF_NAMES, or the name of a file with a picture of the function.
        size: width and height of a function of PSF_NAMES; None for the default.
        picture: the picture that it is for.

    Returns:
        [size, size]; of a file [h, w], or [C, h, w] where it has as many channels as the picture.

    Raises:
        ValueError: there is no such function or file, or the file holds no such function.
    """
    import torch

    from trnfft.convolution import point_spread_functions
    from trnfft_demo import glow

    if name in PSF_NAMES:
        light = torch.from_numpy(picture.light)
        pixels = glow.default_size(light) if size is None else size
        check_range("--size", pixels, 1, glow.WIDEST_PSF)
        if name == "gaussian":
            return glow.gaussian_psf(pixels)
        return getattr(point_spread_functions, name)(pixels)
    if not os.path.exists(name):  # also where a name is too long
        raise ValueError(
            f"argument '--psf' is {name!r}, allowed are {', '.join(PSF_NAMES)} and names of "
            f"picture files; there is no such file"
        )
    if size is not None:
        raise ValueError(
            f"argument '--size' is {size}, allowed only where argument '--psf' is one of "
            f"{', '.join(PSF_NAMES)}; a picture has a size of its own"
        )
    light = torch.from_numpy(read_picture(name).on_black()).double()
    if max(light.shape[1:]) > glow.WIDEST_PSF:
        height, width = light.shape[1:]
        raise PictureError(
            f"{name} has {width} x {height} pixels, allowed as a point spread function are up to "
            f"{glow.WIDEST_PSF} x {glow.WIDEST_PSF}"
        )
    sums = light.sum((-2, -1), keepdim=True)
    if light.min() < 0 or sums.min() <= 0:
        raise PictureError(
            f"{name} is no point spread function: one of its channels has negative light or none"
        )
    channels, expected = len(light), len(picture.light)
    if channels not in (1, expected):
        raise PictureError(
            f"{name} has {channels} channels, allowed as a point spread function are 1 or, as the "
            f"picture has, {expected}"
        )
    return (light / sums).squeeze(0).float()


def summary(
    picture: Picture, psf: str, strength: float, exposure: float, bloomed: Glow, out: Path
) -> dict[str, str]:
    """Returns what was convolved and how, and the light before and after, by their names."""
    import torch

    from trnfft.backends.choice import backend_for

    light, bloom_filter = torch.from_numpy(picture.light), bloomed.bloom_filter
    channels, height, width = light.shape
    taps_high, taps_wide = bloom_filter.psf_size
    padded_high, padded_wide = bloom_filter.padded_size
    before = float(light.sum(dtype=torch.float64)) * 2.0**exposure
    after = float(bloomed.light.sum(dtype=torch.float64))
    rows = {
        "picture": picture.name,
        "size": f"{width} x {height} pixels, {counted(channels, 'channel')}",
    }
    if picture.alpha is not None:
        is_kept = keeps_alpha(out)
        rows["alpha channel"] = "kept" if is_kept else "light is multiplied by it, as on black"
    if exposure:
        rows["exposure"] = f"{exposure:+g} stops"
    if bloomed.lights is not None:
        rows["lights"] = "none: no pixel outshines its surroundings"
    if bloomed.lights:
        pixels = counted(bloomed.lights, "pixel")
        rows["lights"] = f"{pixels}, up to {bloomed.brightest:.3g} times as bright as white"
    return rows | {
        "point spread function": f"{printable(psf)}, {taps_wide} x {taps_high} pixels",
        "strength": f"{strength:g}",
        "padding": f"{bloom_filter.padding}, to {padded_wide} x {padded_high} pixels",
        "transformed first": bloom_filter.order,
        "backend": backend_for(light.device),
        "light before": f"{before:.6g}, the sum of all values",
        "light after": f"{after:.6g}" + (f", {after / before:.2%}" if before else ""),
    }


def counted(number: int, thing: str) -> str:
    """Returns so many things: "1 pixel", "2 pixels"."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def modelled_rows(bloomed: Glow, chip: hardware.NeuronCore, cores: int) -> dict[str, str]:
    """Returns the times of the launch that would do the same on a chip, by their names."""
    from trnfft_demo import glow

    where = f"on {chip.name}, LNC={cores}"
    try:
        found = glow.modelled(len(bloomed.light), bloomed.bloom_filter, chip, cores)
    except NotImplementedError:
        return {"kernel": f"no kernel convolves it in one launch {where}"}
    return {
        "launches": "1, which convolves all channels",
        "kernel, modelled": f"{about(found.kernel_ns)} {where}",
        "with a launch, about": about(found.with_launch_ns),
    }
