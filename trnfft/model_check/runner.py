"""Runs a model once, as a NeuronCore would run it, and reports the run.

The frame that calls the model is in this file: `sites` looks for the user's lines inside of it.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, cast

import torch

from nki_sim import hardware
from trnfft.base import config, devices
from trnfft.base.torch_private import tree_leaves, tree_map_only
from trnfft.complex import on_the_host
from trnfft.model_check import sites
from trnfft.model_check.findings import BACKWARD, Finding, Launches, Report
from trnfft.model_check.replaced_backends import in_place_of
from trnfft.model_check.sites import Origin, Site
from trnfft.model_check.watch import Watch
from trnfft.patching import patch
from trnfft.planner.problem import checked_launch

DEVICES = ("cpu", "meta")

Model = Callable[..., object]
Inputs = tuple[tuple[object, ...], dict[str, object]]
Counted = TypeVar("Counted", Finding, Launches)


class NotAllowed(ValueError):
    """An argument of `check_model` is not allowed."""


_lock = threading.Lock()  # the stand-in for backends holds for the whole process


def check_model(
    model: Model,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    backward: bool = False,
    device: str = "cpu",
    target: str | None = None,
    cores: int | None = None,
) -> Report:
    """Runs a model once and returns its unsupported operations, its fallbacks and its launches.

    The run is on the CPU, or without data on the device "meta". It uses `trnfft.patch_torch`, and
    ComplexTensors wherever a device without complex dtypes has them. No kernel runs: the planner
    is asked as the backend "nki" asks it, and torch.fft computes the numbers. A module is moved to
    the device, and its complex parameters become ComplexTensors. As in any run, the model may write
    into its buffers, and the backward pass adds to the gradients of its parameters.

    Args:
        model: a module or a function.
        args, kwargs: its arguments.
        backward: whether to run a backward pass as well, from ones as the gradients of all results.
        device: "cpu" or "meta".
        target: the chip that launches are planned for. Default: `hardware.current()`.
        cores: the degree of LNC. Default: `hardware.degree()`.

    Raises:
        NotAllowed: an argument is not allowed, or no result of the model has a derivative.
        Exception: the model raises an error of its own.
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
            inputs = _on_device(model, (tuple(args), dict(kwargs or {})), device)
            if backward:
                inputs = _with_gradients(model, inputs)
            ended = _run(watch, model, inputs)
    return Report(
        target=chip.name,
        cores=degree,
        device=device,
        launches=_counted(watch.launches),
        refused=_counted(watch.refused),
        fallbacks=_counted(watch.fallbacks),
        operators=watch.operators,
        copied_bytes=watch.copied_bytes,
        complex_operations=watch.complex_operations,
        has_backward=backward,
        ended=ended,
    )


def _run(watch: Watch, model: Model, inputs: Inputs) -> str:
    """Runs both passes; returns the reason why they ended early, or ""."""
    args, kwargs = inputs
    try:
        with watch.running(), _uncompiled():
            with nullcontext() if watch.has_backward else torch.no_grad():
                result = model(*args, **kwargs)
            if inspect.isgenerator(result) or inspect.isawaitable(result):
                raise NotAllowed(
                    f"the model returns an object of type {type(result).__name__}, whose code has "
                    f"not run yet: return a function that runs it and returns tensors"
                )
            if watch.has_backward:
                tensors = [x for x in _leaves(result) if isinstance(x, torch.Tensor)]
                results = [x for x in tensors if x.requires_grad]
                if not results:
                    raise NotAllowed(
                        "no result of the model has a derivative: leave out the backward pass, or "
                        "return a tensor that depends on a parameter or on an input"
                    )
                watch.tag(results)
                watch.phase = BACKWARD
                torch.autograd.backward(results, [torch.ones_like(x) for x in results])
    except NotAllowed:
        raise
    except Exception as error:
        if _is_refusal(error, watch):
            return "the model cannot go on without the last result that was refused"
        if not watch.refused:
            raise
        # On the device, the first operation that is refused would have ended the run before.
        return f"the model raises {error!r}, after operations that are not supported"
    return ""


