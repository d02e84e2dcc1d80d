"""The EC2 instance: finds, launches, starts, awaits and stops it."""

from __future__ import annotations

import re
from typing import Any

from remote import pace
from remote.aws import ONLINE, Aws
from remote.failure import Failure, Kind

TAG = "trnfft-job"
GONE = ("shutting-down", "terminated")
ENDED = ("stopping", "stopped", *GONE)


def describe(aws: Aws, identifier: str) -> dict[str, Any]:
    """Returns what EC2 says about an instance; raises INSTANCE_GONE where there is none."""
    try:
        found = aws.instances(InstanceIds=[identifier])
    except Failure as failure:
        if failure.kind is not Kind.INSTANCE_GONE:
            raise
        raise Failure(failure.kind, f"there is no instance {identifier}: {failure}") from failure
    if not found:
        raise Failure(Kind.INSTANCE_GONE, f"there is no instance {identifier}")
    return found[0]


def state_of(instance: dict[str, Any]) -> str:
    """Returns pending, running, stopping, stopped, shutting-down or terminated."""
    return instance["State"]["Name"]


def state_now(aws: Aws, identifier: str | None) -> str:
    """Returns the state of an instance; "terminated" where there is none."""
    if identifier is None:
        return "terminated"
    try:
        return state_of(describe(aws, identifier))
    except Failure as failure:
        if failure.kind is not Kind.INSTANCE_GONE:
            raise
        return "terminated"


def require_alive(aws: Aws, identifier: str) -> None:
    """Raises INSTANCE_GONE where the instance has ended or is about to end."""
    instance = describe(aws, identifier)
    if state_of(instance) in ENDED:
        reason = instance.get("StateReason", {}).get("Message", "no reason given")
        raise Failure(
            Kind.INSTANCE_GONE, f"instance {identifier} is {state_of(instance)}: {reason}"
        )


def chip_of(instance_type: str) -> str:
    """Returns the chip of an instance type as NKI names it: trn1 for trn1n.32xlarge."""
    found = re.match(r"trn[123]|inf2", instance_type)
    if found is None:
        raise Failure(
            Kind.BAD_REQUEST,
            f"an instance of type {instance_type} has no NeuronCore that this script knows: use a "
            "type of trn2, trn3, trn1 or inf2",
        )
    return found[0]


def tagged(aws: Aws, key: str, value: str) -> list[dict[str, Any]]:
    """Returns the instances that carry a tag and are not terminated."""
    states = ["pending", "running", "stopping", "stopped"]
    filters = {f"tag:{key}": [value], "instance-state-name": states}
    return aws.instances(Filters=[{"Name": name, "Values": v} for name, v in filters.items()])


def find(aws: Aws, kind: str, name: str) -> dict[str, Any]:
    """Returns the one existing instance that an id ("instance") or a "tag" names."""
    if kind == "instance":
        instance = describe(aws, name)
        if state_of(instance) in GONE:
            raise Failure(Kind.INSTANCE_GONE, f"instance {name} is terminated")
        return instance
    key, separator, value = name.partition("=")
    if not key or not separator:
        raise Failure(
            Kind.BAD_REQUEST,
            f"argument '--tag' is {name!r}; allowed is KEY=VALUE, such as Purpose=bench",
        )
    found = tagged(aws, key, value)
    if len(found) != 1:
        names = ", ".join(one["InstanceId"] for one in found) or "none"
        raise Failure(
            Kind.BAD_REQUEST,
            f"argument '--tag' is {name!r} and has to name one instance; it names {names}. "
            "Name the instance by its id with --instance",
        )
    return found[0]


def template_reference(name: str) -> dict[str, str]:
    """Returns the parameters that name a launch template, by its id or its name."""
    return {"LaunchTemplateId" if name.startswith("lt-") else "LaunchTemplateName": name}


