"""Commands, options, extras, files and links that the pages name exist."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex

import pytest

from tests.docs.pages import PAGES, ROOT, blocks, name_of, prose

pytest.importorskip("torch")

import typer.main  # noqa: E402

from nki_sim import __main__ as nki_sim  # noqa: E402
from trnfft import cli  # noqa: E402

ELSEWHERE = (
    *("aws", "cd", "export", "git", "hf", "mkdir", "pip", "pre-commit", "python3", "source"),
    *("torchrun", "uv"),
)  # not ours
FOLDERS = "trnfft|nki_kernels|tests|bench|scripts|docs|packages|plans|examples|\\.github|\\.ci"
A_FILE = re.compile(rf"(?:{FOLDERS})/[\w./*-]*")
STARTS_A_COMMAND = re.compile(
    r"(\./scripts/|python |\.venv/bin/|trnfft [a-z]|nki-sim [a-z]|pip |pytest )"
)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def commands():
    """Every command of a page: lines of ```sh blocks, and code in prose that looks like one."""
    for page in PAGES:
        for info, text in blocks(page):
            if info == "sh":
                whole = re.sub(r"\\\n", " ", text)
                for words in quoted_lines(whole):
                    yield pytest.param(words, id=f"{name_of(page)}: {' '.join(words)[:60]}")
        for line in prose(page):
            for code in re.findall(r"`([^`]+)`", line):
                if STARTS_A_COMMAND.match(code):
                    words = shlex.split(code)
                    yield pytest.param(words, id=f"{name_of(page)}: {code[:60]}")


def quoted_lines(text):
    """The words of each line; a quotation may go over several."""
    kept = ""
    for line in text.splitlines():
        kept += line + "\n"
        try:
            words = shlex.split(kept, comments=True)
        except ValueError:  # no closing quotation yet
            continue
        kept = ""
        if words:
            yield words
    assert not kept, f"a quotation without an end: {kept}"


def options_in(words):
    return [word.partition("=")[0] for word in words if re.match(r"--\w", word)]


def check_sources(paths, words):
    """Each option of a program is named in its sources, or the name of a parameter there."""
    text = "\n".join(path.read_text("utf-8") for path in paths)
    for option in options_in(words):
        name = option.removeprefix("--").replace("-", "_")
        assert re.search(rf"\"{option}\"|\b{name}: ", text), f"{option} is no option there"


def check_nki_sim(words):
    nki_sim.parser().parse_args(words)  # exits for what it does not know


def check_trnfft(words):
    known = typer.main.get_command(cli.app).commands
    assert words[0] in known
    command = known[words[0]]
    if hasattr(command, "load"):  # its module is imported when it runs
        command = command.load()
    options = {name for parameter in command.params for name in parameter.opts}
    assert set(options_in(words)) <= {*options, "--help"}


def check_pip(words):
    for extras in re.findall(r"\[([\w,-]+)\]", " ".join(words)):
        pyproject = (ROOT / "pyproject.toml").read_text("utf-8")
        for extra in extras.split(","):
            assert re.search(rf"^{extra} = \[", pyproject, re.MULTILINE), f"no extra {extra}"
    for option, value in zip(words, words[1:], strict=False):
        assert option not in ("-c", "--constraint") or (ROOT / value).is_file(), value


def check_pytest(words):
    for word in words:
        if "/" in word:
            assert (ROOT / word.partition("::")[0]).exists(), word


def check_module(module, words):
    if module.startswith("bench."):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module
        check_sources((ROOT / "bench").rglob("*.py"), words)
    elif module == "pytest":
        check_pytest(words)
    elif module == "pip":
        check_pip(words)
    else:
        assert importlib.util.find_spec(module), module


@pytest.mark.parametrize("words", list(commands()))
def test_commands_exist(words):
    while re.fullmatch(r"[A-Z_]+=.*", words[0]):  # variables of the environment
        words = words[1:]
    program, *rest = words
    program = program.removeprefix(".venv/bin/")
    if program == "trnfft":
        check_trnfft(rest)
    elif program == "nki-sim":
        check_nki_sim(rest)
    elif program == "python" and rest[0] == "-m":
        check_module(rest[1], rest[2:])
    elif program == "torchrun" and "-m" in rest:
        check_module(rest[rest.index("-m") + 1], [])
    elif program == "python":
        script = ROOT / rest[0]
        assert script.is_file(), rest[0]
        check_sources([script, *script.parent.glob("remote/*.py")], rest)
    elif program == "pytest":
        check_pytest(rest)
    elif program == "pip":
        check_pip(rest)
    elif "/" in program:
        assert os.access(ROOT / program, os.X_OK), program
    else:
        assert program in ELSEWHERE


def named_files():
    for page in PAGES:
        for line in prose(page):
            for code in re.findall(r"`([^`]+)`", line):
                if A_FILE.fullmatch(code):
                    yield pytest.param(code, id=f"{name_of(page)}: {code}")


@pytest.mark.parametrize("path", list(named_files()))
def test_files_exist(path):
    assert list(ROOT.glob(re.sub("NAME|ROOM", "*", path.rstrip("/")))), path


def links():
    """Links between files. Those between pages of docs/ are what `mkdocs build --strict` checks."""
    for page in PAGES:
        for line in prose(page):
            for target in LINK.findall(line):
                if ":" not in target:
                    yield pytest.param(page, target, id=f"{name_of(page)}: {target}")


@pytest.mark.parametrize("page, target", list(links()))
def test_links_lead_to_files(page, target):
    assert (page.parent / target).exists(), target


def test_readme_is_a_page():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 130


def test_pages_of_the_site_are_in_its_navigation():
    configuration = (ROOT / "mkdocs.yml").read_text("utf-8")
    listed = re.findall(r": ([\w/]+\.md)$", configuration, re.MULTILINE)
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    kernels = {page for page in pages if page.startswith("reference/kernels/")}
    assert sorted(listed) == sorted(pages - kernels)  # docs/hooks.py adds those of kernels


def test_the_page_of_benchmarks_names_every_program():
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    named = re.findall(r"^\| `python -m bench\.(\w+)[^`]*` \|", page, re.MULTILINE)
    paths = [*(ROOT / "bench").glob("*.py"), *(ROOT / "bench").glob("*/__main__.py")]
    programs = {
        path.parent.name if path.stem == "__main__" else path.stem
        for path in paths
        if path.stem == "__main__" or '__name__ == "__main__"' in path.read_text("utf-8")
    }
    assert set(named) == programs
