"""The checks of `trnfft doctor`: packages, settings, backends, plans, self-tests, the NeuronCore.

The functions return checks and print nothing. A check is a note where something is absent that
works without, and "broken" where something was installed or asked for and does not work.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

import nki_sim
import trnfft
from nki_kernels.fft.dft_gemm import dft_gemm, dft_gemm_matrix
from nki_kernels.fft.stockham import stockham, stockham_tables
from nki_kernels.packing import pack
from nki_sim import hardware
from nki_sim.base.installed_nki import PLACEHOLDER_MARK, SIMULATOR_VARIABLE, find_nki
from nki_sim.base.neuron_packages import how_to_install
from nki_sim.measured_times import about
from trnfft import config
from trnfft.backends.choice import choose_backend
from trnfft.base import distributions
from trnfft.cache import cached
from trnfft.planner import wisdom

OK, NOTE, BROKEN = "ok", "note", "broken"

DEVICES = {"cpu": "cpu", "xla": "xla", "neuron": "privateuseone"}  # torch's names
TOLERANCE = 1e-6  # relative L2 error of float32 transforms in the precision mode "fast"
IMPORT_SECONDS = 120

NEURON_DEVICES = Path("/dev")  # the folder of the driver's devices neuron0, neuron1, ...
NEURON_MODULE = Path("/sys/module/neuron/version")  # where Linux shows the version of the driver
TOOLS = ("neuron-ls", "neuron-explorer")
ADD_TOOLS = "Install aws-neuronx-tools, and add /opt/aws/neuron/bin to PATH."
COMPILER_VARIABLE = "NEURON_CC_FLAGS"

# Versions of torch-neuronx before this one are PyTorch/XLA (release-notes, pytorch.rst).
NATIVE_SINCE = (2, 10)
TORCH_NEURON = how_to_install("nki", "neuronx-cc", "nrtpy", "torch-neuronx")
# libneuronxla 3 is for JAX (src/helperscripts/n2-manifest.json).
TORCH_XLA = how_to_install("nki", "neuronx-cc", "libneuronxla==2.2.*", "torch-neuronx==2.9.*")
TORCH_NEURONX = (
    f"For trn2 and trn3 install TorchNeuron, a public beta: {TORCH_NEURON}; "
    f"for trn1 and inf2 install PyTorch/XLA: {TORCH_XLA}"
)
XLA = distributions.how_to_install("xla")
TORCH_LITE = how_to_install("libtorch_neuronx_lite")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: a word or two.
        status: "ok", "note" or "broken".
        detail: what was found.
        advice: what to do; empty only where the status is "ok".
    """

    name: str
    status: str
    detail: str
    advice: str = ""


# Packages


def package_checks() -> list[Check]:
    """Returns checks of the versions of trnfft, Python and the packages that they work with."""
    system = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return [
        Check("trnfft", OK, " ".join(filter(None, (trnfft.__version__, _revision())))),
        Check("python", OK, system),
        Check("numpy", OK, np.__version__),
        Check("torch", OK, torch.__version__),
        *_twice(),
        *_torch_packages(),
        _compiler(),
        _nki(),
    ]


def _twice() -> list[Check]:
    """Returns a check where the simulator, whose files are here too, is installed beside trnfft."""
    library, simulator = distributions.LIBRARY, distributions.SIMULATOR
    if distributions.version_of(simulator) is None:
        return []
    detail = f"installed beside {library}, which has the same files"
    advice = (
        f"removing one breaks the other: pip uninstall {simulator} {library}, then install "
        f"{library} again"
    )
    return [Check(simulator, BROKEN, detail, advice)]


def _torch_packages() -> list[Check]:
    """Returns checks of the packages that give torch a Neuron device, and what each is for."""
    lite = 'device "neuron" of the inference stack of SDK 2.32; wrap_nki is in nki.nki_hop'
    xla = 'device "xla", for inference on inf2 and trn1; in maintenance'
    return [
        _importable("torch-neuronx", "torch_neuronx", TORCH_NEURONX, _use_of_torch_neuronx()),
        _importable("libtorch_neuronx_lite", "libtorch_neuronx_lite", TORCH_LITE, lite),
        _importable("torch_xla", "torch_xla", XLA, xla),
    ]


