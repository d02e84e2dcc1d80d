import json

import pytest


def test_findings_have_file_and_line_and_an_exit_code(here):
    code, out, err = here("lint", "--nki", "0.6", "kernels.py", "bad.py")
    assert code == 1
    assert out.startswith("bad.py:8: error: comprehensions are not supported")
    assert out.endswith("[comprehension]\n") and out.count("\n") == 1
    assert err == "4 kernels in 2 files checked for NKI 0.6, 1 error\n"


def test_a_file_that_changes_the_folder_moves_neither_files_nor_outputs(here, folder):
    moves = "import os\n\nos.chdir('..')\n"
    (folder / "moved.py").write_text(moves + (folder / "kernels.py").read_text())
    code, _, err = here("lint", "moved.py", "kernels.py", "--json", "found.json")
    assert (code, err) == (0, "6 kernels in 2 files checked for NKI 0.7, 0 errors\n")
    assert (folder / "found.json").is_file()


def test_what_is_deprecated_is_a_warning(here, folder):
    lines = ["import nki", "import nki.language as nl", "", "@nki.jit", "def k(x):"]
    lines += ["    for i in nl.affine_range(2):", "        print(i)", "    return x"]
    (folder / "ranges.py").write_text("\n".join(lines) + "\n")
    code, out, err = here("lint", "ranges.py", "bad.py")
    assert (code, err) == (0, "2 kernels in 2 files checked for NKI 0.7, 0 errors\n")
    assert out.startswith("ranges.py:6: warning: nl.affine_range: this range equals Python")


def test_the_release_is_one_that_is_known(here, folder, monkeypatch):
    code, _, err = here("lint", "--nki", "0.8", "bad.py")
    assert code == 2 and "invalid choice: '0.8' (choose from" in err
    monkeypatch.setenv("NKI_SIM_RELEASE", "next")
    said = "nki-sim: NKI_SIM_RELEASE is 'next', allowed is '0.6' or '0.7'\n"
    assert here("lint", "bad.py") == (2, "", said)


def test_a_folder_stands_for_its_files_that_speak_of_nki(here, folder):
    (folder / "other.py").write_text("raise OSError('not imported')\n")
    code, out, err = here("lint", "--nki", "0.6", folder)
    assert code == 1 and "bad.py:8" in out
    assert err.startswith("4 kernels in 2 files checked")


def test_a_folder_without_what_is_hidden_or_installed(here, folder):
    for name in (".hidden", "venv", "lib/site-packages"):
        (folder / name).mkdir(parents=True)
        (folder / name / "nki_bad.py").write_text("import nki; 1 / 0")
    (folder / "venv" / "pyvenv.cfg").touch()
    (folder / "bad.py").unlink()
    (folder / "locked.py").symlink_to("nothing")
    assert here("lint", ".") == (0, "", "3 kernels in 1 file checked for NKI 0.7, 0 errors\n")


def test_siblings_of_one_name_in_two_folders(here, folder):
    for name, tiles in (("a", "[x, x]"), ("b", "[x for _ in range(2)]")):
        (folder / name).mkdir()
        (folder / name / "kernels.py").write_text(
            "import nki\nfrom helpers import tiles\n\n@nki.jit\ndef kernel(x):\n"
            "    return tiles(x)[0]\n"
        )
        (folder / name / "helpers.py").write_text(f"def tiles(x):\n    return {tiles}\n")
    code, out, err = here("lint", "--nki", "0.6", "a/kernels.py", "b/kernels.py")
    assert (code, err) == (1, "2 kernels in 2 files checked for NKI 0.6, 1 error\n")
    assert out.startswith("b/helpers.py:2: error: comprehensions")


def test_kernels_in_packages_may_import_each_other(here, folder):
    package = folder / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "again.py").write_text(AGAIN)
    (package / "bad.py").write_text(HELPER)
    code, out, err = here("lint", "--nki", "0.6", package / "again.py")
    assert code == 1 and out.startswith("mine/bad.py:2: error: comprehensions")
    assert err == "1 kernel in 1 file checked for NKI 0.6, 1 error\n"


