"""tensor_scalar_reduce, tensor_scalar_cumulative, exponential, activate2, compared with NumPy."""

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware
from tests.tolerances import elementary, near, sums

from .conftest import TARGET, blocks, check_values, new, refuses, run, sample, wide, written

RESET_REDUCE, REDUCE, LOAD = (nisa.reduce_cmd[n] for n in ("reset_reduce", "reduce", "load_reduce"))
NUMPY = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


@pytest.fixture
def trn3(monkeypatch):
    monkeypatch.setenv(TARGET, "trn3")


@pytest.mark.parametrize("reduction", NUMPY)
@pytest.mark.parametrize("negate", [False, True])
def test_tensor_scalar_reduce(reduction, negate):
    data = sample((4, 3, 5))

    def body(t):
        dst, total = new(t.shape), new((4, 1))
        nisa.tensor_scalar_reduce(
            dst, t, nl.multiply, 0.5, getattr(nl, reduction), total, reduce_res_negate=negate
        )
        return dst, total

    dst, total = run(body, data)
    near(dst, 0.5 * wide(data), sums(16))
    expected = NUMPY[reduction].reduce(0.5 * wide(data).reshape(4, -1), axis=1, keepdims=True)
    near(total, -expected if negate else expected, sums(16))


KERNELS = blocks("""
tensor_scalar_reduce of a unary operator and of a column [x 4x6] [c 4x1]
    absolute, shifted, first, second = new(x.shape), new(x.shape, "bfloat16"), one(), one()
    nisa.tensor_scalar_reduce(absolute, x, nl.abs, None, nl.maximum, first)
    nisa.tensor_scalar_reduce(shifted, x, nl.subtract, c, nl.add, second)
    return first, shifted, second
  Near(np.abs(x).max(axis=1, keepdims=True), sums(16))
  Near(wide(x) - wide(c), sums(1, "bfloat16"))
  Near((wide(x) - wide(c)).sum(axis=1, keepdims=True), sums(12))  # of values not rounded
tensor_scalar_reduce goes on and loads [x 4x6] [start 4x1]
    dst, negative, chained, loaded = new(x.shape), one(), one(), one()
    add = dst, x, nl.add, 1.0, nl.add
    nisa.tensor_scalar_reduce(*add, negative, reduce_res_negate=True)
    nisa.tensor_scalar_reduce(*add, chained, reduce_cmd=REDUCE)
    nisa.tensor_scalar_reduce(*add, loaded, reduce_cmd=LOAD, reduce_init=start)
    return negative, chained, loaded
  total = (wide(x) + 1).sum(axis=1, keepdims=True)
  Near(-total, sums(16))
  Near(2 * total, sums(16))
  Near(total + wide(start), sums(16))
tensor_scalar_cumulative goes on and loads [x 4x6]
    first, second, third = new(x.shape), new(x.shape), new(x.shape)
    nisa.tensor_scalar_cumulative(first, x, nl.multiply, nl.add, 2.0)
    nisa.tensor_scalar_cumulative(second, x, nl.multiply, nl.add, 2.0, reduce_cmd=REDUCE)
    nisa.tensor_scalar_cumulative(third, x, nl.multiply, nl.add, 2.0, 10.0, LOAD)
    return second, third
  exact = np.cumsum(2 * wide(x), axis=1)
  Near(exact[:, -1:] + exact, sums(16))
  Near(exact + 10, sums(16))
an exponential is a softmax [trn3] [x 8x40]
    highest, first, second, dst = one(8), one(8), one(8), new(x.shape, "bfloat16")
    nisa.tensor_scalar(x, x, nl.multiply, 5.0)
    nisa.tensor_reduce(highest, nl.maximum, x, axis=1)
    nisa.exponential(dst, x, highest, first, RESET_REDUCE)
    nisa.exponential(dst, x, highest, second, LOAD, 3.0)
    return dst, first, second
  scaled = wide(x * np.float32(5))
  expected = np.exp(scaled - scaled.max(axis=1, keepdims=True))
  Near(expected, sums(1, "bfloat16"))
  Near(expected.sum(axis=1, keepdims=True), elementary() + sums(40))
  Near(expected.sum(axis=1, keepdims=True) + 3, elementary() + sums(41))
activate2 reverses, reduces and takes columns [trn3] [x 4x6] [scale 4x1]
    dst, total = new(x.shape), one()
    steps = dst, nl.copy, x, scale, 1.0, nl.multiply, nl.subtract
    reduction = {"reduce_op": nl.add, "reduce_res": total, "reduce_cmd": RESET_REDUCE}
    nisa.activate2(*steps, reverse1=True, **reduction)
    return total
  terms = 1 - wide(x) * wide(scale)
  Near(terms.sum(axis=1, keepdims=True), sums(2 * terms.shape[1]))
activate2 finds the largest magnitude [trn3] [x 4x6]
    dst, largest = new(x.shape), one()
    steps = dst, nl.prelu, x, 0.0, 0.0, nl.bypass, nl.bypass
    reduction = {"reduce_op": nl.abs_max, "reduce_res": largest, "reduce_cmd": RESET_REDUCE}
    nisa.activate2(*steps, relu_param=0.25, **reduction)
    nisa.tensor_scalar(largest, largest, nl.abs, None)
    return dst, largest
  expected = np.where(x > 0, x, 0.25 * x)
  Near(expected, sums(16))
  Near(np.abs(expected).max(axis=1, keepdims=True), sums(16))
""")


