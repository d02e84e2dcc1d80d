"""One stage of a simulation of turbulence, rebuilt with the structure of its source.

The source is tgv_stage_nki.py with dft3d_perm_nki.py in
github.com/aws-samples/sample-spectral-dns-on-aws-neuron. Loads, instructions and their order are
those of the source; the code is written for this project. A field is a float32 tensor (N, N, N),
and a spectrum is a pair of such fields. A transform consists of three passes, each of which
transforms the rows of a view and transposes the view; the data are the stationary operand.
"""

from __future__ import annotations

from typing import Any

from bench.model_check.tiles import TILE, WIDE, combined, load, part, scaled
from nki_kernels.base.isa import nisa, nki, nl


@nki.jit
def turbulence_stage(spectra, changes, matrices, waves, decay):
    """Returns the state and the changes after a stage of a Runge-Kutta step, 12 tensors.

    spectra and changes are six tensors (N, N, N) each: real and imaginary part for each direction.
    matrices are cosine, sine and negative sine, (N, N) each; waves are three wave numbers, their
    inverse squared length and a mask, (N, N, N) each. decay is a tensor (N, N, N) for the last
    stage of a step, and None for the others.
    """
    cosine, sine, negative = matrices
    velocity, vorticity = pairs(spectra), new_vorticity(pairs(spectra), waves)
    backward = (cosine, negative, sine)
    fields = []
    for spectrum in velocity + vorticity:
        fields.append(transform(spectrum, backward, 2.0**-12, True)[0])
    forces = []
    for force in new_cross(fields):
        forces.append(transform((force, None), (cosine, sine, negative), 1.0, False))
    return update(forces, spectra, changes, waves, decay)


def pairs(tensors: Any) -> list[Any]:
    """Returns three pairs of a real and an imaginary part."""
    return [(tensors[0], tensors[1]), (tensors[2], tensors[3]), (tensors[4], tensors[5])]


def new_field(n: int, buffer: Any = nl.hbm) -> Any:
    """Returns a new field in HBM."""
    return nl.ndarray((n, n, n), dtype=nl.float32, buffer=buffer)


def rows_of(field: Any) -> Any:
    """Returns a view (N, N * N) of a field."""
    return field.reshape((field.shape[0], field.shape[1] * field.shape[2]))


