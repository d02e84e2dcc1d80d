"""Runs that succeed, and what they leave behind.

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
from remote.cost import PRICES
from remote.job import WHEELS
from remote.sets import SETS

from .fake_aws import change_output, error, flip, lose_answer
from .program import SCRIPTS

PARITY = "bench.parity"


def read(out, name):
    return json.loads((out / name).read_text())


def test_stopped_instance_without_bucket(call, aws, tmp_path):
    """The smoke test of a whole run, in which answers are refused, lost or damaged for a while."""
    instance = aws.new_instance()
    aws.behave({"-m pytest tests": {"content": "<testsuites/>"}})
    passing = [
        aws.inject("SendCommand", error("ThrottlingException"), "start"),
        aws.inject("StartInstances", lose_answer),
        aws.inject("GetCommandInvocation", change_output(flip), "chunk"),
    ]
    result = call("run", "--instance", instance)
    assert result.exit_code == 0, result.output
    assert all(fault.struck for fault in passing)
    out = tmp_path / "out"
    assert (out / "tests.xml").read_text() == "<testsuites/>"
    assert read(out, "parity.json") == {"from": PARITY}
    assert read(out, "probes.json") == {"from": "bench.probes"}
    assert read(out, "benchmarks.json") == {"from": "bench.run"}
    assert read(out, "pytest-benchmark.json") == {"from": "-m pytest bench"}
    assert read(out, "accuracy.json") == {"from": "bench.accuracy"}
    assert "running bench.parity" in (out / "parity.log").read_text()
    assert aws.state(instance) == "stopped"
    assert not aws.operations("TerminateInstances", "RunInstances", "PutObject")
    assert f"python -m bench.compare {out}/benchmarks.json --out plots/" in result.output


def test_the_bench_programs_are_there():
    lines = [command for one in SETS.values() for command in one.commands]
    programs = {line[2] for line in lines if line[2].startswith("bench.")}
    assert programs and all(importlib.util.find_spec(program) for program in programs)


def test_launched_instance_with_bucket(call, aws, tmp_path):
    aws.s3.create_bucket(Bucket="results")
    sets = "--sets", "parity,accuracy"
    result = call("run", "--template", aws.new_template(), "--bucket", "results", *sets)
    assert result.exit_code == 0, result.output
    assert read(tmp_path / "out", "accuracy.json") == {"from": "bench.accuracy"}
    assert aws.states() == ["terminated"]
    assert not [one for one in aws.requests if one.verb in ("chunk", "receive")]
    left = aws.s3.list_objects_v2(Bucket="results").get("Contents", [])
    assert [one["Key"].rpartition("/")[2] for one in left] == []


@pytest.mark.sweep
def test_running_instance_by_tag_is_left_running(call, aws):
    instance = aws.new_instance(stopped=False, Purpose="bench")
    aws.new_instance(stopped=False, Purpose="other")
    result = call("run", "--tag", "Purpose=bench", "--set", "parity")
    assert result.exit_code == 0, result.output
    assert aws.states() == ["running", "running"]
    assert aws.shutdown_time(instance) is None
    assert not aws.operations("StopInstances", "StartInstances")


@pytest.mark.sweep
def test_instance_stops_itself_after_the_time_limit(call, aws):
    instance = aws.new_instance()
    seen = []
    # The switch is set before the first poll: read it before the run ends and clears it.
    aws.inject("StopInstances", lambda r, f: [seen.append(aws.shutdown_time(instance)), f(r)][1])
    result = call("run", "--instance", instance, "--sets", "parity", "--hours", "1.5")
    assert result.exit_code == 0, result.output
    assert seen == ["+90"]  # 1.5 h and a minute of grace, without the part that has passed
    # The estimate comes before anything costs: it has the minute of grace, at 1.34375 dollars.
    assert "$2.04: 1.52 h" in result.output
    assert result.output.index("cost at most") < result.output.index("starting i-")


@pytest.mark.sweep
def test_unknown_price(call, aws):
    aws.ec2.create_launch_template(
        LaunchTemplateName="new",
        LaunchTemplateData={"ImageId": "ami-12c6146b", "InstanceType": "trn3gen2.48xlarge"},
    )
    result = call("run", "--template", "new", "--sets", "parity")
    assert result.exit_code == 0, result.output
    assert "unknown: there is no price of trn3gen2.48xlarge here" in result.output


def test_prices_in_the_documentation_are_those_of_the_estimate():
    text = (SCRIPTS.parent / "docs" / "hardware.md").read_text()
    rows = re.findall(r"^\| (\w+\.\w+) \| \d+ \| ([\d.]+) \|.*\| ([\d-]+) \|$", text, re.M)
    assert {(name, float(dollars), date) for name, dollars, date in rows} == {
        (name, price.hourly, price.date) for name, price in PRICES.items()
    }


@pytest.fixture
def wheels(repository):
    """Copies the pins of this repository into the small one."""
    (repository / "scripts").mkdir()
    for file in SCRIPTS.glob("wheels-neuron-*.txt"):
        (repository / "scripts" / file.name).write_bytes(file.read_bytes())
    subprocess.run(["git", "-C", repository, "add", "-A"], check=True)
    subprocess.run(["git", "-C", repository, "commit", "-qm", "wheels"], check=True)


@pytest.mark.sweep
@pytest.mark.parametrize(("kind", "name"), [("trn1.2xlarge", "trn1"), ("trn2.3xlarge", "trn2")])
def test_an_environment_is_made_of_pinned_wheels(call, aws, wheels, kind, name, tmp_path):
    instance = aws.new_instance(kind=kind)
    result = call("run", "--instance", instance, "--sets", "parity", venv=False)
    assert result.exit_code == 0, result.output
    installs = (aws.venv / "pip.log").read_text().splitlines()
    of_aws, of_others = (
        line.partition(f"scripts/wheels-neuron-{name}.txt") for line in installs[:2]
    )
    assert of_aws[0].startswith("PIP_CONFIG_FILE=/dev/null -m pip install")
    assert of_aws[2] == f" {' '.join(FROM_AWS_ALONE)}"
    assert of_others[0].startswith("-m pip install -q -r") and of_others[1:] == (of_aws[1], "")
    assert not any("--extra-index-url" in line for line in installs)
    assert installs[-1].endswith("constraints.txt -e .[dev]")
    two = ("--out", tmp_path / "two")
    other = call("run", "--instance", instance, "--sets", "parity", *two, venv=False)
    assert other.exit_code == 0, other.output
    installs = (aws.venv / "pip.log").read_text().splitlines()
    assert sum("wheels-neuron" in line for line in installs) == 2  # it is made once


@pytest.mark.sweep
def test_wheels_that_the_image_cannot_have(call, aws, wheels):
    aws.program(aws.venv / "bin" / "python", "exit 1")
    result = call("run", "--instance", aws.new_instance(), "--sets", "parity", venv=False)
    assert result.exit_code == 1, result.output
    assert f"pip could not install wheels-neuron-trn1.txt from {INDEX}" in result.output
    assert "an environment that is on the image with --venv" in result.output


@pytest.mark.sweep
def test_venv_of_a_base_image_comes_from_apt(call, aws, wheels):
    instance = aws.new_instance()
    bare = aws.disk(instance) / "bin"
    make = f'test -e $HOME/venv-there && exec ln -s {aws.venv} "$3"; exit 1'
    other = f'exec {quote(sys.executable)} -IS "$@"'
    aws.program(bare / "python3", f'if [ "$1 $2" = "-m venv" ]; then {make}; fi\n{other}')
    aws.program(bare / "apt-get", 'echo "$*" >> $HOME/apt.log; touch $HOME/venv-there')
    result = call("run", "--instance", instance, "--sets", "parity", venv=False)
    assert result.exit_code == 0, result.output
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


@pytest.mark.sweep
def test_environment_on_the_instance(call, aws, repository, tmp_path):
    """A program runs the files of the commit alone, with the variables of AWS's compiler."""
    (repository / "new.txt").write_text("not committed")
    check = (
        "import os; print(os.environ['NEURON_CC_FLAGS'], os.environ['PATH'].split(':')[0]);"
        "print(os.environ['NEURON_PLATFORM_TARGET_OVERRIDE'], os.environ['TRNFFT_REVISION']);"
        "print(open('../constraints.txt').read(), sorted(os.listdir('.')))"
    )
    aws.behave({PARITY: {"do": check}})
    assert call("run", "--instance", aws.new_instance(), "--sets", "parity").exit_code == 0
    log = (tmp_path / "out" / "parity.log").read_text()
    assert f"--auto-cast=none {aws.venv}/bin" in log
    assert f"trn1 {read(tmp_path / 'out', 'job.json')['commit']}" in log
    assert "torch==2.9.0" in log  # pip must not replace what belongs to the Neuron SDK
    assert "['pyproject.toml']" in log
    installs = (aws.venv / "pip.log").read_text()
    assert "-m pip install -q -c" in installs and "-e .[dev]" in installs