def test_a_kernel_is_checked_where_a_sibling_cannot_be_imported(here, folder):
    package = folder / "model"
    package.mkdir()
    (package / "__init__.py").write_text("from .weights import absent")
    (package / "weights.py").write_text("import absent_module")
    (package / "again.py").write_text(AGAIN.replace("helper", "absent").replace("bad", "weights"))
    (package / "worse.py").write_text(AGAIN + "    return [x for _ in range(2)]\n")
    code, out, err = here("lint", "--nki", "0.6", package)
    assert code == 1 and err == "2 kernels in 2 files checked for NKI 0.6, 1 error\n"
    assert "weights.py:1: warning: ModuleNotFoundError: No module named 'absent_module'; the" in out
    assert "worse.py:9: error: comprehensions" in out


HELPER = """def helper(x):
    return [x for _ in range(2)][0]
"""

AGAIN = """
import nki
from .bad import helper


@nki.jit
def twice(x):
    return helper(x)
"""


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("x = 1 / 0 # nki", "ZeroDivisionError: division by zero"),
        ("def f(: # nki", "SyntaxError: invalid syntax"),
        ("import absent_module # nki", "ModuleNotFoundError: No module named 'absent_module'"),
    ],
)
def test_a_file_that_cannot_be_imported_is_a_finding(here, folder, text, finding):
    (folder / "broken.py").write_text(text + "\n")
    code, out, err = here("lint", "broken.py", "kernels.py")
    assert code == 2
    assert out.startswith(f"broken.py:1: error: {finding}")
    assert err == "3 kernels in 2 files checked for NKI 0.7, 1 error\n"


def test_a_file_without_kernels_was_not_checked(here, folder):
    (folder / "none.py").write_text("print('imported')\n")
    code, _, err = here("lint", "none.py")
    assert (
        code == 2
        and "no kernel was found: a kernel is a function of a module under @nki.jit" in err
    )
    assert here("lint", "none.py", "kernels.py")[0] == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys; sys.exit(3)", "script.py:1: error: ImportError: the file ends the program"),
        ("import pytest; pytest.skip('x', allow_module_level=True)", "script.py:1: error: Skipped"),
    ],
)
def test_files_of_scripts(here, folder, text, said):
    (folder / "script.py").write_text(text)
    code, out, err = here("lint", "script.py")
    assert code == 2 and said in out + err


def test_only_files_of_python(here, folder):
    (folder / "notes.txt").write_text("nki")
    assert here("lint", "notes.txt") == (
        2,
        "",
        "nki-sim: notes.txt is not a Python file, allowed are files *.py\n",
    )


def test_an_interrupt_is_a_sentence(here, folder):
    (folder / "stops.py").write_text("import nki\nraise KeyboardInterrupt\n")
    assert here("lint", "stops.py") == (130, "", "nki-sim: interrupted\n")


def test_json_and_sarif(here, folder):
    code, out, _ = here("lint", "--nki", "0.6", "bad.py", "--json", "-", "--sarif", "found.sarif")
    assert code == 1
    (finding,) = json.loads(out)
    assert finding["line"] == 8 and finding["rule"] == "comprehension"
    (run,) = json.loads((folder / "found.sarif").read_text())["runs"]
    (result,) = run["results"]
    assert result["ruleId"] == run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "bad.py" and place["region"]["startLine"] == 8
    assert result["level"] == "error" and "comprehensions" in result["message"]["text"]


def test_sarif_without_findings_has_no_results(here, folder):
    assert here("lint", "kernels.py", "--sarif", "found.sarif")[0] == 0
    (run,) = json.loads((folder / "found.sarif").read_text())["runs"]
    assert run["results"] == [] and run["tool"]["driver"]["name"] == "nki-sim"


def test_contested_findings_are_notes(here, folder):
    lines = [
        "import nki",
        "",
        "@nki.jit",
        "def k(x):",
        "    assert x.shape[0] == 128",
        "    return x",
    ]
    (folder / "asserts.py").write_text("\n".join(lines) + "\n")
    assert here("lint", "asserts.py")[0] == 0
    code, out, _ = here("lint", "--nki", "0.6", "--contested", "asserts.py")
    assert code == 0 and out.startswith("asserts.py:5: note:")
