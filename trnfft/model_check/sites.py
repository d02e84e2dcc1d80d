"""Finds the line of the user's program that a call comes from, and the name that it calls."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import cachetools
import torch

from trnfft.functions import fft as transforms
from trnfft.patching import complex_makers, patch, split_results


def _folder(file: str | None) -> str:
    return os.path.join(os.path.dirname(file or ""), "")


_PACKAGE = sys.modules[__name__.partition(".")[0]]  # trnfft itself, which imports this file
_TRNFFT = _folder(_PACKAGE.__file__)
_CHECK = _folder(__file__)
_RUNNER = os.path.join(_CHECK, "runner.py")
_TORCH = (_folder(torch.__file__), _folder(cachetools.__file__))
_STDLIB = os.path.join(sysconfig.get_paths()["stdlib"], "")
# These frames lie between a function of torch and the function of trnfft that replaces it.
_ON_THE_WAY = {
    patch.patch_torch.__torch_function__.__code__,
    *(
        each.__code__
        for functions in (transforms.OF_TORCH, vars(complex_makers), vars(split_results))
        for each in functions.values()
        if hasattr(each, "__code__")
    ),
}


@dataclass(frozen=True)
class Site:
    """A line of the user's program, or the name of a module of the model where there is none."""

    file: str = ""
    line: int = 0
    module: str = ""

    def __str__(self) -> str:
        return f"{short(self.file)}:{self.line}" if self.file else self.module


@dataclass(frozen=True)
class Origin:
    """The place that a call comes from.

    Attributes:
        site: the line.
        name: of the function or layer that the line calls; "" where it is not known.
        functions: names of this library's functions between the line and the call, inmost first.
    """

    site: Site
    name: str = ""
    functions: tuple[str, ...] = ()


def short(file: str) -> str:
    """Returns the path from the working folder, or the last two parts of a path elsewhere."""
    path = Path(file)
    if path.is_relative_to(Path.cwd()):
        return path.relative_to(Path.cwd()).as_posix()
    return "/".join(path.parts[-2:])


def is_library(file: str) -> bool:
    """Returns whether a file belongs to this library, to torch or to Python itself."""
    if file.startswith((_TRNFFT, *_TORCH, "<frozen ")):
        return True
    return file.startswith(_STDLIB) and "site-packages" not in file


def frames() -> Iterator[FrameType]:
    """Yields the frames around the caller, inmost first, without torch's and this package's."""
    return (each for each in _outwards() if not each.f_code.co_filename.startswith(_TORCH))


def public(name: str) -> str:
    """Returns the name of a function of this library as users write it."""
    return f"trnfft.{name}" if hasattr(_PACKAGE, name) else name


def is_own(file: str) -> bool:
    """Returns whether a file belongs to this library."""
    return file.startswith(_TRNFFT)


def is_internal(frame: FrameType | None) -> bool:
    """Returns whether a frame runs code of this library."""
    return frame is not None and is_own(frame.f_code.co_filename)


def origin(modules: dict[int, str]) -> Origin:
    """Returns the place in the user's program that the caller was called from.

    `modules` are names of the model's modules, by their ids.
    """
    functions: list[str] = []
    name = module = ""
    for frame in _outwards():
        code = frame.f_code
        if not is_library(code.co_filename):
            return Origin(Site(code.co_filename, frame.f_lineno), name, tuple(functions))
        layer = frame.f_locals.get("self") if code.co_name == "forward" else None
        if not isinstance(layer, torch.nn.Module):
            layer = None
        elif not module and id(layer) in modules:
            module = modules[id(layer)]
        if is_internal(frame):
            functions.append(code.co_name)
            name = public(code.co_name) if layer is None else type(layer).__name__
    return Origin(Site(module=module or "the model"), name, tuple(functions))


def _outwards() -> Iterator[FrameType]:
    """Yields the frames around the caller up to the one that runs the model, inmost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != _RUNNER:
        file = frame.f_code.co_filename
        if not file.startswith(_CHECK) and frame.f_code not in _ON_THE_WAY:
            yield frame
        frame = frame.f_back
