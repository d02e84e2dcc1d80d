"""OpenEXR and Radiance pictures keep any light; broken pictures are refused in one sentence."""

import io
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trnfft_demo import picture
from trnfft_demo.picture import PictureError, check_writable, read_picture, write_picture

OpenImageIO = pytest.importorskip("OpenImageIO")

KINDS = {".exr": "OpenEXR", ".hdr": "Radiance"}
both = pytest.mark.parametrize("suffix", KINDS)


def light(channels=3):
    return 50 * np.random.default_rng(0).random((channels, 12, 9), np.float32)


def save(path, planes, **fields):
    """A file by the library itself: planes by their names, and fields of its ImageSpec."""
    height, width = next(iter(planes.values())).shape
    spec = OpenImageIO.ImageSpec(width, height, len(planes), OpenImageIO.FLOAT)
    spec.channelnames = tuple(planes)
    for name, value in fields.items():
        setattr(spec, name, value)
    output = OpenImageIO.ImageOutput.create(str(path))
    assert output.open(str(path), spec), output.geterror()
    if spec.deep:
        samples = OpenImageIO.DeepData()
        samples.init(spec)
        assert output.write_deep_image(samples), output.geterror()
    else:
        pixels = np.stack(list(planes.values()), -1)
        assert output.write_image(pixels), output.geterror()
    assert output.close()
    return path


def written(light, path):
    with open(path, "wb") as file:
        write_picture(light, file, path)
    return path


def radiance(order="-Y 2 +X 3", text="FORMAT=32-bit_rle_rgbe\n", magic="#?RADIANCE\n", pixels=None):
    """The bytes of a Radiance picture, whose red is 1 to 6 and half of that is green."""
    if pixels is None:
        pixels = b"".join(bytes((2 * red, red, 0, 135)) for red in range(1, 7))
    return f"{magic}{text}\n{order}\n".encode() + pixels


def refused(path):
    """The sentence with which a picture is refused."""
    with pytest.raises(PictureError) as error:
        read_picture(path)
    sentence = str(error.value)
    assert sentence.startswith(f"cannot read {path}: ")
    assert sentence.isprintable(), sentence
    return sentence


@pytest.mark.parametrize("channels", [1, 3])
def test_exr_keeps_light_as_it_is(tmp_path, channels):
    any_light = light(channels) - 10
    written(any_light, tmp_path / "a.EXR")
    found = read_picture(tmp_path / "a.EXR")
    np.testing.assert_array_equal(found.light, any_light)
    assert (found.name, found.light.dtype) == ("a.EXR", np.float32)


@pytest.mark.parametrize("channels", [1, 3])
def test_hdr_keeps_8_bits_of_the_largest_channel(tmp_path, channels):
    random = np.random.default_rng(1)
    stops = random.uniform(-100, 99, (1, 90, 80))
    any_light = np.float32(2**stops * random.random((channels, 90, 80)))
    any_light[:, 0, :4] = np.float32([1, 0, 255.9 / 256, 511 / 512])
    found = read_picture(written(any_light, tmp_path / "a.HDR")).light
    assert (found.shape, found.dtype) == ((3, 90, 80), np.float32)
    bound = any_light.max(0) / 256
    assert (np.abs(found - any_light) <= bound).all()
    again = read_picture(written(found, tmp_path / "again.hdr")).light
    np.testing.assert_array_equal(again, found)


def test_hdr_has_no_negative_light_and_none_below_its_smallest(tmp_path):
    dark = np.array([[[-1, -1, 1e-33, 1e-45]], [[2, -2, 0, 0]], [[0.5, -3, 0, 0]]], np.float32)
    found = read_picture(written(dark, tmp_path / "a.hdr")).light
    np.testing.assert_array_equal(found[:, 0].T, [[0, 2, 0.5], *np.zeros((3, 3))])


UPRIGHT = [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    "order, expected",
    {
        "-Y 2 +X 3": UPRIGHT,
        "-Y 2 -X 3": [[3, 2, 1], [6, 5, 4]],
        "+Y 2 +X 3": [[4, 5, 6], [1, 2, 3]],
        "+Y 2 -X 3": [[6, 5, 4], [3, 2, 1]],
        "+X 2 -Y 3": [[1, 4], [2, 5], [3, 6]],  # columns from the left, downwards
        "+X 2 +Y 3": [[3, 6], [2, 5], [1, 4]],
        "-X 2 -Y 3": [[4, 1], [5, 2], [6, 3]],
        "-X 2 +Y 3": [[6, 3], [5, 2], [4, 1]],
    }.items(),
)
def test_hdr_is_turned_upright(tmp_path, order, expected):
    (tmp_path / "a.hdr").write_bytes(radiance(order))
    found = read_picture(tmp_path / "a.hdr").light
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1:], [found[0] / 2, 0 * found[0]])


def test_hdr_with_other_lines_in_its_header(tmp_path):
    lines = f"# {'comment ' * 30}\nEXPOSURE=4\nGAMMA=1\nFORMAT=32-bit_rle_rgbe\nVIEW=\n"
    (tmp_path / "a.hdr").write_bytes(radiance(text=lines))
    np.testing.assert_array_equal(read_picture(tmp_path / "a.hdr").light[0], UPRIGHT)


