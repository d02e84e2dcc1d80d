"""A run that shows every call to AWS and makes none.

The calls come from the code that makes them in a real run. Handlers of botocore's events answer
each call before it is sent, as AWS answers where nothing goes wrong.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from botocore import xform_name
from botocore.awsrequest import AWSResponse
from botocore.response import StreamingBody
from rich.console import Console

from remote import needs, pace
from remote.aws import Aws
from remote.failure import translated
from remote.payload import encode, pack
from remote.screen import Screen
from remote.states import FINISHED, WAITING

INSTANCE = "i-00000000000000000"
INSTANCE_TYPE = "trn2.3xlarge"
REGION = "us-east-1"
LONGEST = 160  # characters shown of one parameter
ENDED = {"state": FINISHED, "packed": True}


class Rehearsal:
    """The answers of an AWS where everything goes well. There is one method for each operation."""

    def __init__(self, sets: list[str], launched: bool) -> None:
        self.sets = sets
        self.state = "running" if launched else "stopped"
        self.job = WAITING
        self.revision_there = False
        self.reply = ""
        self.packed = pack({"state.json": json.dumps(ENDED).encode()})

    def answer(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Returns what AWS would answer."""
        method = getattr(self, operation, None)
        return method(parameters) if method else {}

    @property
    def instance(self) -> dict[str, Any]:
        """Returns the instance as EC2 describes it."""
        state = {"Name": self.state}
        return {"InstanceId": INSTANCE, "InstanceType": INSTANCE_TYPE, "State": state}

    def describe_instances(self, parameters: dict[str, Any]) -> dict[str, Any]:
        return {"Reservations": [{"Instances": [self.instance]}]}

    def describe_launch_template_versions(self, parameters: dict[str, Any]) -> dict[str, Any]:
        data = {"InstanceType": INSTANCE_TYPE}
        return {"LaunchTemplateVersions": [{"LaunchTemplateData": data}]}

    def describe_instance_attribute(self, parameters: dict[str, Any]) -> dict[str, Any]:
        return {"InstanceInitiatedShutdownBehavior": {"Value": "stop"}}

    def run_instances(self, parameters: dict[str, Any]) -> dict[str, Any]:
        return {"Instances": [self.instance]}

    def start_instances(self, parameters: dict[str, Any]) -> dict[str, Any]:
        self.state = "running"
        return {}

    def stop_instances(self, parameters: dict[str, Any]) -> dict[str, Any]:
        self.state = "stopping"
        return {}

    def terminate_instances(self, parameters: dict[str, Any]) -> dict[str, Any]:
        self.state = "shutting-down"
        return {}

    def describe_instance_information(self, parameters: dict[str, Any]) -> dict[str, Any]:
        return {"InstanceInformationList": [{"PingStatus": "Online"}]}

    def send_command(self, parameters: dict[str, Any]) -> dict[str, Any]:
        self.reply = encode(self.worker(parameters["Comment"].split()[-1]))
        return {"Command": {"CommandId": "00000000-0000-0000-0000-000000000000"}}

    def get_command_invocation(self, parameters: dict[str, Any]) -> dict[str, Any]:
        return {"Status": "Success", "StandardOutputContent": self.reply}

    def get_object(self, parameters: dict[str, Any]) -> dict[str, Any]:
        if self.job == WAITING:
            return {"Error": {"Code": "NoSuchKey", "Message": "nothing yet"}}
        return {"Body": StreamingBody(io.BytesIO(self.packed), len(self.packed))}

    def worker(self, verb: str) -> dict[str, Any]:
        """Returns what the worker on the instance would answer."""
        if verb in ("receive", "download"):
            self.revision_there = True
        if verb == "start":
            self.job = FINISHED
        if verb == "poll":
            sets = {name: ENDED for name in self.sets if self.job == FINISHED}
            return {"state": self.job, "sets": sets, "log": "", "skipped": 0, "offset": 0}
        if verb == "chunk":
            return {"data": base64.b64encode(self.packed).decode(), "size": len(self.packed)}
        return {"whole": self.revision_there}


