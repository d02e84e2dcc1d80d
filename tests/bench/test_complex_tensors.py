"""The probe of complex tensors: its answers on the CPU, its refusals, and its proposals."""

import itertools
import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from bench.probes import __main__ as programs
from bench.probes import asking, complex_tensors, proposals
from bench.probes.complex_tensors import DECOMPOSE, MODES, SETTINGS
from bench.probes.report import COMPLEX, load
from bench.results import save
from nki_sim import hardware
from tests import sweeps
from trnfft.base import neuron_launchers

NAMES = tuple(complex_tensors.OPERATIONS)


def ask_cpu(name, mode="eager"):
    return complex_tensors.ask(name, mode, "1", "cpu", "aot_eager")


@sweeps.some(
    "name, mode",
    itertools.product(NAMES, MODES),
    itertools.product(NAMES, ["eager"]),
)
def test_the_cpu_is_right(name, mode):
    answer = ask_cpu(name, mode)
    assert answer.verdict == "right", answer.reason
    assert answer.reason == "" and answer.kernel.relative_error < 1e-5


def test_what_is_wrong_is_told(monkeypatch):
    monkeypatch.setattr(torch, "mm", lambda a, b: a.conj() @ b)
    answer = ask_cpu("mm")
    assert answer.verdict == "wrong" and answer.kernel.relative_error > 0.1


def test_the_first_line_of_an_error_is_told():
    def refuse(graph, inputs):
        raise RuntimeError("[NCC_EVRF004] complex64 is not supported\nsecond line")

    answer = complex_tensors.ask("_fft_c2c", "compiled", "0", "cpu", refuse)
    assert answer.verdict == "refused" and answer.kernel.relative_error is None
    assert answer.reason == "RuntimeError: [NCC_EVRF004] complex64 is not supported"


def test_a_fallback_that_warns_is_told(monkeypatch):
    product = torch.mm

    def mm(a, b):
        warnings.warn("The operator 'aten::mm' will fall back to run on the CPU", stacklevel=1)
        return product(a, b)

    monkeypatch.setattr(torch, "mm", mm)
    answer = ask_cpu("mm")
    assert answer.verdict == "refused" and answer.kernel.relative_error < 1e-5
    assert answer.reason.startswith("the CPU computed: ") and "aten::mm" in answer.reason


def test_a_result_elsewhere_is_a_fallback(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, device: tensor)
    answer = complex_tensors.ask("mm", "eager", "0", "meta", "aot_eager")
    assert answer.reason == "the CPU computed: its result is on cpu"


@pytest.fixture
def child(monkeypatch):
    """What a process of its own does: writes an answer, prints to stderr, or nothing of both."""

    def make(answer=None, stderr="", code=0):
        seen = []

        def run(words, out, seconds, variables):
            seen.append((words, variables))
            if answer is not None:
                save(answer, out)
            return subprocess.CompletedProcess(words, code, "", stderr)

        monkeypatch.setattr(asking, "in_a_process", run)
        return seen

    return make


def answer(name="mm", mode="eager", setting="0", verdict="right", reason=""):
    return complex_tensors.answer(name, mode, setting, verdict, reason)


def test_every_case_has_a_process_with_the_variable(child):
    seen = child(answer())
    assert len(list(complex_tensors.ask_all())) == len(NAMES) * len(MODES) * len(SETTINGS)
    assert {variables[DECOMPOSE] for _, variables in seen} == set(SETTINGS)
    assert all(words[0] == "tensor" and words[3] == v[DECOMPOSE] for words, v in seen)
    assert {(words[1], words[2]) for words, _ in seen} == {(n, m) for n in NAMES for m in MODES}


def test_what_a_process_logs_or_leaves_is_told(child):
    child(answer(), "W1125 device.cpp:7] aten::mm: falling back to CPU\n")
    found = complex_tensors.ask_apart("mm", "eager", "0")
    assert found.verdict == "refused" and "aten::mm" in found.reason
    child(None, "Segmentation fault", 139)
    found = complex_tensors.ask_apart("mm", "eager", "0")
    assert found.verdict == "unanswered" and "exit code 139: Segmentation fault" in found.reason


@pytest.mark.sweep
def test_a_process_without_the_device_refuses():
    with hardware.select(hardware.TRN2):
        found = complex_tensors.ask_apart("mm", "eager", "1")
    assert found.verdict == "refused" and "neuron" in found.reason


# The command


def test_without_the_device_nothing_is_asked(probes):
    ran = probes("run", COMPLEX, "--target", "trn2", "--out", "out.json")
    assert ran.exit_code == 0, ran.output
    found = load(Path("out.json"))
    assert not found.answers and [one.probe for one in found.unasked] == [COMPLEX]
    assert "PyTorch's device 'neuron'" in found.unasked[0].reason


def test_one_command_asks_all_of_the_device(probes, monkeypatch):
    given = [answer("complex"), answer(verdict="unanswered", reason="it hung")]
    monkeypatch.setattr(complex_tensors, "ask_all", lambda: iter(given))
    monkeypatch.setattr(programs, "frameworks", lambda: ["torch_neuronx", "torch_xla"])
    ran = probes("run", COMPLEX, "--target", "trn2", "--out", "out.json")
    assert ran.exit_code == 1 and "1 probes have no answer, the first: it hung" in ran.output
    assert load(Path("out.json")).answers == given
    monkeypatch.setattr(programs, "frameworks", lambda: ["torch_xla"])
    assert probes("run", COMPLEX, "--out", "out.json").exit_code == 0
    assert load(Path("out.json")).unasked


def test_the_child_writes_its_answer(probes, monkeypatch):
    asked = []
    monkeypatch.setattr(complex_tensors, "ask", lambda *case: asked.append(case) or answer())
    assert probes("tensor", "mm", "eager", "0", "--out", "one.json").exit_code == 0
    assert asked == [("mm", "eager", "0")]
    assert json.loads(Path("one.json").read_text())["probe"] == "complex-tensors: mm"


# Proposals


def all_right(mode, setting):
    return [answer(name, mode, setting) for name in NAMES]


def test_right_answers_of_a_mode_question_the_assumption_there(report_of):
    refused = answer("mm", "eager", "1", "refused", reason="TypeError: no storage")
    found = proposals.findings(report_of(*all_right("compiled", "1"), refused))
    assert not found.changes
    names = [f"complex-tensors: {name}" for name in NAMES]
    fits = f"trnfft.set_complex_storage(True) fits compiled code with {DECOMPOSE}=1"
    assert len(found.notes) == 1 and found.notes[0] == f"{', '.join(names)} are right: {fits}"
    assert len(found.agreed) == 1 and "no storage" in found.agreed[0]


@pytest.mark.parametrize("verdict", ["wrong", "refused", "unanswered"])
def test_one_operation_that_is_not_the_devices_keeps_the_assumption(report_of, verdict):
    tensors = [*all_right("eager", "0")[1:], answer("complex", verdict=verdict)]
    found = proposals.findings(report_of(*tensors))
    told = found.notes if verdict == "unanswered" else found.agreed
    assert len(found.notes + found.agreed) == len(told) == 1
    assert "set_complex_storage(True) does not fit eager code" in told[0]


def test_it_looks_for_the_package_of_the_device(monkeypatch):
    asked = []
    monkeypatch.setattr(neuron_launchers, "launcher", asked.append)
    assert complex_tensors.ask("mm", "eager", "0").verdict == "refused"
    assert asked == ["wrap_nki"] and "torch_neuronx" not in sys.modules