def chunks_of(n: int) -> Any:
    """Returns the slices of 512 columns of a view (N, N * N)."""
    return [part(position, WIDE) for position in range(n * n // WIDE)]


def store_cross(out: Any, chunk: Any, left: Any, right: Any) -> None:
    """Stores the difference of two products, each of two tiles, into a chunk of a field."""
    difference = combined(
        combined(left[0], left[1], nl.multiply),
        combined(right[0], right[1], nl.multiply),
        nl.subtract,
    )
    nisa.dma_copy(dst=rows_of(out)[:, chunk], src=difference)


def new_vorticity(velocity: Any, waves: Any) -> list[Any]:
    """Returns i k x velocity, three spectra in HBM."""
    n = waves[0].shape[0]
    out = [(new_field(n), new_field(n)) for _ in range(3)]
    for chunk in chunks_of(n):
        k = [load(rows_of(wave)[:, chunk]) for wave in waves[:3]]
        v = [[load(rows_of(part_)[:, chunk]) for part_ in pair] for pair in velocity]
        for axis in range(3):
            a, b = (axis + 1) % 3, (axis + 2) % 3
            store_cross(out[axis][0], chunk, (k[b], v[a][1]), (k[a], v[b][1]))
            store_cross(out[axis][1], chunk, (k[a], v[b][0]), (k[b], v[a][0]))
    return out


def new_cross(fields: Any) -> list[Any]:
    """Returns the cross product of velocity and vorticity, three fields in HBM."""
    n = fields[0].shape[0]
    out = [new_field(n) for _ in range(3)]
    for chunk in chunks_of(n):
        tiles = [load(rows_of(field)[:, chunk]) for field in fields]
        for axis in range(3):
            a, b = (axis + 1) % 3, (axis + 2) % 3
            store_cross(out[axis], chunk, (tiles[a], tiles[3 + b]), (tiles[b], tiles[3 + a]))
    return out


def transform(source: Any, matrices: Any, scale: float, real_output: bool) -> Any:
    """Returns the transform of a spectrum or of a field as (real, imaginary or None)."""
    n = source[0].shape[0]
    tiles = [load(matrix) for matrix in matrices]
    first, second = (new_field(n), new_field(n)), (new_field(n), new_field(n))
    rows = [None if one is None else rows_of(one) for one in source]
    rows_pass([one.reshape((n * n, n)) for one in first], rows, tiles, 1.0)
    for plane in range(n):
        rows_pass([one[plane] for one in second], [one[plane] for one in first], tiles, 1.0)
    last = (new_field(n), None if real_output else new_field(n))
    outs = [None if one is None else one.reshape((n * n, n)) for one in last]
    rows_pass(outs, [rows_of(one) for one in second], tiles, scale)
    return last


def rows_pass(out: Any, source: Any, matrices: Any, scale: float) -> None:
    """Writes the transform of the rows of source [N, M] to out [M, N]; both are pairs."""
    cosine, plus, minus = matrices
    n, count = source[0].shape
    width = min(WIDE, count)
    for position in range(count // width):
        tiles = [None if x is None else load(x[:, part(position, width)]) for x in source]
        height = min(TILE, width)
        for group in range(width // height):
            data = [None if t is None else t[:, part(group, height)] for t in tiles]
            rows = part(position * (width // height) + group, height)
            store_product(out[0], rows, data, (cosine, plus), scale)
            if out[1] is not None:
                store_product(out[1], rows, data, (minus, cosine), scale)


def store_product(out: Any, rows: Any, data: Any, matrices: Any, scale: float) -> None:
    """Stores real.T @ matrices[0] + imaginary.T @ matrices[1] in rows of out."""
    n = matrices[0].shape[1]
    bank = nl.ndarray((data[0].shape[1], n), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=bank, stationary=data[0], moving=matrices[0], accumulate=False)
    if data[1] is not None:
        nisa.nc_matmul(dst=bank, stationary=data[1], moving=matrices[1], accumulate=True)
    result = nl.ndarray(bank.shape, dtype=nl.float32, buffer=nl.sbuf)
    if scale == 1.0:
        nisa.tensor_copy(dst=result, src=bank)
    else:
        nisa.tensor_scalar(dst=result, data=bank, op0=nl.multiply, operand0=scale)
    nisa.dma_copy(dst=out[rows, :], src=result)


def update(forces: Any, spectra: Any, changes: Any, waves: Any, decay: Any) -> Any:
    """Returns new state and changes: the forces without divergence, and a Runge-Kutta stage."""
    n = waves[0].shape[0]
    out = [new_field(n, nl.shared_hbm) for _ in range(12)]
    for chunk in chunks_of(n):
        *k, inverse, mask = [load(rows_of(wave)[:, chunk]) for wave in waves]
        for half in range(2):
            f = []
            for force in forces:
                f.append(combined(load(rows_of(force[half])[:, chunk]), mask, nl.multiply))
            total = combined(
                combined(k[0], f[0], nl.multiply), combined(k[1], f[1], nl.multiply), nl.add
            )
            total = combined(total, combined(k[2], f[2], nl.multiply), nl.add)
            total = combined(total, inverse, nl.multiply)
            for axis in range(3):
                which = 2 * axis + half
                free = combined(f[axis], combined(k[axis], total, nl.multiply), nl.subtract)
                old = load(rows_of(changes[which])[:, chunk])
                change = combined(scaled(old, 0.5), scaled(free, 0.05), nl.add)
                state = load(rows_of(spectra[which])[:, chunk])
                state = combined(state, scaled(change, 0.5), nl.add)
                if decay is not None:
                    state = combined(state, load(rows_of(decay)[:, chunk]), nl.multiply)
                nisa.dma_copy(dst=rows_of(out[which])[:, chunk], src=state)
                nisa.dma_copy(dst=rows_of(out[6 + which])[:, chunk], src=change)
    return tuple(out)