@pytest.mark.sweep
def test_revision_and_results_longer_than_a_command(call, aws, repository, tmp_path):
    """60 kB of noise, however well it is packed, go to the instance and come back."""
    noise = os.urandom(60_000).hex()
    (repository / "noise").write_text(noise)
    subprocess.run(["git", "-C", repository, "add", "noise"], check=True)
    subprocess.run(["git", "-C", repository, "commit", "-qm", "noise"], check=True)
    aws.behave({PARITY: {"do": "behaviour['content'] = open('noise').read()"}})
    result = call("run", "--instance", aws.new_instance(), "--sets", "parity")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "parity.json").read_text() == noise
    commands = aws.operations("SendCommand")
    assert len([one for one in commands if one.verb == "receive"]) > 2
    assert len([one for one in commands if one.verb == "chunk"]) > 3
    assert max(len(one.body) for one in commands) < 48_000


@pytest.mark.sweep
def test_raw_samples_stay_on_the_instance(call, aws, tmp_path):
    samples = [i / 1000 for i in range(1, 100_001)]
    report = {"benchmarks": [{"name": "fft", "stats": {"mean": 50.0005, "data": samples}}]}
    aws.behave({"-m pytest bench": {"content": json.dumps(report)}})
    result = call("run", "--instance", aws.new_instance(), "--sets", "benchmarks")
    assert result.exit_code == 0, result.output
    (benchmark,) = read(tmp_path / "out", "pytest-benchmark.json")["benchmarks"]
    assert "data" not in benchmark["stats"] and benchmark["stats"]["mean"] == 50.0005
    assert benchmark["stats"]["percentiles"]["95"] == pytest.approx(95, abs=0.01)
    assert len([one for one in aws.operations("SendCommand") if one.verb == "chunk"]) == 1


