"""A process that judges cases, and is replaced after a crash, a hang or a lack of memory."""

import multiprocessing
import os
import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECONDS = 20  # time limit for one case
MEMORY = 2**31  # bytes beyond those of the imports
RIGHT, REFUSED, UNCHECKED = "right", "refused", "unchecked"  # all other verdicts are findings


class Child:
    """Judges cases in a process of its own, and starts a new process where a case ends it.

    Args:
        judge: a function of a module, from a case to a verdict.
    """

    def __init__(self, judge: Callable[[Any], str]) -> None:
        self._judge = judge
        self._context = multiprocessing.get_context("spawn")
        self._process: Any = None
        self._folder = tempfile.TemporaryDirectory()  # for plans that cases remember

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()
        self._folder.cleanup()

    def __call__(self, case: Any) -> str:
        """Returns the verdict on a case."""
        if self._process is None:
            self._start()
        self._ours.send(case)
        try:
            if self._answers():
                return self._ours.recv()
            verdict = f"takes more than {SECONDS} s"
        except EOFError:
            self._process.join()
            verdict = f"ends the process with {self._process.exitcode}"
        self._stop()
        return verdict

    def _answers(self) -> bool:
        """Returns whether the answer comes in time.

        The limit is processor time of the process, because other processes use the processor, too.
        """
        start, computed = time.monotonic(), self._computed()
        while not self._ours.poll(1):
            waited = time.monotonic() - start
            if self._computed() - computed > SECONDS or waited > 20 * SECONDS:
                return False
        return True

    def _computed(self) -> float:
        """Returns the seconds of processor time that the process has used."""
        try:
            status = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended
            return 0.0
        return (int(status[11]) + int(status[12])) / os.sysconf("SC_CLK_TCK")

    def _start(self) -> None:
        self._ours, theirs = self._context.Pipe()
        self._process = self._context.Process(
            target=_serve, args=(theirs, self._judge, self._folder.name), daemon=True
        )
        self._process.start()
        theirs.close()
        self._ours.recv()  # waits until the process is ready; imports do not count as a case's time

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def _serve(pipe: Any, judge: Callable[[Any], str], folder: str) -> None:
    import platformdirs
    import torch

    import nki_sim  # noqa: F401
    import trnfft

    platformdirs.user_cache_dir = lambda *names: folder  # type: ignore[assignment]
    torch.set_num_threads(1)
    for backend in ("matmul", "nki-sim"):  # the backends import modules at their first call
        with trnfft.backend(backend):
            trnfft.fft(torch.ones(4))
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    pipe.send("ready")
    while True:
        try:
            case = pipe.recv()
        except EOFError:
            return
        pipe.send(judge(case))
