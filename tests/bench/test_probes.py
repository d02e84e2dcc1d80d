"""Probes in the simulator, reports as a chip would write them, and their proposals."""

import json
import os
import re
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nki_sim
from bench.probes import __main__ as programs
from bench.probes import asking, launcher, modelled, proposals
from bench.probes.probe import normal
from bench.probes.registry import PROBES, chosen
from bench.probes.report import RIGHT, WRONG, Answer, Tried, load
from bench.results import save
from nki_sim import hardware
from nki_sim.base.releases import RELEASES
from nki_sim.lint import lint
from nki_sim.rules.device_rules import RULES
from tests import sweeps
from trnfft.base import neuron_launchers

CHIPS = [hardware.chip(name) for name in hardware.NAMES]
ASKED = [(n, core) for n, probe in PROBES.items() for core in CHIPS if not probe.why_not(core)]
READ = [
    (name, reading) for name, probe in PROBES.items() for reading in probe.readings
]  # what results of probes show
TIMED = [(n, core) for n, core in ASKED if PROBES[n].constant]


def each(pairs, by_default=None):
    """A test for every probe and chip; by default for those alone that are given."""
    ids = [f"{name}-{core.name}" for name, core in pairs]
    return sweeps.some("name, core", pairs, by_default or pairs).with_args(ids=ids)


def short(probe):
    """A probe of few repetitions: more of them matter for the precision of its times only."""
    return replace(probe, counts=probe.counts[:2])


# Probes with many repetitions or long sums.
LONG = ("psum-groups-given", "psum-groups-omitted", "psum-groups-interleaved", "64-partitions")


@each(ASKED, [(n, core) for n, core in ASKED if core is hardware.TRN2 and n not in LONG])
def test_kernel_and_twin_are_right_in_the_simulator(name, core):
    probe = PROBES[name]
    with hardware.select(core):
        answer = asking.ask(short(probe), launcher.SIMULATOR)
    assert answer.verdict == RIGHT, answer.reason
    assert answer.kernel.modelled_us[0] > 0 and not answer.kernel.measured_us


@pytest.mark.parametrize("name", [name for name, probe in PROBES.items() if probe.rule])
def test_a_probe_breaks_the_rule_that_it_settles_and_its_twin_none(name):
    probe = PROBES[name]
    # Of TRN1, as on later chips small tiles are documented; a rule that is cleared has no breaks.
    core = replace(hardware.TRN1, **{RULES[probe.rule].field: hardware.CONTESTED})
    with hardware.select(core), nki_sim.allow(*RULES), nki_sim.sources():
        of_kernel, of_twin = [
            nki_sim.dry_run(kernel, *given).waived_rules
            for kernel, given in probe.both(probe.drawn(0))
        ]
    assert of_kernel == {probe.rule} and of_twin == set()


# Kernels that ask about what the compiler takes, with the rule that they break of each release.
INTENDED = {
    "0.6": {
        "scaled_by_default": "helper-default",
        "scaled_by_keyword": "helper-keyword",
        "looped_twice": "nested-loop",
    },
    "0.7": {"looped_twice": "nested-loop"},  # which calls helpers as Python does
}


@pytest.mark.sweep
@pytest.mark.parametrize("release", RELEASES)
def test_a_kernel_leaves_the_subset_of_the_compiler_only_where_it_asks_about_that(release):
    found = {}
    for kernel in {k for probe in PROBES.values() for k in (probe.kernel, probe.twin) if k}:
        for violation in lint(kernel, contested=True, release=release):
            found.setdefault(kernel.__name__, []).append(violation.rule)
    assert found == {name: [rule] for name, rule in INTENDED[release].items()}


def test_every_contested_rule_of_arguments_products_and_loops_has_a_probe():
    about_size = {"dma-written-ahead", "instruction-count", "instruction-limit", "live-registers"}
    assert {probe.rule for probe in PROBES.values()} - {""} == set(RULES) - about_size


