"""Runs Python programs, each in processes of its own, which are forks of a process with torch.

The import of torch alone would need more time than most of the programs. Several processes of a
program find each other as processes of torchrun do, through a store of the parent process.
"""

import datetime
import os
import runpy
import sys
import traceback
from pathlib import Path

from tests import fork_server

_SERVER = fork_server.context()
_WITHIN = 300  # time limit in seconds


def printed_by(command, folder, cache):
    """Runs a program with `folder` as the working folder, and returns its output.

    Args:
        command: path and arguments of the program.
        folder: the working folder.
        cache: a folder for remembered plans.
    """
    return _printed(command, folder, [_environment(cache)])[0]


def printed_by_processes(count, command, folder, cache):
    """Runs a program in `count` processes that work together, and returns the output of each."""
    import torch.distributed as dist

    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    group |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    group |= {"TORCHELASTIC_USE_AGENT_STORE": "True"}
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
    return _printed(command, folder, [_environment(cache) | group | rank for rank in ranks])


def _environment(cache):
    return {"XDG_CACHE_HOME": str(cache), "TRNFFT_BACKEND": "auto"}


def _printed(command, folder, environments):
    command = [str(each) for each in command]
    files = [folder / f"process_{number}" for number in range(len(environments))]
    processes = [
        _SERVER.Process(target=_run, args=(command, folder, str(file), environment), daemon=True)
        for file, environment in zip(files, environments, strict=True)
    ]
    for process in processes:
        process.start()
    try:
        end = datetime.datetime.now() + datetime.timedelta(seconds=_WITHIN)
        for process, file in zip(processes, files, strict=True):
            process.join(max(0, (end - datetime.datetime.now()).total_seconds()))
            errors = file.with_suffix(".err")
            assert process.exitcode == 0, errors.exists() and errors.read_text("utf-8")
        return [file.with_suffix(".out").read_text("utf-8") for file in files]
    finally:
        for process in processes:
            process.kill()
            process.join()


def _run(command, folder, file, environment):
    """Runs the program in this process as Python would run it with its arguments."""
    import torch

    torch.set_num_threads(1)
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = command
    sys.path.insert(0, str(Path(command[0]).parent))
    with open(f"{file}.out", "w") as sys.stdout, open(f"{file}.err", "w") as sys.stderr:
        try:
            runpy.run_path(command[0], run_name="__main__")
        except BaseException:
            traceback.print_exc()
            raise
