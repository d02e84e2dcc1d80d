"""Remembered plans: the shipped files are current, and the user's files survive any fault."""

import contextlib
import dataclasses
import functools
import itertools
import json
import os
import re
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import platformdirs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import make_plans
import trnfft
from nki_sim import hardware
from tests.sweeps import whole
from trnfft.planner import cost, planner, wisdom
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.kinds import BlockCirculant, Transform
from trnfft.planner.plan import Plan, Recipe

ROOT = Path(__file__).parent.parent.parent
STALE = "the shipped plans are stale: run python scripts/make_plans.py"


SEARCH = functools.cache(planner.search)  # the result of a search depends on no file


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache folder, and nothing remembered in memory; each search takes time once."""
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / "cache"))
    monkeypatch.setattr(planner, "search", SEARCH)
    planner.forget()
    yield tmp_path / "cache"
    planner.forget()


@pytest.fixture
def nothing_shipped(monkeypatch):
    """No plans are shipped: to examine them all takes longer than the rest of a test."""
    monkeypatch.setattr(wisdom, "_shipped_rows", lambda source: [])
    wisdom.forget()
    yield
    wisdom.forget()


# What ships


@pytest.mark.parametrize("chip", hardware.NAMES)
def test_shipped_plans_are_those_wanted(chip):
    wanted = {wisdom.key_of(request) for request in make_plans.requests(chip)}
    assert set(wisdom.shipped(chip)) == wanted, STALE
    entries = list(wisdom.shipped(chip).values())
    for entry in entries if chip == "trn1" else entries[::10]:
        plan = Plan.from_row(entry)
        assert wisdom.believed(entry, plan) == plan
        assert plan.target == chip
        assert plan.predicted_ns >= plan.dma_floor_ns


SHORT = 2**18  # points of a problem whose dry run is short


@pytest.mark.weekly
@pytest.mark.parametrize("points", [SHORT, whole(2**40)])
@pytest.mark.parametrize("chip", hardware.NAMES)
def test_shipped_prices_are_fresh(chip, points):
    # A sample of every kind and degree, another one for each chip.
    start = hardware.NAMES.index(chip)
    kinds = {}
    for request in make_plans.requests(chip):
        if request.n * request.batch <= points:
            kind = request.kind
            key = kind.name, len(kind.sizes), kind.is_rows, request.cores
            kinds.setdefault(key, []).append(request)
    for requests in kinds.values():
        for request in requests[start :: max(3, len(requests) // 2)]:
            plan = Plan.from_row(wisdom.shipped(chip)[wisdom.key_of(request)])
            price = cost.price(plan.recipe, plan.batch, hardware.chip(chip), plan.cores)
            assert plan.predicted_ns == pytest.approx(price.predicted_ns, rel=1e-3), STALE


@pytest.mark.weekly
@pytest.mark.parametrize("points, every", [(SHORT, 80), whole(SHORT, 37), whole(2**40, 37)])
@pytest.mark.parametrize("chip", hardware.NAMES)
def test_shipped_choices_are_fresh(chip, points, every):
    start = hardware.NAMES.index(chip)
    requests = [each for each in make_plans.requests(chip) if each.n * each.batch <= points]
    for request in requests[start::every]:
        shipped = Plan.from_row(wisdom.shipped(chip)[wisdom.key_of(request)])
        assert planner.search(request) == shipped, STALE


@pytest.mark.parametrize("every", [7, whole(1)])
def test_shipped_candidates_are_the_likeliest_recipes_of_today(every):
    offered = {}  # by algorithm and sizes, which many requests have in common

    def recipes(algorithm, request):
        key = algorithm.name, request.kind
        if key not in offered:
            try:
                offered[key] = algorithm.recipes_for(request.kind)
            except NotImplementedError:
                offered[key] = []
        return offered[key]

    for start, chip in enumerate(hardware.NAMES):
        for request in make_plans.requests(chip)[start % every :: every]:
            plan = Plan.from_row(wisdom.shipped(chip)[wisdom.key_of(request)])
            for name, algorithm in ALGORITHMS.items():
                considered = {c.recipe: c for c in plan.candidates if c.recipe.algorithm == name}
                if considered and (expected := recipes(algorithm, request)):
                    others = set(considered) - set(expected)  # with other passes, say
                    assert all(algorithm.solves(each, request.kind) for each in others), STALE
                for recipe, candidate in considered.items():
                    if candidate.predicted_error is not None:
                        assert candidate.predicted_error == algorithm.stated_error(recipe), STALE


def test_shipped_files_are_as_the_script_writes_them():
    for chip in hardware.NAMES:
        path = ROOT / "plans" / f"{chip}.json"
        content = json.loads(path.read_text())
        assert path.read_text() == wisdom.render(path.stem, content["plans"])


def test_a_shipped_plan_needs_no_search_and_no_user_file(folder, monkeypatch):
    monkeypatch.setattr(planner, "search", None)
    assert trnfft.plan(1024, batch=128, target="trn1").batch == 128
    assert trnfft.plan(1024, batch=128, inverse=True, target="trn1").inverse
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


def test_a_degree_that_the_chip_has_not_is_no_plan(folder, nothing_shipped):
    write({**entry_of(94), "cores": 2})
    reason = "argument 'cores', the degree of LNC, is 2, allowed is 1: trn1 has degree 1 only"
    assert wisdom.examine("trn1")[1] == wisdom.Examined("in use", 1, 1, reason)


# The user's own


def test_memory_keeps_few_of_the_plans_that_were_found(
    folder, nothing_shipped, monkeypatch, tmp_path
):
    monkeypatch.setattr(wisdom, "KEPT", 3)
    for batch in range(1, 6):
        trnfft.plan(4, batch=batch, target="trn1")
    assert [batch for _, batch, *_ in wisdom._user["trn1"]] == [3, 4, 5]
    assert trnfft.export_wisdom(tmp_path / "all.jsonl") == 5  # the file has the others
    assert len(wisdom._user["trn1"]) == 3


def entry_of(n=94, **arguments):
    """A row of a file: the plan for a length on trn1."""
    return trnfft.plan(n, target="trn1", **arguments).to_dict()


def write(*rows):
    """Makes the user's file of trn1 anew, and forgets what was read before."""
    path = wisdom.user_file("trn1")
    path.parent.mkdir(exist_ok=True)
    texts = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    path.write_bytes(b"\n".join([*texts, b""]))
    planner.forget()
    return path


