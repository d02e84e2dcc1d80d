"""`trnfft bloom` writes a picture with bloom, reports on it, and refuses bad input in one line."""

import itertools
import re

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import nki_sim
import trnfft
from nki_sim import hardware
from tests import sweeps
from tests.tolerances import near, sums, transforms
from trnfft import cli
from trnfft.convolution import point_spread_functions
from trnfft.convolution.bloom import BloomFilter
from trnfft_demo import glow
from trnfft_demo.picture import read_picture

Image = pytest.importorskip("PIL.Image")
PADDED = transforms((40, 50), 2)  # a convolution of the picture of `lights` with its surroundings


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


@pytest.mark.sweep
def test_without_a_file_the_portrait(run, tmp_path):
    pytest.importorskip("matplotlib")
    result = run()
    assert result.exit_code == 0, result.output
    for words in ("Grace Hopper", "star, 256 x 256", "mirror, to", "torch", "wrote bloom"):
        assert words in result.stdout
    before, after = read_picture().light, read_picture(tmp_path / "bloom.png").light
    assert after.shape == before.shape
    assert 1 < after.sum() / before.sum() < 1.2
    assert (after >= before).all()


def test_npy_in_and_out(run, tmp_path, lights):
    result = run("lights.npy", "--psf", "star", "--size", 9, "--strength", 1, "--out", "out.npy")
    assert result.exit_code == 0, result.output
    image = torch.from_numpy(lights).movedim(-1, 0)
    psf = point_spread_functions.star(9)
    expected = trnfft.bloom(image, psf, padding="mirror").movedim(0, -1).numpy()
    actual = np.load(tmp_path / "out.npy")
    assert actual.dtype == np.float32
    near(actual, expected, PADDED)
    assert actual.max() > 1


def test_exposure_is_in_stops(run, lights):
    def bloomed(*arguments):
        result = run("lights.npy", "--out", "a.npy", *arguments)
        assert result.exit_code == 0, result.output
        assert bool(re.search(r"exposure .* \+1.5 stops", result.stdout)) == bool(arguments)
        return np.load("a.npy")

    plain = bloomed()
    near(bloomed("--exposure", 1.5), plain * 2**1.5, PADDED)


@sweeps.some(
    "psf, padding",
    itertools.product(["gaussian", "star", "heart"], ["zero", "mirror"]),
    [("gaussian", "zero"), ("heart", "mirror")],
)
def test_every_kernel_to_png(run, tmp_path, lights, psf, padding):
    result = run("lights.npy", "--psf", psf, "--padding", padding, "--out", "a.png")
    assert result.exit_code == 0, result.output
    assert f"{psf}, 10 x 10 pixels" in result.stdout
    assert Image.open(tmp_path / "a.png").size == (30, 20)
    assert [path.name for path in tmp_path.glob(".*")] == []


@sweeps.some("channels", [1, 3], [1])
def test_kernel_from_a_file(run, tmp_path, lights, channels):
    kernel = np.random.default_rng(3).random((4, 5, channels))
    np.save(tmp_path / "kernel.npy", kernel)
    result = run("lights.npy", "--psf", "kernel.npy", "--strength", 1, "--out", "out.npy")
    assert result.exit_code == 0, result.output
    assert "kernel.npy, 5 x 4 pixels" in result.stdout
    psf = torch.from_numpy(kernel / kernel.sum((0, 1))).movedim(-1, 0).expand(3, 4, 5).float()
    expected = trnfft.bloom(torch.from_numpy(lights).movedim(-1, 0), psf, padding="mirror")
    near(np.load("out.npy"), expected.movedim(0, -1), PADDED)


def test_black_picture_and_one_pixel(run, tmp_path):
    np.save(tmp_path / "black.npy", np.zeros((5, 6)))
    np.save(tmp_path / "one.npy", np.ones((1, 1)))
    for name in ("black.npy", "one.npy"):
        result = run(name, "--strength", 0, "--out", "out.npy")
        assert result.exit_code == 0, result.output
        near(np.load("out.npy"), np.load(name), sums(2))


def test_name_that_looks_like_markup(run, tmp_path):
    np.save(tmp_path / "[red].npy", np.ones((3, 3)))
    result = run("[red].npy")
    assert result.exit_code == 0, result.output
    assert "[red].npy" in result.stdout


