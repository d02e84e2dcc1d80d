"""The cases of a sweep that run by default."""

import itertools

import pytest

from tests import sweeps

AXES = {"chip": ["trn1", "trn2", "trn3"], "shape": [(1, 2), (3, 4)], "cores": [1, 2]}


def cases(mark):
    """Returns the values of each case of a parametrization, and whether it runs by default."""
    return [
        (each.values, not each.marks) if hasattr(each, "marks") else ((each,), True)
        for each in mark.mark.args[1]
    ]


def test_all_cases_are_there_and_any_two_values_meet_by_default():
    found = cases(sweeps.pairs(**AXES))
    assert [values for values, _ in found] == list(itertools.product(*AXES.values()))
    chosen = [values for values, is_default in found if is_default]
    assert len(chosen) < len(found)
    for one, other in itertools.combinations(range(3), 2):
        both = list(AXES.values())
        met = {(values[one], values[other]) for values in chosen}
        assert met == set(itertools.product(both[one], both[other]))


def test_named_cases_run_by_default():
    assert cases(sweeps.some("n", [1, 2, 3], [2])) == [((1,), False), ((2,), True), ((3,), False)]
    mark = sweeps.some("n, m", [(1, 2), (3, 4)], [(3, 4)])
    assert cases(mark)[0] == ((1, 2), False)
    with pytest.raises(ValueError, match=r"has \[7\], which are no cases of 'n'"):
        sweeps.some("n", [1], [7])