@each(
    TIMED,
    [
        (name, core)
        for name, core in TIMED
        if core is hardware.TRN2 and name in ("64-partitions", "dma-issue-hardware", "lnc-2")
    ],
)
def test_the_time_follows_its_constant_and_no_other(name, core):
    """What the model says with another constant leads back to that constant."""
    probe = PROBES[name]
    today = getattr(core, probe.constant)
    other = probe.values[-1] if probe.values else 1.5 * today
    measured = modelled.extra_ns(probe, replace(core, **{probe.constant: other}))
    assert modelled.constant_for(probe, core, measured) == pytest.approx(other, rel=2e-3)
    if probe.values:
        assert measured > modelled.extra_ns(probe, core)
        return
    others = {"dma_start_ns": 3000.0, "vector_ghz": core.vector_ghz / 2}
    changed = modelled.extra_ns(probe, replace(core, **others))
    assert changed == pytest.approx(modelled.extra_ns(probe, core), rel=0.05, abs=1.0)


def test_a_time_below_every_value_settles_nothing():
    assert modelled.constant_for(PROBES["dma-issue-software"], hardware.TRN2, -50.0) is None


@pytest.mark.parametrize(
    ("name", "reading"), READ, ids=[f"{name}-{reading.name}" for name, reading in READ]
)
def test_a_chip_that_has_another_value_of_a_field_is_told(monkeypatch, name, reading):
    """The simulator's, or, where no value of the field says so, one that computes it."""
    probe, core = PROBES[name], hardware.TRN2
    if reading.value is not None:
        core = replace(core, **{probe.shown: reading.value})
    else:

        def launch(framework, kernel, lnc, arguments):
            *given, asks = arguments
            exact = reading.exact if asks else probe.exact
            return lambda: exact(*given).astype(np.float32)

        monkeypatch.setattr(asking, "launch", launch)
        monkeypatch.setattr(asking, "timed", lambda probe, framework, *pair: pair)
    with hardware.select(core):
        answer = asking.ask(probe, launcher.SIMULATOR)
    assert answer.reading == reading.name
    assert answer.verdict == (RIGHT if reading is probe.readings[0] else WRONG)


@pytest.mark.parametrize("name", [name for name, probe in PROBES.items() if probe.readings])
def test_the_first_reading_is_the_right_one_and_the_others_differ(name):
    probe = PROBES[name]
    arguments = probe.drawn(0)
    first, *others = [reading.exact(*arguments) for reading in probe.readings]
    assert asking.relative(first, probe.exact(*arguments)) == 0
    assert all(asking.relative(other, first) > 10 * asking.TOLERANCE for other in others)
    assert probe.readings[0].value == getattr(hardware.TRN2, probe.shown)  # as assumed today


# Reports as a chip would write them


def answer(name, verdict=RIGHT, framework="torch_neuronx", **values):
    probe = PROBES[name]
    found = asking.unanswered(probe, framework, values.pop("reason", ""))
    return found.model_copy(update={"verdict": verdict, **values})


def timed(name, per_repetition_ns, core=hardware.TRN2):
    """An answer whose kernel takes so much longer than its twin with each repetition."""
    probe = PROBES[name]
    twin = [500.0 + 0.1 * n for n in probe.counts]
    kernel = [
        us + 20.0 + 1e-3 * per_repetition_ns * n for us, n in zip(twin, probe.counts, strict=True)
    ]
    pairs = [modelled.times_us(probe, core, n) for n in probe.counts]
    model = tuple(zip(*pairs, strict=True))
    return answer(
        name,
        kernel=Tried(relative_error=0.0, measured_us=tuple(kernel), modelled_us=model[0]),
        twin=Tried(relative_error=0.0, measured_us=tuple(twin), modelled_us=model[1]),
    )


GROUPS = ("psum-groups-given", "psum-groups-omitted", "psum-groups-interleaved")


def changes(report):
    return {(c.chip, c.field): c.proposed for c in proposals.findings(report).changes}


