"""Runs that succeed, what they leave behind, and arguments with which none begins.

By default, one run on a stopped instance and one on a launched instance; the others are sweeps.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from shlex import quote

import pytest
from typer.testing import CliRunner

from nki_sim.base.neuron_packages import FROM_AWS_ALONE, INDEX
from remote.job import WHEELS
from remote.sets import SETS

from .conftest import SCRIPTS, git
from .fake_aws import error, first, flip, lose_answer, output

sweep = pytest.mark.sweep
PARITY = "bench.parity"
ONE = ("--sets", "parity")


def read(out, name):
    return json.loads((out / name).read_text())


def test_stopped_instance(call, aws, out):
    """The smoke test of a whole run, in which answers are refused, lost or damaged for a while."""
    instance = aws.new_instance()
    aws.behave({"-m pytest tests": {"content": "<testsuites/>"}})
    passing = [
        aws.inject("SendCommand", error("ThrottlingException"), "start"),
        aws.inject("StartInstances", lose_answer),
        aws.inject("GetCommandInvocation", output(flip), "chunk", times=2),
    ]
    call("run", "--instance", instance)
    assert all(fault.struck for fault in passing)
    assert (out / "tests.xml").read_text() == "<testsuites/>"
    assert read(out, "parity.json") == {"from": PARITY}
    assert read(out, "probes.json") == {"from": "bench.probes"}
    assert read(out, "benchmarks.json") == {"from": "bench.run"}
    assert read(out, "accuracy.json") == {"from": "bench.accuracy"}
    assert "running bench.parity" in (out / "parity.log").read_text()
    assert aws.state(instance) == "stopped"
    assert not aws.operations("TerminateInstances", "RunInstances")


def test_launched_instance(call, aws, out):
    sets = "--sets", "parity,accuracy"
    call("run", "--template", aws.new_template(), *sets)
    assert read(out, "accuracy.json") == {"from": "bench.accuracy"}
    assert aws.states() == ["terminated"]


@sweep
def test_running_instance_by_tag_is_left_running(call, aws):
    instance = aws.new_instance(stopped=False, Purpose="bench")
    aws.new_instance(stopped=False, Purpose="other")
    call("run", "--tag", "Purpose=bench", "--set", "parity")
    assert aws.states() == ["running", "running"]
    assert aws.shutdown_time(instance) is None
    assert not aws.operations("StopInstances", "StartInstances")


@sweep
def test_instance_stops_itself_after_the_time_limit(call, aws):
    instance = aws.new_instance()
    seen = []
    # The switch is set before the first poll: read it before the run ends and clears it.
    aws.inject("StopInstances", first(lambda: seen.append(aws.shutdown_time(instance))))
    said = call("run", "--instance", instance, *ONE, "--hours", "1.5")
    assert seen == ["+90"]  # 1.5 h and a minute of grace, without the part that has passed
    # The estimate comes before anything costs: it has the minute of grace, at 1.34375 dollars.
    assert "$2.04: 1.52 h" in said
    assert said.index("cost at most") < said.index("starting i-")


@sweep
def test_a_start_that_lasts_too_long_takes_its_time_from_the_job(call, aws, monkeypatch):
    """Otherwise the run could cost more than the estimate."""
    monkeypatch.setattr("remote.pace.START", -120.0)  # it has lasted two minutes too long
    instance = aws.new_instance()
    seen = []
    aws.inject("StopInstances", first(lambda: seen.append(aws.shutdown_time(instance))))
    call("run", "--instance", instance, *ONE, "--hours", "1.5")
    assert seen == ["+88"]


@sweep
def test_keep_launches_without_a_switch(call, aws):
    said = call("run", "--template", aws.new_template(), *ONE, "--keep")
    assert "left running" in said and aws.states() == ["running"]
    (launch,) = aws.operations("RunInstances")
    assert launch.parameters["TagSpecification.1.Tag.1.Key"] == "trnfft-job"
    assert "UserData" not in launch.parameters
    assert launch.parameters["InstanceInitiatedShutdownBehavior"] == "stop"
    assert aws.shutdown_time(*aws.instances()) is None
    call("stop")
    assert aws.states() == ["terminated"]


@sweep
def test_types_without_a_price_and_without_a_neuron_core(call, aws):
    call("run", "--template", aws.new_template("cheap", "t3.micro"), *ONE, code=2)
    assert aws.states() == []
    said = call("run", "--template", aws.new_template("new", "trn3gen2.48xlarge"), *ONE)
    assert "unknown: there is no price of trn3gen2.48xlarge here" in said


# What runs on the instance


def test_the_bench_programs_are_there():
    lines = [line.split() for one in SETS.values() for line in one.commands]
    programs = {line[2] for line in lines if line[2].startswith("bench.")}
    assert programs and all(importlib.util.find_spec(program) for program in programs)


@pytest.fixture
def wheels(repository):
    """Copies the pins of this repository into the small one."""
    (repository / "scripts").mkdir()
    for file in SCRIPTS.glob("wheels-neuron-*.txt"):
        (repository / "scripts" / file.name).write_bytes(file.read_bytes())
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "wheels")


@sweep
@pytest.mark.parametrize(("kind", "name"), [("trn1.2xlarge", "trn1"), ("trn2.3xlarge", "trn2")])
def test_an_environment_is_made_of_pinned_wheels(call, aws, wheels, kind, name, tmp_path):
    instance = aws.new_instance(kind=kind)
    call("run", "--instance", instance, *ONE, venv=False)
    installs = (aws.venv / "pip.log").read_text().splitlines()
    file = f"scripts/wheels-neuron-{name}.txt"
    of_aws = f"PIP_CONFIG_FILE=/dev/null -m pip install -q -r {file} {' '.join(FROM_AWS_ALONE)}"
    assert installs[:2] == [of_aws, f"-m pip install -q -r {file}"]
    assert not any("--extra-index-url" in line for line in installs)
    assert installs[-1].endswith("constraints.txt -e .[dev]")
    call("run", "--instance", instance, *ONE, "--out", str(tmp_path / "two"), venv=False)
    installs = (aws.venv / "pip.log").read_text().splitlines()
    assert sum("wheels-neuron" in line for line in installs) == 2  # it is made once


@sweep
def test_wheels_that_the_image_cannot_have(call, aws, wheels):
    aws.program(aws.venv / "bin" / "python", "exit 1")
    said = call("run", "--instance", aws.new_instance(), *ONE, venv=False, code=1)
    assert f"pip could not install wheels-neuron-trn1.txt from {INDEX}" in said
    assert "an environment that is on the image with --venv" in said


@sweep
def test_venv_of_a_base_image_comes_from_apt(call, aws, wheels):
    instance = aws.new_instance()
    bare = aws.disk(instance) / "bin"
    make = f'test -e $HOME/venv-there && exec ln -s {aws.venv} "$3"; exit 1'
    other = f'exec {quote(sys.executable)} -IS "$@"'
    aws.program(bare / "python3", f'if [ "$1 $2" = "-m venv" ]; then {make}; fi\n{other}')
    aws.program(bare / "apt-get", 'echo "$*" >> $HOME/apt.log; touch $HOME/venv-there')
    call("run", "--instance", instance, *ONE, venv=False)
    assert (aws.disk(instance) / "apt.log").read_text() == "-q update\n-qy install python3-venv\n"


def test_wheels_are_pinned_and_those_of_the_workflow():
    constraints = (SCRIPTS / "constraints-neuron-2.33.txt").read_text()
    pins = set(re.findall(r"^[\w.-]+==[\d.]+$", constraints, re.M))
    files = sorted(SCRIPTS.glob("wheels-neuron-*.txt"))
    assert {f"scripts/{file.name}" for file in files} == set(WHEELS.values())
    for file in files:
        lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
        assert all(re.fullmatch(r"[\w-]+==[\d.]+", line) for line in lines)
        assert pins <= set(lines)
        # All of them come from AWS's index. Packages of others are no part of the list.
        names = {line.partition("==")[0] for line in lines}
        assert names <= {"libneuronxla", "neuronx-cc", "nki", "nrtpy", "torch-neuronx"}


@sweep
def test_environment_on_the_instance(call, aws, repository, out):
    """A program runs the files of the commit alone, with the variables of AWS's compiler."""
    (repository / "new.txt").write_text("not committed")
    check = (
        "import os; print(os.environ['NEURON_CC_FLAGS'], os.environ['PATH'].split(':')[0]);"
        "print(os.environ['NEURON_PLATFORM_TARGET_OVERRIDE'], os.environ['TRNFFT_REVISION']);"
        "print(open('../constraints.txt').read(), sorted(os.listdir('.')))"
    )
    aws.behave({PARITY: {"do": check}})
    call("run", "--instance", aws.new_instance(), *ONE)
    log = (out / "parity.log").read_text()
    assert f"--auto-cast=none {aws.venv}/bin" in log
    assert f"trn1 {read(out, 'job.json')['commit']}" in log
    assert "torch==2.9.0" in log  # pip must not replace what belongs to the Neuron SDK
    assert "['pyproject.toml']" in log


