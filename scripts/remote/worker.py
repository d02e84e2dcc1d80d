"""The program on the instance: one verb for each command, and the job in the background.

    python3 ~/trnfft-jobs/JOB/worker.zip VERB <<< '{"argument": ...}'

Arguments come through stdin, and signed URLs stay in memory: others could read the arguments of a
process, and files, for as long as the URLs are valid. Every verb may be repeated, because the
caller sends a command again when its reply is lost. The reply is a sealed payload of JSON
(`remote.payload`). The program uses its archive and the standard library of Python 3.9 only.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nki_sim.base.neuron_packages import FROM_AWS_ALONE, INDEX
from nki_sim.base.whole_file import write_whole
from remote.benchmark_summary import summarise
from remote.payload import digest, encode, pack
from remote.states import FAILED, FINISHED, RUNNING, STOPPED, TIMED_OUT, WAITING

# The Neuron SDK needs the versions of packages that it came with, and pip must not replace them.
PINNED = "(torch|neuron|nki|nrt|lib|jax|numpy|ml.dtypes|protobuf)"
STOP_LIMIT = 30.0  # seconds
BOOT_LIMIT = 600.0  # seconds
BOOT_SCRIPT = Path("/var/lib/cloud/scripts/per-boot/trnfft-limit")  # written by remote.instance
PAUSES = (0.5, 2.0, 0.0)  # seconds after each failed transfer
LOG_LIMIT = 8_000  # bytes of the log in one reply
CHUNK = 15_000  # bytes of a result in one reply


class Job:
    """The folder of one job."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.archive = folder / "revision.tar.gz"
        self.checkout = folder / "checkout"
        self.log = folder / "log"
        self.state_file = folder / "state.json"
        self.plan_file = folder / "plan.json"
        self.lock = folder / "lock"

    def result(self, name: str) -> Path:
        """Returns the file of a set's packed results, which exists only after the set has ended."""
        return self.folder / f"{name}.payload"

    def state(self) -> dict[str, Any]:
        """Returns the state that the background process wrote last."""
        if not self.state_file.exists():
            return {"state": WAITING, "sets": {}}
        return json.loads(self.state_file.read_text())


# Verbs


def arm(job: Job, minutes: int | None, disarm: bool) -> dict[str, Any]:
    """Makes the instance shut itself down after some minutes, even if nobody asks for it.

    This replaces the limit that the boot sets, and therefore waits for the end of the boot.
    `disarm` only cancels the limit of the boot.
    """
    if shutil.which("cloud-init"):
        subprocess.run(["cloud-init", "status", "--wait"], capture_output=True, timeout=BOOT_LIMIT)
    if minutes is not None:
        subprocess.run(["shutdown", "-h", f"+{minutes}"], check=True, capture_output=True)
    elif disarm:
        BOOT_SCRIPT.unlink(missing_ok=True)
        subprocess.run(["shutdown", "-c"], check=True, capture_output=True)
    return {"minutes": minutes}


def receive(job: Job, offset: int, data: str) -> dict[str, Any]:
    """Writes one chunk of the revision at its place."""
    with open(job.folder / "revision.part", "r+b" if offset else "wb") as file:
        file.seek(offset)
        file.write(b64decode(data))
        file.truncate()
    return {"bytes": offset + len(b64decode(data))}


def download(job: Job, url: str) -> dict[str, Any]:
    """Downloads the revision."""
    write_whole(job.folder / "revision.part", transfer(url))
    return {}


def accept(job: Job, sha256: str) -> dict[str, Any]:
    """Returns whether the revision has arrived whole, and stores it."""
    part = job.folder / "revision.part"
    if part.exists():
        os.replace(part, job.archive)
    return {"whole": job.archive.exists() and digest(job.archive.read_bytes()) == sha256}


