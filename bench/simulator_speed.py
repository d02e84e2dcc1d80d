"""Speed of the simulator, compared with another checkout of this repository, on this CPU.

Run: python -m bench.simulator_speed /folder/of/the/other/checkout [--only "plain"] [--rounds 15]

A process of each checkout does the same work in turns, so that other work of the computer slows
both down. The result is the CPU time of the shortest round, for each case and each way to run it.
Each process runs the kernels of its own checkout; `git worktree add /tmp/before COMMIT` makes a
checkout. Without a folder the program prints times alone.

There are three ways to run a kernel: "dry" without data, "plain" with data, and "recorded" with
data and a timeline.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl

WAYS = ("dry", "plain", "recorded")
ROUNDS = 15
SECONDS = 0.1  # length of a round, which has at least one run
# Processes use one thread, and a C library (glibc) that keeps freed memory. Otherwise chance
# decides whether it returns the end of the heap and needs it again in the next launch.
KEPT = str(1 << 34)
SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_TRIM_THRESHOLD_": KEPT,
    "MALLOC_MMAP_THRESHOLD_": KEPT,
}
HERE = Path(__file__).parents[1]
Launch = tuple[Any, tuple[Any, ...]]  # kernel, arguments


def sample(*shape: int) -> Any:
    """Returns normal random numbers, which are the same in every process."""
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def of_algorithm(name: str, kind: str, *sizes: Any, batch: int, place: int = 0) -> Launch:
    """Returns a launch of an algorithm of the planner, by default of its likeliest recipe."""
    from trnfft.planner import kinds
    from trnfft.planner.algorithms import ALGORITHMS

    algorithm = ALGORITHMS[name]
    recipe = algorithm.recipes_for(getattr(kinds, kind)(*sizes))[place]
    inputs = [sample(*shape) for shape in algorithm.inputs(recipe, batch)]
    return algorithm.kernel, (*inputs, *algorithm.arguments(recipe))


def of_rows(name: str, n: int, batch: int) -> Launch:
    return of_algorithm(name, "Transform", (n,), batch=batch)


@nki.jit
def softmax(x):  # type: ignore[no-untyped-def]
    """Returns the softmax of each row of ``x``, float32 HBM [128 a, n]."""
    rows, n = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for first in nl.affine_range(0, rows, 128):
        tile = nl.load(x[first : first + 128])
        largest = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(largest, nl.maximum, tile, axis=1)
        powers = nl.ndarray((128, n), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(powers, tile, nl.subtract, largest)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(powers, nl.exp, powers, reduce_op=nl.add, reduce_res=total)
        nisa.reciprocal(total, total)
        nisa.tensor_scalar(powers, powers, nl.multiply, total)
        nl.store(out[first : first + 128], powers)
    return out


@nki.jit
def small_tiles(x):  # type: ignore[no-untyped-def]
    """Issues 1000 instructions on views of 40 x 40 numbers of ``x``, float32 HBM [40, 320]."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for index in range(249):
        first = index % 7 * 40
        left, right = tile[:, first : first + 40], tile[:, first + 40 : first + 80]
        bank = nl.ndarray((40, 40), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(bank, left, right, accumulate=False)
        nisa.tensor_copy(left, bank)
        nisa.tensor_scalar(left, left, nl.multiply, 0.1)
        nisa.tensor_tensor(right, left, right, op=nl.subtract)
    nl.store(out, tile)
    return out


CASES: dict[str, Callable[[], Launch]] = {
    "dft_gemm 128, batch 2048": lambda: of_rows("dft_gemm", 128, 2048),
    "stockham 1024, batch 128": lambda: of_rows("stockham", 1024, 128),
    "stockham 1024, batch 1024": lambda: of_rows("stockham", 1024, 1024),
    "stockham 4096, batch 256": lambda: of_rows("stockham", 4096, 256),
    "butterfly 256, batch 1024": lambda: of_rows("butterfly", 256, 1024),
    "block circulant 8 x 8 x 64": lambda: of_algorithm(
        "block_circulant", "BlockCirculant", 8, 8, 64, batch=256, place=-1
    ),
    "softmax 4096 x 512": lambda: (softmax, (sample(4096, 512),)),
    "tiles of 40 x 40": lambda: (small_tiles, (sample(40, 320),)),
}


def serve() -> None:
    """Answers lines of JSON: [case, way] with [seconds of a run, instructions issued] or null.

    The answer is null where the checkout does not have what the case imports.
    """
    for line in sys.stdin:
        name, way = json.loads(line)
        try:
            kernel, arguments = CASES[name]()
        except ImportError:
            print("null", flush=True)
            continue
        if way == "dry":
            run: Callable[[], Any] = lambda: nki_sim.dry_run(kernel, *arguments)  # noqa: B023,E731
        else:
            run = lambda: nki_sim.simulate(kernel)(*arguments)  # noqa: B023,E731
        with nki_sim.record() if way == "recorded" else nullcontext():
            run()  # fills the caches
        issued = len(nki_sim.dry_run(kernel, *arguments).events)
        print(json.dumps([shortest(run, way == "recorded"), issued]), flush=True)


def shortest(run: Callable[[], Any], is_recorded: bool) -> float:
    """Returns the seconds of CPU time of the shortest of several runs."""
    end = time.perf_counter() + SECONDS
    found = math.inf
    while found == math.inf or time.perf_counter() < end:
        with nki_sim.record() if is_recorded else nullcontext():
            start = time.process_time()
            run()
            found = min(found, time.process_time() - start)
    return found


@contextmanager
def process(folder: Path) -> Iterator[Callable[[str, str], tuple[float, int] | None]]:
    """Starts a process of a checkout, and yields a function that runs a case there."""
    variables = {**os.environ, **SETTINGS, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-W", "ignore", __file__, "--serve"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=variables, cwd=folder, **pipes) as worker:
        assert worker.stdin is not None and worker.stdout is not None
        stdin, stdout = worker.stdin, worker.stdout

        def ask(name: str, way: str) -> tuple[float, int] | None:
            stdin.write(json.dumps([name, way]) + "\n")
            stdin.flush()
            answer = stdout.readline()
            if not answer:
                raise SystemExit(f"the process in {folder} ended; its error is above")
            found: tuple[float, int] | None = json.loads(answer)
            return found

        yield ask
        stdin.close()


def compare(folders: list[Path], only: str, rounds: int) -> None:
    """Prints a line for each case and way, and the mean ratio of each way."""
    ratios: dict[str, list[float]] = {way: [] for way in WAYS}
    print(f"{'case':28}{'way':10}{'issued':>7}{'before':>11}{'now':>11}{'us each':>9}{'ratio':>7}")
    with process(folders[0]) as before, process(folders[-1]) as now:
        for name in CASES:
            for way in [way for way in WAYS if only in f"{name}, {way}"]:
                sides = zip(
                    *[(before(name, way), now(name, way)) for _ in range(rounds)], strict=True
                )
                found = [[one for one in side if one] for side in sides]
                if not all(found):
                    print(f"{name:28}{way:10} is not in both checkouts", flush=True)
                    continue
                issued = found[1][0][1]
                first, last = [min(one[0] for one in side) for side in found]
                ratios[way].append(first / last)
                times = f"{first * 1e3:8.2f} ms{last * 1e3:8.2f} ms{last / issued * 1e6:9.1f}"
                print(f"{name:28}{way:10}{issued:7}{times}{first / last:7.2f}", flush=True)
    for way, each in ratios.items():
        if each:
            print(f"{way}: geometric mean of the ratios {math.prod(each) ** (1 / len(each)):.2f}")


def main() -> None:
    """Compares two checkouts, or answers another process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    folder = "folder of the other checkout"
    parser.add_argument("folder", nargs="?", type=Path, default=HERE, help=folder)
    parser.add_argument("--only", default="", help='run only "case, way" with this text')
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of each case and way")
    parser.add_argument("--serve", action="store_true", help="answer another process")
    given = parser.parse_args()
    if given.serve:
        serve()
        return
    compare([given.folder.resolve(), HERE], given.only, given.rounds)


if __name__ == "__main__":
    main()
