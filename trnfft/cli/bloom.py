"""`trnfft bloom`: a picture with the glow of its lights."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nki_kernels.whole_file import write_whole
from trnfft.backends.choice import backend_for
from trnfft.cli.output_file import check_output, writing
from trnfft.cli.picture import (
    LARGEST,
    Picture,
    PictureError,
    check_writable,
    read_picture,
    write_picture,
)
from trnfft.cli.printable import printable
from trnfft.cli.stop import stop
from trnfft.convolution import point_spread_functions
from trnfft.convolution.bloom import BloomFilter

PSF_NAMES = ("gaussian", "star", "heart")
MOST_STOPS = 32.0
WIDEST_PSF = 2048  # pixels: more takes minutes to make


def bloom(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="IMAGE",
            help="Picture: .png, .jpg, .npy, .exr or .hdr; a portrait if left out.",
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
    exposure: Annotated[
        float, typer.Option(help="Stops: the picture's light times 2 to this power, at first.")
    ] = 0.0,
    padding: Annotated[str, typer.Option(help="Around the picture: zero or mirror.")] = "zero",
    out: Annotated[Path, typer.Option(help="Picture to write, .png, .npy, .exr or .hdr.")] = Path(
        "bloom.png"
    ),
) -> None:
    """A picture with the glow of its lights: a convolution in linear light."""
    try:
        picture = exposed(read_picture(file), exposure)
        check_output(out, file)
        check_writable(out, len(picture.light))
        kernel = point_spread_function(psf, size, picture)
        check_output(out, None if psf in PSF_NAMES else Path(psf))
        light = torch.from_numpy(picture.light)
        bloomed = torch.empty_like(light)
        for channel, place in enumerate(bloomed):  # one by one, as that takes less memory
            if channel == 0 or kernel.ndim == 3:
                own = kernel if kernel.ndim == 2 else kernel[channel]
                bloom_filter = BloomFilter(own, light.shape[-2:], padding=padding)
            place.copy_(bloom_filter(light[channel], strength))
    except (ValueError, RuntimeError, ImportError) as error:  # the latter two: the backend cannot
        stop(str(error), 2)
    except MemoryError:
        stop("the picture and its spectra do not fit in memory", 2)
    Console().print(bloom_summary(picture, psf, bloom_filter, strength, light, bloomed))
    with writing(out):
        write_whole(out, lambda file: write_picture(bloomed.numpy(), file, out))


def exposed(picture: Picture, stops: float) -> Picture:
    """The picture with its light times 2^stops. ValueError where that is out of range."""
    if not abs(stops) <= MOST_STOPS:  # also catches NaN
        raise ValueError(
            f"argument '--exposure' is {stops:g}, allowed is {-MOST_STOPS:g} to {MOST_STOPS:g}"
        )
    if stops == 0:
        return picture
    light = picture.light
    brightest = float(max(light.max(), -light.min())) * 2.0**stops
    if brightest > LARGEST:
        raise ValueError(
            f"argument '--exposure' is {stops:g}, which makes light of {brightest:.2g}, allowed is "
            f"up to {LARGEST:g}"
        )
    light *= np.float32(2.0**stops)
    return Picture(f"{picture.name}, exposed by {stops:+g} stops", light)


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
    if not os.path.exists(name):  # also where a name is too long
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
    if max(light.shape[1:]) > WIDEST_PSF:
        height, width = light.shape[1:]
        raise PictureError(f"{name} has {width} x {height} pixels, allowed are {WIDEST_PSF} a side")
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
    before, after = (float(x.sum(dtype=torch.float64)) for x in (light, bloomed))
    table = Table(title="Bloom", show_header=False)
    for name, value in {
        "picture": f"{picture.name}, {width} x {height} pixels, {channels} channels",
        "point spread function": f"{printable(psf)}, {taps_wide} x {taps_high} pixels",
        "strength": f"{strength:g}",
        "transforms": f"{padded_wide} x {padded_high} points, {bloom_filter.padding} padding",
        "transformed first": bloom_filter.order,
        "backend": backend_for(light.device),
        "energy before": f"{before:.6g}, the sum of all values in linear light",
        "energy after": f"{after:.6g}" + (f", {after / before:.2%}" if before else ""),
    }.items():
        table.add_row(name, escape(value))
    return table