@pytest.fixture
def night():
    """Codes of a night scene [60, 80, 3]: two lamps that are clipped at white on a dark ground."""
    codes = np.full((60, 80, 3), (20, 24, 40), np.uint8)
    codes[30, 20:22] = 255
    codes[45, 60] = 255, 220, 170
    codes[10, 40] = 120, 110, 90  # a window, which is no light
    return codes


def bloomed(run, codes, *arguments):
    """Codes of the picture that the command makes of these codes, and what it prints."""
    Image.fromarray(codes).save("night.png")
    result = run("night.png", "--out", "out.png", *arguments)
    assert result.exit_code == 0, result.output
    return np.asarray(Image.open("out.png")), result.stdout


@sweeps.some("psf", ["star", "gaussian", "heart"], ["star"])
def test_clipped_lights_glow_and_nothing_gets_darker(run, night, psf):
    found, printed = bloomed(run, night, "--psf", psf)
    assert (found >= night).all()
    near = found[28:33, 18:24].mean(), night[28:33, 18:24].mean()
    assert near[0] > near[1] + 10
    np.testing.assert_array_equal(found[30, 20:22], night[30, 20:22])
    np.testing.assert_array_equal(found[:3, 70:], night[:3, 70:])  # far from the lamps
    assert "3 pixels, up to" in printed
    red, _, blue = np.int32(found[45, 62]) - night[45, 62]
    assert red > blue  # the glow has the colour of its light


def test_the_glow_grows_with_strength_and_highlights(run, night):
    def light(*arguments):
        return bloomed(run, night, *arguments)[0].astype(int).sum()

    assert light("--strength", 0) == night.astype(int).sum()
    assert light("--strength", 0.1) < light("--strength", 0.4)
    assert light("--highlights", 2) < light("--highlights", 10) < light()
    np.testing.assert_array_equal(bloomed(run, night, "--highlights", 1)[0], night)


def test_light_in_dark_surroundings_is_taken_to_be_brighter():
    light = torch.full((1, 64, 64), 0.01)
    light[0, 8, 8] = light[0, 40:60, 40:60] = 1
    factor = glow.brightness_above_white(light, 50)
    assert 49 >= factor[8, 8] > 3 * factor[50, 50] > 0
    assert not factor[light[0] < 1].any()
    assert not glow.brightness_above_white(torch.ones(3, 9, 9), 50).any()
    assert glow.brightness_above_white(light, 2).max() == 1


def test_a_picture_without_lights_stays_as_it_is(run, night):
    codes = np.minimum(night, 200)
    found, printed = bloomed(run, codes)
    np.testing.assert_array_equal(found, codes)
    assert "none: no pixel outshines its surroundings" in printed


@sweeps.some("mode", ["L", "LA", "RGB", "RGBA"], ["L", "RGBA"])
def test_the_kind_of_a_png_is_kept(run, night, mode):
    picture = Image.fromarray(night).convert(mode)
    if mode.endswith("A"):
        alpha = np.full((60, 80), 255, np.uint8)
        alpha[:, :10], alpha[:, 10:15] = 0, 100
        picture.putalpha(Image.fromarray(alpha))
    found, printed = bloomed(run, np.asarray(picture))
    assert Image.open("out.png").mode == mode
    assert found.sum() > np.asarray(picture).sum() and (found >= np.asarray(picture)).all()
    if mode.endswith("A"):
        np.testing.assert_array_equal(found[..., -1], alpha)
        assert re.search("alpha channel .* kept", printed)
        result = run("night.png", "--out", "out.npy", "--strength", 0)
        assert "light is multiplied by it" in result.stdout
        assert not np.load("out.npy")[:, :10].any()


def test_lights_of_a_transparent_part_do_not_glow(run, night):
    alpha = np.zeros((60, 80, 1), np.uint8)
    codes = np.concatenate([night, alpha], -1)
    np.testing.assert_array_equal(bloomed(run, codes)[0], codes)