def rows_of(path):
    return [json.loads(line) for line in path.read_text().split("\n") if line]


def test_a_found_plan_is_remembered(folder, monkeypatch):
    first = trnfft.plan(94, batch=4)
    assert [Plan.from_dict(row) for row in rows_of(wisdom.user_file("trn1"))] == [first]
    planner.forget()
    monkeypatch.setattr(planner, "search", None)
    assert trnfft.plan(94, batch=4) == first


def test_restricted_searches_are_not_remembered_in_files(folder):
    trnfft.plan(94, algorithms="dft_gemm")
    assert not folder.exists()
    trnfft.plan(94, max_error=1e-3, target="trn1")  # which looks at what "fast" chooses
    assert [row["max_error"] for row in rows_of(wisdom.user_file("trn1"))] == [1e-6]


def test_what_no_row_can_hold_is_planned_and_not_remembered(folder):
    for _ in range(2):
        assert trnfft.plan(8, batch=2**70, target="trn1").batch == 2**70
    assert not folder.exists()


def test_of_two_plans_the_later_counts(folder):
    row = entry_of(94)
    later = json.loads(json.dumps(row))
    later["candidates"][0]["predicted_ns"] += 1000.0
    write(row, later)
    assert trnfft.plan(94, target="trn1").predicted_ns == later["candidates"][0]["predicted_ns"]


