"""The EC2 instance: finds, launches, starts, awaits and stops it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from remote import pace
from remote.aws import Aws
from remote.failure import AwsRefused, BadRequest, Failure, InstanceGone, NotOnline

TAG = "trnfft-job"
GONE = ("shutting-down", "terminated")
ENDED = ("stopping", "stopped", *GONE)


@dataclass(frozen=True)
class Target:
    """What the user named. `kind` is instance, tag or template."""

    kind: str
    value: str


def describe(aws: Aws, identifier: str) -> dict[str, Any]:
    """Returns what EC2 says about an instance; raises InstanceGone where there is none."""
    try:
        answer = aws.call("ec2", "describe_instances", InstanceIds=[identifier])
    except AwsRefused as error:
        if error.reason.startswith("InvalidInstanceID"):
            raise InstanceGone(f"there is no instance {identifier}: {error}") from error
        raise
    for reservation in answer["Reservations"]:
        for instance in reservation["Instances"]:
            return instance
    raise InstanceGone(f"there is no instance {identifier}")


def state_of(instance: dict[str, Any]) -> str:
    """Returns pending, running, stopping, stopped, shutting-down or terminated."""
    return instance["State"]["Name"]


def chip_of(instance_type: str) -> str:
    """Returns the chip of an instance type as NKI names it: trn1 for trn1n.32xlarge."""
    found = re.match(r"trn[123]|inf2", instance_type)
    if found is None:
        raise BadRequest(
            f"an instance of type {instance_type} has no NeuronCore that this script knows: use a "
            "type of trn2, trn3, trn1 or inf2"
        )
    return found[0]


def find(aws: Aws, target: Target) -> dict[str, Any]:
    """Returns the existing instance of a target; raises BadRequest unless there is exactly one."""
    if target.kind == "instance":
        instance = describe(aws, target.value)
        if state_of(instance) in GONE:
            raise InstanceGone(f"instance {target.value} is terminated")
        return instance
    key, separator, value = target.value.partition("=")
    if not key or not separator:
        raise BadRequest(
            f"argument '--tag' is {target.value!r}; allowed is KEY=VALUE, such as Purpose=bench"
        )
    states = ["pending", "running", "stopping", "stopped"]
    filters = [
        {"Name": f"tag:{key}", "Values": [value]},
        {"Name": "instance-state-name", "Values": states},
    ]
    answer = aws.call("ec2", "describe_instances", Filters=filters)
    found = [one for reservation in answer["Reservations"] for one in reservation["Instances"]]
    if len(found) != 1:
        names = ", ".join(one["InstanceId"] for one in found) or "none"
        raise BadRequest(
            f"argument '--tag' is {target.value!r} and has to name one instance; it names {names}. "
            "Name the instance by its id with --instance"
        )
    return found[0]


def template_reference(value: str) -> dict[str, str]:
    """Returns the parameters that name a launch template, by its id or its name."""
    kind = "LaunchTemplateId" if value.startswith("lt-") else "LaunchTemplateName"
    return {kind: value}


def template_type(aws: Aws, value: str) -> str:
    """Returns the instance type in the default version of a launch template."""
    answer = aws.call(
        "ec2",
        "describe_launch_template_versions",
        Versions=["$Default"],
        **template_reference(value),
    )
    data = answer["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    if "InstanceType" not in data:
        raise BadRequest(
            f"the default version of launch template {value} has no instance type: make a version "
            "that has one"
        )
    return data["InstanceType"]


# The script runs as root at the end of the first boot, and installs itself for later boots
# (cloud-init's user-data scripts, and scripts per boot). A later `shutdown` replaces its limit.
DEAD_MANS_SWITCH = """\
#!/bin/sh
mkdir -p /var/lib/cloud/scripts/per-boot
cat > /var/lib/cloud/scripts/per-boot/trnfft-limit <<'END'
#!/bin/sh
shutdown -h +{minutes}
END
chmod 755 /var/lib/cloud/scripts/per-boot/trnfft-limit
shutdown -h +{minutes}
"""


@dataclass(frozen=True)
class Switch:
    """The limit at which a launched instance ends itself, in minutes after its boot.

    With None it never does. The instance is terminated at its limit, or stopped where only its disk
    has the results (`keeps_disk`).
    """

    minutes: int | None
    keeps_disk: bool

    @property
    def parameters(self) -> dict[str, str]:
        """Returns parameters for RunInstances."""
        found = {"InstanceInitiatedShutdownBehavior": "stop" if self.keeps_disk else "terminate"}
        if self.minutes is not None:
            found["UserData"] = DEAD_MANS_SWITCH.format(minutes=self.minutes)
        return found


def launch(aws: Aws, template: str, token: str, switch: Switch) -> str:
    """Launches one instance from a template and returns its id.

    A repeated call with the same token launches no other instance (EC2 user guide, "Ensuring
    idempotency in Amazon EC2 API requests").
    """
    answer = aws.call(
        "ec2",
        "run_instances",
        LaunchTemplate=template_reference(template),
        MinCount=1,
        MaxCount=1,
        ClientToken=token,
        **switch.parameters,
        TagSpecifications=[
            {
                "ResourceType": "instance",
                "Tags": [{"Key": TAG, "Value": token}, {"Key": "Name", "Value": f"trnfft {token}"}],
            }
        ],
    )
    return answer["Instances"][0]["InstanceId"]


def launched_with(aws: Aws, token: str) -> list[str]:
    """Returns the ids of instances that carry a token and are not terminated."""
    filters = [
        {"Name": f"tag:{TAG}", "Values": [token]},
        {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]},
    ]
    answer = aws.call("ec2", "describe_instances", Filters=filters)
    return [one["InstanceId"] for r in answer["Reservations"] for one in r["Instances"]]


def require_stop_at_shutdown(aws: Aws, identifier: str) -> None:
    """Raises BadRequest where the time limit would terminate an existing instance."""
    name = "instanceInitiatedShutdownBehavior"
    answer = aws.call("ec2", "describe_instance_attribute", InstanceId=identifier, Attribute=name)
    if answer["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate":
        raise BadRequest(
            f"instance {identifier} is set up to be terminated, with its disk, when it shuts down, "
            "as at the time limit: set its shutdown behavior to stop, or run with --keep"
        )


def start(aws: Aws, identifier: str) -> None:
    """Starts a stopped instance."""
    wait(
        lambda: settled(aws, identifier),
        f"instance {identifier} did not finish stopping",
        pace.START,
    )
    aws.call("ec2", "start_instances", InstanceIds=[identifier])


def settled(aws: Aws, identifier: str) -> bool:
    """Returns whether the instance is not in the state "stopping"."""
    return state_of(describe(aws, identifier)) != "stopping"


def wait_online(aws: Aws, identifier: str) -> None:
    """Waits until the instance runs and answers Systems Manager; raises NotOnline."""
    wait(lambda: is_running(aws, identifier), f"instance {identifier} did not start", pace.START)
    wait(
        lambda: is_online(aws, identifier),
        f"instance {identifier} runs, but Systems Manager did not reach it. The instance needs an "
        "instance profile with AmazonSSMManagedInstanceCore, the SSM agent and access to the "
        "internet",
        pace.START,
    )


def is_running(aws: Aws, identifier: str) -> bool:
    """Returns whether the instance runs; raises InstanceGone where it has ended."""
    try:
        instance = describe(aws, identifier)
    except InstanceGone:  # EC2 may not know an instance for some seconds after its launch
        return False
    require_alive(instance)
    return state_of(instance) == "running"


def is_online(aws: Aws, identifier: str) -> bool:
    """Returns whether the SSM agent has reported to Systems Manager."""
    filters = [{"Key": "InstanceIds", "Values": [identifier]}]
    answer = aws.call("ssm", "describe_instance_information", Filters=filters)
    if any(one["PingStatus"] == "Online" for one in answer["InstanceInformationList"]):
        return True
    require_alive(describe(aws, identifier))
    return False


def require_alive(instance: dict[str, Any]) -> None:
    """Raises InstanceGone where the instance has ended or is about to end."""
    state = state_of(instance)
    if state in ENDED:
        reason = instance.get("StateReason", {}).get("Message", "no reason given")
        raise InstanceGone(f"instance {instance['InstanceId']} is {state}: {reason}")


def end(aws: Aws, identifier: str, terminate: bool) -> str:
    """Stops or terminates an instance; returns the state that EC2 confirms."""
    try:
        instance = describe(aws, identifier)
    except InstanceGone:
        return "terminated"
    wanted = GONE if terminate else ENDED
    if state_of(instance) in wanted:
        return state_of(instance)
    operation = "terminate_instances" if terminate else "stop_instances"

    def ended() -> bool:
        # The call is repeated each time, because a pending instance cannot be stopped yet.
        try:
            aws.call("ec2", operation, InstanceIds=[identifier])
        except AwsRefused as error:
            if error.reason != "IncorrectInstanceState":
                raise
        return state_of(describe(aws, identifier)) in wanted

    wait(ended, f"instance {identifier} did not end", pace.END)
    return state_of(describe(aws, identifier))


def wait(condition: Callable[[], bool], complaint: str, seconds: float) -> None:
    """Waits until a condition holds; raises NotOnline with the complaint after some seconds."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except Failure as failure:
            if not failure.transient or time.monotonic() > deadline:
                raise
        if time.monotonic() > deadline:
            raise NotOnline(f"{complaint} after {seconds:.0f} s")
        time.sleep(pace.STATE)
