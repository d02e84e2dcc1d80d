"""Runs many cases of one kind, and collects the verdicts and all findings."""

import os
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from tests.fuzz.child import REFUSED, RIGHT, UNCHECKED

EXAMPLES = int(os.environ.get("TRNFFT_FUZZ_EXAMPLES", "100"))  # number of cases of each kind


class Survey:
    """Verdicts on cases. A run continues after a finding, so that it collects all of them.

    Attributes:
        verdicts: the number of cases with each verdict.
        findings: the first case of each kind of finding, as text.
    """

    def __init__(self, judge: Callable[[Any], str]) -> None:
        self._judge = judge
        self.verdicts: Counter[str] = Counter()
        self.findings: dict[str, str] = {}

    def run(self, cases: SearchStrategy[Any]) -> None:
        """Judges EXAMPLES cases."""

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(cases)
        def run(case: Any) -> None:
            verdict = self._judge(case)
            if verdict in (RIGHT, REFUSED, UNCHECKED):
                self.verdicts[verdict] += 1
            else:
                self.verdicts["found"] += 1
                self.findings.setdefault(re.sub(r"\d+", "#", verdict), f"{case} {verdict}")

        run()

    def __str__(self) -> str:
        return "\n".join([str(dict(self.verdicts)), *self.findings.values()])
