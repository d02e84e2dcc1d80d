"""A file that is broken, huge or no regular file is soon refused in one sentence."""

import io
import os
import struct
import sys
import tracemalloc
import zlib

import numpy as np
import pytest
from typer.testing import CliRunner

from tests import sweeps
from trnfft import cli
from trnfft.__main__ import main
from trnfft_demo import picture, recording
from trnfft_demo.picture import PictureError, read_picture
from trnfft_demo.recording import read_recording

from .test_recording import write_wav

Image = pytest.importorskip("PIL.Image")

HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 4), }"
NO_TEXT = os.fsdecode(b"\xff\xfe")  # bytes that are no UTF-8


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(*arguments):
    """The sentence of a command that ended with it and left no new file."""
    before = sorted(os.listdir("."))
    result = CliRunner().invoke(cli.app, list(map(str, arguments)))
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1
    assert sorted(os.listdir(".")) == before
    return result.stderr


def no_picture(name):
    """The sentence with which a picture is refused."""
    with pytest.raises(PictureError) as error:
        read_picture(name)
    assert "\n" not in str(error.value)
    return str(error.value)


def npy(header, version=(1, 0), data=bytes(64)):
    text = header.encode("latin1")
    size = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + size + text + data


def png(width, height, data):
    def chunk(name, content):
        checksum = zlib.crc32(name + content)
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*one) for one in chunks)


@pytest.mark.parametrize(
    "content",
    [
        npy("((((((("),  # tokenize.TokenError
        npy("{1: 2, 'fortran_order': False}"),  # TypeError
        npy("if x:\n    a\n  b"),  # IndentationError
        npy("(" * 500),
        npy("-" * 9000 + "1"),  # RecursionError or MemoryError
        npy(HEADER + " " * 20000),  # ValueError
        npy(HEADER.replace("4, 4", "True, 4.0")),
        npy(HEADER.replace("4, 4", "-4, -4")),
        npy(HEADER.replace("4, 4", "1," * 70)),
        npy(HEADER.replace("4, 4", "0, 9223372036854775808")),
        npy(HEADER.replace("4, 4", "4, 5")),  # 80 bytes of 64
        npy(HEADER, version=(9, 9)),
        npy(HEADER)[:9],
    ],
    ids=range(13),
)
def test_npy_that_is_broken(folder, content):
    (folder / "a.npy").write_bytes(content)
    assert "cannot read a.npy: it is not a complete .npy array" in no_picture("a.npy")


@pytest.mark.parametrize("shape", ["10000000000, 4", "99999999999999999999999, 4"])
def test_npy_that_claims_more_than_is_read(folder, shape):
    (folder / "a.npy").write_bytes(npy(HEADER.replace("4, 4", shape)))
    assert "numbers, allowed are" in refused("spectrum", "a.npy")
    assert "numbers, allowed are" in no_picture("a.npy")


@pytest.mark.parametrize(
    "before",
    [
        b"LIST" + struct.pack("<I", 2**32 - 1),
        b"LIST" + struct.pack("<I", 11) + bytes(11),
        b"fmt " + struct.pack("<I", 2**32 - 1) + bytes(16),
    ],
)
def test_wav_whose_chunks_lead_outside(folder, before):
    (folder / "a.wav").write_bytes(b"RIFF" + struct.pack("<I", 50) + b"WAVE" + before)
    assert "cannot read a.wav: only WAV files of PCM or floats" in refused("spectrum", "a.wav")


def test_recordings_have_a_limit(folder, monkeypatch):
    monkeypatch.setattr(recording, "MOST_SAMPLES", 100)
    monkeypatch.setattr(recording, "MOST_LINES", 100)
    write_wav("a.wav", bytes(4 * 51), channels=2)
    (folder / "a.csv").write_text("1\n" * 101)
    np.save("a.npy", np.ones(101))
    assert "51 samples of 2 channels, allowed are 100 in all" in refused("spectrum", "a.wav")
    assert "more than 100 lines" in refused("spectrum", "a.csv")
    assert "has 101 numbers, allowed are 100" in refused("spectrum", "a.npy")
    (folder / "a.csv").write_text("1\n" * 100)
    assert len(read_recording("a.csv").samples) == 100


