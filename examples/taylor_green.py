"""Taylor and Green's vortex decays: a flow in three dimensions, on one process or on many.

The script solves the equations of Navier and Stokes in a periodic box, du/dt = P(u x w) - nu k^2 u,
for the Fourier coefficients of the velocity u. Here w is the vorticity, curl u; P removes the
divergent part; and products are computed at points. Each process has a slab of the box. The slabs
divide x at points, and y in coefficients (`out_placements`), so that a transform needs one exchange
instead of two. The results are compared with known results: the series of Taylor and Green for the
energy, the dissipation that Brachet and others computed, and the balance of energy and dissipation.

Needs:   pip install ".[demo]"
Run:     python examples/taylor_green.py    # about a minute on one core
         torchrun --nproc_per_node 4 examples/taylor_green.py
         python examples/taylor_green.py --points 32 --reynolds 400 --time 5
Prints:  energy and dissipation over time, and their differences from the known results.
Writes:  a picture, taylor_green.png: both over time, and slices of the vorticity.
"""

import argparse
import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.integrate
import torch
import torch.distributed as dist
from matplotlib.figure import Figure
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import trnfft

# Taylor and Green, Mechanism of the production of small eddies from large ones, Proc. R. Soc. A
# 158 (1937): the rate of energy loss, divided by 3/4 nu, up to the power 5 of time. Each line has
# the coefficients of nu^0, nu^1 and so on of one power of time.
SERIES = [
    (1,),
    (0, -6),
    (5 / 48, 0, 18),
    (0, -5 / 3, 0, -36),
    (50 / (99 * 64), 0, 1835 / (9 * 16), 0, 54),
    (0, -361 / (44 * 32), 0, -761 / 12, 0, -324 / 5),
]
SERIES_UNTIL = 1  # the time until which six terms are enough
# Brachet, Meiron, Orszag, Nickel, Morf and Frisch, Small-scale structure of the Taylor-Green
# vortex, J. Fluid Mech. 130 (1983): time and dissipation for Reynolds number 100, as the tests of
# PsDNS have them (github.com/lanl/PsDNS, psdns/tests/test_dns.py).
BRACHET_REYNOLDS = 100
BRACHET = [
    (0.4633, 0.007457),
    (1.0146, 0.007785),
    (2.1153, 0.009503),
    (3.0778, 0.011359),
    (4.0327, 0.012604),
    (4.9925, 0.012977),
    (5.9591, 0.012351),
    (6.9139, 0.010864),
    (7.9791, 0.008752),
    (9.0861, 0.006666),
    (9.9021, 0.005372),
]
AT_POINTS, IN_SERIES = [Shard(-3)], [Shard(-2)]  # processes share out x, or y


