"""Findings as SARIF 2.1.0, which GitHub shows beside the lines of a pull request.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html, and the part that GitHub reads:
https://docs.github.com/en/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nki_sim.lint.rules import ALL_RULES

from .findings import Finding

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ABOUT = {
    "hardware-rule": "A rule of the hardware or the compiler that the simulator enforces.",
    "simulator-warning": "The chip accepts this, but it is slow or its result is doubtful.",
}


def sarif(findings: Iterable[Finding]) -> str:
    """Returns a log with one run. Findings without a file are those of the current folder."""
    found = list(findings)
    rules = list(dict.fromkeys(finding.rule for finding in found))
    texts = {**_ABOUT, **{name: text for name, (_, text) in ALL_RULES.items()}}
    driver = {
        "name": "nki-sim",
        "rules": [
            {"id": name, "shortDescription": {"text": texts.get(name, name)}} for name in rules
        ],
    }
    results = [_result(finding, rules.index(finding.rule)) for finding in found]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1)


def _result(finding: Finding, index: int) -> dict[str, Any]:
    artifact: dict[str, Any] = {"artifactLocation": {"uri": _uri(finding.file)}}
    artifact["region"] = {"startLine": max(1, finding.line)}
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.level,
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": artifact}],
    }


def _uri(file: str) -> str:
    """Returns a path relative to the current folder, which is the repository's in CI, or a URI."""
    path = Path(file or ".").resolve()
    try:
        relative = path.relative_to(Path.cwd())
    except ValueError:
        return path.as_uri()
    return Path("/", relative).as_uri().removeprefix("file:///") or "."
