"""`trnfft check-model` finds what is refused, what falls back, and counts launches by the planner.

What it counts is what the kernels' backend would launch: tests compare it with runs in the
simulator.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import threading
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import trnfft
from nki_sim import hardware
from nki_sim.measured_times import about
from tests import sweeps
from tests.docs.pages import ROOT, blocks
from tests.operands import of_tensors
from tests.tolerances import near, sums, together, transforms
from trnfft import cli
from trnfft.backends.nki import Nki
from trnfft.base import config, devices
from trnfft.functions import bloom
from trnfft.model_check import NotAllowed, check_model
from trnfft.model_check.replaced_backends import in_place_of
from trnfft.ops import block_circulant as ops_block_circulant
from trnfft.patching import patch
from trnfft.planner import cost
from trnfft.planner.kinds import BlockCirculant
from trnfft.planner.planner import plan_for

block_circulant_product = of_tensors(ops_block_circulant.block_circulant_product)

PAGE = ROOT / "docs" / "check_model.md"
IMPORTS = "import torch\nimport trnfft\nfrom torch import nn\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Writes a file of Python and runs `trnfft check-model` on its function `build`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    modules = set(sys.modules)

    def run(source, *options, spec="model_to_check.py:build"):
        Path("model_to_check.py").write_text(IMPORTS + source, "utf-8")
        return CliRunner().invoke(cli.app, ["check-model", spec, *map(str, options)])

    yield run
    for name in set(sys.modules) - modules:
        origin = getattr(sys.modules[name], "__file__", None) or ""
        if origin.startswith(str(tmp_path)):
            del sys.modules[name]
    assert devices.REPLACEMENT is None


def function(body, inputs="torch.randn(3, 8)"):
    """Source of a `build` that returns a function with this body and its inputs."""
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return f"def build():\n    def f(x):\n{lines}\n    return f, {inputs}\n"


def report_of(result):
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)


# Launches


def test_a_plain_function_with_torch_fft(run):
    source = function("return torch.fft.irfft(torch.fft.rfft(x))", "torch.randn(3, 1000)")
    result = run(source, "--target", "trn2", "--lnc", 1)
    assert result.exit_code == 0, result.output
    plan = trnfft.plan(1000, real=True, batch=3, target="trn2", cores=1)
    kernel = cost.price(plan.recipe, 3, hardware.TRN2).predicted_ns  # without what torch moves
    for part in (
        "planned for trn2, LNC=1",
        "torch.fft.rfft, model_to_check.py:6",
        "torch.fft.irfft, model_to_check.py:6",
        f"3 transforms of 1000 points, {plan.algorithm}",
        f"{kernel / 1e3:.4g} us",
        "An eager call, with a launch of each,",
        "A launch by TorchNeuron takes 55 to 65 us",
        "Not supported: nothing",
        "Falls back: nothing",
    ):
        assert part in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    found = report_of(run(source, "--target", "trn2", "--lnc", 1, "--json"))
    assert found["supported"] and (found["target"], found["cores"]) == ("trn2", 1)
    first = found["launches"][0]
    assert first["predicted_ns"] == kernel
    assert (first["points"], first["batch"], first["line"]) == ([1000], 3, 6)
    assert first["recipe"] == str(plan.recipe)
    total = found["totals"]["forward"]
    chip = hardware.chip("trn2")
    assert total["launches"] == 2
    launched = 2, total["other_operators"]
    assert total["with_launches_ns"] == chip.with_launches_ns(total["predicted_ns"], *launched)


MODELS = {
    "spectral": (lambda: trnfft.nn.SpectralConv2d(2, 2, 3, 3), (2, 2, 12, 16)),
    "spectral kernels": (lambda: trnfft.nn.SpectralConv1d(16, 16, 8), (32, 16, 256)),
    "spectrogram": (lambda: trnfft.nn.Spectrogram(64, power=1.0), (20, 4000)),
    "mel": (lambda: trnfft.nn.MelSpectrogram(n_fft=64, n_mels=10), (20, 4000)),
    "block circulant": (lambda: trnfft.nn.BlockCirculantLinear(48, 32, 16), (5, 48)),
    "large blocks": (lambda: trnfft.nn.BlockCirculantLinear(600, 300, 300), (2, 600)),
    "long filter": (lambda: trnfft.nn.FFTConv1d(2, 3, 5), (1, 2, 40)),
    "convolve": (lambda: lambda x: trnfft.convolve(x, torch.ones(1, 9), dims=-1), (3, 90)),
    "bloom": (lambda: lambda x: bloom.bloom(x, torch.ones(5, 5) / 25), (1, 3, 20, 24)),
    "stft": (lambda: lambda x: trnfft.stft(x, 64, window=torch.hann_window(64)).abs(), (2, 400)),
    "cosines": (lambda: lambda x: trnfft.dct(x), (4, 40)),
    "one point": (lambda: lambda x: trnfft.fft(x).real, (4, 1)),
    "transposed": (lambda: lambda x: trnfft.fftn(x, dim=(0, 2)).abs(), (6, 3, 10)),
    "planned order": (lambda: lambda x: trnfft.fft(x, order="planned").real, (2, 48)),
}


@sweeps.some("name", MODELS, [name for name in MODELS if name not in ("mel", "stft")])
def test_launches_are_those_of_the_kernels(name, monkeypatch):
    """A run in the simulator calls the kernels of these recipes, as often."""
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model, x = make(), torch.randn(shape)
    if isinstance(model, torch.nn.Module):
        x.requires_grad_()  # else another derivative less than below
    report = check_model(model, (x,), backward=True, target="trn1")
    counted = sorted(
        (one.phase, one.recipe, one.batch) for one in report.launches for _ in range(one.count)
    )
    launched, phase, original = [], "forward", Nki.run

    def noted(self, recipe, x, *rest):
        launched.append((phase, str(recipe), recipe.kind.batch_of(len(x[0]))))
        return original(self, recipe, x, *rest)

    monkeypatch.setattr(Nki, "run", noted)
    with trnfft.backend("nki-sim"), hardware.select(hardware.chip("trn1")):
        y = model(x.detach().requires_grad_())
        phase = "backward"
        y.backward(torch.ones_like(y))
    assert counted == sorted(launched)
    assert report.launch_count() == len(launched)
    assert bool(launched) == (name != "one point")


def test_layers_are_named_by_line_or_by_module(run):
    source = "def build():\n    return nn.Sequential(trnfft.nn.BlockCirculantLinear(64, 64, 16))\n"
    result = run(source, "--input", "8x64", "--target", "trn2", "--backward")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("BlockCirculantLinear, 0 (BlockCirculantLinear)") == 2
    assert "8 rows, weight 4 x 4 x 16, block_circulant " in result.stdout
    assert "block_circulant_gradients" in result.stdout
    report = check_model(
        trnfft.nn.BlockCirculantLinear(64, 64, 16), (torch.randn(8, 64),), target="trn2"
    )
    assert (
        report.predicted_ns()
        == plan_for(BlockCirculant(4, 4, 16), batch=8, target="trn2").predicted_ns
    )


def test_the_numbers_are_those_of_the_kernels():
    """The results of what stands in for the kernels, and their derivatives."""
    from contextlib import nullcontext

    class Deaf:
        launched = refused_by_kernels = falls_back = lambda self, *what: None
        on_the_device = lambda self: nullcontext()  # noqa: E731
        apart = lambda self: torch._C.DisableTorchFunction()  # noqa: E731

    def outcome(function, inputs):
        inputs = [x.clone().requires_grad_() for x in inputs]
        y = function(*inputs)
        return [y, *torch.autograd.grad(y.square().sum(), inputs)]

    torch.manual_seed(0)
    bias = torch.randn(32)
    cases = [
        (block_circulant_product, (torch.randn(5, 48), torch.randn(2, 3, 16), bias)),
        (block_circulant_product, (torch.randn(5, 45), torch.randn(2, 3, 15), bias[:30])),
        (block_circulant_product, (torch.randn(1024, 48), torch.randn(2, 3, 16), bias)),
        (lambda x, h: trnfft.convolve(x, h, dims=-1), (torch.randn(4, 50), torch.randn(4, 9))),
        (lambda x: bloom.bloom(x, torch.ones(5, 3) / 15), (torch.rand(2, 3, 20, 24),)),
        (lambda x: trnfft.irfft2(trnfft.rfft2(x) * 2), (torch.randn(2, 6, 9),)),
    ]
    for function, inputs in cases:
        expected = outcome(function, inputs)
        with trnfft.backend("nki-sim"):
            devices.REPLACEMENT = lambda backend: in_place_of(backend, Deaf())
            try:
                found = outcome(function, inputs)
            finally:
                devices.REPLACEMENT = None
        for one, other in zip(found, expected, strict=True):
            near(one, other, together(transforms(4 * max(map(len, inputs)), 6), sums(48)))


# What is not supported


def test_one_run_lists_everything(run):
    source = function(
        "z = torch.fft.fft(x)\n"
        "a = torch.conv_tbc(z[:, :, None], z[:1, :1, None], z[0, :1])\n"
        "z.squeeze_()\n"
        "w = torch.exp(1j * x)\n"
        "b = torch.conv_tbc(z[:, :, None] * w[:, :, None], z[:1, :1, None], z[0, :1])\n"
        "assert isinstance(w, trnfft.ComplexTensor)\n"
        "return z.real.sum() + a.abs().sum() + b.abs().sum()"
    )
    result = run(source, "--json")
    assert result.exit_code == 1
    found = report_of(result)
    refused = found["refused"]
    assert [(one["line"], one["operation"]) for one in refused] == [
        (7, "torch.nn.functional.conv_tbc"),
        (8, "torch.Tensor.squeeze_"),
        (10, "torch.nn.functional.conv_tbc"),
    ]
    assert "aten.conv_tbc.default has no implementation" in refused[0]["message"]
    assert "z = z.squeeze" in refused[1]["message"]
    assert not found["ended"] and not found["supported"]
    text = run(source).stdout
    assert "Not supported: 3" in text and "3 operations are not supported." in text
    assert "model_to_check.py:8: z.squeeze_()" in text


def test_the_backward_pass_follows_a_refusal(run):
    source = function("z = torch.fft.fft(x)\nz.squeeze_()\nreturn z.real.sum()")
    found = report_of(run(source, "--backward", "--json"))
    assert [one["operation"] for one in found["refused"]] == ["torch.Tensor.squeeze_"]
    assert found["totals"]["backward"]["launches"] == 1 and not found["ended"]


def test_results_in_place_of_refused_ones_are_torchs():
    x = torch.randn(4, 4)
    kept = []

    def model(x):
        z = torch.fft.fft(x)
        kept.append(torch.conv_tbc(z[:, :, None], z[:1, :1, None], z[0, :1]))
        return z

    report = check_model(model, (x,))
    assert len(report.refused) == 1 and isinstance(kept[0], trnfft.ComplexTensor)
    z = torch.fft.fft(x)
    expected = torch.conv_tbc(z[:, :, None], z[:1, :1, None], z[0, :1])
    near(kept[0], expected, together(transforms(4), sums(4)))


def test_what_the_host_computes_falls_back(run):
    body = "z = torch.fft.fft(x[:3, :3])\n"
    body += "return torch.linalg.eigvals(z).abs(), torch.linalg.eig(x[:2, :2])[0].real"
    found = report_of(run(function(body), "--json"))
    assert found["supported"]
    calls = [(one["line"], one["operation"], one["count"]) for one in found["fallbacks"]]
    assert calls == [(7, "torch.linalg.eigvals", 1), (7, "torch.linalg.eig", 1)]
    assert all("runs on the host" in one["message"] for one in found["fallbacks"])


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_scripted_code_ends_the_run(run):
    source = (
        "import torch\ndef spectrum(x):\n    return torch.fft.fft(x).abs()\n"
        "scripted = torch.jit.script(spectrum)\n"
    )
    result = run(source + function("return scripted(x)"))
    assert result.exit_code == 1
    assert "scripted function 'spectrum' makes native complex tensors" in " ".join(
        result.stdout.split()
    )


def test_what_torch_has_not_either_ends_the_run(run):
    result = run(function("torch.special.erfinv(torch.fft.fft(x))\nreturn torch.fft.fft(x).real"))
    assert result.exit_code == 1
    assert "torch.special.erfinv: torch itself has it for real numbers alone" in " ".join(
        result.stdout.split()
    )
    assert "The run ended early" in result.stdout
    assert "total                                                              1" in result.stdout


def test_what_kernels_refuse(run):
    found = report_of(run(function("return torch.fft.rfft(x.double()).abs()"), "--json"))
    (one,) = found["refused"]
    assert one["operation"] == "torch.fft.rfft" and one["line"] == 6
    assert 'backend "nki" allows torch.float32' in one["message"]
    assert not found["launches"]
    body = "with trnfft.precision('kahan'):\n    torch.fft.fft(x, n=61)\n    trnfft.fft(x, n=61)\n"
    body += "return trnfft.fft(x).real"
    found = report_of(run(function(body, "torch.randn(8)"), "--json"))
    assert [one["operation"] for one in found["refused"]] == ["torch.fft.fft", "trnfft.fft"]
    assert all("N = 61" in one["message"] for one in found["refused"])
    assert len(found["launches"]) == 1
    found = report_of(run(function("return trnfft.fft(x, n=2**31 - 1)"), "--json"))
    (one,) = found["refused"]
    assert one["operation"] == "trnfft.fft" and "N = 2147483647" in one["message"]
    assert found["ended"]


def test_an_error_of_the_model_after_a_refusal(run):
    source = function("torch.fft.fft(x).squeeze_()\nraise ValueError('w')")
    result = run(source)
    assert result.exit_code == 1
    text = " ".join(result.stdout.split())
    assert "Not supported: 1 " in text
    assert "ended early: the model raises ValueError('w'), after operations that are not" in text


@pytest.mark.parametrize("call", ["torch.fft.fft(x)", "trnfft.fft(x).real"])
def test_another_thread(run, call):
    source = "from threading import Thread\n" + function(
        f"thread = Thread(target=lambda: {call})\nthread.start()\nthread.join()\n"
        "thread = Thread(target=lambda: x * 2)\nthread.start()\nthread.join()\n"
        "return x"
    )
    result = run(source, "--json", "--target", "trn2")
    assert result.exit_code == 1
    (one,) = report_of(result)["refused"]
    assert "runs in another thread than the model" in one["message"] and one["line"] == 7
    assert threading.getprofile() is None


def test_a_derivative_that_is_refused(monkeypatch):
    """An operator of a backward pass: none is known, so one is made to be refused."""
    from trnfft.complex import dispatch

    refused = torch.ops.aten.sgn.default

    def refuse(*arguments, **options):
        dispatch._refuse(refused)

    monkeypatch.setitem(dispatch.TABLE, refused, refuse)
    weight = torch.nn.Parameter(torch.ones(5, dtype=torch.complex64))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = weight

        def forward(self, x):
            return torch.linalg.vector_norm(torch.fft.rfft(x) * self.weight, ord=1)

    report = check_model(Model(), (torch.randn(2, 8),), backward=True)
    assert [(one.phase, one.operation) for one in report.refused] == [
        ("backward", "torch.linalg.vector_norm")
    ]
    assert Path(report.refused[0].site.file) == Path(__file__)


# What falls back


def test_what_falls_back(run):
    body = (
        "with trnfft.precision('double'):\n"
        "    a = torch.fft.rfft(x)\n"
        "with trnfft.backend('matmul'):\n"
        "    b = torch.fft.rfft(x)\n"
        "c = torch.linalg.matrix_power(torch.fft.fft(x), 1023)\n"
        "if a.abs().max() > 0:\n"
        "    d = c.cpu().to_complex().sum()\n"
        "with trnfft.precision('bf16'):\n"
        "    e = trnfft.convolve(x, torch.ones(1, 9), dims=-1)\n"
        "return (a + b).abs().sum() + d.abs() + e.sum()"
    )
    result = run(function(body, "torch.randn(8, 8)"), "--json")
    assert result.exit_code == 0, result.output
    found = [(one["line"], one["operation"]) for one in report_of(result)["fallbacks"]]
    assert found == [
        (7, "torch.fft.rfft"),
        (9, "torch.fft.rfft"),
        (10, "torch.linalg.matrix_power"),
        (11, "torch.Tensor.__bool__"),
        (12, "torch.Tensor.cpu"),
        (12, "ComplexTensor.to_complex"),
        (14, "trnfft.convolve"),
    ]
    messages = [one["message"] for one in report_of(result)["fallbacks"]]
    assert "on the host" in messages[0] and '"matmul"' in messages[1]
    assert re.search(r"takes \d{3} operators of torch", messages[2])


def test_blocks_without_a_kernel():
    layer = trnfft.nn.BlockCirculantLinear(600, 300, 300)
    report = check_model(layer, (torch.randn(2, 600),))
    (one,) = report.fallbacks
    assert one.operation == "BlockCirculantLinear" and "blocks of up to 256" in one.message
    assert report.launch_count() == 3


def test_complex_numbers_that_are_read(run):
    body = (
        "z = torch.fft.fft(x)[0]\na = z[0].item()\nb = z.tolist()\nc = torch.allclose(z, z)\n"
        "d = torch.equal(z, z)\ne = complex(z[0])\nf = bool(z[0])\nreturn x"
    )
    found = report_of(run(function(body), "--json"))["fallbacks"]
    assert {one["line"] for one in found} == set(range(7, 13))
    assert all("copies numbers to the host" in one["message"] for one in found)


def test_arrays_of_numpy(run):
    body = "a = torch.fft.rfft(x).abs()\nb = a.numpy()\nimport numpy\nnumpy.asarray(a)\n"
    body += "torch.fft.rfft(x).numpy()\n"
    body += "return torch.fft.rfft(x).cpu().numpy()"
    found = report_of(run(function(body), "--json"))["fallbacks"]
    assert [one["operation"] for one in found] == [
        "torch.Tensor.numpy",
        "torch.Tensor.__array__",
        "ComplexTensor.numpy",
        "torch.Tensor.cpu",
    ]
    assert all("write x.cpu().numpy()" in one["message"] for one in found[:3])


def test_printing_is_no_computation(run):
    result = run(function("z = torch.fft.fft(x)\nprint(z)\nreturn z.real"), "--json")
    found = report_of(result)  # what the model prints is not in it
    assert found["supported"] and len(found["launches"]) == 1
    assert "ComplexTensor(" in result.stderr


# Kinds of models


def test_a_model_without_transforms(run):
    result = run("def build():\n    return nn.Linear(8, 8), torch.randn(2, 8)\n", "--backward")
    assert result.exit_code == 0
    assert "The model calls no transform and computes with no complex numbers" in result.stdout


PARAMETERS = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(33, dtype=torch.complex64))
        self.register_buffer("offset", torch.randn(33, dtype=torch.complex64))

    def forward(self, x, *, scale):
        return torch.fft.irfft(torch.fft.rfft(x) * self.weight + self.offset) * scale

def build():
    return Model(), {"x": torch.randn(4, 64), "scale": torch.tensor(2.0)}
"""


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_complex_parameters(run, device):
    found = report_of(run(PARAMETERS, "--backward", "--device", device, "--json"))
    assert found["supported"] and not found["fallbacks"]
    assert [one["phase"] for one in found["launches"]] == ["forward", "forward", "backward"]


