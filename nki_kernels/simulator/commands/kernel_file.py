"""A user's file of kernels: imported with the simulator as ``nki``, and what is in it."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from nki_kernels.nki_finder import SIMULATOR_VARIABLE
from nki_kernels.simulator.install import install
from nki_kernels.simulator.kernel import Kernel

from .errors import CommandError


class NotImported(Exception):
    """A file raised an error while it was imported, which is the cause of this one."""


def answer_imports() -> None:
    """``import nki`` is answered by the simulator, beside a real package, too: it was asked for.

    In processes that a script starts, too: AWS's switch has them answer it by nki_simulator.pth.
    """
    os.environ[SIMULATOR_VARIABLE] = os.environ["NKI_SIMULATOR"] = "1"
    install()


def import_file(path: str) -> ModuleType:
    """The module of a file, as Python or pytest would import it.

    Raises:
        CommandError: there is no such file of Python.
        NotImported: it raises an error, or ends the program.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise CommandError(f"{path}: no such file")
    if file.suffix != ".py":
        raise CommandError(f"{path}: allowed are files of Python, *.py")
    try:
        return _imported(file)
    except SystemExit as error:
        ends = ImportError(
            'the file ends the program when it is imported; guard that by if __name__ == "__main__"'
        )
        raise NotImported(path) from ends.with_traceback(error.__traceback__)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # what pytest.importorskip raises is no Exception
        raise NotImported(path) from error


def _imported(file: Path) -> ModuleType:
    """By its name from the folder above its packages; under a new name where that is taken."""
    folder, names = file.parent, [file.stem]
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        names.insert(0, folder.name)
        folder = folder.parent
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    name = ".".join(names[:-1] if names[-1] == "__init__" and len(names) > 1 else names)
    if len(names) > 1:
        return importlib.import_module(name)
    while name in sys.modules or name in sys.builtin_module_names:
        name += "_"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def forgotten_siblings() -> Iterator[None]:
    """Forget what is imported from the files' folders: another folder may have the same names."""
    known, path = set(sys.modules), list(sys.path)
    try:
        yield
    finally:
        folders = {Path(folder) for folder in sys.path if folder not in path}
        for name in set(sys.modules) - known:
            file = Path(getattr(sys.modules[name], "__file__", None) or os.devnull)
            file = file.parent if file.name == "__init__.py" else file
            if folders.intersection(list(file.parents)[name.count(".") :][:1]):
                del sys.modules[name]
        sys.path[:] = path


def kernels_of(module: ModuleType) -> dict[str, Kernel]:
    """The functions of a module that nki.jit decorates, by their names there, in their order."""
    found = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, Kernel) and value.func.__module__ == module.__name__
    }
    return dict(sorted(found.items(), key=lambda item: item[1].func.__code__.co_firstlineno))


def named_kernel(place: str) -> Kernel:
    """The kernel that "file.py::name" says; "file.py" alone does where it has one kernel.

    Raises:
        CommandError: there is no such kernel, or several.
        NotImported: the file raises an error.
    """
    path, _, name = place.partition("::")
    module = import_file(path)
    kernels = kernels_of(module)
    known = ", ".join(kernels) or "none: a kernel is a module's function under @nki.jit"
    if not name:
        if len(kernels) != 1:
            raise CommandError(
                f"{path} has {len(kernels)} kernels, say which as {path}::name: {known}"
            )
        return next(iter(kernels.values()))
    found = vars(module).get(name)
    if inspect.isfunction(found):
        return Kernel(found)
    if not isinstance(found, Kernel):
        raise CommandError(f"{path} has no kernel {name!r}; its kernels: {known}")
    return found
