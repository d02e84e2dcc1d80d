"""The dry run, the other commands, and what docs/hardware.md says of them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from remote import needs
from remote.cost import TYPES
from remote.failure import Kind
from remote.job import LIBRARY, OF_LIBRARY, ON_INSTANCE, size_of

from .conftest import SCRIPTS, wait_for
from .fake_aws import first

sweep = pytest.mark.sweep
PARITY = "bench.parity"
TWO = ("--sets", "parity,accuracy")
DOCUMENTATION = (SCRIPTS.parent / "docs" / "hardware.md").read_text()
POLICY = json.loads(re.findall(r"```json\n(.*?)```", DOCUMENTATION, re.DOTALL)[0])


# Following, fetching, stopping


@sweep
def test_status_fetch_and_stop(call, aws, out, gate):
    """After an early end of a run with --keep, the job goes on without the script."""
    aws.behave({"bench.accuracy": {"until": str(gate)}, PARITY: {"print": "parity was here"}})
    interrupt = first(lambda: os.kill(os.getpid(), signal.SIGINT))
    aws.inject("SendCommand", interrupt, "poll", skip=1)
    instance = aws.new_instance()
    call("run", "--instance", instance, *TWO, "--keep", code=130)
    assert aws.state(instance) == "running" and aws.shutdown_time(instance) is None
    wait_for(lambda: len(aws.ran) == 2)
    shown = call("status")
    assert "parity was here" in shown and f"instance {instance}: running" in shown
    assert "accuracy running" in call("fetch", code=1)
    assert json.loads((out / "parity.json").read_text()) == {"from": PARITY}
    gate.touch()
    wait_for(lambda: not aws.background(instance))
    call("fetch")
    assert (out / "accuracy.json").exists()
    call("stop")
    assert aws.state(instance) == "stopped"
    call("stop")  # nothing left to stop
    assert "stopped" in call("status")


@sweep
@pytest.mark.parametrize("command", ["status", "fetch", "stop"])
def test_commands_without_a_job(call, out, command):
    assert "holds no job.json" in call(command, code=2)
    out.mkdir()
    (out / "job.json").write_text('{"job": ')
    assert "is not a record of a job" in call(command, code=2)


# The dry run


def words(said: str) -> dict[str, str]:
    """The rows of the last table, each as one line."""
    found: dict[str, str] = {}
    name = ""
    for line in said[said.index("What the real run needs") :].splitlines():
        cells = [cell.strip() for cell in line.split("│")[1:-1]]
        if len(cells) == 2:
            name = cells[0] or name
            found[name] = f"{found.get(name, '')} {cells[1]}".strip()
    return found


@sweep
def test_dry_run_shows_the_calls_of_a_run_and_makes_none(call, aws, monkeypatch, out):
    options = ["--template", aws.new_template(), "--sets", "parity"]
    with monkeypatch.context() as without:
        without.delenv("AWS_ACCESS_KEY_ID")
        without.delenv("AWS_SECRET_ACCESS_KEY")
        said = call("run", "--dry-run", *options)
    assert not aws.requests and not out.exists()
    shown = re.findall(r"^(?:ec2|ssm)\.(\w+) \{.*\}$", said, re.MULTILINE)
    call("run", *options)

    def distinct(operations):
        """Returns each operation once, because the number of polls depends on the speed."""
        return list(dict.fromkeys(operations))

    assert distinct(shown) == distinct(one.operation for one in aws.requests)
    verbs = re.findall("'Comment': 'trnfft (\\w+)'", said)
    assert distinct(verbs) == distinct(one.verb for one in aws.operations("SendCommand"))


@sweep
def test_the_dry_run_says_what_the_real_run_needs(call, aws, repository):
    said = call("run", "--dry-run", "--template", "trnfft", *TWO)
    # Two hours, and a minute and 0.4 s in these tests, at 2.235 dollars.
    assert "$4.51: 2.02 h" in said and "ssm.SendCommand trnfft poll x 2" in said
    found = words(said)
    assert found["region"] == "us-east-1, from the variable AWS_DEFAULT_REGION."
    assert "boto3 will take the variables AWS_ACCESS_KEY_ID" in found["credentials"]
    assert "packs it into" in found["revision"] and "1 commands" in found["revision"]
    assert "template trnfft" in found["image"]
    assert str(aws.venv) in found["environment"].replace(" ", "")
    assert "12 vCPUs of a trn2.3xlarge" in found["quota"]
    for action in ("ec2:RunInstances", "ssm:SendCommand", "iam:PassRole", "ec2:CreateTags"):
        assert action in found["permissions"]
    assert found["time, likely"].startswith("2 min and more") and "1.5 min" in found["time, likely"]


@sweep
def test_the_dry_run_with_an_instance(call, aws):
    options = ("--instance", "i-1", "--sets", "parity")
    found = words(call("run", "--dry-run", *options, venv=False))
    assert "instance i-1" in found["image"]
    assert "scripts/wheels-neuron-trn2.txt" in found["environment"]
    assert "ec2:StartInstances" in found["permissions"]
    assert "iam:PassRole" not in found["permissions"]


@pytest.fixture
def files(monkeypatch, tmp_path):
    """Writes files of the AWS command line, in an environment without credentials."""
    for name in needs.KEYS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))

    def write(config="", credentials=""):
        (tmp_path / "config").write_text(config)
        (tmp_path / "credentials").write_text(credentials)

    return write


@sweep
def test_the_dry_run_says_what_the_real_run_would_refuse(call, files, repository, monkeypatch):
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    (repository / "pyproject.toml").write_text("changed")
    found = words(call("run", "--dry-run", "--template", "trnfft"))
    assert "There is none" in found["region"] and "exit code 2" in found["region"]
    assert "None were found" in found["credentials"] and "exit code 4" in found["credentials"]
    assert "1 files have changes" in found["revision"] and "exit code 2" in found["revision"]


def test_region_and_where_it_comes_from(files, monkeypatch):
    assert needs.region() == ("us-east-1", "the variable AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_REGION", "ap-southeast-4")
    assert needs.region() == ("ap-southeast-4", "the variable AWS_REGION")
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert needs.region() == (None, "the profile 'default'")
    files("[profile lab]\nregion = eu-north-1\n")
    monkeypatch.setenv("AWS_PROFILE", "lab")
    assert needs.region() == ("eu-north-1", "the profile 'lab'")


@sweep
@pytest.mark.parametrize(
    ("config", "credentials", "expected"),
    [
        ("", "", None),
        ("", "[default]\naws_access_key_id = a\naws_secret_access_key = b\n", "an access key"),
        ("[default]\nrole_arn = arn:x\nsource_profile = y\n", "", "the role arn:x"),
        ("[default]\nsso_session = lab\nsso_account_id = 1\n", "", "the AWS SSO session lab"),
        ("[default]\ncredential_process = false\n", "", "which was not run"),
    ],
)
def test_credentials_are_looked_for_on_this_machine(
    files, monkeypatch, config, credentials, expected
):
    files(config, credentials)
    found = needs.credentials()
    if expected is None:
        assert found is None
    else:
        assert found is not None and "the profile 'default'" in found and expected in found
    for name in needs.KEYS:  # which come first
        monkeypatch.setenv(name, "x")
    assert needs.credentials() == "the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


# The documentation


def test_every_exit_code_is_documented():
    rows = re.findall(r"^\| (\d+) \|", DOCUMENTATION, re.MULTILINE)
    assert sorted(map(int, rows)) == sorted([0, *(kind.code for kind in Kind), 129, 130, 143])


def test_no_error_of_aws_has_two_kinds():
    reasons = [reason for kind in Kind for reason in kind.reasons]
    assert len(set(reasons)) == len(reasons)


@sweep
def test_the_policy_in_the_documentation_allows_every_call(call):
    """The actions of the policy are those of the dry runs, and some that AWS also checks."""
    allowed = {action for one in POLICY["Statement"] for action in one["Action"]}
    needed = set()
    for target in (["--template", "trnfft"], ["--instance", "i-1"]):
        said = call("run", "--dry-run", *target)
        needed |= {":".join(pair) for pair in re.findall(r"^(ec2|ssm)\.(\w+) \{", said, re.M)}
    assert needed <= allowed
    beside = {"iam:PassRole", "ec2:CreateTags", "ssm:GetParameters"}
    assert allowed - needed == beside


def test_the_policy_holds_launches_and_roles_to_what_is_meant():
    """Conditions of the policy keep launches to the template, and the role to EC2."""
    conditions = {one["Action"][0]: one.get("Condition", {}) for one in POLICY["Statement"]}
    launch = conditions["ec2:RunInstances"]
    assert launch["Bool"] == {"ec2:IsLaunchTemplateResource": "true"}
    assert "launch-template/" in launch["ArnLike"]["ec2:LaunchTemplate"]
    passed = conditions["iam:PassRole"]["StringEquals"]
    assert passed == {"iam:PassedToService": "ec2.amazonaws.com"}


def test_documented_options_exist(hw_bench):
    from typer.main import get_command

    commands = get_command(hw_bench.app).commands
    for line in re.findall(r"scripts/hw_bench\.py (.*)", DOCUMENTATION):
        name, *rest = line.replace("`", " ").split()
        known = {option for one in commands[name].params for option in one.opts} | {"--help"}
        assert {word for word in rest if word.startswith("--")} <= known, line


@sweep
def test_prices_and_processors_are_those_of_the_documentation_and_of_ec2():
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    rows = re.findall(r"^\| (\w+\.\w+) \| \d+ \| ([\d.]+) \|.*\| ([\d-]+) \|$", DOCUMENTATION, re.M)
    assert {(name, float(dollars), date) for name, dollars, date in rows} == {
        (name, one.hourly, one.date) for name, one in TYPES.items()
    }
    for name, one in TYPES.items():
        assert INSTANCE_TYPES[name]["VCpuInfo"]["DefaultVCpus"] == one.vcpus
    said = re.findall(r"(\d+) for a\s(trn\S+\w)", DOCUMENTATION)
    assert said and all(TYPES[name].vcpus == int(count) for count, name in said)


@sweep
def test_the_documentation_has_the_size_of_the_revision():
    """Within a quarter of what git packs today."""
    command = ["git", "-C", SCRIPTS.parent, "archive", "--format=tar.gz", "HEAD"]
    archive = subprocess.run(command, capture_output=True)
    if archive.returncode:
        pytest.skip("this folder is no repository of git")
    (said,) = re.findall(r"about ([\d.]+) MB", DOCUMENTATION)
    assert float(said) == pytest.approx(len(archive.stdout) / 1e6, rel=0.25)
    assert size_of(len(archive.stdout)).endswith("MB")


def test_pieces_of_the_worker_need_only_the_standard_library():
    files = [Path(SCRIPTS) / "remote" / name for name in ON_INSTANCE]
    files += [LIBRARY / name for name in OF_LIBRARY]
    source = "".join(file.read_text() for file in files)
    imported = set(re.findall(r"^\s*(?:from|import) (\w+)", source, re.MULTILINE))
    assert imported - set(sys.stdlib_module_names) == {"remote", "nki_sim"}
    inner = set(re.findall(r"from remote\.(\w+)", source))
    assert {f"{name}.py" for name in inner} <= set(ON_INSTANCE)
    ours = set(re.findall(r"from nki_sim\.base\.(\w+)", source))
    assert ours == {Path(name).stem for name in OF_LIBRARY}
