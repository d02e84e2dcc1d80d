"""Strong and weak scaling of distributed transforms on this computer, measured over gloo.

Run: python -m bench.distributed_scaling. Each process has one thread and its part of a tensor in
float32; the result is placed as the input. Strong scaling is of the same tensor by more processes,
weak scaling of the same part for each. A time is that of the slowest process, in the fastest of
several rounds; the exchange, with waiting for others, is the mean of all processes in that round.
More processes than cores take turns, whatever the transform: their rows are marked. CPU time, of
all threads of all processes together, says how much work there is, whoever else is on the computer.
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
    """A transform by so many processes.

    Attributes:
        scaling: "strong" or "weak".
        shape: of complex numbers.
        processes: that the first dimension is split by.
        seconds: of the slowest process.
        cpu_seconds: of all processes together, the least of all rounds.
        exchange: share of the time, the mean of all.
    """

    scaling: str
    shape: tuple[int, ...]
    processes: int
    seconds: float
    cpu_seconds: float
    exchange: float

    def speed_up(self, alone: Row) -> float:
        """Points in a second, over those of one process."""
        size, of_one = (torch.Size(row.shape).numel() for row in (self, alone))
        return size / self.seconds / (of_one / alone.seconds)


@app.command()
def main(
    counts: Annotated[
        list[int] | None,
        typer.Argument(metavar="PROCESSES", help="Numbers of them.", show_default="1 2 4 8"),
    ] = None,
    points: Annotated[
        int,
        typer.Option(
            min=64, help="Of a process in weak scaling; in strong scaling 4 times as many in all."
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
    print(f"\n{cores} cores, with a load of {load:.1f} from elsewhere before; *: more processes.")


def measured(count: int, points: int) -> Iterator[Row]:
    """The rows of so many processes."""
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
    """Of each case and round the seconds of this process, and those of them in exchanges."""
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
    """In Markdown, a line a row: those of one kind below each other."""
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
