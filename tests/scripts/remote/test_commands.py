"""The other commands, the dry run, the exit codes, and ends that leave no time to clean up."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnfft.cli.health_checks import Check

from .conftest import wait_for
from .program import SCRIPTS

PARITY = "bench.parity"
ACCURACY = "bench.accuracy"
TWO = ("--sets", "parity,accuracy")
DOCUMENTATION = SCRIPTS.parent / "docs" / "hardware.md"


@pytest.mark.sweep
def test_killed_without_warning(process, call, aws, tmp_path):
    gate = tmp_path / "gate"
    aws.behave({ACCURACY: {"until": str(gate)}})
    instance = aws.new_instance()
    running = process("--instance", instance, *TWO, "--hours", "1")
    wait_for((tmp_path / "out" / "parity.json").exists)
    running.kill()
    running.wait()
    assert aws.state(instance) == "running"
    assert aws.shutdown_time(instance) in ("+59", "+60")  # an hour and a minute, less a part
    gate.touch()  # the job ends with nobody there
    wait_for(lambda: not aws.background(instance))
    aws.let_time_pass(instance)
    again = call("run", "--resume")
    assert again.exit_code == 0, again.output
    assert aws.ran == [PARITY, ACCURACY]
    assert aws.state(instance) == "stopped"


@pytest.mark.sweep
def test_status_fetch_and_stop(call, aws, tmp_path):
    """After an early end of a run with --keep, the job goes on without the script."""
    gate, out = tmp_path / "gate", tmp_path / "out"
    aws.behave({ACCURACY: {"until": str(gate)}, PARITY: {"print": "parity was here"}})

    def interrupt(request, forward):
        os.kill(os.getpid(), signal.SIGINT)
        return forward(request)

    aws.inject("SendCommand", interrupt, "poll", skip=1)
    instance = aws.new_instance()
    assert call("run", "--instance", instance, *TWO, "--keep").exit_code == 130
    assert aws.state(instance) == "running" and aws.shutdown_time(instance) is None
    wait_for(lambda: len(aws.ran) == 2)
    shown = call("status")
    assert shown.exit_code == 0, shown.output
    assert "parity was here" in shown.output and f"instance {instance}: running" in shown.output
    partly = call("fetch")
    assert partly.exit_code == 1 and "accuracy running" in partly.output
    assert json.loads((out / "parity.json").read_text()) == {"from": PARITY}
    gate.touch()
    wait_for(lambda: not aws.background(instance))
    assert call("fetch").exit_code == 0
    assert (out / "accuracy.json").exists()
    ended = call("stop")
    assert ended.exit_code == 0, ended.output
    assert aws.state(instance) == "stopped"
    assert call("stop").exit_code == 0  # nothing left to stop
    assert "stopped" in call("status").output


@pytest.mark.sweep
@pytest.mark.parametrize("command", ["status", "fetch", "stop"])
def test_commands_without_a_job(call, aws, command):
    result = call(command)
    assert result.exit_code == 2 and "holds no job.json" in result.output


@pytest.mark.sweep
def test_damaged_record(call, aws, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "job.json").write_text('{"job": ')
    result = call("status")
    assert result.exit_code == 2 and "is not a record of a job" in result.output


@pytest.mark.sweep
@pytest.mark.parametrize("bucket", [None, "results"])
def test_dry_run_shows_the_calls_of_a_run_and_makes_none(call, aws, monkeypatch, tmp_path, bucket):
    aws.s3.create_bucket(Bucket="results")
    options = ["--template", aws.new_template(), "--sets", "parity"]
    options += ["--bucket", bucket] if bucket else []
    with monkeypatch.context() as without:
        without.delenv("AWS_ACCESS_KEY_ID")
        without.delenv("AWS_SECRET_ACCESS_KEY")
        rehearsed = call("run", "--dry-run", *options)
    assert rehearsed.exit_code == 0, rehearsed.output
    assert not aws.requests and not (tmp_path / "out").exists()
    shown = re.findall(r"^(?:ec2|ssm|s3)\.(\w+) (\{.*\})$", rehearsed.output, re.MULTILINE)
    assert call("run", *options).exit_code == 0

    def distinct(operations):
        """Returns each operation once, because the number of polls depends on the speed."""
        return list(dict.fromkeys(operations))

    ours = [one.operation for one in aws.requests if "presigned" not in one.operation]
    assert distinct(name for name, _ in shown) == distinct(ours)
    parameters = [json.loads(text) for _, text in shown]
    verbs = [one["Comment"].split()[1] for one in parameters if "Comment" in one]
    commands = aws.operations("SendCommand")
    # "put" comes where a poll was quicker than the upload of the results.
    assert distinct(verbs) == distinct(one.verb for one in commands if one.verb != "put")


def test_every_exit_code_is_its_own_and_documented(hw_bench):
    from remote import failure

    kinds = [
        kind
        for kind in vars(failure).values()
        if isinstance(kind, type) and issubclass(kind, failure.Failure) and "code" in vars(kind)
    ]
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)
    rows = re.findall(r"^\| (\d+) \|", DOCUMENTATION.read_text(), re.MULTILINE)
    assert sorted(map(int, rows)) == sorted([0, *codes, 129, 130, 143])


@pytest.mark.sweep
def test_the_policy_in_the_documentation_allows_every_call(call, aws):
    """The actions of the policy are those of the dry runs, and some that AWS also checks."""
    aws.s3.create_bucket(Bucket="results")
    text = DOCUMENTATION.read_text()
    policies = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
    statements = [one for policy in policies for one in policy["Statement"]]
    allowed = {action for one in statements for action in one["Action"]}
    needed = set()
    for target in (["--template", "trnfft"], ["--instance", "i-1"]):
        output = call("run", "--dry-run", *target, "--bucket", "results").output
        needed |= {":".join(pair) for pair in re.findall(r"^(ec2|ssm|s3)\.(\w+) \{", output, re.M)}
    assert needed <= allowed
    # ListBucket: otherwise S3 answers AccessDenied where there is no object.
    beside = {"iam:PassRole", "ec2:CreateTags", "ssm:GetParameters", "s3:ListBucket"}
    assert allowed - needed == beside


def test_the_policy_holds_launches_and_roles_to_what_is_meant():
    """Conditions of the policy keep launches to the template, and the role to EC2."""
    (policy,) = [
        json.loads(block)
        for block in re.findall(r"```json\n(.*?)```", DOCUMENTATION.read_text(), re.DOTALL)
    ]
    conditions = {one["Action"][0]: one.get("Condition", {}) for one in policy["Statement"]}
    launch = conditions["ec2:RunInstances"]
    assert launch["Bool"] == {"ec2:IsLaunchTemplateResource": "true"}
    assert "launch-template/" in launch["ArnLike"]["ec2:LaunchTemplate"]
    passed = conditions["iam:PassRole"]["StringEquals"]
    assert passed == {"iam:PassedToService": "ec2.amazonaws.com"}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("", []),
        ("abc", [("a", 1), ("b", 1), ("c", 1)]),
        ("aaab", [("a", 3), ("b", 1)]),
        ("ababab", [("ab", 3)]),
        ("cababaa", [("c", 1), ("ab", 2), ("a", 2)]),
    ],
)
def test_folding(hw_bench, names, expected):
    from remote.dry_run import folded

    calls = [f"{name} {{}}" for name in names]
    found = [("".join(call[0] for call in block), times) for block, times in folded(calls)]
    assert found == expected


def test_documented_options_exist(hw_bench):
    from typer.main import get_command

    commands = get_command(hw_bench.app).commands
    for line in re.findall(r"scripts/hw_bench\.py (.*)", DOCUMENTATION.read_text()):
        name, *words = line.replace("`", " ").split()
        known = {option for one in commands[name].params for option in one.opts} | {"--help"}
        assert {word for word in words if word.startswith("--")} <= known, line


def test_pieces_of_the_worker_need_only_the_standard_library(hw_bench):
    from remote.job import LIBRARY, OF_LIBRARY, ON_INSTANCE

    files = [Path(SCRIPTS) / "remote" / name for name in ON_INSTANCE]
    files += [LIBRARY / name for name in OF_LIBRARY]
    source = "".join(file.read_text() for file in files)
    imported = set(re.findall(r"^\s*(?:from|import) (\w+)", source, re.MULTILINE))
    assert imported - set(sys.stdlib_module_names) == {"remote", "nki_sim"}
    inner = set(re.findall(r"from remote\.(\w+)", source))
    assert {f"{name}.py" for name in inner} <= set(ON_INSTANCE)
    ours = set(re.findall(r"from nki_sim\.base[. ](\w+)", source))
    assert ours == {Path(name).stem for name in OF_LIBRARY}


@pytest.mark.sweep
def test_doctor(hw_bench, monkeypatch):
    found = [Check("driver", "ok", "version 2"), Check("nki", "broken", "a [placeholder]", "do")]
    monkeypatch.setattr("trnfft.cli.health_checks.neuron_checks", lambda: found)
    result = CliRunner().invoke(hw_bench.app, ["doctor"])
    assert result.exit_code == 1
    assert "a [placeholder]" in result.output and "do" in result.output
    del found[1]
    assert CliRunner().invoke(hw_bench.app, ["doctor"]).exit_code == 0


@pytest.mark.sweep
def test_instances_without_a_neuron_core_are_refused(call, aws):
    aws.ec2.create_launch_template(
        LaunchTemplateName="cheap",
        LaunchTemplateData={"ImageId": "ami-12c6146b", "InstanceType": "t3.micro"},
    )
    result = call("run", "--template", "cheap", "--sets", "parity")
    assert result.exit_code == 2 and "t3.micro has no NeuronCore" in result.output
    assert aws.states() == []
