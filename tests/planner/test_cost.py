"""Prices of launches on two cores, for a kernel of this file whose programs share its rows."""

from dataclasses import replace

import numpy as np
import platformdirs
import pytest

import nki_sim
import trnfft
from nki_kernels.base import launch
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware
from nki_sim.hardware import LNC_VARIABLE, TARGET_VARIABLE
from tests.sweeps import whole
from trnfft.planner import cost, lengths, planner
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.algorithms.algorithm import LengthAlgorithm
from trnfft.planner.kinds import BlockCirculant, Convolution, Transform
from trnfft.planner.plan import Plan, Recipe
from trnfft.planner.workspace import workspace_bytes

TRN2 = hardware.chip("trn2")
ROWS = 128


@nki.jit
def doubled(x_re, x_im):
    """2 x, in turns of 128 rows; the programs of a launch have neighbouring blocks of turns."""
    batch, n = x_re.shape
    outputs = [nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm) for _ in range(2)]
    rows = -(-batch // nl.num_programs(0))
    first = rows * nl.program_id(0)
    loaded = nl.ndarray((ROWS, n), dtype=nl.float32, buffer=nl.sbuf)
    for start in range(first, min(first + rows, batch), ROWS):
        stop = min(start + ROWS, first + rows, batch)
        for x, y in zip((x_re, x_im), outputs, strict=True):
            tile = nl.ndarray((stop - start, n), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=loaded[0 : stop - start], src=x[start:stop])
            nisa.tensor_scalar(tile, loaded[0 : stop - start], nl.multiply, 2.0)
            nisa.dma_copy(dst=y[start:stop], src=tile)
    return tuple(outputs)


@nki.jit
def greedy(x_re, x_im):
    """As `doubled`, but every program does all of it."""
    y = nl.ndarray(x_re.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=y, src=x_re)
    return y, y


class Stub(LengthAlgorithm):
    def __init__(self, name, kernel):
        self.name, self.kernel = name, kernel

    def why_not(self, n):
        return ""

    def specs(self, recipe):
        return ()

    def error(self, recipe):
        return 1e-7


@pytest.fixture(autouse=True)
def stubs(monkeypatch, tmp_path):
    """Two kernels more, whose plans go to a folder that no other test reads."""
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path))
    planner.forget()
    monkeypatch.setitem(ALGORITHMS, "doubled", Stub("doubled", doubled))
    monkeypatch.setitem(ALGORITHMS, "greedy", Stub("greedy", greedy))
    yield
    planner.forget()


def plan(cores, name="doubled", **others):
    return trnfft.plan(256, target="trn2", cores=cores, algorithms=name, **{"batch": 256, **others})


@pytest.mark.parametrize("cores", [1, 2])
def test_a_price_is_that_of_the_launch_on_so_many_cores(cores):
    zeros = np.zeros((256, 256), np.float32)
    with hardware.select(TRN2), nki_sim.record() as timeline:
        nki_sim.simulate(doubled)[cores](zeros, zeros)
    found = plan(cores)
    assert found.predicted_ns == round(timeline.total_ns, 1)
    assert (found.cores, found.launches, timeline.launches) == (cores, 1, 1)
    assert found.tree().splitlines()[0].endswith(f"fast, trn2, LNC={cores}")
    assert Plan.from_json(found.to_json()) == found


def test_both_degrees_have_plans_of_their_own():
    one, two = plan(1, batch=8192), plan(2, batch=8192)
    assert 0.49 < two.predicted_ns / one.predicted_ns < 0.6  # bound by an engine, not by HBM
    # Together they get 566 of 736 B/ns.
    assert two.dma_floor_ns == pytest.approx(one.dma_floor_ns * 368 / 566)
    assert two.dma_floor_ns < two.predicted_ns
    assert plan(2, batch=8192, inverse=True).candidates == two.candidates


@pytest.mark.parametrize("cores", [1, 2])
def test_prices_of_loops_are_those_of_real_runs(cores, monkeypatch):
    # Bodies of a few blocks, so that a batch that can be run is a loop.
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 200)
    recipe, batch = Recipe("stockham", Transform((256,)), (8, 32)), 2**13
    zeros = np.zeros((batch, 256), np.float32)
    arguments = ALGORITHMS["stockham"].arguments(recipe)
    with hardware.select(TRN2), nki_sim.record() as timeline:
        nki_sim.simulate(ALGORITHMS["stockham"].kernel)[cores](zeros, zeros, *arguments)
    price = cost.price(recipe, batch, TRN2, cores)
    assert price.predicted_ns == pytest.approx(timeline.total_ns, abs=0.1)
    assert price.instructions < timeline.instructions / 3