def changed(row, **changes):
    """A row whose choice has other fields."""
    return {**row, "candidates": [{**row["candidates"][0], **changes}, *row["candidates"][1:]]}


REASONS = {
    "another recipe": "four_step 2053 = 26 x 79 does not solve FFT, N = 2053, batch 4, fast, trn1",
    "unknown algorithm": "'quantum' is not an algorithm",
    "less error": "the error of .* is not 1e-09",
    "inner a string": "row 1 is not a plan: Expected `object | null`, got `str`",
}
WRONG_CHOICES = {  # of the length 2053, which Bluestein's convolution transforms by a longer one
    "another length": {"kind": {"what": "transform", "lengths": [2054]}},
    "another kind": {"kind": {"what": "frames", "n": 2053, "hop": 1}},
    "another recipe": {"algorithm": "four_step", "radices": [26, 79], "inner": None},
    "inner too short": {"inner": {"algorithm": "stockham", "n": 4096, "radices": [64, 64]}},
    "inner much too short": {"inner": {"algorithm": "stockham", "n": 2048, "radices": [32, 64]}},
    "inner of two lengths": {"inner": {"algorithm": "stockham", "n": 4224, "radices": [22, 22]}},
    "impossible radices": {"inner": {"algorithm": "stockham", "n": 4224, "radices": [4224]}},
    "radix 0": {"inner": {"algorithm": "stockham", "n": 4224, "radices": [0, 64]}},
    "inner a string": {"inner": "stockham"},
    "inner in inner": {"inner": {"algorithm": "bluestein", "n": 2053, "inner": {}}},
    "no inner": {"inner": None},
    "unknown algorithm": {"algorithm": "quantum"},
    "passes": {"passes": [{"axis": 7, "recipe": {"algorithm": "dft_gemm", "n": 2053}, "kept": 1}]},
    "blocking": {"blocking": {"side": 1}},
    "less error": {"predicted_error": 1e-9},
    "no error": {"predicted_error": None},
    "no price": {"predicted_ns": None},
    "infinite price": {"predicted_ns": float("inf")},
    "launches": {"launches": 2},
}


@pytest.mark.parametrize("name", WRONG_CHOICES)
def test_a_choice_that_cannot_be_is_planned_anew(folder, name):
    row = entry_of(2053, batch=4, cores=1)
    path = write(changed(row, **WRONG_CHOICES[name]))
    before = path.read_bytes()
    expected = f"{re.escape(str(path))} .*{REASONS.get(name, '')}.*searched for again"
    with pytest.warns(UserWarning, match=expected) as caught:
        assert trnfft.plan(2053, batch=4, target="trn1").to_dict() == row
    assert len(caught) == 1
    assert path.read_bytes().startswith(before)  # what was there is there, and the plan after it
    assert rows_of(path)[-1] == row


WRONG_PLANS = [
    {"kind": {"what": "transform", "lengths": [338]}},
    {"batch": 3},
    {"inverse": True, "max_error": 1.0},
    {"precision": "bf16"},
    {"target": "trn2"},
    {"max_error": 1.0},
    {"kind": {"what": "transform", "lengths": [2053], "part": "r2c"}},
    {"kind": {"what": "transform", "lengths": [2053], "data": [300]}},
    {"n": 337},
]


@pytest.mark.parametrize("change", WRONG_PLANS, ids=str)
def test_a_plan_of_another_problem_is_not_believed(folder, change):
    row = entry_of(2053, batch=4)
    write({**row, **change})
    named = "the row for FFT, N = 2053.* holds a plan for inverse FFT, N = 2053"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert trnfft.plan(2053, batch=4, target="trn1").to_dict() == row
    assert "inverse" not in change or re.search(named, str(caught[0].message))


