"""A kernel of your own on a simulated NeuronCore: power spectra of windowed frames.

The kernel gets frames of up to 128 samples, one in each row, and a table of window, cosines and
sines. A DMA loads 128 frames into SBUF, one frame on each partition. The Tensor engine contracts
along partitions. So it first transposes the tile, and then multiplies it by the table, which
applies window and transform at once. ScalarE squares both parts, and VectorE adds them.

The simulator runs the kernel in NumPy, refuses what the rules of the hardware forbid, and models
the time. `lint` reads the source, and finds Python that the NKI compiler would not accept.

Needs:   pip install "./packages/nki_sim[report]" (or ".[report]"; only --trace needs [report])
         (where the real nki is installed, set NKI_SIM_ALWAYS=1 to use the simulator)
Run:     python examples/own_kernel.py
         python examples/own_kernel.py --trace kernel.pftrace    # open it in ui.perfetto.dev
Prints:  the error against NumPy, modelled times on two chips, and messages about broken rules.
"""

import argparse
from pathlib import Path

import numpy as np

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware
from nki_sim.lint import lint
from nki_sim.measured_times import about

FRAMES, POINTS = 4096, 128


@nki.jit
def power_spectrum(frames, table):
    """Returns |rfft(window * frame)|^2, [B, N // 2 + 1], of frames [B, N] and `windowed_dft(N)`."""
    batch, n = frames.shape
    lines = table.shape[1] // 2
    power = nl.ndarray((batch, lines), dtype=nl.float32, buffer=nl.shared_hbm)
    weights = nl.ndarray(table.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=weights, src=table)
    for start in range(0, batch, 128):
        rows = min(128, batch - start)
        tile = nl.ndarray((rows, n), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=frames[start : start + rows])
        turned = nl.ndarray((n, rows), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=tile)
        samples = nl.ndarray((n, rows), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=samples, src=turned)  # matrix products read SBUF and write PSUM
        spectrum = nl.ndarray((rows, 2 * lines), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=spectrum, stationary=samples, moving=weights)
        squares = nl.ndarray((rows, 2 * lines), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=squares, op=nl.square, data=spectrum)
        real, imaginary = squares[:, 0:lines], squares[:, lines : 2 * lines]
        total = nl.ndarray((rows, lines), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=total, data1=real, data2=imaginary, op=nl.add)
        nisa.dma_copy(dst=power[start : start + rows], src=total)
    return power


@nki.jit
def hasty(frames):
    """Transposes frames with two mistakes: DMA cannot access PSUM, and NKI has no nl.arange."""
    if frames.shape[0] > 128:
        frames = frames[nl.arange(128)]
    turned = nl.ndarray((frames.shape[1], frames.shape[0]), dtype=nl.float32, buffer=nl.psum)
    tile = nl.ndarray(frames.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=frames)
    nisa.nc_transpose(dst=turned, data=tile)
    columns = nl.ndarray(turned.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=columns, src=turned)
    return columns


def windowed_dft(n: int) -> np.ndarray:
    """Returns Hann's window times [cos | -sin], float32 [n, 2 (n // 2 + 1)]."""
    angle = 2 * np.pi / n * np.outer(np.arange(n), np.arange(n // 2 + 1))
    window = np.hanning(n + 1)[:n, None]
    return (window * np.hstack([np.cos(angle), -np.sin(angle)])).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulate a kernel.")
    parser.add_argument(
        "--trace", type=Path, help="write the timeline on trn1 to this file, for ui.perfetto.dev"
    )
    arguments = parser.parse_args()
    frames = np.random.default_rng(0).standard_normal((FRAMES, POINTS)).astype(np.float32)
    table = windowed_dft(POINTS)

    power = nki_sim.simulate(power_spectrum)(frames, table)
    wanted = np.abs(np.fft.rfft(frames * np.hanning(POINTS + 1)[:POINTS])) ** 2
    error = np.linalg.norm(power - wanted) / np.linalg.norm(wanted)
    print(f"relative L2 error against NumPy in float64: {error:.1e}\n")

    print(f"{FRAMES} frames of {POINTS} points, modelled time, and about the time with a launch:")
    for name in ("trn1", "trn2"):
        with hardware.select(hardware.chip(name)), nki_sim.sources():
            timeline = nki_sim.dry_run(power_spectrum, (frames.shape, "float32"), table)
        busy = ", ".join(f"{k} {t / 1e3:.1f}" for k, t in timeline.engine_busy_ns.items() if t)
        times = f"{timeline.total_ns / 1e3:.1f} us, {about(timeline.with_launches_ns)}"
        print(f"  {timeline.where}  {times}; engines busy, in us: {busy}")
        if arguments.trace and name == "trn1":
            timeline.save_perfetto(arguments.trace)

    print(f"\nlint of {power_spectrum.__name__}: {len(lint(power_spectrum))} violations")
    for violation in lint(hasty):
        print(f"lint of {hasty.__name__}, line {violation.line}: {violation.message}")
    try:
        nki_sim.simulate(hasty)(frames[:128])
    except nki_sim.NkiValidationError as refusal:
        print(f"simulator: {refusal}")


if __name__ == "__main__":
    main()
