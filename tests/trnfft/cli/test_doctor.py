"""`trnfft doctor` tells what works, what is absent and what is broken, and changes nothing."""

import json
import re
import shlex
from contextvars import ContextVar
from importlib.resources import files
from pathlib import Path

import platformdirs
import pytest
import torch
from typer.testing import CliRunner

import trnfft
from nki_sim import hardware
from nki_sim.base.installed_nki import FoundNki
from nki_sim.base.neuron_packages import how_to_install
from trnfft import cli
from trnfft.base import config, neuron_launchers
from trnfft.cli import doctor, health_checks
from trnfft.planner import planner, wisdom

WRONG = "WRONG PACKAGE. Please install the package from Neuron Repository"
ADVICE = "pip.repos.neuron.amazonaws.com"


@pytest.fixture(autouse=True)
def plain_machine(tmp_path, monkeypatch):
    """Default settings, an empty cache folder, no Neuron driver and no Neuron program."""
    for name in (hardware.TARGET_VARIABLE, hardware.LNC_VARIABLE, health_checks.COMPILER_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(config, "FROM_ENVIRONMENT", None)
    monkeypatch.setattr(health_checks, "find_nki", lambda: FoundNki("absent"))
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / "cache"))
    # As in a new thread: other tests of this process may have chosen a backend.
    monkeypatch.setattr(config, "_backend", ContextVar("backend", default=None))
    monkeypatch.setattr(hardware, "INSTANCE_TYPE", tmp_path / "product_name")
    monkeypatch.setattr(health_checks, "NEURON_DEVICES", tmp_path / "dev")
    monkeypatch.setattr(health_checks, "NEURON_MODULE", tmp_path / "version")
    # All of the shipped plans take most of a second. tests/planner/test_wisdom.py reads them.
    monkeypatch.setattr(wisdom, "EXAMINED", 5)
    kept = (
        health_checks.import_error.cache_clear,
        neuron_launchers.launcher.cache_clear,
        planner.forget,
    )
    for forget in kept:
        forget()
    yield
    for forget in kept:
        forget()


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a distribution and its module where this process and its children find them."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))

    def add(name, version, body="", description=""):
        module = name.replace("-", "_")
        (folder / f"{module}.py").write_text(body)
        info = folder / f"{module}-{version}.dist-info"
        info.mkdir()
        lines = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\n{description}\n"
        (info / "METADATA").write_text(lines)

    return add


@pytest.fixture
def neuron_machine(tmp_path, monkeypatch, install):
    """A machine that is ready for a NeuronCore, as far as a file system can be."""
    (tmp_path / "dev").mkdir()
    for name in ("neuron0", "neuron1", "neuron_other"):
        (tmp_path / "dev" / name).touch()
    (tmp_path / "version").write_text("2.30.2.0\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("neuronx-cc", "neuron-ls", "neuron-explorer"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")
    monkeypatch.setattr(health_checks, "find_nki", lambda: FoundNki("real"))
    monkeypatch.setattr(config, "has_nki", lambda: True)
    install("torch_xla", "2.9.0")
    return tmp_path


def run(*options):
    return CliRunner().invoke(cli.app, ["doctor", *options], env={"COLUMNS": "80"})


def by_name(checks):
    return {check.name: check for check in checks}


# The command


def test_a_healthy_machine_on_one_screen():
    result = run()
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[-1] == "Nothing is broken."
    assert not any(line.startswith("broken") for line in lines)
    table = lines[: lines.index("What to do")]
    rows = [line for line in table if line[:28].strip()]  # folders of tests are long, and fold
    assert len(rows) <= 40 and max(map(len, lines)) <= 80
    for part in (trnfft.__version__, torch.__version__, "auto, the default", "trn1 (the default"):
        assert part in result.stdout
    unfolded = " ".join(result.stdout.split())
    assert re.search(r"DFT-GEMM 8 x 64 simulator: error \d\.\de-0\d; kernel \d\.\d+ us", unfolded)
    assert unfolded.count("us, modelled on trn1, LNC=1; with a launch, about 4") == 2


