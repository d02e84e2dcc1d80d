"""Plans over many devices: steps, bytes over links, times from their parts, and errors."""

import itertools
import json
import math
import subprocess
import sys
from dataclasses import replace

import pytest

pytest.importorskip("torch")

import torch

import trnfft
from nki_sim import hardware
from tests import sweeps
from tests.refusals import refused
from trnfft import distributed
from trnfft.distributed.model import prices
from trnfft.distributed.run import four_step
from trnfft.planner.planner import LONGEST

COMPLEX = 8  # bytes
LONG = 2**28  # points, more than one launch transforms: 2^14 rows of 2^14


def shape_of(plan):
    """Exchanges as the dimensions that they change, kernels as their lengths."""
    return [
        getattr(step, "dimensions", None) or getattr(step, "lengths", ()) for step in plan.steps
    ]


def test_a_slab_takes_two_exchanges_and_one_in_planned_order():
    natural = distributed.plan((64, 64, 64), (8,), target="trn1")
    planned = distributed.plan((64, 64, 64), (8,), target="trn1", order="planned")
    assert natural.decomposition == planned.decomposition == "slab"
    assert shape_of(natural) == [(64, 64), (0, 1), (64,), (1, 0)]
    assert natural.steps[:-1] == planned.steps
    assert [kernel.batch for kernel in natural.kernels] == [8, 512]


def test_a_pencil_takes_four_exchanges_and_two_in_planned_order():
    natural = distributed.plan((64, 64, 64), (4, 8), target="trn1")
    planned = distributed.plan((64, 64, 64), (4, 8), target="trn1", order="planned")
    assert natural.decomposition == planned.decomposition == "pencil"
    for plan, times in (natural, 2), (planned, 1):
        assert [kernel.lengths for kernel in plan.kernels] == [(64,)] * 3
        assert sorted(exchange.devices for exchange in plan.exchanges) == [4] * times + [8] * times


def test_one_dimension_takes_three_exchanges_and_two_in_planned_order():
    natural = distributed.plan((64 * 128,), (4,), target="trn1")
    planned = distributed.plan((64 * 128,), (4,), target="trn1", order="planned")
    assert natural.decomposition == "four-step" and natural.split == (64, 128)
    assert (len(natural.exchanges), len(planned.exchanges)) == (3, 2)
    assert [kernel.lengths for kernel in natural.kernels] == [(64,), (), (128,)]
    assert natural.kernels[1].recipe == "twiddle factors" and natural.kernels[1].batch == 2048


@pytest.mark.parametrize("mesh", [(1,), (1, 1)])
def test_one_device_exchanges_nothing(mesh):
    plan = distributed.plan((64, 64, 64), mesh, target="trn1")
    assert plan.decomposition == "local" and plan.exchanges == () and plan.link_bytes() == {}
    assert plan.efficiency == pytest.approx(1) and plan.bound == "launches"


def test_one_short_dimension_on_one_device_is_its_kernel():
    plan = distributed.plan((1024,), (1,), target="trn1")
    assert plan.total_ns == trnfft.plan(1024, target="trn1").with_launches_ns
    assert plan.split == ()


@pytest.mark.parametrize(("shape", "mesh"), [((64, 64, 64), (8,)), ((64 * 128,), (32,))])
def test_every_core_sends_all_but_its_own_part_of_its_shard(shape, mesh):
    plan = distributed.plan(shape, mesh, target="trn1")
    for exchange in plan.exchanges:
        sent = sum(part.bytes for part in exchange.traffic)
        shard = COMPLEX * math.prod(shape) / mesh[0]
        assert sent == pytest.approx(shard * (mesh[0] - 1) / mesh[0])
        assert sum(part.messages for part in exchange.traffic) == mesh[0] - 1


def test_links_are_those_between_chips_and_instances():
    """trn1 has 2 cores a chip and 32 an instance: 1 peer, 30 and 32 of 64 cores."""
    plan = distributed.plan((64, 64, 64), (64,), target="trn1", order="planned")
    (exchange,) = plan.exchanges
    assert [(part.link, part.messages) for part in exchange.traffic] == [
        ("HBM", 1),
        ("NeuronLink", 30),
        ("EFA", 32),
    ]


