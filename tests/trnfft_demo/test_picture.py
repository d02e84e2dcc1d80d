"""Pictures are read as linear light and written back, or refused in one sentence."""

import io
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.tolerances import near, sums
from trnfft_demo.picture import PictureError, read_picture, write_picture

Image = pytest.importorskip("PIL.Image")
CURVE = sums(4)  # a sum, a quotient and a power, of which the last doubles the error before it


def save(path, pixels, **options):
    Image.fromarray(np.asarray(pixels, np.uint8)).save(path, **options)
    return path


def written(light, name):
    """What is written into a file of this name, from its beginning."""
    file = io.BytesIO()
    write_picture(light, file, Path(name))
    file.seek(0)
    return file


def write_png(path, pixels, bits, kind):
    """A PNG by its specification, because Pillow writes no 16 bits a channel for colours."""

    def chunk(name, data):
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    height, width = pixels.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels.astype(f">u{bits // 8}"))
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    return path


def test_srgb_becomes_linear_light(tmp_path):
    # 188 is about half of the light, 10 is on the straight part: 10 / 255 / 12.92.
    picture = read_picture(save(tmp_path / "a.PNG", [[0, 10, 188, 255]]))
    assert picture.name == "a.PNG"
    assert (picture.light.shape, picture.light.dtype) == ((1, 1, 4), np.float32)
    near(picture.light[0, 0], [0, 0.00303527, 0.50288646, 1], CURVE)


def test_every_code_comes_back(tmp_path):
    codes = np.arange(256 * 3).reshape(16, 16, 3) % 256
    light = read_picture(save(tmp_path / "a.png", codes)).light
    assert light.shape == (3, 16, 16)
    np.testing.assert_array_equal(np.asarray(Image.open(written(light, "b.png"))), codes)


def test_grey_picture_of_16_bits(tmp_path):
    pixels = np.array([[0, 1000, 30000, 65535]])
    light = read_picture(write_png(tmp_path / "a.png", pixels, 16, 0)).light
    expected = [0, 1000 / 65535 / 12.92, ((30000 / 65535 + 0.055) / 1.055) ** 2.4, 1]
    near(light[0, 0], expected, CURVE)


def test_colours_of_16_bits_become_8(tmp_path):
    pixels = np.array([[[0, 32896, 65535]]])
    light = read_picture(write_png(tmp_path / "a.png", pixels, 16, 2)).light
    near(light[:, 0, 0], [0, 0.2158605, 1], CURVE)


def test_transparent_pixels_are_on_black(tmp_path):
    codes = [[[255, 255, 0, 255], [255, 255, 0, 51]]]
    picture = read_picture(save(tmp_path / "a.png", codes))
    near(picture.on_black()[:, 0].T, [[1, 1, 0], [0.2, 0.2, 0]], sums(1))
    np.testing.assert_array_equal(picture.light[:, 0].T, [[1, 1, 0], [1, 1, 0]])
    near(picture.alpha, [[1, 0.2]], sums(1))
    file = io.BytesIO()
    write_picture(picture.light, file, Path("b.png"), picture.alpha)
    np.testing.assert_array_equal(np.asarray(Image.open(file)), codes)


def test_alpha_of_grey_and_of_palettes(tmp_path):
    grey = np.array([[[0, 255], [255, 51]]], np.uint8)
    Image.fromarray(grey, "LA").save(tmp_path / "grey.png")
    picture = read_picture(tmp_path / "grey.png")
    assert picture.light.shape == (1, 1, 2)
    near(picture.alpha, [[1, 0.2]], sums(1))
    file = io.BytesIO()
    write_picture(picture.light, file, Path("b.png"), picture.alpha)
    np.testing.assert_array_equal(np.asarray(Image.open(file)), grey)
    Image.new("P", (2, 1)).save(tmp_path / "palette.png", transparency=0)
    picture = read_picture(tmp_path / "palette.png")
    assert picture.light.shape == (3, 1, 2)
    np.testing.assert_array_equal(picture.alpha, [[0, 0]])


