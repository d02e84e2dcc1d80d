"""Commands on the instance through Systems Manager's AWS-RunShellScript."""

from __future__ import annotations

import time

from remote import pace
from remote.aws import Aws
from remote.failure import AwsRefused, CommandFailed, CommandTimedOut
from remote.instance import describe, require_alive

# AWS documents 64 KB for a document with its parameters (MaxDocumentSizeExceeded of SendCommand).
SCRIPT_LIMIT = 48_000  # characters
WAITING = ("Pending", "InProgress", "Delayed", "Cancelling")


def run(aws: Aws, instance: str, script: str, comment: str) -> str:
    """Runs a short shell script; returns at most the first 24,000 characters that it prints.

    Raises CommandFailed, CommandTimedOut, or InstanceGone where the instance has ended.
    """
    if len(script) > SCRIPT_LIMIT:
        raise ValueError(
            f"a script has {len(script)} characters; at most {SCRIPT_LIMIT} are allowed"
        )
    try:
        answer = aws.call(
            "ssm",
            "send_command",
            InstanceIds=[instance],
            DocumentName="AWS-RunShellScript",
            Comment=comment,
            TimeoutSeconds=pace.DELIVERY_LIMIT,
            Parameters={
                "commands": [script],
                "executionTimeout": [str(int(pace.COMMAND_LIMIT))],
            },
        )
    except AwsRefused as error:
        if error.reason == "InvalidInstanceId":
            require_alive(describe(aws, instance))
            raise CommandTimedOut(
                f"{comment}: Systems Manager does not reach instance {instance}"
            ) from error
        raise
    return await_output(aws, instance, answer["Command"]["CommandId"], comment)


def await_output(aws: Aws, instance: str, command: str, comment: str) -> str:
    """Waits for the end of a command; returns what it printed."""
    deadline = time.monotonic() + pace.COMMAND_LIMIT + pace.DELIVERY_LIMIT
    while time.monotonic() < deadline:
        time.sleep(pace.COMMAND)
        try:
            found = aws.call(
                "ssm", "get_command_invocation", CommandId=command, InstanceId=instance
            )
        except AwsRefused as error:
            if error.reason == "InvocationDoesNotExist":  # for a moment after every SendCommand
                continue
            raise
        if found["Status"] == "Success":
            return found["StandardOutputContent"]
        if found["Status"] == "Delayed":
            require_alive(describe(aws, instance))
        if found["Status"] not in WAITING:
            break
    else:
        raise CommandTimedOut(f"{comment}: the instance does not answer")
    require_alive(describe(aws, instance))
    details = found.get("StatusDetails", "")
    complaint = found.get("StandardErrorContent", "").strip()
    if found["Status"] == "TimedOut" or details in ("Undeliverable", "DeliveryTimedOut"):
        raise CommandTimedOut(f"{comment}: {details or found['Status']}")
    raise CommandFailed(f"{comment}: {found['Status']}" + (f", {complaint}" if complaint else ""))
