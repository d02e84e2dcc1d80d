"""Runs a model once, as a NeuronCore would, and tells what happened.

The frame that calls the model is in this file: `sites` looks for the user's lines inside of it.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from nki_kernels import hardware
from trnfft import config, patch
from trnfft.backends import choice
from trnfft.model_check import sites
from trnfft.model_check.findings import BACKWARD, Report
from trnfft.model_check.sites import Origin, Site
from trnfft.model_check.stand_in import in_place_of
from trnfft.model_check.watch import Watch
from trnfft.planner.problem import checked_cores

DEVICES = ("cpu", "meta")


class NotAllowed(ValueError):
    """An argument of `check_model` is not allowed."""


_lock = threading.Lock()  # of what stands in for the backends of the whole process


def check_model(
    model: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    backward: bool = False,
    device: str = "cpu",
    target: str | None = None,
    cores: int | None = None,
) -> Report:
    """Runs a model once and tells what of it runs on Trainium, and as how many launches.

    The run is on the CPU, or without data on the device "meta", with `trnfft.patch_torch` and with
    ComplexTensors wherever a device without complex dtypes has them. No kernel runs: the planner
    is asked as the backend "nki" asks it, and torch.fft computes the numbers. A module is moved to
    the device for that, and its complex parameters become ComplexTensors.

    Args:
        model: a module or a function.
        args, kwargs: its arguments.
        backward: whether to run a backward pass as well, from ones as the gradients of all results.
        device: "cpu" or "meta".
        target: the chip that launches are planned for. Default: `hardware.current()`.
        cores: the degree of LNC. Default: `hardware.degree()`.

    Raises:
        NotAllowed: an argument is not allowed, or nothing has a derivative.
        Exception: what the model itself raises.
    """
    if device not in DEVICES:
        raise NotAllowed(
            f"argument 'device' is {device!r}, allowed are {' and '.join(DEVICES)}, which stand "
            f"for the device"
        )
    modules = _names_of(model)
    with _lock, _launches_for(target, cores) as (chip, degree):
        watch = Watch(chip, degree, modules, backward)
        with _unpatched(), _standing_in(watch):
            args, kwargs = _on_device(model, tuple(args), dict(kwargs or {}), device)
            if backward:
                _ask_for_gradients(model, (args, kwargs))
            ended = _run(watch, model, args, kwargs)
    return Report(
        target=chip.name,
        cores=degree,
        device=device,
        launches=_counted(watch.launches),
        refused=_counted(watch.refused),
        fallbacks=_counted(watch.fallbacks),
        operators=watch.operators,
        complex_operations=watch.complex_operations,
        has_backward=backward,
        ended=ended,
    )


def _run(watch: Watch, model: Callable[..., Any], args: Any, kwargs: Any) -> str:
    """Both passes; why they ended early, or ""."""
    try:
        with watch.running(), _uncompiled():
            with nullcontext() if watch.has_backward else torch.no_grad():
                result = model(*args, **kwargs)
            if watch.has_backward:
                results = [x for x in tree_leaves(result) if _has_derivative(x)]
                if not results:
                    raise NotAllowed(
                        "no result of the model has a derivative: leave out the backward pass, or "
                        "return a tensor that depends on a parameter or on an input"
                    )
                watch.tag(results)
                watch.phase = BACKWARD
                torch.autograd.backward(results, [torch.ones_like(x) for x in results])
    except Exception as error:
        if not _is_refusal(error, watch):
            raise
        return "the model needs the result of what was refused last, and nothing after was seen"
    return ""


def _is_refusal(error: Exception, watch: Watch) -> bool:
    """Whether this library refuses what the model asks for; if so, that is noted."""
    if error is watch.hopeless:
        return True
    stack = traceback.extract_tb(error.__traceback__)
    users = [index for index, each in enumerate(stack) if not sites.is_library(each.filename)]
    is_own = isinstance(error, NotImplementedError) and sites.is_own(stack[-1].filename)
    if not is_own:
        return False
    origin = Origin(Site(module="the model"), f"the {watch.phase} pass")
    if users:
        line, called = stack[users[-1]], stack[users[-1] + 1]
        origin = Origin(Site(line.filename, line.lineno or 0), sites.public(called.name))
    watch.note(watch.refused, origin, str(error))
    return True


def _names_of(model: Any) -> dict[int, str]:
    """How a reader finds each module: its name in the model, and its class."""
    if not isinstance(model, torch.nn.Module):
        return {}
    found = {}
    for name, module in model.named_modules():
        kind = type(module).__name__
        found[id(module)] = f"{name} ({kind})" if name else kind
    return found


def _on_device(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: str
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments on the device, as `patch_torch` brings them there; the model moves itself."""
    with patch.patch_torch():
        if isinstance(model, torch.nn.Module):
            model.to(device)
        moved = tree_map_only(torch.Tensor, lambda x: x.to(device), (args, kwargs))
    return moved  # type: ignore[return-value]


def _ask_for_gradients(model: Any, inputs: Any) -> None:
    """Gradients of the inputs, for what has no parameters to train."""
    parameters = model.parameters() if isinstance(model, torch.nn.Module) else ()
    if any(parameter.requires_grad for parameter in parameters):
        return
    leaves = [x for x in tree_leaves(inputs) if isinstance(x, torch.Tensor)]
    if not any(x.requires_grad for x in leaves):
        for x in leaves:
            if x.is_floating_point() or x.is_complex():
                x.requires_grad_()


def _has_derivative(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.requires_grad


@contextmanager
def _unpatched() -> Iterator[None]:
    """A block without what `patch_torch().start()` does to torch itself, which hides calls."""
    count = patch._started
    for _ in range(count):
        patch.patch_torch().stop()
    try:
        yield
    finally:
        for _ in range(count):
            patch.patch_torch().start()


@contextmanager
def _standing_in(watch: Watch) -> Iterator[None]:
    """A block in which every device stands for a NeuronCore."""
    choice.STAND_IN = lambda backend: in_place_of(backend, watch)
    try:
        with config.backend("nki-sim"):  # it is replaced; "nki" needs the real package
            yield
    finally:
        choice.STAND_IN = None


@contextmanager
def _launches_for(
    target: str | None, cores: int | None
) -> Iterator[tuple[hardware.NeuronCore, int]]:
    """A block in which launches are planned for a chip and a degree of LNC."""
    try:
        chip = hardware.current() if target is None else hardware.chip(target)
        named = None if target is None else chip
        degree = hardware.degree(named) if cores is None else checked_cores(cores, chip)
    except (ValueError, TypeError) as error:
        raise NotAllowed(str(error)) from None
    with hardware.select(chip) if target is not None else nullcontext():
        before = os.environ.get(hardware.LNC_VARIABLE)
        os.environ[hardware.LNC_VARIABLE] = str(degree)
        try:
            yield chip, degree
        finally:
            os.environ.pop(hardware.LNC_VARIABLE)
            if before is not None:
                os.environ[hardware.LNC_VARIABLE] = before


@contextmanager
def _uncompiled() -> Iterator[None]:
    """A block in which compiled functions run as they are written, which modes can see."""
    if "torch._dynamo" not in sys.modules:  # it takes seconds to import
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


def _counted(found: dict[Any, int]) -> tuple[Any, ...]:
    return tuple(replace(one, count=count) for one, count in found.items())
