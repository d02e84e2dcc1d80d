"""Reports of pytest-benchmark without their raw samples, which make up nearly all of their size."""

from __future__ import annotations

import json

PERCENTILES = (5, 25, 50, 75, 95, 99)


def summarise(report: bytes) -> bytes:
    """Returns a report of `--benchmark-json` with percentiles (seconds) in place of each "data".

    Raises ValueError where the report is not JSON.
    """
    from statistics import quantiles  # slow to import, and most commands do not need it

    content = json.loads(report)
    for benchmark in content.get("benchmarks", []):
        stats = benchmark["stats"]
        samples = stats.pop("data", [])
        if len(samples) > 1:
            cuts = quantiles(samples, n=100, method="inclusive")
            stats["percentiles"] = {str(p): cuts[p - 1] for p in PERCENTILES}
    return json.dumps(content, indent=1).encode()