def _is_refusal(error: Exception, watch: Watch) -> bool:
    """Returns whether this library has refused an operation of the model, and notes it."""
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


def _names_of(model: Model) -> dict[int, str]:
    """Returns the name of each module in the model, with its class, by the module's id."""
    if not isinstance(model, torch.nn.Module):
        return {}
    names = {}
    for name, module in model.named_modules():
        kind = type(module).__name__
        names[id(module)] = f"{name} ({kind})" if name else kind
    return names


def _on_device(model: Model, inputs: Inputs, device: str) -> Inputs:
    """Moves the model and the inputs to the device, as `patch_torch` moves them there."""
    with patch.patch_torch():
        if isinstance(model, torch.nn.Module):
            model.to(device)
        return cast("Inputs", tree_map_only(torch.Tensor, lambda x: x.to(device), inputs))


def _with_gradients(model: Model, inputs: Inputs) -> Inputs:
    """Returns the inputs; where the model has no parameters to train, copies with gradients."""
    parameters = model.parameters() if isinstance(model, torch.nn.Module) else ()
    leaves = [x for x in tree_leaves(inputs) if isinstance(x, torch.Tensor)]
    if any(x.requires_grad for x in (*parameters, *leaves)):
        return inputs

    def copied(x: torch.Tensor) -> torch.Tensor:
        has_gradients = x.is_floating_point() or x.is_complex()
        return x.clone().requires_grad_() if has_gradients else x

    return cast("Inputs", tree_map_only(torch.Tensor, copied, inputs))


def _leaves(result: object) -> Iterator[object]:
    """Yields the values of a result, also those of dataclasses, which torch takes for values."""
    for x in tree_leaves(result):
        if is_dataclass(x) and not isinstance(x, type):
            yield from _leaves([getattr(x, field.name) for field in fields(x)])
        else:
            yield x


@contextmanager
def _unpatched() -> Iterator[None]:
    """Undoes `patch_torch().start()` in a block, as its functions hide calls from the modes.

    Inside the block, `start` and `stop` only count their calls.
    """
    count = patch._started
    _start(-count)
    places, patch._places = patch._places, tuple  # type: ignore[assignment]
    _start(count)
    try:
        yield
    finally:
        _start(-patch._started)
        patch._places = places
        _start(count)


def _start(count: int) -> None:
    for _ in range(abs(count)):
        patch.patch_torch().start() if count > 0 else patch.patch_torch().stop()


@contextmanager
def _standing_in(watch: Watch) -> Iterator[None]:
    """Lets every device stand for a NeuronCore in a block.

    There the backends "auto" and "nki", which the model may choose, are the kernels. So is the
    default of other threads.
    """
    checked, default = config._checked_backend, config.FROM_ENVIRONMENT

    def checked_here(name: str, source: str) -> str:
        return "nki-sim" if name in ("auto", "nki") else checked(name, source)

    devices.REPLACEMENT = lambda backend: in_place_of(backend, watch)
    on_the_host.LISTENER = watch.on_the_host
    config._checked_backend, config.FROM_ENVIRONMENT = checked_here, "nki-sim"
    try:
        # "nki-sim" is replaced; "nki" would need the real package.
        with config.backend("nki-sim"), config.precision(config.get_precision()):
            yield
    finally:
        devices.REPLACEMENT = None
        on_the_host.LISTENER = None
        config._checked_backend, config.FROM_ENVIRONMENT = checked, default


@contextmanager
def _launches_for(
    target: str | None, cores: int | None
) -> Iterator[tuple[hardware.NeuronCore, int]]:
    """Plans launches for a chip and a degree of LNC in a block, and yields both."""
    try:
        chip, degree = checked_launch(target, cores)
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
    """Runs compiled functions as they are written in a block, so that modes see their calls."""
    if "torch._dynamo" not in sys.modules:  # it takes seconds to import
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


def _counted(counts: dict[Counted, int]) -> tuple[Counted, ...]:
    return tuple(replace(each, count=count) for each, count in counts.items())
