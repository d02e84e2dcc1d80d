"""Many cases of one kind: what became of them, and all that was found."""

import os
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from tests.fuzz.child import REFUSED, RIGHT, UNCHECKED

EXAMPLES = int(os.environ.get("TRNFFT_FUZZ_EXAMPLES", "100"))  # of each kind


class Survey:
    """Verdicts on cases. A finding does not stop it, so that one run has all of them.

    Attributes:
        verdicts: how many cases have each.
        findings: of each kind the first case, as text.
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