def test_complex_and_integer_inputs(run):
    source = (
        "def build():\n"
        "    table = nn.Embedding(5, 8)\n"
        "    return lambda z, i: torch.fft.ifft(z) * table(i)\n"
    )
    options = ("--input", "4x8:complex64", "--input", "4:int64", "--json")
    for device in ("cpu", "meta"):
        if device == "meta":  # the table is no part of a module that moves
            source = source.replace("Embedding(5, 8)", "Embedding(5, 8, device='meta')")
        found = report_of(run(source, *options, "--device", device))
        assert found["supported"] and len(found["launches"]) == 1


def test_a_program_that_has_started_the_patch(run):
    source = "trnfft.patch_torch().start()\n" + function("return torch.fft.fft(x).abs()")
    try:
        found = report_of(run(source, "--json"))
        assert patch._started == 1
    finally:
        trnfft.patch_torch().stop()
    assert found["launches"][0]["operation"] == "torch.fft.fft"


def test_a_model_that_starts_the_patch(run):
    body = "trnfft.patch_torch().start()\nreturn torch.fft.fft(x).abs()"
    original = torch.fft.fft
    found = report_of(run(function(body), "--json"))
    assert found["supported"] and found["totals"]["forward"]["launches"] == 1
    assert patch._started == 0 and torch.fft.fft is original