def one(rows=4):
    """A number a partition."""
    return new((rows, 1))


@pytest.mark.parametrize("heading", KERNELS)
def test_kernels(heading):
    check_values(heading, KERNELS[heading], globals())


@pytest.mark.parametrize(
    ("name", "start"), [("add", 0), ("subtract", 0), ("multiply", 1), ("maximum", -np.inf)]
)
def test_tensor_scalar_cumulative(name, start):
    data = sample((4, 3, 4))
    found = written(nisa.tensor_scalar_cumulative, data, nl.add, getattr(nl, name), 0.25)
    steps = wide(data).reshape(4, -1) + 0.25
    expected, state = np.empty_like(steps), np.full(4, start)
    arithmetic = NUMPY.get(name, np.subtract)
    for i in range(steps.shape[1]):
        state = expected[:, i] = arithmetic(steps[:, i], state)
    near(found, expected.reshape(4, 3, 4), sums(16))


def busy(kernel, instruction, *specs):
    timeline = nki_sim.dry_run(kernel, *specs)
    return sum(e.end_ns - e.start_ns for e in timeline.events if e.instruction == instruction)


def test_exponential_has_four_times_the_throughput_of_activation(trn3):
    @nki.jit
    def kernel(x):
        t, a, b = new(x.shape), new(x.shape), new(x.shape)
        out = new(x.shape, "float32", nl.shared_hbm)
        nisa.dma_copy(t, x)
        nisa.exponential(a, t)
        nisa.activation(b, nl.exp, a)
        nisa.dma_copy(out, b)
        return out

    spec = ((128, 8192), "float32")
    chip = hardware.current()
    fast, slow = (busy(kernel, f"nisa.{n}", spec) for n in ("exponential", "activation"))
    start = chip.stream_start_cycles / chip.vector_ghz
    assert (slow - start) / (fast - start) == pytest.approx(4, rel=0.05)


STEPS = {
    ("multiply", "add"): lambda x: x * 2 + 0.5,
    ("multiply", "subtract"): lambda x: x * 2 - 0.5,
    ("multiply", "bypass"): lambda x: x * 2,
    ("add", "bypass"): lambda x: x + 2,
    ("subtract", "bypass"): lambda x: x - 2,
    ("bypass", "bypass"): lambda x: x,
}


@pytest.mark.parametrize("names", STEPS)
def test_activate2_steps(names, trn3):
    data = sample((4, 6))
    steps = [getattr(nl, name) for name in names]
    found = written(nisa.activate2, nl.tanh, data, 2.0, 0.5, *steps)
    near(found, np.tanh(STEPS[names](wide(data))), sums(16))


REDUCING = {
    "activation_reduce": lambda dst, t, total: nisa.activation_reduce(
        dst, nl.square, t, nl.add, total
    ),
    "tensor_scalar_reduce": lambda dst, t, total: nisa.tensor_scalar_reduce(
        dst, t, nl.multiply, 2.0, nl.add, total
    ),
    "exponential": lambda dst, t, total: nisa.exponential(dst, t, 0.0, total, RESET_REDUCE),
}


