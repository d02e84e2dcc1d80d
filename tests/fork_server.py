"""The server that forks the processes of tests, with all that they import.

multiprocessing has one server in a process, which imports what the first to start it asks for. So
all tests ask for the same.
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
    "torch._dynamo",  # every optimizer imports it
    "torch.distributed.tensor.debug",
]


def context():
    """The context of multiprocessing whose processes are forks of the server."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(_IMPORTED)
    return found
