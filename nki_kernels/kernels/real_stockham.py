"""Stockham FFT of real data in two stages, half the numbers in each: one launch, natural order.

Mathematics.  N = R M, and n = K + R q is an output. The first stage contracts the top digit of
t = j M + m,

    Z[K, m] = sum_j exp(-+2 pi i j K / R) x[j M + m],      Z[R-K, m] = conj Z[K, m],

so slots K <= R/2 suffice, of which 0 and R/2 are real: they share one, K = 0 as its real part and
K = R/2 as its imaginary part (odd R has slot 0 for itself). The second stage makes two runs of
outputs of a slot, as X[N-n] = conj X[n]:

    X[K + R q]     = sum_m exp(-+2 pi i m (K + R q) / N)        Z[K, m]        q = 0, 1, ...
    X[(R-K) + R q] = sum_m exp(-+2 pi i m ((R-K) + R q) / N) conj Z[K, m]      up to n = N/2

The twiddles are part of that matrix, one a slot. Slot 0 makes the multiples of R/2. Nothing is
computed twice and there is no separate step that splits spectra, as there is where N/2 complex
numbers or two rows are transformed in place of one real row.

The inverse, real data from a half spectrum, is the transpose: runs of a spectrum to slots, then
x[j M + m] = sum_K exp(+-2 pi i j K / R) Z[K, m] over all K, which is Z[0, m] + (-1)^j Z[R/2, m]
plus twice the real part of the others. Imaginary parts of X[0] and X[N/2] are ignored.

Layout on the NeuronCore.  As in stockham: transforms lie on partitions, [128, rows, N], and the
Tensor engine transposes a slab, then multiplies it as the stationary operand. In the first stage
g <= 128 / R slabs with consecutive m share a product; in the second a product takes one slot.

    HBM [B, N] -> SBUF [128, rows, N] -> [128, 2, rows, slots, M] -> [128, 2, rows, N/2+1] -> HBM

Why it is fast.  It has half the matrix products of a complex transform and half its DMA.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..nki_api import nisa, nki, nl
from ..packing import unpack
from ..tiles import DMA_RUN, PARTITIONS, PSUM_BANK
from .dft_gemm import load_rows, store_rows, table_spec
from .old_stages import load_identity

MAX_REAL_RADIX = 128
MAX_SPECTRUM_RADIX = 64
MAX_LENGTH = MAX_REAL_RADIX * MAX_SPECTRUM_RADIX
_PAIRS = 8  # matrices of slots that a DMA brings


def slot_count(radix: int) -> int:
    """Complex numbers that hold the spectrum of ``radix`` real ones, Nyquist beside DC."""
    return (radix + 1) // 2


def slabs_together(radix: int, left: int) -> int:
    """Slabs g that one product of the real stage takes: 2 g slots <= 128, and g divides M."""
    best = 1
    for g in range(2, PARTITIONS // (2 * slot_count(radix)) + 1):
        if left % g == 0:
            best = g
    return best


def run_length(left: int) -> int:
    """Numbers q of the longer run of a slot: n = K + R q, n <= N/2."""
    return (left + 1) // 2


def multiples(radix: int, left: int) -> tuple[int, int]:
    """Step and count of those n <= N/2 that slot 0 makes: multiples of R/2, or of an odd R."""
    step = radix // 2 if radix % 2 == 0 else radix
    return step, radix * left // 2 // step + 1


def real_stockham_tables(
    n: int, radices: tuple[int, int], inverse: bool = False, scale: float = 1.0
) -> tuple[Any, ...]:
    """The tables of ``real_stockham``, float32: (real stage, slot 0, slots 1, 2, ...).

    Shapes: [g R, 2 slots g], rows (j, slab), columns (part, slot, slab); [2 M, 2 E], rows (part,
    m), columns (part, multiple); [2 M, slots - 1, 4 Q], rows (part, m), columns (part, q, run),
    which is missing if there is one slot. inverse: the sign of the exponent, True for exp(+...).
    Raises ValueError where the radices do not multiply to n, or one is too large.
    """
    _check(n, radices)
    radix, left = radices
    sign = 2j * np.pi / n * (1 if inverse else -1)
    g, slots = slabs_together(radix, left), slot_count(radix)
    real = np.zeros((radix, 2, slots))
    for slot in range(slots):
        w = scale * np.exp(sign * left * (np.arange(radix) * slot % radix))
        real[:, 0, slot], real[:, 1, slot] = w.real, w.imag
    real[:, 1, 0] = scale * (-1.0) ** np.arange(radix) if radix % 2 == 0 else 0
    opening = np.einsum("jpk,st->jspkt", real, np.eye(g)).reshape(g * radix, -1)
    m = np.arange(left)[:, None]
    step, count = multiples(radix, left)
    w = np.exp(sign * (m * (step * np.arange(count)) % n))
    edge = np.stack([w, w])
    if radix % 2 == 0:
        edge[0, :, 1::2] = edge[1, :, 0::2] = 0
    else:
        edge[1] = 0
    pairs = [_pair(n, radix, left, slot, sign) for slot in range(1, slots)]
    return (
        opening.astype(np.float32),
        _split(edge).reshape(2 * left, -1).astype(np.float32),
        *_stacked(pairs),
    )


def inverse_real_stockham_tables(
    n: int, radices: tuple[int, int], inverse: bool = True, scale: float = 1.0
) -> tuple[Any, ...]:
    """The tables of ``inverse_real_stockham``, float32: (real stage, slot 0, slots 1, 2, ...).

    Shapes: [2 slots g, g R], rows (slot, part, slab), columns (j, slab); [E, 2, 2 M], rows
    multiples, then part, columns (part, m); [4 Q, slots - 1, 2 M], rows (part, q, run), columns
    (part, m), which is missing if there is one slot. Otherwise as ``real_stockham_tables``.
    """
    _check(n, radices)
    radix, left = radices
    sign = 2j * np.pi / n * (1 if inverse else -1)
    g, slots = slabs_together(radix, left), slot_count(radix)
    step, count = multiples(radix, left)
    numbers = step * np.arange(count)
    w = np.exp(sign * (numbers[:, None] * np.arange(left) % n)) * 2
    own = (numbers == 0) | (2 * numbers == n)
    w[own] = w[own].real / 2
    edge = np.zeros((count, 2, 2, left))
    for part in range(2 - radix % 2):
        mine = slice(part, None, 2) if radix % 2 == 0 else slice(None)
        edge[mine, 0, part], edge[mine, 1, part] = w.real[mine], -w.imag[mine]
    # The transpose of the forward stage with the other sign, which conjugates.
    pairs = [_pair(n, radix, left, slot, -sign).T for slot in range(1, slots)]
    j = np.arange(radix)
    real = np.zeros((slots, 2, radix))
    for slot in range(slots):
        w = (1 if slot == 0 else 2) * np.exp(sign * left * (j * slot % radix))
        real[slot, 0], real[slot, 1] = w.real, -w.imag
    real[0, 1] = (-1.0) ** j if radix % 2 == 0 else 0
    closing = np.einsum("kpj,st->kpsjt", scale * real, np.eye(g)).reshape(2 * slots * g, -1)
    return (
        closing.astype(np.float32),
        edge.reshape(count, 2, 2 * left).astype(np.float32),
        *_stacked(pairs),
    )


def real_stockham_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of each of ``real_stockham_tables(n, radices, ...)``."""
    radix, left = radices
    g, slots = slabs_together(radix, left), slot_count(radix)
    opening = table_spec((g * radix, 2 * slots * g))
    pairs = table_spec((2 * left, slots - 1, 4 * run_length(left)))
    edge = table_spec((2 * left, 2 * multiples(radix, left)[1]))
    return (opening, edge, pairs) if slots > 1 else (opening, edge)


