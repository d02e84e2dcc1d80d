"""A run that shows every call to AWS and makes none.

The calls come from the code that makes them in a real run. Handlers of botocore's events answer
each call before it is sent, as AWS answers where nothing goes wrong.
"""

from __future__ import annotations

import base64
import json
import reprlib
from collections import Counter
from typing import Any

import boto3
from botocore.awsrequest import AWSResponse
from rich.markup import escape

from remote import needs
from remote.aws import Aws
from remote.failure import translated
from remote.payload import encode, pack
from remote.screen import Screen
from remote.sets import STATE
from remote.states import FINISHED, WAITING

INSTANCE = "i-00000000000000000"
INSTANCE_TYPE = "trn2.3xlarge"
REGION = "us-east-1"
ENDED = {"state": FINISHED, "packed": True}
PACKED = pack({STATE: json.dumps(ENDED).encode()})
# The state of the instance after each call that changes it.
CHANGES = {
    "StartInstances": "running",
    "StopInstances": "stopping",
    "TerminateInstances": "shutting-down",
}


class Rehearsal:
    """The answers of an AWS where everything goes well."""

    def __init__(self, sets: list[str], launched: bool) -> None:
        self.sets = sets
        self.state = "running" if launched else "stopped"
        self.job = WAITING
        self.revision_there = False
        self.reply = ""

    def answer(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Returns what AWS would answer: the fields that are read of any answer."""
        self.state = CHANGES.get(operation, self.state)
        if operation == "SendCommand":
            self.reply = encode(self.worker(parameters["Comment"].split()[-1]))
        state = {"Name": self.state}
        instance = {"InstanceId": INSTANCE, "InstanceType": INSTANCE_TYPE, "State": state}
        return {
            "Reservations": [{"Instances": [instance]}],
            "Instances": [instance],
            "StoppingInstances": [{"CurrentState": state}],
            "TerminatingInstances": [{"CurrentState": state}],
            "LaunchTemplateVersions": [{"LaunchTemplateData": {"InstanceType": INSTANCE_TYPE}}],
            "InstanceInitiatedShutdownBehavior": {"Value": "stop"},
            "InstanceInformationList": [{"PingStatus": "Online"}],
            "Command": {"CommandId": "00000000-0000-0000-0000-000000000000"},
            "Status": "Success",
            "StandardOutputContent": self.reply,
        }

    def worker(self, verb: str) -> dict[str, Any]:
        """Returns what the worker on the instance would answer."""
        if verb == "receive":
            self.revision_there = True
        if verb == "start":
            self.job = FINISHED
        if verb == "poll":
            sets = {name: ENDED for name in self.sets if self.job == FINISHED}
            return {"state": self.job, "sets": sets, "log": "", "skipped": 0, "offset": 0}
        if verb == "chunk":
            return {"data": base64.b64encode(PACKED).decode(), "size": len(PACKED)}
        return {"whole": self.revision_there}


class Short(reprlib.Repr):
    """Shows parameters without the middle of long texts."""

    def __init__(self) -> None:
        super().__init__()
        self.maxdict = self.maxlist = 20
        self.maxstring = 160

    def repr_bytes(self, content: bytes, level: int) -> str:
        """Shows only the length of bytes."""
        return f"<{len(content)} bytes>"


class Calls:
    """Shows every call the first time, and counts how often its operation is called.

    Calls are the same if operation and purpose are.
    """

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.counts: Counter[str] = Counter()
        self.operations: list[str] = []  # "service.Operation" of every call so far

    def show(self, operation: str, parameters: dict[str, Any]) -> None:
        """Takes a call: service.Operation and its parameters."""
        purpose = parameters.get("Comment", "")
        same = f"{operation} {purpose}".strip()
        if same not in self.counts:
            self.screen.line(f"[bold]{operation}[/] {escape(Short().repr(parameters))}")
        self.counts[same] += 1
        self.operations.append(operation)

    def repeated(self) -> str:
        """Returns the calls that came more than once, with their numbers."""
        return ", ".join(f"{name} x {times}" for name, times in self.counts.items() if times > 1)


def rehearsed(rehearsal: Rehearsal, calls: Calls) -> Aws:
    """Returns an Aws whose calls are shown, and answered by a rehearsal."""
    # Nobody will see the credentials, so that any text is good enough.
    region = needs.region()[0] or REGION
    with translated():
        session = boto3.Session("none", "none", region_name=region)

    def answer(model: Any, context: dict[str, Any], **_: Any) -> Any:
        calls.show(f"{model.service_model.service_name}.{model.name}", context["parameters"])
        found = rehearsal.answer(model.name, context["parameters"])
        return AWSResponse("", 200, {}, None), found

    def remember(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["parameters"] = dict(params)

    session.events.register_first("provide-client-params", remember)
    session.events.register_last("before-call", answer)
    return Aws(session=session)