@pytest.mark.parametrize("devices", [33, *map(sweeps.whole, [40, 48, 56])])
def test_the_slowest_core_counts(devices):
    """Of 48 cores 32 fill an instance and have 16 peers elsewhere, the other 16 have 32."""
    plan = distributed.plan((devices, devices, 4), (devices,), target="trn1", order="planned")
    assert {part.link: part.messages for part in plan.exchanges[0].traffic}["EFA"] == 32


def test_the_last_axis_of_a_mesh_stays_in_an_instance():
    plan = distributed.plan((64, 64, 64), (4, 32), target="trn1", order="planned")
    between, inside = sorted(plan.exchanges, key=lambda exchange: exchange.mesh_axis)
    assert {part.link for part in inside.traffic} == {"HBM", "NeuronLink"}
    assert {part.link: part.messages for part in between.traffic} == {"EFA": 3}


def test_a_logical_core_of_two_has_twice_the_share_of_links():
    """Half as many devices fill an instance, and each has as much again."""
    one = distributed.plan((64, 64, 2), (64,), target="trn2", cores=1, order="planned")
    two = distributed.plan((64, 64, 2), (32,), target="trn2", cores=2, order="planned")
    rates = [plan.exchanges[0].traffic[-1] for plan in (one, two)]
    assert [part.link for part in rates] == ["NeuronLink"] * 2
    assert rates[1].bytes / rates[1].ns == pytest.approx(2 * rates[0].bytes / rates[0].ns)


@sweeps.some("target", hardware.NAMES, ["trn1", "trn2"])
def test_rates_of_links_follow_from_the_chip(target):
    chip = hardware.chip(target)
    cores = chip.cores_per_chip * chip.chips_per_instance
    mesh = (2 * cores,)
    plan = distributed.plan((256, 256), mesh, target=target, cores=1, order="planned")
    links = {part.link: part.bytes / part.ns for part in plan.exchanges[0].traffic}
    assert links["EFA"] == pytest.approx(chip.efa_instance_bytes_per_ns / cores)
    outward = chip.neuronlink_chip_bytes_per_ns / chip.cores_per_chip
    assert links["NeuronLink"] < outward
    assert links["EFA"] < links["NeuronLink"] < links["HBM"]


def test_time_of_an_exchange_is_its_start_latency_messages_and_slowest_link():
    chip = hardware.TRN1
    (exchange,) = distributed.plan((64, 64, 64), (64,), target="trn1", order="planned").exchanges
    fixed = chip.all_to_all_start_ns + chip.efa_latency_ns + 63 * chip.message_ns
    assert exchange.chunks == 1
    assert exchange.ns == pytest.approx(fixed + max(part.ns for part in exchange.traffic))


def test_kernels_have_the_prices_of_the_planner():
    plan = distributed.plan((64, 64, 64), (8,), target="trn1")
    first, second = plan.kernels
    assert first.ns == trnfft.plan(shape=(64, 64), batch=8, target="trn1").predicted_ns
    assert second.ns == trnfft.plan(64, batch=512, target="trn1").predicted_ns


def test_a_batch_between_two_powers_has_a_price_of_its_own():
    kernel = distributed.plan((24, 16, 128), (2, 2), target="trn1").kernels[0]
    least, own, most = (
        trnfft.plan(128, batch=n, target="trn1").predicted_ns for n in (64, 96, 128)
    )
    assert kernel.lengths == (128,) and kernel.batch == 96
    assert least < kernel.ns == own < most


