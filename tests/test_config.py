"""Settings: known names, nesting, and isolation of threads and tasks."""

import asyncio
import contextvars
import threading

import pytest
import torch

import trnfft


@pytest.fixture(autouse=True)
def restore_backend():
    before = trnfft.get_backend()
    yield
    trnfft.set_backend(before)


def test_the_default_is_auto():
    assert contextvars.Context().run(trnfft.get_backend) == "auto"


@pytest.mark.parametrize("name", ["auto", "torch", "nki-sim"])
def test_set_backend_is_read_by_get_backend(name):
    trnfft.set_backend(name)
    assert trnfft.get_backend() == name


def test_blocks_nest_and_restore():
    with trnfft.backend("torch"):
        with trnfft.backend("nki-sim"):
            assert trnfft.get_backend() == "nki-sim"
        assert trnfft.get_backend() == "torch"
    assert trnfft.get_backend() == "auto"


def test_a_block_restores_after_an_error_and_after_set_backend_inside():
    with pytest.raises(KeyError), trnfft.backend("torch"):
        trnfft.set_backend("nki-sim")
        raise KeyError
    assert trnfft.get_backend() == "auto"


@pytest.mark.parametrize("name", ["nki", "", "AUTO", None, ["auto"]])
def test_unknown_names_list_the_known(name):
    with pytest.raises(ValueError, match='"auto".*"torch".*"nki-sim"') as error:
        trnfft.set_backend(name)
    assert repr(name) in str(error.value)
    with pytest.raises(ValueError), trnfft.backend(name):
        pass
    assert trnfft.get_backend() == "auto"


def test_a_thread_changes_the_backend_for_itself():
    seen = []

    def work():
        seen.append(trnfft.get_backend())
        trnfft.set_backend("torch")
        seen.append(trnfft.get_backend())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == ["auto", "torch"]
    assert trnfft.get_backend() == "auto"


def test_tasks_change_the_backend_for_themselves():
    async def work(name):
        with trnfft.backend(name):
            await asyncio.sleep(0)
            return trnfft.get_backend()

    async def both():
        return await asyncio.gather(work("torch"), work("nki-sim"))

    assert asyncio.run(both()) == ["torch", "nki-sim"]


def test_auto_names_the_alternatives_on_a_device_without_complex_dtypes():
    from trnfft.ops import _backend_for

    device = torch.device("xla")
    with pytest.raises(RuntimeError, match='"torch".*"nki-sim"') as error:
        _backend_for(device)
    assert "xla" in str(error.value)
    with trnfft.backend("nki-sim"):
        assert _backend_for(device) == "nki-sim"