@pytest.mark.weekly
@pytest.mark.parametrize("cores", [1, whole(2)])
def test_blocks_overlap_inside_of_an_iteration_alone(cores):
    recipe = planner.plan_for(Convolution((4096,)), batch=512, target="trn2", cores=cores).recipe
    short, long, longer = (
        cost.price(recipe, cores * rows, TRN2, cores) for rows in (512, 2**13, 2**14)
    )
    assert longer.predicted_ns / long.predicted_ns == pytest.approx(2, rel=0.02)
    # What overlaps with the tables and in one body is not what a row takes in a loop.
    assert long.predicted_ns != pytest.approx(16 * short.predicted_ns, rel=0.02)
    most = 2 * launch.BODY_INSTRUCTIONS * cores  # a loop, or rows unrolled, and what a loop leaves
    assert max(short.instructions, long.instructions, longer.instructions) < most


def test_real_data_is_complex_data_where_that_is_cheaper(monkeypatch):
    for name in ("doubled", "greedy"):
        monkeypatch.delitem(ALGORITHMS, name)
    priced = cost.price

    def cheap(recipe, *arguments):
        price = priced(recipe, *arguments)
        return replace(price, predicted_ns=1.0) if recipe.algorithm == "dft_gemm" else price

    monkeypatch.setattr(cost, "price", cheap)
    found = trnfft.plan(250, real=True, batch=256, target="trn2", cores=1)
    assert (found.kind.name, found.algorithm, found.choice.rejected) == ("r2c", "dft_gemm", "")
    other = found.candidates[1]
    assert ALGORITHMS[other.recipe.algorithm].kind == "r2c"
    times = other.predicted_ns / found.predicted_ns
    assert times > 1 and other.rejected == f"takes {times:.3g} times as long"


def test_a_kernel_that_does_not_share_has_no_price():
    assert plan(1, "greedy").predicted_ns
    with pytest.raises(NotImplementedError, match="trn2, LNC=2: greedy .*nl.program_id"):
        plan(2, "greedy")
    found = plan(2, ["greedy", "doubled"])
    assert found.algorithm == "doubled" and "program_id" in found.candidates[1].rejected


# The degree by default


def degrees(target=None):
    """Of a plan of each kind, without `cores`."""
    return {
        trnfft.plan(64, target=target).cores,
        trnfft.plan(64, real=True, precision="double", target=target).cores,
        planner.plan_for(Convolution((256,)), target=target).cores,
        planner.plan_for(BlockCirculant(2, 2, 64, gradients=True), batch=32, target=target).cores,
    }


@pytest.fixture
def variables(monkeypatch):
    """Sets the chip and the degree that the environment names; None for no word."""

    def name(chip, degree):
        for variable, value in ((TARGET_VARIABLE, chip), (LNC_VARIABLE, degree)):
            monkeypatch.delenv(variable, raising=False)
            if value:
                monkeypatch.setenv(variable, value)

    return name


def test_the_degree_is_the_most_of_the_chip_unless_the_variable_says_another(variables):
    variables("trn2", None)
    assert degrees() == degrees("trn3") == {2} and degrees("trn1") == {1}
    variables("trn3", "1")
    assert degrees() == degrees("trn2") == degrees("trn1") == {1}
    variables(None, "1")
    assert degrees("trn2") == {1}
    assert trnfft.plan(64, target="trn2", cores=2).cores == 2


def test_the_variable_is_no_error_for_another_chip(variables):
    variables("trn2", "2")
    assert degrees("trn1") == {1} and degrees() == {2}
    with hardware.select(hardware.TRN1):
        assert degrees() == {1}
    variables("trn1", "2")
    assert degrees("trn2") == {2}
    with pytest.raises(ValueError, match=f"{LNC_VARIABLE} is '2', allowed on trn1 is 1"):
        trnfft.plan(64)
    with pytest.raises(ValueError, match=f"{LNC_VARIABLE} is '2', allowed on trn1 is 1"):
        trnfft.next_fast_len(64)
    assert trnfft.plan(64, cores=1).cores == 1


def test_next_fast_len_and_workspaces_are_of_the_same_degree(variables, monkeypatch):
    def spied(n, *, target, cores, **others):
        asked.append((target, cores))
        raise NotImplementedError  # so that no plan is searched for

    timeline, launched, asked = cost.timeline, [], []
    monkeypatch.setattr(cost, "timeline", lambda *each: launched.append(each) or timeline(*each))
    lengths.forget()
    monkeypatch.setattr(lengths, "plan", spied)
    for degree in ("1", "2"):
        variables("trn2", degree)
        assert trnfft.next_fast_len(139) >= 139
        assert set(asked) == {("trn2", int(degree))}
        asked.clear()
        trnfft.fft_workspace_bytes(64, batch=2)
        assert {cores for *_, cores in launched} == {int(degree)}
        launched.clear()
    lengths.forget()


def test_each_core_has_a_scratch_of_its_own():
    """For one of two transforms: 2^20 complex numbers."""
    plans = [trnfft.plan(2**20, target="trn2", cores=cores) for cores in (1, 2)]
    one, two = (workspace_bytes(found, 2) for found in plans)
    assert two - one >= 8 * 2**20
