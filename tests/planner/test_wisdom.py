"""Remembered plans: the shipped files are fresh, the user's survive everything."""

import dataclasses
import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import platformdirs
import pytest

import make_plans
import trnfft
from nki_kernels import hardware
from trnfft.planner import cost, planner, wisdom
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


# What ships


@pytest.mark.parametrize("chip", hardware.NAMES)
def test_shipped_plans_are_those_wanted(chip):
    wanted = {wisdom.key_of(request) for request in make_plans.requests(chip)}
    assert set(wisdom.shipped(chip)) == wanted, STALE
    for entry in wisdom.shipped(chip).values():
        plan = Plan.from_dict(entry)
        assert plan.target == chip
        assert plan.predicted_ns >= plan.dma_floor_ns


@pytest.mark.parametrize("chip", hardware.NAMES)
def test_shipped_prices_are_fresh(chip):
    # A sample of every kind and degree, another one for each chip.
    start = hardware.NAMES.index(chip)
    kinds = {}
    for request in make_plans.requests(chip):
        kinds.setdefault((request.kind, len(request.shape), request.cores), []).append(request)
    for requests in kinds.values():
        for request in requests[start :: max(3, len(requests) // 4)]:
            plan = Plan.recalled(wisdom.shipped(chip)[wisdom.key_of(request)])
            price = cost.price(plan.recipe, plan.batch, hardware.chip(chip), plan.cores)
            assert plan.predicted_ns == pytest.approx(price.predicted_ns, rel=1e-3), STALE


@pytest.mark.parametrize("chip", hardware.NAMES)
def test_shipped_choices_are_fresh(chip):
    start = hardware.NAMES.index(chip)
    for request in make_plans.requests(chip)[start::37]:
        shipped = Plan.from_dict(wisdom.shipped(chip)[wisdom.key_of(request)])
        assert planner.search(request) == shipped, STALE


def test_shipped_files_are_as_the_script_writes_them():
    for chip in hardware.NAMES:
        path = ROOT / "plans" / f"{chip}.json"
        content = json.loads(path.read_text())
        assert path.read_text() == wisdom.render(path.stem, content["plans"])


def test_a_shipped_plan_needs_no_search_and_no_user_file(folder, monkeypatch):
    monkeypatch.setattr(planner, "search", None)
    assert trnfft.plan(1024, batch=100, target="trn1").batch == 128
    assert not folder.exists()


# Degrees of LNC


def test_degrees_are_remembered_apart(folder):
    plan = trnfft.plan(94, target="trn2", cores=1)
    two = Plan.of(dataclasses.replace(plan, cores=2), plan.candidates[:1])
    wisdom.remember(two)
    planner.forget()
    assert trnfft.plan(94, target="trn2", cores=2) == two
    assert trnfft.plan(94, target="trn2", cores=1) == plan
    assert trnfft.plan(94, target="trn2", cores=2, inverse=True).cores == 2


def test_a_degree_that_the_chip_has_not_is_no_plan(folder):
    trnfft.plan(94)
    path = wisdom.user_file("trn1")
    path.write_text(path.read_text().replace('"n": 94, "batch"', '"n": 94, "cores": 2, "batch"', 1))
    assert wisdom.examine("trn1")[1].unknown == 1


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


@pytest.mark.parametrize(
    "change", [('"launches": 1', '"launches": "one"'), ('"n": 94, "batch"', '"n": [9], "batch"')]
)
def test_an_entry_that_is_no_plan_is_searched_again(folder, change):
    plan = trnfft.plan(94)
    path = wisdom.user_file("trn1")
    path.write_text(path.read_text().replace(*change))
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
