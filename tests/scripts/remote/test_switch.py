"""The dead man's switch: whenever the script is killed, no instance runs on for long."""

from __future__ import annotations

import json

import pytest

from tests import sweeps

from .conftest import wait_for
from .fake_aws import close, error

ALWAYS = float("inf")


def launched(aws):
    (reservation,) = aws.ec2.describe_instances()["Reservations"]
    return reservation["Instances"][0]["InstanceId"]


@pytest.mark.parametrize(
    ("bucket", "end"), [sweeps.whole((), "stopped"), (("--bucket", "results"), "terminated")]
)
def test_a_launched_instance_is_armed_by_its_boot(call, aws, bucket, end):
    """No call succeeds after the launch, as if the script had been killed."""
    aws.s3.create_bucket(Bucket="results")
    aws.inject("DescribeInstances", close, times=ALWAYS)
    aws.inject("DescribeInstanceInformation", close, times=ALWAYS)
    aws.inject("TerminateInstances", close, times=ALWAYS)
    result = call(
        "run", "--template", aws.new_template(), "--sets", "parity", "--hours", "1.5", *bucket
    )
    assert result.exit_code in (7, 11), result.output
    assert "it ends by itself at" in result.output
    instance = launched(aws)
    assert aws.state(instance) == "running"
    # 1.5 h, a minute of grace and a moment to come online, in whole minutes.
    assert aws.shutdown_time(instance) == "+92"
    aws.let_time_pass(instance)
    assert aws.state(instance) == end


@pytest.mark.sweep
def test_the_time_limit_waits_for_the_end_of_the_boot(call, aws):
    instance = aws.new_instance()
    boot = aws.disk(instance) / "bin" / "cloud-init"
    aws.program(boot, 'echo "$*" > $HOME/waited; test ! -e $HOME/shutdown')
    result = call("run", "--instance", instance, "--sets", "parity")
    assert result.exit_code == 0, result.output
    assert (aws.disk(instance) / "waited").read_text() == "status --wait\n"


@pytest.mark.sweep
def test_a_second_boot_arms_again_and_keep_disarms(call, aws):
    aws.inject("SendCommand", error("AccessDeniedException"), "poll")
    template = aws.new_template()
    assert call("run", "--template", template, "--sets", "parity", "--hours", "1").exit_code == 4
    instance = launched(aws)
    assert aws.state(instance) == "stopped"  # its disk may hold results
    aws.ec2.start_instances(InstanceIds=[instance])
    aws.boot(instance)
    assert aws.shutdown_time(instance) == "+62"
    result = call("run", "--resume", "--keep")
    assert result.exit_code == 0, result.output
    assert aws.state(instance) == "running" and aws.shutdown_time(instance) is None


@pytest.mark.sweep
def test_keep_launches_without_a_switch(call, aws):
    result = call("run", "--template", aws.new_template(), "--sets", "parity", "--keep")
    assert result.exit_code == 0, result.output
    assert "left running" in result.output and aws.states() == ["running"]
    (launch,) = aws.operations("RunInstances")
    assert launch.parameters["TagSpecification.1.Tag.1.Key"] == "trnfft-job"
    assert "UserData" not in launch.parameters
    assert launch.parameters["InstanceInitiatedShutdownBehavior"] == "stop"
    assert aws.shutdown_time(launched(aws)) is None
    assert call("stop").exit_code == 0
    assert aws.states() == ["terminated"]


@pytest.mark.sweep
def test_an_existing_instance_is_never_terminated(call, aws, tmp_path):
    instance = aws.new_instance(at_shutdown="terminate")
    result = call("run", "--instance", instance, "--sets", "parity")
    assert result.exit_code == 2, result.output
    assert "set its shutdown behavior to stop, or run with --keep" in result.output
    assert not aws.operations("StartInstances") and aws.state(instance) == "stopped"
    assert not json.loads((tmp_path / "out" / "job.json").read_text())["ours"]
    kept = call("run", "--resume", "--keep")
    assert kept.exit_code == 0, kept.output


@pytest.mark.sweep
def test_a_killed_launch_ends_by_itself(process, call, aws):
    aws.is_online = False
    running = process("--template", aws.new_template(), "--sets", "parity", "--hours", "1")
    wait_for(lambda: aws.operations("DescribeInstanceInformation"))
    running.kill()
    running.wait()
    instance = launched(aws)
    assert aws.state(instance) == "running" and aws.shutdown_time(instance) == "+62"
    aws.let_time_pass(instance)
    assert aws.state(instance) == "stopped"
    aws.is_online = True
    assert call("stop").exit_code == 0
    assert aws.state(instance) == "terminated"  # and its disk with it, whoever was killed when
