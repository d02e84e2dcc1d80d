"""Whole kernels of NKIBench on trn1, rebuilt with the structure of their sources, and their times.

NKIBench is the set of kernels that AccelOpt starts from. Loops, tiles, copies and the order of
instructions are those of the sources; the code is written for this project. The sources name no
engine, so that the simulator chooses. All tensors are float32. The times are means of the
profiler's total times, on one core. The compiler was told not to use DGE, and it optimised the
kernels.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.model_check.measured import INPUT, Group, Measured, Value
from bench.model_check.modelled_launch import once_a_chip, readings_us, spec, timeline_of
from bench.model_check.tiles import TILE, WIDE, combined, load, new_like, part, scaled
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim.report.timeline import Timeline

BLOCK = 2 * WIDE  # columns of a copy

DECAY, RATE, EPSILON = 1e-5, 0.01, 1e-8  # of `adamw`
FIRST, SECOND = 0.9, 0.999  # how much of the old moments remains
CORRECTION = 1000.0  # of the second moment


def new(*shape: int) -> Any:
    """Returns a new SBUF tile."""
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)


def new_bank(*shape: int) -> Any:
    """Returns a new PSUM tile."""
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)


def load_identity() -> Any:
    """Returns the identity [128, 128] in SBUF, loaded from HBM."""
    tile = new(TILE, TILE)
    nl.shared_identity_matrix(TILE, dtype=nl.float32, dst=tile)
    return tile


def copy_transposed(dst: Any, data: Any, identity: Any) -> None:
    """Writes the transpose of data to dst; both are in SBUF.

    TensorE multiplies by the identity, and another engine copies the result.
    """
    bank = new_bank(data.shape[1], data.shape[0])
    nisa.nc_matmul(
        dst=bank, stationary=data, moving=identity, is_moving_onezero=True, is_transpose=True
    )
    nisa.tensor_copy(dst=dst, src=bank)


@nki.jit
def adamw(theta, gradient, mean, square):
    """Returns the parameters after a step of AdamW; all tensors are [M, N].

    Tiles [128, 1024] are loaded and stored, halves of them are computed. Every operation is an
    instruction of its own. ``mean`` and ``square`` are the moments of the gradient.
    """
    out = nl.ndarray(theta.shape, dtype=theta.dtype, buffer=nl.shared_hbm)
    for i in range(-(-theta.shape[0] // TILE)):
        rows = slice(i * TILE, min((i + 1) * TILE, theta.shape[0]))
        for j in range(theta.shape[1] // BLOCK):
            columns = part(j, BLOCK)
            tiles = [load(x[rows, columns]) for x in (theta, mean, square, gradient)]
            result = new_like(tiles[0])
            for half in range(2):
                now = part(half, WIDE)
                step_adamw(result[:, now], *[tile[:, now] for tile in tiles])
            nisa.dma_copy(dst=out[rows, columns], src=result)
    return out


def step_adamw(dst: Any, theta: Any, mean: Any, square: Any, gradient: Any) -> None:
    """Writes the new parameters of a tile to dst."""
    kept = combined(theta, scaled(theta, DECAY), nl.subtract)
    old, new_part = scaled(mean, FIRST), scaled(gradient, 1 - FIRST)
    step = scaled(combined(old, new_part, nl.add), RATE)
    old, new_part = scaled(square, SECOND), scaled(gradient, 1 - SECOND)
    moment = combined(old, combined(new_part, gradient, nl.multiply), nl.add)
    root, divisor, inverse = new_like(theta), new_like(theta), new_like(theta)
    nisa.activation(dst=root, op=nl.sqrt, data=moment, scale=CORRECTION)
    nisa.tensor_scalar(dst=divisor, data=root, op0=nl.add, operand0=EPSILON)
    nisa.reciprocal(dst=inverse, data=divisor)
    change = combined(step, inverse, nl.multiply)
    nisa.tensor_tensor(dst=dst, data1=kept, data2=change, op=nl.subtract)


@nki.jit
def rotate(x, cosine, sine):
    """Returns x [2 P, S] with its two halves rotated as the parts of complex numbers.

    cosine and sine are [P, S], P <= 64. Tiles of 512 columns are loaded, rotated and stored.
    """
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    half = x.shape[0] // 2
    upper, lower = part(0, half), part(1, half)
    for i in range(x.shape[1] // WIDE):
        columns = part(i, WIDE)
        tile = load(x[:, columns])
        cosines, sines = load(cosine[:, columns]), load(sine[:, columns])
        result, first, second = new_like(tile), tile[upper], new(half, WIDE)
        nisa.tensor_copy(dst=second, src=tile[lower])
        first_cosine = combined(first, cosines, nl.multiply)
        second_cosine = combined(second, cosines, nl.multiply)
        first_sine = combined(first, sines, nl.multiply)
        second_sine = combined(second, sines, nl.multiply)
        nisa.tensor_tensor(dst=result[upper], data1=first_cosine, data2=second_sine, op=nl.subtract)
        nisa.tensor_tensor(dst=result[lower], data1=second_cosine, data2=first_sine, op=nl.add)
        nisa.dma_copy(dst=out[:, columns], src=result)
    return out


@nki.jit
def batched_matmul(left, right):
    """Returns left [B, M, K] @ right [B, K, N], with K <= 128.

    For every 1024 columns, all rows of left are loaded and transposed again.
    """
    batch, rows, _ = left.shape
    columns = right.shape[2]
    out = nl.ndarray((batch, rows, columns), dtype=left.dtype, buffer=nl.shared_hbm)
    identity = load_identity()
    for b in range(batch):
        for j in range(columns // BLOCK):
            moving = load(right[b, :, part(j, BLOCK)])
            for i in range(rows // BLOCK):
                turned = new(left.shape[2], BLOCK)
                for k in range(BLOCK // TILE):
                    tile = load(left[b, part(i * (BLOCK // TILE) + k, TILE), :])
                    copy_transposed(turned[:, part(k, TILE)], tile, identity)
                for k in range(BLOCK // TILE):
                    result = new(TILE, BLOCK)
                    for half in range(2):
                        bank, now = new_bank(TILE, WIDE), part(half, WIDE)
                        stationary = turned[:, part(k, TILE)]
                        nisa.nc_matmul(dst=bank, stationary=stationary, moving=moving[:, now])
                        nisa.tensor_copy(dst=result[:, now], src=bank)
                    lines = part(i * (BLOCK // TILE) + k, TILE)
                    nisa.dma_copy(dst=out[b, lines, part(j, BLOCK)], src=result)
    return out


@nki.jit
def norm_matmul(x, weights):
    """Returns x [M, K] / rms(x) @ weights [K, N], for eight tiles of 128 rows at a time.

    Every tile of x is loaded twice, and all weights are loaded for every eight tiles.
    """
    (rows, depth), columns = x.shape, weights.shape[1]
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    identity = load_identity()
    for i in range(rows // BLOCK):
        turned = []
        for m in range(BLOCK // TILE):
            tiles = x[part(i * (BLOCK // TILE) + m, TILE), :]
            turned.append(normal_transposed(tiles, inverse_rms(load(tiles)), identity))
        for j in range(columns // BLOCK):
            moving = [load(weights[part(k, TILE), part(j, BLOCK)]) for k in range(depth // TILE)]
            for m in range(BLOCK // TILE):
                lines = part(i * (BLOCK // TILE) + m, TILE)
                store_products(out[lines, part(j, BLOCK)], turned[m], moving)
    return out


def inverse_rms(tile: Any) -> Any:
    """Returns 1 / rms of every row of a tile [128, K], as [128, 1]."""
    depth = tile.shape[1]
    sums = []
    for half in range(depth // WIDE):
        squares, total = new(TILE, WIDE), new(TILE, 1)
        nisa.activation(dst=squares, op=nl.square, data=tile[:, part(half, WIDE)], scale=1.0)
        nisa.tensor_reduce(dst=total, op=nl.add, data=scaled(squares, 1 / depth), axis=1)
        sums.append(total)
    mean, inverse = sums[0], new(TILE, 1)
    for total in sums[1:]:
        mean = combined(mean, total, nl.add)
    nisa.activation(dst=inverse, op=nl.rsqrt, data=mean, scale=1.0)
    return inverse


def normal_transposed(source: Any, inverse: Any, identity: Any) -> list[Any]:
    """Loads [128, K] and returns the transposes of source * inverse, tiles [128, 128]."""
    tile, turned = load(source), []
    for half in range(source.shape[1] // WIDE):
        normal = scaled(tile[:, part(half, WIDE)], inverse)
        for k in range(WIDE // TILE):
            turned.append(new(TILE, TILE))
            copy_transposed(turned[-1], normal[:, part(k, TILE)], identity)
    return turned


def store_products(destination: Any, stationary: list[Any], moving: list[Any]) -> None:
    """Stores the sum of products stationary[k].T @ moving[k] into [128, 1024] of HBM."""
    result = new(TILE, BLOCK)
    for half in range(2):
        bank, now = new_bank(TILE, WIDE), part(half, WIDE)
        for k in range(len(moving)):
            nisa.nc_matmul(dst=bank, stationary=stationary[k], moving=moving[k][:, now])
        nisa.tensor_copy(dst=result[:, now], src=bank)
    nisa.dma_copy(dst=destination, src=result)


@nki.jit
def matmul_transposing(left, right):
    """Returns left [M, K] @ right [K, N], by blocks of 1024 columns.

    All tiles of right in a block are loaded once. Left is loaded and transposed for every block.
    """
    (rows, depth), columns = left.shape, right.shape[1]
    out = nl.ndarray((rows, columns), dtype=left.dtype, buffer=nl.shared_hbm)
    identity = load_identity()
    for j in range(columns // BLOCK):
        moving = [load(right[part(k, TILE), part(j, BLOCK)]) for k in range(depth // TILE)]
        for i in range(rows // TILE):
            turned = []
            for position in range(depth // BLOCK):
                tile, group = load(left[part(i, TILE), part(position, BLOCK)]), new(TILE, BLOCK)
                for k in range(BLOCK // TILE):
                    now = part(k, TILE)
                    copy_transposed(group[:, now], tile[:, now], identity)
                    turned.append(group[:, now])
            store_products(out[part(i, TILE), part(j, BLOCK)], turned, moving)
        moving = []  # the next block takes their memory
    return out


# The figures, and how they are modelled.

SOURCE = (
    "github.com/zhang677/AccelOpt 47e29a7 (2026-07-28), NKIBench/kernels and "
    "experiments/full_complete_local/profile_results.csv: trn1.32xlarge"
)

NKIBENCH = Group(
    "NKIBench, trn1",
    "AdamW, a rotary embedding, and three matrix products M x K x N, in float32",
)
ENGINES = Group("NKIBench: engines, trn1", "busy times of VectorE and ScalarE, added")

ADAMW = "AdamW, 10944 x 2048"
ROPE = "rotation, 128 x 262144"
BMM = "16 of 4096 x 64 x 4096"
NORM = "norm, 4096 x 1024 x 2048"
MATMUL = "4096 x 5120 x 12288"

LAUNCHES: dict[str, tuple[Any, ...]] = {  # kernels, and the shapes of their arguments
    ADAMW: (adamw, *[(10_944, 2048)] * 4),
    ROPE: (rotate, (128, 262_144), (64, 262_144), (64, 262_144)),
    BMM: (batched_matmul, (16, 4096, 64), (16, 64, 4096)),
    NORM: (norm_matmul, (4096, 1024), (1024, 2048)),
    MATMUL: (matmul_transposing, (4096, 5120), (5120, 12_288)),
}


@once_a_chip
def launch(name: str) -> Timeline:
    """Returns the modelled launch of a kernel in full size."""
    kernel, *shapes = LAUNCHES[name]
    return timeline_of(kernel, *[spec("float32", *shape) for shape in shapes])


def whole_us(name: str) -> Value:
    """Returns the microseconds of a kernel."""
    return readings_us(launch(name))


def busy_us(name: str) -> Value:
    """Returns for how many microseconds VectorE and ScalarE are busy, added."""
    return sum(launch(name).engine_busy_ns[engine] for engine in ("vector", "scalar")) / 1e3


def _whole(name: str, us: float, **others: Any) -> Measured:
    model = partial(whole_us, name)
    return Measured(NKIBENCH, "trn1", SOURCE, name, us, model, is_whole_kernel=True, **others)


def _busy(name: str, us: float, **others: Any) -> Measured:
    return Measured(ENGINES, "trn1", SOURCE, name, us, partial(busy_us, name), **others)


# The profiles show what the compiler changed. HBM bytes in MB, as the source of a kernel has them
# and as measured (read, written), and the measured busy fractions of VectorE and ScalarE:
#
#            source         measured       VectorE  ScalarE
#   ADAMW    358.6,   89.7  358.6,   89.7   0.9002   0.6162
#   ROPE     268.4,  134.2  268.4,  134.2   0.7164   0.1411
#   BMM       84.0, 1073.7   67.4, 1086.3   0.0000   0.3726
#   NORM      67.2,   33.6   39.4,   33.6   0.0388   0.1775
#   MATMUL  1258.4,  201.3 9059.8,  201.3   0.0000   0.0680
#
# In ADAMW, ScalarE computes more than the square root. In BMM, the operand on the left is loaded
# and transposed once instead of four times; 12.6 MB are spilt and 33.8 MB are reloaded. In NORM,
# most repeated loads are gone. In MATMUL, the operand on the right does not stay in SBUF: without
# the identity, the bytes read are 32 times its bytes plus 12 times those of the other operand.
# GpSimdE is busy for less than 3%. ADAMW and BMM show that rows with gaps, a power of two apart,
# are moved at full rate. vector_reciprocal_factor comes from another profile of the benchmark, in
# which VectorE is busy for 985 us with silu of [4096, 7168], and was compared with ADAMW.
RECORDS = (
    _whole(ADAMW, 2000, use=INPUT),
    _whole(ROPE, 4333),
    _whole(BMM, 4611, use=INPUT),
    _whole(NORM, 1056),
    _whole(MATMUL, 35_200),
    # The compiler chose between the two engines, so that only their sum can be compared.
    _busy(ADAMW, (0.9002 + 0.6162) * 1999.8, use=INPUT),
    _busy(ROPE, (0.7164 + 0.1411) * 4333.0),
    _busy(BMM, 0.3726 * 4610.9),
    _busy(NORM, (0.0388 + 0.1775) * 1055.8),
    _busy(MATMUL, 0.0680 * 35_199.7),
)

LEFT_OUT: dict[str, str] = {}