@sweep
def test_revision_and_results_longer_than_a_command(call, aws, repository, out):
    """60 kB of noise, however well it is packed, go to the instance and come back."""
    noise = os.urandom(60_000).hex()
    (repository / "noise").write_text(noise)
    git(repository, "add", "noise")
    git(repository, "commit", "-qm", "noise")
    aws.behave({PARITY: {"do": "behaviour['content'] = open('noise').read()"}})
    call("run", "--instance", aws.new_instance(), *ONE)
    assert (out / "parity.json").read_text() == noise
    commands = aws.operations("SendCommand")
    assert len([one for one in commands if one.verb == "receive"]) > 2
    assert len([one for one in commands if one.verb == "chunk"]) > 3
    assert max(len(one.body) for one in commands) < 48_000


@sweep
def test_long_log_is_shown_in_part_and_fetched_whole(call, aws, out):
    do = "print('\\n'.join(f'line {i} \\x1b[31m' + 'x' * 80 for i in range(5000)))"
    aws.behave({PARITY: {"do": do}})
    said = call("run", "--instance", aws.new_instance(), *ONE)
    log = (out / "parity.log").read_text()
    assert "line 0 " in log and "line 4999 " in log
    assert "bytes of log not shown" in said and "\x1b[31mxxx" not in said


