"""The predicted HBM of a transform, compared with the simulator's allocations in a run."""

import math

import pytest
import torch

import trnfft
from nki_sim import hardware
from nki_sim.base.enums import MemoryRegion
from nki_sim.launch.session import Session
from trnfft import ComplexTensor
from trnfft.ops.convolution import convolve_images, convolve_rows, spectrum_for_images
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.kinds import RealPlanes, SpectralLayer
from trnfft.planner.planner import plan_for
from trnfft.planner.workspace import workspace_bytes

CASES = [  # n_or_shape, batch, the rest
    (2, 1, {}),
    (100, 3, {}),
    (256, 1, {}),
    (250, 130, {}),
    (997, 2, {}),
    (10007, 1, {}),
    (16384, 2, {}),
    (2**20, 1, {"inverse": True}),
    (1024, 2, {"precision": "kahan"}),
    (512, 2, {"precision": "bf16"}),
    (512, 2, {"precision": "bf16_refined"}),
    (128, 3, {"real": True}),
    (1000, 3, {"real": True}),
    (1000, 3, {"real": True, "inverse": True}),
    (257, 3, {"real": True}),  # as complex data
    (257, 3, {"real": True, "inverse": True}),
    ((12, 20), 3, {}),
    ((24, 128), 1, {"inverse": True}),
    ((6, 8, 10), 2, {"real": True}),
    ((48, 256), 2, {"real": True, "inverse": True}),
    ((256, 128), 2, {}),
    ((512, 256), 1, {}),
    ((64, 131), 2, {}),
    ((12, 131), 2, {"real": True}),
    ((64, 128, 64), 1, {"real": True}),
]


@pytest.fixture
def allocated(monkeypatch):
    """Bytes of all tensors in HBM, of every launch: the kernel's arguments, results and scratch."""
    found = []
    finish = Session.finish

    def counted(self, outputs):
        on_hbm = (MemoryRegion.private_hbm, MemoryRegion.shared_hbm)
        if not self.dry:
            found.append(sum(s.free_bytes for s in self.storages if s.buffer in on_hbm))
        return finish(self, outputs)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "finish", counted)
        yield found


def run(n_or_shape, batch, real=False, inverse=False, precision="fast"):
    """Run in the simulator; returns the bytes of the input and of the result."""
    shape = n_or_shape if isinstance(n_or_shape, tuple) else (n_or_shape,)
    half = (*shape[:-1], shape[-1] // 2 + 1)
    x = torch.randn(batch, *(half if real and inverse else shape))
    x = x if real and not inverse else ComplexTensor(x, x)
    name = f"{'i' if inverse else ''}{'r' if real else ''}fftn"
    with trnfft.backend("nki-sim"), trnfft.precision(precision):
        getattr(trnfft, name)(x, shape, tuple(range(1, x.ndim)))
    whole = 4 * batch * math.prod(shape) * (1 if real else 2)
    other = 8 * batch * math.prod(half) if real else whole
    return (other, whole) if inverse else (whole, other)


@pytest.mark.parametrize("n_or_shape, batch, options", CASES, ids=str)
def test_what_a_real_run_allocates(n_or_shape, batch, options, allocated):
    given, made = run(n_or_shape, batch, **options)
    (total,) = allocated
    plan = plan_of(n_or_shape, batch, options)
    if ALGORITHMS[plan.algorithm].kind == plan.kind.name:
        expected = total - given - made
    else:  # the half spectrum is no tensor of the kernel
        expected = total - (made if plan.inverse else given)
    assert trnfft.fft_workspace_bytes(n_or_shape, batch=batch, **options) == expected


def plan_of(n_or_shape, batch, options):
    size = "shape" if isinstance(n_or_shape, tuple) else "n"
    return trnfft.plan(**{size: n_or_shape}, batch=batch, **options)


@pytest.mark.parametrize("shape, batch", [((1000,), 3), ((64,), 200), ((48, 640), 2)])
def test_convolutions(shape, batch, allocated):
    x, h = torch.randn(batch, *shape), torch.fft.rfftn(torch.randn(shape))
    half = ComplexTensor.from_complex(h)
    with trnfft.backend("nki-sim"):
        if len(shape) == 1:
            y = convolve_rows(x, half)
        else:
            y = convolve_images(x, spectrum_for_images(half), shape, shape)
    workspace = trnfft.fft_workspace_bytes(shape, convolution=True, batch=batch)
    assert allocated == [x.nbytes + y.nbytes + h.nbytes + workspace]


def test_layers(allocated):
    layer, mixer = trnfft.nn.SpectralConv1d(8, 6, 16), trnfft.nn.FNetMixer()
    data = torch.randn(5, 8, 64), torch.randn(1, 66, 66)
    with trnfft.backend("nki-sim"), torch.no_grad():
        results = [call(x) for call, x in zip((layer, mixer), data, strict=True)]
    plans = (
        plan_for(SpectralLayer(8, 6, (64,), (16,)), batch=5),
        plan_for(RealPlanes(66, 66)),
    )
    weights = 4 * 2 * 8 * 6 * 16, 0
    assert allocated == [
        x.nbytes + weight + y.nbytes + workspace_bytes(found, len(x))
        for x, weight, y, found in zip(data, weights, results, plans, strict=True)
    ]


def test_separate_launches_need_what_their_largest_one_needs():
    found = plan_for(SpectralLayer(2, 3, (512,), (257,)), batch=4, target="trn1", cores=1)
    assert found.algorithm == "separate_launches"
    of_transforms = [
        trnfft.fft_workspace_bytes(512, real=True, inverse=i, batch=4 * c, target="trn1")
        for i, c in ((False, 2), (True, 3))
    ]
    assert workspace_bytes(found) == max(of_transforms) > 0


def test_a_length_may_come_from_an_iterator():
    assert trnfft.fft_workspace_bytes(iter([12, 20])) == trnfft.fft_workspace_bytes((12, 20))


def test_one_transform_by_default():
    for n_or_shape, options in ((10007, {}), ((12, 131), {"real": True})):
        one = trnfft.fft_workspace_bytes(n_or_shape, **options)
        assert one == trnfft.fft_workspace_bytes(n_or_shape, batch=1, **options)
        assert one < trnfft.fft_workspace_bytes(n_or_shape, batch=2, **options)


@pytest.mark.weekly
@pytest.mark.sweep
def test_a_loop_on_the_device_needs_no_more_than_one_iteration():
    few, many = (trnfft.fft_workspace_bytes(2**20, batch=batch) for batch in (64, 200))
    assert few == many > 16 * 2**20


@pytest.mark.parametrize("arguments", [dict(n_or_shape=900), dict(n_or_shape=1500, batch=4)])
def test_targets(arguments):
    options = {**arguments, "convolution": "batch" in arguments}
    found = [trnfft.fft_workspace_bytes(**options, target=name) for name in ("trn1", "trn2")]
    assert found[0] != found[1]
    for chip, expected in zip((hardware.TRN1, hardware.TRN2), found, strict=True):
        with hardware.select(chip):
            assert trnfft.fft_workspace_bytes(**options) == expected


def test_the_precision_is_that_which_is_named():
    kahan = trnfft.fft_workspace_bytes(512, precision="kahan", target="trn1")
    assert kahan < trnfft.fft_workspace_bytes(512, target="trn1")


def test_the_host_needs_none():
    assert trnfft.fft_workspace_bytes(2**30, precision="double") == 0
    with trnfft.precision("double"):
        assert trnfft.fft_workspace_bytes(1000) == 0
