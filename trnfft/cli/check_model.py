"""`trnfft check-model`: operations of a PyTorch model that fail on Trainium, and launches."""

from __future__ import annotations

import importlib
import importlib.util
import json
import linecache
import os
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from nki_sim import hardware
from nki_sim.measured_times import about
from trnfft.cli.chip_options import Lnc, Target
from trnfft.cli.printable import printable

if TYPE_CHECKING:
    import torch

    from trnfft.model_check import Finding, Report

    Inputs = Sequence[object] | Mapping[str, object]

WIDTH = 80  # columns of the output, on any terminal
REAL_DTYPES = ("float32", "float64", "float16", "bfloat16")
DTYPES = (*REAL_DTYPES, "complex64", "complex128", "int64", "int32", "uint8", "bool")


def check_model(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:FUNCTION",
            help="File or module, and a function in it that returns (model, inputs), or a model: "
            "my_model.py:build, package.module:build.",
        ),
    ],
    shapes: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="SHAPE[:DTYPE]",
            help="Shape of an input, 8x1000 or 8x3x64x64:float64, where the function returns the "
            "model alone. Once for each input.",
            show_default=False,
        ),
    ] = None,
    backward: Annotated[
        bool, typer.Option("--backward", help="Run the backward pass, too.")
    ] = False,
    device: Annotated[
        str, typer.Option(help="cpu; or meta, without data, for models that are too large.")
    ] = "cpu",
    target: Target = None,
    lnc: Lnc = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Tells which operations of a PyTorch model fail on Trainium, and how many launches it takes.

    Runs the model once on this computer, which needs no Trainium. The exit status is 0 where
    everything runs, 1 where an operation is not supported, and 2 where the model cannot be run.
    """
    try:
        given = [parse_input(text) for text in shapes or []]
        with redirect_stdout(sys.stderr):  # what the model prints
            built, inputs = build(loaded(model), model, given, device)
            report = run(built, inputs, backward, device, target, lnc)
    except BadModel as error:
        for line in str(error).splitlines():
            typer.echo(printable(line), err=True)
        raise typer.Exit(2) from None
    if as_json:
        typer.echo(json.dumps({"model": model, **report.to_dict()}, indent=1))
    else:
        show(report, model)
    if not report.is_supported:
        raise typer.Exit(1)


class BadModel(Exception):
    """The model cannot be run. The message gives the reason, in one or several lines."""


# Where the model comes from


def loaded(spec: str) -> Callable[..., object]:
    """Returns the function, or the model, that MODULE:FUNCTION names."""
    source, colon, name = spec.rpartition(":")
    if not colon or not source or not name.isidentifier():
        raise BadModel(
            f"argument 'MODULE:FUNCTION' is {spec!r}, allowed are a file or a module, a colon and "
            f"the name of a function in it: my_model.py:build"
        )
    is_file = source.endswith(".py") or os.sep in source
    module = module_of_file(Path(source)) if is_file else module_by_name(source)
    try:
        function: object = getattr(module, name)
    except AttributeError:
        names = [key for key, value in vars(module).items() if is_builder(module, key, value)]
        has = f"its functions are {', '.join(names)}" if names else "it has no function"
        raise BadModel(f"there is no {name!r} in {source}; {has}") from None
    if not callable(function):
        raise BadModel(
            f"{name!r} in {source} is of type {type(function).__name__}, allowed are a function "
            f"that returns (model, inputs), and a model"
        )
    return function


def is_builder(module: ModuleType, name: str, value: object) -> bool:
    """Returns whether a name of a module is a public function or class of its own."""
    is_own = getattr(value, "__module__", None) == module.__name__
    return callable(value) and is_own and not name.startswith("_")


def module_of_file(path: Path) -> ModuleType:
    """Imports a file, with its folder first on the path, as when Python runs the file."""
    if not path.is_file():
        raise BadModel(f"there is no file {path}; name a Python file, my_model.py:build")
    path = path.resolve()
    name = f"{path.stem}_to_check" if path.stem in sys.modules else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadModel(f"{path} is no Python file; name one, my_model.py:build")
    sys.path.insert(0, str(path.parent))
    module = importlib.util.module_from_spec(spec)
    is_in_package = (path.parent / "__init__.py").exists()
    advice = " by itself; name it as a module, package.module:build" * is_in_package
    with as_bad_model(f"{path.name} cannot be imported{advice}"):
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return module


def module_by_name(name: str) -> ModuleType:
    """Imports a module from the working folder or from an installed package."""
    sys.path.insert(0, str(Path.cwd()))
    with as_bad_model(f"the module {name} cannot be imported"):
        return importlib.import_module(name)


@contextmanager
def as_bad_model(what: str) -> Iterator[None]:
    """Raises errors of the block as a BadModel with the line of the user's program."""
    try:
        yield
    except BadModel:
        raise
    except (Exception, SystemExit) as error:
        raise BadModel("\n".join([f"{what}:", *lines_of(error)])) from error


