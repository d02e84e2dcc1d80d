"""The environment of a benchmark: chip, Neuron software, packages, CPU, and revision of the code.

Nothing here needs the Neuron SDK; "" stands for whatever is absent. Sources, in the Neuron SDK's
documentation: tools/neuron-sys-tools/neuron-sysfs-user-guide.rst describes the files of the device,
and release-notes/components/nki.rst says which SDK a version of NKI belongs to.
"""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

from bench.results import Environment
from nki_kernels.base import isa

ROOT = Path(__file__).resolve().parents[1]
DEVICE = Path("/sys/devices/virtual/neuron_device/neuron0/info/architecture")
# Every Linux module that states its version has such a file.
DRIVER = Path("/sys/module/neuron/version")
PACKAGES = (
    "trnfft-nki",
    "numpy",
    "torch",
    "torch_xla",
    "torch-neuronx",
    "libneuronxla",
    "neuronx-cc",
)
SYSTEM_PACKAGES = (  # the commands of Debian and of Amazon Linux that list packages
    ("dpkg-query", "-W", "-f", "${Package} ${Version}\n", "aws-neuronx-*"),
    ("rpm", "-qa", "--qf", "%{NAME} %{VERSION}\n", "aws-neuronx-*"),
)
REVISION_VARIABLE = "TRNFFT_REVISION"
SDK_OF_NKI = {"0.3": "2.29", "0.4": "2.30", "0.5": "2.31", "0.6": "2.32", "0.7": "2.33"}


def environment(root: Path = ROOT) -> Environment:
    """Returns the environment of this process.

    Args:
        root: folder of the code whose git revision is recorded.
    """
    nki = version("nki") if isa.REAL_NKI else ""
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
    """Returns the version of an installed Python package, or "" where it is absent."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def git_state(root: Path) -> tuple[str, bool | None]:
    """Returns the git revision, and whether files differ from it.

    Without git, or outside of a git repository, the second value is None and the first value is
    that of the variable TRNFFT_REVISION, or "". The variable names the commit where only the files
    of a commit were unpacked, as on an instance.
    """
    revision = output_of("git", "-C", str(root), "rev-parse", "HEAD")
    if revision is None:
        return os.environ.get(REVISION_VARIABLE, ""), None
    return revision, bool(output_of("git", "-C", str(root), "status", "--porcelain"))


def system_packages() -> dict[str, str]:
    """Returns the versions of Neuron's driver, runtime and tools that the package manager lists."""
    for command in SYSTEM_PACKAGES:
        lines = [line.split() for line in (output_of(*command) or "").splitlines()]
        if found := {line[0]: line[1] for line in lines if len(line) == 2}:
            return found
    return {}


def cpu_name() -> str:
    """Returns the model of the CPU where Linux names it, otherwise the architecture."""
    for line in text_of(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def text_of(path: Path) -> str:
    """Returns the text of a file, or "" where it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def output_of(*command: str) -> str | None:
    """Returns what the command prints, or None where the command is absent or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