def test_exposure_comes_after_the_lights(run, night):
    """One stop down, no pixel is near white any more: the lights are those of the file."""
    plain, _ = bloomed(run, night)
    darker, printed = bloomed(run, night, "--exposure", -1)
    assert "3 pixels, up to" in printed
    dark_ground, _ = bloomed(run, night // 2)
    assert darker[31, 22].sum() > dark_ground[31, 22].sum()
    assert darker[31, 22].sum() < plain[31, 22].sum()


LAUNCHES = [
    ("zero", (), "trn1, LNC=1"),
    ("mirror", (), "trn1, LNC=1"),
    ("mirror", ("--target", "trn2"), "trn2, LNC=2"),
]


@sweeps.some("padding, arguments, where", LAUNCHES, LAUNCHES[:1])
def test_the_launch_is_modelled(run, lights, padding, arguments, where):
    result = run("lights.npy", "--padding", padding, *arguments)
    assert result.exit_code == 0, result.output
    assert "1, which convolves all channels" in result.stdout
    assert re.search(rf"kernel, modelled .* [\d.]+ us on {where} ", result.stdout)


def test_the_modelled_launch_is_that_of_the_backend():
    """In the simulator, which reports the same time."""
    light = torch.rand(2, 20, 24, generator=torch.Generator().manual_seed(0))
    psf = point_spread_functions.star(5)
    for padding in ("zero", "mirror"):
        found = glow.modelled(2, BloomFilter(psf, (20, 24), padding=padding), hardware.TRN1, 1)
        with trnfft.backend("nki-sim"), hardware.select(hardware.TRN1):
            bloom_filter = BloomFilter(psf, (20, 24), padding=padding)
            bloom_filter(light)
            with nki_sim.record() as timeline:
                bloom_filter(light)
        assert timeline.launches == 1
        assert found.kernel_ns == pytest.approx(timeline.total_ns, rel=1e-3)
        assert found.with_launch_ns == pytest.approx(timeline.with_launches_ns, rel=1e-3)


def test_no_kernel_for_the_picture(run, monkeypatch):
    np.save("wide.npy", np.ones((3, 20000), np.float32))
    result = run("wide.npy", "--size", 3)
    assert result.exit_code == 0, result.output
    assert "no kernel convolves it in one launch on trn1, LNC=1" in result.stdout


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
        (["lights.npy", "--psf", "sun"], "'--psf' is 'sun', allowed are star, gaussian, heart"),
        (["lights.npy", "--psf", "lights.npy", "--size", 3], "a picture has a size of its own"),
        (["lights.npy", "--psf", "dark.npy"], "no point spread function: one of its channels"),
        (
            ["lights.npy", "--psf", "pair.npy"],
            "2 channels, allowed as a point spread function are 1 or, as the picture has, 3",
        ),
        (["lights.npy", "--size", 0], "'--size' is 0, allowed is 1 to 2048"),
        (["lights.npy", "--size", 5000], "'--size' is 5000"),
        (["lights.npy", "--strength", 2], "'--strength' is 2, allowed is 0 to 1"),
        (["lights.npy", "--exposure", 33], "'--exposure' is 33, allowed is -32 to 32"),
        (["lights.npy", "--exposure", "nan"], "'--exposure' is nan, allowed is -32 to 32"),
        (["bright.npy", "--exposure", 5], "which makes light of 3.2e+30, allowed is up to 1e+30"),
        (["lights.npy", "--highlights", 9], "'--highlights' is 9, allowed only for PNG and JPEG"),
        (["a.png", "--highlights", 0.5], "'--highlights' is 0.5, allowed is 1 to 1000"),
        (["lights.npy", "--target", "trn9"], "target 'trn9' is not known"),
        (["lights.npy", "--lnc", 2, "--target", "trn1"], "is 2, allowed is 1"),
        (["lights.npy", "--padding", "wrap"], "'padding' is 'wrap', allowed are"),
        (["lights.npy", "--out", "a.jpg"], "must end in .png, .npy, .exr or .hdr"),
        (["pair.npy", "--out", "a.png"], "2 channels, allowed in a .png file are 1 or 3"),
        (["lights.npy", "--out", "lights.npy"], "the input itself"),
        (["lights.npy", "--psf", "pair.npy", "--out", "pair.npy"], "2 channels, allowed"),
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
    Image.new("L", (3, 3)).save(tmp_path / "a.png")
    before = sorted(path.name for path in tmp_path.iterdir())
    assert sentence in refused(run(*arguments))
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    np.testing.assert_array_equal(np.load(tmp_path / "lights.npy"), lights)


def test_failure_leaves_an_existing_picture_alone(run, tmp_path, lights, monkeypatch):
    (tmp_path / "bloom.png").write_bytes(b"old")

    def full(light, file, out, alpha):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("trnfft_demo.bloom.write_picture", full)
    assert "No space left" in refused(run("lights.npy", "--size", 5))
    assert (tmp_path / "bloom.png").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2
