"""Kernels for the tests of reports."""

from nki_kernels.base.isa import nisa, nki, nl


@nki.jit
def softmax(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        top = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[start : start + 128, :])
        nisa.tensor_reduce(dst=top, op=nl.maximum, data=tile, axis=1, negate=True)
        nisa.activation(dst=tile, op=nl.exp, data=tile, bias=top)
        nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[start : start + 128, :], src=tile)
    return out


@nki.jit
def linear(x, weight):
    out = nl.ndarray((128, weight.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    moving = nl.ndarray(weight.shape, dtype=weight.dtype, buffer=nl.sbuf)
    stationary = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
    product = nl.ndarray((128, weight.shape[1]), dtype=nl.float32, buffer=nl.psum)
    result = nl.ndarray((128, weight.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=moving, src=weight)
    nisa.dma_copy(dst=stationary, src=x)
    nisa.nc_matmul(dst=product, stationary=stationary, moving=moving)
    nisa.tensor_copy(dst=result, src=product)
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def halves(x):
    """Each core doubles its half of the columns."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    start = nl.program_id(0) * (columns // 2)
    tile = nl.load(x[:, start : start + columns // 2])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out[:, start : start + columns // 2], src=tile)
    return out


@nki.jit
def in_a_loop(x):
    columns = x.shape[1]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    def body(i):
        row = nl.ndarray((1, columns), dtype=x.dtype, buffer=nl.sbuf)
        pattern = [[columns, 1], [1, columns]]
        nisa.dma_copy(dst=row, src=x.ap(pattern, scalar_offset=i, indirect_dim=0))
        nisa.dma_copy(dst=out.ap(pattern, scalar_offset=i, indirect_dim=0), src=row)

    nl.fori_loop(0, x.shape[0], body)
    return out


@nki.jit
def unwritten(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)  # <b>nothing writes it</b>
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def half_written(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    half = x.shape[1] // 2
    nisa.dma_copy(dst=tile[:, :half], src=x[:, :half])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out
