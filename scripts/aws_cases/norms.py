"""Cases of nki-library's norms, convolutions, and sums whose shapes depend on the data."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from nki_sim.base.releases import PARSED

from .case import (
    BFLOAT16,
    BFLOAT16_ERROR,
    Case,
    Launch,
    builder,
    cases_of,
    common_types,
    normal,
    rms_normalised,
    wide,
)

_FP8_MAX = 240.0


@builder
def _token_norm(
    module: ModuleType, kind: str, tokens: int, cores: int, by_width: bool = False
) -> Launch:
    """Returns a case of rmsnorm_tkg or layernorm_tkg of (tokens, 1, 1024).

    The result has the shape (128, tokens, 8), divided into shards for the cores.
    """
    x = normal(tokens, 1, 1024, dtype=np.float16) + np.float16(0.5)
    gamma = normal(1, 1024, seed=1, dtype=np.float16)
    lines = wide(x)
    if kind == "layernorm":
        lines = lines - lines.mean(axis=-1, keepdims=True)
    values = rms_normalised(lines, gamma).reshape(tokens, cores, 128, 8 // cores)
    expected = values.transpose(2, 0, 1, 3).reshape(128, tokens, 8)
    output = np.zeros(expected.shape, np.float16)
    settings = {"shard_on_h": by_width}
    kernel = getattr(module, f"{kind}_tkg")
    return Launch(kernel, (x, gamma, output), (expected,), settings, lambda _: (output,))


@builder
def _quantised(module: ModuleType, by_row: bool) -> Launch:
    types = common_types()
    x, gamma = normal(1, 256, 1024, dtype=BFLOAT16), normal(1, 1024, seed=1, dtype=BFLOAT16)
    kind = types.QuantizationType.ROW if by_row else types.QuantizationType.STATIC
    settings = module.RmsNormQuantKernelArgs(quantization_type=kind)
    values = rms_normalised(x, gamma)
    if by_row:
        return Launch(
            module.rmsnorm_quant_kernel, (x, gamma, settings), (values,), {}, _dequantised
        )
    scale = np.full((128, 1), 0.03, np.float32)
    expected = np.clip(values / 0.03, -_FP8_MAX, _FP8_MAX)
    return Launch(module.rmsnorm_quant_kernel, (x, gamma, settings, scale), (expected,))


def _dequantised(result: np.ndarray) -> tuple[np.ndarray, ...]:
    # The last four bytes of a row of 8-bit numbers are its scale.
    scales = np.ascontiguousarray(result[..., -4:]).view(np.float32)
    return (wide(result[..., :-4]) * scales,)


@builder
def _convolution(module: ModuleType, stride: int, dilation: int) -> Launch:
    x, filters, bias = normal(2, 64, 256), normal(5, 64, 96, seed=1), normal(96, seed=2)
    padded = np.pad(wide(x), ((0, 0), (0, 0), (2, 2)))
    count = (260 - dilation * 4 - 1) // stride + 1
    expected = np.zeros((2, 96, count))
    for tap in range(5):
        seen = padded[:, :, tap * dilation :][:, :, : (count - 1) * stride + 1 : stride]
        expected += np.einsum("bcl,co->bol", seen, wide(filters)[tap])
    settings = {"stride": stride, "padding": (2, 2), "dilation": dilation}
    expected += wide(bias)[:, None]
    return Launch(module.conv1d, (x, filters, bias), (expected,), settings)


def _depthwise(module: ModuleType) -> Launch:
    images, filters = normal(2, 8, 1, 512), normal(8, 1, 1, 16, seed=1)
    windows = np.lib.stride_tricks.sliding_window_view(wide(images), 16, axis=3)
    expected = np.einsum("ncwqs,cs->ncwq", windows, wide(filters)[:, 0, 0])
    return Launch(
        module.depthwise_conv1d_implicit_gemm,
        (images, filters),
        (expected,),
        {"feature_group_count": 8},
    )


def _dynamic_add(module: ModuleType) -> Launch:
    a, b = normal(512, 512, dtype=BFLOAT16), normal(512, 512, seed=1, dtype=BFLOAT16)
    tiles = np.array([[4]], np.int32)
    return Launch(module.dynamic_elementwise_add, (a, b, tiles), (wide(a) + wide(b),))


_SUB = "nkilib.core.subkernels"
_RMS = cases_of(f"{_SUB}.rmsnorm_tkg", "rmsnorm_tkg")
_LAYER = cases_of(f"{_SUB}.layernorm_tkg", "layernorm_tkg")
_FP8_ERROR = 0.07  # half of the last of 4 bits
_QUANT = cases_of("nkilib.core.rmsnorm.rmsnorm_quant", "rmsnorm_quant_kernel", tolerance=_FP8_ERROR)
_CONV = cases_of("nkilib.experimental.conv.conv1d", "conv1d")
_DEPTH = cases_of("nkilib.experimental.conv.depthwise_conv1d", "depthwise_conv1d_implicit_gemm")
_ADD = "dynamic_elementwise_add"


def _norm(kind: str, name: str, tokens: int, cores: int, by_width: bool = False) -> Case:
    """Returns a case of a norm, with members of dge_mode in place of integers."""
    of_kind = {"rmsnorm": _RMS, "layernorm": _LAYER}[kind]
    return of_kind(
        f"{kind}_tkg{name}",
        f"{tokens}x1024" + ", by width" * by_width,
        _token_norm(kind, tokens, cores, by_width),
        tolerance=BFLOAT16_ERROR,
        cores=cores,
        names_modes=True,
    )


CASES = [
    *[
        _norm(kind, *given)
        for kind in ("rmsnorm", "layernorm")
        for given in (("", 4, 1), (" two cores", 32, 2), (" by width", 4, 2, True))
    ],
    _norm("rmsnorm", " few tokens", 4, 2),
    _RMS(
        "rmsnorm_tkg as it is",
        "4x1024",
        _token_norm("rmsnorm", 4, 1),
        refused="dge_mode is 3, but it must be a member",
        because="the kernel passes dge_mode as the integer 3, which NKI has refused since 0.3.0",
    ),
    _QUANT("rmsnorm_quant rows", "a scale a row", _quantised(True)),
    _QUANT("rmsnorm_quant static", "one scale", _quantised(False)),
    _QUANT("rmsnorm_quant two cores", "a scale a row", _quantised(True), cores=2),
    _CONV("conv1d", "5 taps", _convolution(1, 1)),
    _CONV("conv1d strided", "stride 2, dilation 3", _convolution(2, 3)),
    _DEPTH("depthwise_conv1d", "16 taps, 8 channels", _depthwise, cores=2),
    Case(
        _ADD,
        f"nkilib.experimental.dynamic_shapes.{_ADD}",
        _ADD,
        "512x512",
        _dynamic_add,
        BFLOAT16_ERROR,
        release=PARSED,
    ),
]