@pytest.mark.sweep
def test_long_log_is_shown_in_part_and_fetched_whole(call, aws, tmp_path):
    do = "print('\\n'.join(f'line {i} \\x1b[31m' + 'x' * 80 for i in range(5000)))"
    aws.behave({PARITY: {"do": do}})
    result = call("run", "--instance", aws.new_instance(), "--sets", "parity")
    assert result.exit_code == 0, result.output
    log = (tmp_path / "out" / "parity.log").read_text()
    assert "line 0 " in log and "line 4999 " in log
    assert "bytes of log not shown" in result.output
    assert "\x1b[31mxxx" not in result.output


@pytest.mark.sweep
def test_no_shell_interprets_the_names_of_folders(call, aws, tmp_path):
    """Neither here nor on the instance, where the environment has such a name."""
    hostile = aws.folder / "$(touch pwned); `touch pwned` 'a\" b"
    aws.venv = aws.venv.rename(hostile)
    out = tmp_path / "$(touch pwned) 'x"
    result = call("run", "--instance", aws.new_instance(), "--sets", "benchmarks", "--out", out)
    assert result.exit_code == 0, result.output
    assert read(out, "benchmarks.json") == {"from": "bench.run"}
    (line,) = [one for one in result.output.splitlines() if one.startswith("compare and plot: ")]
    words = subprocess.run(
        ["sh", "-c", f"printf '%s\\n' {line.partition(': ')[2]}"], capture_output=True, text=True
    ).stdout.splitlines()
    assert words[3] == str(out / "benchmarks.json")
    assert not list(tmp_path.rglob("pwned")) and not os.path.exists("pwned")


@pytest.mark.sweep
def test_uncommitted_changes_are_refused(call, aws, repository):
    (repository / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    result = call("run", "--instance", aws.new_instance())
    assert result.exit_code == 2
    assert "pyproject.toml: the commit" in result.output
    assert not aws.requests


BAD = {
    "no target": [],
    "two targets": ["--instance", "i-1", "--tag", "a=b"],
    "tag": ["--tag", "nothing"],
    "unused tag": ["--tag", "a=b"],
    "unknown template": ["--template", "unknown"],
    "impossible template": ["--template", "x"],
    "set": ["--instance", "i-1", "--sets", "parity,speed"],
    "hours": ["--instance", "i-1", "--hours", "0"],
    "nan hours": ["--instance", "i-1", "--hours", "nan"],
    "long hours": ["--instance", "i-1", "--hours", "1000"],
    "bucket": ["--instance", "i-1", "--bucket", "../x"],
    "venv": ["--instance", "i-1", "--venv", "venv"],
    "resume nothing": ["--resume"],
    "resume with sets": ["--resume", "--sets", "parity"],
    "resume with target": ["--resume", "--instance", "i-1"],
}


@pytest.mark.sweep
@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD)
def test_bad_arguments(call, aws, arguments):
    result = call("run", *arguments)
    assert result.exit_code == 2, result.output
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


@pytest.mark.sweep
def test_unknown_bucket_is_noticed_before_anything_costs(call, aws):
    result = call("run", "--instance", aws.new_instance(), "--bucket", "unknown")
    assert result.exit_code == 2, result.output
    assert not aws.operations("StartInstances", "SendCommand")


@pytest.mark.sweep
def test_a_job_is_never_overwritten(call, aws):
    instance = aws.new_instance()
    assert call("run", "--instance", instance, "--sets", "parity").exit_code == 0
    result = call("run", "--instance", instance, "--sets", "parity")
    assert result.exit_code == 2 and "which holds a job" in result.output
    assert call("run", "--resume").exit_code == 0  # nothing to do
    assert aws.ran == [PARITY]


@pytest.mark.sweep
def test_confirmation(call, aws, monkeypatch, hw_bench):
    monkeypatch.setattr(hw_bench, "is_interactive", lambda: True)
    instance = aws.new_instance()
    monkeypatch.setattr(hw_bench.typer, "confirm", lambda *a, **k: False)
    result = call("run", "--instance", instance, "--sets", "parity")
    assert result.exit_code == 3
    assert aws.state(instance) == "stopped" and not aws.operations("StartInstances")
    assert call("run", "--instance", instance, "--sets", "parity", "--yes").exit_code == 0
