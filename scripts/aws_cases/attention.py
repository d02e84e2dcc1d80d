"""Cases of nki-library's attention and of the projections around it."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from .case import (
    BFLOAT16,
    BFLOAT16_ERROR,
    Launch,
    builder,
    cases_of,
    common_types,
    normal,
    on_both,
    wide,
    with_reference,
)

_ATTENTION = "nkilib.core.attention"


def _scaled(heads: int, queries: int, dtype: Any) -> np.ndarray:
    # Most variants of attention accept no other scale than the root of the width, 128.
    return (normal(heads, queries, 128) * np.float32(128**-0.5)).astype(dtype)


@builder
def _prefill(
    module: ModuleType, queries: int, keys: int, heads: int, dtype: Any = BFLOAT16, **settings: Any
) -> Launch:
    given = {
        "q": _scaled(heads, queries, dtype),
        "k": normal(1, 128, keys, seed=1, dtype=dtype),
        "v": normal(1, keys, 128, seed=2, dtype=dtype),
        **settings,
    }
    reference = importlib.import_module(f"{_ATTENTION}.attention_cte_torch")
    return with_reference(module.attention_cte, reference.attention_cte_torch_ref, given)


def _prefill_with_prior(module: ModuleType) -> Launch:
    prior = {
        "k_prior": normal(1, 128, 512, seed=3, dtype=BFLOAT16),
        "v_prior": normal(1, 512, 128, seed=4, dtype=BFLOAT16),
        "prior_used_len": np.array([300], np.int32),
    }
    return _prefill(256, 256, 2, **prior)(module)


@builder
def _backward(module: ModuleType, causal: bool, kv_heads: int) -> Launch:
    heads, width, count = 2, 64, 512
    q, k, v, dy = (
        normal(1, n, width, count, seed=seed, dtype=BFLOAT16)
        for seed, n in enumerate((heads, kv_heads, kv_heads, heads))
    )
    wide_q, wide_k, wide_v = (t.astype(np.float64) for t in (q, k, v))
    wide_k, wide_v = (np.repeat(t, heads // kv_heads, axis=1) for t in (wide_k, wide_v))
    scores = np.einsum("bhdq,bhdk->bhqk", wide_q, wide_k) * width**-0.5
    if causal:
        scores += np.triu(np.full((count, count), -np.inf), 1)
    lse = np.log(np.exp(scores).sum(axis=-1))
    weights = np.exp(scores - lse[..., None])
    o = np.einsum("bhqk,bhdk->bhdq", weights, wide_v)
    wide_dy = dy.astype(np.float64)
    slope = np.einsum("bhdq,bhdk->bhqk", wide_dy, wide_v)
    slope = weights * (slope - (wide_dy * o).sum(axis=2)[..., None]) * width**-0.5

    def summed(t: np.ndarray) -> np.ndarray:
        return t.reshape(1, kv_heads, heads // kv_heads, width, count).sum(axis=2)

    dq = np.einsum("bhqk,bhdk->bhdq", slope, wide_k)
    dk = summed(np.einsum("bhqk,bhdq->bhdk", slope, wide_q))
    dv = summed(np.einsum("bhqk,bhdq->bhdk", weights, wide_dy))
    tiles = lse.reshape(1, heads, count // 128, 128).transpose(0, 1, 3, 2)
    lse_tiles = np.ascontiguousarray(tiles, dtype=np.float32)
    arguments = (q, k, v, o.astype(np.float32).astype(BFLOAT16), dy, lse_tiles)
    settings = {"use_causal_mask": causal, "mixed_precision": True}
    return Launch(module.attention_bwd, arguments, (dq, dk, dv), settings)


def _attended(phase: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns results of attention, [1, 2, 128, 512] or [128, 4, 2, 1], and their rows of 256."""
    if phase == "cte":
        attention = normal(1, 2, 128, 512, dtype=BFLOAT16)
        return attention, wide(attention).transpose(0, 3, 1, 2).reshape(1, 512, 256)
    attention = normal(128, 4, 2, 1, dtype=BFLOAT16)
    return attention, wide(attention).transpose(1, 3, 2, 0).reshape(4, 256)


