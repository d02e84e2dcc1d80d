"""`trnfft bloom` writes the bloomed picture, shows how, and refuses bad input in one line."""

import itertools

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import trnfft
from tests import sweeps
from trnfft import cli
from trnfft.cli.picture import read_picture
from trnfft.convolution import point_spread_functions

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs `trnfft bloom ...` in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(cli.app, ["bloom", *map(str, arguments)])


@pytest.fixture
def lights(tmp_path):
    """An HDR picture, 20 x 30 pixels of three channels, whose values exceed 1."""
    pixels = np.random.default_rng(1).random((20, 30, 3), np.float32) ** 8
    pixels[8, 12] = 50
    np.save(tmp_path / "lights.npy", pixels)
    return pixels


def refused(result):
    """The sentence of a command that ended with it."""
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_without_a_file_the_portrait(run, tmp_path):
    pytest.importorskip("matplotlib")
    result = run()
    assert result.exit_code == 0, result.output
    for words in ("Grace Hopper", "gaussian, 256 x 256", "zero padding", "torch", "wrote bloom"):
        assert words in result.stdout
    before, after = read_picture().light, read_picture(tmp_path / "bloom.png").light
    assert after.shape == before.shape
    # Zero padding loses light at the borders.
    assert 0.95 < after.sum() / before.sum() < 1


def test_npy_in_and_out(run, tmp_path, lights):
    result = run("lights.npy", "--psf", "star", "--size", 9, "--strength", 1, "--out", "out.npy")
    assert result.exit_code == 0, result.output
    image = torch.from_numpy(lights).movedim(-1, 0)
    expected = trnfft.bloom(image, point_spread_functions.star(9)).movedim(0, -1).numpy()
    actual = np.load(tmp_path / "out.npy")
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, expected, atol=1e-5)
    assert actual.max() > 1


def test_exposure_is_in_stops(run, lights):
    def bloomed(*arguments):
        result = run("lights.npy", "--out", "a.npy", *arguments)
        assert result.exit_code == 0, result.output
        assert ("exposed by +1.5 stops" in result.stdout) == bool(arguments)
        return np.load("a.npy")

    plain = bloomed()
    np.testing.assert_allclose(
        bloomed("--exposure", 1.5), plain * 2**1.5, rtol=1e-5, atol=1e-5 * plain.max()
    )


@sweeps.some(
    "psf, padding",
    itertools.product(["gaussian", "star", "heart"], ["zero", "mirror"]),
    [("gaussian", "zero"), ("star", "mirror"), ("heart", "zero")],
)
def test_every_kernel_to_png(run, tmp_path, lights, psf, padding):
    result = run("lights.npy", "--psf", psf, "--padding", padding, "--out", "a.png")
    assert result.exit_code == 0, result.output
    assert f"{psf}, 10 x 10 pixels" in result.stdout
    assert Image.open(tmp_path / "a.png").size == (30, 20)
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_strength_zero_is_the_picture(run, tmp_path):
    codes = np.random.default_rng(2).integers(0, 256, (9, 7, 3), np.uint8)
    Image.fromarray(codes).save(tmp_path / "a.png")
    assert run("a.png", "--strength", 0, "--out", "b.png").exit_code == 0
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "b.png")), codes)


@pytest.mark.parametrize("channels", [1, 3])
def test_kernel_from_a_file(run, tmp_path, lights, channels):
    kernel = np.random.default_rng(3).random((4, 5, channels))
    np.save(tmp_path / "kernel.npy", kernel)
    result = run("lights.npy", "--psf", "kernel.npy", "--strength", 1, "--out", "out.npy")
    assert result.exit_code == 0, result.output
    assert "kernel.npy, 5 x 4 pixels" in result.stdout
    psf = torch.from_numpy(kernel / kernel.sum((0, 1))).movedim(-1, 0).expand(3, 4, 5).float()
    expected = trnfft.bloom(torch.from_numpy(lights).movedim(-1, 0), psf)
    np.testing.assert_allclose(np.load("out.npy"), expected.movedim(0, -1).numpy(), atol=1e-5)


