import json
import os
import subprocess
import sys

import pytest

from nki_sim.base.time_range import time_range
from tests import sweeps

from .conftest import ROOT

SCRIPT = """
import sys

import nki
import numpy as np
from kernels import double, half_loaded

print(double(np.ones((128, 4), np.float32)).sum(), sys.argv[1:], __name__)
if "wrong" in sys.argv:
    double(np.ones((256, 4), np.float32))
if "half" in sys.argv:
    half_loaded(np.ones((128, 8), np.float32))
if "exit" in sys.argv:
    sys.exit(7)
"""

TEST = """
import numpy as np
from kernels import double
import nki_sim


def test_double():
    with nki_sim.record() as timeline:
        assert double(np.ones((128, 4), np.float32)).sum() == 1024
    assert timeline.launches == 1
"""


@pytest.fixture(autouse=True)
def script(folder):
    (folder / "script.py").write_text(SCRIPT)


def test_a_script_with_its_arguments_and_nothing_else(here):
    code, out, err = here("run", "script.py", "a", "--b", "--html")
    assert (code, err) == (0, "")
    assert out == "1024.0 ['a', '--b', '--html'] __main__\n"


def test_what_is_recorded(nki_sim, folder):
    done = nki_sim("run", "--target", "trn2", "--json", "found.json", "script.py")
    found = json.loads((folder / "found.json").read_text())
    assert found["kernels"] == ["double"] and found["where"] == "trn2, LNC=1"
    assert done.stderr.startswith(f"double: {time_range(found['total_ns'])} (")
    assert done.stdout == "1024.0 [] __main__\n"


def test_the_scripts_exit_code(here):
    assert here("run", "script.py", "exit")[0] == 7


