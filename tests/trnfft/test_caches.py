"""Results follow what changes below the keys of caches. docs/caches.md lists the caches."""

import gc
import os
import threading
import warnings
import weakref

import numpy as np
import pytest
import torch
from torch._decomp import register_decomposition

import trnfft
from nki_sim import hardware
from tests.tolerances import near, transforms
from trnfft import ComplexTensor
from trnfft.base import devices
from trnfft.base.cache import cached


def test_a_result_that_is_computed_while_the_cache_is_cleared_is_not_kept():
    source, begun, go_on = ["old"], threading.Event(), threading.Event()

    @cached(4)
    def read(name):
        found = source[0]
        begun.set()
        go_on.wait(10)
        return found

    thread = threading.Thread(target=read, args=("key",))
    thread.start()
    begun.wait(10)
    source[0] = "new"
    read.cache_clear()
    go_on.set()
    thread.join()
    assert read("key") == "new"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_a_forked_process_does_not_wait_for_a_thread_of_its_parent():
    begun, go_on = threading.Event(), threading.Event()

    @cached(4)
    def slow(name):
        begun.set()
        go_on.wait(10)
        return os.getpid()

    thread = threading.Thread(target=slow, args=("key",))
    thread.start()
    begun.wait(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of the thread
        child = os.fork()
    if not child:
        go_on.set()
        waiting = threading.Thread(target=slow, args=("key",), daemon=True)
        waiting.start()
        waiting.join(2)
        os._exit(waiting.is_alive() or slow("key") != os.getpid())
    go_on.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert slow("key") == os.getpid()


def test_plans_follow_the_settings(monkeypatch):
    for chip, cores in (("trn1", 1), ("trn2", 1), ("trn2", 2)):
        monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
        monkeypatch.setenv(hardware.LNC_VARIABLE, str(cores))
        plan = trnfft.plan(1024, batch=128)
        assert (plan.target, plan.cores) == (chip, cores)
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn1")
    monkeypatch.delenv(hardware.LNC_VARIABLE)
    for mode, length in (("fast", 100), ("kahan", 128), ("fast", 100)):
        with trnfft.precision(mode):
            assert trnfft.plan(1024, batch=128).precision == mode
            assert trnfft.next_fast_len(100) == length


def test_positions_are_an_array_of_the_caller():
    positions = trnfft.order.positions(256)
    positions[:] = 0
    assert sorted(trnfft.order.positions(256)) == list(range(256))


def in_a_mode(mode):
    """Calls a transform that keeps tables for the first time inside a mode of torch."""
    n = {"inference": 23, "fake": 25, "func": 27, "device": 29}[mode]
    x = torch.arange(float(n))
    with trnfft.backend("matmul"):
        if mode == "inference":
            with torch.inference_mode():
                trnfft.dct(x)
        elif mode == "fake":
            with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
                trnfft.dct(torch.ones(n))
        elif mode == "func":
            torch.func.vmap(torch.func.grad(lambda x: trnfft.dct(x).sum()))(x.expand(2, n))
        else:
            torch.set_default_device("meta")
            try:
                trnfft.dct(x)
            finally:
                torch.set_default_device(None)
    return x


@pytest.mark.parametrize("mode", ["inference", "fake", "func", "device"])
def test_tables_on_devices_keep_no_mode_of_torch(mode):
    x = in_a_mode(mode).requires_grad_()
    with trnfft.backend("matmul"):
        y = trnfft.dct(x, norm="ortho")
        y.square().sum().backward()  # the matrix is orthogonal
    near(x.grad, 2 * x.detach(), 2 * transforms(len(x)))


def test_the_dtype_of_complex_results_follows_the_default_dtype(monkeypatch):
    monkeypatch.setattr(devices, "COMPLEX_DEVICES", ("meta",))
    found = []
    before = torch.get_default_dtype()
    try:
        for default in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(default)
            with trnfft.patch_torch(), trnfft.backend("matmul"):
                found.append(torch.add(torch.arange(3), 1j).real.dtype)
    finally:
        torch.set_default_dtype(before)
    assert found == [torch.float32, torch.float64, torch.float32]


def test_a_decomposition_may_be_registered_after_a_refusal():
    library = torch.library.Library("trnfft_tests", "DEF")
    library.define("doubled(Tensor x) -> Tensor")
    doubled, z = torch.ops.trnfft_tests.doubled.default, ComplexTensor(torch.ones(3), torch.ones(3))
    with pytest.raises(NotImplementedError, match="doubled"):
        doubled(z)
    register_decomposition(doubled)(lambda x: 2 * x)
    try:
        assert doubled(z).imag.tolist() == [2, 2, 2]
    finally:
        del torch._decomp.decomposition_table[doubled]
        library._destroy()


def test_a_function_that_the_program_has_replaced_stays(monkeypatch):
    patch = trnfft.patch_torch()
    patch.start()
    patch.stop()
    of_torch = torch.fft.fft

    def own(*args, **kwargs):
        return of_torch(*args, **kwargs)

    monkeypatch.setattr(torch.fft, "fft", own)
    monkeypatch.setattr(torch.fft, "ifft", torch.fft.ifft)  # to be restored after the test
    patch.start()
    try:
        assert torch.fft.fft is own
        torch.fft.ifft = own
    finally:
        patch.stop()
    assert torch.fft.fft is torch.fft.ifft is own


class Spectrum(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8))

    def forward(self, x):
        return torch.fft.fft(x * self.weight).abs()


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_scripted_models_are_not_kept_alive(monkeypatch):
    scripted = torch.jit.script(Spectrum())
    monkeypatch.setattr(devices, "COMPLEX_DEVICES", ("meta",))
    with trnfft.patch_torch(), pytest.raises(NotImplementedError, match="aten::fft_fft"):
        scripted(torch.ones(8))
    weight = weakref.ref(scripted.weight)
    del scripted
    gc.collect()
    assert weight() is None


def test_a_compiled_convolution_follows_the_precision():
    compiled = torch.compile(trnfft.convolve, backend="eager")
    x, h = torch.ones(1, 75), torch.ones(1, 26)  # 100 points: no kernel with compensated sums
    with trnfft.backend("nki-sim"):
        with trnfft.precision("fast"):  # chosen here, as another thread may have chosen last
            fast = compiled(x, h)
        with trnfft.precision("kahan"):
            exact = compiled(x, h)
    near(fast, exact, 3 * transforms(100))
    near(exact, torch.tensor(np.convolve(np.ones(75), np.ones(26))[None]).float(), transforms(128))


def test_compiled_graphs_on_disk_tell_tensors_apart():
    a = torch.arange(9.0).reshape(3, 3)
    z = ComplexTensor(a, -a)
    others = [z.mT, z[:2], z[1:], z[:, 1:], z.conj(), z.detach().requires_grad_()]
    others += [ComplexTensor(a.double(), a.double()), ComplexTensor(a.to("meta"), a.to("meta"))]
    keys = [x._stable_hash_for_caching() for x in (z, *others)]
    assert len(set(keys)) == len(keys)
    assert ComplexTensor(a, a)._stable_hash_for_caching() == keys[0]
