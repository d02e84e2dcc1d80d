"""Transforms of published work, by data set or model: python -m bench.tables shapes

Each row has the shape of a transform and a batch, and for each chip at its default degree of LNC
the launches, with operators of torch where there are any, and the modelled time. In parentheses are
the ratio of the time to the DMA floor, and the bytes over HBM in relation to the least, which is
every input read once and every output written once. Where a launch an axis is the choice, the bytes
count those of its launches and of the copies between them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.tables.planned import markdown, ns_of, size
from nki_sim import hardware
from trnfft.planner import cost
from trnfft.planner.kinds import C2C, R2C, Part, Transform
from trnfft.planner.plan import Plan
from trnfft.planner.planner import plan_for, solved
from trnfft.planner.separate import SEPARATE, transforms


@dataclass(frozen=True)
class Shape:
    """A transform that people make: the data set or model, the lengths, the batch, the data."""

    name: str
    lengths: tuple[int, ...]
    batch: int
    part: Part = R2C


SHAPES = (
    # Fourier neural operators: samples times channels.
    Shape("FNO 1-D, Burgers", (8192,), 20 * 64),
    Shape("FNO 2-D, Navier-Stokes 64", (64, 64), 20 * 20),
    Shape("FNO 2-D, Darcy 85", (85, 85), 20 * 32),
    Shape("FNO 2-D, Darcy 85, padded by 9", (94, 94), 20 * 32),
    Shape("FNO 2-D, Darcy 141", (141, 141), 20 * 32),
    Shape("FNO 2-D, Darcy 421", (421, 421), 32),
    Shape("FNO 3-D, Navier-Stokes, 10 steps", (64, 64, 10), 10 * 20),
    Shape("FNO 3-D, Navier-Stokes, 20 steps", (64, 64, 20), 10 * 20),
    Shape("FNO 3-D, Navier-Stokes, 40 steps", (64, 64, 40), 10 * 20),
    Shape("FNO 3-D, 40 steps, padded by 6", (64, 64, 46), 10 * 20),
    Shape("PDEBench, CFD 128", (128, 128), 32 * 20),
    Shape("PDEBench, CFD 512", (512, 512), 4 * 32),
    # Vision and language models.
    Shape("GFNet 14 x 14", (14, 14), 128 * 384),
    Shape("AFNO, FourCastNet 90 x 180", (90, 180), 768),
    Shape("FNet, base, 512 tokens", (512, 768), 64),
    Shape("FNet, large, 512 tokens", (512, 1024), 64),
    # Weather.
    Shape("ERA5, 0.5 degrees", (361, 720), 20),
    Shape("ERA5, 0.25 degrees", (721, 1440), 20),
    Shape("ERA5, 0.25 degrees without a pole", (720, 1440), 20),
    Shape("SFNO, GraphCast: longitudes", (1440,), 73 * 721),
    # Magnetic resonance, microscopy, optics and radar.
    Shape("fastMRI, knee 640 x 368", (640, 368), 15, C2C),
    Shape("fastMRI, knee 640 x 372", (640, 372), 15, C2C),
    Shape("fastMRI, 320 x 320", (320, 320), 15, C2C),
    Shape("MRI volume", (256, 256, 150), 1, C2C),
    Shape("Calgary-Campinas volume", (256, 218, 170), 1, C2C),
    Shape("cryo-EM, K2 micrograph", (3838, 3710), 1),
    Shape("cryo-EM, K3 micrograph", (4092, 5760), 1),
    Shape("cryo-EM, boxes", (256, 256), 1000),
    Shape("cryo-EM, map", (384, 384, 384), 1),
    Shape("optics 1024", (1024, 1024), 4, C2C),
    Shape("optics 2048", (2048, 2048), 1, C2C),
    Shape("holography, SLM", (1080, 1920), 3, C2C),
    Shape("SAR 8192", (8192, 8192), 1, C2C),
    # Turbulence, cosmology and lattices.
    Shape("DNS 64", (64, 64, 64), 1),
    Shape("DNS 128", (128, 128, 128), 1),
    Shape("DNS, cosmology 256", (256, 256, 256), 1),
    Shape("lattice 32 x 32 x 32 x 64", (32, 32, 32, 64), 1, C2C),
    # Long convolutions.
    Shape("S4, H3: 1024 padded", (2048,), 8 * 768),
    Shape("Hyena, 8192 padded", (16384,), 768),
    Shape("Hyena, 65536 padded", (131072,), 768),
    Shape("Hyena, 131072 padded", (262144,), 256),
    Shape("HyenaDNA, 1M padded", (2**21,), 16),
    Shape("FlashFFTConv 256", (256,), 64 * 768),
    Shape("FlashFFTConv 4M", (2**22,), 16),
    Shape("FlashFFTConv 4M, complex", (2**22,), 1, C2C),
    # Audio and signals.
    Shape("Whisper, frames of 400", (400,), 3000 * 8),
    Shape("ESPnet, frames of 512", (512,), 32 * 1250),
    Shape("HiFi-GAN, frames of 1024", (1024,), 16 * 32),
    Shape("multi-resolution STFT loss, 2048", (2048,), 6 * 107),
    Shape("Demucs, frames of 4096", (4096,), 336 * 2 * 4),
    Shape("MDX, frames of 6144", (6144,), 256 * 4),
    Shape("speech, 1 s", (16000,), 256),
    Shape("seismology, 3000 samples", (3000,), 3 * 256),
    Shape("seismology, 3001 samples", (3001,), 3 * 256),
    Shape("seismology, a day", (86400,), 64),
    Shape("ECG, 10 s", (5000,), 12 * 64),
    Shape("LIGO, 4 s", (16384,), 64),
    Shape("LIGO, 256 s", (2**20,), 2),
    Shape("CT, filter of rows", (2048,), 1500 * 16),
    Shape("5G, OFDM", (4096,), 14 * 64, C2C),
    Shape("DFT-s-OFDM", (1200,), 14 * 64, C2C),
    Shape("SAR, range lines", (8192,), 8192, C2C),
)


def table() -> str:
    """Returns the table."""
    headings = ["data or model", "N, batch", "data"]
    for name in hardware.NAMES:
        headings.append(f"{name}, LNC={hardware.chip(name).programs_per_launch}")
    return markdown(headings, map(row, SHAPES))


def row(shape: Shape) -> list[str]:
    """Returns the row of a shape."""
    data = "complex" if shape.part == C2C else "real"
    cells = [cell(shape, chip) for chip in hardware.NAMES]
    return [shape.name, size(shape.lengths, shape.batch), data, *cells]


def cell(shape: Shape, chip: str) -> str:
    """Returns launches, time, and the ratios to the floor and to the least bytes on a chip."""
    found = plan_for(Transform(shape.lengths, part=shape.part), batch=shape.batch, target=chip)
    launches = f"{found.launches}" + (f" + {found.operators}" if found.operators else "")
    floors = ns_of(found) / found.dma_floor_ns
    least = bytes_of(found) / found.kind.least_bytes(found.batch)
    return f"{launches}: {ns_of(found) / 1e3:.0f} us ({floors:.1f}, {least:.1f})"


def bytes_of(found: Plan) -> int:
    """Returns the bytes that a plan's launches, and torch between them, move over HBM."""
    chip = hardware.chip(found.target)
    if found.algorithm != SEPARATE:
        moved = cost.price(found.recipe, found.batch, chip, found.cores).hbm_bytes
        if found.operators:  # real rows as complex ones
            moved += 4 * found.kind.as_complex(found.batch).numbers
        return moved
    separate = found.kind.separate(found.batch)
    assert separate is not None
    problems = [replace(each, execution="graph") for each in transforms(found)]
    return 4 * separate.numbers + sum(bytes_of(solved(each)) for each in problems)


def tables() -> list[str]:
    """Returns the table, as a list."""
    return [table()]
