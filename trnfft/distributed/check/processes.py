"""Processes that do the same work together, and what each returns, or why one of them did not.

torch.multiprocessing or torchrun starts them, sees how the first of them fails, and then ends the
others. A process that fails stays for some seconds: so the others do not fail because of it, and
the reason that is known is the first one. Nobody waits for a process that has died: all exchanges
have a time limit, after which they raise an error, too.
"""

from __future__ import annotations

import logging
import os
import pickle
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.multiprocessing.spawn import start_processes

LIMIT = 60.0  # seconds that processes wait for each other
COMPILING_LIMIT = 1800.0  # the same where kernels may have to be compiled first
_GRACE = 3.0  # seconds for which a process that fails stays

T = TypeVar("T")


class Failure(Exception):
    """Why there are no reports of all processes, in a sentence."""


def started(work: Callable[..., T], count: int, device: str, *arguments: object) -> list[T]:
    """Returns what `work(device, *arguments)` returns in `count` processes on this computer."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    given = (count, store.port, work, device, arguments)
    context = start_processes(
        _serve, given, count, join=False, daemon=True, start_method=_start_method(device)
    )
    assert context is not None
    # Its warnings name the processes that it ends after a failure, whose reason is raised below.
    logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.ERROR)
    try:
        while not context.join():
            pass
    except mp.ProcessExitedException as error:
        rank, key = error.error_index, f"error/{error.error_index}"
        if store.check([key]):
            raise Failure(f"rank {rank}: {store.get(key).decode()}") from error
        how = error.signal_name or f"exit code {error.exit_code}"
        raise Failure(f"rank {rank} has died: {how}") from error
    finally:
        for process in context.processes:
            process.kill()
            process.join()
    if not store.check(["reports"]):
        raise Failure("rank 0: no report")
    return list(pickle.loads(bytes.fromhex(store.get("reports").decode())))


def is_launched() -> bool:
    """Returns whether torchrun, or a program that works like it, has started this process."""
    return dist.is_torchelastic_launched() or {"RANK", "WORLD_SIZE"} <= os.environ.keys()


def together(work: Callable[..., T], device: str, *arguments: object) -> list[T] | None:
    """Returns what the processes of torchrun return, on the first of them, and None on the others.

    All processes call this function.
    """
    try:
        dist.init_process_group(backend_of(device), timeout=_limit(device))
    except RuntimeError as error:
        raise Failure(f"the processes did not meet: {error}") from error
    try:
        return _gathered(work, device, arguments)
    except Exception as error:
        raise Failure(f"rank {dist.get_rank()}: {type(error).__name__}: {error}") from error


def backend_of(device: str) -> str:
    """Returns the backend of torch.distributed for a type of device."""
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


def _start_method(device: str) -> str:
    """Returns how processes start: forked by one that has imported torch, if devices allow it."""
    if device != "cpu" or "forkserver" not in mp.get_all_start_methods():
        return "spawn"
    mp.get_context("forkserver").set_forkserver_preload([__name__, "trnfft.distributed"])
    return "forkserver"


def _serve(
    rank: int,
    count: int,
    port: int,
    work: Callable[..., object],
    device: str,
    arguments: tuple[object, ...],
) -> None:
    """Runs a process of `started`: the first one stores what all of them return."""
    torch.set_num_threads(max(1, cores() // count))
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=_limit(device))
    try:
        dist.init_process_group(
            backend_of(device),
            store=dist.PrefixStore("group", store),
            rank=rank,
            world_size=count,
            timeout=_limit(device),
        )
        reports = _gathered(work, device, arguments)
    except Exception as error:
        store.set(f"error/{rank}", f"{type(error).__name__}: {error}")
        raise SystemExit(1) from error
    if reports is not None:
        store.set("reports", pickle.dumps(reports).hex())


def _gathered(work: Callable[..., T], device: str, arguments: tuple[object, ...]) -> list[T] | None:
    """Does the work; returns what all processes return, on the first of them."""
    try:
        own = work(device, *arguments)
        reports = [own] * dist.get_world_size() if dist.get_rank() == 0 else None
        dist.gather_object(own, reports)
    except Exception:
        time.sleep(_GRACE)
        raise
    return reports


def _limit(device: str) -> timedelta:
    return timedelta(seconds=LIMIT if device == "cpu" else COMPILING_LIMIT)
