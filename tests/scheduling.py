"""Which tests start processes, and how pytest-xdist distributes the tests to its workers."""

import re


def starts_processes(nodeid):
    """Returns whether the name of a test, its file or its folder says that it starts processes."""
    return re.search(r"/distributed/(?!test_plan\.py)|/test_distributed\.py|_processes", nodeid)


def scheduling(config, log):
    """Returns a scheduler that runs all tests that start several processes on one worker.

    So these tests run one after the other, and at most two groups of processes exist at a time. The
    mark of pytest-xdist 3.8 for this purpose has no effect since pytest 9.2 (pytest-xdist's issue
    1386).
    """
    from xdist.scheduler import LoadGroupScheduling

    class Scheduling(LoadGroupScheduling):
        def _split_scope(self, nodeid):
            return "processes" if starts_processes(nodeid) else super()._split_scope(nodeid)

    return Scheduling(config, log)