def advice_in(text):
    """What the screen says to do, by the names of the checks: words without line breaks."""
    lines = text.splitlines()
    advice, names = {}, []
    for line in lines[lines.index("What to do") + 1 : -1]:
        if line.startswith(("note  ", "broken")):
            names = line[6:].strip().split(", ")
        elif line.startswith("      "):
            for name in names:
                advice.setdefault(name, []).extend(line.removesuffix(" \\").split())
    return advice


def words(advice):
    """The words of advice as the screen has them, where each command is a line of its own."""
    return re.sub(r"; | && ", " ", advice).lower().split()


def test_every_note_and_every_broken_thing_comes_with_advice(install, monkeypatch):
    monkeypatch.setattr(config, "FROM_ENVIRONMENT", "fftw")
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn9")
    monkeypatch.setattr(health_checks, "find_nki", lambda: FoundNki("placeholder", error=WRONG))
    for name, version in (("neuronx-cc", "1.0.post1"), ("torch-neuronx", "1.0"), ("nki", "0.0.1")):
        install(name, version, f"raise ImportError({WRONG!r})", WRONG)
    file = wisdom.user_file("trn2")
    file.mkdir(parents=True)
    result = run()
    assert result.exit_code == 1, result.output
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    names = "torch-neuronx, neuronx-cc, nki, backend, chip, trn2"
    assert lines[-1] == f"Broken: {names}."
    assert sum(line.startswith("broken") for line in lines[: lines.index("What to do")]) == 6
    assert file.is_dir()
    advice = advice_in(result.stdout)
    for checks in health_checks.examine().values():
        for check in checks:
            if check.status == "ok":
                continue
            assert check.advice[0].isupper(), check
            found = " ".join(advice[check.name]).lower().split()
            assert " ".join(words(check.advice)) in " ".join(found), check
    for name in ("neuronx-cc", "nki"):
        assert " ".join(words(how_to_install(name))) in " ".join(advice[name])
    assert f"Unset {config.BACKEND_VARIABLE}" in " ".join(advice["backend"])
    assert f"Unset {hardware.TARGET_VARIABLE}" in " ".join(advice["chip"])
    assert str(file) in "".join(advice["trn2"])
    assert {"LNC", "libtorch_neuronx_lite", "torch_xla", "neuron-ls", "driver"} <= set(advice)


def test_commands_of_the_advice_can_be_copied():
    lines = doctor.wrapped(health_checks.TORCH_NEURONX)
    assert all(len(line) <= 80 for line in lines)
    text = "\n".join(lines).replace("\\\n", "")
    found = [shlex.split(line) for line in text.splitlines() if line.startswith(" " * 10)]
    said = [health_checks.TORCH_NEURON, health_checks.TORCH_XLA]
    assert found == [shlex.split(one) for both in said for one in both.split(" && ")]


def test_as_json_it_says_the_same(monkeypatch):
    monkeypatch.setenv(hardware.LNC_VARIABLE, "2")
    result = run("--json")
    assert result.exit_code == run().exit_code == 1
    found = json.loads(result.stdout)
    sections = health_checks.examine()
    assert found["verdict"] == "broken" and result.stderr == ""
    assert list(found["sections"]) == list(sections)
    for title, checks in sections.items():
        assert [check["name"] for check in found["sections"][title]] == [one.name for one in checks]
        assert all(
            set(one) == {"name", "status", "detail", "advice"} for one in found["sections"][title]
        )
    broken = [
        one for checks in found["sections"].values() for one in checks if one["status"] == "broken"
    ]
    assert [one["name"] for one in broken] == ["LNC"]
    monkeypatch.delenv(hardware.LNC_VARIABLE)
    healthy = run("--json")
    assert healthy.exit_code == 0 and json.loads(healthy.stdout)["verdict"] == "ok"


def test_it_writes_nothing(tmp_path):
    health_checks.examine()
    assert not (tmp_path / "cache").exists()


# Packages


