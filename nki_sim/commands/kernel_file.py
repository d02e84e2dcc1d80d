"""Imports a user's file with the simulator as ``nki``, and finds the kernels in it."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from nki_sim.base.installed_nki import SIMULATOR_VARIABLE
from nki_sim.import_nki.nki_finder import install
from nki_sim.launch.kernel import Kernel

from .errors import CommandError


class NotImported(Exception):
    """Raised if the import of a file raises an error, which is the cause of this error."""


def answer_imports() -> None:
    """Makes ``import nki`` load the simulator, even beside a real package.

    The variables also hold in processes that a script starts, where nki_simulator.pth reads AWS's
    switch.
    """
    os.environ[SIMULATOR_VARIABLE] = os.environ["NKI_SIMULATOR"] = "1"
    install()


def import_file(path: str) -> ModuleType:
    """Imports a file as Python or pytest would, and returns the module.

    Raises:
        CommandError: there is no such Python file.
        NotImported: the file raises an error, or ends the program.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise CommandError(f"{path}: there is no such file")
    if file.suffix != ".py":
        raise CommandError(f"{path} is not a Python file, allowed are files *.py")
    try:
        return _imported(file)
    except SystemExit as error:
        ends = ImportError(
            "the file ends the program when it is imported: put the code that does so under "
            'if __name__ == "__main__"'
        )
        raise NotImported(path) from ends.with_traceback(error.__traceback__)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the error of pytest.importorskip is not an Exception
        raise NotImported(path) from error


class Absent(ModuleType):
    """What stands for a module that cannot be imported, and for everything in it."""

    __all__: list[str] = []
    __path__: list[str] = []

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Returns the function that is decorated, or an object of which nothing is known."""
        is_decorator = len(args) == 1 and not kwargs and inspect.isfunction(args[0])
        return args[0] if is_decorator else self

    def __mro_entries__(self, bases: object) -> tuple[()]:
        return ()


def import_alone(path: str) -> ModuleType:
    """Imports a file without what its imports cannot load, whose names stand for nothing known.

    Raises:
        Exception: a statement of the file needs what is missing.
    """
    file = Path(path).resolve()

    def load(name: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return builtins.__import__(name, *args, **kwargs)
        except Exception:  # whatever a sibling raises
            return Absent(name)

    name = f"{file.stem}_alone"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    vars(module)["__builtins__"] = vars(builtins) | {"__import__": load}
    try:
        exec(compile(file.read_bytes(), file, "exec"), vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _imported(file: Path) -> ModuleType:
    """Imports a file by its name in its package, or under a new name if the name is taken."""
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
def same_folder() -> Iterator[None]:
    """Returns at the end to the current folder, which the user's code may change."""
    folder = Path.cwd()
    try:
        yield
    finally:
        os.chdir(folder)


@contextmanager
def forgotten_siblings() -> Iterator[None]:
    """Forgets modules from the files' folders, as another folder may have the same names."""
    known, path = set(sys.modules), list(sys.path)
    try:
        with same_folder():
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
    """Returns the functions of a module under nki.jit by name, in the order of the source."""
    found = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, Kernel) and value.func.__module__ == module.__name__
    }
    return dict(sorted(found.items(), key=lambda item: item[1].func.__code__.co_firstlineno))


def named_kernel(place: str) -> Kernel:
    """Returns the kernel of "file.py::name", or of "file.py" if the file has one kernel only.

    Raises:
        CommandError: there is no such kernel, or there are several.
        NotImported: the file raises an error.
    """
    path, _, name = place.partition("::")
    module = import_file(path)
    kernels = kernels_of(module)
    known = ", ".join(kernels) or "none, as a kernel is a function of the module under @nki.jit"
    if not name:
        if len(kernels) != 1:
            raise CommandError(
                f"{path} has {len(kernels)} kernels: name one as {path}::name. Its kernels are "
                f"{known}"
            )
        return next(iter(kernels.values()))
    found = vars(module).get(name)
    if inspect.isfunction(found):
        return Kernel(found)
    if not isinstance(found, Kernel):
        raise CommandError(f"{path} has no kernel {name!r}. Its kernels are {known}")
    return found
