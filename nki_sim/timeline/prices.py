"""The issues of instructions with the costs of other chips, which launches share."""

from __future__ import annotations

import functools
from collections.abc import Collection

from nki_sim.hardware import NeuronCore
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.issue_cache import CAPACITY, CAPACITY_BYTES, IssueCache
from nki_sim.instructions.work import priced

_CHIPS = 8  # whose issues are kept: the cheapest and the dearest reading of each chip, and two


def prices(issues: Collection[Issue], chip: NeuronCore) -> dict[Issue, Issue]:
    """Returns for each of different issues the issue with its price on a chip."""
    cache, found = _cache(chip), {}
    for issue in issues:
        found[issue] = cache.get(issue)
        if found[issue] is None:
            found[issue] = priced(issue, chip)
            if issue.signature is not None:  # other issues belong to one launch
                cache.put(issue, found[issue])
    return found


@functools.lru_cache(_CHIPS)
def _cache(chip: NeuronCore) -> IssueCache:
    return IssueCache(CAPACITY, CAPACITY_BYTES // _CHIPS)
