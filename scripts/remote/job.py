"""A job on an instance, as this machine sees it: the verbs of the worker, and transfers by them."""

from __future__ import annotations

import base64
import io
import json
import secrets
import zipfile
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

from nki_sim.base.whole_file import write_whole
from remote import pace
from remote.aws import Aws
from remote.failure import Failure, Kind
from remote.instance import chip_of, require_alive
from remote.payload import Damaged, decode, digest, unpack
from remote.record import Record
from remote.sets import STATE, plan
from remote.sets import files as files_of
from remote.states import COMPLETE

# AWS documents 64 KB for a document with its parameters (MaxDocumentSizeExceeded of SendCommand).
SCRIPT_LIMIT = 48_000  # characters
CHUNK = 24_000  # bytes of the revision in one command: 32,000 characters in base64
END = "trnfft-arguments"  # no line of JSON can be equal to this text
ON_INSTANCE = ("__init__.py", "payload.py", "states.py", "worker.py")
# Modules of the library for the instance. One has the options by which pip installs AWS's packages.
LIBRARY = Path(__file__).parents[2] / "nki_sim" / "base"
OF_LIBRARY = ("neuron_packages.py", "whole_file.py")
# The packages of the Neuron SDK that each chip needs, as files of the revision.
WHEELS = {
    "trn1": "scripts/wheels-neuron-trn1.txt",
    "inf2": "scripts/wheels-neuron-trn1.txt",
    "trn2": "scripts/wheels-neuron-trn2.txt",
    "trn3": "scripts/wheels-neuron-trn2.txt",
}