def type_of(aws: Aws, kind: str, name: str) -> str:
    """Returns the instance type of what the user named; raises BAD_REQUEST for other chips."""
    if kind == "template":
        reference = template_reference(name)
        answer = aws.call(
            "ec2", "describe_launch_template_versions", Versions=["$Default"], **reference
        )
        data = answer["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    else:
        data = find(aws, kind, name)
    if "InstanceType" not in data:
        raise Failure(
            Kind.BAD_REQUEST,
            f"the default version of launch template {name} has no instance type: make a version "
            "that has one",
        )
    chip_of(data["InstanceType"])
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


def launch(aws: Aws, template: str, token: str, minutes: int | None) -> str:
    """Launches one instance from a template and returns its id.

    A repeated call with the same token launches no other instance (EC2 user guide, "Ensuring
    idempotency in Amazon EC2 API requests").

    Args:
        minutes: the limit at which the instance stops itself, after its boot, with its disk, which
            may hold results; None for never.
    """
    tags = [{"Key": TAG, "Value": token}, {"Key": "Name", "Value": f"trnfft {token}"}]
    switch = {} if minutes is None else {"UserData": DEAD_MANS_SWITCH.format(minutes=minutes)}
    answer = aws.call(
        "ec2",
        "run_instances",
        LaunchTemplate=template_reference(template),
        MinCount=1,
        MaxCount=1,
        ClientToken=token,
        InstanceInitiatedShutdownBehavior="stop",
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
        **switch,
    )
    return answer["Instances"][0]["InstanceId"]


def require_stop_at_shutdown(aws: Aws, identifier: str) -> None:
    """Raises BAD_REQUEST where the time limit would terminate an existing instance."""
    name = "instanceInitiatedShutdownBehavior"
    answer = aws.call("ec2", "describe_instance_attribute", InstanceId=identifier, Attribute=name)
    if answer["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate":
        raise Failure(
            Kind.BAD_REQUEST,
            f"instance {identifier} is set up to be terminated, with its disk, when it shuts down, "
            "as at the time limit: set its shutdown behavior to stop, or run with --keep",
        )


def await_state(aws: Aws, identifier: str, waiter: str, complaint: str) -> None:
    """Waits by a waiter of boto3; raises INSTANCE_GONE or NOT_ONLINE with the complaint."""
    if aws.wait("ec2", waiter, pace.STATE, pace.START, InstanceIds=[identifier]):
        return
    if waiter == "instance_running":
        require_alive(aws, identifier)
    raise Failure(Kind.NOT_ONLINE, f"instance {identifier} {complaint} after {pace.START:.0f} s")


def start(aws: Aws, identifier: str) -> None:
    """Starts a stopped instance, or one that is about to be stopped."""
    await_state(aws, identifier, "instance_stopped", "did not finish stopping")
    aws.call("ec2", "start_instances", InstanceIds=[identifier])


def wait_online(aws: Aws, identifier: str) -> None:
    """Waits until the instance runs and answers Systems Manager; raises NOT_ONLINE."""
    await_state(aws, identifier, "instance_running", "did not start")
    filters = [{"Key": "InstanceIds", "Values": [identifier]}]
    if not aws.wait("ssm", ONLINE, pace.STATE, pace.START, Filters=filters):
        require_alive(aws, identifier)
        raise Failure(
            Kind.NOT_ONLINE,
            f"instance {identifier} runs, but Systems Manager did not reach it. The instance "
            "needs an instance profile with AmazonSSMManagedInstanceCore, the SSM agent and "
            f"access to the internet after {pace.START:.0f} s",
        )


def end(aws: Aws, identifier: str, terminate: bool) -> str:
    """Stops or terminates an instance; returns the state that EC2 confirms."""
    state = state_now(aws, identifier)
    if state in (GONE if terminate else ENDED):
        return state
    if not terminate and state == "pending":  # which cannot be stopped yet
        aws.wait("ec2", "instance_running", pace.STATE, pace.END, InstanceIds=[identifier])
    operation = "terminate" if terminate else "stop"
    answer = aws.call("ec2", f"{operation}_instances", InstanceIds=[identifier])
    changes = answer["TerminatingInstances" if terminate else "StoppingInstances"]
    state = changes[0]["CurrentState"]["Name"]
    if state not in ENDED:
        raise Failure(Kind.NOT_ONLINE, f"instance {identifier} did not end")
    return state