def test_a_less_accurate_algorithm_is_no_choice(folder):
    row = trnfft.plan(94, target="trn1", cores=1).to_dict()
    rough = Recipe("dft_gemm_bf16", Transform((94,)))
    for error in (2.05e-3, 1e-7):
        choice = {**rough.to_dict(), "predicted_error": error}
        choice |= {"predicted_ns": 1.0, "bound": "tensor", "launches": 1, "rejected": ""}
        write({**row, "candidates": [choice]})
        with pytest.warns(UserWarning, match="error of dft_gemm_bf16"):
            assert trnfft.plan(94, target="trn1", cores=1).to_dict() == row


def test_a_layout_is_tried_on_the_chip_and_the_degree_of_its_plan(folder, monkeypatch):
    plan = planner.plan_for(BlockCirculant(2, 2, 8), batch=64, target="trn2", cores=2)
    wisdom.remember(plan)
    found, asked = cost.timeline, []
    monkeypatch.setattr(cost, "timeline", lambda *each: asked.append(each) or found(*each))
    assert wisdom.recall(plan) == plan
    assert asked == [(plan.recipe, 64, hardware.chip("trn2"), 2)]


def test_a_layout_that_cannot_run_is_no_choice(folder):
    def find():
        return planner.plan_for(BlockCirculant(4, 4, 64), batch=1024, target="trn1")

    row = find().to_dict()
    pieces = next(each for each in row["candidates"] if "takes up to" in each["rejected"])
    write(changed(row, blocking=pieces["blocking"]))
    with pytest.warns(UserWarning, match="takes up to"):
        assert find().to_dict() == row


NO_ROWS = [
    b"{",
    b"[]",
    b"3",
    b"\xff\xfe\x00",
    b"[" * 10**6,
    b'{"kind": ' + b"[" * 10**6 + b"}",
    b'{"batch": 1' + b"0" * 10**6 + b"}",
    b'{"candidates": [' + b'{"inner": ' * 10**5 + b"}",
]


def test_what_is_no_row_is_left_out_with_a_warning(folder, nothing_shipped):
    row = entry_of(94)
    write(*NO_ROWS, row)
    with pytest.warns(UserWarning, match="row 1 is not a plan") as caught:
        assert trnfft.plan(94, target="trn1").to_dict() == row
    assert len(caught) == 1
    ours = wisdom.examine("trn1")[1]
    assert (ours.plans, ours.unknown) == (len(NO_ROWS) + 1, len(NO_ROWS))


def test_each_file_has_one_warning(folder):
    for chip in ("trn1", "trn2"):
        path = wisdom.user_file(chip)
        path.parent.mkdir(exist_ok=True)
        row = trnfft.plan(94, target=chip, cores=1).to_dict()
        path.write_bytes(json.dumps(changed(row, launches=2)).encode())
        problem = Plan.from_dict(row)
        planner.forget()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                assert wisdom.recall(problem) is None
        (warning,) = caught
        text = str(warning.message)
        assert f"plans in {path} cannot be used" in text and "does not solve FFT, N = 94" in text


def test_a_shipped_plan_that_cannot_be_has_a_warning(folder, monkeypatch):
    row = changed(entry_of(94, cores=1), launches=2)
    wisdom.user_file("trn1").unlink()
    planner.forget()
    entry = wisdom.msgspec.convert(row, wisdom.PlanRow)
    message = r"in .*trn1\.json cannot be used \(.* does not solve FFT, N = 94"
    with monkeypatch.context() as patch, pytest.warns(UserWarning, match=message):
        patch.setattr(wisdom, "shipped", lambda chip: {wisdom.key_of(entry): entry})
        assert wisdom.recall(Plan.from_row(entry)) is None


def test_a_row_that_was_cut_short_harms_no_other(folder):
    row = entry_of(94)
    path = write(json.dumps(row).encode()[:-100])
    path.write_bytes(path.read_bytes()[:-1])  # the line break, too
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert trnfft.plan(94, target="trn1").to_dict() == row
        planner.forget()
        assert wisdom.recall(trnfft.plan(94, target="trn1")).to_dict() == row


def fifo(path):
    os.mkfifo(path)