@pytest.mark.parametrize("name", ["auto", "nki"])
def test_a_model_that_chooses_the_kernels(run, name):
    checked, default = config._checked_backend, config.FROM_ENVIRONMENT
    body = f"trnfft.set_backend('{name}')\ny = torch.fft.fft(x).abs()\n"
    found = report_of(run(function(body + "trnfft.set_precision('double')\nreturn y"), "--json"))
    assert found["supported"] and found["totals"]["forward"]["launches"] == 1
    assert (config._checked_backend, config.FROM_ENVIRONMENT) == (checked, default)
    assert (trnfft.get_backend(), trnfft.get_precision()) == ("auto", "fast")


TRANSFORMED = {
    "vmap": lambda x: torch.func.vmap(lambda row: torch.fft.rfft(row).abs())(x),
    "grad": lambda x: torch.func.grad(lambda x: torch.fft.rfft(x).abs().sum())(x),
    "jvp": lambda x: torch.func.jvp(lambda x: torch.fft.rfft(x).abs(), (x,), (x,))[1],
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_functions_of_torch_func(name):
    report = check_model(TRANSFORMED[name], (torch.randn(3, 8),))
    assert report.is_supported and not report.fallbacks
    assert report.launch_count() == (1 if name == "vmap" else 2)


def test_results_in_a_dataclass():
    @dataclasses.dataclass
    class Output:
        spectrum: torch.Tensor

    x = torch.randn(3, 8)
    report = check_model(lambda x: [Output(torch.fft.rfft(x))], (x,), backward=True)
    assert report.launch_count("backward") == 1
    assert not x.requires_grad


def test_a_model_is_run_as_it_is_written(monkeypatch):
    with pytest.raises(NotAllowed, match="no result of the model has a derivative"):
        check_model(lambda x: 5, (torch.randn(3),), backward=True)
    with pytest.raises(NotAllowed, match="argument 'device' is 'cuda'"):
        check_model(torch.fft.fft, (torch.randn(3),), device="cuda")
    monkeypatch.setenv(hardware.LNC_VARIABLE, "1")
    report = check_model(torch.fft.fft, (torch.randn(3),), target="trn2")
    assert (report.target, report.cores) == ("trn2", 1)
    report = check_model(torch.fft.fft, (torch.randn(3),), target="trn2", cores=2)
    assert (report.target, report.cores) == ("trn2", 2)
    assert trnfft.get_backend() == "auto"


# Bad input


def test_a_module_by_its_name(run):
    source = function("return torch.fft.fft(x).real")
    assert run(source, spec="model_to_check:build").exit_code == 0


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (function("return x @ x"), (), "model_to_check.py:6: return x @ x\n  RuntimeError: "),
        (function("return torch.fft.fft(x, n=0)"), (), "RuntimeError: argument 'n' is 0"),
        (function("z = torch.fft.fft(x)\nreturn z @ z"), (), "7: return z @ z\n"),
        ("def build():\n    raise KeyError('w')\n", (), "build() fails:\n  model_to_check.py:5"),
        ("def build():\n    exit(3)\n", (), "SystemExit: 3"),
        (function("raise ValueError"), (), "raise ValueError\n  ValueError\n"),
        (function("raise ValueError('a\\nb')"), (), "\n  ValueError: a\n  b\n"),
        (function("yield torch.fft.fft(x)"), (), "an object of type generator, whose code has not"),
        (function("return x[x > 0]"), ("--device", "meta"), "NotImplementedError: "),
        (function("return torch.fft.fft(x)[x > 0]"), ("--device", "meta"), "(try --device cpu)"),
        ("build = 5\n", (), "'build' in model_to_check.py is of type int"),
        ("def build():\n    return abs\n", ("--input", "1000000x1000000"), "cannot make:\n"),
        ("def build():\n    return 5\n", (), "returns something of type int"),
        ("def build():\n    return nn.Linear(8, 8)\n", (), "--input 8x1000"),
        ("def build():\n    return nn.Linear(8, 8), 5\n", (), "inputs of type int"),
        (function("return x"), ("--input", "3x3"), "leave out one of both"),
        (function("return x"), ("--input", "3x"), "argument '--input' is '3x'"),
        (function("return x"), ("--input", "3:int5"), "allowed dtypes are float32"),
        (function("return x"), ("--device", "xla"), "argument 'device' is 'xla'"),
        (function("return x"), ("--target", "trn9"), "'target' is 'trn9', allowed are trn1"),
        (function("return x"), ("--target", "trn1", "--lnc", 2), "the degree of LNC, is 2"),
        (function("return 5"), ("--backward",), "no result of the model has a derivative"),
        (function("return x.sum().item()"), ("--device", "meta"), "(try --device cpu)"),
        ("def other():\n    return 5\n", (), "its functions are other"),
        ("def build(:\n", (), "model_to_check.py:4: def build(:\n  SyntaxError"),
        ("import no_such_package\n", (), "model_to_check.py:4: import no_such_package\n"),
    ],
)
def test_bad_models(run, source, options, message):
    result = run(source, *options)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "Traceback" not in result.stderr and not result.stdout


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("model_to_check.py", "a colon"),
        ("no_such_file.py:build", "there is no file no_such_file.py"),
        ("no_such_module:build", "the module no_such_module cannot be imported"),
        (":build", "my_model.py:build"),
    ],
)
def test_bad_names(run, spec, message):
    result = run("", spec=spec)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_file_of_a_package(run):
    Path("__init__.py").touch()
    result = run("from .sizes import N\n")
    assert result.exit_code == 2
    assert "by itself; name it as a module, package.module:build" in result.stderr


# The page


def test_the_page_has_the_output_of_the_command(run):
    (source,) = (text for info, text in blocks(PAGE) if info == 'python title="my_model.py"')
    (command,) = (text for info, text in blocks(PAGE) if info == "sh")
    (output,) = (text for info, text in blocks(PAGE) if info == "text")
    Path("my_model.py").write_text(source, "utf-8")
    assert command.split()[:3] == ["trnfft", "check-model", "my_model.py:build"]
    result = CliRunner().invoke(cli.app, command.split()[1:])
    assert result.exit_code == 1
    assert result.stdout.splitlines() == output.splitlines()
    one_launch = about(hardware.chip("trn2").with_launches_ns(0.0, 1))
    assert f"adds about {one_launch} for each launch on trn2" in PAGE.read_text("utf-8")


def test_the_corrected_model_of_the_page(run):
    for info, text in blocks(PAGE):
        if found := re.fullmatch(r'python title="(\w+\.py)"', info):
            Path(found[1]).write_text(text, "utf-8")
    found = report_of(run("", "--backward", "--json", spec="corrected.py:build"))
    assert found["supported"]
    assert [one["operation"] for one in found["fallbacks"]] == ["torch.linalg.eigvalsh"]