class FoldingScreen(Screen):
    """A screen that shows repeated calls once, with the number of their repetitions."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.waiting: list[str] = []
        self.operations: list[str] = []  # "service.Operation" of every call so far

    def call(self, text: str) -> None:
        self.waiting.append(text)
        self.operations.append(text.partition(" ")[0])

    def say(self, sentence: str) -> None:
        self.flush()
        super().say(sentence)

    def table(self, title: str, rows: dict[str, str], show_lines: bool = False) -> None:
        self.flush()
        super().table(title, rows, show_lines)

    def flush(self) -> None:
        """Shows the calls so far."""
        waiting, self.waiting = self.waiting, []
        for block, times in folded(waiting):
            for text in block:
                super().call(text)
            if times > 1:
                what = "the call" if len(block) == 1 else f"the {len(block)} calls, in turn,"
                self.console.print(f"[dim]{what} above x {times}[/]", highlight=False)


def folded(calls: list[str]) -> list[tuple[list[str], int]]:
    """Returns calls as blocks of one or two, each with the number of its repetitions.

    The parameters of the first repetition stand for all of them.
    """
    names = [name_of(call) for call in calls]
    found, at = [], 0
    while at < len(calls):
        size, times = max(
            ((size, repetitions(names[at:], size)) for size in (1, 2)),
            key=lambda pair: (pair[1] > 1, -pair[0]),
        )
        size = size if times > 1 else 1
        found.append((calls[at : at + size], times))
        at += size * times
    return found


def repetitions(names: list[str], size: int) -> int:
    """Returns how often the first `size` names are repeated without a gap."""
    times = 1
    while names[times * size : (times + 1) * size] == names[:size]:
        times += 1
    return times


def name_of(call: str) -> str:
    """Returns operation and purpose, which are equal for calls that differ in their data only."""
    name, _, parameters = call.partition(" ")
    return f"{name} {json.loads(parameters).get('Comment', '')}"


def rehearsed(rehearsal: Rehearsal, show: Callable[[str], None]) -> Aws:
    """Returns an Aws whose calls are shown, and answered by a rehearsal."""
    # The credentials sign URLs of S3 that nobody will use, so that any text is good enough.
    region = needs.region()[0] or REGION
    with translated():
        session = boto3.Session("none", "none", region_name=region)

    def answer(model: Any, context: dict[str, Any], **_: Any) -> Any:
        parameters = context["parameters"]
        show(f"{model.service_model.service_name}.{model.name} {shortened(parameters)}")
        found = rehearsal.answer(xform_name(model.name), parameters)
        return AWSResponse("", 404 if "Error" in found else 200, {}, None), found

    def remember(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["parameters"] = dict(params)

    session.events.register_first("provide-client-params", remember)
    session.events.register_last("before-call", answer)
    return Aws(session=session)


def shortened(parameters: dict[str, Any]) -> str:
    """Returns parameters as JSON in which long values are cut."""

    def shorten(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shorten(one) for key, one in value.items()}
        if isinstance(value, list):
            return [shorten(one) for one in value]
        if isinstance(value, bytes):
            return f"<{len(value)} bytes>"
        if isinstance(value, str) and len(value) > LONGEST:
            return f"{value[: LONGEST // 2]} ... {value[-LONGEST // 2 :]} ({len(value)} characters)"
        return value

    return json.dumps(shorten(parameters))


@contextmanager
def without_pauses() -> Iterator[None]:
    """Waits for nothing inside the block."""
    before = pace.POLL, pace.STATE, pace.COMMAND
    pace.POLL = pace.STATE = pace.COMMAND = 0.0
    try:
        yield
    finally:
        pace.POLL, pace.STATE, pace.COMMAND = before
