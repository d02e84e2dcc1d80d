"""The program on the instance: one verb for each command, and the job in the background.

    python3 ~/trnfft-jobs/JOB/worker.zip VERB <<< '{"argument": ...}'

Arguments come through stdin, because others could read the arguments of a process. Every verb may
be repeated, because the caller sends a command again when its reply is lost. The reply is a sealed
payload of JSON (`remote.payload`). The program uses its archive and the standard library of Python
3.9 only. All paths are relative to the folder of the job, which has the archive.
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
from remote.payload import digest, encode, pack
from remote.states import FAILED, FINISHED, RUNNING, STOPPED, TIMED_OUT, WAITING

# The Neuron SDK needs the versions of packages that it came with, and pip must not replace them.
PINNED = "(torch|neuron|nki|nrt|lib|jax|numpy|ml.dtypes|protobuf)"
STOP_LIMIT = 30.0  # seconds
BOOT_LIMIT = 600.0  # seconds
BOOT_SCRIPT = Path("/var/lib/cloud/scripts/per-boot/trnfft-limit")  # written by remote.instance
LOG_LIMIT = 8_000  # bytes of the log in one reply
CHUNK = 15_000  # bytes of a result in one reply

PART = Path("revision.part")
ARCHIVE = Path("revision.tar.gz")
CHECKOUT = Path("checkout")
LOG = Path("log")
STATE = Path("state.json")
PLAN = Path("plan.json")
LOCK = Path("lock")  # the background process holds it until its end
PID = Path("pid")


def result(name: str) -> Path:
    """Returns the file of a set's packed results, which exists only after the set has ended."""
    return Path(f"{name}.payload")


def read_state() -> dict[str, Any]:
    """Returns the state that the background process wrote last."""
    return json.loads(STATE.read_text()) if STATE.exists() else {"state": WAITING, "sets": {}}


def write_state(state: str, sets: dict[str, Any], error: str | None = None) -> None:
    """Writes the state of the job, which `poll` reads."""
    write_whole(STATE, json.dumps({"state": state, "sets": sets, "error": error}))


# Verbs


def arm(minutes: int | None, disarm: bool) -> dict[str, Any]:
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
    return {}


def receive(offset: int, data: str) -> dict[str, Any]:
    """Writes one chunk of the revision at its place."""
    with open(PART, "r+b" if offset else "wb") as file:
        file.seek(offset)
        file.write(b64decode(data))
        file.truncate()
    return {}


def accept(sha256: str) -> dict[str, Any]:
    """Returns whether the revision has arrived whole, and stores it."""
    if PART.exists():
        os.replace(PART, ARCHIVE)
    return {"whole": ARCHIVE.exists() and digest(ARCHIVE.read_bytes()) == sha256}