def lines_of(error: BaseException) -> list[str]:
    """Returns the inmost line of the user's program in a traceback, and the error, as text."""
    from trnfft.model_check import sites

    stack = [
        each
        for each in traceback.extract_tb(error.__traceback__)
        if not sites.is_library(each.filename)
    ]
    where = [f"  {sites.short(each.filename)}:{each.lineno}: {each.line}" for each in stack[-1:]]
    if isinstance(error, SyntaxError) and error.filename:
        text = (error.text or "").strip()
        where = [f"  {sites.short(error.filename)}:{error.lineno}: {text}"]
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return [*where, *(f"  {line}" for line in text.splitlines())]


# What it is run with


def parse_input(text: str) -> tuple[tuple[int, ...], str]:
    """Returns the shape and the dtype of 8x1000 or 8x1000:float64."""
    shape, _, dtype = text.partition(":")
    sizes = shape.split("x")
    if not all(size.isascii() and size.isdigit() and int(size) for size in sizes):
        raise BadModel(
            f"argument '--input' is {text!r}, allowed are sizes of 1 or more with an x between "
            f"them, as in 8x1000, and after a colon a dtype, as in 8x1000:float64"
        )
    if dtype and dtype not in DTYPES:
        raise BadModel(f"argument '--input' is {text!r}, allowed dtypes are {', '.join(DTYPES)}")
    return tuple(map(int, sizes)), dtype or "float32"


def build(
    function: Callable[..., object],
    spec: str,
    given: list[tuple[tuple[int, ...], str]],
    device: str,
) -> tuple[Callable[..., object], Inputs]:
    """Returns the model and its inputs: a tuple, or a dictionary of arguments by name."""
    import torch

    name = spec.rpartition(":")[2]
    made: object = function
    if not isinstance(function, torch.nn.Module):
        where = torch.device("meta") if device == "meta" else nullcontext()
        with as_bad_model(f"{name}() fails{on_meta(device)}"), where:
            made = function()
    model, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not callable(model):
        raise BadModel(
            f"{name}() returns something of type {type(made).__name__}, allowed are (model, "
            f"inputs), and a model where --input gives the shapes; a model is a torch.nn.Module or "
            f"a function"
        )
    if given and inputs is not None:
        raise BadModel(f"{name}() returns inputs, and --input gives some; leave out one of both")
    if inputs is None:
        if not given:
            raise BadModel(
                f"{name}() returns a model without inputs; return (model, inputs), or give the "
                f"shape of each input: --input 8x1000"
            )
        with as_bad_model("argument '--input' gives a tensor that this computer cannot make"):
            inputs = tuple(tensor_of(shape, dtype, device) for shape, dtype in given)
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if not isinstance(inputs, (tuple, list, Mapping)):
        raise BadModel(
            f"{name}() returns inputs of type {type(inputs).__name__}, allowed are a tensor, a "
            f"tuple of arguments, or a dictionary of arguments by name"
        )
    return model, inputs


def on_meta(device: str) -> str:
    """Returns the words that a message adds for the device meta."""
    return " on device meta, where no tensor has data (try --device cpu)" * (device == "meta")


def tensor_of(shape: tuple[int, ...], dtype: str, device: str) -> torch.Tensor:
    """Returns random numbers, the same in each run; zeros for integers, which may be indices."""
    import torch

    kind = getattr(torch, dtype)
    if not (kind.is_floating_point or kind.is_complex):
        return torch.zeros(shape, dtype=kind, device=device)
    if device == "meta":
        return torch.empty(shape, dtype=kind, device=device)
    generator = torch.Generator().manual_seed(0)
    return torch.randn(shape, dtype=kind, generator=generator)


