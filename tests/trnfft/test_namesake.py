"""trnfft refuses to run beside the other distribution of that name, whose files pip mixes in."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest

from trnfft.base.namesake import refuse_namesake


def install(folder, name, version, summary):
    """Writes the metadata of a distribution into a folder."""
    information = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    information.mkdir()
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {summary}\n"
    (information / "METADATA").write_text(text)


def test_another_project_of_the_name_is_refused(tmp_path, monkeypatch):
    install(tmp_path, "trnfft", "0.21.0", "Something else")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ImportError, match="'trnfft', version 0.21.0, is another project") as error:
        refuse_namesake()
    advice = "Run: pip uninstall trnfft trnfft-nki. Then install trnfft-nki again"
    assert advice in str(error.value)


@pytest.mark.parametrize(
    "name, summary",
    [("trnfft", metadata("trnfft-nki")["Summary"]), ("trnfft-tools", "Something else")],
)
def test_this_project_under_its_old_name_and_other_names_are_no_trouble(
    tmp_path, monkeypatch, name, summary
):
    install(tmp_path, name, "0.1.0", summary)
    monkeypatch.syspath_prepend(str(tmp_path))
    refuse_namesake()


@pytest.mark.parametrize(
    "file, said",
    [
        ("other = 1\n", "version 0.21.0, is another project"),
        (None, "files of trnfft-nki are missing; install it again"),
    ],
)
def test_the_command_says_what_has_replaced_or_removed_its_files(tmp_path, file, said):
    """pip has installed the other project over this one, or has uninstalled it since."""
    root = Path(__file__).parents[2]
    site = tmp_path / "site"
    shutil.copytree(root / "trnfft", site / "trnfft", symlinks=True)
    (site / "trnfft" / "__init__.py").unlink()
    if file is not None:
        (site / "trnfft" / "__init__.py").write_text(file)
        install(site, "trnfft", "0.21.0", "Something else")
    run = "import sys, trnfft_command; sys.argv[:] = ['trnfft', 'doctor']; trnfft_command.main()"
    variables = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", run], env=variables, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("trnfft cannot be imported: ") and said in done.stderr
