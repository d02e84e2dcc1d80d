"""The pytest plugin ``nki_sim``, which makes ``import nki`` load the simulator in tests.

It also adds the fixture ``timeline`` and the options --nki, --nki-target and --nki-strict. The
simulator and NumPy load when something imports ``nki``. ``-p no:nki_sim`` switches the plugin off.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from .base import installed_nki, releases
from .base.distribution import packages
from .import_nki import nki_finder

if TYPE_CHECKING:
    from . import Timeline

_strict = pytest.StashKey[bool]()
_target = pytest.StashKey[str]()  # the option or the setting that chose the chip
_OF_WORKER = "nki_strict"  # the key under which a process of pytest-xdist finds it
_OPTIONS = {"nki_release": "--nki", "nki_target": "--nki-target"}
_told = pytest.StashKey[bool]()  # whether the line on the nki in use was printed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options, each of which is also a setting in the configuration file."""
    target = "the chip to simulate: trn1, trn2 or trn3"
    strict = "turn the simulator's warnings into errors"
    release = "the release of NKI that the simulator and the lint follow: 0.7 or 0.6"
    group = parser.getgroup("nki", "NKI kernels in the simulator")
    group.addoption("--nki", metavar="RELEASE", help=release)
    group.addoption("--nki-target", metavar="CHIP", help=target)
    group.addoption("--nki-strict", action="store_true", help=strict)
    parser.addini("nki_release", f"{release}, unless an option or a variable names another")
    parser.addini("nki_target", f"{target}, unless an option or a variable names another")
    parser.addini("nki_strict", strict, type="bool", default=False)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Starts the plugin before any conftest.py, which may import kernels."""
    _begin(early_config, early_config.known_args_namespace)


def pytest_configure(config: pytest.Config) -> None:
    """Starts the plugin if a conftest.py names it in ``pytest_plugins``."""
    if _strict not in config.stash:
        _begin(config, config.option)
    if getattr(config, "workerinput", {}).get(_OF_WORKER):
        config.stash[_strict] = True


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Makes a process of pytest-xdist strict, to which ``nki-sim run --strict`` says nothing."""
    node.workerinput[_OF_WORKER] = node.config.stash[_strict]


def _begin(config: pytest.Config, options: argparse.Namespace) -> None:
    """Makes ``import nki`` load the simulator, and chooses the release and the chip."""
    _keep_asserts(config)
    is_asked = options.nki_strict or config.getini("nki_strict")
    config.stash[_strict] = is_asked or _runs_strictly()
    finder = nki_finder.NkiFinder()
    sys.meta_path.insert(0, finder)
    config.add_cleanup(lambda: sys.meta_path.remove(finder))
    release = options.nki, config.getini("nki_release")
    _choose(config, "nki_release", release, releases.VARIABLE, releases.checked)
    target = options.nki_target, config.getini("nki_target")
    if any(target):
        from . import hardware

        name = "nki_target"
        chosen_by = _choose(config, name, target, hardware.TARGET_VARIABLE, hardware.chip)
        if chosen_by:
            config.stash[_target] = chosen_by


def _runs_strictly() -> bool:
    # Under ``nki-sim run --strict``. Loads nothing.
    running = sys.modules.get("nki_sim.base.running")
    return running is not None and bool(running.is_strict())


def _keep_asserts(config: pytest.Config) -> None:
    """Prevents pytest from rewriting the asserts of all modules of this distribution.

    pytest does so for every distribution with a plugin. Compiling the modules again took 0.25 s,
    half of a first run, and would change what a compiler traces.
    """
    marked: set[str] = getattr(config.pluginmanager.rewrite_hook, "_must_rewrite", set())
    marked.difference_update(packages())


def _choose(
    config: pytest.Config,
    setting: str,
    given: tuple[str | None, str],
    variable: str,
    check: Callable[[str], object],
) -> str:
    """Sets an environment variable to the value of an option, or else of a setting.

    A setting does not replace a value that the variable has. Threads and processes of tests see the
    variable, too, and a test can set it. Returns the name of the option or setting, or "".
    """
    option, configured = given
    name = configured if option is None else option
    if option is None and (not configured or os.environ.get(variable)):
        return ""
    chosen_by = setting if option is None else _OPTIONS[setting]
    try:
        check(name)
    except ValueError as error:
        raise pytest.UsageError(f"{chosen_by}: {error}") from None
    patch = pytest.MonkeyPatch()
    patch.setenv(variable, name)
    config.add_cleanup(patch.undo)
    return chosen_by


def pytest_sessionstart(session: pytest.Session) -> None:
    """Switches strict mode on before the collection, which may run kernels."""
    if session.config.stash[_strict]:
        from .launch.recorded import strict_launches

        stack = ExitStack()
        stack.enter_context(strict_launches())
        session.config.add_cleanup(stack.close)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Returns the line on the nki in use, if an option or a conftest.py shows that it is used."""
    is_used = "nki" in sys.modules or config.stash[_strict] or _target in config.stash
    return _tell(config) if is_used else None


def pytest_report_collectionfinish(config: pytest.Config) -> str | None:
    """Returns the line on the nki in use, if the tests have imported it and the line is new."""
    is_new = "nki" in sys.modules and _told not in config.stash
    return _tell(config) if is_new else None


def _tell(config: pytest.Config) -> str:
    """Returns a line that says which nki the tests use."""
    config.stash[_told] = True
    module = sys.modules.get("nki")
    is_simulator = getattr(module, "__simulator__", False)
    if not (is_simulator if module else installed_nki.is_simulated()):
        return f"nki: {getattr(module, '__file__', None) or 'the installed package'}"
    from . import hardware

    try:
        chip, why = hardware.current_and_why()
        release = releases.current()
    except ValueError as error:
        return f"nki: simulator, but {error}"
    strict = ", strict" if config.stash[_strict] else ""
    why = config.stash.get(_target, why)
    return f"nki: simulator of {chip.name}, NKI {release}, modelled{strict} (chip: {why})"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[Any]) -> None:
    """Makes the report of a broken rule end with the kernel's line, except with --full-trace."""
    if call.excinfo is None or not _breaks_rule(call.excinfo):
        return
    for entry in call.excinfo.traceback:
        names = entry.frame.f_globals
        if str(names.get("__name__", "")).startswith("nki_sim."):
            names["__tracebackhide__"] = _breaks_rule


def _breaks_rule(excinfo: pytest.ExceptionInfo[BaseException] | None) -> bool:
    """Returns whether an error is about the kernel, and not one of the simulator itself."""
    errors = sys.modules.get("nki_sim.errors")
    if errors is None or excinfo is None:
        return False
    return isinstance(excinfo.value, errors.NkiValidationError)


@pytest.fixture
def timeline() -> Iterator[Timeline]:
    """Records the modelled times, the memory and the bytes of the kernels that a test runs.

    ``timeline.assert_within(total_ns=70_000, psum_peak_banks=8, hbm_bytes=20e6)`` fails the test if
    a sum over its launches, or the peak of memory in a launch, exceeds a limit.
    """
    from .launch.recorded import record

    with record() as recorded:
        yield recorded