def worker_archive() -> bytes:
    """Returns the program for the instance, as an archive that Python can run."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ON_INSTANCE:
            archive.write(Path(__file__).with_name(name), f"remote/{name}")
        for package in ("nki_sim", "nki_sim/base"):
            archive.writestr(f"{package}/__init__.py", "")
        for name in OF_LIBRARY:
            archive.write(LIBRARY / name, f"nki_sim/base/{name}")
        archive.writestr("__main__.py", "from remote.worker import main\n\nmain()\n")
    return buffer.getvalue()


def run_command(aws: Aws, instance: str, script: str, comment: str) -> str:
    """Runs a short shell script; returns at most the first 24,000 characters that it prints.

    Raises COMMAND_FAILED, COMMAND_TIMED_OUT, or INSTANCE_GONE where the instance has ended.
    """
    if len(script) > SCRIPT_LIMIT:
        raise ValueError(
            f"a script has {len(script)} characters; at most {SCRIPT_LIMIT} are allowed"
        )
    limits = {"commands": [script], "executionTimeout": [str(int(pace.COMMAND_LIMIT))]}
    try:
        sent = aws.call(
            "ssm",
            "send_command",
            InstanceIds=[instance],
            DocumentName="AWS-RunShellScript",
            Comment=comment,
            TimeoutSeconds=pace.DELIVERY_LIMIT,
            Parameters=limits,
        )
    except Failure as failure:
        if failure.reason != "InvalidInstanceId":
            raise
        require_alive(aws, instance)
        raise Failure(
            Kind.COMMAND_TIMED_OUT,
            f"{comment}: Systems Manager does not reach instance {instance}",
        ) from failure
    invocation = {"CommandId": sent["Command"]["CommandId"], "InstanceId": instance}
    longest = pace.COMMAND_LIMIT + pace.DELIVERY_LIMIT
    aws.wait("ssm", "command_executed", pace.COMMAND, longest, **invocation)
    found = aws.call("ssm", "get_command_invocation", **invocation)
    status, details = found["Status"], found.get("StatusDetails", "")
    if status == "Success":
        return found["StandardOutputContent"]
    require_alive(aws, instance)
    if status in ("Pending", "InProgress", "Delayed"):
        raise Failure(Kind.COMMAND_TIMED_OUT, f"{comment}: the instance does not answer")
    if status == "TimedOut" or details in ("Undeliverable", "DeliveryTimedOut"):
        raise Failure(Kind.COMMAND_TIMED_OUT, f"{comment}: {details or status}")
    complaint = found.get("StandardErrorContent", "").strip()
    raise Failure(Kind.COMMAND_FAILED, ", ".join(filter(None, (f"{comment}: {status}", complaint))))


class Job:
    """The verbs of the worker, and the transfers that are made of them."""

    def __init__(self, aws: Aws, record: Record, say: Callable[[str], None]) -> None:
        self.aws = aws
        self.record = record
        self.say = say
        self.folder = f'"${{HOME:-/root}}"/trnfft-jobs/{quote(record.job)}'

    def call(self, verb: str, before: str = "", **arguments: Any) -> dict[str, Any]:
        """Returns the worker's answer. A damaged one is asked for again: verbs may be repeated."""
        assert self.record.instance
        worker = f"{self.folder}/worker.zip"
        # They go through stdin, because every user of the instance can see arguments of commands.
        given = f"<<'{END}'\n{json.dumps(arguments)}\n{END}\n"
        script = f"{before}exec python3 {worker} {quote(verb)} {given}"
        for _ in range(pace.RETRIES + 1):
            try:
                return decode(run_command(self.aws, self.record.instance, script, f"trnfft {verb}"))
            except Damaged as damage:
                self.say(f"{verb}: {damage}; asking the instance again")
                complaint = str(damage)
        raise Failure(Kind.CORRUPT_PAYLOAD, f"{verb}: {complaint}, {pace.RETRIES + 1} times")

    def install(self, minutes: int | None, disarm: bool = False) -> None:
        """Installs the worker, and makes the instance shut itself down after `minutes`, if given.

        disarm: cancels every shutdown that was set before.
        """
        worker = base64.b64encode(worker_archive()).decode()
        # The file has its name only when it is whole, because a lost answer repeats the command.
        store = "base64 -d > worker.part && mv worker.part worker.zip"
        before = (
            f"mkdir -p {self.folder} && cd {self.folder} && echo {worker} | {store} || exit 1\n"
        )
        self.call("arm", before, minutes=minutes, disarm=disarm)

    def upload(self, archive: bytes) -> None:
        """Brings the revision to the instance, in chunks."""
        checksum = digest(archive)
        for _ in range(pace.RETRIES + 1):
            if self.call("accept", sha256=checksum)["whole"]:
                return
            self.say(f"uploading {self.record.commit[:12]}, {size_of(len(archive))}")
            for offset in range(0, len(archive), CHUNK):
                data = base64.b64encode(archive[offset : offset + CHUNK]).decode()
                self.call("receive", offset=offset, data=data)
        if not self.call("accept", sha256=checksum)["whole"]:
            raise Failure(
                Kind.CORRUPT_PAYLOAD,
                f"the revision arrived damaged {pace.RETRIES + 1} times: try --resume",
            )

    def start(self, names: list[str], seconds: float) -> None:
        """Starts sets in the background. They have to end within `seconds`."""
        chip = chip_of(self.record.instance_type)
        self.call(
            "start",
            token=secrets.token_hex(8),
            sets=[plan(name) for name in names],
            venv=self.record.venv,
            wheels=WHEELS[chip],
            seconds=seconds,
            environment={
                "TRNFFT_REVISION": self.record.commit,  # an archive has no git repository
                "NEURON_PLATFORM_TARGET_OVERRIDE": chip,
            },
        )

    def poll(self) -> dict[str, Any]:
        """Returns the state of the job and of its sets, and what is new in its log."""
        found = self.call("poll", offset=self.record.offset)
        self.record.offset = found["offset"]
        for name, state in found["sets"].items():
            if not self.record.sets.get(name, {}).get("fetched"):
                self.record.sets[name] = state
        self.record.save()
        return found

    def stop(self) -> None:
        """Ends the running sets; raises COMMAND_FAILED where they do not end."""
        if not self.call("stop")["ended"]:
            raise Failure(Kind.COMMAND_FAILED, "the job on the instance does not end")

    def fetch_ended(self) -> None:
        """Fetches the results of every set that has ended."""
        for name in self.record.missing:
            if self.record.sets[name].get("packed"):
                self.fetch(name)

    def fetch(self, name: str) -> None:
        """Fetches packed results."""
        for _ in range(pace.RETRIES + 1):
            try:
                return self.keep(name, self.in_chunks(name))
            except Damaged as damage:
                self.say(f"results of {name}: {damage}; fetching again")
                complaint = str(damage)
        raise Failure(
            Kind.CORRUPT_PAYLOAD, f"results of {name}: {complaint}, {pace.RETRIES + 1} times"
        )

    def in_chunks(self, name: str) -> bytes:
        """Returns packed results that travel in the output of commands."""
        content = b""
        while True:
            answer = self.call("chunk", name=name, offset=len(content))
            content += base64.b64decode(answer["data"])
            if len(content) >= answer["size"] or not answer["data"]:
                return content

    def keep(self, name: str, sealed: bytes) -> None:
        """Writes results to the output folder; raises Damaged where they are not whole."""
        files = unpack(sealed, files_of(name))
        state = json.loads(files.pop(STATE))
        for file, content in files.items():
            write_whole(self.record.folder / file, content)
        is_complete = state["state"] in COMPLETE
        self.record.sets[name] = {**state, "fetched": is_complete, "files": sorted(files)}
        self.record.save()
        self.say(f"{name}: {state['state']}, {size_of(len(sealed))} fetched")


def size_of(count: int) -> str:
    """Returns a number of bytes in kB or MB."""
    return f"{count / 1000:.1f} kB" if count < 1_000_000 else f"{count / 1e6:.1f} MB"