def link(path):
    path.with_name("elsewhere").write_text("{}")
    path.symlink_to(path.with_name("elsewhere"))


def device(path):
    path.symlink_to("/dev/zero")


def too_large(path):
    path.touch()
    os.truncate(path, 2**40)  # a hole


DAMAGES = {
    fifo: "it is not a regular file",
    link: "it is a symbolic link",
    device: "it is a symbolic link",
    Path.mkdir: "it is not a regular file",
    too_large: f"it has {2**40} bytes, more than trnfft writes",
}


@pytest.mark.parametrize("make", DAMAGES)
def test_what_is_no_file_of_ours_is_not_read(folder, nothing_shipped, make):
    folder.mkdir()
    path = wisdom.user_file("trn1")
    make(path)
    before = os.lstat(path)
    assert wisdom.examine("trn1")[1] == wisdom.Examined("damaged", reason=DAMAGES[make])
    start = time.monotonic()
    message = f"{re.escape(str(path))} cannot be used .{DAMAGES[make]}.*Remove the file"
    with pytest.warns(UserWarning, match=message) as caught:
        assert trnfft.plan(94, target="trn1").n == 94
    assert len(caught) == 1 and time.monotonic() - start < 20
    if make is not too_large:  # that is full, and the older one now
        assert os.lstat(path)[:2] == before[:2]
    if make is link:
        assert path.with_name("elsewhere").read_text() == "{}"


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / "file"))
    planner.forget()
    plan = trnfft.plan(94)
    planner.solved.cache_clear()
    assert wisdom.recall(plan) == plan  # from memory
    planner.forget()
    assert wisdom.recall(plan) is None


def test_the_file_is_in_a_folder_named_trnfft(tmp_path, monkeypatch):
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / "a" / name))
    planner.forget()
    trnfft.plan(94, target="trn1")
    planner.forget()
    path = wisdom.user_file("trn1")
    assert path.parent == tmp_path / "a" / "trnfft"
    assert path.is_file() and not path.stat().st_mode & 0o111  # nothing that can be executed


def test_a_file_is_full_above_its_limit(folder, nothing_shipped, monkeypatch):
    row = entry_of(94)
    path = wisdom.user_file("trn1")
    size = path.stat().st_size
    for limit, name in ((size, "jsonl"), (size - 1, "older.jsonl")):
        path.unlink()
        planner.forget()
        monkeypatch.setattr(wisdom, "FULL", limit)
        trnfft.plan(94, target="trn1")
        assert [each.name.partition(".")[2] for each in folder.iterdir()] == [name]
    monkeypatch.setattr(wisdom, "FULL", 10 * size)
    for bytes_of_it, state in ((20 * size, "in use"), (20 * size + 1, "damaged")):
        path = write(json.dumps(row).encode())
        path.write_bytes(path.read_bytes().ljust(bytes_of_it, b"\n"))
        assert wisdom.examine("trn1")[1].state == state


def test_what_examine_says(folder, monkeypatch):
    every_row = wisdom._shipped_rows
    # A test above asks about all.
    monkeypatch.setattr(wisdom, "_shipped_rows", lambda source: every_row(source)[:20])
    wisdom.forget()
    count = len(wisdom.shipped("trn1"))
    absent = wisdom.Examined("absent")
    assert wisdom.examine("trn1") == (wisdom.Examined("in use", count), absent)
    row = entry_of(94)
    write(row, changed(row, launches=2), b"3")
    reason = "Expected `object`, got `int`"
    assert wisdom.examine("trn1")[1] == wisdom.Examined("in use", 3, 2, reason)
    monkeypatch.setattr(wisdom, "EXAMINED", 1)  # the second row is read, and not asked about
    assert wisdom.examine("trn1")[1] == wisdom.Examined("in use", 3, 1, reason)