def test_wrong_sums_make_a_contested_rule_a_wrong_one(report_of):
    answers = [answer(name, WRONG if name == GROUPS[2] else RIGHT) for name in GROUPS]
    assert hardware.TRN3.psum_bank_groups == hardware.CONTESTED
    found = report_of(*answers, target="trn3")
    assert changes(found) == {("trn3", "psum_bank_groups"): hardware.WRONG}
    (change,) = proposals.findings(found).changes
    assert f"{GROUPS[2]} wrong" in change.why and f"{GROUPS[1]} right" in change.why


def test_right_answers_contradict_a_record_and_clear_what_was_contested(report_of):
    right = [answer(name) for name in GROUPS]
    assert changes(report_of(*right)) == {("trn2", "psum_bank_groups"): hardware.CONTESTED}
    assert changes(report_of(*right, target="trn3")) == {
        ("trn3", "psum_bank_groups"): hardware.FINE
    }
    assert changes(report_of(*right[:2])) == {}  # one of three is missing


def test_a_refusal_counts_as_wrong_and_silence_as_nothing(report_of):
    refused = report_of(answer("array-tile-32x32", "refused", reason="NCC_IBIR058"))
    assert changes(refused) == {("trn2", "small_array_tiles"): hardware.WRONG}
    silent = report_of(answer("array-tile-32x32", "unanswered", reason="it hung"))
    assert changes(silent) == {}
    assert "it hung" in proposals.findings(silent).notes[0]


BF16 = ("bf16-product", "bf16-split-3", "bf16-split-6")
ROUNDED = "rounded to nearest"


def test_what_results_show_changes_its_field(report_of):
    rounded = [answer(name, WRONG, reading=ROUNDED) for name in BF16]
    assert changes(report_of(*rounded)) == {("trn2", "rounds_bf16_products"): True}
    exact = [answer(name, reading="exact") for name in BF16]
    found = proposals.findings(report_of(*exact))
    assert not found.changes and "rounds_bf16_products stays False" in found.agreed[0]


AP = ("ap-of-slice", "ap-of-slice-with-offset", "ap-of-reshaped")


def test_either_reading_of_ap_clears_its_rule_and_both_do_not(report_of):
    field, rule = ("trn2", "reading_of_ap"), ("trn2", "ap_of_views")
    relative = [answer(name, reading="relative") for name in AP]
    absolute = [answer(name, WRONG, reading="absolute") for name in AP]
    assert changes(report_of(*relative)) == {rule: hardware.FINE}
    assert changes(report_of(*absolute)) == {rule: hardware.FINE, field: hardware.ABSOLUTE}
    assert changes(report_of(*relative[:2], absolute[2])) == {rule: hardware.WRONG}
    neither = [*absolute[:2], answer(AP[2], WRONG)]
    assert changes(report_of(*neither)) == {rule: hardware.WRONG}


@pytest.mark.parametrize(
    ("readings", "why"),
    [
        (("exact", "largest parts alone", "exact"), "its probes do not agree"),
        (("exact", ROUNDED, ROUNDED), "its probes do not agree"),
        (("", "", ""), "no value of it has such results"),
        (("cut off",), "no value of it has such results"),
    ],
)
def test_results_that_no_one_value_has_change_nothing(report_of, readings, why):
    answers = [
        answer(name, RIGHT if reading == "exact" else WRONG, reading=reading)
        for name, reading in zip(BF16, readings, strict=False)
    ]
    found = proposals.findings(report_of(*answers))
    assert not found.changes and why in found.notes[0]
    assert all(reading in found.notes[0] for reading in readings)


@pytest.mark.parametrize(
    ("names", "field", "when_right"),
    [
        (("activation-column", "activation-column-views"), "activation_column_scale", None),
        (("gpsimd-float32",), "gpsimd_float32", hardware.FINE),
        (("dynamic-rows-load", "dynamic-rows-store"), "dynamic_rows", None),
    ],
)
def test_verdicts_of_the_rules_in_doubt(report_of, names, field, when_right):
    right = changes(report_of(*map(answer, names)))
    assert right == ({("trn2", field): when_right} if when_right else {})
    for verdict in (WRONG, "refused"):
        answers = [*map(answer, names[1:]), answer(names[0], verdict, reason="NCC_IXCG965")]
        assert changes(report_of(*answers)) == {("trn2", field): hardware.WRONG}


