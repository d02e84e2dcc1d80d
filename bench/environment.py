"""What a benchmark ran on: chip, Neuron software, Python packages, CPU, revision of the code.

Nothing here needs the Neuron SDK: what is absent is "". Sources, in the Neuron SDK's documentation:
tools/neuron-sys-tools/neuron-sysfs-user-guide.rst (the device's files), release-notes/components/
nki.rst (which SDK a version of NKI belongs to).
"""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

from bench.results import Environment
from nki_kernels import nki_api

ROOT = Path(__file__).resolve().parents[1]
DEVICE = Path("/sys/devices/virtual/neuron_device/neuron0/info/architecture")
DRIVER = Path("/sys/module/neuron/version")  # as of every Linux module that states its version
PACKAGES = (
    "trnfft-nki",
    "numpy",
    "torch",
    "torch_xla",
    "torch-neuronx",
    "libneuronxla",
    "neuronx-cc",
)
SYSTEM_PACKAGES = (  # Debian's way to list them, and Amazon Linux's
    ("dpkg-query", "-W", "-f", "${Package} ${Version}\n", "aws-neuronx-*"),
    ("rpm", "-qa", "--qf", "%{NAME} %{VERSION}\n", "aws-neuronx-*"),
)
REVISION_VARIABLE = "TRNFFT_REVISION"
SDK_OF_NKI = {"0.3": "2.29", "0.4": "2.30", "0.5": "2.31", "0.6": "2.32", "0.7": "2.33"}


def environment(root: Path = ROOT) -> Environment:
    """The environment of this process.

    Args:
        root: folder of the code whose git revision is wanted.
    """
    nki = version("nki") if nki_api.REAL_NKI else ""
    revision, is_dirty = git_state(root)
    return Environment(
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        device=text_of(DEVICE / "device_name"),
        instance=text_of(DEVICE / "instance_type"),
        sdk=SDK_OF_NKI.get(".".join(nki.split(".")[:2]), ""),
        nki=nki or "simulator",
        driver=text_of(DRIVER),
        packages={name: version(name) for name in PACKAGES},
        system_packages=system_packages(),
        python=platform.python_version(),
        system=platform.platform(),
        cpu=cpu_name(),
        cpu_count=os.cpu_count() or 1,
        git_revision=revision,
        git_is_dirty=is_dirty,
    )


def version(package: str) -> str:
    """Of an installed Python package; "" where it is absent."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def git_state(root: Path) -> tuple[str, bool | None]:
    """Revision, and whether files differ from it; ("", None) without git or outside of one.

    Where files of a commit were unpacked, as on an instance, TRNFFT_REVISION names it.
    """
    revision = output_of("git", "-C", str(root), "rev-parse", "HEAD")
    if revision is None:
        return os.environ.get(REVISION_VARIABLE, ""), None
    return revision, bool(output_of("git", "-C", str(root), "status", "--porcelain"))


def system_packages() -> dict[str, str]:
    """Versions of the Neuron driver, runtime and tools that the system's package manager knows."""
    for command in SYSTEM_PACKAGES:
        lines = [line.split() for line in (output_of(*command) or "").splitlines()]
        if found := {line[0]: line[1] for line in lines if len(line) == 2}:
            return found
    return {}


def cpu_name() -> str:
    """The model of the CPU, where Linux tells it, else its architecture."""
    for line in text_of(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def text_of(path: Path) -> str:
    """The file's text; "" where it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def output_of(*command: str) -> str | None:
    """What the command prints; None where it is absent or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
