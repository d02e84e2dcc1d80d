"""Convolution of DTensors, compared with that by one process, and its exchanges."""

import random
from dataclasses import replace

import pytest
import torch

from tests import sweeps
from tests.tolerances import transforms
from tests.trnfft.distributed import cases
from tests.trnfft.distributed.cases import Case


def tolerance(x, count=1):
    """Of results of convolutions, one after the other, and of the references.

    Each is two transforms, of three dimensions that are padded to less than twice their lengths.
    """
    return transforms(8 * x.numel(), 4 * count, x.dtype)


def convolved(rank, case, filter_shape, filter_placements, is_complex, arguments):
    """The all-to-alls of transforms; fails unless this process's part is right."""
    import trnfft

    x = cases.sample(case)
    h = cases.sample(Case("", filter_shape, (4,), (0,), is_complex=is_complex, seed=1))
    given = cases.spread(x, case)
    filter = h
    if filter_placements is not None:
        filter = cases.spread(h, Case("", filter_shape, case.mesh, filter_placements))
    function = getattr(trnfft.distributed, case.name)
    y, counts = cases.counted(lambda: function(given, filter, **arguments))
    assert not cases.gathers(counts)
    part = y.real if isinstance(y, trnfft.ComplexTensor) else y
    assert part.placements == cases.summed_of(case.placements)
    cases.compare(y, reference(x, h, **arguments), tolerance(x))
    return counts[cases.EXCHANGE]


def reference(x, h, mode="full", dims=None):
    """By one process; tests/trnfft/convolution compares that with scipy's."""
    import trnfft

    y = trnfft.convolve(x, h, mode, dims)
    return trnfft.as_native(y)


REAL = {"is_complex": False}


SLAB = Case("convolve", (9, 6, 5), (4,), (0,), **REAL)
LAST = Case("convolve", (9, 6, 5), (4,), (2,), **REAL)
PENCIL = Case("convolve", (9, 6, 5), (2, 2), (0, 1), **REAL)


@pytest.mark.parametrize(
    ("case", "shape", "placements", "is_complex", "arguments", "exchanges"),
    [
        (SLAB, (3, 2, 4), None, False, {}, 2),
        (replace(SLAB, is_complex=True), (3, 2, 4), None, True, {"mode": "same"}, 2),
        (SLAB, (5, 3, 4), (0,), False, {}, 3),
        (SLAB, (1, 1, 4), None, False, {"dims": -1}, 0),
        (LAST, (3, 2, 4), None, False, {"mode": "valid"}, 2),
        (PENCIL, (3, 2, 4), None, False, {"mode": "same"}, 4),
        (SLAB, (3, 2, 4), None, True, {}, 2),
        (SLAB, (3, 2, 4), ("P",), False, {}, 2),
        (replace(SLAB, placements=("P",)), (3, 2, 4), None, False, {}, 0),
        (replace(PENCIL, placements=("P", 0)), (3, 2, 4), ("R", "P"), True, {"mode": "same"}, 2),
    ],
)
def test_as_one_process(four, case, shape, placements, is_complex, arguments, exchanges):
    counts = four.run(convolved, case, shape, placements, is_complex, arguments)
    assert counts == [exchanges] * 4


def of_line(rank):
    import trnfft

    case = Case("", (70,), (4,), (0,), **REAL)
    x, h = cases.sample(case), torch.linspace(-1, 2, 9, dtype=torch.float64)
    y = trnfft.convolve(cases.spread(x, case), h, "same")
    cases.compare(y, reference(x, h, "same"), tolerance(x))


def test_one_dimension(four):
    four.run(of_line)


def small(processes, mesh):
    """Inputs and filters along one or the other of which there are fewer numbers than processes."""
    wide = Case("", (3, 12), mesh, (1,), **REAL)
    inputs = [wide, replace(wide, shape=(2, 12)), replace(wide, shape=(3, 5))]
    spans = [(x, (3, 3), {"mode": "same"}) for x in inputs]
    single = Case("", (1,), mesh, (0,), **REAL)
    row = replace(wide, shape=(1, 9), placements=(0,))  # the one number is for all of the filter
    return [
        *spans,
        (single, (3,), {"mode": "same"}),
        (single, (1,), {}),
        (replace(wide, is_complex=True), (1, 3), {"mode": "same"}),
        (wide, (1, 1), {"mode": "valid"}),
        (replace(wide, shape=(3, 2)), (7, 1), {}),
        (row, (2 * processes, 4), {"dims": -1}),
        (replace(wide, shape=(1, 3)), (5, 7), {"mode": "valid"}),
        (replace(single, shape=(2,), placements=("R",)), (7,), {"mode": "valid"}),
    ]