def test_black_picture_and_one_pixel(run, tmp_path):
    np.save(tmp_path / "black.npy", np.zeros((5, 6)))
    np.save(tmp_path / "one.npy", np.ones((1, 1)))
    for name, light in (("black.npy", 0.0), ("one.npy", 1.0)):
        result = run(name, "--strength", 0, "--out", "out.npy")
        assert result.exit_code == 0, result.output
        np.testing.assert_allclose(np.load("out.npy"), light, atol=1e-6)


def test_name_that_looks_like_markup(run, tmp_path):
    np.save(tmp_path / "[red].npy", np.ones((3, 3)))
    result = run("[red].npy")
    assert result.exit_code == 0, result.output
    assert "[red].npy" in result.stdout


def test_other_backend(run, lights):
    with trnfft.backend("matmul"):
        result = run("lights.npy", "--size", 5)
    assert result.exit_code == 0, result.output
    assert "matmul" in result.stdout


def test_backend_that_cannot(run, lights, monkeypatch):
    monkeypatch.setattr("trnfft.config.FROM_ENVIRONMENT", "fast")
    assert "TRNFFT_BACKEND is 'fast'" in refused(run("lights.npy", "--size", 5))


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["missing.png"], "cannot read missing.png: there is no such file"),
        (["lights.npy", "--psf", "sun"], "'--psf' is 'sun', allowed are gaussian, star, heart"),
        (["lights.npy", "--psf", "lights.npy", "--size", 3], "a picture has its size"),
        (["lights.npy", "--psf", "dark.npy"], "no point spread function: a channel is"),
        (["lights.npy", "--psf", "pair.npy"], "2 channels and the picture 3"),
        (["lights.npy", "--size", 0], "'--size' is 0, allowed is 1 to 2048"),
        (["lights.npy", "--size", 5000], "'--size' is 5000"),
        (["lights.npy", "--strength", 2], "'strength' is 2.0, allowed is 0 to 1"),
        (["lights.npy", "--exposure", 33], "'--exposure' is 33, allowed is -32 to 32"),
        (["lights.npy", "--exposure", "nan"], "'--exposure' is nan, allowed is -32 to 32"),
        (["bright.npy", "--exposure", 5], "which makes light of 3.2e+30, allowed is up to 1e+30"),
        (["lights.npy", "--padding", "wrap"], "'padding' is 'wrap', allowed are"),
        (["lights.npy", "--out", "a.jpg"], "must end in .png, .npy, .exr or .hdr"),
        (["pair.npy", "--out", "a.png"], "1 or 3 channels, this one 2"),
        (["lights.npy", "--out", "lights.npy"], "the input itself"),
        (["lights.npy", "--psf", "pair.npy", "--out", "pair.npy"], "2 channels and"),
        (["pair.npy", "--psf", "dim.npy", "--out", "dim.npy"], "the input itself"),
        (["lights.npy", "--out", "missing/a.png"], "there is no folder missing"),
        (["lights.npy", "--out", "."], "not a regular file"),
    ],
)
def test_refused(run, tmp_path, lights, arguments, sentence):
    np.save(tmp_path / "dark.npy", np.zeros((3, 3)))
    np.save(tmp_path / "bright.npy", np.full((3, 3), 1e29))
    np.save(tmp_path / "dim.npy", np.ones((3, 3)))
    np.save(tmp_path / "pair.npy", np.ones((3, 3, 2)))
    before = sorted(path.name for path in tmp_path.iterdir())
    assert sentence in refused(run(*arguments))
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    np.testing.assert_array_equal(np.load(tmp_path / "lights.npy"), lights)


def test_failure_leaves_an_existing_picture_alone(run, tmp_path, lights, monkeypatch):
    (tmp_path / "bloom.png").write_bytes(b"old")

    def full(light, file, out):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cli.bloom, "write_picture", full)
    assert "No space left" in refused(run("lights.npy", "--size", 5))
    assert (tmp_path / "bloom.png").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2