def run(
    model: Callable[..., object],
    inputs: Inputs,
    backward: bool,
    device: str,
    target: str | None,
    lnc: int | None,
) -> Report:
    """Runs the model and returns the report."""
    from trnfft import model_check

    args, kwargs = ((), inputs) if isinstance(inputs, Mapping) else (inputs, {})
    with as_bad_model(f"the model fails{on_meta(device)}"):
        try:
            return model_check.check_model(
                model, args, kwargs, backward=backward, device=device, target=target, cores=lnc
            )
        except model_check.NotAllowed as error:
            raise BadModel(str(error)) from None


# What is printed


def show(report: Report, spec: str) -> None:
    """Prints the report."""
    passes = "forward and backward" if report.has_backward else "forward"
    device = "" if report.device == "cpu" else f" on device {report.device}"
    say(f"{spec}, {passes}{device}, planned for {report.target}, LNC={report.cores}")
    if report.is_untouched:
        typer.echo()
        say(
            "The model calls no transform and computes with no complex numbers, so trnfft changes "
            "nothing in it. This command looks at nothing else."
        )
        return
    for phase in ("forward", "backward"):
        if report.launch_count(phase):
            typer.echo()
            show_launches(report, phase)
    typer.echo()
    for line in totals(report):
        say(line)
    show_findings("Not supported", report.refused)
    show_findings("Falls back", report.fallbacks)
    typer.echo()
    if report.ended:
        say(f"The run ended early: {report.ended}.")
    if report.is_supported:
        say("Every transform and every operation on complex numbers of this run is supported.")
    else:
        count = len(report.refused)
        say(f"{count} operation{'s are' if count > 1 else ' is'} not supported.")


def say(text: str, indent: str = "") -> None:
    """Prints a paragraph."""
    lines = textwrap.wrap(
        printable(text),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    typer.echo("\n".join(lines))


def show_launches(report: Report, phase: str) -> None:
    """Prints the launches of a pass, two lines each, and their sum."""
    title = "Forward pass" if phase == "forward" else "Backward pass: derivatives"
    show_row(title, "launches", "modelled")
    typer.echo("-" * WIDTH)
    for launch in report.launches:
        if launch.phase == phase:
            time = "" if launch.predicted_ns is None else in_us(launch.count * launch.predicted_ns)
            say(f"{launch.operation}, {launch.site}")
            show_row(f"  {launch.work}, {launch.algorithm}", str(launch.count), time)
    show_row("total", str(report.launch_count(phase)), in_us(report.predicted_ns(phase)))


def show_row(text: str, count: str, time: str) -> None:
    """Prints a text and two columns of numbers, which follow the text's last line."""
    lines = textwrap.wrap(printable(text), WIDTH - 22, subsequent_indent="    ")
    *first, last = lines
    for line in first:
        typer.echo(line)
    typer.echo(f"{last:<{WIDTH - 22}}{count:>10}{time:>12}")


def in_us(ns: float) -> str:
    """Returns a modelled time in microseconds, as text."""
    return f"{ns / 1e3:.4g} us"


def totals(report: Report) -> list[str]:
    """Returns sentences about the launches of all passes and about the other operators."""
    lines = []
    count = report.launch_count()
    if count:
        lines.append(
            f"Kernels: {in_us(report.predicted_ns())}, modelled. An eager call, "
            f"{report.launched_in_words()}, takes about {about(report.with_launches_ns())}."
        )
        lines.append(hardware.chip(report.target).launches.note(report.target))
    others = [f"{n} in the {phase} pass" for phase, n in report.operators.items() if n]
    if others:
        lines.append(
            f"Other operators of torch: {', '.join(others)}. Their launches count above, what they "
            f"compute is not modelled."
        )
    copied = sum(report.copied_bytes.values())
    if copied:
        lines.append(
            f"Copies into another layout are among them; they read and write {copied / 1e6:.3g} MB."
        )
    return lines


def show_findings(title: str, findings: Sequence[Finding]) -> None:
    """Prints findings with the lines that they come from."""
    typer.echo()
    typer.echo(f"{title}: {len(findings) or 'nothing'}")
    for finding in findings:
        times = f", {finding.count} times" if finding.count > 1 else ""
        phase = ", backward pass" if finding.phase == "backward" else ""
        line = linecache.getline(finding.site.file, finding.site.line).strip()
        where = printable(f"  {finding.site}{times}{phase}" + (f": {line}" if line else ""))
        typer.echo(where if len(where) <= WIDTH else f"{where[: WIDTH - 3]}...")
        say(f"{finding.operation}: {finding.message}", "    ")