@pytest.mark.weekly
@pytest.mark.parametrize("is_planned", [False, sweeps.whole(True)])
def test_a_large_batch_costs_in_proportion(is_planned, monkeypatch):
    """The price is that of 2^24 points; asked for 2^25 the planner says much the same."""
    assert prices.PRICED_POINTS == 2**24
    n, batch = 2**14, 2**11
    if not is_planned:
        n, batch = 2**8, 2**5
        monkeypatch.setattr(prices, "PRICED_POINTS", 2**12)
    (kernel,) = prices.Launches("trn1", 1, "fast").transforms((n,), n * batch, False)
    assert kernel.lengths == (n,) and kernel.batch == batch
    assert kernel.ns == 2 * trnfft.plan(n, batch=batch // 2, target="trn1").predicted_ns
    if is_planned:
        whole = trnfft.plan(n, batch=batch, target="trn1").predicted_ns
        assert kernel.ns == pytest.approx(whole, rel=0.02)


def test_totals_are_sums_of_the_steps():
    plan = distributed.plan((64, 64, 64), (4, 8), target="trn1")
    hidden = sum(exchange.hidden_ns for exchange in plan.exchanges)
    sums = [sum(step.ns for step in steps) for steps in (plan.kernels, plan.exchanges)]
    assert plan.kernels_ns == pytest.approx(sums[0])
    assert plan.launches_ns == 3 * 420e3  # of three kernels, on trn1
    assert plan.total_ns == pytest.approx(sum(sums) - hidden + plan.launches_ns)
    assert plan.efficiency == pytest.approx(plan.alone_ns / (32 * plan.total_ns))
    assert 0 < plan.efficiency < 1


def test_a_launch_and_the_start_of_an_exchange_are_what_was_measured():
    """Those of TorchNeuron on trn2; on trn3 they stand in, on trn1 those of PyTorch/XLA are."""
    found = {}
    for target in hardware.NAMES:
        plan = distributed.plan((64, 64), (4,), target=target, cores=1, order="planned")
        assert [kernel.launches for kernel in plan.kernels] == [1, 1]
        start = plan.exchanges[0].fixed_ns - 3 * hardware.chip(target).message_ns
        found[target] = plan.launches_ns / 2, round(start)
    assert found == {"trn1": (420e3, 2e6), "trn2": (60e3, 1.25e6), "trn3": (60e3, 1.25e6)}


def test_each_chunk_is_launched():
    large = distributed.plan((LONG,), (2,), target="trn1", order="planned")
    chunks = large.exchanges[1].chunks
    launches = [kernel.launches for kernel in large.kernels]
    assert chunks > 1 and launches == [chunks, chunks, 1]  # columns, twiddle factors, rows
    assert f"with {chunks} launches, about" in str(large)


def test_exchanges_are_cut_into_chunks_where_that_is_faster():
    small = distributed.plan((64, 64, 64), (2,), target="trn1", order="planned").exchanges[0]
    assert small.chunks == 1 and small.hidden_ns == 0  # a start takes longer than all kernels
    large = distributed.plan((LONG,), (2,), target="trn1", order="planned")
    one, cut = large.exchanges  # before and after the same kernels
    assert one == cut and cut.chunks > 1
    assert cut.ns - cut.hidden_ns < one.ns
    # The first chunk is computed, then each is sent while the next is, then the last is sent.
    computed = sum(kernel.total_ns for kernel in large.kernels[:2]) / cut.chunks
    sent = cut.fixed_ns + cut.wire_ns / cut.chunks
    took = computed + (cut.chunks - 1) * max(computed, sent) + sent
    assert cut.chunks * computed + cut.ns - cut.hidden_ns == pytest.approx(took)


def test_real_data_sends_half_spectra():
    whole = distributed.plan((64, 64, 64), (8,), target="trn1")
    half = distributed.plan((64, 64, 64), (8,), target="trn1", real=True)
    sent = [sum(plan.link_bytes().values()) for plan in (whole, half)]
    # 33 of 64 columns of dimension 2, which slabs do not split.
    assert sent[1] == pytest.approx(sent[0] * 33 / 64)
    assert half.kernels_ns < whole.kernels_ns
    assert half.real and "real data" in str(half)


def test_uneven_shards_count_as_the_largest():
    plan = distributed.plan((10, 64, 64), (4,), target="trn1", order="planned")
    assert plan.kernels[0].batch == 3
    assert sum(plan.link_bytes().values()) == pytest.approx(COMPLEX * 3 * 64 * 64 * 3 / 4)


def test_lengths_beyond_one_core_are_split():
    with pytest.raises(NotImplementedError):
        trnfft.plan(LONG, target="trn1")
    assert distributed.plan((LONG,), (1,), target="trn1").exchanges == ()
    plan = distributed.plan((LONG,), (64,), target="trn1")
    assert plan.split == (2**14, 2**14)
    assert plan.shard_bytes == COMPLEX * 2**22
    assert [kernel.batch for kernel in plan.kernels] == [2**8, 2**22, 2**8]
    assert plan.bound == "EFA"


def test_what_the_memory_does_not_hold_is_said():
    plan = distributed.plan((64 * 128,), (4,), target="trn1")
    large = replace(plan, shape=(2**36,))
    assert plan.fits and "memory" not in str(plan)
    assert not large.fits and "more than the memory" in str(large)


def test_it_prints_as_a_tree():
    plan = distributed.plan((64, 64, 64), (8,), target="trn1")
    lines = str(plan).splitlines()
    assert lines[0].startswith("FFT of complex data, 64 x 64 x 64 on 8 devices, slab")
    assert "trn1, LNC=1" in lines[0] and "modelled" in lines[1]
    steps = [line[4:].split(":")[0].split(" ")[0] for line in lines if line[0] in "├└"]
    assert steps == ["kernel", "exchange", "kernel", "exchange"]
    assert plan.tree() == str(plan)


def test_it_is_immutable_and_travels_as_json():
    plan = distributed.plan((64, 64, 64), (8,), target="trn1")
    with pytest.raises(AttributeError):
        plan.order = "planned"
    assert hash(plan) == hash(distributed.plan((64, 64, 64), (8,), target="trn1"))
    entry = json.loads(json.dumps(plan.to_dict()))
    assert entry == plan.to_dict()
    assert entry["shape"] == [64, 64, 64] and entry["total_ns"] == plan.total_ns
    assert entry["launches_ns"] == plan.launches_ns == 2 * 420e3
    assert [step["step"] for step in entry["steps"]] == ["kernel", "exchange"] * 2


def test_torch_distributed_need_not_be_initialised():
    distributed.plan((64, 64), (8,), target="trn1")
    assert not torch.distributed.is_initialized()


@pytest.mark.weekly
@pytest.mark.sweep
def test_the_planner_is_loaded_with_the_first_plan():
    program = "import sys, trnfft.distributed; print('nki_sim.import_nki.modules' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


ERRORS = [
    (((), (8,)), {}, ValueError, r"'shape' is \(\)"),
    ((64, (8,)), {}, TypeError, "argument 'shape' must be a tuple of ints, not int"),
    (((64, 64), (0,)), {}, ValueError, "argument 'mesh_shape' is 0, allowed is 1 or more"),
    (((64, 64), (2.0,)), {}, TypeError, "argument 'mesh_shape' must be an int, not float"),
    (((64, 64), (2, 2)), {}, ValueError, r"argument 'mesh_shape' is \(2, 2\), .* use \(4,\)"),
    (((64,), (2, 2)), {}, ValueError, r"argument 'mesh_shape' is \(2, 2\), .* one size"),
    (((8, 8, 8, 8), (2, 2, 2)), {}, ValueError, "one or two sizes"),
    (((64, 64), (8,)), {"order": "any"}, ValueError, "argument 'order' is 'any', allowed"),
    (((64, 64), (8,)), {"real": 1}, TypeError, "argument 'real' is 1, allowed"),
    (((64, 64), (8,)), {"target": "gpu"}, ValueError, "argument 'target' is 'gpu', allowed"),
    (((64, 64), (8,)), {"cores": 2}, ValueError, "argument 'cores', the degree of LNC, is 2"),
    (((64, 64), (8,)), {"precision": "half"}, ValueError, "argument 'precision' is 'half'"),
    (((64, 64), (8,)), {"precision": "double"}, NotImplementedError, "computed on the host"),
    (((4 * LONGEST**2,), (16,)), {}, NotImplementedError, f"more than the {LONGEST} points"),
    (((LONG, 2), (2,)), {}, NotImplementedError, f"more than the {LONGEST} points"),
]


test_bad_arguments_are_named = refused(
    lambda arguments, more: distributed.plan(*arguments, **{"target": "trn1", **more}),
    ERRORS,
)


def test_the_longest_length_is_named(monkeypatch):
    """Products of longer indices need more than 64 bits."""
    monkeypatch.setattr(four_step, "LONGEST", 2**12)
    distributed.plan((2**12,), (2,), target="trn1")
    with pytest.raises(NotImplementedError, match=r"'shape' is \(8192,\): .* up to 2\^40 = 4096"):
        distributed.plan((2**13,), (2,), target="trn1")


@pytest.mark.weekly
@pytest.mark.parametrize("n", [97, 2**13 + 17, sweeps.whole(2**20 + 7)])
def test_a_prime_is_three_transforms_of_a_length_that_splits(n):
    plan = distributed.plan((n,), (8,), target="trn1")
    rows, columns = plan.split
    assert plan.decomposition == "bluestein" and "bluestein" in str(plan)
    assert rows * columns >= 2 * n - 1 and rows % 8 == columns % 8 == 0
    lengths = [kernel.lengths for kernel in plan.kernels if kernel.lengths]
    assert lengths == [(rows,), (columns,), (rows,), (columns,), (columns,), (rows,)]
    products = [kernel.recipe for kernel in plan.kernels if not kernel.lengths]
    assert products[::2] == ["chirp", "filter", "spectrum of the filter", "chirp and scale"]
    assert products[1::2] == ["twiddle factors"] * 3
    assert len(plan.exchanges) == 2 + 3 * 2  # alignment before and after


def test_bluestein_takes_the_memory_of_the_padded_length():
    """As numbers of points: of the padded length a device holds four shards, otherwise three."""
    plan = distributed.plan((97,), (8,), target="trn1")
    assert plan.decomposition == "bluestein"
    for algorithm, shards in ("bluestein", 4), ("four-step", 3):
        most = hardware.TRN1.chip_memory_bytes // 2 // (shards * COMPLEX)
        for points in (most, most + 1):
            steps = tuple(replace(step, lengths=(), batch=points) for step in plan.kernels)
            held = replace(plan, decomposition=algorithm, steps=steps)
            assert held.fits == (points == most)


@pytest.mark.weekly
@sweeps.some(
    "target, real",
    itertools.product(hardware.NAMES, [False, True]),
    [("trn1", True), ("trn2", False)],
)
def test_one_core_takes_the_quickest_way_whatever_the_mesh(target, real):
    """Two dimensions in a launch, or one after the other: that depends on chip and data."""
    plans = [
        distributed.plan((64, 64, 64), mesh, target=target, real=real)
        for mesh in [(1,), (1, 1), (8,), (4, 4)]
    ]
    assert len({plan.alone_ns for plan in plans}) == 1
    assert [plan.total_ns for plan in plans[:2]] == [plans[0].alone_ns] * 2
    rows = trnfft.plan(64, batch=64 * 64, target=target, real=real).with_launches_ns
    plane = trnfft.plan(shape=(64, 64), batch=64, target=target, real=real).with_launches_ns
    others = 2 * trnfft.plan(64, batch=64 * 64, target=target).with_launches_ns
    assert plans[0].alone_ns <= min(rows + others, plane + others / 2)


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("target", "n"),
    [("trn1", LONG), ("trn2", 2**13), *map(sweeps.whole, ["trn2"] * 2, [2**17, 2**27])],
)
def test_one_core_transforms_one_dimension_alike_whatever_the_mesh(target, n):
    """Also of more points than one launch has."""
    plans = [distributed.plan((n,), (devices,), target=target) for devices in (1, 64)]
    assert len({plan.alone_ns for plan in plans}) == 1
    assert plans[0].total_ns == plans[0].alone_ns and plans[0].efficiency == 1
