"""Plans are immutable, hashable and readable, and can be converted to JSON and back."""

import dataclasses
import json
import textwrap

import pytest

import trnfft
from trnfft.planner import planner
from trnfft.planner.kinds import BlockCirculant, Transform
from trnfft.planner.plan import Candidate, Plan, Recipe

INNER = Recipe("stockham", Transform((540,)), (10, 54))
BLUESTEIN = Candidate(
    Recipe("bluestein", Transform((257,)), inner=INNER), 17900.0, 2.9e-7, "tensor", 1
)
OTHER = Candidate(Recipe("dft_gemm", Transform((257,))), rejected="takes N <= 256")
PLAN = Plan(
    kind=Transform((257,)),
    batch=4,
    inverse=True,
    precision="fast",
    target="trn2",
    max_error=1e-6,
    candidates=(BLUESTEIN, OTHER),
)
CHOICE = PLAN.to_dict()["candidates"][0]


def test_attributes_are_those_of_the_choice():
    assert PLAN.algorithm == "bluestein"
    assert PLAN.radices == ()
    assert PLAN.inner.radices == (10, 54)
    assert (PLAN.launches, PLAN.predicted_ns, PLAN.predicted_error) == (1, 17900.0, 2.9e-7)
    assert PLAN.dma_floor_ns == pytest.approx(257 * 4 * 16 / (16 * 23.0))


def test_plans_are_immutable_and_hashable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        PLAN.n = 3
    assert len({PLAN, Plan.from_json(PLAN.to_json())}) == 1
    assert PLAN.solving(PLAN.kind, False) != PLAN


def test_every_launch_is_counted():
    """17.9 us on trn2, where a launch takes about 60; the host launches nothing."""
    assert PLAN.with_launches_ns == 17900.0 + 60e3
    thrice = dataclasses.replace(PLAN, candidates=(dataclasses.replace(BLUESTEIN, launches=3),))
    assert thrice.with_launches_ns == 17900.0 + 3 * 60e3
    assert "with a launch of each, about 200 us" in thrice.tree()
    assert PLAN.with_launches_of(OTHER) is None
    assert trnfft.plan(8, precision="double", target="trn1").with_launches_ns is None


def test_json_round_trip():
    text = PLAN.to_json()
    assert "\n" not in text
    assert Plan.from_json(text) == PLAN
    assert json.loads(text)["candidates"][0]["inner"]["radices"] == [10, 54]


def test_the_degree_of_lnc_is_part_of_a_plan():
    two = dataclasses.replace(PLAN, cores=2)
    assert two != PLAN and "trn2, LNC=2" in two.tree()
    assert json.loads(two.to_json())["cores"] == 2 and "cores" not in PLAN.to_dict()
    assert Plan.from_json(two.to_json()) == two
    assert two.solving(two.kind, False).cores == 2


def padded_by_axes():
    """A plan of one pass for each axis, which is not the cheapest one."""
    shape = dict(shape=(8, 48), padded_from=(7, 48))
    return trnfft.plan(**shape, algorithms="axes", target="trn1")


