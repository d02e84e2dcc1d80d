"""The command shows a launch and its error, writes a picture, and refuses bad input in one line."""

import os
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from nki_kernels import hardware
from tests import sweeps
from trnfft import cli
from trnfft.cli import spectrum
from trnfft.cli.recording import Recording, read_recording

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
    assert re.search(r"kernel, modelled .* 10\.\d+ us ", result.stdout)
    assert re.search(r"with a launch, about .* 430 us ", result.stdout)
    assert "A launch by PyTorch/XLA takes 140 to 700 us" in result.stdout
    assert re.search(r"DMA floor .* us, .*% of the modelled time", result.stdout)
    assert "wrote spectrum.png" in result.stdout
    assert (tmp_path / "spectrum.png").read_bytes().startswith(PNG_SIGNATURE)


@sweeps.some("target", ["trn1", "trn2", "trn3"], ["trn1", "trn3"])
def test_every_chip(run, noise, target, monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "inf2")
    result = run(noise, "--target", target)
    assert result.exit_code == 0, result.output
    assert f"a simulated {target}, LNC={hardware.degree(hardware.chip(target))}" in result.stdout
    assert os.environ[hardware.TARGET_VARIABLE] == "inf2"


@sweeps.some("samples", [2, 3, 100, 255, 256, 257, 384, 1000], [2, 256, 257])
def test_any_length(run, tmp_path, samples):
    (tmp_path / "a.csv").write_text("\n".join(str(i % 7) for i in range(samples)))
    result = run("a.csv", "--out", "a.png")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "a.png").read_bytes().startswith(PNG_SIGNATURE)


@pytest.mark.parametrize("scale", [0.0, 1e-300, 3e38])
def test_silent_soft_and_loud_recordings(run, tmp_path, scale):
    np.save(tmp_path / "a.npy", scale * np.cos(np.arange(300)))
    result = run("a.npy")
    assert result.exit_code == 0, result.output
    assert "nan" not in result.stdout.lower()
    assert (tmp_path / "spectrum.png").read_bytes().startswith(PNG_SIGNATURE)


def test_name_that_looks_like_markup_or_mathematics(run, tmp_path):
    (tmp_path / "[red]$\\x.csv").write_text("1\n2\n3\n")
    result = run("[red]$\\x.csv")
    assert result.exit_code == 0, result.output
    assert "[red]$\\x.csv" in result.stdout


def test_frames_cover_the_signal():
    samples = np.arange(512.0)
    frames = spectrum.cut_frames(samples)
    assert frames.shape == (3, 256)
    # Half overlapping Hann windows add up to one, so the middle comes back.
    np.testing.assert_allclose(frames[0, 128:] + frames[1, :128], samples[128:256], rtol=1e-12)


def test_launch_is_measured_against_numpy(noise):
    frames = spectrum.cut_frames(read_recording(noise).samples)
    launch = spectrum.transform(frames, hardware.chip("trn1"))
    assert 0 < launch.error <= spectrum.TOLERANCE
    assert launch.floor_ns == hardware.chip("trn1").dma_floor_ns(2 * 256)
    ratio = launch.spectra / np.fft.fft(frames)
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-3)


@pytest.mark.parametrize("degree", ["1", "2"])
def test_the_degree_of_lnc_is_that_of_the_chip(run, noise, monkeypatch, degree):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")
    monkeypatch.setenv(hardware.LNC_VARIABLE, degree)
    result = run(noise)
    assert result.exit_code == 0, result.output
    assert f"a simulated trn2, LNC={degree}" in result.stdout
    monkeypatch.setenv(hardware.LNC_VARIABLE, "3")
    assert "is '3', allowed on trn2 is 1 or 2" in refused(run(noise))


def test_two_cores_have_a_half_of_each_lane():
    launch = spectrum.transform(np.ones((256, 64)), hardware.TRN2, 2)
    recording = Recording("ones", np.ones(64), None)
    *_, axes = spectrum.draw(recording, launch).axes
    boxes = [path.get_extents() for each in axes.collections for path in each.get_paths()]
    assert {round(box.height, 6) for box in boxes} == {0.4}
    lanes = {round(box.y0, 6) for box in boxes}
    assert {lane + 0.4 for lane in lanes if lane % 1 > 0.5} == {
        lane for lane in lanes if not lane % 1
    }
    assert "trn2, LNC=2" in axes.get_title()


def test_bad_file_leaves_no_picture(run, tmp_path):
    (tmp_path / "a.csv").write_text("1\nnan\n")
    assert "a.csv" in refused(run("a.csv"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_failure_leaves_an_existing_picture_alone(run, tmp_path):
    (tmp_path / "spectrum.png").write_bytes(b"old")
    refused(run("missing.wav"))
    assert (tmp_path / "spectrum.png").read_bytes() == b"old"


def test_error_above_the_limit_fails_without_a_picture(run, noise, tmp_path, monkeypatch):
    right = spectrum.dft_matrix
    monkeypatch.setattr(
        spectrum, "dft_matrix", lambda *arguments: right(*arguments) * np.float32(1.001)
    )
    assert "above the limit" in refused(run(noise), code=1)
    assert not (tmp_path / "spectrum.png").exists()


def test_unknown_target(run, noise):
    assert "trn9" in refused(run(noise, "--target", "trn9"))


@pytest.mark.parametrize(
    "out, sentence",
    [
        ("missing/a.png", "there is no folder missing"),
        (".", "not a regular file"),
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


def test_help_names_the_subcommand():
    result = CliRunner().invoke(cli.app, ["--help"])
    assert result.exit_code == 0
    assert "spectrum" in result.stdout
