"""`trnfft spectrum` reports on a launch, writes a picture, and refuses bad input in one line."""

import os
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from nki_sim import hardware
from tests import sweeps
from tests.tolerances import near, sums, transforms
from trnfft import cli
from trnfft_demo import spectrum
from trnfft_demo.recording import Recording, read_recording

from .test_recording import write_wav

pytest.importorskip("matplotlib")

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs `trnfft spectrum ...` in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(cli.app, ["spectrum", *map(str, arguments)])


@pytest.fixture
def noise(tmp_path):
    """A recording of 400 samples: two frames."""
    path = tmp_path / "noise.npy"
    np.save(path, np.random.default_rng(1).standard_normal(400))
    return path


def refused(result, code=2):
    """The sentence of a command that ended with it."""
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_without_a_file_the_ecg(run, tmp_path):
    pytest.importorskip("pywt")
    result = run()
    assert result.exit_code == 0, result.output
    assert "ECG" in result.stdout
    assert re.search(r"kernel, modelled .* 6\.\d+ us ", result.stdout)
    assert re.search(r"length of a frame .* 256 points, 711 ms ", result.stdout)
    assert "wrote spectrum.png" in result.stdout
    assert (tmp_path / "spectrum.png").read_bytes().startswith(PNG_SIGNATURE)


@sweeps.some("target", ["trn1", "trn2", "trn3"], ["trn3"])
def test_every_chip(run, noise, target, monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "inf2")
    result = run(noise, "--target", target)
    assert result.exit_code == 0, result.output
    assert f"a simulated {target}, LNC={hardware.degree(hardware.chip(target))}" in result.stdout
    assert os.environ[hardware.TARGET_VARIABLE] == "inf2"


@pytest.mark.weekly
@sweeps.some("samples", [2, 3, 100, 255, 256, 257, 384, 1000], [2])
def test_any_length(run, tmp_path, samples):
    (tmp_path / "a.csv").write_text("\n".join(str(i % 7) for i in range(samples)))
    result = run("a.csv", "--out", "a.png")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "a.png").read_bytes().startswith(PNG_SIGNATURE)


@sweeps.some("scale", [0.0, 1e-300, 3e38], [0.0])
def test_silent_soft_and_loud_recordings(run, tmp_path, scale):
    np.save(tmp_path / "a.npy", scale * np.cos(np.arange(300)))
    result = run("a.npy")
    assert result.exit_code == 0, result.output
    assert "nan" not in result.stdout.lower()
    assert (tmp_path / "spectrum.png").read_bytes().startswith(PNG_SIGNATURE)


@pytest.mark.sweep
def test_name_that_looks_like_markup_or_mathematics(run, tmp_path):
    (tmp_path / "[red]$\\x.csv").write_text("1\n2\n3\n")
    result = run("[red]$\\x.csv")
    assert result.exit_code == 0, result.output
    assert "[red]$\\x.csv" in result.stdout


@pytest.mark.parametrize(
    "rate, samples, points",
    [
        (44100, 10**6, 2048),  # 46 ms
        (48000, 10**6, 2048),
        (8000, 10**6, 256),  # 32 ms
        (22050, 10**6, 1024),
        (192000, 10**6, 8192),
        (44100, 1000, 512),  # two frames and a half, which overlap
        (44100, 300, 256),
        (44100, 100, 100),
        (360, 1024, 256),  # an ECG, of which 40 ms would be 14 points
        (None, 10**6, 256),
        (1e-9, 1000, 256),
        (4e9, 1000, 512),
    ],
)
def test_default_length_of_a_frame(rate, samples, points):
    recording = Recording("a", np.ones(samples), rate)
    assert spectrum.frame_points(recording, None) == points


@sweeps.some("points", [2, 200, 257, 399], [200])
def test_a_frame_of_any_length(run, noise, points):
    result = run(noise, "--frame", points)
    assert result.exit_code == 0, result.output
    assert f"{points} points " in result.stdout


@pytest.mark.parametrize("points", [1, 0, -5, 401])
def test_a_frame_that_cannot_be(run, noise, points):
    sentence = refused(run(noise, f"--frame={points}"))
    assert f"'--frame' is {points}, allowed is 2 to 400" in sentence


@pytest.mark.sweep
def test_several_channels_are_said_to_be_mixed(run, tmp_path):
    write_wav("stereo.wav", np.arange(2000, dtype="<i2").tobytes(), channels=2)
    result = run("stereo.wav")
    assert result.exit_code == 0, result.output
    assert "the mean of 2 channels is transformed" in result.stdout


def test_frames_cover_the_signal():
    samples = np.arange(512.0)
    frames = spectrum.cut_frames(samples, 256)
    assert frames.shape == (3, 256)
    # Half overlapping Hann windows add up to one, so the middle comes back.
    near(frames[0, 128:] + frames[1, :128], samples[128:256], sums(2, "float64"))


def test_launch_is_measured_against_numpy(noise):
    frames = spectrum.cut_frames(read_recording(noise).samples, 256)
    launch = spectrum.transform(frames, hardware.chip("trn1"))
    near(launch.error, 0.0, transforms(256), scale=1.0)
    numbers = 2 * (256 + 2 * 129)  # of two real frames and of half of their spectra
    assert launch.floor_ns == hardware.chip("trn1").dma_floor_ns(1, 4 * numbers)
    exact = np.fft.rfft(frames)
    units = np.linalg.norm(launch.spectra) / np.linalg.norm(exact)
    near(launch.spectra, units * exact, transforms(256))


@pytest.mark.sweep
@pytest.mark.parametrize("degree", ["1", "2"])
def test_the_degree_of_lnc_is_that_of_the_chip(run, noise, monkeypatch, degree):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")
    monkeypatch.setenv(hardware.LNC_VARIABLE, degree)
    result = run(noise)
    assert result.exit_code == 0, result.output
    assert f"a simulated trn2, LNC={degree}" in result.stdout
    other = "1" if degree == "2" else "2"
    assert f"a simulated trn2, LNC={other}" in run(noise, "--lnc", other).stdout
    monkeypatch.setenv(hardware.LNC_VARIABLE, "3")
    sentence = refused(run(noise))
    assert "is '3'" in sentence and "allowed on trn2 is 1 or 2" in sentence


def test_failure_leaves_an_existing_picture_alone(run, tmp_path):
    (tmp_path / "spectrum.png").write_bytes(b"old")
    refused(run("missing.wav"))
    assert (tmp_path / "spectrum.png").read_bytes() == b"old"


def test_error_above_the_limit_fails_without_a_picture(run, noise, tmp_path, monkeypatch):
    right = spectrum.launched
    monkeypatch.setattr(
        spectrum,
        "launched",
        lambda *arguments: [part * np.float32(1.001) for part in right(*arguments)],
    )
    assert "above the limit" in refused(run(noise), code=1)
    assert not (tmp_path / "spectrum.png").exists()


def test_unknown_target(run, noise):
    assert "trn9" in refused(run(noise, "--target", "trn9"))


@pytest.mark.parametrize(
    "out, sentence",
    [
        ("missing/a.png", "there is no folder missing"),
        ("/dev/null", "not a regular file"),
        ("noise.npy", "the input itself"),
        ("a" * 300 + ".png", "too long"),
    ],
)
def test_output_that_cannot_be(run, noise, out, sentence):
    before = noise.read_bytes()
    assert sentence in refused(run(noise, "--out", out))
    assert noise.read_bytes() == before
    assert [path.name for path in noise.parent.iterdir()] == ["noise.npy"]
