"""Strong and weak scaling of distributed transforms on this computer, measured over gloo.

Run: python -m bench.distributed_scaling

Each process has one thread and its part of a tensor of complex64 numbers; the result is distributed
as the input is. In strong scaling more processes transform the same tensor; in weak scaling each
process keeps the same number of points. A time is that of the slowest process in the fastest of
several rounds. The share of the exchange, which includes waiting for other processes, is a mean
over all processes in that round. Where there are more processes than cores, processes take turns on
the cores whatever the transform does; the table marks such rows. CPU time, added up over all
threads of all processes, measures the work itself, whatever else the computer does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import torch
import torch.distributed as dist
import typer

from bench import program
from trnfft.distributed.check import processes, self_test
from trnfft.distributed.check.self_test import Case
from trnfft.distributed.check.stopwatch import EXCHANGE, Stopwatch

COUNTS = (1, 2, 4, 8)
POINTS = 1 << 20  # of each process in weak scaling, and a quarter of those in strong scaling
ROUNDS = 15

app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class Row:
    """The measured times of a transform by a number of processes.

    Attributes:
        scaling: "strong" or "weak".
        shape: shape of the tensor of complex numbers.
        processes: number of processes, among which the first dimension is divided.
        seconds: time of the slowest process.
        cpu_seconds: CPU time of all processes together, the least of all rounds.
        exchange: share of the time that the exchange needs, a mean over all processes.
    """

    scaling: str
    shape: tuple[int, ...]
    processes: int
    seconds: float
    cpu_seconds: float
    exchange: float

    def speed_up(self, alone: Row) -> float:
        """Returns the points transformed per second, relative to those of one process."""
        size, of_one = (torch.Size(row.shape).numel() for row in (self, alone))
        return size / self.seconds / (of_one / alone.seconds)


@app.command()
def main(
    counts: Annotated[
        list[int] | None,
        typer.Argument(metavar="PROCESSES", help="Numbers of processes.", show_default="1 2 4 8"),
    ] = None,
    points: Annotated[
        int,
        typer.Option(
            min=64,
            help="Points of each process in weak scaling; strong scaling has 4 times as many.",
        ),
    ] = POINTS,
) -> None:
    """Print tables of time, speed-up, efficiency and share of the exchange, in Markdown."""
    chosen = sorted({1, *(counts or COUNTS)})
    for count in chosen:
        if count < 1 or count & (count - 1):
            program.stop(f"argument 'PROCESSES' has {count}, allowed are powers of two", 2)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    try:
        rows = [row for count in chosen for row in measured(count, points)]
    except processes.Failure as failure:
        program.stop(str(failure), 1)
    cores = processes.cores()
    print("\n".join(table(rows, cores)))
    print(f"\n{cores} cores, with a load of {load:.1f} before the run; * marks more processes.")


def measured(count: int, points: int) -> Iterator[Row]:
    """Measures every kind of transform by `count` processes, and yields its row."""
    kinds = [
        (scaling, Case("fft" if len(shape) == 1 else "fftn", shape, (count,), (0,), (0,)))
        for scaling, total in (("strong", 4 * points), ("weak", count * points))
        for shape in (self_test.cube(total), (total,))
    ]
    reports = processes.started(times, count, "cpu", [asdict(case) for _, case in kinds])
    for index, (scaling, case) in enumerate(kinds):
        rounds = list(zip(*(report[index] for report in reports), strict=True))
        fastest = min(rounds, key=lambda each: max(one["seconds"] for one in each))
        total, exchange = (sum(one[key] for one in fastest) for key in ("seconds", "exchange"))
        yield Row(
            scaling,
            case.shape,
            count,
            max(one["seconds"] for one in fastest),
            min(sum(one["cpu_seconds"] for one in each) for each in rounds),
            exchange / total,
        )


def times(device: str, cases: list[dict[str, Any]]) -> list[list[dict[str, float]]]:
    """Returns the seconds of this process and of its exchanges, for each case and round."""
    torch.set_num_threads(1)
    return [_rounds(device, Case(**case)) for case in cases]


@torch.no_grad()
def _rounds(device: str, case: Case) -> list[dict[str, float]]:
    x = self_test.given(case, device)
    self_test.transform(case, x)
    found = []
    for _ in range(ROUNDS):
        dist.barrier()
        with Stopwatch(device) as watch:
            start, cpu_start = time.perf_counter(), time.process_time()
            self_test.transform(case, x)
            seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        exchange = watch.seconds[EXCHANGE]
        found.append({"seconds": seconds, "cpu_seconds": cpu_seconds, "exchange": exchange})
    return found


def table(rows: list[Row], cores: int) -> Iterator[str]:
    """Yields the lines of a Markdown table, in which rows of the same kind follow each other."""
    yield "| scaling | points | processes | ms | speed-up | efficiency | exchange | CPU ms |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for alone in (row for row in rows if row.processes == 1):
        for row in rows:
            if (row.scaling, len(row.shape)) != (alone.scaling, len(alone.shape)):
                continue
            speed_up = row.speed_up(alone)
            cells = (
                row.scaling,
                " x ".join(map(str, row.shape)),
                f"{row.processes}{'*' * (row.processes > cores)}",
                f"{1e3 * row.seconds:.1f}",
                f"{speed_up:.2f}",
                f"{speed_up / row.processes:.0%}",
                f"{row.exchange:.0%}",
                f"{1e3 * row.cpu_seconds:.0f}",
            )
            yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    app()
