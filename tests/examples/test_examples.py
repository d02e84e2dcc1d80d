"""Every example runs in a folder of its own and does what the examples' README shows.

The pictures of the README come from the files that the examples write, with at most 100 kB each:
Image.open(written).convert("RGB").quantize(200, kmeans=1).save(shown, optimize=True)
"""

import ast
import importlib.util
import re
import wave
from pathlib import Path

import numpy as np
import pytest

for needed in ("matplotlib", "PIL", "pywt", "torch"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"the examples need {needed}", allow_module_level=True)

import torch  # noqa: E402
from PIL import Image  # noqa: E402

import trnfft  # noqa: E402
from tests import programs, sweeps  # noqa: E402
from tests.tolerances import near, together, transforms  # noqa: E402
from trnfft.planner.accuracy import MAX_ERRORS  # noqa: E402

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
README = (EXAMPLES / "README.md").read_text("utf-8")
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]\d+)?")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A folder for remembered plans."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def run(cache):
    """A function that runs an example in a folder and returns what it prints."""

    def run(name, folder, *arguments):
        return programs.printed_by([EXAMPLES / f"{name}.py", *arguments], folder, cache)

    return run


def shown(name):
    """The output of an example as README shows it."""
    section = README.split(f"\n## {name}.py\n")[1].split("\n## ")[0]
    return section.split("```text\n")[1].split("```")[0]


def words(text):
    """The lines of a text without its numbers and the width of its columns."""
    return [" ".join(NUMBER.sub("#", line).split()) for line in text.splitlines()]


def numbers(text):
    return [float(number) for number in NUMBER.findall(text)]


def small(error, tolerance):
    """Fails unless a printed relative error is below a tolerance."""
    near(float(error), 0.0, tolerance, scale=1.0)


def percentages(text):
    return [float(number) for number in re.findall(r"([\d.]+)%", text)]


def assert_picture_as_shown(written):
    """The picture that README shows is that of the example, but for its colours and fonts."""
    picture = EXAMPLES / "pictures" / written.name
    assert picture.stat().st_size < 100_000
    assert f"(pictures/{written.name})" in README
    with Image.open(written) as new, Image.open(picture) as old:
        assert new.size == old.size
        difference = np.subtract(*(np.asarray(i.convert("RGB"), np.float64) for i in (new, old)))
    assert np.abs(difference).mean() < 4  # of 255


def test_every_example_has_a_test_and_a_place_in_the_readme():
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    tested = {name.removeprefix("test_") for name in globals()}
    assert names <= tested
    assert names == set(re.findall(r"^## (\w+)\.py$", README, re.MULTILINE))
    assert names == set(re.findall(r"^\| \[(\w+)\.py\]\(\1\.py\)", README, re.MULTILINE))


def test_every_example_says_what_it_needs_and_how_to_run_it():
    for path in EXAMPLES.glob("*.py"):
        says = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        for label in ("Needs:   ", f"Run:     python examples/{path.name}", "Prints:  "):
            assert f"\n{label}" in says, path.name


def test_spectrogram(run, tmp_path):
    printed = run("spectrogram", tmp_path)
    assert "1024 samples at 360 Hz" in printed
    assert "193 frequencies x 171 frames" in printed
    small(re.search(r"relative L2 error of (\S+)", printed)[1], transforms(384, 2))
    assert_picture_as_shown(tmp_path / "spectrogram.png")


@pytest.mark.sweep
def test_spectrogram_of_a_wav_file_in_the_simulator(run, tmp_path):
    tone = np.sin(2 * np.pi * 1000 / 8000 * np.arange(800))
    with wave.open(str(tmp_path / "tone.wav"), "wb") as file:
        file.setparams((2, 2, 8000, 0, "NONE", None))
        file.writeframes(np.repeat(32000 * tone, 2).astype("<i2").tobytes())
    arguments = ("tone.wav", "--frame", 64, "--backend", "nki-sim", "--out", "tone.png")
    printed = run("spectrogram", tmp_path, *arguments)
    assert "800 samples at 8000 Hz: 0.10 s" in printed
    small(re.search(r"relative L2 error of (\S+)", printed)[1], transforms(4 * 64, 2))
    with Image.open(tmp_path / "tone.png") as picture:
        assert picture.size == (800, 500)


def test_fourier_neural_operator(run, tmp_path):
    """After some steps; the picture is that of all steps, below."""
    printed = run("fourier_neural_operator", tmp_path, "--steps", 10)
    assert words(printed) == words(shown("fourier_neural_operator"))
    spectral, spectral_fine, *others = percentages(printed)
    assert max(spectral, spectral_fine) < 0.7 * min(others)


@pytest.mark.sweep
def test_fourier_neural_operator_after_all_steps(run, tmp_path):
    printed = run("fourier_neural_operator", tmp_path)
    assert words(printed) == words(shown("fourier_neural_operator"))
    assert percentages(printed) == pytest.approx(
        percentages(shown("fourier_neural_operator")), rel=0.3
    )
    spectral, spectral_fine, *others = percentages(printed)
    assert max(spectral, spectral_fine) < 5 and min(others) > 25
    assert_picture_as_shown(tmp_path / "fourier_neural_operator.png")