@sweep
def test_no_shell_interprets_the_names_of_folders(call, aws, tmp_path):
    """Neither here nor on the instance, where the environment has such a name."""
    aws.venv = aws.venv.rename(aws.folder / "$(touch pwned); `touch pwned` 'a\" b")
    out = tmp_path / "$(touch pwned) 'x"
    said = call("run", "--instance", aws.new_instance(), "--sets", "probes", "--out", str(out))
    assert read(out, "probes.json") == {"from": "bench.probes"}
    (line,) = [one for one in said.splitlines() if one.startswith("changes to propose: ")]
    words = subprocess.run(
        ["sh", "-c", f"printf '%s\\n' {line.partition(': ')[2]}"], capture_output=True, text=True
    ).stdout.splitlines()
    assert words[-1] == str(out / "probes.json")
    assert not list(tmp_path.rglob("pwned")) and not os.path.exists("pwned")


# Runs that do not begin

NAMED = ["--instance", "i-1"]
BAD = {
    "no target": ([], "the run needs exactly one of"),
    "two targets": ([*NAMED, "--tag", "a=b"], "the run needs exactly one of"),
    "tag": (["--tag", "nothing"], "allowed is KEY=VALUE"),
    "unused tag": (["--tag", "a=b"], "it names none"),
    "unknown template": (["--template", "unknown"], "unknown"),
    "impossible template": (["--template", "x"], "Invalid length for parameter LaunchTemplateName"),
    "set": ([*NAMED, "--sets", "parity,speed"], "argument '--sets' names 'speed'"),
    "hours": ([*NAMED, "--hours", "0"], "argument '--hours' is 0"),
    "nan hours": ([*NAMED, "--hours", "nan"], "argument '--hours' is nan"),
    "long hours": ([*NAMED, "--hours", "1000"], "argument '--hours' is 1000"),
    "venv": ([*NAMED, "--venv", "venv"], "argument '--venv' is 'venv'"),
    "resume nothing": (["--resume"], "holds no job.json"),
    "resume with sets": (["--resume", *ONE], "--resume reads what the job was asked for"),
    "resume with target": (["--resume", *NAMED], "--resume reads what the job was asked for"),
}


@sweep
@pytest.mark.parametrize(("arguments", "said"), BAD.values(), ids=BAD)
def test_bad_arguments(call, aws, arguments, said):
    assert said in call("run", *arguments, code=2)
    assert not aws.operations("StartInstances", "RunInstances", "SendCommand")


NOTHING = {
    "set": (["--template", "trnfft", "--sets", ""], "argument '--sets' names '', allowed are"),
    "out": (["--template", "trnfft", "--out", ""], "Invalid value for '--out': the name is empty"),
    "tag": (["--template", "trnfft", "--tag", ""], "argument '--tag' is '', allowed are names"),
    "a file": (["--template", "trnfft", "--out", __file__], "where nothing can be written"),
    "in a file": (["--template", "trnfft", "--out", f"{__file__}/x"], "nothing can be written"),
    "absent": (["--template", "trnfft", "--out", "/dev/null/a/b"], "nothing can be written"),
    "resume": (["--resume", "--sets", ""], "--resume reads what the job was asked for"),
}


@pytest.mark.parametrize("dry", [[], ["--dry-run"]], ids=["real", "dry"])
@pytest.mark.parametrize(("arguments", "said"), NOTHING.values(), ids=NOTHING)
def test_no_run_begins_with_empty_names_or_without_a_folder(hw_bench, dry, arguments, said):
    result = CliRunner().invoke(hw_bench.app, ["run", *dry, *arguments])
    assert result.exit_code == 2 and said in " ".join(result.output.split())
    assert "dry run: nothing is sent" not in result.output


@sweep
def test_uncommitted_changes_are_refused(call, aws, repository):
    (repository / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    said = call("run", "--instance", aws.new_instance(), code=2)
    assert "pyproject.toml: the commit" in said and not aws.requests


@sweep
def test_a_job_is_never_overwritten(call, aws):
    instance = aws.new_instance()
    call("run", "--instance", instance, *ONE)
    for dry in ([], ["--dry-run"]):
        assert "which holds a job" in call("run", "--instance", instance, *ONE, *dry, code=2)
    call("run", "--resume")  # nothing to do
    assert aws.ran == [PARITY]


@sweep
def test_confirmation(call, aws, monkeypatch, hw_bench):
    monkeypatch.setattr(hw_bench, "is_interactive", lambda: True)
    monkeypatch.setattr(hw_bench.typer, "confirm", lambda *a, **k: False)
    instance = aws.new_instance()
    call("run", "--instance", instance, *ONE, code=3)
    assert aws.state(instance) == "stopped" and not aws.operations("StartInstances")
    call("run", "--instance", instance, *ONE, "--yes")
