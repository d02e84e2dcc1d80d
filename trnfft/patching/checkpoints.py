"""Makes torch's checkpoints compute again with the settings of their forward pass.

A checkpoint computes a function a second time, in the backward pass, and checks that the numbers
which it saves are like those of the first time. With another backend or precision, or on the other
side of a block of `trnfft.patch_torch`, they would not be. torch keeps its own settings for the
second time, such as the default device and autocast.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from trnfft.base import config
from trnfft.base.torch_private import wrap_checkpoint
from trnfft.patching import patch

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def keep_settings() -> None:
    """Replaces the function of torch to which each checkpoint hands over what it computes."""
    wrap_checkpoint(_with_settings)


def _with_settings(of_torch: Callable[..., Result]) -> Callable[..., Result]:
    @functools.wraps(of_torch)
    def with_settings(fn: Callable[..., object], *args: object, **kwargs: object) -> Result:
        return of_torch(_again(fn), *args, **kwargs)

    return with_settings


def _again(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Returns a function that calls another one with the settings that hold now."""
    settings = config.settings_of_now(), patch.block_of_now()

    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with contextlib.ExitStack() as entered:
            for enter in settings:
                entered.enter_context(enter())
            return function(*args, **kwargs)

    return call
