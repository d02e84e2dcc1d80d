"""Factors of long transforms, at indices beyond any memory, compared with exact integers."""

import math

import pytest
import torch

from tests.tolerances import near
from tests.trnfft.distributed.cases import ANGLES
from trnfft.distributed.layout import Interval
from trnfft.distributed.run import phases
from trnfft.distributed.run.phases import Chirp, Twiddles, factors, rotated


def exact(numerator, modulus, sign):
    angle = 2 * math.pi * ((numerator + modulus // 2) % modulus - modulus // 2) / modulus
    return complex(math.cos(angle), sign * math.sin(angle))


@pytest.mark.parametrize("start", [0, 2**20 - 4])
def test_twiddles(start):
    rows, columns = Interval(start, start + 3), Interval(2**20 - 5, 2**20)
    found = torch.complex(
        *factors(Twiddles(rows, columns, 2**40, -1), torch.float64, torch.device("cpu"))
    )
    wanted = [[exact(a * b, 2**40, -1) for b in range(*columns)] for a in range(*rows)]
    near(found, wanted, ANGLES)


@pytest.mark.parametrize("n", [7, 2**40 - 87])
def test_chirp(n):
    rows = Interval(n - 7, n)
    found = torch.complex(*factors(Chirp(rows, n, 1), torch.float64, torch.device("cpu")))[:, 0]
    wanted = [exact(j * j, 2 * n, 1) for j in range(*rows)]
    near(found, wanted, ANGLES)


def test_chirp_around_a_circle():
    found = torch.complex(
        *factors(Chirp(Interval(0, 16), 5, -1, period=16), torch.float64, torch.device("cpu"))
    )[:, 0]
    wanted = [exact(j * j, 10, -1) if j < 5 else 0 for j in (*range(9), *range(7, 0, -1))]
    near(found, wanted, ANGLES)


@pytest.mark.parametrize(
    "table", [Twiddles(Interval(3, 14), Interval(2, 7), 64, -1), Chirp(Interval(3, 14), 20, 1)]
)
def test_products_with_some_rows_at_a_time(monkeypatch, table):
    columns = table.columns.size
    monkeypatch.setattr(phases, "_BLOCK", 4 * columns)
    ones = torch.ones(2, 11, columns, dtype=torch.float64)
    found = rotated([ones, 0 * ones], table)
    wanted = factors(table, torch.float64, torch.device("cpu"))
    for part, expected in zip(found, wanted, strict=True):
        near(part, expected.expand(2, -1, -1), ANGLES)
