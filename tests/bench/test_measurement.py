"""Percentiles, the line through times of chains, the calls of chains, and the environment."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from bench import environment, measurement
from bench.environment import git_state
from bench.measurement import CALLS, chain_us, fitted, following, latency, measured, repeated
from trnfft import ComplexTensor
from trnfft.base import neuron_launchers


def test_percentiles():
    samples = [float(us) for us in np.random.default_rng(0).permutation(np.arange(1, 102))]
    found = latency(samples)
    assert (found.min_us, found.p50_us, found.p90_us, found.p99_us) == (1, 51, 91, 100)
    assert (found.mean_us, found.calls) == (51, 101)
    assert latency([3.0]).p99_us == latency([3.0]).min_us == 3


def test_line_through_noisy_times():
    noise = np.random.default_rng(0).normal(0, 3, 400)
    counts = np.tile((1, 2, 4, 8), 100)
    line = fitted(counts, 700 + 40 * counts + noise)
    assert line.slope == pytest.approx(40, rel=0.02)
    assert line.intercept == pytest.approx(700, rel=0.02)
    assert line.residual == pytest.approx(3, rel=0.1)


PLACES = {
    "torch_neuronx": "torch_neuronx.nki_hop",
    "libtorch_neuronx_lite": "libtorch_neuronx_lite.nki.nki_hop",
}


@pytest.mark.parametrize("package", PLACES)
def test_the_device_is_that_of_the_package_that_launches(monkeypatch, tmp_path, package):
    place = tmp_path.joinpath(*PLACES[package].split("."))
    place.parent.mkdir(parents=True)
    place.with_suffix(".py").write_text("def wrap_nki(kernel): ...")
    monkeypatch.syspath_prepend(tmp_path)
    neuron_launchers.launcher.cache_clear()
    try:
        assert measurement.device_of("nki") == "neuron" and package in sys.modules
        assert neuron_launchers.launcher("wrap_nki").__module__ == PLACES[package]
    finally:
        neuron_launchers.launcher.cache_clear()
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            del sys.modules[name]
    assert measurement.device_of("nki-sim") == "cpu"
    waits = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: waits.append("waited"))
    values = measured(lambda x: 2 * x, [torch.ones(3)], "neuron")[1]
    assert waits and values["latency"].calls >= 1 and "kernel_us" not in values


def test_the_result_is_the_next_input_where_it_fits():
    x, weight = torch.randn(3, 4), torch.randn(2)
    assert following((x, weight), x + 1)[1] is weight
    torch.testing.assert_close(following((x,), x + 1)[0], x + 1)
    split = ComplexTensor(x, -x)
    assert following((split,), split)[0] is split


@pytest.mark.parametrize(
    "result",
    [
        torch.full((5,), 3.0),
        torch.full((5,), 3 + 1j),
        ComplexTensor(torch.full((5,), 3.0), torch.zeros(5)),
        (torch.full((5,), 3.0), torch.zeros(7)),
    ],
)
def test_else_the_next_input_waits_for_the_result_and_has_the_same_values(result):
    x = torch.randn(3, 4)
    (after,) = following((x,), result)
    torch.testing.assert_close(after, x, rtol=0, atol=0)
    first = result[0] if isinstance(result, tuple) else result
    (first if isinstance(first, torch.Tensor) else first.real)[0] = torch.nan
    assert following((x,), result)[0].isnan().all()


def test_calls_of_a_chain():
    given = []

    def call(x):
        given.append(x.clone())
        return 2 * x

    assert chain_us(call, [torch.ones(2)], lambda: None, 3) > 0
    assert [x[0].item() for x in given] == [1, 2, 4] * (len(given) // 3)


def test_number_of_calls():
    assert len(repeated(lambda: None, 0.0)) == CALLS[0]
    assert len(repeated(lambda: None, 60.0)) == CALLS[1]


def test_on_a_cpu_no_kernel_time_is_claimed():
    result, values = measured(lambda x: x + 1, [torch.ones(3)], "cpu")
    assert result.tolist() == [2, 2, 2]
    assert values["latency"].calls >= CALLS[0] and "kernel_us" not in values


def test_results_that_are_not_finite_are_no_errors():
    with pytest.raises(ArithmeticError, match="not finite"):
        measurement.relative_error(np.array([np.nan, 1.0]), np.array([1.0, 1.0]))


def test_environment_without_neuron_software():
    found = environment.environment()
    assert (found.device, found.sdk, found.nki) == ("", "", "simulator")
    assert found.packages["torch"].startswith(torch.__version__.partition("+")[0])
    assert found.packages["neuronx-cc"] == "" and found.cpu and found.cpu_count >= 1


def test_environment_outside_of_git(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state(tmp_path) == ("", None)


def test_environment_without_the_git_command(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = environment.environment()
    assert (found.git_revision, found.git_is_dirty, found.system_packages) == ("", None, {})


def test_revision_and_changes(tmp_path, monkeypatch):
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(variable, raising=False)

    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", "-C", tmp_path, *identity, *arguments], check=True)

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    revision, is_dirty = git_state(tmp_path)
    assert len(revision) == 40 and is_dirty is False
    (tmp_path / "new").write_text("")
    assert git_state(tmp_path) == (revision, True)


def test_versions_of_a_device(tmp_path, monkeypatch):
    (tmp_path / "device_name").write_text("Trainium1\n")
    (tmp_path / "instance_type").write_text("Trn1\n")
    monkeypatch.setattr(environment, "DEVICE", tmp_path)
    monkeypatch.setattr(environment.isa, "REAL_NKI", True)
    versions = {"nki": "0.7.0+1234.abc", "neuronx-cc": "2.30"}
    monkeypatch.setattr(environment, "version", lambda name: versions.get(name, ""))
    found = environment.environment()
    assert (found.device, found.instance) == ("Trainium1", "Trn1")
    assert (found.nki, found.sdk) == ("0.7.0+1234.abc", "2.33")
    assert found.packages["neuronx-cc"] == "2.30"
