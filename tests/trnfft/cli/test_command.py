"""The command as a whole: its imports, its help, its version, and its exit codes."""

import inspect
import json
import os
import re
import runpy
import subprocess
import sys
from importlib import import_module
from importlib.util import module_from_spec
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

import trnfft
import trnfft_command
from trnfft import cli

ROOT = Path(__file__).parents[3]
GROUP = typer.main.get_command(cli.app)
# Runs the console script with each list of arguments, and prints whether torch was imported.
SCRIPT = """
import json, sys
from trnfft_command import main

ends = []
for arguments in json.loads(sys.argv[1]):
    sys.argv[1:] = arguments
    try:
        main()
    except SystemExit as error:
        ends.append(error.code or 0)
    print(flush=True)
print(json.dumps([ends, "torch" in sys.modules]))
"""


def by_script(*commands, before=""):
    """Returns exit statuses, whether torch is imported, output and errors of a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", before + SCRIPT, json.dumps(commands)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "80"},
        timeout=120,
    )
    text, _, last = done.stdout.rstrip("\n").rpartition("\n")
    return *json.loads(last), text, done.stderr


def test_versions_and_help_import_no_torch():
    helps = [[name, "--help"] for name in cli.COMMANDS]
    ends, has_torch, text, errors = by_script(["--version"], ["--help"], [], ["plna"], *helps)
    assert ends == [0, 0, 2, 2] + [0] * len(helps), errors
    assert text.startswith(f"trnfft {trnfft.__version__}\n") and "Did you mean 'plan'" in errors
    assert all(f" {name} [OPTIONS]" in text for name in cli.COMMANDS)
    assert not has_torch


def test_a_command_loads_the_whole_package(monkeypatch):
    """As after the console script, which has left out ``trnfft/__init__.py``."""
    bare = module_from_spec(trnfft.__spec__)
    monkeypatch.setitem(sys.modules, "trnfft", bare)
    result = CliRunner().invoke(cli.app, ["plan", "8"])
    assert result.exit_code == 0, result.output
    assert "chosen" in result.stdout and bare.__version__ == trnfft.__version__


@pytest.mark.weekly
@pytest.mark.sweep
def test_the_script_runs_a_command():
    ends, has_torch, text, errors = by_script(["plan", "8"])
    assert ends == [0], errors
    assert "chosen" in text and has_torch


STARTS = [trnfft_command.main, lambda: runpy.run_module("trnfft", run_name="__main__")]


@pytest.mark.filterwarnings("ignore:'trnfft.__main__' found in sys.modules")
@pytest.mark.parametrize("start", STARTS, ids=["script", "module"])
def test_the_command_keeps_a_package_that_is_imported(start, monkeypatch, capsys):
    """The console script, and `python -m trnfft`."""
    monkeypatch.setattr(sys, "argv", ["trnfft", "--version"])
    with pytest.raises(SystemExit) as end:
        start()
    assert not end.value.code and sys.modules["trnfft"] is trnfft
    assert capsys.readouterr().out == f"trnfft {trnfft.__version__}\n"


def test_a_package_that_refuses_to_be_imported_ends_the_command():
    """As where another distribution has the name of this one."""
    refuse = """
import sys, types
module = types.ModuleType("trnfft.base.namesake")
def refuse_namesake():
    raise ImportError("another project is installed")
module.refuse_namesake = refuse_namesake
sys.modules["trnfft.base.namesake"] = module
"""
    ends, *_, errors = by_script(["plan", "8"], before=refuse)
    assert (ends, errors) == ([1], "trnfft cannot be imported: another project is installed\n")


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
