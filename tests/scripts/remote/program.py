"""Runs hw_bench in processes of their own, which tests interrupt and kill.

They are forks of one process that has imported hw_bench and boto3, which takes long. This is not
the fork server of multiprocessing, of which there is one in a process, and which has torch.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parents[3] / "scripts"


class Program:
    """A process that runs hw_bench, as the tests see it."""

    def __init__(self, server: ProgramServer, pid: int) -> None:
        self.server = server
        self.pid = pid
        self.exit_code: int | None = None

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Ends the process without warning."""
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """Returns the exit code, which is -9 after SIGKILL; None while the process runs."""
        if self.exit_code is None:
            self.exit_code = self.server.ask("poll", self.pid)
        return self.exit_code

    def wait(self, seconds: float = 60) -> int:
        """Waits for the end of the process, within some seconds; returns its exit code."""
        deadline = time.monotonic() + seconds
        while self.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert self.exit_code is not None
        return self.exit_code


class ProgramServer:
    """The process that forks, as the tests see it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def ask(self, *words: Any) -> Any:
        """Returns the answer to a request."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(
        self, arguments: list[str], repository: Path, pace: dict[str, float], output: Path
    ) -> Program:
        """Runs a command in the environment of this process, with settings of `remote.pace`."""
        given = (arguments, str(repository), pace, dict(os.environ), str(output))
        return Program(self, self.ask("start", *given))

    def close(self) -> None:
        """Ends the process that forks."""
        self.process.communicate()


def serve() -> None:
    """Answers requests, one on each line, until the input ends."""
    sys.path.insert(0, str(SCRIPTS))
    import hw_bench  # noqa: F401, the forks have it

    for line in sys.stdin:
        word, *given = json.loads(line)
        if word == "poll":
            pid, status = os.waitpid(given[0], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            answer = os.fork()
            if not answer:
                run(*given)
        print(json.dumps(answer), flush=True)


def run(
    arguments: list[str],
    repository: str,
    settings: dict[str, float],
    environment: dict[str, str],
    output: str,
) -> None:
    """Does what a fork has to do, from its start to its end."""
    import hw_bench
    from remote import pace

    code = 1
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        written = os.open(output, os.O_WRONLY | os.O_CREAT)
        for stream, to in enumerate((nothing, written, written)):
            os.dup2(to, stream)
        os.environ.clear()
        os.environ.update(environment)
        for name, value in settings.items():
            setattr(pace, name, value)
        hw_bench.ROOT = Path(repository)
        hw_bench.app(arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