@pytest.mark.parametrize("dtype", ["half", "float", "uint"])
@pytest.mark.parametrize("names, expected", [("RGB", "RGB"), ("BGRAZ", "RGB"), ("AY", "Y")])
def test_channels_by_their_names(tmp_path, dtype, names, expected):
    # Integers of the library are fractions of the largest; so these are written as they are.
    kind, numbers = (np.uint32, OpenImageIO.UINT) if dtype == "uint" else (np.float32, None)
    planes = {name: np.full((4, 6), ord(name), kind) for name in names}
    path = save(tmp_path / "a.exr", planes, format=numbers or OpenImageIO.TypeDesc(dtype))
    found = read_picture(path).light
    np.testing.assert_array_equal(found[:, 3, 5], [ord(name) for name in expected])
    assert found.shape == (len(expected), 4, 6)


def test_tiles_and_a_window_apart_from_the_display(tmp_path):
    fields = {"tile_width": 16, "tile_height": 16, "x": -5, "y": 7, "full_width": 100}
    plane = light(1)[0]
    np.testing.assert_array_equal(
        read_picture(save(tmp_path / "a.exr", {"Y": plane}, **fields)).light[0], plane
    )


@both
def test_broken_files_are_refused_in_one_sentence(tmp_path, suffix, capfd):
    data = written(light(), tmp_path / f"whole{suffix}").read_bytes()
    path = tmp_path / f"a{suffix}"
    cut = [data[:length] for length in (*range(1, 400, 7), *range(400, len(data), 97))]
    for content in (b"no picture", *cut, data[:-1], data[:300] + b"\xff" * 40 + data[340:]):
        path.write_bytes(content)
        assert f"it is no complete {KINDS[suffix]} picture (" in refused(path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.weekly
@pytest.mark.sweep
def test_whatever_byte_is_wrong_the_process_lives(tmp_path):
    """In a process of its own, as a library in C could end it."""
    program = """
import random, sys
from trnfft_demo.picture import PictureError, read_picture
random.seed(0)
for name, copy in zip(sys.argv[1::2], sys.argv[2::2]):
    data = open(name, "rb").read()
    refused = 0
    for _ in range(150):
        broken = bytearray(data)
        end = random.choice((400, len(data)))
        for _ in range(random.choice((1, 4))):
            broken[random.randrange(min(end, len(data)))] = random.randrange(256)
        open(copy, "wb").write(broken)
        try:
            read_picture(copy)
        except PictureError as error:
            assert str(error).isprintable(), str(error)
            refused += 1
    print(refused)
"""
    command = [sys.executable, "-c", program]
    for suffix in KINDS:
        command.append(str(written(light(), tmp_path / f"whole{suffix}")))
        command.append(str(tmp_path / f"a{suffix}"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(10 < int(refused) < 150 for refused in done.stdout.split())
    assert len(done.stdout.split()) == len(KINDS)


@both
@pytest.mark.parametrize("other", ["png", "tif", "exr", "hdr", "npy"])
def test_a_name_that_lies(tmp_path, suffix, other):
    inner = tmp_path / f"inner.{other}"
    if other == "npy":
        np.save(inner, light()[0])
    else:
        save(inner, dict(zip("RGB", light(), strict=True)))
    path = inner.rename(tmp_path / f"a{suffix}")
    if f".{other}" == suffix:
        assert read_picture(path).light.shape == (3, 12, 9)
    else:
        assert f"it is no complete {KINDS[suffix]} picture (" in refused(path)


@pytest.mark.parametrize(
    "planes, sentence",
    [
        ({"Z": np.zeros((2, 2), np.float32)}, "its channels are Z, allowed are R, G and B, or Y"),
        (
            {"Y": np.full((2, 2), np.nan, np.float32)},
            "is NaN or out of range, allowed is -1e+30 to 1e+30",
        ),
        (
            {"Y": np.full((2, 2), np.inf, np.float32)},
            "is NaN or out of range, allowed is -1e+30 to 1e+30",
        ),
    ],
)
def test_what_is_no_picture(tmp_path, planes, sentence):
    assert sentence in refused(save(tmp_path / "a.exr", planes))


def test_deep_pictures_are_refused(tmp_path):
    path = save(tmp_path / "a.exr", {"Y": np.zeros((2, 2), np.float32)}, deep=True)
    assert "it is deep, allowed are pictures with one number a pixel" in refused(path)


def test_integers_among_floats_are_refused(tmp_path):
    formats = tuple(map(OpenImageIO.TypeDesc, ("half", "uint", "half")))
    planes = dict(zip("RGB", light(), strict=True))
    path = save(tmp_path / "a.exr", planes, channelformats=formats)
    assert "it mixes channels of integers with others" in refused(path)


def test_channels_that_lack_pixels_are_refused(tmp_path):
    path = save(tmp_path / "a.exr", {"Y": np.zeros((2, 2), np.float32)})
    data = path.read_bytes()
    sampling = data.index(b"Y\0\2\0\0\0") + 10  # after the name, its type, and what else it has
    path.write_bytes(data[:sampling] + struct.pack("<II", 2, 2) + data[sampling + 8 :])
    assert "Subsampled channels are not supported" in refused(path)


def test_channels_whose_names_are_no_text(tmp_path):
    path = save(tmp_path / "a.exr", {"A": np.zeros((2, 2), np.float32)})
    data = path.read_bytes()
    for name, shown in {
        b"\xff": r"its channels are \udcff,",
        b"\x1b": r"its channels are \x1b,",
    }.items():
        path.write_bytes(data.replace(b"A\0\2\0\0\0", name + b"\0\2\0\0\0"))
        assert shown in refused(path)


@pytest.mark.parametrize(
    "content, sentence",
    {
        radiance(text="GAMMA=2.2\nFORMAT=32-bit_rle_rgbe\n"): "its gamma is 0.454545, allowed is",
        radiance(text="FORMAT=32-bit_rle_xyze\n"): "no FORMAT specifier",
        radiance(text=""): "no FORMAT specifier",
        radiance(text="VIEW=\n" * 200 + "FORMAT=32-bit_rle_rgbe\n"): "no FORMAT specifier",
        radiance(text="VIEW=\n" * 10**5 + "FORMAT=32-bit_rle_rgbe\n"): "it has no such header",
        radiance(magic=""): "it has no such header",
        radiance("-Y 0 +X 3"): "must be at least 1x1",
        radiance("-Y 2 +X"): "it has no such header",
        radiance("-Y 2 +Y 3"): "missing image size",
        radiance("-Y 60000 +X 60000"): "picture",
        radiance("-Y 99999999999999999999 +X 3"): "picture",
        radiance("-Y 1 +X 1", pixels=bytes((255, 255, 255, 255))): "is NaN or out of range",
    }.items(),
)
def test_what_is_no_hdr(tmp_path, content, sentence):
    (tmp_path / "a.hdr").write_bytes(content)
    assert sentence in refused(tmp_path / "a.hdr")


@both
def test_too_large_is_refused_by_the_header(tmp_path, monkeypatch, suffix):
    path = written(np.zeros((3, 20, 30), np.float32), tmp_path / f"a{suffix}")
    monkeypatch.setattr(picture, "MOST_PIXELS", 599)
    assert "it has 30 x 20 pixels of 3 channels, allowed are 599" in refused(path)


def test_too_many_channels_and_too_large_tiles_are_refused_by_the_header(tmp_path, monkeypatch):
    planes = {f"Y{index or ''}": np.zeros((20, 30), np.float32) for index in range(7)}
    path = save(tmp_path / "a.exr", planes, tile_width=64, tile_height=64)
    assert read_picture(path).light.shape == (1, 20, 30)
    monkeypatch.setattr(picture, "MOST_VALUES", 7000)
    assert "its tiles of 64 x 64 pixels have 4096 pixels in all" in refused(path)
    monkeypatch.setattr(picture, "MOST_VALUES", 2000)
    assert "pixels of 7 channels, allowed are 25165824 pixels and 4000 numbers" in refused(path)
    monkeypatch.undo()
    data = path.read_bytes()
    size = data.index(b"tiles\0tiledesc\0") + 19
    path.write_bytes(data[:size] + struct.pack("<II", 30000, 30000) + data[size + 8 :])
    assert "its tiles of 30000 x 30000 pixels have 900000000 pixels in all" in refused(path)


@both
def test_names_of_files(tmp_path, suffix):
    odd = written(light(), tmp_path / f"a?b=c&d %04d é{suffix}")
    assert read_picture(odd).light.shape == (3, 12, 9)
    no_text = os.path.join(os.fsencode(tmp_path), b"\xff" + suffix.encode())
    try:
        os.rename(odd, no_text)
    except OSError:
        pytest.skip("file systems that refuse such names")
    with pytest.raises(PictureError, match="its name is no UTF-8"):
        read_picture(os.fsdecode(no_text))


@both
def test_channels_that_cannot_be_written(suffix):
    with pytest.raises(
        PictureError, match="4 channels, allowed in a .* file are 1 or 3; write a .npy"
    ):
        check_writable(Path(f"a{suffix}"), 4)


@both
def test_without_the_extra(tmp_path, monkeypatch, suffix):
    path = written(light(), tmp_path / f"a{suffix}")
    monkeypatch.setitem(sys.modules, "OpenImageIO", None)
    assert '.hdr pictures need OpenImageIO, which the extra "hdr" of trnfft-nki' in refused(path)
    with pytest.raises(PictureError, match="cannot write .*need OpenImageIO"):
        check_writable(path, 3)


@both
def test_a_full_disk(monkeypatch, suffix):
    """What the library could not write is an error, not half a picture."""

    def fail(*_):
        return False

    monkeypatch.setattr(OpenImageIO.ImageOutput, "write_image", fail)
    with pytest.raises(OSError):
        write_picture(light(), io.BytesIO(), Path(f"a{suffix}"))
