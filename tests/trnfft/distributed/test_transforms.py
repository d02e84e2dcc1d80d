"""Transforms of DTensors by several processes, compared with torch.fft, and their exchanges."""

import math
from dataclasses import replace

import pytest
import torch

from tests import sweeps
from tests.tolerances import transforms
from tests.trnfft.distributed import cases
from tests.trnfft.distributed.cases import Case
from tests.trnfft.samples import Noted

REAL = {"is_complex": False}
SLABS = [
    Case("fftn", (8, 6, 4), (4,), (0,)),
    Case("fftn", (7, 5, 3), (4,), (1,), form="parts"),
    Case("fftn", (7, 5, 3), (4,), (2,), form="joined"),
    Case("fftn", (7, 5, 3), (4,), (0,), **REAL),
    Case("ifftn", (5, 9), (4,), (1,), {"norm": "ortho"}),
    Case("fft2", (3, 6, 10), (4,), (1,), {"norm": "forward"}),
    Case("ifft", (6, 10), (4,), (1,)),
    Case("fftn", (6, 5, 4), (4,), (0,), {"s": (9, 3), "dim": (0, 2)}),
    Case("fftn", (6, 5, 4), (4,), (0,), {"s": (3, 2, 4)}),
    Case("fftn", (2, 3), (4,), (0,)),
    Case("rfftn", (7, 5, 6), (4,), (2,), **REAL),
    Case("rfftn", (7, 5, 6), (4,), (0,), {"norm": "ortho"}, **REAL),
    Case("rfft", (4, 7), (4,), (1,), {"n": 9}, **REAL),
    Case("irfftn", (7, 5, 3), (4,), (2,)),
    Case("irfftn", (7, 5, 3), (4,), (0,), {"s": (7, 5, 7)}),
    Case("irfft2", (7, 5, 3), (4,), (1,), {"norm": "ortho"}),
    Case("hfft", (5, 7), (4,), (1,)),
    Case("ihfft", (5, 7), (4,), (1,), **REAL),
    Case("fftn", (4, 0, 3), (4,), (0,), {"dim": (0, 2)}),
    Case("fftn", (4, 3), (4,), (0,), {"dim": ()}, **REAL),
    Case("fftn", (4, 3), (4,), (0,), {"dim": ()}),
]
PENCILS = [
    Case("fftn", (6, 4, 5), (2, 2), (0, 1)),
    Case("fftn", (6, 4, 5), (2, 2), (1, 0)),
    Case("fftn", (6, 7), (2, 2), (0, 1)),
    Case("fftn", (9, 4), (2, 2), (0, 0)),
    Case("rfftn", (6, 4, 5), (2, 2), (2, 1), **REAL),
    Case("irfftn", (6, 4, 5), (2, 2), (0, 2), {"norm": "forward"}),
    Case("fft", (6, 7), (2, 2), (0, 1), {"dim": 1}),
    Case("fftn", (6, 7, 2), (2, 2), (0, "R")),
    Case("rfft", (6, 7), (2, 2), ("R", 1), **REAL),
    Case("fft", (6, 7), (2, 2), ("P", 1)),
    Case("rfftn", (6, 7), (2, 2), ("P", "P"), **REAL),
    Case("fftn", (6, 7, 3), (1, 4), (0, 1)),
    Case("fftn", (4, 5, 6, 3), (2, 2), (1, 2), {"dim": (1, 2)}),
]
PLACED = [
    Case("fftn", (6, 5, 4), (4,), (0,), out=(1,)),
    Case("ifftn", (6, 5, 4), (4,), (1,), out=(0,)),
    Case("rfftn", (6, 4, 5), (2, 2), (0, 1), out=(1, 2), **REAL),
    Case("irfftn", (6, 4, 5), (2, 2), (1, 2), out=(0, 1)),
    Case("fftn", (6, 5, 4), (4,), (0,), {"dim": (1, 2)}, out=(2,)),
]
ACROSS = [
    Case("fft", (64,), (4,), (0,)),
    Case("fft", (60,), (4,), (0,), {"order": "planned"}),
    Case("fft", (3, 64), (4,), (1,), {"order": "planned"}),
    Case("ifft", (60,), (4,), (0,), {"norm": "ortho", "n": 72}),
    Case("ifft", (60,), (4,), (0,), {"n": 24}),
    Case("fft", (35,), (4,), (0,)),
    Case("fft", (61,), (4,), (0,), {"norm": "forward"}),
    Case("ifft", (61,), (4,), (0,), {"norm": "ortho"}),
    Case("fft", (3,), (4,), (0,)),
    Case("fft", (1,), (4,), (0,)),
    Case("fft", (64,), (2, 2), ("R", 0)),
    Case("fftn", (64, 1), (4,), (0,)),
    Case("rfft", (64,), (4,), (0,), **REAL),
    Case("rfft", (9,), (4,), (0,), {"n": 13, "norm": "ortho"}, **REAL),
    Case("irfft", (33,), (4,), (0,)),
    Case("irfft", (9,), (4,), (0,), {"n": 13}),
    Case("irfft", (9,), (4,), (0,), {"n": 24, "norm": "ortho"}),
    Case("hfft", (9,), (4,), (0,)),
    Case("ihfft", (36,), (4,), (0,), **REAL),
    Case("fft", (64,), (4,), (0,), **REAL),
]


