"""The reference shows docstrings as prose and code, and names in code as links."""

from __future__ import annotations

import importlib.util
import re

import pytest

from tests.docs.pages import ROOT

pytest.importorskip("griffe")
pytest.importorskip("torch")

from trnfft.planner.algorithms import ALGORITHMS  # noqa: E402

SPECIFICATION = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
assert SPECIFICATION and SPECIFICATION.loader
hooks = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(hooks)

PAGES = sorted((ROOT / "docs" / "reference").rglob("*.md"))
OPENINGS = [
    module
    for page in PAGES
    for module in re.findall(r"^::opening ([\w.]+)$", page.read_text("utf-8"), re.MULTILINE)
]


def test_paragraphs_become_prose_and_indented_lines_code():
    docstring = "Title.\n\nMathematics.  X = b* F(a_1) for `b*`:\n\n    y = x\n\n    z = x\n\nEnd."
    code = "```{ .text .no-copy }\ny = x\n\nz = x\n```"
    heading = "## Mathematics\n\nX = b\\* F(a\\_1) for `b*`:"
    assert hooks.prose(docstring, 2).strip() == f"Title.\n\n{heading}\n\n{code}\n\nEnd."
    assert "**Mathematics.** X = b\\* F" in hooks.prose(docstring)


@pytest.mark.parametrize("module", OPENINGS)
def test_openings_keep_their_text(module):
    docstring = hooks.opening(module)
    markdown = hooks.prose(docstring, 2)
    shown = re.sub(r"\\([\\*_\[\]|])", r"\1", markdown).replace("&lt;", "<").replace("&amp;", "&")
    shown = shown.replace("```{ .text .no-copy }", "").replace("```", "")
    shown = re.sub("^## (.+)$", r"\1.", shown, flags=re.MULTILINE)
    assert shown.split() == docstring.split()


@pytest.mark.parametrize(
    "docstring, sentence",
    [
        ("Returns x.\n\nMore.", "Returns x."),
        ("Returns x, see `a.b`: more.", "Returns x, see `a.b`."),
        ("Returns 1.5 times\nx", "Returns 1.5 times x."),
    ],
)
def test_first_sentences(docstring, sentence):
    assert hooks.first_sentence(docstring) == sentence


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_pages_describe_has_a_sentence(page):
    for name in re.findall(r"^::: ([\w.]+)$", page.read_text("utf-8"), re.MULTILINE):
        if not name.startswith("nki_sim.lint."):  # its tables have none
            assert len(hooks.first_sentence(hooks._docstring(name))) > 10, name


def test_addresses_of_other_projects():
    generated = "https://docs.pytorch.org/docs/stable/generated"
    assert hooks._address("torch.fft.fft") == f"{generated}/torch.fft.fft.html"
    assert hooks._address("torch.Tensor").endswith("/tensors.html")
    assert hooks._address("scipy.fft.dct").endswith("/scipy.fft.dct.html")
    assert hooks._address("trnfft.fft") is None and hooks._address("torch") is None


def test_the_table_of_algorithms_has_them_all_and_their_lengths():
    rows = [row.strip("| ").split(" | ") for row in hooks.algorithms().splitlines()[2:]]
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(names) == sorted(ALGORITHMS)
    lengths = {row[0]: row[2] for row in rows if len(row) == 3}
    assert lengths["`four_step`"] == "256 to 2^20"
    assert lengths["`split_four_step`"] == "above 2^19 to 2^26"
    assert lengths["`butterfly_kahan`"] == "up to 4096; powers of two"


def test_pages_of_kernels_are_in_the_navigation():
    nav = [{"Reference": [{"Kernels": ["reference/kernels.md"]}]}]
    hooks.on_config({"nav": nav})
    entries = nav[0]["Reference"][0]["Kernels"]
    assert entries[1] == {"DFT-GEMM": "reference/kernels/dft_gemm.md"}
    assert len(entries) == 1 + len(list((ROOT / "docs/reference/kernels").glob("*.md")))
