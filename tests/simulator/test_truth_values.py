"""Values that only the device knows have no truth value while the kernel is built.

Sources: NKI Language Guide, "Tensor Values" (the compiler does not know the values of elements),
and nki/api/nki/isa/__init__.py, VirtualRegister (a register in Python's control flow raises
TypeError under the tracer; the parser frontend accepts `while reg:`).
"""

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nl
from nki_sim import NkiSimulationWarning

from .conftest import blocks, kernel_of, refuses


def ones():
    return nl.ones((4, 4), nl.float32)


@pytest.mark.parametrize(
    "use",
    [
        lambda: 1 if ones() else 2,
        lambda: ones() or ones(),
        lambda: not ones(),
        lambda: ones() and None,
        lambda: 1 if ones() == 0 else 2,
        lambda: 1 if ones() != 1.0 else 2,
    ],
)
def test_a_tensor_has_no_truth_value(use):
    def kernel():
        use()

    refuses("sbuf tile 4x4 float32, .* while the kernel is", nki_sim.simulate(kernel))
    refuses("while the kernel is built", nki_sim.dry_run, kernel)


def while_tensor():
    tile = ones()
    while tile:
        nl.zeros((4, 4), nl.float32)


@pytest.mark.lenient
def test_an_argument_that_is_a_tensor_is_given():
    """`if bias:` of an optional argument, in kernels of nki-library: a warning, unless strict."""

    def kernel(bias, other=None):
        assert not other
        out = nl.ndarray((1, 1), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, nl.full((1, 1), 2.0 if bias else 1.0, nl.float32))
        return out

    with pytest.warns(NkiSimulationWarning, match="no truth value while the kernel is built"):
        assert nki_sim.simulate(kernel)(np.ones((4, 4), np.float32)) == 2
    refuses("while the kernel is built", nki_sim.simulate(while_tensor))


# `is None` is not supported (Migration Guide 0.3), so kernels compare with None.
def test_a_tensor_may_be_compared_with_none():
    def kernel(bias, other=None):
        assert bias != None  # noqa: E711
        assert other == None  # noqa: E711
        assert bias == bias and bias != ones()
        return None

    nki_sim.simulate(kernel)(np.ones((4, 4), np.float32))


# `while register:` is all that the parser takes.
REGISTERS = blocks("""
if
    if register:
        ones()
if in a while
    while register:
        if register:
            ones()
assert
    assert register
while not
    while not register:
        ones()
while two registers
    while register and register:
        ones()
if it is one
    if register == 1:
        ones()
while it is not another
    while register != nisa.register_alloc(0):
        ones()
""")


@pytest.mark.parametrize("name", REGISTERS)
def test_a_register_has_no_truth_value(name):
    kernel = kernel_of("register = nisa.register_alloc(1)\n" + REGISTERS[name], globals())
    with pytest.raises(TypeError, match="register's value is not known while the kernel is built"):
        nki_sim.simulate(kernel)()
