"""The backend of kernels refuses arguments that kernels cannot check."""

from __future__ import annotations

import pytest
import torch

from trnfft.backends.choice import named
from trnfft.planner.kinds import BlockCirculant, Convolution, Transform
from trnfft.planner.plan import Recipe
from trnfft.planner.planner import plan, plan_for

N, BATCH = 12, 4


def recipes():
    """Of every kind of data, with shapes that the kernel takes and what is wrong with others."""
    images = [(2, 20, 12), (1, 7, 20), (1, 7, 20)]
    blocks = plan_for(BlockCirculant(2, 3, 4), batch=BATCH)
    return {
        "complex": (plan(N, batch=BATCH).recipe, [(BATCH, N)] * 2),
        "real": (Recipe("real_stockham", Transform((N,), part="r2c"), (3, 4)), [(BATCH, N)]),
        "to real": (
            Recipe("inverse_real_dft_gemm", Transform((N,), part="c2r")),
            [(BATCH, N // 2 + 1)] * 2,
        ),
        "axes": (plan(shape=(6, 8), batch=BATCH).recipe, [(BATCH, 6, 8)] * 2),
        "rows": (
            Recipe("convolve_rows", Convolution((N,)), (3, 4)),
            [(BATCH, N), *[(1, N // 2 + 1)] * 2],
        ),
        "images": (plan_for(Convolution((20, 12), (20, 12))).recipe, images),
        "blocks": (blocks.recipe, [(BATCH, 3, 4), (2, 3, 4), (1, 2, 4)]),
    }


@pytest.fixture
def run():
    backend = named("nki-sim")
    return lambda recipe, shapes: backend.run(recipe, [torch.ones(shape) for shape in shapes])


@pytest.mark.parametrize("kind", ["complex", "real", "to real", "axes", "rows", "images", "blocks"])
def test_shapes_that_a_recipe_is_not_for_are_refused(run, kind):
    recipe, shapes = recipes()[kind]
    run(recipe, shapes)
    for index, shape in enumerate(shapes):
        wrong = [*shapes[:index], (*shape[:-1], shape[-1] - 1), *shapes[index + 1 :]]
        with pytest.raises(ValueError, match=r"inputs have shapes .* needs \["):
            run(recipe, wrong)


def test_how_many_filters_there_are(run):
    rows, images = recipes()["rows"], recipes()["images"]
    run(rows[0], [rows[1][0], *[(BATCH, N // 2 + 1)] * 2])
    run(images[0], [(4, 20, 12), *[(2, 7, 20)] * 2])
    with pytest.raises(ValueError, match="inputs have shapes"):
        run(rows[0], [rows[1][0], *[(3, N // 2 + 1)] * 2])
    with pytest.raises(ValueError, match="inputs have shapes"):
        run(images[0], [(4, 20, 12), (2, 7, 20), (1, 7, 20)])
