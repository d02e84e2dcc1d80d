"""bench/measurement.py on an XLA device: chains of dependent calls, each chain in one graph."""

from functools import partial

import pytest
import torch

import trnfft

pytest.importorskip("torch_xla", reason="needs torch_xla: ./scripts/test.sh --xla")
pytest.importorskip("pydantic")  # belongs to the extra bench

from bench import measurement  # noqa: E402
from bench.cases import block_circulant, real_transforms, transforms_1d  # noqa: E402
from bench.cases.case import on_device, on_host  # noqa: E402
from tests.tolerances import near, sums, together, transforms  # noqa: E402

CASES = {
    "fft": transforms_1d.case(64, 4),
    "irfft": real_transforms.case(256, True),
    "step": block_circulant.case((2, 3, 8), 5, True),
}


cases = pytest.mark.parametrize(
    "name", ["fft", *(pytest.param(name, marks=pytest.mark.sweep) for name in ("irfft", "step"))]
)


@pytest.fixture(autouse=True)
def few_calls(monkeypatch):
    monkeypatch.setattr(measurement, "SECONDS", 0.0)
    monkeypatch.setattr(measurement, "CHAIN_SECONDS", 0.0)


@cases
def test_kernel_time_and_launch_overhead(name, device):
    case = CASES[name]
    arrays = case.arrays()
    with trnfft.backend("matmul"):
        tensors = [on_device(array, "xla") for array in arrays]
        result, values = measurement.measured(case.call, tensors, "xla")
    # A step: two transforms forward and two backward, sums over blocks and rows.
    found, exact = on_host(result), case.exact(arrays)
    pairs = zip(found, exact, strict=True) if isinstance(found, tuple) else [(found, exact)]
    for pair in pairs:
        near(*pair, together(transforms(256, 4), sums(2 * 3 * 5)))
    assert values["method"] == "repeated calls" and values["kernel_time_source"] == "measured"
    assert values["latency"].calls >= 10
    for part in ("kernel_us", "launch_overhead_us", "fit_residual_us"):
        assert isinstance(values[part], float)


@cases
def test_a_chain_is_one_graph_that_is_compiled_once(name, counted):
    case = CASES[name]
    wait = measurement.waiting("xla")
    with trnfft.backend("matmul"):
        tensors = [on_device(array, "xla") for array in case.arrays()]
        run = partial(measurement.chain_us, case.call, tensors, wait, 4)
        run()
        with counted() as counts:
            run()
    assert counts.compiled == 0
    assert counts.executed == 1 + measurement.CALLS[0]
    assert counts.from_device == 0


def test_no_call_of_a_chain_is_left_out(device):
    """Each call doubles its input, so that the last result shows the number of calls."""
    results = []

    def double(x):
        results.append(2 * x)
        return results[-1]

    measurement.chain_us(double, [torch.ones(3).to(device)], measurement.waiting("xla"), 8)
    assert results[7].cpu().tolist() == [256.0] * 3