@pytest.mark.parametrize("name", ["a.wav", "a.csv", "a.npy", "a.png", "a.jpg"])
def test_files_have_a_limit(folder, name):
    with open(name, "wb") as file:
        file.truncate(2**33)  # a hole, which takes no space
    is_picture = name[2:] in ("png", "jpg")
    sentence = no_picture(name) if is_picture else refused("spectrum", name)
    assert "it has 8589934592 bytes, allowed are 268435456" in sentence


@pytest.mark.parametrize("side", [9_000, 12_000, 60_000], ids=["below", "warns", "refuses"])
def test_bombs_of_pixels_are_not_decoded(folder, side):
    """On both sides of the limits at which Pillow warns and refuses."""
    (folder / "a.png").write_bytes(png(side, side, zlib.compress(bytes(9999))))
    tracemalloc.start()
    sentence = no_picture("a.png")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(picture.MOST_PIXELS) in sentence
    assert peak < 20e6


def test_pictures_have_a_limit(folder, monkeypatch):
    monkeypatch.setattr(picture, "MOST_PIXELS", 12)
    monkeypatch.setattr(picture, "MOST_VALUES", 36)
    Image.new("RGB", (4, 3)).save("most.png")
    Image.new("RGB", (13, 1)).save("more.png")
    np.save("more.npy", np.ones((37, 1)))
    assert read_picture("most.png").light.shape == (3, 3, 4)
    assert "it has 13 x 1 pixels, allowed are 12 in all" in no_picture("more.png")
    assert "has 37 numbers, allowed are 36" in no_picture("more.npy")


@pytest.mark.parametrize("target", ["fifo", "/dev/zero", "/dev/stdin", "folder", "loop.npy"])
def test_what_is_no_regular_file_is_not_read(folder, target):
    os.mkfifo("fifo")
    os.mkdir("folder")
    os.symlink(target, "loop.npy")
    for sentence in (refused("spectrum", "loop.npy"), no_picture("loop.npy")):
        assert "loop.npy" in sentence and ("no such file" in sentence or "regular" in sentence)


def test_a_fifo_in_place_of_the_file_that_was_checked(folder, monkeypatch):
    os.mkfifo("a.npy")
    monkeypatch.setattr("pathlib.Path.is_file", lambda path: True)
    assert "not a regular file" in refused("spectrum", "a.npy")


@pytest.mark.sweep
def test_names_that_are_no_text(folder):
    """In messages, tables and titles they have escapes, and the terminal gets no control codes."""
    name = f"{NO_TEXT}\n\x1b[31m.npy"
    try:
        np.save(name, np.arange(16.0).reshape(4, 4))
    except OSError:
        pytest.skip("file systems here take UTF-8 alone")
    shown = r"\udcff\udcfe\n\x1b[31m.npy"
    assert f"cannot read {shown}: its shape is (4, 4)" in refused("spectrum", name)
    assert f"cannot read {shown}.wav: there is no" in refused("spectrum", f"{name}.wav")
    assert read_picture(name).name == shown
    np.save(name, np.arange(16.0))
    result = CliRunner().invoke(cli.app, ["spectrum", name, "--out", f"{NO_TEXT}.png"])
    assert result.exit_code == 0, result.output
    assert shown[:8] in result.stdout and "\x1b" not in result.stdout
    assert r"wrote \udcff\udcfe.png" in result.stdout


def test_a_terminal_without_the_characters_of_a_name(folder, monkeypatch):
    np.save("é.npy", np.arange(16.0))
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, "ascii", write_through=True))
    monkeypatch.setattr(sys, "argv", ["trnfft", "spectrum", "é.npy", "--out", "日.png"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert rb"\xe9.npy," in shown.getvalue()
    assert os.path.exists("日.png")


def test_an_output_that_is_a_loop_of_links(folder):
    np.save("a.npy", np.arange(16.0))
    os.symlink("loop.png", "loop.png")
    assert "symbolic links" in refused("spectrum", "a.npy", "--out", "loop.png")


@sweeps.some("change", range(20), range(2))
def test_jpegs_with_changed_bytes(folder, change):
    """Either read or refused; never a traceback."""
    stored = io.BytesIO()
    Image.new("RGB", (8, 8)).save(stored, "JPEG")
    data = bytearray(stored.getvalue())
    random = np.random.default_rng(change)
    data[random.integers(2, 300)] = random.integers(256)
    (folder / "a.jpg").write_bytes(data)
    try:
        light = read_picture("a.jpg").light
        assert light.ndim == 3 and np.isfinite(light).all()
    except PictureError as error:
        assert "\n" not in str(error)