def test_a_shipped_file_of_another_format_is_damaged(folder, tmp_path, monkeypatch):
    (tmp_path / "trn1.json").write_text('{"format": 1, "plans": []}')
    monkeypatch.setattr(wisdom, "files", lambda package: tmp_path)
    (tmp_path / "plans").symlink_to(tmp_path)
    expected = wisdom.Examined("damaged", reason="it has format 1, not 2")
    assert wisdom.examine("trn1")[0] == expected


def test_an_error_as_large_as_allowed_is_believed():
    plan = trnfft.plan(94, target="trn1", cores=1)
    problem = dataclasses.replace(plan, max_error=plan.predicted_error)
    row = wisdom.msgspec.convert(problem.to_dict(), wisdom.PlanRow)
    assert wisdom.believed(row, problem) == problem


def test_the_oldest_plans_go(folder, monkeypatch):
    plan = trnfft.plan(94, target="trn1")
    row = len(json.dumps(plan.to_dict()))
    planner.forget()
    wisdom.user_file("trn1").unlink()
    monkeypatch.setattr(wisdom, "FULL", 3 * row)
    for batch in itertools.count(71):
        wisdom.remember(replace(plan, batch=batch))
        if batch > 77 and len(list(folder.iterdir())) == 2:  # a full file is the older one now
            break
    assert sum(path.stat().st_size for path in folder.iterdir()) < 9 * row
    planner.forget()
    monkeypatch.setattr(planner, "search", None)
    for kept in (batch, batch - 1):
        assert trnfft.plan(94, batch=kept, target="trn1") == replace(plan, batch=kept)


@pytest.mark.parametrize(
    "changed",
    [
        "nki_kernels/fft/stockham.py",
        "nki_sim/report/timeline.py",
        "nki_sim/hardware.py",
        "trnfft/planner/cost.py",
        "trnfft/planner/algorithms/stockham.py",
    ],
)
def test_the_fingerprint_is_of_kernels_simulator_and_planner(changed, monkeypatch):
    read, path = Path.read_bytes, ROOT / changed
    assert path.is_file()
    before = wisdom.fingerprint()
    monkeypatch.setattr(Path, "read_bytes", lambda self: read(self) + b"#" * (self == path))
    wisdom.fingerprint.cache_clear()
    after = wisdom.fingerprint()
    wisdom.fingerprint.cache_clear()
    assert len(after) == len(before) and after != before


def test_versions_have_a_file_each(folder, monkeypatch):
    row = entry_of(94)
    ours = wisdom.user_file("trn1")
    before = ours.read_bytes()
    monkeypatch.setattr(wisdom, "fingerprint", lambda: "0123456789abcdef")
    planner.forget()
    assert entry_of(94) == row
    theirs = wisdom.user_file("trn1")
    assert theirs != ours and rows_of(theirs) == [row] and ours.read_bytes() == before


def test_files_of_versions_that_nobody_uses_are_removed(folder):
    folder.mkdir()
    unused, recent, other = (
        folder / name for name in ("plans-trn1-0123.jsonl", "plans-trn1-4567.jsonl", "mine.json")
    )
    own = wisdom.user_file("trn1")
    for path in (unused, recent, other, own):
        path.write_text("")
    a_folder = folder / "plans-trn1-89ab.jsonl"
    a_folder.mkdir()
    for path in (other, unused, own, a_folder):
        os.utime(path, (0, 0))
    trnfft.plan(94, target="trn1")
    assert not unused.exists()
    assert all(path.exists() for path in (recent, other, own, a_folder))


# Many processes