@pytest.mark.sweep
def test_times_change_their_constants(report_of):
    found = report_of(timed("dma-issue-hardware", 850.0), timed("lnc-2", 690.0))
    assert changes(found) == {("trn2", "hardware_dge_ns"): pytest.approx(851, abs=2)}
    assert "core_barrier_ns stays 700" in proposals.findings(found).agreed[0]
    halved = timed("64-partitions", 1e6 * 2.0)
    assert changes(report_of(halved)) == {("trn2", "dma_partitions_per_engine"): 8}


def test_what_no_field_holds_is_told(report_of):
    found = proposals.findings(report_of(answer("psum-stride", WRONG, reason="0.5")))
    assert not found.changes and "no field holds" in found.notes[0]


@pytest.mark.sweep
def test_propose_prints_changes(probes, report_of, tmp_path):
    answers = [answer("device-loop-nested", WRONG)]
    save(report_of(timed("dma-issue-software", 1500.0), *answers), tmp_path / "probes.json")
    result = probes("propose", "probes.json")
    assert result.exit_code == 0, result.output
    place = "^nki_sim/hardware.py, TRN2: "
    time = place + r"software_dge_ns=745.0 -> software_dge_ns=15\d\d\.0,  # dma-issue"
    assert re.search(time, result.output, re.M)
    verdict = place + r"nested_device_loops=\w+ -> nested_device_loops=WRONG,  # device-loop-nested"
    assert re.search(verdict, result.output, re.M)
    assert "2 change(s) proposed; nothing was edited" in result.output


def test_a_report_of_the_simulator_proposes_nothing(probes):
    names = ("psum-groups-given", "dma-issue-static")
    ran = probes("run", *names, "--target", "trn2", "--out", "probes.json")
    assert ran.exit_code == 0, ran.output
    assert "the simulator answers, which settles nothing" in ran.output
    assert "hardware.psum_bank_groups, today wrong" in ran.output
    proposed = probes("propose", "probes.json")
    assert proposed.exit_code == 0
    assert "settles nothing and proposes nothing" in proposed.output
    assert "0 change(s) proposed" in proposed.output


@pytest.mark.sweep
def test_probes_that_a_chip_cannot_be_asked_are_told(probes, tmp_path):
    ran = probes("run", "lnc-2", "launch", "--target", "trn1", "--out", "probes.json")
    assert ran.exit_code == 0, ran.output
    found = load(tmp_path / "probes.json")
    assert [one.probe for one in found.unasked] == ["lnc-2"]
    assert [one.probe for one in found.answers] == ["launch"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "speed"), "argument 'PROBE' is 'speed', allowed are launch, "),
        (("run", "--target", "gpu"), "target 'gpu' is not known: use one of trn1, "),
        (("run", "--out", "no/such/folder.json"), "there is no folder no/such"),
    ],
)
def test_bad_arguments(probes, words, message):
    result = probes(*words)
    assert result.exit_code == 2 and message in result.output


def test_a_file_that_is_no_report(probes, tmp_path):
    (tmp_path / "x.json").write_text(json.dumps({"format": "trnfft probes", "target": 3}))
    result = probes("propose", "x.json")
    assert result.exit_code == 2 and "holds no results of trnfft probes" in result.output


# On a device, with stand-ins


@pytest.fixture
def wrapped(monkeypatch):
    """A torch_neuronx whose wrap_nki runs kernels in the simulator, and what was asked of it."""
    calls = []

    class Wrapped:
        def __init__(self, kernel):
            self.kernel = kernel

        def __getitem__(self, grid):
            (lnc,) = grid

            def run(*arguments):
                asks = self.kernel.__name__ if arguments[-1] else "the twin"
                calls.append((asks, lnc))
                assert not any(isinstance(one, np.ndarray) for one in arguments)
                result = launcher.simulated(self.kernel, lnc, arguments)
                return spoil(result) if asks == "sums_in_a_bank" else result

            return run

    def spoil(result):
        result[:, 1, :128] *= 0.5
        return result

    monkeypatch.setattr(neuron_launchers, "launcher", {"wrap_nki": Wrapped}.get)
    import torch

    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: calls.append("waited"))
    to_host = launcher.on_device
    monkeypatch.setattr(launcher, "on_device", lambda one, device: to_host(one, "cpu"))
    return calls


