"""./scripts/test.sh --changed: its table, and what it runs and says."""

import pytest

import changed


def test_the_table_has_files_and_folders_that_exist():
    for beginning, tests in changed.ELSEWHERE.items():
        for path in (beginning, *tests):
            assert (changed.ROOT / path).exists(), path


def test_tests_inside_of_others_are_not_named_twice():
    files = ["plans/trn1.json", "docs/planner.md", "trnfft/ops/transforms.py"]
    assert changed.tests_of(files) == ["tests/docs", "tests/planner"]


@pytest.fixture
def runs(monkeypatch, tmp_path):
    """Returns the arguments of the runs of pytest, each of which has the result (status, count)."""
    found, results = [], []
    monkeypatch.setattr(changed, "RECORD", tmp_path / "record")
    monkeypatch.setattr(changed, "COMMIT", tmp_path / "commit")
    monkeypatch.setattr(changed, "git", lambda *words: ["abc"] if "rev-parse" in words else [])
    monkeypatch.setattr(changed, "changed_files", lambda: ["docs/planner.md"])

    def run(*arguments):
        found.append(arguments)
        return results.pop(0)

    monkeypatch.setattr(changed, "pytest", run)
    return found, results


def test_the_first_run_records_and_the_next_select(runs, tmp_path, capsys):
    found, results = runs
    results += [(0, 100)]
    assert changed.main([]) == 0 and "--testmon-noselect" in found[0]
    assert (tmp_path / "commit").read_text("utf-8") == "abc"
    (tmp_path / "record").touch()
    results += [(changed.NOTHING_RAN, 0), (0, 0)]
    assert changed.main([]) == 0 and found[2] == ("tests/docs",)
    assert "nothing to run" in capsys.readouterr().out
    results += [(0, 3), (1, 5)]
    assert changed.main([]) == 1
    assert "nothing to run" not in capsys.readouterr().out