# Four processes write at once until they are killed, and say which plans they had remembered by
# then. A full file would make room for the next plans, which is not what is tested.
WRITERS = """
import dataclasses, os, random, signal, sys, time, warnings, platformdirs
warnings.simplefilter("error")
from trnfft.planner import planner, wisdom

folder, rounds = sys.argv[1], int(sys.argv[2])
platformdirs.user_cache_dir = lambda name: folder
plan = planner.plan(8, target="trn1", cores=1)  # and reads the file
wisdom.FULL = 2**40
begun, says = os.pipe()
for first in range(0, 4 * rounds, 4):
    children = []
    for writer in range(first, first + 4):
        children.append(os.fork())
        if children[-1] == 0:
            for batch in range(10**6 * (writer + 1), 10**6 * (writer + 2)):
                wisdom.remember(dataclasses.replace(plan, batch=batch))
                os.write(1, b"%d\\n" % batch)
                if batch % 10**6 == 0:
                    os.write(says, b".")
    for _ in children:
        os.read(begun, 1)
    time.sleep(random.Random(first).random() / 50)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
"""


@pytest.mark.weekly
@pytest.mark.parametrize("rounds", [2, whole(12), pytest.param(250, marks=pytest.mark.slow)])
def test_processes_that_write_at_once_and_are_killed_lose_no_plan(folder, rounds):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WRITERS, str(folder), str(rounds)]
    process = subprocess.run(command, env=environment, capture_output=True)
    assert process.stderr == b"" and process.returncode == 0
    (path,) = folder.iterdir()
    assert path == wisdom.user_file("trn1")
    said = {int(number) for number in process.stdout.split()}
    assert len({batch // 10**6 for batch in said}) == 4 * rounds
    kept = set()
    for line in path.read_bytes().splitlines():
        with contextlib.suppress(ValueError):
            kept.add(Plan.from_json(line).batch)
    assert said <= kept


# Anything at all

VALID = [
    {"n": 12},
    {"n": 96, "batch": 4},
    {"n": 67, "batch": 2},
    {"n": 1009},
    {"shape": (8, 12)},
    {"n": 64, "real": True},
    {"shape": (8, 12), "real": True},
    {"n": 32, "precision": "kahan"},
]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(sorted(ALGORITHMS)),
    st.lists(st.integers(0, 130), max_size=4),
    st.just({}),
)


def places(value, path=()):
    """The path of everything in JSON, the whole first."""
    yield path
    for key, inner in items_of(value) if isinstance(value, (dict, list)) else ():
        yield from places(inner, (*path, key))


def items_of(value):
    return value.items() if isinstance(value, dict) else enumerate(value)


def mutated(row, data):
    """The row with one to three values changed, gone or exchanged; most of them of the choice."""
    row = json.loads(json.dumps(row))
    for _ in range(data.draw(st.integers(1, 3))):
        found = [path for path in places(row) if path]
        choice = [path for path in found if path[:2] == ("candidates", 0) or len(path) == 1]
        path = data.draw(st.sampled_from(choice or found or [()]))
        if not path:
            return row
        holder = row
        for key in path[:-1]:
            holder = holder[key]
        match data.draw(st.sampled_from(["change", "remove", "exchange"])):
            case "change":
                holder[path[-1]] = data.draw(LEAVES)
            case "remove":
                del holder[path[-1]]
            case "exchange":
                other = data.draw(st.sampled_from(sorted(dict(items_of(holder)), key=str)))
                holder[path[-1]], holder[other] = holder[other], holder[path[-1]]
    return row


@pytest.mark.filterwarnings("ignore:some remembered plans")
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_whatever_is_in_the_file_plans_are_right(folder, nothing_shipped, data):
    arguments = {**data.draw(st.sampled_from(VALID)), "target": "trn1", "cores": 1}
    path = write()
    problem = planner.plan(**arguments)
    rows = rows_of(path)  # of real data two: by a kernel for it, and as complex data
    index = data.draw(st.integers(0, len(rows) - 1))
    rows[index] = mutated(rows[index], data)
    write(*rows)
    found = planner.plan(**arguments)
    algorithm = ALGORITHMS[found.algorithm]
    assert Plan.of(problem, found.candidates) == found
    assert algorithm.solves(found.recipe, found.recipe.kind)
    assert algorithm.stated_error(found.recipe) <= found.max_error
    assert wisdom.examine("trn1")[1].state == "in use"