# Those whose functions, kinds of data and lengths occur in other cases, if not together.
LIKE_OTHERS = [*(SLABS[i] for i in (6, 12, 15, 17)), *(ACROSS[i] for i in (1, 5, 16, 19))]
GROUPS = {"slabs": SLABS, "pencils": PENCILS, "placed": PLACED, "across": ACROSS}


@pytest.mark.parametrize(
    "group",
    [
        *([case for case in group if case not in LIKE_OTHERS] for group in GROUPS.values()),
        sweeps.whole(LIKE_OTHERS),
    ],
    ids=[*GROUPS, "like others"],
)
def test_as_torch(four, group):
    four.run(cases.check, group)


WITH_BACKENDS = [SLABS[11], SLABS[13], ACROSS[6], SLABS[1], PENCILS[4], ACROSS[0]]


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("backend", "count"),
    [("matmul", 3), ("nki-sim", 3), *(sweeps.whole(name, 6) for name in ("matmul", "nki-sim"))],
)
def test_backends(four, backend, count):
    """Real and complex data, and Bluestein's algorithm, for so many cases."""
    chosen = [replace(c, backend=backend, dtype=torch.float32) for c in WITH_BACKENDS[:count]]
    four.run(cases.check, chosen)


@pytest.mark.weekly
@pytest.mark.parametrize("step", [6, sweeps.whole(1)])
def test_two_processes(two, step):
    """One of so many of the cases that have one dimension of a mesh."""
    chosen = [replace(c, mesh=(2,)) for c in SLABS + ACROSS if c.mesh == (4,)]
    two.run(cases.check, chosen[::step])


def exchanged(rank, name, shape, mesh, placements, arguments):
    """The all-to-alls of one call, the bytes that this process sends in them, and other counts."""
    import trnfft

    case = Case(name, shape, mesh, placements)
    given = cases.spread(cases.sample(case), case)

    namespace = trnfft.distributed if "out_placements" in arguments else trnfft
    if "out_placements" in arguments:
        arguments = {
            **arguments,
            "out_placements": cases.placements_of(arguments["out_placements"]),
        }
    with Noted() as noted:
        _, counts = cases.counted(lambda: getattr(namespace, name)(given, **arguments))
    return [args[0].nbytes for args in cases.all_to_alls(noted)], counts


CUBE = 8 * 8 * 8 * 16 // 4  # bytes of complex numbers in a shard


@pytest.mark.parametrize(
    ("name", "shape", "mesh", "placements", "arguments", "wanted"),
    [
        ("fftn", (8, 8, 8), (4,), (0,), {}, [CUBE] * 2),
        ("fftn", (8, 8, 8), (4,), (0,), {"out_placements": (1,)}, [CUBE]),
        ("ifftn", (8, 8, 8), (4,), (1,), {"out_placements": (0,)}, [CUBE]),
        ("fftn", (8, 8, 8), (2, 2), (0, 1), {}, [CUBE] * 4),
        ("fftn", (8, 8, 8), (2, 2), (0, 1), {"out_placements": (1, 2)}, [CUBE] * 2),
        ("fftn", (8, 8, 8), (4,), (0,), {"dim": (1, 2)}, []),
        ("fft", (512,), (4,), (0,), {}, [CUBE] * 3),
        ("fft", (512,), (4,), (0,), {"order": "planned"}, [CUBE] * 2),
        ("ifft", (512,), (4,), (0,), {"order": "planned"}, [CUBE] * 2),
    ],
)  # fmt: skip
def test_bytes_exchanged(four, name, shape, mesh, placements, arguments, wanted):
    for sent, counts in four.run(exchanged, name, shape, mesh, placements, arguments):
        assert sent == wanted
        compared = counts.pop("c10d.alltoall_base_", 0)
        assert compared == (len(mesh) if wanted else 0)
        assert sum(counts.values()) == len(wanted)  # all-to-alls, and nothing else


def there_and_back(rank, shape):
    """Fails unless the inverse of the planned order is what it was made of."""
    import trnfft

    case = Case("fft", shape, (4,), (len(shape) - 1,), form="parts")
    x = cases.spread(cases.sample(case), case)
    y = trnfft.ifft(trnfft.fft(x, order="planned"), order="planned")
    assert y.real.placements == x.real.placements
    cases.compare(y, cases.sample(case), transforms(4 * math.prod(shape), 4, "float64"))


@pytest.mark.parametrize(
    "shape", [(64,), (61,), (3, 64), *map(sweeps.whole, [(60,), (70,), (5,)])], ids=str
)
def test_planned_order_there_and_back(four, shape):
    four.run(there_and_back, shape)


def test_frequencies():
    from trnfft.distributed import frequencies

    assert frequencies(16, 4).tolist() == [*range(0, 16, 4), *range(1, 16, 4)] + [
        *range(2, 16, 4),
        *range(3, 16, 4),
    ]
    assert frequencies(61, 4).tolist() == list(range(61))  # no rows and columns
    assert frequencies(16, 1).tolist() == list(range(16))