def start(job: Job, uploads: dict[str, str], **plan: Any) -> dict[str, Any]:
    """Starts the job in the background, detached from the command.

    Nothing happens if a job runs, or if the start with the "token" of this plan was done before.

    uploads: the URL for the results of each set, by name. The job gets them through a pipe.
    """
    if job.plan_file.exists() and json.loads(job.plan_file.read_text())["token"] == plan["token"]:
        return {"started": False}
    with open(job.lock, "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return {"started": False}
        write_whole(job.plan_file, json.dumps(plan).encode())
        states = job.state()["sets"]
        for one in plan["sets"]:
            states[one["name"]] = {"state": WAITING}
            job.result(one["name"]).unlink(missing_ok=True)
        write_state(job, RUNNING, states)
        with open(job.log, "ab") as log:
            process = subprocess.Popen(
                [sys.executable, str(job.folder / "worker.zip"), "supervise"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                # The background process holds the lock until its end.
                pass_fds=[lock.fileno()],
                cwd=job.folder,
            )
    write_whole(job.folder / "pid", str(process.pid).encode())
    assert process.stdin
    with process.stdin as pipe:
        pipe.write(json.dumps(uploads).encode())
    return {"started": True}


def poll(job: Job, offset: int) -> dict[str, Any]:
    """Returns the state and the log from `offset` on. Of a long log it returns the end."""
    state = job.state()
    if state["state"] == RUNNING and not is_locked(job):
        state = {**job.state(), "alive": False}
    size = job.log.stat().st_size if job.log.exists() else 0
    begin = max(min(offset, size), size - LOG_LIMIT)
    log = b""
    if size > begin:
        with open(job.log, "rb") as file:
            file.seek(begin)
            log = file.read(size - begin)
    text = log.decode("utf-8", "replace")
    return {**state, "log": text, "skipped": begin - min(offset, size), "offset": size}


def is_locked(job: Job) -> bool:
    """Returns whether the background process runs."""
    with open(job.lock, "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def chunk(job: Job, name: str, offset: int) -> dict[str, Any]:
    """Returns one chunk of the packed results of a set."""
    packed = job.result(name)
    with open(packed, "rb") as file:
        file.seek(offset)
        data = file.read(CHUNK)
    return {"data": b64encode(data).decode(), "size": packed.stat().st_size}


def put(job: Job, name: str, url: str) -> dict[str, Any]:
    """Uploads the packed results of a set."""
    transfer(url, job.result(name).read_bytes())
    return {}


def stop(job: Job) -> dict[str, Any]:
    """Ends the job if it runs, and waits for its end."""
    deadline = time.monotonic() + STOP_LIMIT
    if is_locked(job):
        os.killpg(int((job.folder / "pid").read_text()), signal.SIGTERM)
    while is_locked(job) and time.monotonic() < deadline:
        time.sleep(0.05)
    return {"ended": not is_locked(job)}


VERBS: dict[str, Callable[..., dict[str, Any]]] = {
    verb.__name__: verb for verb in (arm, receive, download, accept, start, poll, chunk, put, stop)
}


# The job in the background


class Ended(BaseException):
    """The job received SIGTERM."""


def supervise(job: Job) -> None:
    """Installs the revision and runs the sets, one after another."""
    plan = json.loads(job.plan_file.read_text())
    states = job.state()["sets"]
    signal.signal(signal.SIGTERM, raise_ended)
    deadline = time.monotonic() + plan["seconds"]
    state, error = FINISHED, None
    try:
        uploads = json.loads(sys.stdin.read())
        python = prepare(job, plan, deadline)
        for one in plan["sets"]:
            run_set(job, one, python, deadline, states)
            upload_early(job, one["name"], uploads.get(one["name"]))
    except Ended:
        state = STOPPED
    except subprocess.TimeoutExpired:
        state = TIMED_OUT
    except Exception as problem:  # the caller has to learn of every problem
        state, error = FAILED, f"{type(problem).__name__}: {problem}"
    for one in states.values():
        if one["state"] in (WAITING, RUNNING):
            one["state"] = state
    write_state(job, state, states, error)


def raise_ended(number: int, frame: object) -> None:
    """Handles SIGTERM once. The signal reaches the whole process group."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Ended


def write_state(job: Job, state: str, sets: dict[str, Any], error: str | None = None) -> None:
    """Writes the state of the job, which `poll` reads."""
    write_whole(job.state_file, json.dumps({"state": state, "sets": sets, "error": error}).encode())


def prepare(job: Job, plan: dict[str, Any], deadline: float) -> str:
    """Unpacks and installs the revision; returns the Python that runs it."""
    shutil.rmtree(job.checkout, ignore_errors=True)
    job.checkout.mkdir()
    with tarfile.open(job.archive) as archive:
        archive.extractall(job.checkout)
    if plan["venv"]:
        python = str(choose_venv(plan["venv"]) / "bin" / "python")
    else:
        python = made_venv(job, job.checkout / plan["wheels"], deadline)
    print(f"python is {python}", flush=True)
    versions = subprocess.run(
        [python, "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True, check=True
    ).stdout
    kept = [line for line in versions.splitlines() if re.match(PINNED, line)]
    constraints = job.folder / "constraints.txt"
    constraints.write_text("\n".join(kept) + "\n")
    install = ["-m", "pip", "install", "-q", "-c", str(constraints), "-e", ".[dev]"]
    if run([python, *install], job, python, deadline):
        raise RuntimeError("pip could not install the revision; the log says why")
    return python


def made_venv(job: Job, wheels: Path, deadline: float) -> str:
    """Returns the Python of an environment with pinned wheels, which the first job makes."""
    folder = job.folder.parent / f"environment-{digest(wheels.read_bytes())[:16]}"
    python = str(folder / "bin" / "python")
    done = folder / "complete"
    if done.exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    create = ["python3", "-m", "venv", str(folder)]
    if run(create, job, python, deadline):
        # On Ubuntu venv needs a package that a base image may lack.
        shutil.rmtree(folder, ignore_errors=True)
        for line in (["apt-get", "-q", "update"], ["apt-get", "-qy", "install", "python3-venv"]):
            run(line, job, python, deadline)
        if run(create, job, python, deadline):
            raise RuntimeError("python3 -m venv failed; the log says why")
    install_wheels(job, wheels, python, deadline)
    done.touch()
    return python


def install_wheels(job: Job, wheels: Path, python: str, deadline: float) -> None:
    """Installs AWS's packages from AWS's index alone, then what they need from the public index."""
    install = [python, "-m", "pip", "install", "-q", "-r", str(wheels)]
    # pip reads no file of settings here: a file on the image may name another index.
    from_aws = ["env", f"PIP_CONFIG_FILE={os.devnull}", *install, *FROM_AWS_ALONE]
    if run(from_aws, job, python, deadline):
        raise RuntimeError(
            f"pip could not install {wheels.name} from {INDEX}. The log says why, and the head of "
            "that file says which systems its wheels are for. Launch an image with such a system, "
            "or name an environment that is on the image with --venv"
        )
    if run(install, job, python, deadline):
        raise RuntimeError(
            f"pip could not install the dependencies of {wheels.name}; the log says why"
        )


def choose_venv(pattern: str) -> Path:
    """Returns the newest virtual environment among the folders that match a pattern.

    Environments of plain PyTorch, such as aws_neuronx_venv_torch_neuronx_2_14_0 and
    aws_neuronx_venv_pytorch_2_9, are preferred to special ones.
    """
    path = Path(pattern)
    found = [path] if path.is_dir() else list(path.parent.glob(path.name))
    found = [folder for folder in found if (folder / "bin" / "python").exists()]
    if not found:
        raise FileNotFoundError(f"no folder with bin/python matches {pattern}")
    return max(found, key=venv_age)


def venv_age(folder: Path) -> tuple[bool, list[int]]:
    """Returns a key that sorts environments: plain ones last, then by their version."""
    is_plain = re.search(r"torch(_neuronx)?(_\d+)+$", folder.name) is not None
    return is_plain, [int(number) for number in re.findall(r"\d+", folder.name)]


def run_set(
    job: Job, one: dict[str, Any], python: str, deadline: float, states: dict[str, Any]
) -> None:
    """Runs the commands of a set and packs their files, whether or not the commands succeeded."""
    began = time.monotonic()
    state = states[one["name"]] = {"state": RUNNING}
    write_state(job, RUNNING, states)
    log_begin = job.log.stat().st_size
    for name in one["results"]:
        (job.checkout / name).unlink(missing_ok=True)
    try:
        codes = [run(["python", *c[1:]], job, python, deadline) for c in one["commands"]]
        state["state"] = FAILED if any(codes) else FINISHED
        if any(codes):
            state["error"] = f"exit code {', '.join(map(str, codes))}"
    except subprocess.TimeoutExpired:
        state["state"] = TIMED_OUT
    state["seconds"] = round(time.monotonic() - began, 1)
    try:
        pack_set(job, one, log_begin, state)
        state["packed"] = True
    except OSError as problem:  # a full disk
        state.update(state=FAILED, error=f"results not packed: {problem}")
    write_state(job, RUNNING, states)
    if state["state"] == TIMED_OUT:
        raise subprocess.TimeoutExpired(one["name"], 0)


def run(arguments: list[str], job: Job, python: str, deadline: float) -> int:
    """Runs one command in the checkout with the variables of Neuron; returns its exit code."""
    print("$", *arguments, flush=True)
    binaries = str(Path(python).parent)
    environment = {
        **os.environ,
        "HOME": str(Path.home()),
        "PATH": f"{binaries}:{os.environ.get('PATH', os.defpath)}",
        "NEURON_CC_FLAGS": "--auto-cast=none",  # float32 stays float32
        "PYTHONUNBUFFERED": "1",
        **json.loads(job.plan_file.read_text())["environment"],
    }
    if arguments[0] == "python":
        arguments = [python, *arguments[1:]]
    with subprocess.Popen(
        arguments, cwd=job.checkout, env=environment, stdin=subprocess.DEVNULL
    ) as process:
        try:
            return process.wait(timeout=max(deadline - time.monotonic(), 0))
        except BaseException:
            end_children(process)
            raise


def end_children(process: subprocess.Popen) -> None:
    """Ends a command and its children: every process of this process group except this one."""
    handler = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
    signal.signal(signal.SIGTERM, handler)


def pack_set(job: Job, one: dict[str, Any], log_begin: int, state: dict[str, Any]) -> None:
    """Packs the results of a set, its part of the log and its state into one file."""
    files = {}
    complaints = [state["error"]] if "error" in state else []
    for name in one["results"]:
        path = job.checkout / name
        if not path.exists():
            complaints.append(f"{name} was not written")
            continue
        files[name] = path.read_bytes()
        if name == "pytest-benchmark.json":
            try:
                files[name] = summarise(files[name])
            except (ValueError, LookupError, TypeError, AttributeError) as problem:
                complaints.append(f"{name} is no report of pytest-benchmark: {problem}")
    if complaints:
        state["error"] = "; ".join(complaints)
        state["state"] = FAILED if state["state"] == FINISHED else state["state"]
    with open(job.log, "rb") as log:
        log.seek(log_begin)
        files[one["log"]] = log.read()
    files["state.json"] = json.dumps(state).encode()
    write_whole(job.result(one["name"]), pack(files))


def upload_early(job: Job, name: str, url: str | None) -> None:
    """Uploads results at once, so that they outlive the instance. `put` can repeat the upload."""
    if url is None or not job.result(name).exists():
        return
    try:
        transfer(url, job.result(name).read_bytes())
    except OSError as problem:
        print(f"results of {name} not uploaded yet: {problem}", flush=True)


def transfer(url: str, content: bytes | None = None) -> bytes:
    """Downloads from a presigned URL, or uploads `content`; raises OSError where this fails."""
    # These are slow to import, and most commands do not need them.
    from http.client import HTTPException
    from urllib.request import Request, urlopen

    headers = {} if content is None else {"Content-Type": "application/octet-stream"}
    request = Request(url, content, headers, method="GET" if content is None else "PUT")
    for pause in PAUSES:
        try:
            with urlopen(request, timeout=300) as answer:
                return answer.read()
        except (OSError, HTTPException) as problem:
            failure = problem
            time.sleep(pause)
    raise OSError(f"transfer failed {len(PAUSES)} times: {failure}")


def main() -> None:
    """Runs the verb of the command line."""
    job = Job(Path(sys.argv[0]).resolve().parent)
    if sys.argv[1] == "supervise":
        supervise(job)
        return
    try:
        print(encode(VERBS[sys.argv[1]](job, **json.loads(sys.stdin.read()))))
    except (OSError, subprocess.SubprocessError) as problem:
        sys.exit(f"{sys.argv[1]}: {type(problem).__name__}: {problem}")
