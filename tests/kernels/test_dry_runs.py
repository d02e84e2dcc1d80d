"""A dry run, which needs no data, takes as long as the launch; prices and limits rely on it."""

import pytest

from .launched import Launched
from .samples import normal, real


@pytest.mark.parametrize(
    ("algorithm", "shape", "radices", "options"),
    [
        ("bluestein", (300, 40), (80,), {}),
        ("bluestein", (300, 131), (24, 11), {}),
        ("butterfly", (500, 64), (), {}),
        ("butterfly", (3, 128), (), {"compensated": True}),
        ("dft_gemm", (500, 96), (), {}),
        ("folded_dft", (300, 509), (), {}),
        ("four_step", (3, 1024), (16, 4, 16), {}),
        ("long_bluestein", (3, 131), (128, 3), {}),
        ("split_bluestein", (1, 601), (65, 3, 14), {}),
        ("split_four_step", (2, 4096), (16, 16, 16), {}),
        ("stockham", (300, 512), (16, 32), {}),
        ("strided_stockham", (2, 96, 150), (8, 12), {}),
        ("real_dft_gemm", (500, 96), (), {}),
        ("real_stockham", (300, 320), (16, 20), {}),
        ("real_four_step", (5, 5760), (36, 4, 40), {}),
        ("inverse_real_dft_gemm", (500, 96), (), {}),
        ("inverse_real_stockham", (300, 320), (16, 20), {}),
        ("inverse_real_four_step", (5, 5760), (36, 4, 40), {}),
    ],
    ids=str,
)
def test_a_dry_run_is_the_real_timeline(algorithm, shape, radices, options):
    launched, (batch, *sizes) = Launched(algorithm), shape
    if launched.is_to_real:
        sizes = [sizes[0] // 2 + 1]
    x = (real if algorithm.startswith("real") else normal)(batch, *sizes)
    _, timeline, _ = launched.transform(x, radices, **options)
    assert launched.dry_run(shape, radices, **options).total_ns == timeline.total_ns