def thrown_away(name, reads_it=False, keeps=True):
    """The sums of an instruction whose elements all go to one place a partition."""

    def body(t):
        sink, total = new((4, 1)), new((4, 1))
        nisa.memset(sink, 0.0)
        place = sink.ap([[1, 4], [0, 6]])
        if keeps:
            REDUCING[name](place, t, total)
        else:
            nisa.activation(place, nl.square, t)
        return (total, sink) if reads_it else total

    return run(body, sample((4, 6)))


@pytest.mark.parametrize("name", REDUCING)
def test_elements_may_be_thrown_away_beside_a_reduction(name, trn3):
    data = wide(sample((4, 6)))
    values = {"activation_reduce": data**2, "tensor_scalar_reduce": 2 * data}.get(name)
    values = np.exp(data) if values is None else values
    near(thrown_away(name), values.sum(axis=1, keepdims=True), elementary() + sums(6))
    refuses("nothing has written", thrown_away, name, reads_it=True)
    refuses("a broadcast view", thrown_away, name, keeps=False)


def reduced(**settings):
    usual = {"op0": nl.add, "operand0": 1.0, "reduce_op": nl.add}

    def instruction(dst, t):
        given = {**usual, "reduce_res": new((4, 1)), **settings}
        nisa.tensor_scalar_reduce(dst, t, **given)

    return written(instruction, sample((4, 6)))


def accumulated(dtype="float32", op1=nl.add):
    return written(nisa.tensor_scalar_cumulative, sample((4, 6), dtype), nl.add, op1, 1.0)


def exponential(dtype="float32", **settings):
    return written(nisa.exponential, sample((4, 6)), dtype=dtype, **settings)


def activated(**settings):
    usual = {"op": nl.exp, "imm0": 1.0, "imm1": 0.0, "op0": nl.multiply, "op1": nl.add}
    return written(lambda dst, t: nisa.activate2(dst, data=t, **usual | settings), sample((4, 6)))


@pytest.mark.parametrize(
    ("chip", "call", "match"),
    [
        ("trn1", lambda: reduced(op0=nl.bitwise_and, operand0=1), "bitvec"),
        ("trn1", lambda: reduced(reverse0=True), "does not support it yet"),
        ("trn1", lambda: reduced(reduce_op=nl.subtract), "must be one of"),
        ("trn1", lambda: reduced(reduce_init=1.0), "except with reduce_cmd.load_reduce"),
        ("trn1", lambda: reduced(reduce_cmd=LOAD), "must be given"),
        ("trn1", lambda: reduced(reduce_cmd=nisa.reduce_cmd.idle), "must be reset_reduce"),
        ("trn1", lambda: reduced(reduce_cmd=3), "member of nki.isa.reduce_cmd"),
        ("trn1", lambda: accumulated("int32"), "32-bit"),
        ("trn1", lambda: accumulated(op1=nl.power), "must be nl.add"),
        ("trn2", lambda: exponential(), "NeuronCore-v4"),
        ("trn3", lambda: exponential(reduce_init=1.0), "except with reduce_cmd.load_reduce"),
        (
            "trn3",
            lambda: exponential(reduce_cmd=nisa.reduce_cmd.reset),
            "must be idle, reset_reduce",
        ),
        ("trn3", lambda: exponential(dtype="uint32"), "dst.dtype"),
        ("trn1", lambda: activated(), "NeuronCore-v4"),
        ("trn3", lambda: activated(op0=nl.add, op1=nl.add), "must be one of"),
        (
            "trn3",
            lambda: activated(op0=nl.bypass, op1=nl.bypass, reverse0=True),
            "there is nothing to reverse",
        ),
        ("trn3", lambda: activated(reduce_cmd=RESET_REDUCE), "reduce_op"),
        ("trn3", lambda: activated(reduce_op=nl.multiply), "must be one of"),
        ("trn3", lambda: activated(op=nl.add), "must be an activation function"),
    ],
)
def test_what_is_refused(chip, call, match, monkeypatch):
    monkeypatch.setenv(TARGET, chip)
    refuses(match, call)
