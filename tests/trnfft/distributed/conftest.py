"""Fixtures: one group of processes serves all tests with the same number of processes."""

import pytest

from tests.trnfft.distributed.processes import Processes


@pytest.fixture(scope="package")
def four(tmp_path_factory):
    """Four processes."""
    processes = Processes(4, tmp_path_factory.mktemp("four"))
    yield processes
    processes.close()


@pytest.fixture(scope="package")
def two(tmp_path_factory):
    """Two processes."""
    processes = Processes(2, tmp_path_factory.mktemp("two"))
    yield processes
    processes.close()