def _use_of_torch_neuronx() -> str:
    """Returns what torch-neuronx is for: its versions are two different packages."""
    numbers = re.match(r"(\d+)\.(\d+)", _version("torch-neuronx") or "")
    if numbers and tuple(map(int, numbers.groups())) >= NATIVE_SINCE:
        return 'TorchNeuron, device "neuron"; has wrap_nki and nki_op from 2.11 on'
    return "PyTorch/XLA"


def _revision() -> str:
    """Returns the git revision where trnfft runs from a checkout, else an empty text."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists() or shutil.which("git") is None:
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude", "*"]
    done = subprocess.run(command, capture_output=True, text=True)
    return f"at revision {done.stdout.strip()}" if done.returncode == 0 else ""


def _version(distribution: str) -> str | None:
    """Returns the version of an installed distribution; None where it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _placeholder(distribution: str, install: str) -> Check | None:
    """Returns a broken check where a distribution is a placeholder, as its description says."""
    if PLACEHOLDER_MARK not in str(metadata.metadata(distribution).json.get("description", "")):
        return None
    detail = f"{_version(distribution)}, the placeholder of the public index"
    return Check(distribution, BROKEN, detail, f"Replace the placeholder: {install}")


def _importable(distribution: str, module: str, install: str, use: str) -> Check:
    """Checks that a package is installed and can be imported; says what it is for."""
    version = _version(distribution)
    if version is None:
        return Check(distribution, NOTE, "not installed", _to_install(install))
    if placeholder := _placeholder(distribution, install):
        return placeholder
    if error := import_error(module):
        detail = f"{version} cannot be imported: {error}"
        advice = f"Remove {distribution}, or install it again. {_to_install(install)}"
        return Check(distribution, BROKEN, detail, advice)
    return Check(distribution, OK, f"{version}: {use}")


def _to_install(how: str) -> str:
    """Returns advice to install something: commands, or a sentence with commands."""
    return f"To install it: {how}" if how.startswith("pip ") else how[0].upper() + how[1:]


