"""The check that this computer has memory left for the data of a kernel's tensors.

The system would end the process of a kernel that allocates too much, such as a recursion that makes
tensors in HBM, without a word about the kernel.
"""

from __future__ import annotations

from pathlib import Path

STEP_BYTES = 1 << 28  # of new tensors, after which the check is worth the time that it takes
LEFT_BYTES = 1 << 29  # for the rest of the program and for other programs
_SYSTEM = Path("/proc/meminfo")


def check(tensor: str, size: int, kernel: str) -> None:
    """Raises MemoryError if a tensor of ``size`` bytes would leave less than LEFT_BYTES."""
    left = available_bytes()
    if left is not None and size > left - LEFT_BYTES:
        raise MemoryError(
            f"nl.ndarray: kernel {kernel} allocates {tensor}, which needs {size >> 20} MiB, but "
            f"this computer has {left >> 20} MiB left, and {LEFT_BYTES >> 20} MiB have to remain: "
            f"allocate fewer or smaller tensors, end a recursion, or use dry_run, which needs no "
            f"memory for data"
        )


def available_bytes() -> int | None:
    """Returns the memory that programs can still have, or None where Linux does not say it."""
    try:
        lines = _SYSTEM.read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) * 1024 if found else None