def start(**plan: Any) -> dict[str, Any]:
    """Starts the job in the background, detached from the command.

    Nothing happens if a job runs, or if the start with the "token" of this plan was done before.
    """
    if PLAN.exists() and json.loads(PLAN.read_text())["token"] == plan["token"]:
        return {}
    with open(LOCK, "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return {}
        write_whole(PLAN, json.dumps(plan))
        states = read_state()["sets"]
        for one in plan["sets"]:
            states[one["name"]] = {"state": WAITING}
            result(one["name"]).unlink(missing_ok=True)
        write_state(RUNNING, states)
        with open(LOG, "ab") as log:
            process = subprocess.Popen(
                [sys.executable, str(Path("worker.zip").resolve()), "supervise"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=[lock.fileno()],
            )
    write_whole(PID, str(process.pid))
    return {}


def poll(offset: int) -> dict[str, Any]:
    """Returns the state and the log from `offset` on. Of a long log it returns the end."""
    state = read_state()
    if state["state"] == RUNNING and not is_locked():
        state = {**read_state(), "alive": False}
    size = LOG.stat().st_size if LOG.exists() else 0
    begin = max(min(offset, size), size - LOG_LIMIT)
    text = tail(begin)[: size - begin].decode("utf-8", "replace")
    return {**state, "log": text, "skipped": begin - min(offset, size), "offset": size}


def tail(begin: int) -> bytes:
    """Returns the log from one of its bytes on."""
    if not LOG.exists():
        return b""
    with open(LOG, "rb") as file:
        file.seek(begin)
        return file.read()


def is_locked() -> bool:
    """Returns whether the background process runs."""
    with open(LOCK, "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def chunk(name: str, offset: int) -> dict[str, Any]:
    """Returns one chunk of the packed results of a set."""
    with open(result(name), "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(offset)
        return {"data": b64encode(file.read(CHUNK)).decode(), "size": size}


def stop() -> dict[str, Any]:
    """Ends the job if it runs, and waits for its end."""
    deadline = time.monotonic() + STOP_LIMIT
    if is_locked():
        os.killpg(int(PID.read_text()), signal.SIGTERM)
    while is_locked() and time.monotonic() < deadline:
        time.sleep(0.05)
    return {"ended": not is_locked()}


VERBS: dict[str, Callable[..., dict[str, Any]]] = {
    verb.__name__: verb for verb in (arm, receive, accept, start, poll, chunk, stop)
}


# The job in the background


class Ended(BaseException):
    """The job received SIGTERM."""


def supervise() -> None:
    """Installs the revision and runs the sets, one after another."""
    plan = json.loads(PLAN.read_text())
    states = read_state()["sets"]
    signal.signal(signal.SIGTERM, raise_ended)
    shell = Shell(plan["environment"], time.monotonic() + plan["seconds"])
    state, error = FINISHED, None
    try:
        prepare(shell, plan)
        for one in plan["sets"]:
            run_set(shell, one, states)
    except Ended:
        state = STOPPED
    except subprocess.TimeoutExpired:
        state = TIMED_OUT
    except Exception as problem:  # the caller has to learn of every problem
        state, error = FAILED, f"{type(problem).__name__}: {problem}"
    for one in states.values():
        if one["state"] in (WAITING, RUNNING):
            one["state"] = state
    write_state(state, states, error)


def raise_ended(number: int, frame: object) -> None:
    """Handles SIGTERM once. The signal reaches the whole process group."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Ended


class Shell:
    """Runs commands in the checkout until a deadline, with the variables of Neuron."""

    def __init__(self, variables: dict[str, str], deadline: float) -> None:
        self.variables = variables
        self.deadline = deadline
        self.python = "python3"

    def run(self, *arguments: str) -> int:
        """Runs one command, in which "python" is that of the environment; returns its exit code."""
        print("$", *arguments, flush=True)
        environment = {
            **os.environ,
            "HOME": str(Path.home()),
            "PATH": f"{Path(self.python).parent}:{os.environ.get('PATH', os.defpath)}",
            "NEURON_CC_FLAGS": "--auto-cast=none",  # float32 stays float32
            "PYTHONUNBUFFERED": "1",
            **self.variables,
        }
        words = [self.python if word == "python" else word for word in arguments[:1]]
        with subprocess.Popen(
            [*words, *arguments[1:]], cwd=CHECKOUT, env=environment, stdin=subprocess.DEVNULL
        ) as process:
            try:
                return process.wait(timeout=max(self.deadline - time.monotonic(), 0))
            except BaseException:
                end_children(process)
                raise

    def must(self, complaint: str, *arguments: str) -> None:
        """Runs one command; raises RuntimeError with a complaint where it fails."""
        if self.run(*arguments):
            raise RuntimeError(complaint)


def end_children(process: subprocess.Popen) -> None:
    """Ends a command and its children: every process of this process group except this one."""
    handler = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
    signal.signal(signal.SIGTERM, handler)


def prepare(shell: Shell, plan: dict[str, Any]) -> None:
    """Unpacks and installs the revision, and chooses or makes the Python that runs it."""
    shutil.rmtree(CHECKOUT, ignore_errors=True)
    CHECKOUT.mkdir()
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(CHECKOUT)
    if plan["venv"]:
        shell.python = str(choose_venv(plan["venv"]) / "bin" / "python")
    else:
        make_venv(shell, plan["wheels"])
    print(f"python is {shell.python}", flush=True)
    listed = [shell.python, "-m", "pip", "list", "--format=freeze"]
    versions = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    kept = [line for line in versions.splitlines() if re.match(PINNED, line)]
    constraints = Path("constraints.txt").resolve()
    constraints.write_text("\n".join(kept) + "\n")
    complaint = "pip could not install the revision; the log says why"
    options = ["-q", "-c", str(constraints), "-e", ".[dev]"]
    shell.must(complaint, "python", "-m", "pip", "install", *options)


def make_venv(shell: Shell, wheels: str) -> None:
    """Makes an environment with pinned wheels, unless an earlier job has made it."""
    file = CHECKOUT / wheels
    folder = Path.cwd().parent / f"environment-{digest(file.read_bytes())[:16]}"
    shell.python = str(folder / "bin" / "python")
    done = folder / "complete"
    if done.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    create = ["python3", "-m", "venv", str(folder)]
    if shell.run(*create):
        # On Ubuntu venv needs a package that a base image may lack.
        shutil.rmtree(folder, ignore_errors=True)
        shell.run("apt-get", "-q", "update")
        shell.run("apt-get", "-qy", "install", "python3-venv")
        shell.must("python3 -m venv failed; the log says why", *create)
    # First AWS's packages from AWS's index alone, then what they need from the public index.
    install = [shell.python, "-m", "pip", "install", "-q", "-r", wheels]
    complaint = (
        f"pip could not install {file.name} from {INDEX}. The log says why, and the head of that "
        "file says which systems its wheels are for. Launch an image with such a system, or name "
        "an environment that is on the image with --venv"
    )
    # pip reads no file of settings here: a file on the image may name another index.
    shell.must(complaint, "env", f"PIP_CONFIG_FILE={os.devnull}", *install, *FROM_AWS_ALONE)
    complaint = f"pip could not install the dependencies of {file.name}; the log says why"
    shell.must(complaint, *install)
    done.touch()


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


def run_set(shell: Shell, one: dict[str, Any], states: dict[str, Any]) -> None:
    """Runs the commands of a set and packs their files, whether or not the commands succeeded."""
    began = time.monotonic()
    state = states[one["name"]] = {"state": RUNNING}
    write_state(RUNNING, states)
    log_begin = LOG.stat().st_size
    for name in one["results"]:
        (CHECKOUT / name).unlink(missing_ok=True)
    try:
        codes = [shell.run(*words) for words in one["commands"]]
        state["state"] = FAILED if any(codes) else FINISHED
        if any(codes):
            state["error"] = f"exit code {', '.join(map(str, codes))}"
    except subprocess.TimeoutExpired:
        state["state"] = TIMED_OUT
    state["seconds"] = round(time.monotonic() - began, 1)
    try:
        pack_set(one, log_begin, state)
        state["packed"] = True
    except OSError as problem:  # a full disk
        state.update(state=FAILED, error=f"results not packed: {problem}")
    write_state(RUNNING, states)
    if state["state"] == TIMED_OUT:
        raise subprocess.TimeoutExpired(one["name"], 0)


def pack_set(one: dict[str, Any], log_begin: int, state: dict[str, Any]) -> None:
    """Packs the results of a set, its part of the log and its state into one file."""
    files = {}
    complaints = [state["error"]] if "error" in state else []
    for name in one["results"]:
        path = CHECKOUT / name
        if not path.exists():
            complaints.append(f"{name} was not written")
            continue
        files[name] = path.read_bytes()
    if complaints:
        state["error"] = "; ".join(complaints)
        state["state"] = FAILED if state["state"] == FINISHED else state["state"]
    files[one["log"]] = tail(log_begin)
    files["state.json"] = json.dumps(state).encode()
    write_whole(result(one["name"]), pack(files))


def main() -> None:
    """Runs the verb of the command line."""
    os.chdir(Path(sys.argv[0]).resolve().parent)
    if sys.argv[1] == "supervise":
        supervise()
        return
    try:
        print(encode(VERBS[sys.argv[1]](**json.loads(sys.stdin.read()))))
    except (OSError, subprocess.SubprocessError) as problem:
        sys.exit(f"{sys.argv[1]}: {type(problem).__name__}: {problem}")