class Flow:
    """A flow in a box with sides of 2 pi and N = `points` points along each side.

    The coefficients of their Fourier series, complex [3, N, N, N // 2 + 1], represent velocities.
    """

    def __init__(self, points: int, viscosity: float, mesh: DeviceMesh) -> None:
        self.points, self.viscosity, self.mesh = points, viscosity, mesh
        self.dtype = torch.float64 if mesh.device_type == "cpu" else torch.float32
        full = trnfft.fftfreq(points, 1 / points, dtype=torch.float64)
        half = trnfft.rfftfreq(points, 1 / points, dtype=torch.float64)
        kx, ky, kz = self.axes((full, full, half), IN_SERIES)
        zero = 0 * (kx + ky + kz)  # has the size of the slab
        self.k = torch.stack([kx + zero, ky + zero, kz + zero])
        self.k_squared = self.k.square().sum(0)
        self.kept = (self.k.abs() < points / 3).prod(0)  # coefficients of products without aliases
        self.weight = 1 + (kz > 0).to(kx.dtype)  # coefficients of -k are not stored

    def axes(self, values: Sequence[torch.Tensor], placements: list[Shard]) -> list[DTensor]:
        """Returns values along x, y and z for broadcasting; each process has those of its slab."""
        found = []
        for dim, along in zip((-3, -2, -1), values, strict=True):
            shape = [1, 1, 1]
            shape[dim] = -1
            along = along.to(self.mesh.device_type, self.dtype).view(shape)
            own = placements if placements == [Shard(dim)] else [Replicate()]
            found.append(distribute_tensor(along, self.mesh, own))
        return found

    def vortex(self) -> trnfft.ComplexTensor:
        """Returns the vortex at time 0: (sin x cos y cos z, -cos x sin y cos z, 0)."""
        angle = 2 * torch.pi * torch.arange(self.points, dtype=torch.float64) / self.points
        x, y, z = self.axes((angle,) * 3, AT_POINTS)
        u, v = x.sin() * y.cos() * z.cos(), -x.cos() * y.sin() * z.cos()
        return self.series(torch.stack([u, v, 0 * u]))

    def series(self, field: torch.Tensor) -> trnfft.ComplexTensor:
        """Returns the coefficients of a field that is given at points, [..., N, N, N]."""
        return trnfft.distributed.rfftn(
            field, dim=(-3, -2, -1), norm="forward", out_placements=IN_SERIES
        )

    def at_points(self, series: torch.Tensor) -> DTensor:
        """Returns a field at points from its coefficients; the inverse of `series`."""
        return trnfft.distributed.irfftn(
            series, (self.points,) * 3, (-3, -2, -1), "forward", out_placements=AT_POINTS
        )

    def curl(self, u: trnfft.ComplexTensor) -> trnfft.ComplexTensor:
        """Returns the coefficients of curl u, i k x u."""
        cross = torch.linalg.cross
        return trnfft.ComplexTensor(-cross(self.k, u.imag, dim=0), cross(self.k, u.real, dim=0))

    def convection(self, u: trnfft.ComplexTensor) -> trnfft.ComplexTensor:
        """Returns P(u x w) in the coefficients that have no aliases."""
        velocity, vorticity = self.at_points(torch.stack([u, self.curl(u)])).unbind()
        force = self.kept * self.series(torch.linalg.cross(velocity, vorticity, dim=0))
        divergent = (self.k * force).sum(0) / self.k_squared.clamp(min=1)
        return force - self.k * divergent

    def step(self, u: trnfft.ComplexTensor, dt: float) -> trnfft.ComplexTensor:
        """Returns the velocity after dt, by Runge and Kutta's method of order 4, exact friction."""
        half = torch.exp(-self.viscosity * self.k_squared * dt / 2)  # friction of half a step
        start = self.convection(u)
        middle = self.convection(half * (u + dt / 2 * start))
        again = self.convection(half * u + dt / 2 * middle)
        end = self.convection(half * (half * u + dt * again))
        return half * (half * (u + dt / 6 * start) + dt / 3 * (middle + again)) + dt / 6 * end

    def energy_and_dissipation(self, u: trnfft.ComplexTensor) -> tuple[float, float]:
        """Returns the means of u^2 / 2 and of nu w^2 over the box."""
        density = self.weight * (u.real.square() + u.imag.square()).sum(0) / 2
        both = torch.stack([density, self.k_squared * density]).sum((1, 2, 3))
        energy, enstrophy = together(both).tolist()
        return energy, 2 * self.viscosity * enstrophy

    def slice(self, u: trnfft.ComplexTensor) -> torch.Tensor:
        """Returns the size of the vorticity where y = 0, [x, z], on every process."""
        vorticity = self.at_points(self.curl(u))[:, :, 0]
        return together(vorticity.square().sum(0).sqrt())


def together(split: Any) -> torch.Tensor:
    """Returns a DTensor's numbers on every process.

    Unlike item(), this adds up partial sums over all slabs.
    """
    return split.full_tensor().cpu()


def main() -> None:
    parser = argparse.ArgumentParser(description="The decay of Taylor and Green's vortex.")
    parser.add_argument("--points", type=int, default=64, help="points along a side; default: 64")
    parser.add_argument("--reynolds", type=float, default=100, help="1 / nu; default: 100")
    parser.add_argument("--time", type=float, default=10, help="time of the end; default: 10")
    parser.add_argument("--steps", type=int, default=200, help="a multiple of 10; default: 200")
    parser.add_argument("--out", type=Path, default=Path("taylor_green.png"), help="PNG to write")
    arguments = parser.parse_args()
    if arguments.steps < 10 or arguments.steps % 10:
        parser.error(f"--steps is {arguments.steps}, allowed are multiples of 10")

    mesh = all_processes()
    is_first = dist.get_rank() == 0
    flow = Flow(arguments.points, 1 / arguments.reynolds, mesh)
    count = f"{mesh.size()} process" + "es" * (mesh.size() > 1)
    if is_first:
        size = " x ".join([str(arguments.points)] * 3)
        print(f"{size} points, Reynolds number {arguments.reynolds:g}, {count}")
        print("  time          energy   dissipation")
    began = time.perf_counter()
    history, slices = decay(flow, arguments.time, arguments.steps, is_first)
    seconds = time.perf_counter() - began
    if is_first:
        compare(history, flow.viscosity)
        print(f"{seconds / arguments.steps:.2f} s for each step")
        draw(history, slices, arguments.reynolds, arguments.out)
        print(f"wrote {arguments.out}")
    # Without the pause, a thread of gloo may hold the last tensor when Python ends, and abort.
    dist.barrier()
    time.sleep(0.2)
    dist.destroy_process_group()