LACKING = "import torch_xla_without_this_name"
PACKAGES = [  # what is installed, and what the doctor says of a package
    *([[], name, "note", "not installed"] for name in health_checks.TORCH_PACKAGES),
    [[], "neuronx-cc", "note", "not installed"],
    [[], "nki", "note", "the simulator stands in"],
    [
        [("torch_xla", "2.9.0", LACKING)],
        "torch_xla",
        "broken",
        "No module named 'torch_xla_without",
    ],
    [
        [("torch_xla", "2.9.0", "import os; os.abort()")],
        *("torch_xla", "broken", "2.9.0 cannot be imported: the interpreter ended with code -6"),
    ],
    [[("torch-neuronx", "2.9.0.2.15.32035")], "torch-neuronx", "ok", "32035: PyTorch/XLA"],
    [[("torch-neuronx", "2.12.0.3")], "torch-neuronx", "ok", "2.12.0.3: TorchNeuron"],
    [[("libtorch_neuronx_lite", "2.12.0")], "libtorch_neuronx_lite", "ok", "is in nki.nki_hop"],
    [[("torch_xla", "2.9.0")], "torch_xla", "ok", "2.9.0: "],
    [[("nki-sim", "0.1.0")], "nki-sim", "broken", "beside trnfft-nki, which has the same files"],
    [[("neuronx-cc", "2.27")], "neuronx-cc", "broken", "2.27 lacks its module neuronxcc"],
    [[("neuronx-cc", "2.27"), ("neuronxcc", "0")], "neuronx-cc", "ok", "2.27"],
]


@pytest.mark.parametrize(("installed", "name", "status", "part"), PACKAGES)
def test_packages(install, installed, name, status, part):
    assert "nki-sim" not in by_name(health_checks.checks("Packages"))
    health_checks.import_error.cache_clear()
    for package in installed:
        install(*package)
    check = by_name(health_checks.checks("Packages"))[name]
    assert (
        check.status == status and part in check.detail and bool(check.advice) == (status != "ok")
    )


@pytest.mark.parametrize(
    ("version", "state", "in_use", "status", "part"),
    [
        ("0.7.0", "real", True, "ok", "0.7.0"),
        ("0.7.0b1", "real", True, "ok", "0.7.0b1"),
        ("0.6.0", "real", True, "broken", "0.6.0 does not trace"),
        ("0.7.0", "real", False, "note", "NKI_SIM_ALWAYS"),
        ("0.7.0", "broken", False, "broken", "cannot be imported: no libnrt"),
        ("0.7.0", "placeholder", False, "broken", "placeholder"),
    ],
)
def test_states_of_nki(install, monkeypatch, version, state, in_use, status, part):
    install("nki", version)
    monkeypatch.setattr(health_checks, "find_nki", lambda: FoundNki(state, error="no libnrt"))
    monkeypatch.setattr(config, "has_nki", lambda: in_use)
    check = by_name(health_checks.checks("Packages"))["nki"]
    assert check.status == status and part in check.detail
    assert status == "ok" or check.advice


# Settings and backends


def test_settings_in_force(monkeypatch):
    monkeypatch.setattr(config, "FROM_ENVIRONMENT", "matmul")
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "gen3")
    monkeypatch.setenv(health_checks.COMPILER_VARIABLE, "-O2")
    with trnfft.precision("kahan"):
        checks = by_name(health_checks.checks("Settings"))
    assert {check.status for check in checks.values()} == {"ok"}
    assert checks["backend"].detail == "matmul, as TRNFFT_BACKEND says"
    assert checks["precision"].detail == "kahan"
    assert checks["chip"].detail == "trn2 (NEURON_PLATFORM_TARGET_OVERRIDE)"
    assert checks["LNC"].detail == "2 (the default of trn2)"
    assert checks["NEURON_CC_FLAGS"].detail == "-O2"
    with trnfft.backend("torch"):
        assert by_name(health_checks.checks("Settings"))["backend"].detail == "torch"


def test_a_degree_of_lnc_that_no_launch_can_have_is_broken(monkeypatch):
    monkeypatch.setenv(hardware.LNC_VARIABLE, "2")
    check = by_name(health_checks.checks("Settings"))["LNC"]
    assert check.status == "broken" and hardware.LNC_VARIABLE in check.advice
    with pytest.raises(ValueError) as error:
        hardware.degree()
    assert check.detail == str(error.value)
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")
    check = by_name(health_checks.checks("Settings"))["LNC"]
    assert (check.status, check.detail) == ("ok", "2 (NEURON_LOGICAL_NC_CONFIG)")


