"""The checks of `trnfft doctor`: packages, settings, backends, plans, self-tests, the NeuronCore.

`SECTIONS` at the end is the table of them: a name, and a function that returns what it has found,
or raises `Unwell` with advice. Nothing here prints. A check is a note where something is absent
that works without, and "broken" where something was installed or asked for and does not work.
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
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np
import torch

import nki_sim
import trnfft
from nki_kernels.base.packing import pack
from nki_kernels.fft.dft_gemm import dft_gemm, dft_gemm_matrix
from nki_kernels.fft.stockham import stockham, stockham_tables
from nki_sim import hardware
from nki_sim.base.installed_nki import PLACEHOLDER_MARK, SIMULATOR_VARIABLE, find_nki
from nki_sim.base.neuron_packages import how_to_install
from nki_sim.measured_times import about
from trnfft.base import config
from trnfft.base.cache import cached
from trnfft.base.devices import choose_backend
from trnfft.base.distributions import LIBRARY, SIMULATOR, version_of
from trnfft.base.distributions import how_to_install as how_to_install_extra
from trnfft.planner import wisdom

OK, NOTE, BROKEN = "ok", "note", "broken"
NEURON = "NeuronCore"  # title of the section of what kernels on a NeuronCore need

DEVICES = {"cpu": "cpu", "xla": "xla", "neuron": "privateuseone"}  # torch's names
TOLERANCE = 1e-6  # relative L2 error of float32 transforms in the precision mode "fast"
IMPORT_SECONDS = 120

NEURON_DEVICES = Path("/dev")  # the folder of the driver's devices neuron0, neuron1, ...
NEURON_MODULE = Path("/sys/module/neuron/version")  # where Linux shows the version of the driver
TOOLS = ("neuron-ls", "neuron-explorer")
ADD_TOOLS = "Install aws-neuronx-tools, and add /opt/aws/neuron/bin to PATH."
COMPILER_VARIABLE = "NEURON_CC_FLAGS"

NKI, COMPILER = how_to_install("nki"), how_to_install("neuronx-cc")
TORCH_NEURON = how_to_install("nki", "neuronx-cc", "nrtpy", "torch-neuronx")
# libneuronxla 3 is for JAX (src/helperscripts/n2-manifest.json).
TORCH_XLA = how_to_install("nki", "neuronx-cc", "libneuronxla==2.2.*", "torch-neuronx==2.9.*")
TORCH_NEURONX = (
    f"For trn2 and trn3 install TorchNeuron, a public beta: {TORCH_NEURON}; "
    f"for trn1 and inf2 install PyTorch/XLA: {TORCH_XLA}"
)
# The packages that give torch a Neuron device: how to install each, and what it is for.
TORCH_PACKAGES = {
    "torch-neuronx": (TORCH_NEURONX, "PyTorch/XLA"),
    "libtorch_neuronx_lite": (
        how_to_install("libtorch_neuronx_lite"),
        'device "neuron" of the inference stack of SDK 2.32; wrap_nki is in nki.nki_hop',
    ),
    "torch_xla": (
        how_to_install_extra("xla"),
        'device "xla", for inference on inf2 and trn1; in maintenance',
    ),
}
# Versions of torch-neuronx before this one are PyTorch/XLA (release-notes, pytorch.rst).
NATIVE_SINCE = (2, 10)
NATIVE_USE = 'TorchNeuron, device "neuron"; has wrap_nki and nki_op from 2.11 on'
# Versions of NKI that parse kernels; 0.6 can trace them, but not by default.
PARSED = tuple(f"0.{minor}." for minor in range(7))


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


class Unwell(Exception):
    """What was found where not all is well: status, detail and advice, as in `Check`."""


def note_if(is_so: object, detail: str, advice: str) -> None:
    """Ends a check with a note."""
    if is_so:
        raise Unwell(NOTE, detail, advice)


def broken_if(is_so: object, detail: str, advice: str) -> None:
    """Ends a check with what is broken."""
    if is_so:
        raise Unwell(BROKEN, detail, advice)


def checks(title: str) -> list[Check]:
    """Returns the checks of a section; one that has nothing to tell is left out."""
    every = [_check(name, look) for name, look in SECTIONS[title].items()]
    return [check for check in every if check.detail]


def _check(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, OK, look())
    except Unwell as unwell:
        return Check(name, *unwell.args)


# Packages


def _version() -> str:
    """Returns the version of trnfft, with the git revision where it runs from a checkout."""
    root = Path(__file__).resolve().parents[2]
    if (root / ".git").exists() and shutil.which("git"):
        command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude", "*"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return f"{trnfft.__version__} at revision {done.stdout.strip()}"
    return trnfft.__version__


def _twice() -> str:
    """Finds the simulator, whose files are in trnfft too, installed beside it."""
    broken_if(
        version_of(SIMULATOR) is not None,
        f"installed beside {LIBRARY}, which has the same files",
        f"removing one breaks the other: pip uninstall {SIMULATOR} {LIBRARY}, then install "
        f"{LIBRARY} again",
    )
    return ""


def _installed(name: str, install: str) -> str:
    """Returns the version of a distribution that is no placeholder, as its description says."""
    version = version_of(name)
    if version is None:
        raise Unwell(NOTE, "not installed", _to_install(install))
    description = metadata.metadata(name).json.get("description", "")
    _not_a_placeholder(PLACEHOLDER_MARK in str(description), version, install)
    return version


def _not_a_placeholder(is_one: bool, version: str, install: str) -> None:
    detail = f"{version}, the placeholder of the public index"
    broken_if(is_one, detail, f"Replace the placeholder: {install}")


def _to_install(how: str) -> str:
    # `how` is commands, or a sentence with commands.
    return f"To install it: {how}" if how.startswith("pip ") else how[0].upper() + how[1:]


def _torch_package(name: str) -> str:
    install, use = TORCH_PACKAGES[name]
    version = _installed(name, install)
    error = import_error(name.replace("-", "_"))
    advice = f"Remove {name}, or install it again. {_to_install(install)}"
    broken_if(error, f"{version} cannot be imported: {error}", advice)
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if name == "torch-neuronx" and numbers and tuple(map(int, numbers.groups())) >= NATIVE_SINCE:
        use = NATIVE_USE
    return f"{version}: {use}"


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


def _compiler() -> str:
    version = _installed("neuronx-cc", COMPILER)
    is_empty = importlib.util.find_spec("neuronxcc") is None
    broken_if(is_empty, f"{version} lacks its module neuronxcc", f"Install it again: {COMPILER}")
    return version


def _nki() -> str:
    """Returns the version of nki where it is the real package, as kernels find it."""
    nki, version = find_nki(), version_of("nki") or "of unknown version"
    absent = "not installed: the simulator stands in"
    note_if(nki.state == "absent", absent, _to_install(NKI))
    _not_a_placeholder(nki.state == "placeholder", version, NKI)
    detail = f"{version} cannot be imported: {nki.error}"
    broken_if(nki.state == "broken", detail, f"Install it again: {NKI}")
    detail = f"{version} does not trace plain Python, which the kernels are written in"
    broken_if(version.startswith(PARSED), detail, f"Install 0.7 or newer, of SDK 2.33: {NKI}")
    detail = f"{version}, not in use because {SIMULATOR_VARIABLE} is 1"
    note_if(not config.has_nki(), detail, f"Unset {SIMULATOR_VARIABLE} to use it.")
    return version


# Settings


def _backend() -> str:
    variable, given = config.BACKEND_VARIABLE, config.FROM_ENVIRONMENT
    try:
        name = config.get_backend()
    except (ValueError, ImportError) as error:
        is_unknown = isinstance(error, ValueError)
        why = "which is no backend" if is_unknown else "but the real nki is not in use"
        advice = f"Unset {variable}, or set it to one of {', '.join(config.BACKENDS)}."
        raise Unwell(BROKEN, f"{variable} is {given!r}, {why}", advice) from error
    if name == given:
        return f"{name}, as {variable} says"
    return f"{name}, the default" if name == "auto" else name


def _chip_and_why() -> str:
    variable = hardware.TARGET_VARIABLE
    try:
        chip, why = hardware.current_and_why()
    except ValueError as error:
        advice = f"Unset {variable}, or set it to one of {', '.join(hardware.NAMES)}."
        raise Unwell(BROKEN, f"{variable}: {error}", advice) from error
    return f"{chip.name} ({why})"


def _degree() -> str:
    """Returns the degree of LNC, which is the number of cores that share a launch."""
    advice = f"Set {hardware.TARGET_VARIABLE} to a chip; see the advice for the chip."
    note_if(_chip() is None, "not known, because the chip is not", advice)
    try:
        degree, why = hardware.degree_and_why()
    except ValueError as error:
        advice = f"Unset {hardware.LNC_VARIABLE}, or set it to a degree that the chip has."
        raise Unwell(BROKEN, str(error), advice) from error
    return f"{degree} ({why})"


def _chip() -> hardware.NeuronCore | None:
    with contextlib.suppress(ValueError):
        return hardware.current()
    return None  # where the environment names a chip that does not exist


def _compiler_flags() -> str:
    """Finds flags by which the compiler does not keep float32 as it is.

    It does by default since SDK 2.27 (release-notes/components/compiler.rst).
    """
    flags = os.environ.get(COMPILER_VARIABLE, "")
    words = flags.replace("=", " ").split()
    chosen = [value for name, value in zip(words, words[1:], strict=False) if name == "--auto-cast"]
    detail = f"{flags}: products of float32 outside of kernels are in bfloat16"
    advice = f"Leave --auto-cast out of {COMPILER_VARIABLE}."
    note_if(chosen and chosen[-1] != "none", detail, advice)
    return flags or "not set"


def _of_auto(device: str) -> tuple[str, str]:
    with config.backend("auto"):
        return choose_backend(torch.device(DEVICES[device]))


def _auto(device: str) -> str:
    return ": ".join(_of_auto(device))


# Plans


def _folder() -> str:
    folder = wisdom.user_file(hardware.NAMES[0]).parent
    existing = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    is_writable = existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
    advice = f"Make {folder} writable; until then every process searches for plans anew."
    note_if(not is_writable, f"{folder}, not writable", advice)
    return f"{folder}, writable"


def _plans(chip: str) -> str:
    shipped, own = wisdom.examine(chip)
    detail = f"plans shipped: {_described(shipped)}; yours: {_described(own)}"
    again = f"Install {LIBRARY} again."
    remove = f"Remove {wisdom.user_file(chip)}, which trnfft makes anew."
    is_damaged = shipped.state == "damaged" or shipped.unknown
    broken_if(is_damaged, detail, f"{again} Its plans are damaged: {shipped.reason}.")
    broken_if(own.state == "damaged", detail, f"{remove} It is damaged: {own.reason}.")
    note_if(own.unknown, detail, f"{remove} It has rows that are no plans: {own.reason}.")
    note_if(shipped.state != "in use", detail, f"{again} Its plans for {chip} are missing.")
    return detail


def _described(file: wisdom.Examined) -> str:
    if file.state == "damaged":
        return file.state
    return f"{file.plans} ({file.unknown} unknown)" if file.unknown else f"{file.plans}"


# Self-tests


def _tested(test: Callable[[], tuple[np.ndarray, np.ndarray, str]], form: str) -> str:
    """Returns what a self-test says, which must not raise, and whose error must be small.

    A test returns what it found, what is exact, and what it says more.
    """
    try:
        result, exact, more = test()
        error = float(np.linalg.norm(result - exact) / np.linalg.norm(exact))
        detail = f"{form}: error {error:.1e}{more}"
        if error <= TOLERANCE:  # False for NaN
            return detail
        detail = f"{detail}, above {TOLERANCE:.0e}"
    except Exception as raised:  # the doctor reports what others raise
        detail = f"{type(raised).__name__}: {raised}"
    advice = (
        f"Install {LIBRARY}, numpy and torch again. If that does not help, report the error with "
        f"the output of this command."
    )
    raise Unwell(BROKEN, detail, advice)


def _dft_gemm() -> tuple[np.ndarray, np.ndarray, str]:
    return _simulated(dft_gemm, 64, dft_gemm_matrix(64, False, 1.0))


def _stockham() -> tuple[np.ndarray, np.ndarray, str]:
    return _simulated(stockham, 256, *pack(stockham_tables(256, (16, 16))), (16, 16))


def _simulated(
    kernel: Callable[..., object], n: int, *arguments: object
) -> tuple[np.ndarray, np.ndarray, str]:
    """Runs a kernel in the simulator, and float64 NumPy, on 8 random rows of n points."""
    re, im = np.random.default_rng(0).standard_normal((2, 8, n)).astype(np.float32)
    chip = _chip() or hardware.TRN1  # without a chip, another check is broken
    with hardware.select(chip), nki_sim.record() as timeline:
        y_re, y_im = nki_sim.simulate(kernel)(re, im, *arguments)
    modelled = f"kernel {timeline.total_ns / 1e3:.3g} us, modelled on {timeline.where}"
    launched = f"with a launch, about {about(timeline.with_launches_ns)}"
    exact = np.fft.fft(re + 1j * im.astype(np.float64))
    return y_re + 1j * y_im.astype(np.float64), exact, f"; {modelled}; {launched}"


def _matmul() -> tuple[np.ndarray, np.ndarray, str]:
    """Runs two backends on 8 random rows of 1000 points, for which trnfft ships a plan."""
    x = torch.randn(8, 1000, generator=torch.Generator().manual_seed(0))
    with config.precision("fast"), config.backend("matmul"):
        y = trnfft.fft(x)
    return y.real.numpy() + 1j * y.imag.numpy(), torch.fft.fft(x.double()).numpy(), ""


# The NeuronCore. The list and the places are from the Neuron documentation:
# nki/get-started/setup-env.rst and, for the devices, about-neuron/security.rst.


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
    count = len(neuron_devices())
    return f"it has {count} Neuron device{'s' if count > 1 else ''}" if count else ""


def _driver() -> str:
    devices = neuron_devices()
    advice = "On an instance with Trainium or Inferentia2, install aws-neuronx-dkms."
    broken_if(not devices, f"no device {NEURON_DEVICES}/neuron*", advice)
    version = NEURON_MODULE.read_text().strip() if NEURON_MODULE.exists() else "unknown"
    return f"version {version}, devices: {len(devices)}"


def _required_nki() -> str:
    nki = _check("nki", _nki)
    broken_if(nki.status != OK, nki.detail, nki.advice)
    return nki.detail


def _target_variable() -> str:
    """Finds a variable that tells NKI the chip; without it, every launch starts neuron-ls.

    By one record, of NKI 0.5 on a trn2, a launch takes 52 ms then, and 0.5 ms with the variable.
    """
    variable, chip = hardware.TARGET_VARIABLE, _chip()
    value = os.environ.get(variable)
    if value and chip is not None:
        return value
    advice = f"Name the chip, {_either(hardware.NAMES)}: export {variable}=CHIP"
    if chip is not None and "default" not in hardware.current_and_why()[1]:
        advice = f"Name the chip: export {variable}={chip.name}"
    detail = value or "not set"
    if not value and neuron_devices():
        detail = "not set: NKI starts neuron-ls at every launch, which takes 52 ms"
    raise Unwell(NOTE, detail, advice)


def _torch_device() -> str:
    """Returns which of three packages give torch a Neuron device; one is needed, none broken."""
    packages = [_check(name, partial(_torch_package, name)) for name in TORCH_PACKAGES]
    for check in packages:
        broken_if(check.status == BROKEN, f"{check.name} {check.detail}", check.advice)
    working = [check.name for check in packages if check.status == OK]
    broken_if(not working, f"needs {_either(tuple(TORCH_PACKAGES))}", TORCH_NEURONX)
    return f"by {', '.join(working)}"


def _either(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _launches() -> str:
    """Returns for which of the devices the backend "auto" launches kernels."""
    chosen = {name: _of_auto(name) for name in ("xla", "neuron")}
    devices = [name for name, (backend, _) in chosen.items() if backend == "nki"]
    advice = _check("nki", _nki).advice or TORCH_NEURONX
    broken_if(not devices, f'backend "auto" launches none: {chosen["neuron"][1]}', advice)
    return f'backend "auto" launches kernels on {", ".join(devices)}'


def _program(name: str, advice: str) -> str:
    path = shutil.which(name) or ""
    broken_if(not path, "not on PATH", advice)
    return path


SECTIONS: dict[str, dict[str, Callable[[], str]]] = {
    "Packages": {
        "trnfft": _version,
        "python": lambda: (
            f"{platform.python_version()} on {platform.system()} {platform.machine()}"
        ),
        "numpy": lambda: np.__version__,
        "torch": lambda: str(torch.__version__),
        SIMULATOR: _twice,
        **{name: partial(_torch_package, name) for name in TORCH_PACKAGES},
        "neuronx-cc": _compiler,
        "nki": _nki,
    },
    "Settings": {
        "backend": _backend,
        "precision": config.get_precision,
        "complex storage": lambda: (
            "on NeuronCores, too" if config.get_complex_storage() else "not assumed on NeuronCores"
        ),
        "chip": _chip_and_why,
        "LNC": _degree,
        COMPILER_VARIABLE: _compiler_flags,
    },
    'Backend "auto"': {f"{name} tensors": partial(_auto, name) for name in DEVICES},
    "Remembered plans": {
        "your folder": _folder,
        **{chip: partial(_plans, chip) for chip in hardware.NAMES},
    },
    "Self-tests": {
        "DFT-GEMM 8 x 64": partial(_tested, _dft_gemm, "simulator"),
        "Stockham 8 x 256": partial(_tested, _stockham, "simulator"),
        "matmul 8 x 1000": partial(_tested, _matmul, "against torch.fft"),
    },
    NEURON: {
        "driver": _driver,
        "nki": _required_nki,
        "neuronx-cc": partial(_program, "neuronx-cc", _to_install(COMPILER)),
        "target variable": _target_variable,
        "device of torch": _torch_device,
        "launches": _launches,
        **{tool: partial(_program, tool, ADD_TOOLS) for tool in TOOLS},
    },
}


def examine() -> dict[str, list[Check]]:
    """Returns all checks, by the title of their section.

    A computer without NeuronCores does not miss what a NeuronCore needs: those checks are notes.
    """
    sections = {title: checks(title) for title in SECTIONS}
    if not neuron_machine():
        sections[NEURON] = [
            replace(check, status=NOTE) if check.status == BROKEN else check
            for check in sections[NEURON]
        ]
    return sections
