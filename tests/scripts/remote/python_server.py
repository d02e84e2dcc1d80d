"""A Python that has started already, for the commands of the instances of the fake AWS.

A run of hw_bench sends ten commands to its instance, each of which starts Python and the worker
anew. On the instances of these tests, `python3` is a shell script that hands itself to this
server, which has imported the worker from an archive like the one that is sent, and forks.

The job in the background is a process with a start of its own, since its end is tested.

The process of the script lends its arguments, environment, folder and streams to the fork, through
/proc, and waits for an exit status in a pipe of its own.
"""

from __future__ import annotations

import os
import runpy
import select
import signal
import subprocess
import sys
import traceback
import zipfile
from pathlib import Path
from shlex import quote

CLIENT = """\
exec 3<&0  # read has the pipe in its place
mkfifo {folder}/$$
echo $$ > {requests}
read -r status < {folder}/$$
exit "${{status:-1}}"  # none where the fork was killed
"""
# The worker without long waits: for transfers that fail, and for the disk.
PREPARATION = """\
import os, sys

import remote.worker

remote.worker.PAUSES = (0.05, 0.1, 0.0)
os.fsync = lambda number: None
"""
BACKGROUND = f"""\
import sys

sys.argv.pop(0)
sys.path[0] = {{modules!r}}
{PREPARATION}
remote.worker.main()
"""


class PythonServer:
    """The server, as the tests see it."""

    def __init__(self, folder: Path, worker: bytes) -> None:
        archive = folder / "worker.zip"
        archive.write_bytes(worker)
        modules = folder / "modules"  # of the archive, which are compiled once
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(modules)
        requests = folder / "requests"
        os.mkfifo(requests)
        # The worker runs its job in the background by this program in place of Python.
        executable = folder / "python"
        background = folder / "background.py"
        background.write_text(BACKGROUND.format(modules=str(modules)))
        words = " ".join(map(quote, [sys.executable, "-IS", str(background)]))
        executable.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        executable.chmod(0o755)
        self.client = CLIENT.format(folder=quote(str(folder)), requests=quote(str(requests)))
        self.process = subprocess.Popen(
            [sys.executable, "-IS", __file__, requests, archive, modules, executable],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def close(self) -> None:
        """Ends the server."""
        self.process.communicate()


def serve(requests: str, archive: str, modules: str, executable: str) -> None:
    """Forks for every process whose id arrives, until stdin is closed."""
    sys.path.insert(0, modules)
    exec(PREPARATION)  # for the forks
    known = contents(archive)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    pipe = os.open(requests, os.O_RDWR)  # for writing, too: it never ends
    while True:
        ready, _, _ = select.select([pipe, 0], [], [])
        if 0 in ready:
            return
        for number in os.read(pipe, 4096).split():  # a line is written in one piece
            if not os.fork():
                try:
                    become(int(number), Path(requests).parent, known, executable)
                finally:
                    os._exit(1)


def contents(archive: str) -> dict[str, bytes]:
    """Returns the files of an archive."""
    with zipfile.ZipFile(archive) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def become(number: int, folder: Path, known: dict[str, bytes], executable: str) -> None:
    """Does in this process what Python would do in another process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    process = Path(f"/proc/{number}")
    reply = os.open(folder / str(number), os.O_WRONLY)
    for stream, there in enumerate((3, 1, 2)):
        # Otherwise a read of a pipe without writers would wait in place of finding its end.
        way = (os.O_WRONLY if stream else os.O_RDONLY) | os.O_NONBLOCK
        lent = os.open(process / "fd" / str(there), way)
        os.set_blocking(lent, True)
        os.dup2(lent, stream)
        os.close(lent)
    os.environ.clear()
    for one in (process / "environ").read_bytes().split(b"\0")[:-1]:
        name, _, value = one.partition(b"=")
        os.environb[name] = value
    os.chdir(process / "cwd")
    _, _, *arguments = (process / "cmdline").read_bytes().decode().split("\0")[:-1]
    status = exit_status(arguments, known, executable)
    sys.stdout.flush()
    os.write(reply, b"%d\n" % status)
    os._exit(0)


def exit_status(arguments: list[str], known: dict[str, bytes], executable: str) -> int:
    """Returns the exit status of `python -IS` with arguments that these tests use."""
    try:
        if arguments[0] == "-c":
            sys.argv = ["-c", *arguments[2:]]
            exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = arguments
            if contents(arguments[0]) == known:
                sys.executable = executable
                sys.modules["remote.worker"].main()
            else:  # not the worker that this server has
                sys.path[0] = arguments[0]
                for name in [name for name in sys.modules if name.partition(".")[0] == "remote"]:
                    del sys.modules[name]
                runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    serve(*sys.argv[1:])