@pytest.mark.parametrize(
    ("flags", "status"),
    [
        ("", "ok"),
        ("--auto-cast none -O1", "ok"),
        ("--auto-cast-type=fp16", "ok"),
        ("--auto-cast=all --auto-cast=none", "ok"),
        ("--auto-cast=none --auto-cast=matmult", "note"),
        ("-O2 --auto-cast all", "note"),
    ],
)
def test_flags_of_the_compiler_that_cast_are_a_note(monkeypatch, flags, status):
    monkeypatch.setenv(health_checks.COMPILER_VARIABLE, flags)
    check = by_name(health_checks.checks("Settings"))["NEURON_CC_FLAGS"]
    assert check.status == status and (flags or "not set") in check.detail
    assert ("bfloat16" in check.detail) == (status == "note")


@pytest.mark.skipif(config.has_nki(), reason="the real nki is here")
def test_asking_for_nki_without_it_is_broken(monkeypatch):
    monkeypatch.setattr(config, "FROM_ENVIRONMENT", "nki")
    check = by_name(health_checks.checks("Settings"))["backend"]
    assert check.status == "broken" and "TRNFFT_BACKEND is 'nki'" in check.detail


@pytest.mark.parametrize(("has_nki", "name"), [(False, "matmul"), (True, "nki")])
def test_what_auto_takes_and_why(monkeypatch, has_nki, name):
    monkeypatch.setattr(config, "has_nki", lambda: has_nki)
    monkeypatch.setattr(neuron_launchers, "has_launches", lambda: True)
    with trnfft.backend("nki-sim"):  # not what is asked
        checks = by_name(health_checks.checks('Backend "auto"'))
    assert checks["cpu tensors"].detail == "torch: the device has complex dtypes"
    for device in ("xla", "neuron"):
        detail = checks[f"{device} tensors"].detail
        assert detail.startswith(f"{name}: ")
        assert ("real nki is installed" in detail) == has_nki


# Plans


def test_plans_that_were_found_and_those_that_are_shipped():
    for chip in ("trn1", "trn2"):
        trnfft.plan(94, target=chip)
    other = wisdom.user_file("trn2")
    other.rename(other.with_name("plans-trn2-another.jsonl"))
    checks = by_name(health_checks.checks("Remembered plans"))
    shipped = json.loads((files("trnfft") / "plans" / "trn1.json").read_text())["plans"]
    assert checks["trn1"].detail == f"plans shipped: {len(shipped)}; yours: 1"
    assert checks["trn2"].detail.endswith("yours: 0")
    assert {checks[chip].status for chip in ("trn1", "trn2")} == {"ok"}


IN_USE, DAMAGED = wisdom.Examined("in use", 3), wisdom.Examined("damaged", reason="why")
UNKNOWN, ABSENT = wisdom.Examined("in use", 3, 2, "why"), wisdom.Examined("absent")
AGAIN, REMOVE = (
    "Install trnfft-nki again. Its plans ",
    "Remove {path}, which trnfft makes anew. It ",
)


@pytest.mark.parametrize(
    ("shipped", "own", "status", "detail", "advice"),
    [
        (IN_USE, ABSENT, "ok", "3; yours: 0", ""),
        (DAMAGED, IN_USE, "broken", "damaged; yours: 3", f"{AGAIN}are damaged: why."),
        (UNKNOWN, IN_USE, "broken", "3 (2 unknown); yours: 3", f"{AGAIN}are damaged: why."),
        (IN_USE, DAMAGED, "broken", "3; yours: damaged", f"{REMOVE}is damaged: why."),
        (IN_USE, UNKNOWN, "note", "3; yours: 3 (2 unknown)", f"{REMOVE}has rows that are no pla"),
        (ABSENT, IN_USE, "note", "0; yours: 3", f"{AGAIN}for trn1 are missing."),
    ],
)
def test_states_of_files_of_plans(monkeypatch, shipped, own, status, detail, advice):
    """Which content is damaged or unknown, tests/planner/test_wisdom.py says."""
    monkeypatch.setattr(wisdom, "examine", lambda chip: (shipped, own))
    check = by_name(health_checks.checks("Remembered plans"))["trn1"]
    assert (check.status, check.detail) == (status, f"plans shipped: {detail}")
    assert check.advice.startswith(advice.format(path=wisdom.user_file("trn1")))


