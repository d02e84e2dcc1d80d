"""Processes that do the same work together, and what each returns, or why one of them did not.

Each process tells one store what has become of it: a report, or an error. So the first failure is
known even where the other processes only see that they are alone, and nobody waits for a process
that has died: all exchanges have a time limit, after which they raise an error, too.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

LIMIT = 60.0  # seconds that processes wait for each other
COMPILING_LIMIT = 1800.0  # the same where kernels may have to be compiled first
_GRACE = 3.0  # seconds in which other processes report, after the first error
_PAUSE = 0.05  # seconds between looks at the store

# a function of the device and further arguments, which returns JSON types
Work = Callable[..., Any]


class Failure(Exception):
    """Why there are no reports of all processes, in sentences."""


class Member(NamedTuple):
    """A process, and where the store is."""

    rank: int
    size: int  # processes of the world
    host: str
    port: int


def started(work: Work, count: int, device: str, *arguments: Any) -> list[Any]:
    """Returns what `count` processes on this computer return, in their order.

    Args:
        work: a function of a module.
        count: the number of processes, which share the cores of the CPU.
        device: the type of their device.
        arguments: arguments of `work`, after the device.

    Raises:
        Failure: a process has failed.
    """
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    context = _context(device)
    found = [
        context.Process(
            target=_serve,
            args=(Member(rank, count, "127.0.0.1", server.port), work, device, arguments),
            daemon=True,
        )
        for rank in range(count)
    ]
    try:
        for process in found:
            process.start()
        return _collected(_words(server), count, device, lambda: _ended(found))
    finally:
        for process in found:
            process.kill()
            process.join()


def is_launched() -> bool:
    """Returns whether torchrun, or a program that works like it, has started this process."""
    return dist.is_torchelastic_launched() or {"RANK", "WORLD_SIZE"} <= os.environ.keys()


def together(work: Work, device: str, *arguments: Any) -> list[Any] | None:
    """Returns what the processes of torchrun return, on the first of them, and None on the others.

    All processes call this function. If they fail, processes other than the first end here.

    Raises:
        Failure: on the first process, where a process has failed.
        ValueError: there is no such device, or the environment does not say where to meet.
    """
    try:
        dist.init_process_group(backend_of(device), timeout=_limit(device))
    except RuntimeError as error:
        raise Failure(f"the processes did not meet: {error}") from error
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    member = Member(dist.get_rank(), dist.get_world_size(), host, port)
    if member.rank:
        _report(member, work, device, arguments)
        return None
    signal.signal(signal.SIGTERM, _terminated)
    thread = threading.Thread(target=_report, args=(member, work, device, arguments), daemon=True)
    thread.start()  # so that this thread can pass on what the others have told
    return _collected(_words(_client(member, device)), member.size, device, dict)


def _terminated(*_: Any) -> None:
    raise Failure(
        "another process has failed or died, and the launcher ends all of them: see its report"
    )


def backend_of(device: str) -> str:
    """Returns the backend of torch.distributed for a type of device.

    Raises:
        ValueError: there is no such backend, or no such device here.
    """
    here = {
        name: str(backend)
        for name, backend in dist.Backend.default_device_backend_map.items()
        if _is_here(name)
    }
    if device not in here:
        raise ValueError(
            f"argument '--device' is {device!r}, allowed are those that torch.distributed has "
            f"here: {', '.join(here)}"
        )
    return here[device]


def _is_here(device: str) -> bool:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError):
        return False
    return True


def cores() -> int:
    """Returns the number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _context(device: str) -> Any:
    """Returns how processes start: forked by one that has imported torch, if devices allow it."""
    if device != "cpu" or "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "trnfft.distributed"])
    return context


def _serve(member: Member, work: Work, device: str, arguments: tuple[Any, ...]) -> None:
    """Runs a process of `started`."""
    # the process that has started it handles the interrupt
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(max(1, cores() // member.size))
    _report(member, work, device, arguments, is_started=True)


def _report(
    member: Member, work: Work, device: str, arguments: tuple[Any, ...], is_started: bool = False
) -> None:
    """Does the work and tells the store what has become of it; an error ends this process."""
    client = _client(member, device)
    words = _words(client)
    try:
        if is_started:
            dist.init_process_group(
                backend_of(device),
                store=dist.PrefixStore("group", client),
                rank=member.rank,
                world_size=member.size,
                timeout=_limit(device),
            )
        report = json.dumps(work(device, *arguments))
    except Exception as error:
        words.set(f"error/{member.rank}", f"{type(error).__name__}: {error}")
        words.add("errors", 1)
        if member.rank or is_started:
            # a process that ends takes the others with it, before they can report
            time.sleep(2 * _GRACE)
            os._exit(1)
        return
    words.set(f"report/{member.rank}", report)
    words.add("reports", 1)
    if is_started:
        with contextlib.suppress(RuntimeError):
            # until this process is ended, or the process with the store is gone
            client.wait(["never"])


def _client(member: Member, device: str) -> dist.TCPStore:
    return dist.TCPStore(member.host, member.port, is_master=False, timeout=_limit(device))


def _words(store: dist.Store) -> dist.PrefixStore:
    return dist.PrefixStore("trnfft", store)


def _limit(device: str) -> timedelta:
    return timedelta(seconds=LIMIT if device == "cpu" else COMPILING_LIMIT)


def _collected(
    words: dist.Store, count: int, device: str, ended: Callable[[], dict[int, str]]
) -> list[Any]:
    """Returns the reports of all processes, as they come.

    Raises:
        Failure: a process has failed, ended or come to a halt.
    """
    since = time.monotonic()
    before = 0
    while (told := words.add("reports", 0)) < count:
        if words.add("errors", 0) or ended():
            raise Failure(_reasons(words, count, ended))
        if told > before:
            before, since = told, time.monotonic()
        elif told and time.monotonic() - since > _limit(device).total_seconds():
            raise Failure(_reasons(words, count, ended))
        time.sleep(_PAUSE)
    return [json.loads(words.get(f"report/{rank}")) for rank in range(count)]


def _reasons(words: dist.Store, count: int, ended: Callable[[], dict[int, str]]) -> str:
    """Returns what is known of processes that failed, and of those that are silent alone."""
    start = time.monotonic()
    known: dict[int, str] = {}
    while time.monotonic() - start < _GRACE and len(known) < count:
        known = {
            rank: words.get(f"error/{rank}").decode()
            for rank in range(count)
            if words.check([f"error/{rank}"])
        }
        time.sleep(_PAUSE)
    dead = {rank: how for rank, how in ended().items() if rank not in known}
    if dead:
        return "\n".join(f"rank {rank} has died: {how}" for rank, how in dead.items())
    by_text: dict[str, list[int]] = {}
    for rank, text in known.items():
        by_text.setdefault(text, []).append(rank)
    lines = [f"rank {_listed(ranks)}: {text}" for text, ranks in by_text.items()]
    told = {rank for rank in range(count) if words.check([f"report/{rank}"])}
    silent = set(range(count)) - told - known.keys()
    if not known or len(silent) < len(known):  # otherwise they wait for the one that failed
        lines += [f"rank {_listed(silent)}: no report"] * bool(silent)
    return "\n".join(lines)


def _listed(ranks: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ranks)))


def _ended(processes: list[BaseProcess]) -> dict[int, str]:
    """Returns how processes ended, for those that did."""
    return {
        rank: _end(process.exitcode)
        for rank, process in enumerate(processes)
        if process.exitcode is not None
    }


def _end(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
