"""Dependencies have licences compatible with Apache-2.0, and docs/licences.md lists them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Permissive licences, and the Mozilla licence, whose conditions concern only its own files.
ALLOWED = {
    "0BSD",
    "3-Clause BSD License",
    "Apache 2.0 License",
    "Apache Software License",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "apache-2.0",
    "BSD",
    "BSD License",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CNRI-Python",
    "ISC",
    "ISC License (ISCL)",
    "MIT",
    "MIT License",
    "MIT-0",
    "MIT-CMU",
    "MPL-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)",
    "PSF-2.0",
    "Python Software Foundation License",
    "The Unlicense (Unlicense)",
    "Zlib",
}

IN_FILES = {"sigstore-models": "MIT"}  # packages whose metadata name no licence


def name_of(requirement):
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


@pytest.fixture(scope="module")
def installed():
    """Returns (version, licence) of every package that is installed and pinned, by its name."""
    pytest.importorskip("piplicenses")
    command = [sys.executable, "-m", "piplicenses", "--from=mixed", "--with-system", "--format"]
    done = subprocess.run([*command, "json"], capture_output=True, text=True, check=True)
    files = (ROOT / "scripts" / f"requirements-{name}.txt" for name in ("dev", "hugging-face"))
    pins = "".join(file.read_text("utf-8") for file in files)
    ours = {"torch", *map(name_of, re.findall(r"^[\w.-]+(?===)", pins, re.M))}
    found = {
        name_of(row["Name"]): (row["Version"], row["License"]) for row in json.loads(done.stdout)
    }
    found |= {name: (found[name][0], IN_FILES[name]) for name in IN_FILES if name in found}
    return {name: row for name, row in found.items() if name in ours}


@pytest.mark.sweep
def test_licences_are_allowed(installed):
    assert len(installed) > 50
    for name, (_, licence) in installed.items():
        parts = set(re.split(r"; | AND | OR ", licence))
        assert parts <= ALLOWED, f"{name}: {licence}"


@pytest.mark.sweep
def test_the_page_lists_them(installed):
    page = (ROOT / "docs" / "licences.md").read_text("utf-8")
    rows = {
        name_of(name): (version, licence)
        for name, version, licence in re.findall(
            r"^\| (\S+) +\| (\d\S*) +\| (.+?) +\|$", page, re.M
        )
    }
    for name, (version, licence) in installed.items():
        assert name in rows, f"docs/licences.md lacks {name}; its end says how to renew it"
        version = version.partition("+")[0]
        if rows[name][0] == version:  # Python 3.10 has other versions of some packages
            assert rows[name][1] == licence, name


def test_the_page_names_what_a_program_needs():
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    dependencies = re.search(r"^dependencies = \[\n(.*?)^\]", project, re.M | re.S)[1]
    page = (ROOT / "docs" / "licences.md").read_text("utf-8")
    sentence = re.search(r"A program that uses trnfft needs (.*?)\.\s", page, re.S)[1]
    assert re.findall(r'^ *"([\w-]+)', dependencies, re.M) == re.findall(r"`(\S+)`", sentence)
