"""What a layer launches for an input of one shape, found without running a kernel."""

from __future__ import annotations

import copy

import torch
from torch import nn

from trnfft.base.checks import brief
from trnfft.base.memory import check_memory
from trnfft.functions.arguments import are_several, check_flags, integers
from trnfft.model_check import Report, check_model


def plan_layer(
    layer: nn.Module,
    *inputs: object,
    backward: bool = False,
    target: str | None = None,
    cores: int | None = None,
) -> Report:
    """Returns the launches of a layer, with the modelled time and the bytes of each.

    The layer runs once on the device "meta", where nothing is computed: neither the layer nor its
    parameters change. The planner is asked as the backend "nki" asks it. `print` shows a table. See
    `docs/layers.md`.

    Args:
        layer: a module, such as those of `trnfft.nn`, or a model of several.
        inputs: for each argument of a call its shape, which stands for float32 numbers, or a
            tensor like it, whose numbers are not read.
        backward: whether to plan the launches of a backward pass, too.
        target: the chip, "trn1", "trn2" or "trn3". Default: that of this machine, or "trn1".
        cores: the degree of LNC. Default: that of the environment, or of the chip.

    Returns:
        A `trnfft.model_check.Report`: `launches`, with `recipe`, `batch`, `predicted_ns` and
        `hbm_bytes`; `fallbacks` to operations of torch; `operators`, which counts the operators of
        torch beside the launches; and sums of them for a pass.

    Raises:
        TypeError: `layer` is not a module, or an input is neither a shape nor a tensor.
        ValueError: a size is negative, or `target` or `cores` is not allowed.
        RuntimeError: no tensor has so many numbers as a shape.
        Exception: the layer raises an error for inputs of these shapes.

    Examples:
        >>> import trnfft
        >>> plan = trnfft.plan_layer(trnfft.nn.SpectralConv1d(64, 64, 16), (32, 64, 1024))
        >>> [one.algorithm for one in plan.launches], plan.launch_count()
        (['spectral_convolution'], 1)
    """
    if not isinstance(layer, nn.Module):
        raise TypeError(
            f"argument 'layer' is of type {type(layer).__name__}, allowed are modules of torch.nn "
            f"and trnfft.nn; for a function, use trnfft.model_check.check_model"
        )
    check_flags(backward=backward)
    like = list(map(_without_numbers, inputs))
    return check_model(
        _on_meta(layer), like, backward=backward, device="meta", target=target, cores=cores
    )


def _without_numbers(given: object) -> torch.Tensor:
    """Returns a tensor on the device meta like an input: a tensor, or the shape of one."""
    if isinstance(given, torch.Tensor):
        return torch.empty_like(given, device="meta")
    if not are_several(given):
        raise TypeError(
            f"argument 'inputs' has {brief(given)}, allowed are shapes, such as (8, 512), and "
            f"tensors"
        )
    shape = integers("inputs", given)
    if min(shape, default=0) < 0:
        raise ValueError(f"argument 'inputs' has the shape {shape}, allowed are sizes of 0 or more")
    check_memory(f"argument 'inputs' has the shape {shape}", shape, 4, "meta")
    return torch.empty(shape, dtype=torch.float32, device="meta")


def _on_meta(layer: nn.Module) -> nn.Module:
    """Returns a copy of a layer whose parameters and buffers have no numbers."""
    memo: dict[int, object] = {}
    for x in (*layer.parameters(), *layer.buffers()):
        like = torch.empty_like(x.detach(), device="meta")
        is_parameter = isinstance(x, nn.Parameter)
        memo[id(x)] = nn.Parameter(like, x.requires_grad) if is_parameter else like
    return copy.deepcopy(layer, memo)
