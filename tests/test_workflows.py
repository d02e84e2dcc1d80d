"""The GitHub workflows name only what exists: scripts, options, pins, Python versions."""

from __future__ import annotations

import importlib
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from nki_sim.base.neuron_packages import INDEX

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parent.parent
WORKFLOWS = {path.stem: path for path in (ROOT / ".github" / "workflows").glob("*.yml")}


@cache
def load(name):
    """Returns a workflow; YAML 1.1 reads its key `on` as True."""
    return yaml.safe_load(WORKFLOWS[name].read_text("utf-8"))


def jobs():
    return [(name, job, spec) for name in WORKFLOWS for job, spec in load(name)["jobs"].items()]


def steps():
    return [
        pytest.param(step, id=f"{name}-{job}-{index}")
        for name, job, spec in jobs()
        for index, step in enumerate(spec["steps"])
    ]


def sdks():
    return load("neuron")[True]["workflow_dispatch"]["inputs"]["sdk"]


def pins(path):
    """Returns the names, in lower case, of the packages that a file pins."""
    lines = path.read_text("utf-8").splitlines()
    return {line.partition("==")[0].lower() for line in lines if "==" in line}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_they_may_only_read_and_a_newer_run_replaces_an_older_one(name):
    workflow = load(name)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["cancel-in-progress"] is True
    for job in workflow["jobs"].values():
        assert "permissions" not in job
        assert 1 <= job["timeout-minutes"] <= 90


@pytest.mark.parametrize("step", steps())
def test_a_step_is_a_known_action_or_commands_that_bash_can_read(step):
    if "uses" in step:
        action, version = step["uses"].split("@")
        assert action.split("/") in (
            ["actions", name] for name in ("checkout", "setup-python", "upload-artifact")
        )
        # A tag can be moved to another commit.
        assert re.fullmatch(r"[0-9a-f]{40}", version)
        return
    done = subprocess.run(["bash", "-n"], input=step["run"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "${{" not in step["run"], "inputs reach commands through variables of the environment"


@pytest.mark.parametrize("step", steps())
def test_every_file_that_a_step_names_is_there(step):
    text = step.get("run", "") + step.get("with", {}).get("cache-dependency-path", "")
    for name in re.findall(r"\b(?:scripts|tests)/[\w./$*-]+\w", text):
        for sdk in sdks()["options"]:
            assert list(ROOT.glob(name.replace("$SDK", sdk))), name


def test_pythons_are_those_that_the_project_supports():
    tested = load("tests")["jobs"]["cpu"]["strategy"]["matrix"]["python-version"]
    lowest = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text())[1]
    looked_for = (ROOT / "scripts" / "environment.sh").read_text()
    assert tested[0] == lowest
    assert set(re.findall(r"\bpython(3\.\d+)\b(?=[ )])", looked_for)) == set(tested)
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"Python {lowest} or newer (PyTorch/XLA: up to {tested[-1]})" in readme
    for _, _, job in jobs():
        for step in job["steps"]:
            version = step.get("with", {}).get("python-version", tested[0])
            assert version in (*tested, "${{ matrix.python-version }}")


def test_every_sdk_on_offer_has_its_pins():
    files = (ROOT / "scripts").glob("constraints-neuron-*.txt")
    offered = sdks()
    assert {f"constraints-neuron-{sdk}.txt" for sdk in offered["options"]} == {
        file.name for file in files
    }
    assert offered["default"] in offered["options"]
    for sdk in offered["options"]:
        # An unpinned package could come from the public index, which has placeholders.
        assert pins(ROOT / "scripts" / f"constraints-neuron-{sdk}.txt") == {"nki", "neuronx-cc"}


def test_what_a_step_installs_is_pinned_with_hashes():
    installs = [
        step["run"]
        for _, _, job in (one for one in jobs() if one[0] == "tests")
        for step in job["steps"]
        if "pip install" in step.get("run", "")
    ]
    assert len(installs) == 1  # the other jobs install through environment.sh
    assert "--require-hashes --no-deps --only-binary :all:" in installs[0]
    packages = pins(ROOT / "scripts" / "requirements-simulator.txt")
    assert {"numpy", "ml-dtypes", "pytest"} <= packages
    assert "torch" not in packages


@pytest.mark.parametrize("name", WORKFLOWS)
def test_an_action_names_the_version_of_its_commit(name):
    uses = [line for line in WORKFLOWS[name].read_text("utf-8").splitlines() if "uses:" in line]
    assert uses
    for line in uses:
        assert re.search(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line)
    assert len({line.split("uses:")[1] for line in uses}) <= 3  # each action has one version


def test_packages_of_aws_come_from_its_index_alone():
    assert INDEX not in load("neuron")["env"]["PIP_EXTRA_INDEX_URL"]
    for job in load("neuron")["jobs"].values():
        installs = [step for step in job["steps"] if "pip install" in step.get("run", "")]
        first = installs[0]
        assert f"--index-url {INDEX} --no-deps" in first["run"]
        assert first["env"] == {"PIP_EXTRA_INDEX_URL": ""}
        assert {"nki", "neuronx-cc"} <= set(first["run"].split())


@pytest.mark.parametrize(
    ("job", "script"),
    [("compare", "compare_simulators.py"), ("compile", "compile_kernels.py")],
)
def test_scripts_take_the_options_that_they_are_given(job, script, capsys):
    (command,) = [
        step["run"]
        for step in load("neuron")["jobs"][job]["steps"]
        if script in step.get("run", "")
    ]
    if job == "compile":
        pytest.importorskip("torch")  # the planner imports torch
    with pytest.raises(SystemExit) as end:
        importlib.import_module(script.removesuffix(".py")).main(["--help"])
    assert end.value.code == 0
    options = re.findall(r"--[a-z-]+", command)
    assert options and set(options) <= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    targets = load("neuron")[True]["workflow_dispatch"]["inputs"]["target"]
    assert targets["default"] in targets["options"] == ["trn1", "trn2", "trn3"]


def test_commands_of_trnfft_exist():
    pytest.importorskip("torch")
    from trnfft import cli

    text = " ".join(path.read_text("utf-8") for path in WORKFLOWS.values())
    used = set(re.findall(r"bin/trnfft ([a-z]+)", text))
    assert used
    assert used <= set(cli.COMMANDS)
