"""The command in messages installs AWS's packages, whatever other indexes serve."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from nki_sim.base.neuron_packages import FROM_AWS_ALONE, INDEX, how_to_install

ROOT = Path(__file__).parent.parent
OPTION = re.compile(r"extra.index.url\W{1,20}https://pip\.repos\.neuron", re.IGNORECASE)
NAMED = re.compile(
    r"pip install [^`#]*(?<![\w/-])(?:nki|nrtpy|neuronx-cc|torch-neuronx|libneuronxla)(?![\w-])"
)


def serve(index: Path, name: str, version: str, needs: str = "") -> None:
    """Adds a package with one module to an index; the module's `source` is the index's name."""
    folder = index / name
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", f"source = {index.name!r}\n")
        wheel.writestr(
            f"{info}/METADATA", metadata + (f"Requires-Dist: {needs}\n" if needs else "")
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        wheel.writestr(f"{info}/RECORD", "")
    links = [f'<a href="{file.name}">{file.name}</a>' for file in folder.glob("*.whl")]
    (folder / "index.html").write_text("\n".join(links))


@pytest.fixture
def indexes(tmp_path):
    """Returns AWS's index, and a public one with a placeholder and an attacker's higher version."""
    aws, public = tmp_path / "aws", tmp_path / "public"
    serve(aws, "nki", "0.7.0", needs="helper")
    for version in ("0.0.1", "99.0"):
        serve(public, "nki", version)
    serve(public, "helper", "1.0")
    return aws, public


@pytest.mark.weekly
@pytest.mark.sweep
@pytest.mark.parametrize("placeholder", [False, True], ids=["absent", "placeholder"])
def test_the_command_installs_what_aws_serves(tmp_path, indexes, placeholder):
    aws, public = indexes
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    settings["PIP_CONFIG_FILE"] = os.devnull
    # A user may have configured the public index, here in both settings.
    settings["PIP_INDEX_URL"] = settings["PIP_EXTRA_INDEX_URL"] = public.as_uri()
    if placeholder:
        subprocess.run([*pip, "install", "nki==0.0.1"], env=settings, check=True)
    for command in how_to_install("nki").replace(INDEX, aws.as_uri()).split(" && "):
        _, *arguments = shlex.split(command)
        subprocess.run([*pip, *arguments], env=settings, check=True)
    code = "import nki, helper; print(nki.source, helper.source)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "aws public\n"


def test_the_command_is_a_line_of_shell():
    line = how_to_install("nki", "torch-neuronx==2.9.*")
    first, second = (shlex.split(command) for command in line.split(" && "))
    assert first == ["pip", "install", "--force-reinstall", *FROM_AWS_ALONE, *second[2:]]
    assert second == ["pip", "install", "nki", "torch-neuronx==2.9.*"]


def texts():
    """Returns the repository's text files that people read and run, without tests."""
    done = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("no git here")
    kinds = (".md", ".py", ".yml", ".toml", ".txt", ".sh")
    names = [name for name in done.stdout.split("\0") if name.endswith(kinds)]
    for name in names:
        if not name.startswith("tests/") and (ROOT / name).is_file():
            yield name, (ROOT / name).read_text("utf-8")


def test_nothing_else_says_how_to_install_them():
    for name, text in texts():
        assert not OPTION.search(text), name
        for line in re.sub(r"\\\n", " ", text).splitlines():
            assert not NAMED.search(line) or all(option in line for option in FROM_AWS_ALONE), line