def test_hyena(run, tmp_path):
    printed = run("hyena", tmp_path, "--points", 2048)
    assert words(printed) == words(shown("hyena"))
    *steps, change = printed.splitlines()
    losses = [numbers(line)[1] for line in steps]
    assert losses[-1] < losses[0] / 4
    small(numbers(change)[0], transforms(2 * 2048, 2))


@sweeps.some("backend", ["matmul", "nki-sim"], ["matmul"])
def test_neuraloperator_fno(run, tmp_path, backend):
    pytest.importorskip("neuralop", reason="neuraloperator is not installed")
    printed = run("neuraloperator_fno", tmp_path, "--backend", backend, "--steps", 20)
    assert words(printed) == words(shown("neuraloperator_fno"))
    by_torch, *others = (numbers(line) for line in printed.splitlines())
    assert by_torch[1] < by_torch[0] / 2
    for losses in others:
        assert losses == pytest.approx(by_torch, abs=2e-4)


def test_bloom(run, tmp_path):
    printed = run("bloom", tmp_path)
    assert "400 x 280 pixels" in printed
    before, after = numbers(printed.splitlines()[1])
    assert 1 < after < before
    assert 95 < percentages(printed)[0] <= 100
    assert_picture_as_shown(tmp_path / "bloom.png")


@pytest.mark.sweep
def test_bloom_of_a_file(run, tmp_path):
    light = np.random.default_rng(1).random((20, 30, 3), np.float32) ** 8
    np.save(tmp_path / "night.npy", light)
    assert "30 x 20 pixels" in run("bloom", tmp_path, "night.npy", "--out", "glow.npy")
    psf = trnfft.point_spread_functions.star(255, 6)
    wanted = trnfft.bloom(torch.from_numpy(light).movedim(-1, 0), psf, strength=0.35)
    found = np.load(tmp_path / "glow.npy")
    near(found, wanted.movedim(0, -1), transforms((20 + 254, 30 + 254), 2))


def test_own_kernel(run, tmp_path):
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    printed = run("own_kernel", tmp_path, "--trace", "kernel.pftrace")
    error, rest = printed.split("\n", 1)
    assert rest == shown("own_kernel").split("\n", 1)[1]
    small(error.split()[-1], MAX_ERRORS["fast"])
    trace = protos.Trace.FromString((tmp_path / "kernel.pftrace").read_bytes())
    names = {packet.track_descriptor.name for packet in trace.packet}
    assert {"tensor", "vector", "dma load", "SBUF"} <= names


@pytest.mark.sweep
def test_taylor_green(run, tmp_path):
    printed = run("taylor_green", tmp_path, "--points", 32, "--steps", 80)
    assert words(printed)[1:] == words(shown("taylor_green"))[1:]
    (lost,), (until, series), (dissipation,) = map(numbers, printed.splitlines()[-5:-2])
    assert lost < 1e-7
    assert until == 1
    assert series < 1e-8
    assert dissipation < 1.5  # percent, as exactly as the figure could be read
    rows, of_page = np.array(history(printed)), np.array(history(shown("taylor_green")))
    assert rows == pytest.approx(of_page, rel=0.01)  # the page's run has more points and steps
    assert_picture_as_shown(tmp_path / "taylor_green.png")


def test_taylor_green_ends_with_the_energy_of_another_program(run, tmp_path):
    arguments = ("--points", 32, "--reynolds", 1600, "--time", 0.1, "--steps", 10)
    *_, last = history(run("taylor_green", tmp_path, *arguments))
    # mpi4py-fft, examples/spectral_dns_solver.py, after 10 steps of the same size
    energy = 0.124953117517
    rounding = 1e-12 / energy  # of both printed numbers
    near(last[1], energy, together(transforms((32, 32, 32), 4 * 10, "float64"), rounding))


@pytest.mark.sweep  # a program of the documentation runs on four processes by default
def test_taylor_green_on_four_processes_as_on_one(run, tmp_path, cache):
    arguments = ("--points", 16, "--time", 1, "--steps", 10)
    alone = run("taylor_green", tmp_path, *arguments)
    command = [EXAMPLES / "taylor_green.py", *arguments]
    four, *others = programs.printed_by_processes(4, command, tmp_path, cache)
    assert others == [""] * 3
    assert "4 processes" in four
    assert len(history(four)) == 11
    near(history(four), history(alone), transforms((16, 16, 16), 4 * 10))
    assert history(four)[-1][1] < 0.12  # it has decayed


def history(printed):
    """Time, energy and dissipation of each line of their table."""
    return [numbers(line) for line in printed.splitlines() if re.match(r"\s*\d+\.\d+  0\.", line)]
