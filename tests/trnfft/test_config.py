"""Settings: known names, nesting, and isolation of threads and tasks."""

import asyncio
import contextvars
import threading

import pytest
import torch

import trnfft
from trnfft.base import config
from trnfft.base.devices import backend_for


def test_the_default_is_auto():
    assert contextvars.Context().run(trnfft.get_backend) == "auto"


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


@pytest.mark.parametrize("name", ["neuron", "", "AUTO", None, ["auto"]])
def test_unknown_names_list_the_known(name):
    with pytest.raises(ValueError, match='"auto".*"torch".*"nki-sim"') as error:
        trnfft.set_backend(name)
    assert repr(name) in str(error.value)
    with pytest.raises(ValueError), trnfft.backend(name):
        pass
    assert trnfft.get_backend() == "auto"


@pytest.fixture
def stored():
    trnfft.set_complex_storage(True)
    yield
    trnfft.set_complex_storage(False)


def test_complex_storage_is_a_bool_of_the_process(stored):
    seen = []
    thread = threading.Thread(target=lambda: seen.append(trnfft.get_complex_storage()))
    thread.start()
    thread.join()
    assert seen == [True]
    for wrong in ("yes", 1, None):
        with pytest.raises(TypeError, match="argument 'stored' is .*, allowed is True or False"):
            trnfft.set_complex_storage(wrong)
    assert trnfft.get_complex_storage()
    trnfft.set_complex_storage(False)
    assert not trnfft.get_complex_storage()


def test_complex_storage_is_about_neuron_cores(stored):
    x = torch.randn(4, 8)
    assert not isinstance(trnfft.fft(x), trnfft.ComplexTensor)
    with trnfft.backend("matmul"):
        assert isinstance(trnfft.fft(x), trnfft.ComplexTensor)


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


def test_auto_depends_on_the_device_and_on_nki(monkeypatch):
    assert backend_for(torch.device("cpu")) == "torch"
    for device in ("xla", "mps"):
        assert backend_for(torch.device(device)) == "matmul"
    monkeypatch.setattr(config, "has_nki", lambda: True)
    assert backend_for(torch.device("xla")) == "nki"
    assert backend_for(torch.device("mps")) == "matmul"
    with trnfft.backend("nki-sim"):
        assert backend_for(torch.device("xla")) == "nki-sim"


@pytest.mark.parametrize("name", ["auto", "fftw"])
def test_operators_take_backends_that_compute(name):
    x = torch.ones(4)
    with pytest.raises(ValueError, match=f"'backend' is '{name}'"):
        torch.ops.trnfft.c2c(x, x, False, 1.0, name, "fast")


@pytest.mark.skipif(config.has_nki(), reason="the real nki is here")
def test_nki_says_what_is_missing_and_how_to_get_it(monkeypatch):
    for choose in (trnfft.set_backend, lambda name: trnfft.backend(name).__enter__()):
        with pytest.raises(ImportError, match=r"'nki'.*pip install .* nki .*\"nki-sim\""):
            choose("nki")
    monkeypatch.setattr(config, "FROM_ENVIRONMENT", "nki")
    with pytest.raises(ImportError, match="environment variable TRNFFT_BACKEND is 'nki'"):
        contextvars.Context().run(trnfft.get_backend)


def test_the_environment_names_the_backend_where_none_is_chosen(monkeypatch):
    fresh = contextvars.Context()  # no backend was chosen in it
    monkeypatch.setattr(config, "FROM_ENVIRONMENT", "matmul")
    assert fresh.run(trnfft.get_backend) == "matmul"
    fresh.run(trnfft.set_backend, "auto")
    assert fresh.run(trnfft.get_backend) == "auto"
    monkeypatch.setattr(config, "FROM_ENVIRONMENT", "fftw")
    with pytest.raises(ValueError, match="TRNFFT_BACKEND is 'fftw'.*matmul"):
        contextvars.Context().run(trnfft.get_backend)


@pytest.mark.parametrize("time", ["first", "second"])
def test_a_test_that_leaves_its_settings_harms_no_other(time, monkeypatch):
    assert trnfft.get_precision() == "fast"
    monkeypatch.setattr(config, "FROM_ENVIRONMENT", "matmul")
    assert trnfft.get_backend() == "matmul"  # so none was chosen, not even "auto"
    trnfft.set_backend("torch")
    trnfft.set_precision("kahan")


def test_a_block_of_precision_restores_after_an_error_and_after_set_precision_inside():
    with pytest.raises(KeyError), trnfft.precision("kahan"):
        trnfft.set_precision("double")
        raise KeyError
    assert trnfft.get_precision() == "fast"
