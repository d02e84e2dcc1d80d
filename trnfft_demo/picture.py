"""Pictures in linear light: read from PNG, JPEG, .npy, OpenEXR and Radiance files, and written to
all of these but JPEG.

PNG and JPEG values are taken as sRGB (IEC 61966-2-1), whatever profile the file names:

    light = v / 12.92 for v <= 0.04045, else ((v + 0.055) / 1.055)^2.4

with v in [0, 1]. The other files hold linear light of any range (HDR): .npy files in an array
[H, W] or [H, W, C], OpenEXR files (.exr) in the channels R, G and B, or Y, Radiance files (.hdr) as
RGBE, which is three mantissas of 8 bits and one exponent a pixel, without signs. A file that holds
no usable picture raises PictureError: one sentence with the name of the file and what is wrong.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from trnfft.base.distributions import from_extra
from trnfft.cli.printable import printable
from trnfft_demo.input_file import read_real_array, reading

LARGEST = 1e30  # so that a transform of all pixels stays within float32
MOST_PIXELS = 24 * 2**20  # 6000 x 4000 and a little more
MOST_VALUES = 3 * MOST_PIXELS
CHANNELS = {1: ("Y",), 3: ("R", "G", "B")}
NO_OPENIMAGEIO = f".exr and .hdr pictures need OpenImageIO, {from_extra('hdr')}"
# The text of a Radiance header ends with an empty line and the order of the pixels, "-Y 2 +X 3".
RADIANCE_ORDER = re.compile(rb"\n\r?\n([-+][XY])\s*\d+\s*([-+][XY])\s*\d+\s")
RADIANCE_HEADER = 2**14  # bytes, more than the 100 lines that OpenImageIO reads
SMALLEST_RGBE = -106  # exponent of 2: OpenImageIO writes 0 for less than 1e-32

Pixels = NDArray[np.float32]
Contents = tuple[Pixels, "Pixels | None"]  # of a file: light [C, H, W], alpha [H, W]


class PictureError(ValueError):
    """A file that cannot be used as a picture, and why, in one sentence."""


@dataclass(frozen=True)
class Picture:
    """A picture in linear light.

    Attributes:
        name: name of the file, or of the built-in picture.
        light: [C, H, W], with C = 1 for a grey picture; not multiplied by `alpha`.
        alpha: [H, W], from 0 (transparent) to 1; None where the file has no alpha channel.
    """

    name: str
    light: Pixels
    alpha: Pixels | None = None

    def on_black(self) -> Pixels:
        """Returns the light [C, H, W] that is seen of the picture on a black ground."""
        return self.light if self.alpha is None else self.light * self.alpha


def read_picture(path: str | os.PathLike[str] | None = None) -> Picture:
    """Returns the picture in a file, or without a file a portrait that matplotlib ships."""
    if path is None:
        path, name = _portrait(), "Grace Hopper from matplotlib"
    else:
        path = Path(path)
        name = printable(path.name)
    with reading(path, _READERS, PictureError) as file:
        light, alpha = _READERS[path.suffix.lower()](file)
        _check(light)
    return Picture(name, light, alpha)


def write_picture(light: Pixels, file: BinaryIO, out: Path, alpha: Pixels | None = None) -> None:
    """Writes light [C, H, W] into a file in the format that a name ends in.

    A .png file holds 8 bits, to which light is clipped; .npy and .exr files hold float32 as it is.
    A .hdr file holds each number to within 2^-8 of the largest of its pixel, or 0 where all are
    below 1e-32; negative light is clipped to 0, and grey becomes three equal channels.

    Args:
        light: the picture.
        file: what is written into.
        out: the name, which ends in .png, .npy, .exr or .hdr.
        alpha: alpha channel [H, W] of a .png file.

    Raises:
        PictureError: `out` ends in none of these, or its format does not hold so many channels.
        OSError: writing failed.
    """
    check_writable(out, len(light))
    if out.suffix.lower() == ".npy":
        pixels = light[0] if len(light) == 1 else np.moveaxis(light, 0, -1)
        np.save(file, np.ascontiguousarray(pixels))
        return
    if out.suffix.lower() in _LIBRARY_NAMES:
        _write_light(light, file, out.suffix.lower())
        return
    from PIL import Image

    # Each channel by itself, as that takes less memory.
    codes = [np.rint(255 * _to_srgb(np.clip(one, 0, 1))).astype(np.uint8) for one in light]
    if alpha is not None:
        codes.append(np.rint(255 * alpha).astype(np.uint8))
    Image.fromarray(codes[0] if len(codes) == 1 else np.stack(codes, -1)).save(file, format="PNG")


def check_writable(out: Path, channels: int) -> None:
    """Raises PictureError where `write_picture` cannot write such a picture."""
    suffix = out.suffix.lower()
    if suffix not in (".png", ".npy", ".exr", ".hdr"):
        raise PictureError(f"cannot write {out}: its name must end in .png, .npy, .exr or .hdr")
    if suffix != ".npy" and channels not in CHANNELS:
        raise PictureError(
            f"cannot write {out}: the picture has {channels} channels, allowed in a {suffix} file "
            f"are 1 or 3; write a .npy file"
        )
    if suffix in _LIBRARY_NAMES and importlib.util.find_spec("OpenImageIO") is None:
        raise PictureError(f"cannot write {out}: {NO_OPENIMAGEIO}")


def _portrait() -> Path:
    try:
        from matplotlib import get_data_path
    except ImportError as error:
        raise PictureError(
            f"the sample picture needs matplotlib, {from_extra('demo')}; or name a file"
        ) from error
    return Path(get_data_path()) / "sample_data" / "grace_hopper.jpg"


def _check(light: Pixels) -> None:
    if light.size == 0:
        raise PictureError("it has no pixels")
    if not np.abs(light).max() <= LARGEST:  # also catches NaN
        raise PictureError(
            f"one of its values is NaN or out of range, allowed is {-LARGEST:g} to {LARGEST:g}"
        )


def _read_image(file: BinaryIO) -> Contents:
    """Returns light, turned upright, from 8 bits a channel; of grey pictures also from 16 bits."""
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise PictureError(f"pictures need Pillow, {from_extra('demo')}") from error
    try:
        with warnings.catch_warnings():
            # Pillow warns of large pictures, whose size is checked below, and of broken Exif data.
            warnings.simplefilter("ignore")
            with Image.open(file, formats=("PNG", "JPEG")) as stored:
                width, height = stored.size  # of the header; no pixel is decoded yet
                if width * height > MOST_PIXELS:
                    raise PictureError(
                        f"it has {width} x {height} pixels, allowed are {MOST_PIXELS} in all; "
                        f"make it smaller"
                    )
                image = ImageOps.exif_transpose(stored)
    except PictureError:
        raise
    except Image.DecompressionBombError as error:
        raise PictureError(f"it has far more than the {MOST_PIXELS} pixels allowed") from error
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        if isinstance(error, OSError) and error.strerror:
            raise
        raise PictureError(f"it is no complete PNG or JPEG picture ({error})") from error
    if image.mode.startswith("I"):
        return _from_srgb(np.asarray(image, np.float32)[None] / 65535), None
    light_of_code = _from_srgb(np.arange(256, dtype=np.float32) / 255)
    colors = "L" if image.mode in ("1", "L", "LA") else "RGB"
    planes = image.convert(colors + "A" if image.has_transparency_data else colors).split()
    light = np.stack([light_of_code[np.asarray(plane)] for plane in planes[: len(colors)]])
    if len(planes) == len(colors):
        return light, None
    return light, np.asarray(planes[-1], np.float32) / np.float32(255)


def _read_npy(file: BinaryIO) -> Contents:
    """Returns real numbers [H, W] or [H, W, C], rounded to float32."""
    array = read_real_array(file, MOST_VALUES, PictureError)
    if array.ndim not in (2, 3):
        raise PictureError(f"its shape is {array.shape}, allowed are [H, W] and [H, W, C]")
    with np.errstate(over="ignore"):  # too large numbers become infinite, and are refused later
        light = array.astype(np.float32)
    planes = light[None] if light.ndim == 2 else np.moveaxis(light, -1, 0)
    return np.ascontiguousarray(planes), None


def _read_hdr(file: BinaryIO) -> Contents:
    """Returns red, green and blue as stored, turned upright; EXPOSURE in the header is ignored."""
    head = file.read(RADIANCE_HEADER)
    order = RADIANCE_ORDER.search(head)
    if not head.startswith(b"#?") or order is None:
        raise PictureError("it is no complete Radiance picture (it has no such header)")
    light, alpha = _read_light(file)
    # OpenImageIO 3.2.2 leaves rows as stored, and its Orientation is 6 for "+X +Y", which is 8.
    rows, columns = order.groups()
    if rows in (b"+Y", b"-X"):  # the last row is the first one from above, or from the left
        light = light[:, ::-1]
    if columns in (b"+Y", b"-X"):
        light = light[:, :, ::-1]
    if rows.endswith(b"X"):
        light = light.swapaxes(1, 2)
    return np.ascontiguousarray(light), alpha


def _read_light(file: BinaryIO) -> Contents:
    """Returns the channels R, G and B, or Y, of an .exr or .hdr file, and leaves out all others.

    An alpha channel is left out, too: the colours of OpenEXR are multiplied by it already.
    """
    library = _openimageio()
    try:
        file.name.encode()
    except UnicodeEncodeError as error:
        raise PictureError("its name is no UTF-8, which OpenImageIO needs: rename it") from error
    stored = library.ImageInput.open(file.name)  # the header; no pixel is decoded yet
    if stored is None:
        raise PictureError(_incomplete(file.name, library.geterror))
    spec = stored.spec()
    indices = _channels(spec)
    first, end = min(indices), max(indices) + 1
    # Every other type becomes float32 as it is; integers would be divided by the largest.
    is_integer = spec.channelformat(first) == library.UINT
    pixels = stored.read_image(0, 0, first, end, library.UINT if is_integer else library.FLOAT)
    if pixels is None:
        raise PictureError(_incomplete(file.name, stored.geterror))
    return np.stack([np.float32(pixels[..., index - first]) for index in indices]), None


def _openimageio() -> Any:
    try:
        import OpenImageIO
    except ImportError as error:
        raise PictureError(NO_OPENIMAGEIO) from error
    OpenImageIO.attribute("try_all_readers", 0)  # the name alone says what a file is
    return OpenImageIO


def _incomplete(name: str, get_error: Callable[[], str]) -> str:
    """Returns a sentence with the first error of the library, without the name of the file."""
    try:
        first = get_error().removeprefix(f"EXR Error ({name}): ").partition("\n")[0]
    except UnicodeDecodeError:  # it quotes bytes of the file
        first = "it holds text that is no UTF-8"
    kind = _LIBRARY_NAMES[Path(name).suffix.lower()]
    return f"it is no complete {kind} picture ({printable(first)})"


def _channels(spec: Any) -> list[int]:
    """Returns the channels to read, given the header."""
    if spec.deep:
        raise PictureError("it is deep, allowed are pictures with one number a pixel")
    width, height, names = spec.width, spec.height, spec.channelnames
    if width * height > MOST_PIXELS or width * height * len(names) > 2 * MOST_VALUES:
        raise PictureError(
            f"it has {width} x {height} pixels of {len(names)} channels, allowed are "
            f"{MOST_PIXELS} pixels and {2 * MOST_VALUES} numbers in all; make it smaller"
        )
    tile_width, tile_height = max(spec.tile_width, 1), max(spec.tile_height, 1)
    tiles = -(-width // tile_width) * -(-height // tile_height)
    decoded = tiles * tile_width * tile_height  # as tiles are decoded whole
    if decoded > 2 * MOST_PIXELS or decoded * len(names) > 4 * MOST_VALUES:
        raise PictureError(
            f"its tiles of {tile_width} x {tile_height} pixels have {decoded} pixels in all, far "
            "more than the picture; make the tiles smaller"
        )
    gamma = spec.get_float_attribute("oiio:Gamma", 1.0)  # of a .hdr whose header names one
    if gamma != 1:
        raise PictureError(f"its gamma is {gamma:g}, allowed is linear light")
    for wanted in (CHANNELS[3], CHANNELS[1]):
        if all(name in names for name in wanted):
            indices = [names.index(name) for name in wanted]
            kinds = {str(spec.channelformat(index)) for index in indices}
            if len(kinds) > 1 and "uint" in kinds:
                raise PictureError(
                    "it mixes channels of integers with others, allowed are channels of one kind"
                )
            return indices
    found = ", ".join(map(printable, names))
    raise PictureError(f"its channels are {found}, allowed are R, G and B, or Y")


def _write_light(light: Pixels, file: BinaryIO, suffix: str) -> None:
    library = _openimageio()
    if suffix == ".hdr":
        light = _as_rgbe(light)
    channels, height, width = light.shape
    spec = library.ImageSpec(width, height, channels, library.FLOAT)
    spec.channelnames = CHANNELS[channels]
    spec.attribute("compression", "zip")
    with tempfile.TemporaryDirectory() as folder:  # the library writes into names only
        name = str(Path(folder) / f"light{suffix}")
        output = library.ImageOutput.create(name)
        pixels = np.ascontiguousarray(np.moveaxis(light, 0, -1))
        if not (output.open(name, spec) and output.write_image(pixels) and output.close()):
            raise OSError(output.geterror())
        with open(name, "rb") as source:
            shutil.copyfileobj(source, file)


def _as_rgbe(light: Pixels) -> Pixels:
    """Returns the numbers [3, H, W] of RGBE nearest to light; OpenImageIO would round down."""
    light = np.maximum(light, 0)
    _, exponent = np.frexp(light.max(0))
    step = np.ldexp(np.float32(1), np.maximum(exponent, SMALLEST_RGBE) - 8)
    # At most 255: 256 would raise the exponent, and the other channels would lose one bit.
    rounded = np.stack([np.minimum(np.rint(one / step), 255) * step for one in light])
    return np.broadcast_to(rounded, (3, *rounded.shape[1:]))


def _from_srgb(v: np.ndarray) -> Pixels:
    return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4).astype(np.float32)


def _to_srgb(light: Pixels) -> np.ndarray:
    return np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)


_READERS = {
    ".png": _read_image,
    ".jpg": _read_image,
    ".jpeg": _read_image,
    ".npy": _read_npy,
    ".exr": _read_light,
    ".hdr": _read_hdr,
}
_LIBRARY_NAMES = {".exr": "OpenEXR", ".hdr": "Radiance"}
