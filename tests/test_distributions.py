"""Messages name the distributions of this project, and never a name on an index."""

import re
from pathlib import Path

import pytest

from trnfft.base import distributions

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "present, name, folder",
    [
        ({"trnfft-nki"}, "trnfft-nki", "."),
        ({"nki-sim"}, "nki-sim", "./packages/nki_sim"),
        ({"nki-sim", "trnfft-nki"}, "trnfft-nki", "."),
        (set(), "trnfft-nki", "."),
    ],
)
def test_an_extra_is_of_the_installed_distribution(monkeypatch, present, name, folder):
    def version_of(distribution):
        return "0.1.0" if distribution in present else None

    monkeypatch.setattr(distributions, "version_of", version_of)
    assert distributions.from_extra("report") == (
        f'which the extra "report" of {name} installs: in a checkout, pip install '
        f'"{folder}[report]"; with a wheel, pip install "FILE.whl[report]"'
    )


def test_names_and_folders_are_those_of_the_projects():
    for name, folder in distributions.CHECKOUTS.items():
        project = (ROOT / folder / "pyproject.toml").read_text("utf-8")
        assert re.search(r'^name = "(.+)"', project, re.M)[1] == name


def test_nothing_tells_users_to_install_the_other_project():
    """`pip install trnfft` would install another project from the package index."""
    wrong = re.compile(r"pip install [^#\n]*(?<![\w./-])trnfft(?![\w-])(?!/)")
    ours = ("trnfft", "trnfft_demo", "nki_kernels", "nki_sim")
    folders = (*ours, "scripts", "docs", "examples", "bench", "packages")
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for folder in folders:
        paths += [
            path
            for path in (ROOT / folder).rglob("*")
            if path.suffix in (".py", ".md", ".sh", ".html", ".js", ".yml", ".toml")
        ]
    assert len(paths) > 300
    found = [path for path in paths if wrong.search(path.read_text("utf-8"))]
    assert not found
