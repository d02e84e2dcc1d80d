"""Random programs compute the same on ComplexTensors as on torch's complex dtypes, or are refused.

    python -m tests.fuzz.test_programs tensors|models 10000 [first]

runs as many programs in a process of their own, from the seed `first` on. For each kind of finding
it prints the number of programs, and the shortest one as source to paste.
"""

import collections
import sys

import pytest

from tests import sweeps
from tests.fuzz import model_drawing, program_drawing
from tests.fuzz.child import Child
from tests.fuzz.program import Program, Step
from tests.fuzz.program_drawing import drawn
from tests.fuzz.program_judging import Verdict, judged, shortest

PART = 50


@pytest.mark.weekly
@sweeps.some("first", range(0, 300, PART), range(0, 100, PART))
def test_programs(first):
    for seed in range(first, first + PART):
        program = drawn(seed, compiled=False)
        verdict = judged(program)
        assert verdict.kind != "different", f"seed {seed}: {verdict.text}\n{program}"


@sweeps.some("seed", range(6), range(2))
def test_compiled_programs(seed):
    program = drawn(seed, compiled=True)
    verdict = judged(program)
    assert verdict.kind != "different", f"seed {seed}: {verdict.text}\n{program}"


@pytest.mark.weekly
@sweeps.some("seed", range(40), range(6))
def test_programs_on_models(seed):
    program = model_drawing.drawn(seed)
    verdict = judged(program)
    assert verdict.kind != "different", f"seed {seed}: {verdict.text}\n{program}"


DRAWINGS = {"tensors": program_drawing.drawn, "models": model_drawing.drawn}


@pytest.mark.slow
@pytest.mark.parametrize("subject", DRAWINGS)
def test_many_programs(subject):
    survey = Survey(subject, 1_000_000, 5_000)
    assert not survey.found("different"), str(survey)


def judge_in_child(case: Program | tuple[str, int]) -> tuple[Program, Verdict]:
    """Returns a program, which a subject and a seed may stand for, and the verdict on it."""
    program = case if isinstance(case, Program) else DRAWINGS[case[0]](case[1])
    return program, judged(program)


class Survey:
    """The number of verdicts of each kind, and the shortest program of each kind."""

    def __init__(self, subject, first, count, report=lambda text: None):
        self.counts = collections.Counter()
        self.programs = {}
        self._report = report
        with Child(judge_in_child) as child:
            self._ask = child
            for seed in range(first, first + count):
                self._add(subject, seed)

    def _judge(self, case):
        """Judges a case in a process.

        A text instead of an answer means that the process did not survive or was too slow.
        """
        answer = self._ask(case)
        return answer if isinstance(answer, tuple) else (case, Verdict("different", answer))

    def _add(self, subject, seed):
        case = subject, seed
        program, verdict = self._judge(case)
        if program is case:
            program = Program((Step("drawn", f"DRAWINGS[{subject!r}]({seed})"),))
        self.counts[verdict.group] += 1
        if verdict.kind == "different" and verdict.group not in self.programs:
            program = shortest(program, lambda each: self._judge(each)[1])
            self._report(f"seed {seed} {verdict.kind}: {verdict.text}\n\n{program}\n")
        known = self.programs.get(verdict.group)
        if known is None or program.lines < known.lines:
            self.programs[verdict.group] = program

    def found(self, kind):
        return [group for group in self.counts if group.startswith(kind)]

    def __str__(self):
        totals = collections.Counter()
        lines = []
        for group, count in sorted(self.counts.items(), key=lambda item: (item[0][0], -item[1])):
            totals[group.split(":")[0]] += count
            lines.append(f"{count} x {group}")
            if group.startswith(("different", "allowed")):
                lines += ["", str(self.programs[group]), ""]
        return "\n".join([*lines, str(dict(totals))])


def main(subject, count, first=0):
    print(Survey(subject, int(first), int(count), lambda text: print(text, flush=True)))


if __name__ == "__main__":
    main(*sys.argv[1:])
