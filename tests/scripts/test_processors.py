"""./scripts/test.sh --processors: settings that are skipped, the list, and the exit status."""

import pytest

import processors


@pytest.mark.parametrize("ratios, ran, status", [([0.2, 0.69], True, 0), ([0.71], True, 1)])
def test_the_list_and_the_status(monkeypatch, capsys, ratios, ran, status):
    def run(setting, short, arguments, margins):
        with margins.open("a", encoding="utf-8") as file:
            file.writelines(f"{ratio}\ttests/test_{place}\n" for place, ratio in enumerate(ratios))
        return ran

    monkeypatch.setattr(processors, "run", run)
    monkeypatch.setattr(processors, "level_of_processor", lambda: 1)
    monkeypatch.setattr("sys.argv", ["processors.py", "--short"])
    assert processors.main() == status
    printed = capsys.readouterr().out
    assert "skipped, as this processor lacks AVX512: SkylakeX" in printed
    assert f"{max(ratios):6.2f}  tests/test_{len(ratios) - 1}" in printed


def test_a_failure_and_no_numbers_are_failures(monkeypatch):
    monkeypatch.setattr(processors, "level_of_processor", lambda: 0)
    monkeypatch.setattr("sys.argv", ["processors.py", "--short"])
    for ran in (True, False):
        monkeypatch.setattr(processors, "run", lambda *arguments, ran=ran: ran)
        assert processors.main() == 1  # no test wrote a margin
