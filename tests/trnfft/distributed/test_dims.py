"""Dimensions of functions of DTensors: from either end, and dimensions that do not exist."""

import torch

from tests.tolerances import transforms
from tests.trnfft.distributed import cases
from tests.trnfft.distributed.cases import Case


def at_the_ends(rank):
    """The all-to-alls of oaconvolve along either end; fails unless it is right."""
    from torch.distributed.tensor.debug import CommDebugMode

    import trnfft

    found = {}
    for split in (0, 2):
        case = Case("", (4, 5, 6), (2,), (split,), is_complex=False)
        x = cases.sample(case)
        for axis in (-3, -1, 0, 2):
            taps = torch.ones([3 if dim == axis % 3 else 1 for dim in range(3)])
            with CommDebugMode() as counted:
                y = trnfft.oaconvolve(cases.spread(x, case), taps, "same", axis)
            cases.compare(y, trnfft.oaconvolve(x, taps, "same", axis), transforms(16, 4, x.dtype))
            found[split, axis] = counted.get_comm_counts()[
                torch.ops.c10d_functional.all_to_all_single
            ]
    return found


def test_both_ends(two):
    for found in two.run(at_the_ends):
        for (split, axis), count in found.items():
            assert count == (2 if axis % 3 == split else 0), (split, axis)


def beyond(rank):
    """Errors, and collectives before them, for dimensions that a split tensor has not."""
    from torch.distributed.tensor.debug import CommDebugMode

    import trnfft

    line = Case("", (8,), (2,), (0,), is_complex=False)
    rows = Case("", (4, 6), (2,), (0,), is_complex=False)
    found = []
    for case, axes in ((line, (1, -2, 7)), (rows, (2, -3, 4))):
        x = cases.spread(cases.sample(case), case)
        for axis in axes:
            with CommDebugMode() as counted:
                one = torch.ones([1] * x.ndim)
                kind, text = cases.text_of(lambda: trnfft.oaconvolve(x, one, dims=axis))  # noqa: B023
            found.append((axis, kind, text, counted.get_total_counts()))
    return found


def test_dimensions_that_are_not_there(two):
    """They are refused by the function, and are not taken for others, along which it could not."""
    for found in two.run(beyond):
        for axis, kind, text, count in found:
            assert kind == "IndexError" and f"argument 'dims' is {axis}, " in text, (kind, text)
            assert count == 0