def inverse_real_stockham_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of each of ``inverse_real_stockham_tables(n, radices, ...)``."""
    radix, left = radices
    g, slots = slabs_together(radix, left), slot_count(radix)
    edge = table_spec((multiples(radix, left)[1], 2, 2 * left))
    pairs = table_spec((4 * run_length(left), slots - 1, 2 * left))
    closing = table_spec((2 * slots * g, g * radix))
    return (closing, edge, pairs) if slots > 1 else (closing, edge)


def _check(n: int, radices: tuple[int, int]) -> None:
    if len(radices) != 2 or radices[0] * radices[1] != n:
        raise ValueError(f"radices {radices}: must be two with the product n = {n}")
    limits = MAX_REAL_RADIX, MAX_SPECTRUM_RADIX
    if any(not 2 <= r <= limit for r, limit in zip(radices, limits, strict=True)):
        raise ValueError(f"radices {radices}: the first must be 2 to 128, the second 2 to 64")


def _pair(n: int, radix: int, left: int, slot: int, sign: complex) -> np.ndarray[Any, Any]:
    """Rows (part, m), columns (part, q, run): the two runs of outputs of a slot; [2 M, 4 Q]."""
    starts = np.array([slot, radix - slot])
    outputs = starts + radix * np.arange(run_length(left))[:, None]  # [q, run]
    w = np.exp(sign * (np.arange(left)[:, None, None] * outputs % n))
    w[:, 2 * outputs > n] = 0
    return _split(np.stack([w, w * np.array([1j, -1j])])).reshape(2 * left, -1)


def _stacked(pairs: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """The tables of slots 1, 2, ... as one, float32, or none."""
    return [np.stack(pairs, 1).astype(np.float32)] if pairs else []


def _split(w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Complex [part, m, ...], where part 1 has its factor i, as reals [part, m, part', ...]."""
    return np.stack([w.real, w.imag], 2)


