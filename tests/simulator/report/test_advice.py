"""Advice names improvements that the kernel's own instructions allow, and none that it has made."""

import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware
from nki_sim.report import bottlenecks


@nki.jit
def products(x):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    for _ in range(32):
        nisa.nc_matmul(dst=total, stationary=tile[:, 0:128], moving=tile)
    result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def steps(x):
    """ScalarE is busy with what no other engine has, and VectorE with copies."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for _ in range(8):
        other = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.activation(dst=other, op=nl.exp, data=tile)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile, src=other, engine=nisa.engine.vector)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def in_a_loop(x):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    def body(row):
        tile = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
        pattern = [[columns, 128], [1, columns]]
        nisa.dma_copy(dst=tile, src=x.ap(pattern, scalar_offset=row, indirect_dim=0))
        nisa.dma_copy(dst=out.ap(pattern, scalar_offset=row, indirect_dim=0), src=tile)

    nl.fori_loop(0, rows, body, 128)
    return out


@nki.jit
def by_columns(x, width):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for first in range(0, x.shape[1], width):
        part = tile[:, first : first + width]
        vector = nisa.engine.vector
        nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=2.0, engine=vector)
    nisa.dma_copy(dst=out, src=tile)
    return out


def advice(kernel, shape, dtype, chip="trn2", *rest):
    with hardware.select(hardware.chip(chip)), nki_sim.sources():
        timeline = nki_sim.dry_run(kernel, (shape, dtype), *rest)
        return {b.cause: b.advice for b in bottlenecks(timeline)}


@pytest.mark.parametrize(("dtype", "is_wide"), [("float32", True), ("bfloat16", False)])
def test_full_matmuls(dtype, is_wide):
    found = advice(products, (128, 512), dtype)["TensorE busy"]
    assert ("16 bits are 4 times as fast" in found) is is_wide
    assert "Fill the array" not in found and "transposes" not in found and found


@pytest.mark.parametrize(("dtype", "is_wide"), [("float32", True), ("bfloat16", False)])
def test_bytes_that_dma_moves(dtype, is_wide):
    found = advice(steps, (128, 8192), dtype)["DMA moves data at full rate"]
    assert ("16-bit numbers" in found) is is_wide


@pytest.mark.parametrize(("chip", "is_free"), [("trn1", False), ("trn2", True)])
def test_engines_that_could_take_over(chip, is_free):
    found = advice(steps, (128, 4096), "float32", chip)
    assert "could take" not in found["ScalarE busy"]
    vector = found["VectorE busy"]
    assert "tensor_scalar" not in vector
    assert ("GpSimdE could take some of tensor_copy" in vector) is is_free  # it shares a port


def test_loads_ahead_in_a_loop_on_the_device_are_of_its_iteration():
    found = advice(in_a_loop, (1024, 64), "float32")["Latency of DMA"]
    assert "several tiles in an iteration" in found and "next tile" not in found


@pytest.mark.parametrize(("width", "is_small"), [(1, True), (32, True), (128, False)])
def test_instructions_of_few_elements(width, is_small):
    found = advice(by_columns, (128, 1024), "float32", "trn1", width)
    assert ("VectorE busy: fixed costs of small instructions" in found) is is_small
    assert ("VectorE busy" in found) is not is_small


@nki.jit
def ordered(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    with nl.no_reorder():
        for _ in range(8):
            one = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
            other = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
            nisa.activation(dst=one, op=nl.exp, data=tile)
            nisa.tensor_tensor(dst=other, data1=tile, data2=tile, op=nl.add)
    nisa.dma_copy(dst=out, src=other)
    return out


def test_blocks_without_reordering_of_several_engines():
    found = advice(ordered, (128, 512), "float32", "trn2")
    text = found["A no_reorder block runs one instruction after the other"]
    assert "no way to keep the order of several engines" in text and "depends_on" in text
