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
    "nki_kernels.hardware": "nki_sim.hardware",
    "nki_kernels.lint.rules": "nki_sim.lint.rules",
    "nki_kernels.kernels.stockham": "nki_kernels.fft.stockham",
    "nki_kernels.kernels.axes": "nki_kernels.nd.axes",
    "nki_kernels.nki_api": "nki_kernels.isa",
}


@pytest.fixture
def fresh(monkeypatch):
    """No module has been imported under an old name."""
    for name in [name for name in sys.modules if new_name(name)]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("simulator", "hardware", "lint", "kernels", "nki_api"):
        monkeypatch.delattr(nki_kernels, name, raising=False)


@pytest.mark.parametrize("old", OLD)
def test_an_old_name_has_the_names_of_the_new_module_after_a_warning(old, fresh):
    with pytest.warns(DeprecationWarning, match=f"{old} is {OLD[old]} now"):
        module = importlib.import_module(old)
    new = importlib.import_module(OLD[old])
    names = getattr(new, "__all__", None) or [n for n in vars(new) if not n.startswith("_")]
    assert names and all(getattr(module, name) is getattr(new, name) for name in names)
    assert set(names) <= set(dir(module))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_names_that_went_to_other_files_are_still_there(fresh):
    from nki_kernels.simulator import device_rules, enums, session, timeline
    from nki_kernels.simulator.install import find_nki, install, simulated_nki
    from nki_kernels.simulator.kernel import dry_run, record, simulate, strict_launches
    from nki_sim.installed_nki import find_nki as found
    from nki_sim.launch.simulation import dry_run as dry

    assert session.active is nki_sim.running.active and timeline.Timeline is nki_sim.Timeline
    assert timeline.Event is nki_sim.Event and enums.dge_mode and device_rules.RULES
    assert (dry_run, simulate, record) == (dry, nki_sim.simulate, nki_sim.record)
    assert find_nki is found and strict_launches and "nki" in simulated_nki()
    assert install is nki_sim.install and nki_kernels.simulator.install is nki_sim.install


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_set_under_an_old_name_is_set(fresh, monkeypatch):
    from nki_kernels.simulator import device_rules as old
    from nki_sim.rules import device_rules as new

    monkeypatch.setattr(new, "MANY_INSTRUCTIONS", 2)
    old.MANY_INSTRUCTIONS = 3
    assert new.MANY_INSTRUCTIONS == old.MANY_INSTRUCTIONS == 3


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
        warned = [line for line in done.stderr.splitlines() if "DeprecationWarning" in line]
        assert all(f"{module} is nki_sim" in line for line in warned)


@pytest.mark.parametrize(
    "name",
    [
        "nki_kernels.absent",
        "nki_kernels.simulator.absent",
        "nki_kernels.simulator.isa.absent",
        "nki_kernels.simulator.hardware",
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_other_names_are_as_unknown_as_ever(name):
    with pytest.raises(ModuleNotFoundError, match=name):
        importlib.import_module(name)
    assert not hasattr(nki_kernels, "absent") and not hasattr(nki_sim, "absent")