@cached(16)
def import_error(module: str) -> str:
    """Returns the error of an import as one line; empty without an error.

    The import is tried in a process of its own, as it may end the process.
    """
    command = [sys.executable, "-c", f"import {module}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=IMPORT_SECONDS)
    except subprocess.TimeoutExpired:
        return f"the import lasts longer than {IMPORT_SECONDS} s"
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"the interpreter ended with code {done.returncode}"


def _compiler() -> Check:
    install = how_to_install("neuronx-cc")
    version = _version("neuronx-cc")
    if version is None:
        return Check("neuronx-cc", NOTE, "not installed", _to_install(install))
    if placeholder := _placeholder("neuronx-cc", install):
        return placeholder
    if importlib.util.find_spec("neuronxcc") is None:
        detail = f"{version} lacks its module neuronxcc"
        return Check("neuronx-cc", BROKEN, detail, f"Install it again: {install}")
    return Check("neuronx-cc", OK, version)


# Versions of NKI that parse kernels; 0.6 can trace them, but not by default.
_PARSED = tuple(f"0.{minor}." for minor in range(7))


def _nki() -> Check:
    """Checks that nki is the real package, as nki_kernels/isa.py finds it."""
    found, version = find_nki(), _version("nki") or "of unknown version"
    install = how_to_install("nki")
    if found.state == "absent":
        return Check("nki", NOTE, "not installed: the simulator stands in", _to_install(install))
    if found.state == "placeholder":
        detail = f"{version}, the placeholder of the public index"
        return Check("nki", BROKEN, detail, f"Replace the placeholder: {install}")
    if found.state == "broken":
        detail = f"{version} cannot be imported: {found.error}"
        return Check("nki", BROKEN, detail, f"Install it again: {install}")
    if version.startswith(_PARSED):
        detail = f"{version} does not trace plain Python, which the kernels are written in"
        return Check("nki", BROKEN, detail, f"Install 0.7 or newer, of SDK 2.33: {install}")
    if not config.has_nki():
        detail = f"{version}, not in use because {SIMULATOR_VARIABLE} is 1"
        return Check("nki", NOTE, detail, f"Unset {SIMULATOR_VARIABLE} to use it.")
    return Check("nki", OK, version)


# Settings


COMPLEX_STORAGE = {False: "not assumed on NeuronCores", True: "on NeuronCores, too"}


def setting_checks() -> list[Check]:
    """Returns checks of the settings in this context: backend, precision, chip, LNC, compiler."""
    return [
        _backend_setting(),
        Check("precision", OK, config.get_precision()),
        Check("complex storage", OK, COMPLEX_STORAGE[config.get_complex_storage()]),
        _chip_setting(),
        _degree_setting(),
        _compiler_flags(),
    ]


def _backend_setting() -> Check:
    variable = config.BACKEND_VARIABLE
    advice = f"Unset {variable}, or set it to one of {', '.join(config.BACKENDS)}."
    try:
        name = config.get_backend()
    except ValueError:
        detail = f"{variable} is {config.FROM_ENVIRONMENT!r}, which is no backend"
        return Check("backend", BROKEN, detail, advice)
    except ImportError:
        detail = f"{variable} is 'nki', but the real nki is not in use"
        return Check("backend", BROKEN, detail, advice)
    if name == config.FROM_ENVIRONMENT:
        return Check("backend", OK, f"{name}, as {variable} says")
    return Check("backend", OK, f"{name}, the default" if name == "auto" else name)


def _chip_setting() -> Check:
    variable = hardware.TARGET_VARIABLE
    try:
        chip, why = hardware.current_and_why()
    except ValueError as error:
        advice = f"Unset {variable}, or set it to one of {', '.join(hardware.NAMES)}."
        return Check("chip", BROKEN, f"{variable}: {error}", advice)
    return Check("chip", OK, f"{chip.name} ({why})")


def _degree_setting() -> Check:
    """Checks the degree of LNC, which is the number of cores that share a launch."""
    variable = hardware.LNC_VARIABLE
    if _chip() is None:
        advice = f"Set {hardware.TARGET_VARIABLE} to a chip; see the advice for the chip."
        return Check("LNC", NOTE, "not known, because the chip is not", advice)
    try:
        degree, why = hardware.degree_and_why()
    except ValueError as error:
        advice = f"Unset {variable}, or set it to a degree that the chip has."
        return Check("LNC", BROKEN, str(error), advice)
    return Check("LNC", OK, f"{degree} ({why})")


def _compiler_flags() -> Check:
    """Checks that the compiler keeps float32 as it is.

    That is the default since SDK 2.27 (release-notes/components/compiler.rst).
    """
    flags = os.environ.get(COMPILER_VARIABLE, "")
    words = flags.replace("=", " ").split()
    chosen = [value for name, value in zip(words, words[1:], strict=False) if name == "--auto-cast"]
    if chosen and chosen[-1] != "none":
        detail = f"{flags}: products of float32 outside of kernels are in bfloat16"
        advice = f"Leave --auto-cast out of {COMPILER_VARIABLE}."
        return Check(COMPILER_VARIABLE, NOTE, detail, advice)
    return Check(COMPILER_VARIABLE, OK, flags or "not set")


def _chip() -> hardware.NeuronCore | None:
    """Returns the chip; None where the environment names one that does not exist."""
    try:
        return hardware.current()
    except ValueError:
        return None


def backend_checks() -> list[Check]:
    """Returns the backend that "auto" chooses for tensors on each kind of device, and why."""
    checks = []
    with config.backend("auto"):
        for name, device in DEVICES.items():
            backend, reason = choose_backend(torch.device(device))
            checks.append(Check(f"{name} tensors", OK, f"{backend}: {reason}"))
    return checks


# Plans


def wisdom_checks() -> list[Check]:
    """Returns checks of the folder of the user's plans, and of the plans for every chip."""
    folder = wisdom.user_file(hardware.NAMES[0]).parent
    existing = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        place = Check("your folder", OK, f"{folder}, writable")
    else:
        advice = f"Make {folder} writable; until then every process searches for plans anew."
        place = Check("your folder", NOTE, f"{folder}, not writable", advice)
    return [place, *map(_wisdom_check, hardware.NAMES)]


def _wisdom_check(chip: str) -> Check:
    shipped, own = wisdom.examine(chip)
    detail = f"plans shipped: {_described(shipped)}; yours: {_described(own)}"
    again = f"Install {distributions.LIBRARY} again."
    if shipped.state == "damaged" or shipped.unknown:
        return Check(chip, BROKEN, detail, f"{again} Its plans are damaged: {shipped.reason}.")
    remove = f"Remove {wisdom.user_file(chip)}, which trnfft makes anew."
    if own.state == "damaged":
        return Check(chip, BROKEN, detail, f"{remove} It is damaged: {own.reason}.")
    if own.unknown:
        return Check(chip, NOTE, detail, f"{remove} It has rows that are no plans: {own.reason}.")
    if shipped.state == "in use":
        return Check(chip, OK, detail)
    return Check(chip, NOTE, detail, f"{again} Its plans for {chip} are missing.")


def _described(file: wisdom.Examined) -> str:
    if file.state not in ("in use", "absent"):
        return file.state
    return f"{file.plans} ({file.unknown} unknown)" if file.unknown else f"{file.plans}"


# Self-tests


def self_tests() -> list[Check]:
    """Compares kernels in the simulator with float64 NumPy, and the backend matmul with torch."""
    return [
        _tested("DFT-GEMM 8 x 64", _simulated_dft_gemm),
        _tested("Stockham 8 x 256", _simulated_stockham),
        _tested("matmul 8 x 1000", _matmul_against_torch),
    ]


def _tested(name: str, test: Callable[[], Check]) -> Check:
    """Runs a self-test; any exception makes a broken check."""
    advice = (
        f"Install {distributions.LIBRARY}, numpy and torch again. If that does not help, report "
        f"the error with the output of this command."
    )
    try:
        check = replace(test(), name=name)
    except Exception as error:  # the doctor reports what others raise
        return Check(name, BROKEN, f"{type(error).__name__}: {error}", advice)
    return replace(check, advice=advice) if check.status == BROKEN else check


def _simulated_dft_gemm() -> Check:
    return _simulated(dft_gemm, 64, dft_gemm_matrix(64, False, 1.0))


def _simulated_stockham() -> Check:
    return _simulated(stockham, 256, *pack(stockham_tables(256, (16, 16))), (16, 16))


def _simulated(kernel: Any, n: int, *arguments: Any) -> Check:
    """Runs a kernel in the simulator on 8 random rows of n points."""
    re, im = np.random.default_rng(0).standard_normal((2, 8, n)).astype(np.float32)
    chip = _chip() or hardware.TRN1  # without a chip, another check is broken
    with hardware.select(chip), nki_sim.record() as timeline:
        y_re, y_im = nki_sim.simulate(kernel)(re, im, *arguments)
    exact = np.fft.fft(re + 1j * im.astype(np.float64))
    error = _relative_error(y_re + 1j * y_im.astype(np.float64), exact)
    modelled = f"kernel {timeline.total_ns / 1e3:.3g} us, modelled on {timeline.where}"
    launched = f"with a launch, about {about(timeline.with_launches_ns)}"
    return _judged(error, f"simulator: error {error:.1e}; {modelled}; {launched}")


def _matmul_against_torch() -> Check:
    """Compares two backends on 8 random rows of 1000 points, for which trnfft ships a plan."""
    x = torch.randn(8, 1000, generator=torch.Generator().manual_seed(0))
    with config.precision("fast"), config.backend("matmul"):
        found = trnfft.fft(x)
    exact = torch.fft.fft(x.double()).numpy()
    error = _relative_error(found.real.numpy() + 1j * found.imag.numpy(), exact)
    return _judged(error, f"against torch.fft: error {error:.1e}")


def _relative_error(found: Any, exact: Any) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def _judged(error: float, detail: str) -> Check:
    """Returns a check that is broken where the error is above the tolerance, or NaN."""
    if error <= TOLERANCE:
        return Check("", OK, detail)
    return Check("", BROKEN, f"{detail}, above {TOLERANCE:.0e}")


# The NeuronCore


def neuron_checks() -> list[Check]:
    """Returns checks of all that kernels on a NeuronCore need; what is missing is "broken".

    The list and the places are from the Neuron documentation: nki/get-started/setup-env.rst and,
    for the devices, about-neuron/security.rst.
    """
    return [
        _driver(),
        _required(_nki()),
        _program("neuronx-cc", _to_install(how_to_install("neuronx-cc"))),
        _target_variable(),
        _torch_device(),
        _launches(),
        *(_program(tool, ADD_TOOLS) for tool in TOOLS),
    ]


def neuron_devices() -> list[str]:
    """Returns the names of the devices of the Neuron driver; none without the driver."""
    return sorted(path.name for path in NEURON_DEVICES.glob("neuron[0-9]*"))


def neuron_machine() -> str:
    """Returns what shows that this computer has NeuronCores; empty where nothing does.

    That is the type of the EC2 instance, or the devices of the Neuron driver.
    """
    with contextlib.suppress(OSError, ValueError):
        instance = hardware.INSTANCE_TYPE.read_text().strip()
        hardware.chip(instance[:4])  # trn1n, trn2u and trn3gen2 have the chips trn1, trn2 and trn3
        return f"its instance type is {instance}"
    devices = neuron_devices()
    return (
        f"it has {len(devices)} Neuron device{'s' if len(devices) > 1 else ''}" if devices else ""
    )


def _driver() -> Check:
    devices = neuron_devices()
    if not devices:
        advice = "On an instance with Trainium or Inferentia2, install aws-neuronx-dkms."
        return Check("driver", BROKEN, f"no device {NEURON_DEVICES}/neuron*", advice)
    version = NEURON_MODULE.read_text().strip() if NEURON_MODULE.exists() else "unknown"
    return Check("driver", OK, f"version {version}, devices: {len(devices)}")


def _target_variable() -> Check:
    """Checks that a variable tells NKI the chip; without it, every launch starts neuron-ls.

    By one record, of NKI 0.5 on a trn2, a launch takes 52 ms then, and 0.5 ms with the variable.
    """
    variable, chip = hardware.TARGET_VARIABLE, _chip()
    value = os.environ.get(variable)
    if value and chip is not None:
        return Check("target variable", OK, value)
    is_guess = chip is None or "default" in hardware.current_and_why()[1]
    if is_guess:
        names = f"{', '.join(hardware.NAMES[:-1])} or {hardware.NAMES[-1]}"
        advice = f"Name the chip, {names}: export {variable}=CHIP"
    else:
        advice = f"Name the chip: export {variable}={hardware.current().name}"
    if value or not neuron_devices():
        return Check("target variable", NOTE, value or "not set", advice)
    detail = "not set: NKI starts neuron-ls at every launch, which takes 52 ms"
    return Check("target variable", NOTE, detail, advice)


def _torch_device() -> Check:
    """Checks that torch has a Neuron device, by one or several of three packages."""
    checks = _torch_packages()
    for check in checks:
        if check.status == BROKEN:
            return replace(check, name="device of torch", detail=f"{check.name} {check.detail}")
    found = [check.name for check in checks if check.status == OK]
    if found:
        return Check("device of torch", OK, f"by {', '.join(found)}")
    names = f"{', '.join(check.name for check in checks[:-1])} or {checks[-1].name}"
    return Check("device of torch", BROKEN, f"needs {names}", TORCH_NEURONX)


def _launches() -> Check:
    """Checks that the backend "auto" launches kernels for one of the devices."""
    with config.backend("auto"):
        chosen = {name: choose_backend(torch.device(DEVICES[name])) for name in ("xla", "neuron")}
    found = [name for name, (backend, _) in chosen.items() if backend == "nki"]
    if found:
        return Check("launches", OK, f'backend "auto" launches kernels on {", ".join(found)}')
    reason = chosen["neuron"][1]
    advice = _nki().advice or TORCH_NEURONX
    return Check("launches", BROKEN, f'backend "auto" launches none: {reason}', advice)


def _required(check: Check) -> Check:
    """Returns the check of a package, "broken" where the package is missing or not in use."""
    return replace(check, status=OK if check.status == OK else BROKEN)


def _program(name: str, advice: str) -> Check:
    path = shutil.which(name)
    if path is None:
        return Check(name, BROKEN, "not on PATH", advice)
    return Check(name, OK, path)