def test_a_folder_that_cannot_be_written_is_a_note(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / "file"))
    check = by_name(health_checks.checks("Remembered plans"))["your folder"]
    assert check.status == "note" and "not writable" in check.detail


# Self-tests


def test_self_tests_pass_on_every_chip(monkeypatch):
    for chip in ("trn1", "trn2", "trn3"):
        monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
        checks = health_checks.checks("Self-tests")
        assert [check.status for check in checks] == ["ok"] * 3
        assert sum(f"us, modelled on {chip}" in check.detail for check in checks) == 2


def test_a_wrong_kernel_fails_its_self_test_alone(monkeypatch):
    right = health_checks.dft_gemm_matrix
    monkeypatch.setattr(health_checks, "dft_gemm_matrix", lambda *given: right(*given) * 1.001)
    monkeypatch.setattr(health_checks, "stockham_tables", lambda *given: 1 / 0)
    gemm, stockham, matmul = health_checks.checks("Self-tests")
    assert gemm.status == "broken" and "error 1.0e-03" in gemm.detail and gemm.advice
    assert stockham.status == "broken" and "ZeroDivisionError" in stockham.detail
    assert matmul.status == "ok"
    assert run().exit_code == 1


# The NeuronCore


def test_without_a_driver_all_is_missing_and_a_note_on_the_screen(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    checks = by_name(health_checks.checks(health_checks.NEURON))
    assert checks.pop("target variable").status == "note"
    assert {check.status for check in checks.values()} == {"broken"}
    assert all(check.advice for check in checks.values())
    assert {check.status for check in health_checks.examine()["NeuronCore"]} == {"note"}


def test_a_machine_that_is_ready(neuron_machine):
    checks = by_name(health_checks.checks(health_checks.NEURON))
    assert {name: check.status for name, check in checks.items()} == dict.fromkeys(checks, "ok")
    assert checks["driver"].detail == "version 2.30.2.0, devices: 2"
    assert checks["neuron-ls"].detail == str(neuron_machine / "bin" / "neuron-ls")
    assert checks["neuron-explorer"].detail == str(neuron_machine / "bin" / "neuron-explorer")
    assert checks["device of torch"].detail == "by torch_xla"
    result = run()
    assert result.exit_code == 0, result.output
    said = "Nothing is broken, and kernels have what they need on this computer"
    assert f"{said} (it has 2 Neuron devices)." in " ".join(result.stdout.split())


def test_without_the_target_variable_it_explains_what_a_launch_costs(neuron_machine, monkeypatch):
    monkeypatch.delenv(hardware.TARGET_VARIABLE)
    for instance, value in (("HVM domU", "CHIP"), ("trn2.3xlarge", "trn2")):
        file = neuron_machine / value
        file.write_text(instance)
        monkeypatch.setattr(hardware, "INSTANCE_TYPE", file)
        check = by_name(health_checks.checks(health_checks.NEURON))["target variable"]
        assert check.status == "note" and "52 ms" in check.detail and "neuron-ls" in check.detail
        assert check.advice.endswith(f": export NEURON_PLATFORM_TARGET_OVERRIDE={value}")
        result = run()
        assert result.exit_code == 0, result.output
        assert advice_in(result.stdout)["target variable"] == check.advice.split()


def without_nki(monkeypatch, tmp_path):
    monkeypatch.setattr(health_checks, "find_nki", lambda: FoundNki("absent"))
    monkeypatch.setattr(config, "has_nki", lambda: False)
    return "nki, launches"


def without_compiler(monkeypatch, tmp_path):
    (tmp_path / "bin" / "neuronx-cc").unlink()
    return "neuronx-cc"


def without_device_of_torch(monkeypatch, tmp_path):
    (metadata,) = (tmp_path / "site").glob("torch_xla-*/METADATA")
    metadata.unlink()
    metadata.parent.rmdir()
    return "device of torch"


def without_launches(monkeypatch, tmp_path):
    reason = ("matmul", "a NeuronCore, but no package launches kernels")
    monkeypatch.setattr(health_checks, "choose_backend", lambda device: reason)
    return "launches"


def without_driver(monkeypatch, tmp_path):
    monkeypatch.setattr(health_checks, "NEURON_DEVICES", tmp_path / "bin")
    return "driver"


@pytest.mark.parametrize(
    "spoil",
    [without_nki, without_compiler, without_device_of_torch, without_launches, without_driver],
)
def test_neuroncores_where_no_kernel_can_run(neuron_machine, monkeypatch, spoil):
    """On an instance with NeuronCores that is a verdict of its own, with an exit status."""
    (neuron_machine / "product_name").write_text("trn2.48xlarge\n")
    missing = spoil(monkeypatch, neuron_machine)
    result = run()
    assert result.exit_code == 3, result.output
    text = " ".join(result.stdout.split())
    where = "(its instance type is trn2.48xlarge)"
    assert f"No kernel can run on the NeuronCores of this computer {where}, because of: " in text
    assert text.endswith(f"because of: {missing}.")
    assert max(map(len, result.stdout.splitlines())) <= 80
    found = json.loads(run("--json").stdout)
    assert found["verdict"] == "cannot run kernels"
    checks = [one for one in found["sections"]["NeuronCore"] if one["status"] == "broken"]
    assert ", ".join(one["name"] for one in checks) == missing
    assert all(one["advice"] for one in checks)


def test_what_else_is_broken_is_said_too(neuron_machine, monkeypatch):
    without_nki(monkeypatch, neuron_machine)
    monkeypatch.setattr(config, "FROM_ENVIRONMENT", "fftw")
    result = run()
    assert result.exit_code == 3
    assert result.stdout.splitlines()[-1] == "Also broken: backend."
    assert ADVICE in by_name(health_checks.examine()["NeuronCore"])["nki"].advice


def test_without_tools_kernels_run(neuron_machine):
    (neuron_machine / "bin" / "neuron-ls").unlink()
    result = run()
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "Broken: neuron-ls."


@pytest.mark.parametrize(
    ("instance", "is_neuron"),
    [("trn1n.32xlarge", True), ("inf2.xlarge", True), ("m7i.large", False), ("gen", False)],
)
def test_instances_with_neuroncores(tmp_path, instance, is_neuron):
    (tmp_path / "product_name").write_text(instance)
    assert health_checks.neuron_machine() == (
        f"its instance type is {instance}" if is_neuron else ""
    )
    assert run().exit_code == (3 if is_neuron else 0)


def test_the_pages_have_the_commands_of_the_doctor():
    docs = Path(__file__).parents[3] / "docs"
    found = [
        shlex.split(line)
        for page in docs.glob("*.md")
        for line in re.sub(r"\\\n *", "", page.read_text("utf-8")).splitlines()
        if line.startswith("pip install --force-reinstall")
    ]
    for command in (health_checks.TORCH_NEURON, health_checks.TORCH_XLA):
        assert shlex.split(command.split(" && ")[0]) in found


def test_each_package_of_torch_makes_a_device_unless_it_is_broken(neuron_machine, install):
    install("libtorch_neuronx_lite", "2.12.0.1.0.1284")
    check = by_name(health_checks.checks(health_checks.NEURON))["device of torch"]
    assert (check.status, check.detail) == ("ok", "by libtorch_neuronx_lite, torch_xla")
    install("torch-neuronx", "2.9.0.2", "raise OSError('libnrt.so.1')")
    health_checks.import_error.cache_clear()
    check = by_name(health_checks.checks(health_checks.NEURON))["device of torch"]
    assert check.status == "broken" and "libnrt.so.1" in check.detail
