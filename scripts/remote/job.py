"""A job on an instance, as this machine sees it."""

from __future__ import annotations

import base64
import io
import json
import secrets
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any

from nki_sim.base.whole_file import write_whole
from remote import command, pace
from remote.aws import Aws
from remote.bucket import Bucket
from remote.failure import CommandFailed, CorruptPayload
from remote.instance import chip_of
from remote.payload import Damaged, decode, digest, unpack
from remote.record import Record
from remote.sets import SETS, STATE
from remote.states import COMPLETE

CHUNK = 24_000  # bytes of the revision in one command: 32,000 characters in base64
END = "trnfft-arguments"  # no line of JSON can be equal to this text
ON_INSTANCE = (
    "__init__.py",
    "benchmark_summary.py",
    "payload.py",
    "states.py",
    "worker.py",
)
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
# This program stores the worker. It runs before the verb that is the first on an instance.
INSTALL = """\
import base64, hashlib, os, pathlib, sys
folder = pathlib.Path.home() / "trnfft-jobs" / sys.argv[1]
folder.mkdir(parents=True, exist_ok=True)
content = base64.b64decode(sys.argv[2])
if hashlib.sha256(content).hexdigest() != sys.argv[3]:
    sys.exit("the worker did not arrive whole")
(folder / "worker.part").write_bytes(content)
os.replace(folder / "worker.part", folder / "worker.zip")
"""


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


class Job:
    """The verbs of the worker, and the transfers that are made of them."""

    def __init__(self, aws: Aws, record: Record, say: Callable[[str], None]) -> None:
        self.aws = aws
        self.record = record
        self.say = say
        self.bucket = Bucket(aws, record.bucket, record.job) if record.bucket else None

    def call(self, verb: str, before: str = "", **arguments: Any) -> dict[str, Any]:
        """Returns the worker's answer. A damaged one is asked for again: verbs may be repeated."""
        instance = self.record.instance
        if instance is None:
            raise CommandFailed("the job has no instance")
        worker = f'"${{HOME:-/root}}"/trnfft-jobs/{quote(self.record.job)}/worker.zip'
        # They go through stdin, because every user of the instance can see arguments of commands.
        given = f"<<'{END}'\n{json.dumps(arguments)}\n{END}\n"
        script = f"{before}exec python3 {worker} {quote(verb)} {given}"
        for _ in range(pace.RETRIES + 1):
            try:
                return decode(command.run(self.aws, instance, script, f"trnfft {verb}"))
            except Damaged as damage:
                self.say(f"{verb}: {damage}; asking the instance again")
                complaint = str(damage)
        raise CorruptPayload(f"{verb}: {complaint}, {pace.RETRIES + 1} times")

    def install(self, minutes: int | None, disarm: bool = False) -> None:
        """Installs the worker, and makes the instance shut itself down after `minutes`, if given.

        disarm: cancels every shutdown that was set before.
        """
        worker = worker_archive()
        words = (INSTALL, self.record.job, base64.b64encode(worker).decode(), digest(worker))
        before = f"python3 -c {' '.join(map(quote, words))} || exit 1\n"
        self.call("arm", before, minutes=minutes, disarm=disarm)

    def upload(self, archive: bytes) -> None:
        """Brings the revision to the instance, unless it is there already."""
        checksum = digest(archive)
        for _ in range(pace.RETRIES + 1):
            if self.call("accept", sha256=checksum)["whole"]:
                return
            self.say(f"uploading {self.record.commit[:12]}, {size_of(len(archive))}")
            if self.bucket:
                self.bucket.put("revision.tar.gz", archive)
                url = self.bucket.url("get_object", "revision.tar.gz", pace.COMMAND_LIMIT)
                self.call("download", url=url)
                self.bucket.delete("revision.tar.gz")
            else:
                self.send_chunks(archive)
        if not self.call("accept", sha256=checksum)["whole"]:
            raise CorruptPayload(
                f"the revision arrived damaged {pace.RETRIES + 1} times: try --resume or a new job "
                "with --bucket"
            )

    def send_chunks(self, archive: bytes) -> None:
        """Sends the revision through the parameters of commands."""
        for offset in range(0, len(archive), CHUNK):
            data = base64.b64encode(archive[offset : offset + CHUNK]).decode()
            self.call("receive", offset=offset, data=data)

    def start(self, names: list[str], seconds: float) -> None:
        """Starts sets in the background. They have to end within `seconds`."""
        uploads = {}
        if self.bucket:
            for name in names:  # an earlier run that ended early may have left results
                self.bucket.delete(f"{name}.payload")
                valid = seconds + pace.GRACE  # sets that the time limit ends are uploaded after it
                uploads[name] = self.bucket.url("put_object", f"{name}.payload", valid)
        plans = [SETS[name].plan for name in names]
        chip = chip_of(self.record.instance_type)
        self.call(
            "start",
            token=secrets.token_hex(8),
            sets=plans,
            venv=self.record.venv,
            wheels=WHEELS[chip],
            seconds=seconds,
            environment={
                "TRNFFT_REVISION": self.record.commit,  # an archive has no git repository
                "NEURON_PLATFORM_TARGET_OVERRIDE": chip,
            },
            uploads=uploads,
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
        """Ends the running sets; raises CommandFailed where they do not end."""
        if not self.call("stop")["ended"]:
            raise CommandFailed("the job on the instance does not end")

    def fetch(self, name: str) -> bool:
        """Fetches the results of a set; returns False where the instance has none yet."""
        if not self.record.sets[name].get("packed"):
            return False
        for attempt in range(pace.RETRIES + 1):
            sealed = self.from_bucket(name, attempt) if self.bucket else self.in_chunks(name)
            try:
                self.keep(name, sealed)
                return True
            except Damaged as damage:
                self.say(f"results of {name}: {damage}; fetching again")
                complaint = str(damage)
        raise CorruptPayload(f"results of {name}: {complaint}, {pace.RETRIES + 1} times")

    def fetch_uploaded(self, name: str) -> None:
        """Fetches results that are in the bucket, whatever became of the instance."""
        sealed = self.bucket.get(f"{name}.payload") if self.bucket else None
        if sealed is not None:
            with suppress(Damaged):  # the instance still has the results
                self.keep(name, sealed)

    def from_bucket(self, name: str, attempt: int) -> bytes:
        """Returns packed results from the bucket. The instance uploads missing or damaged ones."""
        assert self.bucket
        key = f"{name}.payload"
        found = None if attempt else self.bucket.get(key)
        if found is None:
            self.call("put", name=name, url=self.bucket.url("put_object", key, pace.COMMAND_LIMIT))
            found = self.bucket.get(key)
        return found or b""

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
        files = unpack(sealed, SETS[name].files)
        state = json.loads(files.pop(STATE))
        for file, content in files.items():
            write_whole(self.record.folder / file, content)
        is_complete = state["state"] in COMPLETE
        self.record.sets[name] = {**state, "fetched": is_complete, "files": sorted(files)}
        self.record.save()
        if self.bucket:
            self.bucket.delete(f"{name}.payload")
        self.say(f"{name}: {state['state']}, {size_of(len(sealed))} fetched")


def size_of(count: int) -> str:
    """Returns a number of bytes in kB or MB."""
    return f"{count / 1000:.1f} kB" if count < 1_000_000 else f"{count / 1e6:.1f} MB"
