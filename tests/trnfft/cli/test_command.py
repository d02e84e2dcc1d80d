"""The command as a whole: its imports, its help, its version, and its exit codes."""

import inspect
import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

import trnfft
from trnfft import cli

ROOT = Path(__file__).parents[3]
GROUP = typer.main.get_command(cli.app)
# Runs the console script, and prints which modules it has imported at its end.
SCRIPT = """
import atexit, json, sys
atexit.register(lambda: print("\\n" + json.dumps([*sys.modules])))
from trnfft_command import main
main()
"""


def by_script(*arguments, script=SCRIPT):
    """Returns exit status, standard output, errors and imported modules of a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "80"},
        timeout=120,
    )
    text, _, modules = done.stdout.rstrip("\n").rpartition("\n")
    return done.returncode, text, done.stderr, set(json.loads(modules or "[]"))


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["--help"], [], *([name, "--help"] for name in cli.COMMANDS), ["plna"]],
    ids=" ".join,
)
def test_versions_and_help_import_no_torch(arguments):
    status, text, errors, modules = by_script(*arguments)
    assert status == (0 if arguments and arguments != ["plna"] else 2), errors
    assert text or "Did you mean 'plan'" in errors
    assert "torch" not in modules


def test_a_command_runs_with_the_whole_package():
    status, text, errors, modules = by_script("plan", "8")
    assert status == 0, errors
    assert "chosen" in text
    assert "torch" in modules


def test_the_script_keeps_a_package_that_is_imported():
    script = "import trnfft, sys\nfft = trnfft.fft\n" + SCRIPT + "assert 0"
    status, text, errors, modules = by_script("--version", script=script)
    assert (status, text.strip()) == (0, f"trnfft {trnfft.__version__}"), errors
    assert "trnfft.transforms" in modules


def test_a_package_that_refuses_to_be_imported_ends_the_command():
    """As where another distribution has the name of this one."""
    refuse = """
import sys, types
module = types.ModuleType("trnfft.namesake")
def refuse_namesake():
    raise ImportError("another project is installed")
module.refuse_namesake = refuse_namesake
sys.modules["trnfft.namesake"] = module
"""
    status, _, errors, _ = by_script("plan", "8", script=refuse + SCRIPT)
    assert status == 1
    assert errors == "trnfft cannot be imported: another project is installed\n"


def test_the_module_is_the_command_too():
    command = [sys.executable, "-m", "trnfft", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert (done.returncode, done.stdout) == (0, f"trnfft {trnfft.__version__}\n"), done.stderr


def test_version():
    for arguments in (["--version"], ["--version", "plan"]):
        result = CliRunner().invoke(cli.app, arguments)
        assert (result.exit_code, result.stdout) == (0, f"trnfft {trnfft.__version__}\n")


def function_of(name):
    module = name.replace("-", "_")
    package = "trnfft_demo" if name in cli.OF_DEMO else "trnfft.cli"
    return getattr(import_module(f"{package}.{module}"), module)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_lines_of_help_are_the_first_of_each_docstring(name):
    assert GROUP.commands[name].help == inspect.getdoc(function_of(name)).splitlines()[0]


@pytest.mark.parametrize("name", [name for name in cli.COMMANDS if name != "check-model"])
def test_every_argument_has_help_of_whole_sentences(name):
    command = GROUP.commands[name].load()
    assert set(inspect.signature(function_of(name)).parameters) == {
        parameter.name for parameter in command.params
    }
    for parameter in command.params:
        assert re.fullmatch(r"[A-Z].*[.]", parameter.help or "", re.DOTALL), parameter.name


@pytest.mark.parametrize("arguments", [[], *([name] for name in cli.COMMANDS)])
def test_help_fits_80_columns(arguments):
    result = CliRunner().invoke(cli.app, [*arguments, "--help"], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert max(map(len, lines)) <= 80
    for line, after in zip(lines, lines[1:], strict=False):  # no line ends early
        if line.startswith(" ") and after.startswith(" ") and "Usage" not in line:
            assert len(line) + len(after.split()[0]) >= 78, line
    for name in [] if arguments else cli.COMMANDS:
        assert f" {name} " in result.stdout
