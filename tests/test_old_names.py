"""The names of the simulator before it was a package of its own, which work for one release."""

import importlib
import subprocess
import sys

import pytest

import nki_kernels
import nki_sim
from nki_kernels.moved import new_name

OLD = {
    "nki_kernels.simulator": "nki_sim",
    "nki_kernels.simulator.session": "nki_sim.launch.session",
    "nki_kernels.simulator.isa.elementwise": "nki_sim.isa.elementwise",
    "nki_kernels.simulator.install": "nki_sim.nki_finder",
    "nki_kernels.hardware": "nki_sim.hardware",
    "nki_kernels.lint.rules": "nki_sim.lint.rules",
}


@pytest.mark.parametrize("old", OLD)
def test_an_old_name_is_the_same_module_after_a_warning(old, monkeypatch):
    for name in [name for name in sys.modules if new_name(name)]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.warns(DeprecationWarning, match=f"{old} is {OLD[old]} now"):
        module = importlib.import_module(old)
    new = importlib.import_module(OLD[old])
    assert module is new and new.__spec__ is not None and new.__spec__.name == OLD[old]


def test_old_imports_work_in_a_script(tmp_path):
    (tmp_path / "old.py").write_text(
        "from nki_kernels import hardware, simulator\n"
        "from nki_kernels.simulator import dry_run\n"
        "print(simulator.dry_run is dry_run, hardware.TRN1.name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always", "old.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "True trn1\n"
    warned = [line for line in done.stderr.splitlines() if "DeprecationWarning" in line]
    assert all(line.startswith(str(tmp_path / "old.py")) for line in warned) and len(warned) == 2


def test_old_commands_work():
    for module in ("nki_kernels.simulator", "nki_kernels.lint"):
        done = subprocess.run(
            [sys.executable, "-m", module, "--help"], capture_output=True, text=True
        )
        assert done.returncode == 0 and "usage" in done.stdout.lower()


@pytest.mark.parametrize("name", ["nki_kernels.absent", "nki_kernels.simulator.absent"])
def test_other_names_are_as_unknown_as_ever(name):
    with pytest.raises(ModuleNotFoundError, match=name):
        importlib.import_module(name)
    assert not hasattr(nki_kernels, "absent") and not hasattr(nki_sim, "absent")
