"""Convolution of DTensors, compared with that by one process, and its exchanges."""

import random
from dataclasses import replace

import pytest
import torch

from tests import sweeps
from tests.trnfft.distributed import cases
from tests.trnfft.distributed.cases import Case


def convolved(rank, case, filter_shape, filter_placements, is_complex, arguments):
    """The largest error of this process's part, and the all-to-alls of transforms."""
    from torch.distributed.tensor.debug import CommDebugMode

    import trnfft

    x = cases.sample(case)
    h = cases.sample(Case("", filter_shape, (4,), (0,), is_complex=is_complex, seed=1))
    given = cases.spread(x, case)
    filter = h
    if filter_placements is not None:
        filter = cases.spread(h, Case("", filter_shape, case.mesh, filter_placements))
    with CommDebugMode() as counted:
        y = getattr(trnfft.distributed, case.name)(given, filter, **arguments)
    assert not cases.gathers(counted)
    part = y.real if isinstance(y, trnfft.ComplexTensor) else y
    assert part.placements == cases.summed_of(case.placements)
    wanted = reference(x, h, **arguments)
    assert part.shape == wanted.shape
    own, expected = cases.local(y), cases.own_part(wanted, part)
    error = (own - expected).abs().max() / wanted.abs().max() if own.numel() else 0.0
    exchanges = counted.get_comm_counts()[torch.ops.c10d_functional.all_to_all_single]
    return float(error), exchanges


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
    for error, count in four.run(convolved, case, shape, placements, is_complex, arguments):
        assert error < 1e-14
        assert count == exchanges


def of_line(rank):
    import trnfft

    case = Case("", (70,), (4,), (0,), **REAL)
    x, h = cases.sample(case), torch.linspace(-1, 2, 9, dtype=torch.float64)
    y = trnfft.convolve(cases.spread(x, case), h, "same")
    wanted = reference(x, h, "same")
    return (y.to_local() - cases.own_part(wanted, y)).abs().max().item()


def test_one_dimension(four):
    assert max(four.run(of_line)) < 1e-13


def gradients(rank):
    """The largest error of the gradients, of both operands, relative to the largest number."""
    import trnfft

    case = Case("", (9, 6, 5), (4,), (0,), **REAL)
    x, h = cases.sample(case), cases.sample(Case("", (3, 2, 4), (4,), (0,), **REAL))
    whole, filter = x.clone().requires_grad_(), h.clone().requires_grad_()
    trnfft.convolve(whole, filter).square().sum().backward()
    given, own = cases.spread(x, case).requires_grad_(), h.clone().requires_grad_()
    y = trnfft.convolve(given, own)
    (y * y).sum().backward()
    assert given.grad.placements == given.placements
    mine = cases.own_part(whole.grad, given)
    errors = [given.grad.to_local() - mine, own.grad - filter.grad]
    return (
        max(e.abs().max().item() if e.numel() else 0 for e in errors)
        / filter.grad.abs().max().item()
    )


def test_gradients(four):
    assert max(four.run(gradients)) < 1e-14


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
    """For each call the largest error of its result and of both gradients, of this process."""
    from torch.distributed.tensor import DTensor

    import trnfft

    found = []
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
        errors = [y.to_local() - cases.own_part(wanted, y)]
        for mine, whole in ((given.grad, x.grad), (own.grad, h.grad)):
            is_split = isinstance(mine, DTensor)
            errors.append(
                mine.to_local() - cases.own_part(whole, mine) if is_split else mine - whole
            )
        found.append(max(e.abs().max().item() if e.numel() else 0.0 for e in errors))
    return found


@pytest.mark.parametrize(
    ("processes", "placements", "count"),
    [
        *[(2, (0,), 0), (2, ("R",), 0), (4, None, 0)],
        sweeps.whole(2, None, 3),
        *[sweeps.whole(n, each, 12) for n in (2, 4) for each in (None, (0,), ("R",))],
    ],
)
def test_fewer_numbers_than_processes(request, processes, placements, count):
    """Also numbers of a spectrum: half of one of 7 is 4. Gradients are up to 1e3.

    Besides so many calls that are drawn. Each shape takes time, as DTensor plans its operators.
    """
    group = request.getfixturevalue({2: "two", 4: "four"}[processes])
    generator = random.Random(processes)
    calls = small(processes, (processes,))
    if placements == (0,):  # shards of a filter are for inputs that are split, too
        calls = [call for call in calls if call[0].placements != ("R",)]
    calls += [drawn(generator, (processes,)) for _ in range(count)]
    for call, *found in zip(calls, *group.run(with_gradients, calls, placements), strict=True):
        assert max(found) < 1e-11, call


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


def compiled(rank):
    """Errors of compiled calls and their gradients, relative to the largest number."""
    import trnfft

    case = Case("", (9, 6, 5), (2,), (0,), **REAL)
    taps = torch.randn(1, 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    out = cases.placements_of((1,))
    calls = {
        "convolve": lambda x, h: trnfft.convolve(x, h, "same"),
        "along one dimension": lambda x, h: trnfft.convolve(x, h[:, :1], dims=-1),
        "distributed.convolve": lambda x, h: trnfft.distributed.convolve(x, (1 + 2j) * h).real,
        "fftn": lambda x, h: trnfft.distributed.fftn(x * h.sum()).real,
        "rfftn": lambda x, h: trnfft.distributed.rfftn(x * h.sum(), out_placements=out).imag,
    }
    found = {}
    for name, call in calls.items():
        torch._dynamo.reset()
        results = []
        for function in (torch.compile(call, backend="aot_eager", fullgraph=True), call):
            x, h = cases.spread(cases.sample(case), case).requires_grad_(), taps.clone()
            y = function(x, h.requires_grad_())
            (y * y).sum().backward()
            results.append([y.full_tensor().detach(), x.grad.full_tensor(), h.grad])
        pairs = zip(*results, strict=True)
        found[name] = max(((a - b).abs().max() / b.abs().max()).item() for a, b in pairs)
    return found


@pytest.mark.slow
def test_compiled(two):
    """Slow, as two processes load torch's compiler."""
    for found in two.run(compiled):
        assert {name: error for name, error in found.items() if error > 1e-14} == {}
