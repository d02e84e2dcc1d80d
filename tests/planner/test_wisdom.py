"""Remembered plans: the shipped files are fresh, the user's survive everything."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import platformdirs
import pytest

import trnfft
from trnfft.planner import planner, wisdom
from trnfft.planner.plan import Plan

ROOT = Path(__file__).parent.parent.parent
STALE = "the shipped plans are stale: run python scripts/make_plans.py"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache folder, and nothing remembered in memory."""
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / "cache"))
    planner.forget()
    yield tmp_path / "cache"
    planner.forget()


@pytest.fixture(scope="module")
def make_plans():
    source = ROOT / "scripts" / "make_plans.py"
    spec = importlib.util.spec_from_file_location("make_plans", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# What ships


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
def test_shipped_plans_are_those_wanted(chip, make_plans):
    wanted = {wisdom.key_of(request) for request in make_plans.requests(chip)}
    assert set(wisdom.shipped(chip)) == wanted, STALE
    for entry in wisdom.shipped(chip).values():
        plan = Plan.from_dict(entry)
        assert plan.target == chip
        assert plan.predicted_ns >= plan.dma_floor_ns


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
def test_shipped_prices_are_fresh(chip, make_plans):
    # A sample, another one for each chip.
    start = ("trn1", "trn2", "trn3").index(chip)
    for request in make_plans.requests(chip)[start::17]:
        shipped = Plan.from_dict(wisdom.shipped(chip)[wisdom.key_of(request)])
        assert planner.search(request) == shipped, STALE


def test_shipped_files_are_as_the_script_writes_them():
    for path in (ROOT / "plans").glob("*.json"):
        content = json.loads(path.read_text())
        assert path.read_text() == wisdom.render(path.stem, content["plans"])


def test_a_shipped_plan_needs_no_search_and_no_user_file(folder, monkeypatch):
    monkeypatch.setattr(planner, "search", None)
    assert trnfft.plan(1024, batch=100, target="trn1").batch == 128
    assert not folder.exists()


# The user's own


def test_a_found_plan_is_remembered(folder, monkeypatch):
    first = trnfft.plan(94, batch=4)
    assert Plan.from_dict(json.loads(wisdom.user_file("trn1").read_text())["plans"][0]) == first
    planner.forget()
    monkeypatch.setattr(planner, "search", None)
    assert trnfft.plan(94, batch=4) == first


def test_restricted_searches_are_not_remembered_in_files(folder):
    trnfft.plan(94, algorithms="dft_gemm")
    trnfft.plan(94, max_error=1e-3)
    assert not folder.exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": "1"}', '{"format": 1, "kernels": "KERNELS", "plans": [3]}']
)
def test_a_damaged_file_is_set_aside_with_a_warning(folder, text):
    folder.mkdir()
    path = wisdom.user_file("trn1")
    path.write_text(text.replace("KERNELS", wisdom.fingerprint()))
    with pytest.warns(UserWarning, match=f"{re.escape(str(path))}.*is now"):
        plan = trnfft.plan(94)
    assert plan.n == 94
    assert path.with_suffix(".damaged").exists()
    assert len(json.loads(path.read_text())["plans"]) == 1


def test_binary_rubbish_is_set_aside(folder):
    folder.mkdir()
    wisdom.user_file("trn1").write_bytes(b"\xff\xfe\x00" * 100)
    with pytest.warns(UserWarning, match="cannot be read"):
        trnfft.plan(94)


def test_an_entry_that_is_no_plan_is_searched_again(folder):
    plan = trnfft.plan(94)
    path = wisdom.user_file("trn1")
    path.write_text(path.read_text().replace('"launches": 1', '"launches": "one"'))
    planner.forget()
    assert trnfft.plan(94) == plan


@pytest.mark.parametrize(
    "change", [('"format": 1', '"format": 99'), ('"kernels": "', '"kernels": "x')]
)
def test_other_versions_are_ignored_and_replaced(folder, change):
    plan = trnfft.plan(94)
    path = wisdom.user_file("trn1")
    path.write_text(path.read_text().replace(*change).replace('"stockham"', '"unknown"'))
    planner.forget()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert trnfft.plan(94) == plan
    assert change[1] not in path.read_text()


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / "file"))
    planner.forget()
    assert trnfft.plan(94).n == 94
    planner.forget()


def test_the_oldest_plans_go(folder, monkeypatch):
    monkeypatch.setattr(wisdom, "LARGEST", 2)
    for n in (93, 94, 95):
        trnfft.plan(n)
    entries = json.loads(wisdom.user_file("trn1").read_text())["plans"]
    assert [entry["n"] for entry in entries] == [94, 95]


def test_many_processes_write_at_once(folder):
    program = (
        "import sys, warnings, platformdirs\n"
        "warnings.simplefilter('error')\n"
        "platformdirs.user_cache_dir = lambda name: sys.argv[1]\n"
        "from trnfft.planner.planner import plan\n"
        "first = int(sys.argv[2])\n"
        "for n in range(first, first + 10):\n"
        "    plan(n, algorithms=None, batch=2)\n"
    )
    arguments = [sys.executable, "-c", program, str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen([*arguments, str(first)], env=environment, stderr=subprocess.PIPE)
        for first in (3, 13, 23, 33)
    ]
    for process in running:
        assert process.communicate()[1] == b""
        assert process.returncode == 0
    assert [path.name for path in folder.iterdir()] == ["plans-trn1.json"]
    entries = json.loads(wisdom.user_file("trn1").read_text())["plans"]
    # Races may lose a plan; the last writer's ten are there in any case.
    assert len({entry["n"] for entry in entries}) == len(entries) >= 10
    assert all(Plan.from_dict(entry).n == entry["n"] for entry in entries)
