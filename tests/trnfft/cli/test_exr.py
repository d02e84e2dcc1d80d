"""OpenEXR pictures keep any light; broken ones are refused in one sentence."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from trnfft import cli
from trnfft.cli import picture
from trnfft.cli.picture import PictureError, check_writable, read_picture, write_picture

OpenEXR = pytest.importorskip("OpenEXR")


def light(channels=3):
    return 50 * np.random.default_rng(0).random((channels, 12, 9), np.float32) - 1


def save(path, channels, **header):
    """A file by the library itself."""
    kind = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
    OpenEXR.File({**kind, **header}, channels).write(str(path))
    return path


@pytest.mark.parametrize("channels", [1, 3])
def test_light_comes_back(tmp_path, channels):
    file = io.BytesIO()
    write_picture(light(channels), file, Path("a.exr"))
    (tmp_path / "a.EXR").write_bytes(file.getvalue())
    found = read_picture(tmp_path / "a.EXR")
    np.testing.assert_array_equal(found.light, light(channels))
    assert (found.name, found.light.dtype) == ("a.EXR", np.float32)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.uint32])
@pytest.mark.parametrize("names, expected", [("RGB", "RGB"), ("BGRAZ", "RGB"), ("AY", "Y")])
def test_channels_by_their_names(tmp_path, dtype, names, expected):
    planes = {name: np.full((4, 6), ord(name), dtype) for name in names}
    found = read_picture(save(tmp_path / "a.exr", planes)).light
    np.testing.assert_array_equal(found[:, 3, 5], [ord(name) for name in expected])
    assert found.shape == (len(expected), 4, 6)


def test_broken_files_are_refused_in_one_sentence(tmp_path, capfd):
    whole = save(tmp_path / "whole.exr", {"RGB": np.ascontiguousarray(light().transpose(1, 2, 0))})
    data = whole.read_bytes()
    contents = [b"no picture", *(data[:n] for n in (4, 20, 100, 200, 350, len(data) - 10))]
    contents.append(data[:300] + b"\xff" * 40 + data[340:])
    for content in contents:
        (tmp_path / "a.exr").write_bytes(content)
        with pytest.raises(PictureError) as error:
            read_picture(tmp_path / "a.exr")
        assert str(error.value).startswith(f"cannot read {tmp_path / 'a.exr'}: ")
        assert "\n" not in str(error.value)
    assert capfd.readouterr() == ("", "")


def test_whatever_byte_is_wrong_the_process_lives(tmp_path):
    """In a process of its own, as a library in C could end it."""
    program = """
import random, sys
from trnfft.cli.picture import PictureError, read_picture
random.seed(0)
data = open(sys.argv[1], "rb").read()
refused = 0
for _ in range(300):
    broken = bytearray(data)
    for _ in range(random.choice((1, 4))):
        broken[random.randrange(len(data))] = random.randrange(256)
    open(sys.argv[2], "wb").write(broken)
    try:
        read_picture(sys.argv[2])
    except PictureError:
        refused += 1
print(refused)
"""
    whole = save(tmp_path / "whole.exr", {"Y": light(1)[0]})
    command = [sys.executable, "-c", program, str(whole), str(tmp_path / "a.exr")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert 20 < int(done.stdout) < 300


@pytest.mark.parametrize(
    "channels, sentence",
    [
        ({"Z": np.zeros((2, 2), np.float32)}, "its channels are Z; R, G and B, or Y are needed"),
        ({"Y": np.full((2, 2), np.nan, np.float32)}, r"must be numbers from -1e\+30"),
        ({"Y": np.full((2, 2), np.inf, np.float16)}, r"must be numbers from -1e\+30"),
    ],
)
def test_what_is_no_picture(tmp_path, channels, sentence):
    with pytest.raises(PictureError, match=sentence):
        read_picture(save(tmp_path / "a.exr", channels))


def test_too_large_is_refused_by_the_header(tmp_path, monkeypatch):
    path = save(tmp_path / "a.exr", {"Y": np.zeros((20, 30), np.float32)})
    monkeypatch.setattr(picture, "MOST_PIXELS", 599)
    with pytest.raises(PictureError, match="it has 30 x 20 pixels of 1 channels, allowed are 599"):
        read_picture(path)


def test_channels_that_cannot_be_written():
    with pytest.raises(PictureError, match="1 or 3 channels, this one 4; use .npy"):
        check_writable(Path("a.exr"), 4)


def test_without_the_extra(tmp_path, monkeypatch):
    path = save(tmp_path / "a.exr", {"Y": light(1)[0]})
    monkeypatch.setitem(sys.modules, "OpenEXR", None)
    with pytest.raises(PictureError, match=r"need OpenEXR: pip install \"trnfft\[hdr\]\""):
        read_picture(path)


def test_bloom_of_an_exr_with_exposure(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save("a.exr", {"Y": light(1)[0] + 1})

    def bloom(*arguments):
        result = CliRunner().invoke(cli.app, ["bloom", "a.exr", *arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert "exposed" not in bloom("--out", "same.exr")
    assert "exposed by -3 stops" in bloom("--exposure", "-3", "--out", "darker.exr")
    same, darker = (read_picture(name).light for name in ("same.exr", "darker.exr"))
    np.testing.assert_allclose(darker, same / 8, rtol=1e-5, atol=1e-5)
    assert same.max() > 1
    bloom("--exposure", "-3", "--out", "darker.png")
    assert read_picture("darker.png").light.shape == (1, 12, 9)