@builder
def _projection(module: ModuleType, phase: str) -> Launch:
    weight, bias = normal(256, 1024, seed=1, dtype=BFLOAT16), normal(1, 1024, seed=2)
    bias = bias.astype(BFLOAT16)
    attention, rows = _attended(phase)
    expected = rows @ wide(weight) + wide(bias)
    kernel = getattr(module, f"output_projection_{phase}")
    return Launch(kernel, (attention, weight, bias), (expected,))


@builder
def _quantised(module: ModuleType, phase: str, kind: str) -> Launch:
    """Returns a case with weights in 8 bits, with one scale or with one for each column."""
    types = common_types()
    weight = normal(256, 1024, seed=1, dtype=ml_dtypes.float8_e4m3)
    count = 1 if kind == "STATIC" else 1024
    scales = np.full((128, count), 0.05, np.float32) * np.linspace(0.5, 2, count, dtype="f4")
    many = "s" if phase == "cte" else ""  # one kernel names its scales in the plural
    settings = {
        "quantization_type": types.QuantizationType[kind],
        f"weight_scale{many}": scales,
    }
    if kind == "STATIC":
        settings[f"input_scale{many}"] = np.full((128, 1), 0.02, np.float32)
    attention, rows = _attended(phase)
    expected = rows @ (wide(weight) * scales[0])
    kernel = getattr(module, f"output_projection_{phase}")
    return Launch(kernel, (attention, weight), (expected,), settings)


_WITH_ERROR: dict[str, Any] = {"tolerance": BFLOAT16_ERROR}
_CTE = cases_of(f"{_ATTENTION}.attention_cte", "attention_cte", **_WITH_ERROR)
_BWD = cases_of(
    f"{_ATTENTION}.attention_bwd", "attention_bwd", waives=("psum-bank-groups",), **_WITH_ERROR
)
_OUT = "nkilib.core.output_projection.output_projection_"
_PROJECTED = {
    "cte": cases_of(f"{_OUT}cte.output_projection_cte", "output_projection_cte", **_WITH_ERROR),
    "tkg": cases_of(f"{_OUT}tkg", "output_projection_tkg", **_WITH_ERROR),
}
CASES = [
    _CTE("attention_cte", "causal, 2 heads on one of keys", _prefill(512, 512, 2)),
    _CTE(
        "attention_cte full",
        "no mask, float32",
        _prefill(256, 384, 1, np.float32, causal_mask=False),
    ),
    _CTE(
        "attention_cte window",
        "causal, window of 128",
        _prefill(512, 512, 1, sliding_window=128),
    ),
    _CTE("attention_cte prior", "with cached keys", _prefill_with_prior),
    _CTE("attention_cte two cores", "causal", _prefill(512, 512, 2), cores=2),
    _BWD("attention_bwd", "2 heads", _backward(False, 2)),
    _BWD("attention_bwd causal", "causal, shared keys", _backward(True, 1)),
    _BWD("attention_bwd two cores", "causal", _backward(True, 2), cores=2),
    *on_both(_PROJECTED["cte"]("output_projection_cte", "512x256 by 256x1024", _projection("cte"))),
    *on_both(_PROJECTED["tkg"]("output_projection_tkg", "4x256 by 256x1024", _projection("tkg"))),
    *[
        _PROJECTED[phase](
            f"output_projection_{phase} {kind}",
            f"weights in 8 bits, {'one scale' if kind == 'STATIC' else 'a scale a column'}",
            _quantised(phase, kind),
            tolerance=0.05 if kind == "STATIC" else BFLOAT16_ERROR,
        )
        for phase, kind in (("cte", "STATIC"), ("tkg", "STATIC"), ("tkg", "ROW"))
    ],
]
