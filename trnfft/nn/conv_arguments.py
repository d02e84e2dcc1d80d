"""Checks of arguments that convolution layers share, because torch.nn's errors name no argument."""

from collections.abc import Sequence
from typing import Any

from trnfft.base.memory import check_memory
from trnfft.functions.arguments import (
    Input,
    check_choice,
    check_flags,
    check_positive,
    check_sizes,
    integers,
)

Sizes = int | Sequence[int]
Padding = str | Sizes


def check_conv(
    channels: dict[str, int],
    dimensions: int,
    kernel_size: Sizes,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    bias: bool,
) -> None:
    """Raises TypeError or ValueError for what torch.nn refuses, if only when it is called.

    channels: the arguments 'in_channels', 'out_channels' and 'groups'.
    """
    check_positive(**channels)
    groups = channels["groups"]
    for name, count in channels.items():
        if count % groups:
            raise ValueError(
                f"argument '{name}' is {count}, allowed are multiples of argument "
                f"'groups', which is {groups}"
            )
    for name, sizes in (("kernel_size", kernel_size), ("stride", stride), ("dilation", dilation)):
        check_sizes(name, sizes, dimensions, 1)
    check_flags(bias=bias)
    if not isinstance(padding, str):
        return check_sizes("padding", padding, dimensions, 0)
    check_choice("padding", padding, ("valid", "same"))
    if padding == "same" and set(integers("stride", stride)) != {1}:
        raise ValueError(
            f"argument 'padding' is 'same', allowed only where argument 'stride' is 1, not {stride}"
        )


def plain_sizes(name: str, sizes: Padding) -> Any:
    """Returns an int or a tuple of ints, as torch.nn accepts them, and a str as it is."""
    if isinstance(sizes, str):
        return sizes
    ints = integers(name, sizes)
    return ints[0] if len(ints) == 1 else ints


def check_shape(
    x: Input, channels: int, dimensions: int, error_type: type[Exception] = RuntimeError
) -> None:
    """Raises an error for an input of another shape than [B, channels, ...] or [channels, ...]."""
    if x.ndim not in (dimensions + 1, dimensions + 2) or x.shape[-1 - dimensions] != channels:
        points = "L" if dimensions == 1 else "H, W"
        raise error_type(
            f"argument 'input' has shape {tuple(x.shape)}, allowed are [B, {channels}, {points}] "
            f"and [{channels}, {points}]; bring the channels before the points"
        )


def check_padded(x: Input, padding: Padding, dimensions: int) -> list[int]:
    """Returns the points of an input with its padding; RuntimeError for too little memory."""
    margins = _of_each(padding, dimensions)
    padded = [n + 2 * m for n, m in zip(x.shape[-dimensions:], margins, strict=True)]
    what = f"argument 'padding' is {padding} for argument 'input' of shape {tuple(x.shape)}"
    shape = (*x.shape[:-dimensions], *padded)
    check_memory(what, shape, x.real.element_size(), x.device)
    return padded


def check_points(x: Input, kernel_size: tuple[int, ...], padding: Padding, dilation: Sizes) -> None:
    """Raises RuntimeError for an input shorter than the filter, or too large with its padding."""
    dimensions = len(kernel_size)
    padded = check_padded(x, padding, dimensions)
    steps = _of_each(dilation, dimensions)
    for length, size, step in zip(padded, kernel_size, steps, strict=True):
        reach = step * (size - 1)
        if reach >= length and padding != "same":
            raise RuntimeError(
                f"argument 'input' has {length} points with its padding, allowed are "
                f"{reach + 1} or more, the length of the filter; use longer data or padding"
            )


def _of_each(value: Padding, dimensions: int) -> tuple[int, ...]:
    """Returns the ints of an argument for each dimension; 0 for the padding "valid" and "same"."""
    if isinstance(value, str):
        return (0,) * dimensions
    sizes = integers("value", value)
    return sizes * (dimensions // len(sizes))
