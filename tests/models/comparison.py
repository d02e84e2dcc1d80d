"""Compares models on every backend with the same models in float64 by torch.

The packages of these models are installed for these tests only: pip install --no-deps
neuraloperator==2.0.0 tensorly==0.10.0 tensorly-torch==0.5.0 opt-einsum==3.4.0. transformers is
installed after a run of ./scripts/test.sh --neuron.
"""

import copy

import torch
from torch.overrides import TorchFunctionMode

import trnfft
from tests.tolerances import near, sums, together, transforms

from ..trnfft.samples import native, random

BACKENDS = ("torch", "matmul", "nki-sim")
# Of models with two layers: a transform and its inverse in each, forward and backward, of at most
# 10^3 points, and sums over at most 100 numbers before and after each.
MODEL = together(transforms(10**3, 8), sums(8 * 100))
TRAINING = together(MODEL, MODEL, MODEL)  # of losses of three steps


class _AllDouble(TorchFunctionMode):
    """torch.cfloat in the text of a model is torch.cdouble."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if kwargs.get("dtype") == torch.cfloat:
            kwargs["dtype"] = torch.cdouble
        return func(*args, **kwargs)


def results(model, *inputs):
    """The output, and gradients of a weighted sum of it in real inputs and in parameters."""
    inputs = [x.detach().clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    wanted = [x for x in (*inputs, *model.parameters()) if x.requires_grad]
    y = model(*inputs)
    loss = (random(*y.shape, seed=1).to(y.dtype) * y).mean()
    gradients = torch.autograd.grad(loss, wanted, allow_unused=True)
    return [native(x.detach()) for x in (y, *gradients) if x is not None]


def results_in_double(model, *inputs):
    """`results` by torch in float64 and complex128."""
    model = copy.deepcopy(model).double()
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.is_complex():
            tensor.data = tensor.data.to(torch.cdouble)
    with _AllDouble():
        return results(model, *(x.double() if x.is_floating_point() else x for x in inputs))


def assert_accurate(model, *inputs):
    """A model under `patch_torch` is exact, its gradients too."""
    with trnfft.patch_torch():
        actual = results(model, *inputs)
    assert_exact(actual, results(model, *inputs), results_in_double(model, *inputs))


def assert_exact(actual, by_torch, exact, tolerance=MODEL):
    """Results have the dtypes of torch's, and are near those in double precision."""
    for index, (a, t, e) in enumerate(zip(actual, by_torch, exact, strict=True)):
        assert a.dtype == t.dtype
        near(a, e, tolerance, message=f"result {index}")


def losses_of_training(model, *inputs, steps=3):
    """Losses of a fit to noise, before each step of Adam; eps is more than small gradients."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-2)
    losses = []
    for _ in range(steps):
        y = model(*inputs)
        loss = (y - random(*y.shape, seed=1).to(y.dtype)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
