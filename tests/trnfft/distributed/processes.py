"""Processes of one group over gloo, which stay for many tests.

A test gives the processes a function and its arguments, and each process calls it with its rank
first. The function must belong to a test module, because it is sent by its name.
"""

import datetime
import os
import traceback
from dataclasses import dataclass

from tests import fork_server

_SERVER = fork_server.context()
_TEST = "PYTEST_CURRENT_TEST"  # the variable whose text tests.tolerances writes beside a margin


# What a process has found wrong and has gone on after, so that others do not wait for it in vain.
failures: list[str] = []


@dataclass
class Outcome:
    """What a process has returned, or the text of what it has raised."""

    value: object = None
    error: str = ""


class Processes:
    """A group of so many.

    folder: for the file by which they meet, and what they keep.
    seconds: that they wait for each other, once they have met: for that they have a minute or more.
    """

    def __init__(self, count, folder, seconds=60):
        self._pipes, self._processes = [], []
        for rank in range(count):
            pipe, other = _SERVER.Pipe()
            process = _SERVER.Process(
                target=_serve, args=(rank, count, str(folder), seconds, other), daemon=True
            )
            process.start()
            other.close()
            self._pipes.append(pipe)
            self._processes.append(process)
        for pipe in self._pipes:
            pipe.recv()

    def outcomes(self, function, *arguments, within=120):
        """What each has returned or raised; None for one that has died."""
        for pipe in self._pipes:
            pipe.send((function, arguments, os.environ.get(_TEST, "")))
        found = []
        for pipe in self._pipes:
            assert pipe.poll(within), f"a process is not done after {within} s"
            try:
                found.append(pipe.recv())
            except EOFError:
                found.append(None)
        return found

    def run(self, function, *arguments):
        """What each has returned; an error where one has raised one."""
        outcomes = self.outcomes(function, *arguments)
        for rank, outcome in enumerate(outcomes):
            assert outcome is not None, f"rank {rank} has died"
            assert not outcome.error, f"rank {rank}: {outcome.error}"
        return [outcome.value for outcome in outcomes]

    def close(self):
        for process in self._processes:
            process.kill()
            process.join()


def _serve(rank, count, folder, seconds, pipe):
    import platformdirs
    import torch
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import _set_pg_timeout

    platformdirs.user_cache_dir = lambda *names: f"{folder}/cache"
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=count,
        timeout=datetime.timedelta(seconds=max(seconds, 60)),
    )
    if seconds < 60:
        _set_pg_timeout(datetime.timedelta(seconds=seconds), dist.group.WORLD)
    pipe.send("ready")
    while True:
        function, arguments, os.environ[_TEST] = pipe.recv()
        try:
            outcome = Outcome(value=function(rank, *arguments), error="\n".join(failures))
        except Exception:
            outcome = Outcome(error=traceback.format_exc())
        failures.clear()
        pipe.send(outcome)
