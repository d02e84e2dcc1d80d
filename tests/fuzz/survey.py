"""Runs many cases of one kind; hypothesis shortens what is found, of each kind of error."""

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy

from tests.fuzz.child import REFUSED, RIGHT, UNCHECKED

EXAMPLES = int(os.environ.get("TRNFFT_FUZZ_EXAMPLES", "100"))  # number of cases of each kind
many = settings(
    max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


def survey(judge: Callable[[Any], str], cases: SearchStrategy[Any]) -> None:
    """Judges EXAMPLES cases; fails where one is wrong, or none is right."""
    verdicts: Counter[str] = Counter()

    @many
    @given(cases)
    def run(case: Any) -> None:
        verdict = judge(case)
        verdicts[verdict] += 1
        assert verdict in (RIGHT, REFUSED, UNCHECKED), f"{case} {verdict}"

    run()
    assert verdicts[RIGHT] > 0, verdicts
