"""Modelled strong scaling of distributed transforms from 1 to 4096 NeuronCores.

Run: python -m bench.scaling [trn1 trn2 trn3]

The transforms have 1024^3, 4096^3, 2^30 and 2^36 complex points, and the result is distributed as
the input is. `trnfft.distributed.plan` models the time of every mesh with a given number of cores,
and the shortest time counts. A core is what the runtime calls a core at the chip's degree of LNC.
Efficiency is relative to the time of one core, as if its memory held all of the data. The overhead
of launches and the start of exchanges were measured by others (`nki_sim.measured_times`);
everything else is modelled. docs/scaling_model.md has the table of trn2.
"""

from __future__ import annotations

from collections.abc import Iterator

import typer

from bench import program
from nki_sim import hardware
from trnfft import distributed
from trnfft.distributed.model.plan import DistributedPlan

SHAPES = {
    "1024^3": (1024,) * 3,
    "4096^3": (4096,) * 3,
    "2^30": (2**30,),
    "2^36": (2**36,),
}
CORES = (1, 2, *(4**exponent for exponent in range(1, 7)))


def main(targets: program.TargetsArgument = None) -> None:
    """Print a table of Markdown for each chip."""
    for target in targets or hardware.NAMES:
        print(f"{target}\n\n{table(target)}\n", flush=True)


def fastest(shape: tuple[int, ...], cores: int, target: str) -> DistributedPlan:
    """Returns the fastest plan of all meshes that suit the shape."""
    plans = [distributed.plan(shape, mesh, target=target) for mesh in meshes(shape, cores)]
    return min(plans, key=lambda plan: plan.total_ns)


def meshes(shape: tuple[int, ...], cores: int) -> Iterator[tuple[int, ...]]:
    """Yields meshes of one axis, and for three dimensions also of two axes.

    Their sizes are powers of two that leave no core without data.
    """
    if len(shape) == 1 or cores <= min(shape):
        yield (cores,)
    first = 2
    while len(shape) > 2 and first <= cores // 2:
        if max(first, cores // first) <= min(shape):
            yield (first, cores // first)
        first *= 2


def table(target: str) -> str:
    """Returns a Markdown table of milliseconds, efficiency, and the part that bounds the time.

    A star marks plans that need more than the memory.
    """
    columns = [[fastest(shape, cores, target) for cores in CORES] for shape in SHAPES.values()]
    lines = [f"| cores | {' | '.join(SHAPES)} |", "|---:" + "|---" * len(SHAPES) + "|"]
    for plans in zip(*columns, strict=True):
        cells = [_cell(plan, of) for plan, of in zip(plans, columns, strict=True)]
        lines.append(f"| {plans[0].devices} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(plan: DistributedPlan, plans: list[DistributedPlan]) -> str:
    ms, share = plan.total_ns / 1e6, 100 * efficiency(plan, plans)
    time = f"{ms:#.3g}".removesuffix(".") if ms < 1000 else f"{float(f'{ms:.3g}'):.0f}"
    percent = f"{share:.0f}%" if share >= 9.95 else f"{share:.1f}%"
    return f"{time}, {percent}, {plan.bound}{'' if plan.fits else ' *'}"


def efficiency(plan: DistributedPlan, plans: list[DistributedPlan]) -> float:
    """Returns the time of one core, which is the first plan, over cores times the plan's time."""
    return plans[0].total_ns / (plan.devices * plan.total_ns)


if __name__ == "__main__":
    typer.run(main)
