"""What `trnfft doctor` looks at: packages, settings, backends, plans, self-tests, the NeuronCore.

The functions return checks and print nothing. What is merely absent is a note; "broken" is what
keeps something from working that was installed or asked for.
"""

from __future__ import annotations

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

import trnfft
from nki_kernels import distributions, hardware, simulator
from nki_kernels.kernels.dft_gemm import dft_gemm, dft_gemm_matrix
from nki_kernels.kernels.stockham import stockham
from nki_kernels.kernels.stockham_stages import stockham_tables
from nki_kernels.measured_times import about
from nki_kernels.neuron_packages import how_to_install
from nki_kernels.packing import pack
from nki_kernels.simulator.install import PLACEHOLDER_MARK, SIMULATOR_VARIABLE, find_nki
from trnfft import config
from trnfft.backends.choice import choose_backend
from trnfft.cache import cached
from trnfft.planner import wisdom

OK, NOTE, BROKEN = "ok", "note", "broken"

DEVICES = {"cpu": "cpu", "xla": "xla", "neuron": "privateuseone"}  # torch's names
TOLERANCE = 1e-6  # relative L2 error of float32 transforms in the precision mode "fast"
IMPORT_SECONDS = 120

NEURON_DEVICES = Path("/dev")  # the driver's devices here are neuron0, neuron1, ...
NEURON_MODULE = Path("/sys/module/neuron/version")  # where Linux shows a module's version
TOOLS = ("neuron-ls", "neuron-explorer")
ADD_TOOLS = "install aws-neuronx-tools, and add /opt/aws/neuron/bin to PATH"
COMPILER_VARIABLE = "NEURON_CC_FLAGS"

# torch-neuronx: versions before are PyTorch/XLA (release-notes, pytorch.rst).
NATIVE_SINCE = (2, 10)
TORCH_NEURON = how_to_install("nki", "neuronx-cc", "nrtpy", "torch-neuronx")
# libneuronxla 3 is for JAX (src/helperscripts/n2-manifest.json).
TORCH_XLA = how_to_install("nki", "neuronx-cc", "libneuronxla==2.2.*", "torch-neuronx==2.9.*")
TORCH_NEURONX = (
    f"TorchNeuron, a public beta, for trn2 and trn3: {TORCH_NEURON}; "
    f"PyTorch/XLA for trn1 and inf2: {TORCH_XLA}"
)
XLA = distributions.how_to_install("xla")
TORCH_LITE = how_to_install("libtorch_neuronx_lite")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what it is, a word or two.
        status: "ok", "note" or "broken".
        detail: what was found.
        advice: what to do where it is not "ok"; may be empty for a note.
    """

    name: str
    status: str
    detail: str
    advice: str = ""


# Packages


def package_checks() -> list[Check]:
    """Versions of trnfft, Python and what they work with."""
    system = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return [
        Check("trnfft", OK, " ".join(filter(None, (trnfft.__version__, _revision())))),
        Check("python", OK, system),
        Check("numpy", OK, np.__version__),
        Check("torch", OK, torch.__version__),
        *_torch_packages(),
        _compiler(),
        _nki(),
    ]


def _torch_packages() -> list[Check]:
    """What brings torch to a NeuronCore: which is there, and what each is good for."""
    lite = 'device "neuron" in SDK 2.32\'s inference stack, wrap_nki in nki.nki_hop'
    xla = 'device "xla", in maintenance: inference on inf2 and trn1'
    return [
        _importable("torch-neuronx", "torch_neuronx", TORCH_NEURONX, _use_of_torch_neuronx()),
        _importable("libtorch_neuronx_lite", "libtorch_neuronx_lite", TORCH_LITE, lite),
        _importable("torch_xla", "torch_xla", XLA, xla),
    ]


def _use_of_torch_neuronx() -> str:
    """Two packages have this name: its versions tell them apart."""
    numbers = re.match(r"(\d+)\.(\d+)", _version("torch-neuronx") or "")
    if numbers and tuple(map(int, numbers.groups())) >= NATIVE_SINCE:
        return 'TorchNeuron, device "neuron"; wrap_nki and nki_op since 2.11'
    return "PyTorch/XLA"


def _revision() -> str:
    """The git revision where trnfft runs from a checkout, else ""."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists() or shutil.which("git") is None:
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude", "*"]
    done = subprocess.run(command, capture_output=True, text=True)
    return f"at revision {done.stdout.strip()}" if done.returncode == 0 else ""