def test_an_error_is_shown_and_what_was_recorded_is_written(here, folder):
    outputs = "--json", "found.json", "--sarif", "found.sarif"
    code, _, err = here("run", *outputs, "script.py", "wrong")
    assert code == 1
    assert "NkiValidationError: nl.ndarray: shape[0] is 256, but a tile in SBUF or PSUM has" in err
    assert "runpy" not in err
    assert json.loads((folder / "found.json").read_text())["launches"] == 1
    (run,) = json.loads((folder / "found.sarif").read_text())["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "kernels.py" and place["region"]["startLine"] == 10


@pytest.mark.lenient
@pytest.mark.filterwarnings("ignore::nki_sim.NkiSimulationWarning")
def test_warnings_and_strict(here, folder):
    assert here("run", "--sarif", "found.sarif", "script.py", "half")[0] == 0
    (run,) = json.loads((folder / "found.sarif").read_text())["runs"]
    assert run["results"][0]["level"] == "warning"
    assert "nothing has written" in run["results"][0]["message"]["text"]
    assert here("run", "--strict", "script.py", "half")[0] == 1


@pytest.mark.lenient
@pytest.mark.parametrize("output", [(), ("--json", "found.json")])
def test_what_is_strict_does_not_depend_on_outputs(here, more, output, recwarn):
    code, _, err = here("run", "--strict", "--target", "trn2", *output, "more.py")
    assert code == 1 and "rule 'dma-written-ahead'" in err
    assert ("no launch was completed" in err) == bool(output)
    code, _, err = here("run", "--target", "trn2", *output, "more.py")
    assert code == 0
    assert ["dma-written-ahead" in str(found.message) for found in recwarn] == [True][: len(output)]


@pytest.mark.parametrize("option", ["--html", "--perfetto", "--json", "--sarif"])
def test_where_nothing_can_be_written_nothing_runs(here, folder, option):
    (folder / "print.py").write_text("print('ran')")
    code, out, err = here("run", option, "missing/found", "print.py")
    assert (code, out) == (2, "")
    assert err == "nki-sim: missing/found cannot be written, as its folder does not exist\n"


PLUGINS = "-p", "nki_sim.pytest_plugin", "-p", "no:cacheprovider"


def test_a_module_as_pytest_and_recordings_in_recordings(nki_sim, folder):
    (folder / "test_double.py").write_text(TEST)
    run = "run", "--json", "found.json", "-m", "pytest", *PLUGINS
    done = nki_sim(*run, "test_double.py", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert done.returncode == 0 and "1 passed in" in done.stdout  # and no warning
    assert "nki: simulator of trn1, NKI 0.7, modelled (" in done.stdout
    assert json.loads((folder / "found.json").read_text())["kernels"] == ["double"]


HALF = """
import numpy as np
from kernels import half_loaded


def test_half():
    half_loaded(np.ones((128, 8), np.float32))
"""


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("processes", "options", "says", "outcome"),
    [
        sweeps.whole("0", (), "modelled (", 0),
        sweeps.whole("0", ("--strict",), "modelled, strict (", 1),
        sweeps.whole("1", (), "modelled (", 0),
        ("1", ("--strict",), "modelled, strict (", 1),
    ],
)
def test_strict_tests_say_so_and_are_strict_in_all_processes(
    nki_sim, folder, processes, options, says, outcome
):
    (folder / "test_half.py").write_text(HALF)
    plugins = PLUGINS
    if processes != "0":
        pytest.importorskip("xdist")
        plugins += "-p", "xdist.plugin", "-n", processes
    done = nki_sim(
        *("run", *options, "-m", "pytest", *plugins, "test_half.py"),
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
    )
    assert f"nki: simulator of trn1, NKI 0.7, {says}" in done.stdout
    assert done.returncode == outcome, done.stdout


def test_awss_switches(here, folder, monkeypatch):
    (folder / "low.py").write_text(LOW)
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    assert here("run", "low.py") == (0, "1\n", "")
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    assert here("run", "low.py") == (0, "1.001\n", "")


LOW = """
import numpy as np
import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def rounded(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out


print(f"{float(rounded(np.full((128, 1), 1.001, np.float32))[0, 0]):.4g}")
"""


@pytest.mark.parametrize("arguments", [(), ("--help",), ("profile", "--help"), ("run", "--help")])
def test_help(here, arguments):
    code, out, err = here(*arguments)
    assert code == (0 if arguments else 2) and "usage: nki-sim" in out + err


def test_pages_and_traces_are_files(here):
    code, _, err = here("run", "--html", "-", "script.py")
    assert code == 2 and "argument --html: '-' is not a file" in err


def test_version(here):
    code, out, err = here("--version")
    assert (code, err) == (0, "") and out.startswith("nki-sim of ")


def test_an_absent_script(here):
    assert here("run", "absent.py") == (2, "", "nki-sim: absent.py: there is no such script\n")


def test_processes_that_a_script_starts_are_told(here, folder, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    text = "import subprocess, sys\n"
    text += "print(subprocess.check_output([sys.executable, '-c', sys.argv[1]], text=True))"
    (folder / "starts.py").write_text(text)
    child = "import os, nki_sim.import_nki.nki_finder; print(os.environ['NKI_SIMULATOR'])"
    assert here("run", "starts.py", child)[1].startswith("1\n")


def test_what_is_not_recorded_is_said(here, folder):
    (folder / "thread.py").write_text(
        "import threading, script, numpy\n"
        "x = numpy.ones((128, 4), 'float32')\n"
        "thread = threading.Thread(target=script.double, args=(x,))\nthread.start()\n"
        "thread.join()\n"
    )
    (folder / "script.py").write_text("from kernels import double\n")
    _, _, err = here("run", "--json", "found.json", "thread.py")
    assert (
        err
        == "no kernel was launched in this thread; other threads and processes are not recorded\n"
    )


def test_an_error_that_is_no_exception_ends_the_script_and_writes_files(here, folder):
    (folder / "ends.py").write_text("import script\n\nraise GeneratorExit\n")
    code, _, err = here("run", "--sarif", "found.sarif", "ends.py")
    assert code == 1 and "raise GeneratorExit" in err and "runpy" not in err
    (run,) = json.loads((folder / "found.sarif").read_text())["runs"]
    assert run["results"][0]["ruleId"] == "GeneratorExit"


def test_files_are_written_where_it_was_started(here, folder):
    (folder / "other").mkdir()
    (folder / "moves.py").write_text("import os\nimport script\nos.chdir('other')\n")
    assert here("run", "--json", "found.json", "moves.py")[0] == 0
    assert json.loads((folder / "found.json").read_text())["launches"] == 1


def test_standard_output_is_the_jsons_alone(here):
    _, out, err = here("run", "--json", "-", "script.py", "a")
    assert json.loads(out)["kernels"] == ["double"]
    assert err.startswith("1024.0 ['a'] __main__\n")


@pytest.mark.parametrize("output", [(), ("--json", "-")])
def test_a_full_disk_is_a_sentence(folder, output):
    profile = "profile", "kernels.py::double", "--shape", "128x4"
    command = [sys.executable, "-m", "nki_sim", *profile, *output]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, cwd=folder, env=environment, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No space left on device" in done.stderr


NO_LAUNCH = "no kernel was launched in this process."


@pytest.mark.parametrize("output", [(), ("--json", "found.json")])
def test_a_file_without_a_launch_says_what_to_do(here, output):
    code, out, err = here("run", *output, "kernels.py")
    assert (code, out) == (0, "")
    said = " ".join(err.split())
    assert said.startswith(f"kernels.py: {NO_LAUNCH} The file defines the kernels double, scaled,")
    assert "Write a call into the file, such as double(x) # with NumPy arrays" in said
    assert said.endswith("nki-sim profile kernels.py::double --shape 128x512")


def test_a_file_without_kernels_says_what_a_kernel_is(here, folder):
    (folder / "nothing.py").write_text("x = 1\n")
    code, out, err = here("run", "nothing.py")
    assert (code, out) == (0, "") and "A kernel is a function under @nki.jit" in err


def test_what_launches_or_fails_or_models_is_not_told_to_launch(here, folder):
    (folder / "fails.py").write_text("raise SystemExit(3)\n")
    assert here("run", "fails.py") == (3, "", "")
    models = "import nki_sim\nfrom kernels import double\n"
    models += 'print(nki_sim.dry_run(double, ((128, 4), "float32")).launches)\n'
    (folder / "models.py").write_text(models)
    assert here("run", "models.py") == (0, "1\n", "")
    (folder / "module.py").write_text("x = 1\n")
    assert here("run", "-m", "module") == (0, "", "")
