"""A plugin of pytest that puts trnfft into torch, SciPy or NumPy for a suite of `suites.toml`."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.special
import torch

from others.differences import Difference, apply
from others.suite import MODES, read, suites

_OF_NUMPY = (
    *("fft", "fft2", "fftn", "ifft", "ifft2", "ifftn", "hfft", "ihfft"),
    *("rfft", "rfft2", "rfftn", "irfft", "irfft2", "irfftn"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--others-suite", required=True, help="a table of suites.toml")
    parser.addoption("--others-mode", choices=MODES, default="patched")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Puts trnfft in place before the first file of the suite is imported."""
    chosen = early_config.known_args_namespace
    _seed()
    # kymatio 0.3.0 imports this function, which SciPy 1.17 no longer has.
    if not hasattr(scipy.special, "sph_harm"):
        scipy.special.sph_harm = lambda m, n, azimuth, polar: scipy.special.sph_harm_y(
            n, m, polar, azimuth
        )
    if chosen.others_mode != "unpatched":
        _start(suites()[chosen.others_suite].through, chosen.others_mode == "split")


def _start(through: str, split: bool) -> None:
    import trnfft
    from trnfft.backends import choice
    from trnfft.patching import scipy_backend

    if through == "patch_torch":
        if split:
            # No setting says this, because torch does store complex numbers on the CPU.
            setattr(choice, "COMPLEX_DEVICES", ("meta",))  # noqa: B010
        trnfft.patch_torch().start()
        return
    scipy.fft.set_global_backend(scipy_backend)
    if through == "numpy_fft":
        for name in _OF_NUMPY:
            setattr(np.fft, name, getattr(scipy.fft, name))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Applies the known differences before pytest selects tests by -k or -m."""
    tables: list[dict[str, Any]] = read("known_differences.toml")["difference"]
    differences = [Difference(**table) for table in tables]
    suite, mode = config.getoption("others_suite"), config.getoption("others_mode")
    left_out = apply([one for one in differences if one.suite == suite], mode, items)
    config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Gives every test the same random numbers in every run."""
    _seed()


def _seed() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