@pytest.mark.sweep
def test_a_wrong_kernel_on_a_device_is_found_and_timed(wrapped):
    with hardware.select(hardware.TRN2):
        found = asking.ask(short(PROBES["psum-groups-given"]), "torch_neuronx")
        assert found.verdict == WRONG and found.difference > 0.05
        assert found.kernel.measured_us[0] > 0 and not found.kernel.modelled_us
        assert asking.ask(short(PROBES["lnc-2"]), "torch_neuronx").verdict == RIGHT
    assert ("sums_in_a_bank", 1) in wrapped and ("exchanged", 2) in wrapped
    assert "waited" in wrapped


def test_a_refused_kernel_is_not_a_refused_twin(monkeypatch):
    probe = PROBES["array-tile-32x32"]

    def refuse(*kernels):
        def launch(framework, kernel, lnc, arguments):
            if arguments[-1] in kernels:
                raise RuntimeError("[NCC_IBIR058] no such tile")
            return lambda: launcher.simulated(kernel, lnc, arguments)

        monkeypatch.setattr(asking, "launch", launch)
        return asking.ask(probe, "torch_xla")

    found = refuse(True)
    assert found.verdict == "refused" and "NCC_IBIR058" in found.reason
    assert refuse(True, False).verdict == "unanswered"


def test_results_that_are_not_finite_or_have_another_shape_are_wrong():
    exact = normal(np.random.default_rng(0), 4, 4)
    assert asking.relative(np.full((4, 4), np.nan, np.float32), exact) == asking.NOT_FINITE
    assert asking.relative(exact[:2], exact) == asking.NOT_FINITE


def test_a_process_that_crashes_or_hangs_is_told(monkeypatch, tmp_path):
    crash = tmp_path / "python"
    crash.write_text("#!/bin/sh\necho no probe $4 >&2\nexit 1\n")
    crash.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(crash))
    with hardware.select(hardware.TRN3):
        crashed = asking.ask_apart(replace(PROBES["launch"], name="gone"), launcher.SIMULATOR)
        assert crashed.verdict == "unanswered" and "exit code 1: " in crashed.reason
        assert crashed.reason.endswith("no probe gone")

        def hang(*words, **options):
            raise subprocess.TimeoutExpired("python", options["timeout"])

        monkeypatch.setattr(subprocess, "run", hang)
        assert "did not end within 7 s" in asking.ask_apart(PROBES["launch"], "x", 7.0).reason
        assert asking.modelled_answers([PROBES["launch"]]) == {}


@pytest.mark.sweep
def test_a_run_on_a_chip_asks_every_framework_and_has_modelled_times(monkeypatch):
    with hardware.select(hardware.TRN2):
        model = asking.ask(PROBES["launch"], launcher.SIMULATOR)
        monkeypatch.setattr(programs, "modelled_answers", lambda probes: {"launch": model})
        monkeypatch.setattr(programs, "ask_apart", lambda p, f: answer(p.name, framework=f))
        found = programs.asked(
            chosen(("launch", "psum-stride")), hardware.TRN2, ["torch_neuronx", "torch_xla"]
        )
    assert [(one.probe, one.framework) for one in found.answers] == [
        ("launch", "torch_neuronx"),
        ("launch", "torch_xla"),
        ("psum-stride", "torch_neuronx"),
    ]
    assert isinstance(found.answers[0], Answer) and not found.is_modelled
    assert found.answers[0].kernel.modelled_us == model.kernel.modelled_us


