"""The page on the command: each output that it shows is what its command prints, on 80 columns."""

import re

import pytest

from tests.docs.pages import ROOT, blocks

pytest.importorskip("torch")
pytest.importorskip("matplotlib")
pytest.importorskip("PIL")
pytest.importorskip("pywt")

from typer.testing import CliRunner  # noqa: E402

from nki_sim import hardware  # noqa: E402
from nki_sim.base.installed_nki import FoundNki  # noqa: E402
from trnfft import cli  # noqa: E402
from trnfft.base import config
from trnfft.cli import health_checks  # noqa: E402

PAGE = ROOT / "docs" / "command_line.md"
ERROR = re.compile(r"\d\.\de-\d\d")
NUMBER = re.compile(r"\d+(\.\d+)?")


def shown():
    """Each command whose output follows, and this output.

    By default the one runs that is no expense; other tests run the others.
    """
    found = blocks(PAGE)
    for (kind, command), (next_kind, output) in zip(found, found[1:], strict=False):
        if (kind, next_kind) == ("sh", "text"):
            words = command.split()[1:]
            marks = [] if words[0] == "plan" else [pytest.mark.sweep]
            yield pytest.param(words, output, id=command.strip(), marks=marks)


def masked(command, text):
    """Text without what differs between computers: rounding, and all measured numbers."""
    text = " ".join(ERROR.sub("E", text).split())
    if command == "check":
        results, mark, times = text.partition("Times measured here:")
        return results + mark + NUMBER.sub("N", times)
    return text


@pytest.fixture(autouse=True)
def plain_computer(tmp_path, monkeypatch):
    """A computer without NeuronCores, NKI and settings."""
    if health_checks.neuron_devices():
        pytest.skip("a computer with NeuronCores")
    monkeypatch.chdir(tmp_path)
    for name in (hardware.TARGET_VARIABLE, hardware.LNC_VARIABLE, health_checks.COMPILER_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(hardware, "INSTANCE_TYPE", tmp_path / "none")
    monkeypatch.setattr(health_checks, "find_nki", lambda: FoundNki("absent"))
    monkeypatch.setattr(config, "FROM_ENVIRONMENT", None)


@pytest.mark.weekly
@pytest.mark.parametrize("arguments, output", list(shown()))
def test_a_command_prints_what_the_page_says(arguments, output):
    result = CliRunner().invoke(cli.app, arguments, env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    printed = masked(arguments[0], result.stdout)
    # "..." stands for what the page leaves out, which may be nothing.
    expected = masked(arguments[0], output)
    pattern = ".*?".join(map(re.escape, expected.split("...")))
    assert re.fullmatch(pattern, printed, re.DOTALL), f"{expected}\n\n{printed}"


def test_all_commands_are_on_the_page():
    text = PAGE.read_text("utf-8")
    assert re.findall(r"^## `trnfft ([\w-]+)`$", text, re.MULTILINE) == list(cli.COMMANDS)
    assert {line[0] for line in (parameter.values[0] for parameter in shown())} == {
        "spectrum",
        "plan",
        "doctor",
        "check",
    }