def test_palette_and_jpeg(tmp_path):
    image = Image.new("RGB", (8, 8), (255, 0, 0))
    image.convert("P").save(tmp_path / "a.png")
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned
    Image.new("RGB", (8, 16), (255, 0, 0)).save(tmp_path / "a.jpg", exif=exif)
    near(read_picture(tmp_path / "a.png").light[:, 0, 0], [1, 0, 0], CURVE)
    light = read_picture(tmp_path / "a.jpg").light
    assert light.shape == (3, 8, 16)
    assert np.abs(light[:, 0, 0] - [1, 0, 0]).max() < 0.02  # JPEG loses more than sums do


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 1), (4, 5, 3), (4, 5, 7)])
def test_npy_keeps_any_light(tmp_path, shape):
    pixels = 1e3 * np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    np.save(tmp_path / "a.npy", pixels)
    light = read_picture(tmp_path / "a.npy").light
    assert light.shape == (pixels[0, 0].size, 4, 5)
    np.testing.assert_array_equal(np.load(written(light, "b.npy")), pixels.squeeze())


def test_npy_whose_first_axis_varies_fastest(tmp_path):
    pixels = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    np.save(tmp_path / "a.npy", np.asfortranarray(pixels))
    np.testing.assert_array_equal(read_picture(tmp_path / "a.npy").light[0], pixels)


def test_light_is_clipped_to_what_a_png_holds():
    png = written(np.array([[[-1, 0.5, 70]]], np.float32), "a.png")
    np.testing.assert_array_equal(np.asarray(Image.open(png)), [[0, 188, 255]])


def test_without_a_path_a_portrait():
    pytest.importorskip("matplotlib")
    picture = read_picture()
    assert "Grace Hopper" in picture.name
    assert picture.light.shape == (3, 600, 512)


@pytest.mark.parametrize(
    "array, sentence",
    [
        (np.zeros(5), "its shape is (5,)"),
        (np.zeros((2, 2, 3, 1)), "its shape is (2, 2, 3, 1)"),
        (np.zeros((2, 2), complex), "it holds complex128"),
        (np.zeros((0, 2)), "no pixels"),
        (np.full((2, 2), np.nan), "is NaN or out of range, allowed is -1e+30 to 1e+30"),
        (np.full((2, 2), 1e300), "is NaN or out of range, allowed is -1e+30 to 1e+30"),
        (np.array([[None]]), "it holds object"),
    ],
)
def test_arrays_that_are_no_pictures(tmp_path, array, sentence):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(PictureError) as error:
        read_picture(tmp_path / "a.npy")
    assert str(error.value).startswith(f"cannot read {tmp_path / 'a.npy'}: ")
    assert sentence in str(error.value)


def test_files_that_are_no_pictures(tmp_path):
    whole = save(tmp_path / "whole.png", np.random.default_rng(0).integers(0, 255, (50, 50)))
    (tmp_path / "text.png").write_text("no picture")
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "cut.png").write_bytes(whole.read_bytes()[:-500])
    (tmp_path / "flipped.png").write_bytes(whole.read_bytes()[:60] + b"x" * 20)
    (tmp_path / "a.gif").write_bytes(b"GIF89a")
    (tmp_path / "cut.npy").write_bytes(b"\x93NUMPY")
    (tmp_path / "folder.png").mkdir()
    for name, sentence in {
        "text.png": "no complete PNG or JPEG",
        "empty.jpg": "the file is empty",
        "cut.png": "no complete PNG or JPEG",
        "flipped.png": "no complete PNG or JPEG",
        "cut.npy": "not a complete .npy array",
        "a.gif": "must end in one of .png, .jpg, .jpeg, .npy, .exr, .hdr",
        "folder.png": "not a regular file",
        "missing.png": "no such file",
    }.items():
        with pytest.raises(PictureError) as error:
            read_picture(tmp_path / name)
        assert sentence in str(error.value)
        assert "\n" not in str(error.value)


def test_what_cannot_be_written():
    light = np.zeros((2, 3, 3), np.float32)
    with pytest.raises(PictureError, match="2 channels, allowed in a .png file are 1 or 3"):
        written(light, "a.png")
    with pytest.raises(PictureError, match="must end in .png, .npy, .exr or .hdr"):
        written(light, "a.jpg")


def test_without_the_extra(tmp_path, monkeypatch):
    path = save(tmp_path / "a.png", [[1]])
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(PictureError, match="pictures need Pillow"):
        read_picture(path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PictureError, match="needs matplotlib"):
        read_picture()