def all_processes() -> DeviceMesh:
    """Returns a mesh of the processes that torchrun has started, or of this process alone.

    The mesh is on NeuronCores where torch has any, and on CPUs elsewhere.
    """
    accelerator = torch.accelerator.current_accelerator()
    device = "neuron" if accelerator is not None and accelerator.type == "neuron" else "cpu"
    if "WORLD_SIZE" not in os.environ:
        dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    return init_device_mesh(device, (int(os.environ.get("WORLD_SIZE", 1)),))


def decay(
    flow: Flow, end: float, steps: int, is_first: bool
) -> tuple[np.ndarray, dict[float, torch.Tensor]]:
    """Returns time, energy and dissipation, [steps + 1, 3], and slices at three times."""
    u = flow.vortex()
    history, slices = [], {}
    for i in range(steps + 1):
        if i > 0:
            u = flow.step(u, end / steps)
        history.append((end * i / steps, *flow.energy_and_dissipation(u)))
        if i % (steps // 10) == 0 and is_first:
            print("{:6.2f}  {:.12f}  {:12.9f}".format(*history[-1]), flush=True)
        if i % (steps // 2) == 0:
            slices[history[-1][0]] = flow.slice(u)
    return np.array(history), slices


def compare(history: np.ndarray, viscosity: float) -> None:
    """Prints the differences of energy and dissipation from the known results."""
    times, energy, dissipation = history.T
    lost = scipy.integrate.simpson(dissipation, times)
    difference = abs(energy[0] - energy[-1] - lost)
    print(f"energy lost other than by dissipation: {difference:.0e}")
    early = times <= SERIES_UNTIL
    known = series_energy(times[early], viscosity)
    difference = np.abs(energy[early] - known).max()
    print(f"until time {SERIES_UNTIL}, the energy differs from the series by {difference:.0e}")
    known = np.array([pair for pair in BRACHET if pair[0] <= times[-1]])
    if viscosity == 1 / BRACHET_REYNOLDS and len(known):
        found = np.interp(known[:, 0], times, dissipation)
        difference = np.abs(found / known[:, 1] - 1).max()
        print(f"the dissipation differs from that of Brachet et al. by {difference:.1%}")


def series_energy(times: np.ndarray, viscosity: float) -> np.ndarray:
    """Returns the energy by the series: 1/8 at time 0, then lost at a rate of 3/4 nu and more."""
    powers = [np.polynomial.Polynomial(terms)(viscosity) for terms in SERIES]
    return 1 / 8 - 3 / 4 * viscosity * np.polynomial.Polynomial(powers).integ()(times)


def draw(
    history: np.ndarray, slices: dict[float, torch.Tensor], reynolds: float, out: Path
) -> None:
    """Draws energy and dissipation above, and the slices below."""
    times, energy, dissipation = history.T
    figure = Figure(figsize=(9, 5.8), layout="constrained")
    panels = figure.subplot_mosaic("EEEDDD;001122")
    left, right = panels["E"], panels["D"]
    early = times[times <= 2.5 * SERIES_UNTIL]
    left.plot(times, energy, color="tab:blue", label="computed")
    left.plot(early, series_energy(early, 1 / reynolds), "--", color="black", label="series, 1937")
    left.set(xlabel="time", ylabel="energy", ylim=(0, None))
    right.plot(times, dissipation, color="tab:blue", label="computed")
    if reynolds == BRACHET_REYNOLDS:
        right.plot(*zip(*BRACHET, strict=True), "o", color="black", label="Brachet et al., 1983")
    right.set(xlabel="time", ylabel="dissipation", ylim=(0, None))
    for axes in left, right:
        axes.legend(frameon=False)
    images = [panels[name] for name in "012"]
    largest = math.ceil(max(vorticity.max() for vorticity in slices.values()))
    for axes, (moment, vorticity) in zip(images, slices.items(), strict=True):
        closed = np.pad(vorticity.numpy(), (0, 1), mode="wrap")  # the box is periodic
        sides = np.linspace(0, 2, len(closed))
        colors = axes.pcolormesh(
            sides, sides, closed.T, shading="gouraud", cmap="inferno", vmin=0, vmax=largest
        )
        axes.set(title=f"time {moment:g}, y = 0", xlabel="x / π", ylabel="z / π", aspect=1)
    figure.colorbar(colors, ax=images, label="vorticity", pad=0.01, aspect=15)
    figure.savefig(out, dpi=100)


if __name__ == "__main__":
    main()