def test_the_simulator_does_not_answer_for_another_nki(probes, monkeypatch):
    monkeypatch.setattr(programs, "REAL_NKI", True)
    for words in (("run", "launch"), ("propose", "probes.json")):
        result = probes(*words)
        assert result.exit_code == 2 and "set NKI_SIM_ALWAYS=1" in result.output


NKI = """
import pathlib, sys
from nki_sim.import_nki.modules import simulated_nki

modules = simulated_nki()
del modules["nki"]
sys.modules.update(modules)
exists = pathlib.Path.exists
pathlib.Path.exists = lambda self, **given: str(self) == "/dev/neuron0" or exists(self, **given)

class Opaque:
    __slots__ = "function",

def jit(function):
    kernel = Opaque()
    kernel.function = function
    return kernel
"""
TORCH_NEURONX = """
import torch

to = torch.Tensor.to
torch.Tensor.to = lambda self, *given: self.clone() if given == ("neuron",) else to(self, *given)
torch.accelerator.synchronize = lambda: None
"""
NKI_HOP = """
import os, torch
import nki_sim

def is_operand(value):
    return isinstance(value, torch.Tensor)

class Wrapped:
    def __init__(self, function):
        self.function = function

    def __getitem__(self, grid):
        (lnc,) = grid
        assert lnc == int(os.environ["NEURON_LOGICAL_NC_CONFIG"])
        return self.run

    def run(self, *arguments):
        if not all(is_operand(one) or isinstance(one, int) for one in arguments):
            raise TypeError("a constant holds tensors")
        return nki_sim.simulate(self.function)(*arguments)

def wrap_nki(kernel):
    return Wrapped(kernel.function)
"""


@pytest.mark.sweep
def test_a_run_on_a_stand_in_for_a_chip_from_end_to_end(tmp_path, monkeypatch):
    """A nki of another make, a device file, and a wrap_nki that takes top-level tensors only."""
    (tmp_path / "nki.py").write_text(NKI)
    (tmp_path / "torch_neuronx").mkdir()
    (tmp_path / "torch_neuronx" / "__init__.py").write_text(TORCH_NEURONX)
    (tmp_path / "torch_neuronx" / "nki_hop.py").write_text(NKI_HOP)
    root = Path(launcher.__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{root}")
    monkeypatch.setenv("NKI_SIM_ALWAYS", "0")
    words = ["run", "tensors-in-a-tuple", "--target", "trn2", "--out", str(tmp_path / "out.json")]
    command = [sys.executable, "-m", "bench.probes", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = load(tmp_path / "out.json")
    (one,) = found.answers
    assert (one.framework, one.verdict) == ("torch_neuronx", "refused")
    assert one.kernel.modelled_us[0] > 0 and one.twin.relative_error is not None
    assert changes(found) == {("trn2", "tensors_in_sequences"): hardware.WRONG}
    assert "a constant holds tensors" in proposals.findings(found).changes[0].why


def test_without_a_chip_nothing_but_the_simulator_answers(monkeypatch):
    assert launcher.frameworks() == [launcher.SIMULATOR]
    monkeypatch.setattr(launcher, "REAL_NKI", True)
    monkeypatch.setattr(launcher, "DEVICE", Path(__file__))  # something that exists
    wrap_nki = types.SimpleNamespace(__module__="libtorch_neuronx_lite.nki.nki_hop")
    monkeypatch.setattr(neuron_launchers, "launcher", {"wrap_nki": wrap_nki}.get)
    assert launcher.frameworks() == ["libtorch_neuronx_lite"]
    nki_op = types.SimpleNamespace(__module__="torch_neuronx.ops")
    monkeypatch.setattr(neuron_launchers, "launcher", {"nki_op": nki_op}.get)
    assert launcher.frameworks() == ["torch_neuronx"], "where kernels are called themselves"
    monkeypatch.setenv(hardware.LNC_VARIABLE, "")
    kernel = object()
    assert launcher._caller(kernel, 2) is kernel
    assert os.environ[hardware.LNC_VARIABLE] == "2", "where NKI 0.7 reads the degree of LNC"
