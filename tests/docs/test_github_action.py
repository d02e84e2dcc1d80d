"""The workflow that readers copy into their own repositories names only what exists."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy  # noqa: F401  (pytester forgets what a test imports, and NumPy loads once a process)
import pytest

from tests.docs.pages import ROOT

yaml = pytest.importorskip("yaml")

pytest_plugins = "pytester"

TEXT = (ROOT / "docs" / "ci" / "nki_kernels.yml").read_text("utf-8")
WORKFLOW = yaml.safe_load(TEXT)  # YAML 1.1 reads the key `on` as True
STEPS = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
COMMANDS = [step["run"] for step in STEPS if "run" in step]


def command(start):
    """The words of the one command that starts so."""
    (found,) = [text for text in COMMANDS if text.startswith(start)]
    return found.split()


def test_it_runs_on_pushes_and_pull_requests_and_may_only_read():
    assert set(WORKFLOW[True]) == {"push", "pull_request"}
    assert WORKFLOW["permissions"] == {"contents": "read"}
    uploads = {"contents": "read", "security-events": "write"}
    assert [job.get("permissions") for job in WORKFLOW["jobs"].values()] == [None, uploads]
    assert all(1 <= job["timeout-minutes"] <= 30 for job in WORKFLOW["jobs"].values())


def test_actions_are_pinned_as_in_our_own_workflows():
    uses = re.findall(r"uses: (\S+@[0-9a-f]{40} # v\d+\.\d+\.\d+)\n", TEXT)
    assert len(uses) == sum("uses" in step for step in STEPS)
    own = "".join(path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    assert {use.split("@")[0] for use in uses if use not in own} == {
        "github/codeql-action/upload-sarif"
    }


@pytest.mark.parametrize("text", COMMANDS)
def test_bash_can_read_its_commands(text):
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "${{" not in text


def test_it_installs_the_simulator_from_the_repository():
    """The name is on no package index yet: whoever took it there would run code in the workflow."""
    folder = ROOT / "packages" / "nki_sim"
    name = re.search(r'^name = "(.+)"', (folder / "pyproject.toml").read_text("utf-8"), re.M)[1]
    whole = (ROOT / "pyproject.toml").read_text("utf-8")
    repository = re.search(r'^Repository = "(.+)"', whole, re.M)[1]
    subdirectory = folder.relative_to(ROOT).as_posix()
    wanted = f"{name} @ git+{repository}#subdirectory={subdirectory}"
    assert WORKFLOW["env"]["SIMULATOR"] == wanted
    python = {step["with"]["python-version"] for step in STEPS if "python-version" in str(step)}
    tested = (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8")
    assert all(f'"{version}"' in tested for version in python)


def test_its_tests_run_on_every_chip(pytester, monkeypatch):
    import nki_sim  # noqa: F401  before pytest runs in pytest
    from nki_sim import hardware

    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    job = WORKFLOW["jobs"]["test"]
    targets = job["strategy"]["matrix"]["target"]
    assert tuple(targets) == hardware.NAMES and job["env"] == {"TARGET": "${{ matrix.target }}"}
    pytester.makepyfile("import nki\n\ndef test_it():\n    assert nki.jit\n")
    options = command("python -m pytest")[3:]
    for target in targets:
        chosen = [word.strip('"').replace("$TARGET", target) for word in options]
        result = pytester.runpytest_inprocess("-p", "nki_sim.pytest_plugin", *chosen)
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines([f"nki: * of {target}, NKI 0.7, modelled, strict (*"])


def test_its_lint_writes_what_it_uploads(tmp_path):
    pytest.importorskip("nki_sim.commands")
    (tmp_path / "kernels").mkdir()
    kernel = "import nki\n\n@nki.jit\ndef bad(x):\n    return nki.language.arange(4)\n"
    (tmp_path / "kernels" / "bad.py").write_text(kernel)
    words = command("nki-sim lint")[1:]
    program = [sys.executable, "-m", "nki_sim", *words[:-1], "kernels/bad.py"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    (upload,) = [step["with"] for step in STEPS if "upload-sarif" in step.get("uses", "")]
    assert (tmp_path / upload["sarif_file"]).is_file()
