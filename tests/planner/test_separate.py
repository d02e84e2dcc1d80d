"""The predicted error of separate launches, of which layers consist where no kernel takes them."""

import math

import pytest

import trnfft
from trnfft.planner import planner
from trnfft.planner.accuracy import matrix_error
from trnfft.planner.kinds import RealPlanes, SpectralLayer
from trnfft.planner.separate import SEPARATE


def error_of(plan):
    """The error of the separate launches of a plan, whatever was chosen."""
    found = {one.recipe.algorithm: one.predicted_error for one in plan.candidates}
    return found[SEPARATE]


def test_mirrors_add_no_error():
    half = trnfft.plan(shape=(20, 30), real=True, batch=4, target="trn1")
    planes = planner.plan_for(RealPlanes(20, 30), batch=4, target="trn1")
    assert error_of(planes) == half.predicted_error


def test_products_with_weights_add_that_of_a_matrix():
    forward = trnfft.plan(64, real=True, batch=12, target="trn1")
    back = trnfft.plan(64, real=True, inverse=True, batch=20, target="trn1")
    layer = planner.plan_for(SpectralLayer(3, 5, (64,), (9,)), batch=4, target="trn1")
    errors = forward.predicted_error, back.predicted_error, matrix_error(2 * 3)
    assert error_of(layer) == pytest.approx(math.hypot(*errors), rel=0.01)  # as it is rounded
