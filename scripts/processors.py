"""Runs the numeric tests with the kernels that libraries have for other processors.

    python scripts/processors.py [--short] [--list 20] [ARGUMENT OF PYTEST ...]

NumPy multiplies by OpenBLAS, and torch by MKL, oneDNN and its own loops. Each library chooses a
kernel for the processor, and kernels add in different orders. Variables of the environment make
this choice here. A numeric test is one whose file compares numbers by `tests.tolerances`. The
program fails where a test fails, and where an error exceeds 0.7 of its tolerance, because the
tolerance then has too little room for an order that nobody has tried.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LARGEST = 0.7  # of error / tolerance
LEVELS = ["DEFAULT", "AVX2", "AVX512"]  # torch's names of what a processor can do, in order


@dataclass(frozen=True)
class Setting:
    """What the libraries take the processor for, and their threads."""

    openblas: str
    mkl: str
    aten: str
    onednn: str
    threads: int
    needs: str  # the least that the processor has to be, one of LEVELS

    @property
    def variables(self) -> dict[str, str]:
        counts = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        return {
            "OPENBLAS_CORETYPE": self.openblas,
            "MKL_ENABLE_INSTRUCTIONS": self.mkl,
            "ATEN_CPU_CAPABILITY": self.aten,
            "ONEDNN_MAX_CPU_ISA": self.onednn,
            **dict.fromkeys(counts, str(self.threads)),
            "OMP_WAIT_POLICY": "PASSIVE",  # two processes of two threads share two processors
        }

    def __str__(self) -> str:
        threads = "one thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{self.openblas}, MKL {self.mkl}, ATen {self.aten}, oneDNN {self.onednn}, {threads}"


SETTINGS = [
    Setting("Prescott", "SSE4_2", "default", "SSE41", 1, "DEFAULT"),
    Setting("Haswell", "AVX2", "avx2", "AVX2", 1, "AVX2"),
    Setting("SkylakeX", "AVX512", "avx512", "AVX512_CORE", 1, "AVX512"),
    Setting("Zen", "AVX2", "avx2", "AVX2", 2, "AVX2"),
    Setting("Prescott", "SSE4_2", "default", "SSE41", 2, "DEFAULT"),
    Setting("Haswell", "SSE4_2", "default", "AVX2", 1, "AVX2"),
    Setting("SkylakeX", "AVX2", "avx2", "SSE41", 2, "AVX512"),
    Setting("Zen", "SSE4_2", "default", "SSE41", 2, "AVX2"),
]
SHORT = SETTINGS[:3]  # these differ most
# Folders of short runs, in which programs and groups of processes do not run.
PRODUCT = [f"tests/{name}" for name in ("kernels", "planner", "simulator", "trnfft")]
PRODUCT += ["tests/test_tolerances.py", "--ignore", "tests/trnfft/distributed"]


def level_of_processor() -> int:
    """Returns the place in LEVELS of this processor, -1 where it is none of x86."""
    code = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    own = {name: value for name, value in os.environ.items() if name != "ATEN_CPU_CAPABILITY"}
    command = [sys.executable, "-c", code]
    name = subprocess.run(
        command, env=own, check=True, capture_output=True, text=True
    ).stdout.strip()
    return LEVELS.index(name) if name in LEVELS else -1


def run(setting: Setting, short: bool, arguments: list[str], margins: Path) -> bool:
    """Runs the numeric tests with a setting, and returns whether they pass.

    Short runs have the last case of each test of the product.
    """
    variables = os.environ | setting.variables | {"TRNFFT_MARGINS": str(margins)}
    options = ["-q", "--disable-warnings", "-n", "2", "--dist", "loadgroup"]
    if short:
        options += ["--numeric", "last", "--budgets", "processors", *PRODUCT]
    else:
        options += ["--numeric", "all"]
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    return subprocess.run(command, cwd=ROOT, env=variables).returncode == 0


def nearest(margins: Path) -> list[tuple[float, str]]:
    """Returns the largest error / tolerance of each test, the largest first."""
    found: dict[str, float] = defaultdict(float)
    for line in margins.read_text("utf-8").splitlines() if margins.exists() else []:
        ratio, test = line.split("\t")
        found[test] = max(found[test], float(ratio))
    return sorted(((ratio, test) for test, ratio in found.items()), reverse=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--short",
        action="store_true",
        help="three settings, and the last case of each test of the product",
    )
    parser.add_argument(
        "--list", type=int, default=10, help="how many of the nearest tests to print"
    )
    options, arguments = parser.parse_known_args()
    level, failed = level_of_processor(), []
    with tempfile.TemporaryDirectory() as folder:
        margins = Path(folder) / "margins"
        for setting in SHORT if options.short else SETTINGS:
            if level < LEVELS.index(setting.needs):
                print(f"skipped, as this processor lacks {setting.needs}: {setting}", flush=True)
                continue
            print(f"numeric tests with {setting}", flush=True)
            start = time.monotonic()
            if not run(setting, options.short, arguments, margins):
                failed.append(str(setting))
            print(f"{time.monotonic() - start:.0f} s", flush=True)
        tests = nearest(margins)
    print(
        f"the {options.list} tests nearest to their tolerance, of {len(tests)}: error / tolerance"
    )
    for ratio, test in tests[: options.list]:
        print(f"{ratio:6.2f}  {test}")
    near = sum(ratio > LARGEST for ratio, _ in tests)
    if near:
        print(f"{near} tests are nearer than {LARGEST}: their tolerance is no bound")
    for text in failed:
        print(f"tests failed with {text}")
    return int(bool(failed or near or not tests))


if __name__ == "__main__":
    sys.exit(main())
