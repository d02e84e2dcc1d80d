"""Launches: the packages, the contract of `wrap_nki`, the chip, and the degree of LNC."""

import os
import subprocess
import sys
import warnings

import pytest
import torch

import trnfft
from nki_kernels.base import isa
from nki_kernels.fft.dft_gemm import dft_gemm
from nki_sim import hardware
from trnfft.backends import torch_neuron
from trnfft.backends.choice import choose_backend
from trnfft.planner.algorithms import ALGORITHMS

from .comparison import near_host
from .stand_in import nki_hop, packages

nl = isa.nl


@pytest.fixture
def new_process(monkeypatch):
    """The runtime has not launched anything yet, and the degree is the chip's default."""
    before = list(torch_neuron._first_degree)
    torch_neuron._first_degree.clear()
    monkeypatch.setenv(hardware.LNC_VARIABLE, "")
    monkeypatch.delenv(hardware.LNC_VARIABLE)
    yield
    torch_neuron._first_degree[:] = before


def operands(n=16):
    """What DFT-GEMM takes: two parts, its matrix."""
    recipe = trnfft.plan(n, algorithms="dft_gemm").recipe
    (matrix,) = ALGORITHMS["dft_gemm"].arguments(recipe)
    return [x.to("neuron") for x in (torch.ones(2, n), torch.ones(2, n), torch.tensor(matrix))]


@pytest.mark.parametrize("name", packages.PACKAGES)
def test_all_packages(name, launches, new_process):
    with packages.installed(name):
        x = torch.randn(3, 16)
        near_host(trnfft.fft(x.to("neuron")), torch.fft.fft(x))
    assert [degree for _, degree in launches] == [2]
    # Where NKI 0.7 reads the degree of a kernel that is called; a caller gets it in its bracket.
    assert os.environ.get(hardware.LNC_VARIABLE) == ("2" if "without" in name else None)


def test_a_kernel_is_called_where_nothing_wraps_it(launches, monkeypatch):
    x = torch.randn(3, 16)
    with packages.installed("torch_neuronx without wrap_nki"):
        assert torch_neuron.has_launches() and torch_neuron.found("wrap_nki") is None
        assert choose_backend(torch.device("neuron"))[0] == "nki"
        compiled = torch.compile(lambda x: trnfft.rfft(x).real, backend="neuron", fullgraph=True)
        for run in (lambda x: trnfft.rfft(x).real, compiled):
            near_host(run(x.to("neuron")), torch.fft.rfft(x).real)
        monkeypatch.setenv(hardware.LNC_VARIABLE, "")  # which says nothing, as none
        near_host(trnfft.rfft(x.to("neuron")), torch.fft.rfft(x))
        monkeypatch.delenv(hardware.LNC_VARIABLE)
        with pytest.raises(
            RuntimeError, match="NCC_EVRF066: kernel compiled for LNC=1, neuronx-cc has LNC=2"
        ):
            dft_gemm(*operands())
    assert [degree for _, degree in launches] == [2] * len(launches) and launches


@pytest.mark.parametrize("name", ["torch_neuronx", "libtorch_neuronx_lite"])
def test_callers_take_arguments_by_position_and_by_name(name):
    x_re, x_im, matrix = operands()
    with packages.installed(name):
        caller = torch_neuron.found("wrap_nki")(dft_gemm)[(2,)]
        by_position = caller(x_re, x_im, matrix)
        by_name = caller(matrix=matrix, x_re=x_re, x_im=x_im)
    assert torch.equal(by_position[0].cpu(), by_name[0].cpu())


def test_torch_neuronx_wants_a_tuple_in_the_bracket():
    with packages.installed("torch_neuronx"), pytest.raises(TypeError):
        torch_neuron.found("wrap_nki")(dft_gemm)[2]


def test_without_a_package_the_backend_is_matmul():
    with packages.absent():
        assert not torch_neuron.has_launches()
        assert choose_backend(torch.device("neuron"))[0] == "matmul"
        with trnfft.backend("nki"), pytest.raises(ImportError, match="torch-neuronx 2.13"):
            trnfft.fft(torch.ones(2, 16, device="neuron"))


@pytest.mark.parametrize(
    "arguments, error",
    [
        ({"x_re": torch.ones(2, 16)}, "an operand is on cpu"),
        ({"matrix": [torch.ones(2)]}, "holds tensors inside"),
        ({"matrix": {"a": 1}}, "unhashable"),
    ],
)
def test_the_contract_is_kept(arguments, error):
    named = dict(zip(("x_re", "x_im", "matrix"), operands(), strict=True))
    with pytest.raises((TypeError, RuntimeError), match=error):
        nki_hop.wrap_nki(dft_gemm)[(2,)](**{**named, **arguments})


def test_a_launch_that_no_operator_wraps_has_no_derivative():
    x_re, x_im, matrix = operands()
    with pytest.raises(NotImplementedError, match="AutogradPrivateUse1"):
        nki_hop.wrap_nki(dft_gemm)[(2,)](x_re.requires_grad_(), x_im, matrix)


def test_a_degree_that_the_chip_has_not_is_an_error(monkeypatch, launches):
    monkeypatch.setenv(hardware.LNC_VARIABLE, "4")
    with pytest.raises(ValueError, match="NEURON_LOGICAL_NC_CONFIG is '4', allowed on trn2"):
        trnfft.fft(torch.ones(2, 16, device="neuron"))
    assert launches == []


def test_what_was_not_launched_fixes_no_degree(monkeypatch, launches, new_process):
    with packages.absent(), trnfft.backend("nki"), pytest.raises(ImportError):
        trnfft.fft(torch.ones(2, 16, device="neuron"))
    monkeypatch.setenv(hardware.LNC_VARIABLE, "1")
    trnfft.fft(torch.ones(2, 16, device="neuron"))
    assert [degree for _, degree in launches] == [1]


def test_a_degree_that_changes_is_an_error(monkeypatch, launches):
    trnfft.fft(torch.ones(2, 16, device="neuron"))
    monkeypatch.setenv(hardware.LNC_VARIABLE, "1")
    launches.clear()
    with pytest.raises(RuntimeError, match="degree of LNC is 1 .* first launch had 2"):
        trnfft.fft(torch.ones(2, 16, device="neuron"))
    assert launches == []


def test_a_missing_target_warns_once(monkeypatch, new_process):
    monkeypatch.delenv(hardware.TARGET_VARIABLE)
    with pytest.warns(RuntimeWarning, match=r"52 ms\. Plans are for trn2, by the default of Torch"):
        trnfft.fft(torch.ones(2, 16, device="neuron"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trnfft.fft(torch.ones(2, 16, device="neuron"))


def test_plans_are_for_the_chip_of_the_device(monkeypatch, new_process):
    monkeypatch.delenv(hardware.TARGET_VARIABLE)
    assert hardware.current().name == "trn2", "TorchNeuron runs on trn2 and trn3"
    assert trnfft.plan(64).target == "trn2"
    assert trnfft.plan(64).cores == 2
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn3")
    assert trnfft.plan(64).target == "trn3"


def test_without_a_compiler_the_device_is_an_error(tmp_path):
    """And no skip: the device is what these tests are of."""
    command = "from tests.neuron.stand_in import device; import pathlib, sys; "
    command += "device.install(pathlib.Path(sys.argv[1]))"
    found = subprocess.run(
        [sys.executable, "-c", command, str(tmp_path)],
        env={"PATH": "", "CXX": "no-such-compiler"},
        capture_output=True,
        text=True,
    )
    assert found.returncode != 0
