"""scripts/make_plans.py: the shipped plans, and its refusal to write higher prices."""

import json
from collections import Counter

import pytest

import make_plans
from nki_sim import hardware
from trnfft.planner import planner
from trnfft.planner.plan import Plan

CASES = [("complex", 0), ("real", 0), ("block circulant", 0)]  # quick ones


def in_this_process(problems):
    return [make_plans.plan_or_none(problem) for problem in problems]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the plans of a few cases."""

    def few(chip):
        sizes = make_plans.sizes()
        return [sizes[kind][index].on(chip, 1) for kind, index in CASES]

    monkeypatch.setattr(make_plans, "requests", few)
    monkeypatch.setattr(make_plans, "FOLDER", tmp_path)
    monkeypatch.setattr(make_plans, "searched", in_this_process)
    assert make_plans.main([]) == 0
    return tmp_path


def change_price(path, factor, index=0):
    """Multiplies a price in a file of plans; returns the title and both prices."""
    content = json.loads(path.read_text())
    entry = content["plans"][index]
    new = entry["candidates"][0]["predicted_ns"]
    entry["candidates"][0]["predicted_ns"] = old = round(new * factor, 1)
    path.write_text(json.dumps(content))
    return Plan.from_dict(entry).title, old, new


def advised(output):
    """The entry for reasons.json that a refused run prints."""
    return json.loads(output[output.index("{") :])


def allow(folder, entry, reason):
    path = folder / "reasons.json"
    entries = json.loads(path.read_text()) if path.exists() else []
    path.write_text(json.dumps([*entries, {**entry, "reason": reason}]))


SPECTRAL = "spectral_convolution", "spectral_convolution_kept", "spectral_gradients"

# What ships


def test_all_kinds_ship_for_all_chips():
    for chip in hardware.NAMES:
        found = Counter(
            (p.kind.name, 0 if p.kind.is_rows else len(p.kind.sizes))
            for p in make_plans.requests(chip)
        )
        assert min(found.values()) >= 3
        arrays = {(kind, axes) for kind in ("c2c", "r2c", "c2r") for axes in (0, 2, 3)}
        others = {("convolution", 0), ("convolution", 2)}
        weights = {("block_circulant", 3), ("block_circulant_gradients", 3)}
        layers = {(kind, axes) for kind in SPECTRAL for axes in (3, 4, 5)}
        frames = {("frame_spectra", 2), ("frame_powers", 2), ("frame_bands", 3)}
        planes = {("real_planes", 2)}
        assert set(found) == arrays | others | weights | layers | frames | planes


def test_titles_name_the_cases():
    titles = [p.title for chip in hardware.NAMES for p in make_plans.requests(chip)]
    assert len(set(titles)) == len(titles) and all("LNC=" in title for title in titles)


def test_every_kind_has_both_degrees():
    for chip in hardware.NAMES:
        degrees = Counter((p.kind, p.cores) for p in make_plans.requests(chip))
        for kind in {kind for kind, _ in degrees}:
            assert degrees[kind, 1] >= 1
            assert degrees[kind, 2] == (0 if chip == "trn1" else degrees[kind, 1])


# The guard


@pytest.mark.sweep
def test_what_is_the_same_or_cheaper_is_written(folder):
    before = (folder / "trn2.json").read_text()
    change_price(folder / "trn2.json", 1.5)
    change_price(folder / "trn2.json", 0.985, 1)  # a rise by 1.5%
    assert make_plans.main([]) == 0
    assert (folder / "trn2.json").read_text() == before


def test_a_reason_allows_a_rise_once(folder, capsys):
    """A rise is refused and listed, until there is a reason for it; nothing is written before."""
    case, old, new = change_price(folder / "trn2.json", 0.9)
    before = {path: path.read_text() for path in folder.iterdir()}
    assert make_plans.main([]) == 1
    output = capsys.readouterr().out
    (line,) = [line for line in output.splitlines() if line.endswith(f"  {case}")]
    assert line.split()[:3] == [str(old), str(new), "1.111"]
    assert advised(output) == {"reason": "", "rises": {case: [old, new]}}
    assert {path: path.read_text() for path in folder.iterdir()} == before
    allow(folder, advised(output), "Two banks are one bank too many.")
    assert make_plans.main([]) == 0
    assert "allowed: Two banks are one bank too many." in capsys.readouterr().out
    assert make_plans.main([]) == 0
    assert "allowed" not in capsys.readouterr().out
    change_price(folder / "trn2.json", 0.95)  # it rises by as much again, from another price
    assert make_plans.main([]) == 1


@pytest.mark.sweep
def test_a_reason_holds_up_to_its_price_and_for_its_case(folder, capsys):
    case, old, new = change_price(folder / "trn2.json", 0.9)
    allow(folder, {"rises": {case: [old, new - 1]}}, "Less than this.")
    assert make_plans.main([]) == 1
    other, *_ = change_price(folder / "trn3.json", 0.9)
    allow(folder, {"rises": {case: [old, new]}}, "As much as this.")
    capsys.readouterr()
    assert make_plans.main([]) == 1
    output = capsys.readouterr().out
    assert "allowed: As much as this." in output and list(advised(output)["rises"]) == [other]


@pytest.mark.sweep
def test_cases_that_go_are_named(folder, monkeypatch, capsys):
    monkeypatch.setattr(make_plans, "requests", lambda chip: [])
    assert make_plans.main([]) == 0
    output = capsys.readouterr().out
    assert "no longer among the cases: FFT, N = 2, batch 1, fast, trn3, LNC=1\n" in output
    assert output.count("no longer among the cases") == 3 * len(CASES)


@pytest.mark.sweep
def test_check_writes_nothing(folder, capsys):
    path = folder / "trn1.json"
    for factor, code in ((1.5, 0), (0.5, 1)):
        change_price(path, factor)
        before = path.read_text()
        assert make_plans.main(["--check"]) == code
        assert path.read_text() == before


@pytest.mark.sweep
def test_a_case_without_a_kernel_is_refused(monkeypatch, folder, capsys):
    def search(problem):
        if problem.kind.name == "c2c":
            raise NotImplementedError("no kernel transforms this")
        return found(problem)

    found = planner.search
    monkeypatch.setattr(planner, "search", search)
    assert make_plans.main([]) == 1
    output = capsys.readouterr().out
    assert output.count("no kernel transforms this") == 3 and "reasons.json" not in output


@pytest.mark.sweep
def test_all_processors_find_the_same():
    problems = make_plans.requests("trn1")[:3]
    assert make_plans.searched(problems) == in_this_process(problems)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "entry", [{"reason": " ", "rises": {"a": [1, 2]}}, {"reason": "Why not."}, {"rises": {}}]
)
def test_reasons_need_a_sentence_and_cases(folder, entry):
    (folder / "reasons.json").write_text(json.dumps([entry]))
    with pytest.raises(ValueError, match="reasons.json.*one sentence"):
        make_plans.main(["--check"])
