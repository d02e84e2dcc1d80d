"""Plans state the number of exchanges of a run, and the bytes that each sends to others."""

import pytest
import torch

from tests import sweeps
from tests.trnfft.distributed import cases
from tests.trnfft.distributed.cases import Case
from tests.trnfft.samples import Noted
from trnfft import distributed


def sent_to_others(rank, case):
    """The bytes that this process sends to others, in each of the all-to-alls of one call."""
    given = cases.spread(cases.sample(case), case)
    with Noted() as noted:
        cases.transformed(given, case)
    sent = []
    for numbers, _, splits, group in cases.all_to_alls(noted):
        own = torch.distributed.distributed_c10d._resolve_process_group(group).rank()
        sent.append((sum(splits) - splits[own]) * numbers.element_size())
    return sent


RUNS = [
    ((512,), (4,), {}),
    ((512,), (4,), {"order": "planned"}),
    ((60,), (4,), {}),  # 6 x 10
    ((60,), (4,), {"order": "planned"}),
    ((61,), (4,), {}),
    ((61,), (4,), {"order": "planned"}),
    ((13,), (4,), {}),
    ((3,), (4,), {}),
    ((1,), (4,), {}),
    ((61,), (4,), {"real": True}),
    ((60,), (4,), {"real": True}),
    ((60,), (4,), {"real": True, "order": "planned"}),
    ((8, 8, 8), (4,), {}),
    ((7, 5, 3), (4,), {}),
    ((7, 5, 3), (4,), {"real": True}),
    ((3, 2), (4,), {}),
    ((5, 3), (4,), {"real": True}),
    ((64, 1), (4,), {}),  # four-step, as there is nothing else to split
    ((61, 1), (4,), {}),
    ((8, 8, 8), (2, 2), {}),
    ((7, 5, 3), (2, 2), {}),
    ((7, 5, 6), (2, 2), {"real": True}),
    ((3, 1, 4), (2, 2), {}),
    ((7, 5, 3), (1, 4), {}),
    ((2, 3, 2), (2, 2), {"real": True}),
]
BY_DEFAULT = [RUNS[index] for index in (0, 3, 4, 5, 7, 9, 11, 14, 17, 21, 22)]


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("shape", "mesh", "more"),
    [run if run in BY_DEFAULT else sweeps.whole(*run) for run in RUNS],
    ids=str,
)
def test_exchanges_and_bytes_are_those_of_a_run(four, shape, mesh, more):
    """A chip of trn2 has all four, so that the most bytes take the longest."""
    plan = distributed.plan(shape, mesh, target="trn2", cores=1, **more)
    is_real = more.get("real", False)
    arguments = {name: value for name, value in more.items() if name == "order"}
    name = "rfft" if is_real and not arguments else "fft"
    name += "n" if len(shape) > 1 else ""
    placements, common = range(len(mesh)), {"is_complex": not is_real, "dtype": torch.float32}
    case = Case(name, shape, mesh, tuple(placements), arguments, **common)
    runs = four.run(sent_to_others, case)
    planned = [sum(part.bytes for part in exchange.traffic) for exchange in plan.exchanges]
    assert planned == [max(sent) for sent in zip(*runs, strict=True)]