@nki.jit
def real_stockham(x, tables, places, radices):  # type: ignore[no-untyped-def]
    """Spectra of the rows of real ``x``: n = 0 .. N/2.

    x: float32 HBM [B, N]. tables, places: ``pack(real_stockham_tables(N, radices, ...))``. Returns
    (y_re, y_im), float32 HBM [B, N // 2 + 1].
    """
    batch, n = x.shape
    assert n == radices[0] * radices[1], f"radices {radices} for N = {n}"
    y_re = nl.ndarray((batch, n // 2 + 1), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n // 2 + 1), dtype=nl.float32, buffer=nl.shared_hbm)
    real_stockham_rows(x, [y_re, y_im], unpack(tables, places), radices)
    return y_re, y_im


def real_stockham_rows(x: Any, target: Any, tables: Any, radices: Any) -> None:
    """Half spectra of the rows of HBM x [B, <= N], zeros after them, into the parts of target."""
    batch = x.shape[0]
    radix, left = radices
    n = radix * left
    half = n // 2 + 1
    identity = load_identity(nl.float32)
    resident: Any = []
    pending: Any = []
    start = 0
    while start < batch:
        rows = rows_of_block(batch - start, n)
        partitions = min(PARTITIONS, (batch - start) // rows)
        stop = start + rows * partitions
        data = nl.ndarray((partitions, rows, n), dtype=nl.float32, buffer=nl.sbuf)
        load_rows(data, x, start, stop)
        if start == 0:
            # Behind the first block, which is needed first.
            resident = load_stages(tables)
        slots = nl.ndarray(
            (partitions, 2, rows, slot_count(radix), left), dtype=nl.float32, buffer=nl.sbuf
        )
        length = max(half, run_length(left) * radix)
        y = nl.ndarray((partitions, 2, rows, length), dtype=nl.float32, buffer=nl.sbuf)
        block = [data, slots, y, target, half, start, stop, False]
        for item in forward_work(radices, rows):
            pending = advance_forward(item, block, resident, radices, identity, pending)
        start = stop
    finish_forward(pending, resident, radices)


@nki.jit
def inverse_real_stockham(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Real rows of half spectra ``x_re + i x_im``.

    x_re, x_im: float32 HBM [B, N // 2 + 1]. tables, places: ``pack(inverse_real_stockham_tables(N,
    radices, ...))``. Returns y, float32 HBM [B, N].
    """
    batch, half = x_re.shape
    assert x_im.shape == x_re.shape, f"x_im {x_im.shape} differs from x_re {x_re.shape}"
    n = radices[0] * radices[1]
    assert half == n // 2 + 1, f"half spectra of {half} numbers for N = {n}"
    y = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    inverse_real_stockham_rows([x_re, x_im], y, unpack(tables, places), radices)
    return y


def inverse_real_stockham_rows(source: Any, y: Any, tables: Any, radices: Any) -> None:
    """Real rows of half spectra, the two parts of HBM source, into HBM y [B, <= N]."""
    batch, half = source[0].shape
    radix, left = radices
    n = radix * left
    identity = load_identity(nl.float32)
    resident: Any = []
    pending: Any = []
    start = 0
    while start < batch:
        rows = rows_of_block(batch - start, n)
        partitions = min(PARTITIONS, (batch - start) // rows)
        stop = start + rows * partitions
        length = max(half, run_length(left) * radix)
        data = nl.ndarray((partitions, 2, rows, length), dtype=nl.float32, buffer=nl.sbuf)
        for part in range(2):
            load_rows(data[:, part], source[part], start, stop)
        if start == 0:
            resident = load_stages(tables)
        slots = nl.ndarray(
            (partitions, rows, slot_count(radix), 2, left), dtype=nl.float32, buffer=nl.sbuf
        )
        result = nl.ndarray((partitions, rows, n), dtype=nl.float32, buffer=nl.sbuf)
        block = [data, slots, result, y, half, start, stop, False]
        for item in inverse_work(radices, rows):
            pending = advance_inverse(item, block, resident, radices, identity, pending)
        start = stop
    finish_inverse(pending, resident, radices)


def rows_of_block(left: int, n: int) -> int:
    """Rows that a partition takes in the next block, of ``left`` still to do."""
    return min(max(1, DMA_RUN // n), max(1, left // PARTITIONS))


def load_stages(tables: Any) -> Any:
    """The tables in SBUF: [real stage, [slots 1, 2, ...] or nothing, slot 0]."""
    return [load_whole(tables[0]), load_pairs(tables[2:]), load_whole(tables[1])]


def load_whole(table: Any) -> Any:
    """A small table in SBUF, copied by GpSimdE: what DMA writes may not stay."""
    staged = nl.ndarray(table.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=staged, src=table)
    tile = nl.ndarray(table.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=staged, engine=nisa.engine.gpsimd)
    return tile


def load_pairs(tables: Any) -> Any:
    """The table of slots 1, 2, ... in SBUF, one tile, or none where there is no such slot."""
    tiles = []
    for table in tables:
        depth, count, width = table.shape
        tile = nl.ndarray(table.shape, dtype=nl.float32, buffer=nl.sbuf)
        for first in range(0, count, _PAIRS):
            last = min(first + _PAIRS, count)
            staged = nl.ndarray((depth, last - first, width), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=staged, src=table[:, first:last])
            nisa.tensor_copy(dst=tile[:, first:last], src=staged, engine=nisa.engine.gpsimd)
        tiles.append(tile)
    return tiles


def forward_work(radices: Any, rows: int) -> Any:
    """Groups of products: [stage, row, first, count, whether it is the block's last].

    Stage 0 is the real one, first its m; stage 1 makes outputs of slots from the first on, and
    stage 2 those of slot 0.
    """
    work = real_work(radices, rows)
    group = min(4, PSUM_BANK // (4 * run_length(radices[1])))
    slots = slot_count(radices[0])
    for row in range(rows):
        work.append([2, row, 0, 1, row == rows - 1 and slots == 1])
        for first in range(1, slots, group):
            count = min(group, slots - first)
            work.append([1, row, first, count, row == rows - 1 and first + count == slots])
    return work


def inverse_work(radices: Any, rows: int) -> Any:
    """As ``forward_work``, the real stage last: the others make slots of outputs."""
    work = []
    group = min(4, PSUM_BANK // (2 * radices[1]))
    slots = slot_count(radices[0])
    for row in range(rows):
        work.append([2, row, 0, 1, False])
        for first in range(1, slots, group):
            work.append([1, row, first, min(group, slots - first), False])
    for step in real_work(radices, rows):
        work.append(step)
    work[len(work) - 1][4] = True
    return work


def real_work(radices: Any, rows: int) -> Any:
    """Groups of the stage that contracts real numbers, or makes them."""
    radix, left = radices
    together = slabs_together(radix, left)
    step = together * min(4, PSUM_BANK // (2 * slot_count(radix) * together))
    work = []
    for row in range(rows):
        for first in range(0, left, step):
            work.append([0, row, first, min(step, left - first) // together, False])
    return work


def advance_forward(
    item: Any, block: Any, resident: Any, radices: Any, identity: Any, pending: Any
) -> Any:
    """Transposes of an item, then the products of the one before, which is pending."""
    if must_wait(item, pending):
        finish_forward(pending, resident, radices)
        pending = []
    moved = turn_forward(item, block, radices, identity)
    if len(pending) > 0:
        finish_forward(pending, resident, radices)
    return [item, moved, block]


def advance_inverse(
    item: Any, block: Any, resident: Any, radices: Any, identity: Any, pending: Any
) -> Any:
    """As ``advance_forward``."""
    if must_wait(item, pending):
        finish_inverse(pending, resident, radices)
        pending = []
    moved = turn_inverse(item, block, radices, identity)
    if len(pending) > 0:
        finish_inverse(pending, resident, radices)
    return [item, moved, block]


def must_wait(item: Any, pending: Any) -> bool:
    """Whether the item reads what the pending one, of the stage before, has still to write."""
    if len(pending) == 0 or item[1] != pending[0][1] or pending[0][4]:
        return False
    return (item[0] == 0) != (pending[0][0] == 0)


def turn_forward(item: Any, block: Any, radices: Any, identity: Any) -> Any:
    """Operands [rows of a product, count, partitions] of a group, by the Tensor engine.

    They leave PSUM by VectorE or, as the last of the block's fields says, by ScalarE.
    """
    stage, row, first, count, _ = item
    radix, left = radices
    partitions = block[0].shape[0]
    together = slabs_together(radix, left)
    depth = together * radix if stage == 0 else 2 * left
    bank = nl.ndarray((depth, count, partitions), dtype=nl.float32, buffer=nl.psum)
    digits = block[0][:, row].reshape_dim(1, (radix, left))
    for product in range(count):
        if stage == 0:
            m = first + product * together
            transpose(bank[:, product], digits[:, :, m : m + together], identity)
        else:
            transpose(bank[:, product], block[1][:, :, row, first + product], identity)
    return evacuate(bank, block[7])


def turn_inverse(item: Any, block: Any, radices: Any, identity: Any) -> Any:
    """As ``turn_forward``; of slot 0 real and imaginary parts, one after the other."""
    stage, row, first, count, _ = item
    radix, left = radices
    partitions = block[0].shape[0]
    if stage == 2:
        step, numbers = multiples(radix, left)
        bank = nl.ndarray((numbers, 2, partitions), dtype=nl.float32, buffer=nl.psum)
        for part in range(2):
            data = block[0][:, part, row, 0 : block[4] : step]
            transpose(bank[:, part], data, identity)
        return evacuate(bank, block[7])
    together = slabs_together(radix, left)
    run = run_length(left)
    depth = 4 * run if stage == 1 else 2 * slot_count(radix) * together
    bank = nl.ndarray((depth, count, partitions), dtype=nl.float32, buffer=nl.psum)
    runs = block[0][:, :, row, 0 : run * radix].reshape_dim(2, (run, radix))
    for product in range(count):
        if stage == 1:
            slot = first + product
            data = runs[:, :, :, slot : radix - slot + 1 : radix - 2 * slot]
        else:
            m = first + product * together
            data = block[1][:, row, :, :, m : m + together]
        transpose(bank[:, product], data, identity)
    return evacuate(bank, block[7])


def transpose(dst: Any, data: Any, identity: Any) -> None:
    """Data [partitions, ...] to PSUM [..., partitions]."""
    partitions = data.shape[0]
    nisa.nc_matmul(
        dst=dst,
        stationary=data,
        moving=identity[0:partitions, 0:partitions],
        is_moving_onezero=True,
        is_transpose=True,
        accumulate=False,
    )


def evacuate(bank: Any, is_scalar: bool) -> Any:
    """A PSUM bank in SBUF, by VectorE or ScalarE."""
    moved = nl.ndarray(bank.shape, dtype=nl.float32, buffer=nl.sbuf)
    if is_scalar:
        nisa.activation(dst=moved, op=nl.copy, data=bank)
    else:
        nisa.tensor_copy(dst=moved, src=bank, engine=nisa.engine.vector)
    return moved


def finish_forward(pending: Any, resident: Any, radices: Any) -> None:
    """Products of a group, their evacuation by ScalarE, and the store after a block's last."""
    item, moved, block = pending
    stage, row, first, count, is_last = item
    radix, left = radices
    y = block[2]
    partitions = y.shape[0]
    if stage == 0:
        together = slabs_together(radix, left)
        width = count * together
        shape = (partitions, 2, slot_count(radix), width)
        bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
        for product in range(count):
            low = product * together
            multiply(bank[:, :, :, low : low + together], moved[:, product], resident[0], False)
        nisa.activation(dst=block[1][:, :, row, :, first : first + width], op=nl.copy, data=bank)
    elif stage == 1:
        finish_runs(item, moved, y, resident[1][0], radices)
    else:
        step, numbers = multiples(radix, left)
        bank = nl.ndarray((partitions, 2, numbers), dtype=nl.float32, buffer=nl.psum)
        multiply(bank, moved[:, 0], resident[2], False)
        nisa.activation(dst=y[:, :, row, 0 : block[4] : step], op=nl.copy, data=bank)
    if is_last:
        for part in range(2):
            store_rows(block[3][part], y[:, part], block[5], block[6])


def finish_runs(item: Any, moved: Any, y: Any, table: Any, radices: Any) -> None:
    """Outputs of ``count`` slots: K ascends in the first half of the bank, R - K in the second."""
    _, row, first, count, _ = item
    radix, left = radices
    run = run_length(left)
    bank = nl.ndarray((y.shape[0], 2, run, 2 * count), dtype=nl.float32, buffer=nl.psum)
    for product in range(count):
        place = bank[:, :, :, product : 2 * count - product : 2 * count - 1 - 2 * product]
        multiply(place, moved[:, product], table[:, first + product - 1], False)
    lower = y[:, :, row, 0 : run * radix].reshape_dim(2, (run, radix))
    nisa.activation(
        dst=lower[:, :, :, first : first + count], op=nl.copy, data=bank[:, :, :, 0:count]
    )
    # Of an odd M the second run ends before the first.
    others = left // 2
    if others > 0:
        above = radix - first - count + 1
        nisa.activation(
            dst=lower[:, :, 0:others, above : above + count],
            op=nl.copy,
            data=bank[:, :, 0:others, count : 2 * count],
        )


def finish_inverse(pending: Any, resident: Any, radices: Any) -> None:
    """As ``finish_forward``."""
    item, moved, block = pending
    stage, row, first, count, is_last = item
    radix, left = radices
    result = block[2]
    partitions = result.shape[0]
    if stage == 0:
        together = slabs_together(radix, left)
        width = count * together
        bank = nl.ndarray((partitions, radix, width), dtype=nl.float32, buffer=nl.psum)
        for product in range(count):
            low = product * together
            multiply(bank[:, :, low : low + together], moved[:, product], resident[0], False)
        digits = result[:, row].reshape_dim(1, (radix, left))
        nisa.activation(dst=digits[:, :, first : first + width], op=nl.copy, data=bank)
        if is_last:
            store_rows(block[3], result, block[5], block[6])
        return
    bank = nl.ndarray((partitions, count, 2, left), dtype=nl.float32, buffer=nl.psum)
    if stage == 2:
        for part in range(2):
            multiply(bank[:, 0], moved[:, part], resident[2][:, part], part > 0)
    else:
        for product in range(count):
            table = resident[1][0][:, first + product - 1]
            multiply(bank[:, product], moved[:, product], table, False)
    nisa.activation(dst=block[1][:, row, first : first + count], op=nl.copy, data=bank)


def multiply(dst: Any, data: Any, table: Any, accumulate: bool) -> None:
    """Data [K, partitions] transposed times table [K, columns], in PSUM."""
    nisa.nc_matmul(dst=dst, stationary=data, moving=table, accumulate=accumulate)