def _version(distribution: str) -> str | None:
    """The version of an installed distribution; None where there is none."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _placeholder(distribution: str, install: str) -> Check | None:
    """A broken check where this is the public index's placeholder, whose description says so."""
    if PLACEHOLDER_MARK not in str(metadata.metadata(distribution).json.get("description", "")):
        return None
    detail = f"{_version(distribution)}, the placeholder of the public index"
    return Check(distribution, BROKEN, detail, install)


def _importable(distribution: str, module: str, install: str, use: str) -> Check:
    """Whether a package is installed and, if so, can be imported; then what it is good for."""
    version = _version(distribution)
    if version is None:
        return Check(distribution, NOTE, "not installed", install)
    if placeholder := _placeholder(distribution, install):
        return placeholder
    if error := import_error(module):
        detail = f"{version} cannot be imported: {error}"
        return Check(distribution, BROKEN, detail, f"reinstall or remove it: {install}")
    return Check(distribution, OK, f"{version}: {use}")


@cached(16)
def import_error(module: str) -> str:
    """Why a module cannot be imported, in one line; "" if it can. A process of its own tries."""
    command = [sys.executable, "-c", f"import {module}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=IMPORT_SECONDS)
    except subprocess.TimeoutExpired:
        return f"it takes more than {IMPORT_SECONDS} s"
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"the interpreter ended with code {done.returncode}"


def _compiler() -> Check:
    install = how_to_install("neuronx-cc")
    version = _version("neuronx-cc")
    if version is None:
        return Check("neuronx-cc", NOTE, "not installed", install)
    if placeholder := _placeholder("neuronx-cc", install):
        return placeholder
    if importlib.util.find_spec("neuronxcc") is None:
        detail = f"{version} lacks its module neuronxcc"
        return Check("neuronx-cc", BROKEN, detail, install)
    return Check("neuronx-cc", OK, version)


def _nki() -> Check:
    """Whether nki is the real package, as nki_kernels/nki_api.py finds it."""
    found, version = find_nki(), _version("nki") or "of unknown version"
    install = how_to_install("nki")
    if found.state == "absent":
        return Check("nki", NOTE, "not installed: the simulator stands in", install)
    if found.state == "placeholder":
        detail = f"{version}, the placeholder of the public index"
        return Check("nki", BROKEN, detail, install)
    if found.state == "broken":
        return Check("nki", BROKEN, f"{version} cannot be imported: {found.error}", install)
    if not config.has_nki():
        detail = f"{version}, not in use as {SIMULATOR_VARIABLE} is 1"
        return Check("nki", NOTE, detail, f"unset {SIMULATOR_VARIABLE}")
    return Check("nki", OK, version)


# Settings


COMPLEX_STORAGE = {False: "not assumed on NeuronCores", True: "on NeuronCores, too"}


def setting_checks() -> list[Check]:
    """Backend, precision mode, chip, degree of LNC and flags of the compiler in this context."""
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
    advice = f"unset {variable}, or set it to one of {', '.join(config.BACKENDS)}"
    try:
        name = config.get_backend()
    except ValueError:
        detail = f"{variable} is {config.FROM_ENVIRONMENT!r}, which is no backend"
        return Check("backend", BROKEN, detail, advice)
    except ImportError:
        detail = f"{variable} is 'nki', and the real nki is not in use"
        return Check("backend", BROKEN, detail, advice)
    if name == config.FROM_ENVIRONMENT:
        return Check("backend", OK, f"{name}, as {variable} says")
    return Check("backend", OK, f"{name}, the default" if name == "auto" else name)


def _chip_setting() -> Check:
    variable = hardware.TARGET_VARIABLE
    try:
        chip, why = hardware.current_and_why()
    except ValueError as error:
        advice = f"unset {variable}, or set it to one of {', '.join(hardware.NAMES)}"
        return Check("chip", BROKEN, f"{variable}: {error}", advice)
    return Check("chip", OK, f"{chip.name} ({why})")


def _degree_setting() -> Check:
    """The degree of LNC, cores a launch."""
    variable = hardware.LNC_VARIABLE
    if _chip() is None:
        return Check("LNC", NOTE, "not known, as the chip is not")
    try:
        degree, why = hardware.degree_and_why()
    except ValueError as error:
        return Check("LNC", BROKEN, str(error), f"unset {variable}, or set it to what is allowed")
    return Check("LNC", OK, f"{degree} ({why})")


def _compiler_flags() -> Check:
    """Float32 stays float32 by default since SDK 2.27 (release-notes/components/compiler.rst)."""
    flags = os.environ.get(COMPILER_VARIABLE, "")
    words = flags.replace("=", " ").split()
    chosen = [value for name, value in zip(words, words[1:], strict=False) if name == "--auto-cast"]
    if chosen and chosen[-1] != "none":
        detail = f"{flags}: float32 products outside of kernels are in bfloat16"
        return Check(COMPILER_VARIABLE, NOTE, detail, "leave --auto-cast out")
    return Check(COMPILER_VARIABLE, OK, flags or "not set")


def _chip() -> hardware.NeuronCore | None:
    """The chip; None where the environment names one that does not exist."""
    try:
        return hardware.current()
    except ValueError:
        return None


def backend_checks() -> list[Check]:
    """What the backend "auto" takes for tensors on a CPU, an XLA and a Neuron device, and why."""
    checks = []
    with config.backend("auto"):
        for name, device in DEVICES.items():
            backend, reason = choose_backend(torch.device(device))
            checks.append(Check(f"{name} tensors", OK, f"{backend}: {reason}"))
    return checks


# Plans


def wisdom_checks() -> list[Check]:
    """The folder of the user's plans, and for every chip what is remembered."""
    folder = wisdom.user_file(hardware.NAMES[0]).parent
    existing = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        place = Check("your folder", OK, f"{folder}, writable")
    else:
        advice = f"without it, plans are searched for in every process: make {folder} writable"
        place = Check("your folder", NOTE, f"{folder}, not writable", advice)
    return [place, *map(_wisdom_check, hardware.NAMES)]


def _wisdom_check(chip: str) -> Check:
    shipped, own = wisdom.examine(chip)
    detail = f"plans shipped: {_described(shipped)}; yours: {_described(own)}"
    if shipped.state == "damaged" or shipped.unknown:
        return Check(chip, BROKEN, detail, f"reinstall trnfft: {shipped.reason}")
    if own.state == "damaged":
        return Check(chip, BROKEN, detail, f"remove {wisdom.user_file(chip)}: {own.reason}")
    if own.unknown:
        return Check(chip, NOTE, detail, f"remove {wisdom.user_file(chip)}: {own.reason}")
    return Check(chip, OK if shipped.state == "in use" else NOTE, detail)


def _described(file: wisdom.Examined) -> str:
    if file.state not in ("in use", "absent"):
        return file.state
    return f"{file.plans} ({file.unknown} unknown)" if file.unknown else f"{file.plans}"


# Self-tests


def self_tests() -> list[Check]:
    """Kernels in the simulator against float64 NumPy, and the two backends of torch."""
    return [
        _tested("DFT-GEMM 8 x 64", _simulated_dft_gemm),
        _tested("Stockham 8 x 256", _simulated_stockham),
        _tested("matmul 8 x 1000", _matmul_against_torch),
    ]


def _tested(name: str, test: Callable[[], Check]) -> Check:
    """The check of a self-test; a failure of any kind is a broken one."""
    advice = "reinstall trnfft, NumPy and torch; if that does not help, report it with this screen"
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
    """A launch on 8 random rows of n points."""
    re, im = np.random.default_rng(0).standard_normal((2, 8, n)).astype(np.float32)
    chip = _chip() or hardware.TRN1  # the check of the setting tells where there is none
    with hardware.select(chip), simulator.record() as timeline:
        y_re, y_im = simulator.simulate(kernel)(re, im, *arguments)
    exact = np.fft.fft(re + 1j * im.astype(np.float64))
    error = _relative_error(y_re + 1j * y_im.astype(np.float64), exact)
    modelled = f"kernel {timeline.total_ns / 1e3:.3g} us, modelled on {timeline.where}"
    launched = f"with a launch, about {about(timeline.with_launches_ns)}"
    return _judged(error, f"simulator: error {error:.1e}; {modelled}; {launched}")


def _matmul_against_torch() -> Check:
    """Both backends on 8 random rows of 1000 points, of which trnfft ships a plan."""
    x = torch.randn(8, 1000, generator=torch.Generator().manual_seed(0))
    with config.precision("fast"), config.backend("matmul"):
        found = trnfft.fft(x)
    exact = torch.fft.fft(x.double()).numpy()
    error = _relative_error(found.real.numpy() + 1j * found.imag.numpy(), exact)
    return _judged(error, f"against torch.fft: error {error:.1e}")


def _relative_error(found: Any, exact: Any) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def _judged(error: float, detail: str) -> Check:
    """Broken above the tolerance, or for NaN."""
    if error <= TOLERANCE:
        return Check("", OK, detail)
    return Check("", BROKEN, f"{detail}, above {TOLERANCE:.0e}")


# The NeuronCore


def neuron_checks() -> list[Check]:
    """Whether this machine is ready to run kernels on a NeuronCore: "broken" is what is missing.

    What that takes, and where it is installed, is from the Neuron documentation:
    nki/get-started/setup-env.rst and about-neuron/security.rst (the devices).
    """
    return [
        _driver(),
        _required(_nki()),
        _program("neuronx-cc", how_to_install("neuronx-cc")),
        _target_variable(),
        _torch_device(),
        *(_program(tool, ADD_TOOLS) for tool in TOOLS),
    ]


def neuron_devices() -> list[str]:
    """Names of the devices of the Neuron driver; none without it."""
    return sorted(path.name for path in NEURON_DEVICES.glob("neuron[0-9]*"))


def _driver() -> Check:
    devices = neuron_devices()
    if not devices:
        advice = "install aws-neuronx-dkms on an instance with Trainium or Inferentia2"
        return Check("driver", BROKEN, f"no device {NEURON_DEVICES}/neuron*", advice)
    version = NEURON_MODULE.read_text().strip() if NEURON_MODULE.exists() else "unknown"
    return Check("driver", OK, f"version {version}, devices: {len(devices)}")


def _target_variable() -> Check:
    """Whether NKI is told the chip. Where it is not, each launch starts neuron-ls to learn it.

    By one record, NKI 0.5 on a trn2, such a launch takes 52 ms, and 0.5 ms with the variable.
    """
    variable, chip = hardware.TARGET_VARIABLE, _chip()
    value = os.environ.get(variable)
    if value and chip is not None:
        return Check("target variable", OK, value)
    is_guess = chip is None or "default" in hardware.current_and_why()[1]
    advice = (
        f"export {variable}={'|'.join(hardware.NAMES) if is_guess else hardware.current().name}"
    )
    if value or not neuron_devices():
        return Check("target variable", NOTE, value or "not set", advice)
    detail = "not set: NKI starts neuron-ls at every launch, which takes 52 ms"
    return Check("target variable", NOTE, detail, advice)


def _torch_device() -> Check:
    """Whether torch has a Neuron device, by one of three packages or by several."""
    checks = _torch_packages()
    for check in checks:
        if check.status == BROKEN:
            return replace(check, name="device of torch", detail=f"{check.name} {check.detail}")
    found = [check.name for check in checks if check.status == OK]
    if found:
        return Check("device of torch", OK, f"by {', '.join(found)}")
    missing = "none of the three packages"
    return Check("device of torch", BROKEN, missing, TORCH_NEURONX)


def _required(check: Check) -> Check:
    """The check of a package, "broken" where that is missing or not in use."""
    return replace(check, status=OK if check.status == OK else BROKEN)


def _program(name: str, advice: str) -> Check:
    path = shutil.which(name)
    if path is None:
        return Check(name, BROKEN, "not on PATH", advice)
    return Check(name, OK, path)
