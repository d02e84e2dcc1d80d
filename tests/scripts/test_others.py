"""scripts/others: the comparison of outcomes with known differences, and what the tables say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from others.differences import Difference, apply, matches
from others.suite import MODES, read, suites

pytest_plugins = "pytester"

ROOT = Path(__file__).parent.parent.parent
SUITE = """
import unittest

import pytest


@pytest.mark.parametrize("number", [1, 2])
def test_odd(number):
    assert number % 2


class TestSquares(unittest.TestCase):
    def test_two(self):
        for number in (2, 3):
            with self.subTest(number=number):
                self.assertEqual(number**2, 4)


def test_right():
    pass


def test_endless():
    raise SystemExit("this test is left out")
"""


def difference(*tests, modes=("patched",), **options):
    return Difference("fake", tests, "a reason", modes, **options)


KNOWN = [
    difference("test_fake.py::test_odd[2]"),
    difference("*::TestSquares::*", sometimes=True),
    difference("test_fake.py::test_endless", modes=(), left_out=True),
]


@pytest.fixture
def outcomes(pytester):
    """Returns a function that runs the fake suite with differences, and counts its outcomes."""
    pytester.makepyfile(test_fake=SUITE)

    def run(differences, mode="patched"):
        class Plugin:
            def pytest_collection_modifyitems(self, items):
                apply(differences, mode, items)

        result = pytester.inline_run("-p", "no:hypothesispytest", plugins=[Plugin()])
        passed, skipped, failed = result.listoutcomes()
        names = sorted({report.nodeid.partition("::")[2] for report in failed})
        return {"passed": len(passed), "skipped": len(skipped), "failed": names}, result.ret

    return run


def test_known_differences_are_as_expected(outcomes):
    found, status = outcomes(KNOWN)
    assert status == pytest.ExitCode.OK
    assert found["failed"] == []


@pytest.mark.parametrize(
    ("differences", "mode", "failed"),
    [
        (KNOWN[1:], "patched", ["test_odd[2]"]),
        (KNOWN, "unpatched", ["TestSquares::test_two", "test_odd[2]"]),
    ],
)
def test_a_failure_that_is_not_listed_for_the_mode_fails(outcomes, differences, mode, failed):
    found, status = outcomes(differences, mode=mode)
    assert status == pytest.ExitCode.TESTS_FAILED
    assert found["failed"] == failed


@pytest.mark.parametrize("sometimes", [False, True])
def test_a_listed_test_that_passes_fails_unless_it_does_so_sometimes(outcomes, sometimes):
    listed = [*KNOWN, difference("*::test_right", sometimes=sometimes)]
    found, status = outcomes(listed)
    assert found["failed"] == ([] if sometimes else ["test_right"])
    assert status == (pytest.ExitCode.OK if sometimes else pytest.ExitCode.TESTS_FAILED)


def test_an_entry_without_a_test_is_an_error(outcomes, capfd):
    _, status = outcomes([*KNOWN, difference("test_fake.py::test_gone")])
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "names tests that are not there: test_fake.py::test_gone" in capfd.readouterr().err


def test_only_the_star_of_a_pattern_is_special():
    assert matches("a.py::test[1-*]", "a.py::test[1-[x]]")
    assert not matches("a.py::test[1]", "a.py::test1")
    assert not matches("a.py::test", "a.py::test_more")


# The tables


def test_every_difference_has_a_suite_a_reason_and_modes():
    pytest.importorskip("tomllib")
    every = suites()
    for table in read("known_differences.toml")["difference"]:
        one = Difference(**table)
        assert one.tests and one.suite in every
        assert re.fullmatch(r"[A-Z].+\.", one.reason)
        assert set(one.modes) <= set(every[one.suite].modes)
        assert bool(one.modes) != one.left_out


def test_suites_are_pinned_by_their_commits():
    pytest.importorskip("tomllib")
    for one in suites().values():
        assert one.tests and set(one.needs) <= set(suites())
        if one.repository:
            assert re.fullmatch("[0-9a-f]{40}", one.commit)
            assert one.through == "patch_torch" and one.modes == MODES
        else:
            assert one.through in ("scipy_backend", "numpy_fft")
            pins = (ROOT / "scripts" / "requirements-others.txt").read_text("utf-8")
            assert re.search(rf"^{one.name.partition('-')[0]}==", pins, re.M)
