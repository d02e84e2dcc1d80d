"""Random programs do on ComplexTensors what they do on complex128, or are refused.

    python -m tests.fuzz.test_complex_programs 10000 [first]

runs so many from a seed on, and prints each kind of finding with its shortest program.
"""

import collections
import sys

import pytest

from .complex_judging import judged
from .complex_programs import drawn

PART = 50


@pytest.mark.parametrize("first", range(0, 400, PART))
def test_programs(first):
    for seed in range(first, first + PART):
        program = drawn(seed)
        assert not judged(program).startswith("different"), f"seed {seed}\n{program}"


@pytest.mark.slow
def test_many_programs():
    found = survey(10_000, 1_000_000)
    assert not [kind for kind in found if kind.startswith("different")], found.keys()


def survey(count, first=0):
    """Findings by kind: how many, and the shortest program."""
    found = {}
    for seed in range(first, first + count):
        program = drawn(seed)
        verdict = judged(program)
        kind = verdict[:90] if verdict.startswith(("refused", "same")) else verdict[:60]
        number, shortest, _ = found.get(kind, (0, None, 0))
        if shortest is None or len(program.lines) < len(shortest.lines):
            shortest = program
        found[kind] = number + 1, shortest, seed
    return found


def main(count, first=0):
    found = survey(int(count), int(first))
    totals = collections.Counter()
    for kind, (number, program, _) in sorted(found.items()):
        totals[kind.split(":")[0]] += number
        if kind != "same":
            print(f"\n{number} x {kind}\n{program}")
    print(f"\n{dict(totals)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