TREES = {  # plans, and the last lines of their trees
    "padded": (
        padded_by_axes,
        """
        └── axes, 384 points
            ├── axis 1: stockham, N = 48
            │   └── stage 1: radix 48
            └── axis 0: strided_stockham, N = 8
                └── stage 1: radix 8
        """,
    ),
    "real": (
        lambda: trnfft.plan(shape=(8, 48), real=True, algorithms="real_axes", target="trn1"),
        """
        └── real_axes, 384 points
            ├── axis 1: real_stockham, N = 48
            │   ├── stage 1: radix 2
            │   └── stage 2: radix 24
            └── axis 0: strided_stockham, N = 8
                └── stage 1: radix 8
        """,
    ),
    "several axes at once": (
        lambda: trnfft.plan(shape=(16, 12), padded_from=(3, 12), target="trn1"),
        """
        └── dft_gemm_axes, 3 x 12 points
        """,
    ),
    "axes as digits": (
        lambda: trnfft.plan(shape=(12, 24), target="trn1"),
        """
        └── four_step_axes, 288 points
            ├── stage 1: radix 12
            └── stage 2: radix 24
        """,
    ),
    "block circulant": (
        lambda: planner.plan_for(BlockCirculant(2, 3, 8), batch=4, target="trn1"),
        """
        └── block_circulant, blocks of 8
            ├── frequencies that share a product: 1
            ├── up to 4 tiles of 128 rows transformed at once
            └── rows cut into pieces: weight 1, input 1, output 1
        """,
    ),
    "host, without a time": (
        lambda: trnfft.plan(8, precision="double", target="trn1"),
        """
        FFT, N = 8, batch 1, double, trn1, LNC=1
        on the host, not modelled, relative error 1.9e-16
        └── host, N = 8
        """,
    ),
    "bluestein": (
        lambda: PLAN,
        """
        inverse FFT, N = 257, batch 4, fast, trn2, LNC=1
        kernel 17.9 us, modelled; with a launch, about 78 us
        bound by tensor, DMA floor 0.0447 us, relative error 2.9e-07
        └── bluestein, N = 257
            └── two transforms: stockham, N = 540
                ├── stage 1: radix 10
                └── stage 2: radix 54
        """,
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_trees(name):
    make, text = TREES[name]
    expected = textwrap.dedent(text).strip("\n").splitlines()
    plan = make()
    assert plan.tree().splitlines()[-len(expected) :] == expected
    assert Plan.from_json(plan.to_json()) == plan


def test_the_layout_of_a_recipe_is_shown():
    recipe = planner.plan_for(BlockCirculant(2, 3, 8), batch=4, target="trn1").recipe
    assert str(recipe) == "block_circulant in the layout (1, 4, 1, 1, 1)"


def test_recipes_travel_alone():
    recipe = padded_by_axes().recipe
    assert str(recipe) == "axes by axis 1: stockham 48 = 48, then axis 0: strided_stockham 8 = 8"
    assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe


def test_what_is_empty_is_left_out():
    assert set(PLAN.to_dict()) == {
        *("kind", "batch", "inverse", "precision", "target", "max_error", "candidates")
    }
    assert set(OTHER.recipe.to_dict()) == {"algorithm", "kind"}


def test_a_recipe_alone_needs_its_kind():
    alone = {name: value for name, value in OTHER.recipe.to_dict().items() if name != "kind"}
    with pytest.raises(ValueError, match="the recipe of 'dft_gemm' has no kind"):
        Recipe.from_dict(alone)


def test_a_choice_without_an_error_has_none():
    silent = dataclasses.replace(BLUESTEIN, predicted_error=None)
    assert dataclasses.replace(PLAN, candidates=(silent,)).predicted_error == 0.0


MESSAGES = {
    "slow": "^a plan's first candidate is its choice; this plan has none$",
    "[16, 17]": r"'data' is \(16, 17\), allowed are 2 sizes up to \(16, 16\)",
}


@pytest.mark.parametrize(
    "change",
    [
        {"n": 257},
        {"kind": 257},
        {"kind": {"what": "transform", "lengths": ["257"]}},
        {"kind": {"what": "transform", "lengths": [True]}},
        {"kind": {"what": "transform", "lengths": []}},
        {"inverse": 0},
        {"candidates": []},
        {"candidates": [3]},
        {"candidates": [CHOICE, 3]},
        {"candidates": [{**CHOICE, "rejected": "slow"}]},
        {"candidates": [{**CHOICE, "radices": ["8"]}]},
        {"candidates": [{**CHOICE, "inner": BLUESTEIN.recipe.to_dict()}]},
        {"candidates": [{**CHOICE, "colour": "red"}]},
        {"kind": {"what": "transform", "lengths": [16, 16], "data": [16]}},
        {"kind": {"what": "transform", "lengths": [16, 16], "data": [16, 17]}},
        {"kind": {"what": "transform", "lengths": [16], "colour": "red"}},
        {"kind": {"what": "transform", "lengths": [2**70]}},
        {"kind": {"what": "transform", "lengths": [16], "part": "dct"}},
        {"kind": {"what": "dct", "lengths": [16]}},
        {"kind": {"what": "frames", "n": 16, "hop": 4, "power": 3}},
        {"kind": {"what": "frames", "n": 16, "hop": 4, "power": None, "bands": 4}},
        {"kind": {"what": "block_circulant", "p": 1, "q": 0, "k": 8}},
        {"kind": "c2c"},
        {"precision": "half"},
        {"max_error": 0},
        {"target": "trn9"},
        {"cores": 3},
        {"cores": 0},
        {"cores": True},
        {"cores": "2"},
        {"target": "trn1", "cores": 2},
    ],
    ids=str,
)
def test_damaged_json_is_a_value_error(change):
    message = next((said for part, said in MESSAGES.items() if part in str(change)), None)
    with pytest.raises(ValueError, match=message):
        Plan.from_dict({**PLAN.to_dict(), **change})
    with pytest.raises(ValueError):
        Plan.from_dict({name: 1 for name in change})
