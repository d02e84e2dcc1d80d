"""Pictures in linear light, read from and written to PNG, JPEG and .npy files.

PNG and JPEG values are taken as sRGB (IEC 61966-2-1), whatever profile the file names:

    light = v / 12.92 for v <= 0.04045, else ((v + 0.055) / 1.055)^2.4

with v in [0, 1]. .npy arrays hold linear light of any range (HDR), [H, W] or [H, W, C]. A file that
holds no usable picture raises PictureError: one sentence with the file's name and what is wrong.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from trnfft.cli.input_file import read_real_array, reading
from trnfft.cli.printable import printable

LARGEST = 1e30  # so that a transform of all pixels stays within float32
MOST_PIXELS = 24 * 2**20  # 6000 x 4000 and a little more
MOST_VALUES = 3 * MOST_PIXELS

Pixels = NDArray[np.float32]


class PictureError(ValueError):
    """A file that cannot be used as a picture, and why, in one sentence."""


@dataclass(frozen=True)
class Picture:
    """Light [C, H, W], with C = 1 for grey ones."""

    name: str
    light: Pixels


def read_picture(path: str | os.PathLike[str] | None = None) -> Picture:
    """The picture in ``path``, or without a path a portrait that matplotlib ships."""
    if path is None:
        path, name = _portrait(), "Grace Hopper from matplotlib"
    else:
        path = Path(path)
        name = printable(path.name)
    with reading(path, _READERS, PictureError) as file:
        light = _READERS[path.suffix.lower()](file)
        _check(light)
    return Picture(name, light)


def write_picture(light: Pixels, file: BinaryIO, out: Path) -> None:
    """Writes light [C, H, W] into ``file`` as the name of ``out`` says.

    A PNG has 8 bits, to which light is clipped; .npy has float32, [H, W] or [H, W, C], as it is.

    Raises:
        PictureError: `out` is neither, or a PNG cannot have that many channels.
        OSError: writing failed.
    """
    check_writable(out, len(light))
    if out.suffix.lower() == ".npy":
        pixels = light[0] if len(light) == 1 else np.moveaxis(light, 0, -1)
        np.save(file, np.ascontiguousarray(pixels))
        return
    from PIL import Image

    # Each channel by itself, as that takes less memory.
    codes = [np.rint(255 * _to_srgb(np.clip(one, 0, 1))).astype(np.uint8) for one in light]
    Image.fromarray(codes[0] if len(codes) == 1 else np.stack(codes, -1)).save(file, format="PNG")


def check_writable(out: Path, channels: int) -> None:
    """PictureError where `write_picture` cannot write such a picture."""
    suffix = out.suffix.lower()
    if suffix not in (".png", ".npy"):
        raise PictureError(f"cannot write {out}: its name must end in .png or .npy")
    if suffix == ".png" and channels not in (1, 3):
        raise PictureError(
            f"cannot write {out}: a PNG has 1 or 3 channels, the picture {channels}; use .npy"
        )


def _portrait() -> Path:
    try:
        from matplotlib import get_data_path
    except ImportError as error:
        raise PictureError(
            'the sample picture needs matplotlib: pip install "trnfft[demo]", or name a file'
        ) from error
    return Path(get_data_path()) / "sample_data" / "grace_hopper.jpg"


def _check(light: Pixels) -> None:
    if light.size == 0:
        raise PictureError("it has no pixels")
    if not np.abs(light).max() <= LARGEST:  # also catches NaN
        raise PictureError(f"all of its values must be numbers from {-LARGEST:g} to {LARGEST:g}")


def _read_image(file: BinaryIO) -> Pixels:
    """8 bits a channel (Pillow reads 16 of grey ones only), turned upright, on black."""
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise PictureError('pictures need Pillow: pip install "trnfft[demo]"') from error
    try:
        with warnings.catch_warnings():
            # Pillow warns of bombs from its limit on and of broken Exif; the one is checked below.
            warnings.simplefilter("ignore")
            with Image.open(file, formats=("PNG", "JPEG")) as stored:
                width, height = stored.size  # of the header; no pixel is decoded yet
                if width * height > MOST_PIXELS:
                    raise PictureError(
                        f"it has {width} x {height} pixels, allowed are {MOST_PIXELS} in all: "
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
        return _from_srgb(np.asarray(image, np.float32)[None] / 65535)
    light_of_code = _from_srgb(np.arange(256, dtype=np.float32) / 255)
    if image.has_transparency_data:
        *colors, alpha = np.moveaxis(np.asarray(image.convert("RGBA")), -1, 0)
        opacity = np.float32(alpha) / 255
        return np.stack([light_of_code[color] * opacity for color in colors])
    if image.mode in ("1", "L"):
        return light_of_code[np.asarray(image.convert("L"))][None]
    return np.stack([light_of_code[np.asarray(one)] for one in image.convert("RGB").split()])


def _read_npy(file: BinaryIO) -> Pixels:
    """Real numbers [H, W] or [H, W, C], rounded to float32."""
    array = read_real_array(file, MOST_VALUES, PictureError)
    if array.ndim not in (2, 3):
        raise PictureError(f"its shape is {array.shape}, [H, W] or [H, W, C] is needed")
    with np.errstate(over="ignore"):  # becomes infinite, which is refused
        light = array.astype(np.float32)
    return light[None] if light.ndim == 2 else np.ascontiguousarray(np.moveaxis(light, -1, 0))


def _from_srgb(v: np.ndarray) -> Pixels:
    return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4).astype(np.float32)


def _to_srgb(light: Pixels) -> np.ndarray:
    return np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)


_READERS = {".png": _read_image, ".jpg": _read_image, ".jpeg": _read_image, ".npy": _read_npy}
