"""The server that forks the processes of tests, with the modules that these processes import.

multiprocessing has one such server in a process, which preloads the modules of the first request.
So all tests request the same modules.
"""

import multiprocessing

_IMPORTED = [
    "matplotlib.figure",
    "pytest",
    "scipy.integrate",
    "trnfft",
    "trnfft.distributed",
    "trnfft.distributed.check.processes",
    "trnfft.planner.planner",
    "torch._dynamo",  # every optimizer imports this module
    "torch.distributed.tensor.debug",
]


def context():
    """Returns the context of multiprocessing whose processes are forks of the server."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(_IMPORTED)
    return found