def drawn(generator, mesh):
    """An input, the shape of a filter, and arguments, of which not all are allowed for one."""
    ndim = generator.randint(1, 3)
    shape = [generator.randint(1, 9) for _ in range(ndim)]
    filter = [generator.choice([1, 2, 3, generator.randint(1, 9)]) for _ in range(ndim)]
    mode = generator.choice(["full", "same", "valid"])
    if mode == "valid":
        filter = [min(pair) for pair in zip(shape, filter, strict=True)]
    x = Case("", tuple(shape), mesh, (generator.randrange(ndim),), **REAL)
    return replace(x, seed=generator.randint(0, 99)), tuple(filter), {"mode": mode}


def with_gradients(rank, calls, filter_placements):
    """Fails unless the result and both gradients of each call are as by one process."""
    from torch.distributed.tensor import DTensor

    import trnfft

    for case, filter_shape, arguments in calls:
        filter = Case("", filter_shape, case.mesh, filter_placements or (), **REAL, seed=1)
        x, h = cases.sample(case).requires_grad_(), cases.sample(filter).requires_grad_()
        given = cases.spread(x.detach(), case).requires_grad_()
        own = h.detach().clone() if filter_placements is None else cases.spread(h.detach(), filter)
        own.requires_grad_()
        y, wanted = (trnfft.convolve(*pair, **arguments) for pair in ((given, own), (x, h)))
        y, wanted = (z.real if z.is_complex() else z for z in (y, wanted))
        assert y.shape == wanted.shape and y.placements == given.placements, (case, filter_shape)
        (y * y).sum().backward()
        (wanted * wanted).sum().backward()
        message = f"{case}, {filter_shape}, {arguments}"
        # Few numbers may have cancelled: their errors are relative to all of the convolution.
        full = trnfft.convolve(x, h, dims=arguments.get("dims")).detach()
        full = full.real if full.is_complex() else full
        sizes = [float(part.square().mean()) ** 0.5 for part in (full, wanted.detach())]
        cancelled = max(1.0, sizes[0] / sizes[1]) if wanted.numel() else 1.0
        once, twice = (cancelled * tolerance(full, count) for count in (1, 2))
        cases.compare(y, wanted, once, message=message)
        cases.compare(given.grad, x.grad, twice, message=message)
        if isinstance(own, DTensor):
            cases.compare(own.grad, h.grad, twice, message=message)
        else:
            cases.near(own.grad, h.grad, twice, message=message)


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("processes", "placements", "count"),
    [
        *[(2, (0,), 0), (2, None, 0)],
        *[sweeps.whole(2, ("R",), 0), sweeps.whole(4, None, 0)],
        *[sweeps.whole(n, each, 12) for n in (2, 4) for each in (None, (0,), ("R",))],
    ],
)
def test_fewer_numbers_than_processes(request, processes, placements, count):
    """Also numbers of a spectrum: half of one of 7 is 4.

    Besides so many calls that are drawn. Each shape takes time, as DTensor plans its operators.
    """
    group = request.getfixturevalue({2: "two", 4: "four"}[processes])
    generator = random.Random(processes)
    calls = small(processes, (processes,))
    if placements == (0,):  # shards of a filter are for inputs that are split, too
        calls = [call for call in calls if call[0].placements != ("R",)]
    calls += [drawn(generator, (processes,)) for _ in range(count)]
    group.run(with_gradients, calls, placements)


def test_gradients(four):
    four.run(with_gradients, [(SLAB, (3, 2, 4), {})], None)


def with_other_filters(rank):
    """Errors for filters that are split where the input is not, or the other way round."""
    import trnfft

    def spread(shape, placements):
        case = Case("", shape, (2, 2), placements, **REAL)
        return cases.spread(cases.sample(case), case)

    x, copies = spread((6, 8), (0, 1)), spread((6, 8), ("R", "R"))
    calls = [
        lambda: trnfft.convolve(x, spread((3, 3), ("R", 0))),
        lambda: trnfft.convolve(copies, spread((3, 3), (0, 1)), "same"),
        lambda: trnfft.convolve(copies, spread((9, 9), (0, 1)), "valid"),
    ]
    return [cases.text_of(call) for call in calls]


def test_filters_split_along_other_dimensions_of_the_mesh_are_refused(four):
    for found in four.run(with_other_filters):
        for kind, text in found:
            assert kind == "NotImplementedError"
            assert "argument 'filter' has the placements" in text and "redistribute" in text
