"""Cases of nki-library's attention and of the projections around it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from .case import BFLOAT16, BFLOAT16_ERROR, Case, Launch, normal, with_reference

_ATTENTION = "nkilib.core.attention"


def _reference(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _scaled(heads: int, queries: int, dtype: Any) -> np.ndarray:
    """Returns queries of a width of 128, divided by its square root.

    Most variants of attention accept no other scale.
    """
    return (normal(heads, queries, 128) * np.float32(128**-0.5)).astype(dtype)


def _prefill(queries: int, keys: int, heads: int, dtype: Any, **settings: Any) -> Any:
    def build(module: ModuleType) -> Launch:
        given = {
            "q": _scaled(heads, queries, dtype),
            "k": normal(1, 128, keys, seed=1, dtype=dtype),
            "v": normal(1, keys, 128, seed=2, dtype=dtype),
            **settings,
        }
        reference = _reference(f"{_ATTENTION}.attention_cte_torch", "attention_cte_torch_ref")
        return with_reference(module.attention_cte, reference, given)

    return build


def _prefill_with_prior(module: ModuleType) -> Launch:
    given = {
        "q": _scaled(2, 256, BFLOAT16),
        "k": normal(1, 128, 256, seed=1, dtype=BFLOAT16),
        "v": normal(1, 256, 128, seed=2, dtype=BFLOAT16),
        "k_prior": normal(1, 128, 512, seed=3, dtype=BFLOAT16),
        "v_prior": normal(1, 512, 128, seed=4, dtype=BFLOAT16),
        "prior_used_len": np.array([300], np.int32),
    }
    reference = _reference(f"{_ATTENTION}.attention_cte_torch", "attention_cte_torch_ref")
    return with_reference(module.attention_cte, reference, given)


def _backward(causal: bool, kv_heads: int) -> Callable[[ModuleType], Launch]:
    def build(module: ModuleType) -> Launch:
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

    return build


def _projection(phase: str, **settings: Any) -> Callable[[ModuleType], Launch]:
    def build(module: ModuleType) -> Launch:
        weight, bias = normal(256, 1024, seed=1, dtype=BFLOAT16), normal(1, 1024, seed=2)
        bias = bias.astype(BFLOAT16)
        wide_weight = weight.astype(np.float64)
        if phase == "cte":
            attention = normal(1, 2, 128, 512, dtype=BFLOAT16)
            rows: Any = attention.astype(np.float64).transpose(0, 3, 1, 2).reshape(1, 512, 256)
        else:
            attention = normal(128, 4, 2, 1, dtype=BFLOAT16)
            rows = attention.astype(np.float64).transpose(1, 3, 2, 0).reshape(4, 256)
        expected = rows @ wide_weight + bias.astype(np.float64)
        kernel = getattr(module, f"output_projection_{phase}")
        return Launch(kernel, (attention, weight, bias), (expected,), settings)

    return build


def _quantised(phase: str, kind: str) -> Callable[[ModuleType], Launch]:
    """Returns a case with weights in 8 bits, with one scale or with one for each column."""

    def build(module: ModuleType) -> Launch:
        types = importlib.import_module("nkilib.core.utils.common_types")
        weight = normal(256, 1024, seed=1, dtype=ml_dtypes.float8_e4m3)
        count = 1 if kind == "STATIC" else 1024
        scales = np.full((128, count), 0.05, np.float32) * np.linspace(0.5, 2, count, dtype="f4")
        settings = {"quantization_type": types.QuantizationType[kind]}
        if phase == "cte":
            attention = normal(1, 2, 128, 512, dtype=BFLOAT16)
            rows: Any = attention.astype(np.float64).transpose(0, 3, 1, 2).reshape(1, 512, 256)
            settings["weight_scales"] = scales
        else:
            attention = normal(128, 4, 2, 1, dtype=BFLOAT16)
            rows = attention.astype(np.float64).transpose(1, 3, 2, 0).reshape(4, 256)
            settings["weight_scale"] = scales
        if kind == "STATIC":
            name = "input_scales" if phase == "cte" else "input_scale"
            settings[name] = np.full((128, 1), 0.02, np.float32)
        expected = rows @ (weight.astype(np.float64) * scales[0])
        kernel = getattr(module, f"output_projection_{phase}")
        return Launch(kernel, (attention, weight), (expected,), settings)

    return build


def _case(name: str, module: str, kernel: str, shows: str, build: Any, **rest: Any) -> Case:
    return Case(name, f"nkilib.core.{module}", kernel, shows, build, BFLOAT16_ERROR, **rest)


_GROUPS = ("psum-bank-groups",)
_CTE = ("attention.attention_cte", "attention_cte")
_BWD = ("attention.attention_bwd", "attention_bwd")
_OUT = "output_projection.output_projection_"
CASES = [
    _case(
        "attention_cte", *_CTE, "causal, 2 heads on one of keys", _prefill(512, 512, 2, BFLOAT16)
    ),
    _case(
        "attention_cte full",
        *_CTE,
        "no mask, float32",
        _prefill(256, 384, 1, np.float32, causal_mask=False),
    ),
    _case(
        "attention_cte window",
        *_CTE,
        "causal, window of 128",
        _prefill(512, 512, 1, BFLOAT16, sliding_window=128),
    ),
    _case("attention_cte prior", *_CTE, "with cached keys", _prefill_with_prior),
    _case("attention_cte two cores", *_CTE, "causal", _prefill(512, 512, 2, BFLOAT16), cores=2),
    _case("attention_bwd", *_BWD, "2 heads", _backward(False, 2), waives=_GROUPS),
    _case("attention_bwd causal", *_BWD, "causal, shared keys", _backward(True, 1), waives=_GROUPS),
    _case("attention_bwd two cores", *_BWD, "causal", _backward(True, 2), cores=2, waives=_GROUPS),
    _case(
        "output_projection_cte",
        f"{_OUT}cte.output_projection_cte",
        "output_projection_cte",
        "512x256 by 256x1024",
        _projection("cte"),
    ),
    _case(
        "output_projection_cte two cores",
        f"{_OUT}cte.output_projection_cte",
        "output_projection_cte",
        "512x256 by 256x1024",
        _projection("cte"),
        cores=2,
    ),
    _case(
        "output_projection_tkg",
        f"{_OUT}tkg",
        "output_projection_tkg",
        "4x256 by 256x1024",
        _projection("tkg"),
    ),
    _case(
        "output_projection_tkg two cores",
        f"{_OUT}tkg",
        "output_projection_tkg",
        "4x256 by 256x1024",
        _projection("tkg"),
        cores=2,
    ),
    *[
        Case(
            f"output_projection_{phase} {kind}",
            f"nkilib.core.{_OUT}{'cte.output_projection_cte' if phase == 'cte' else 'tkg'}",
            f"output_projection_{phase}",
            f"weights in 8 bits, {'one scale' if kind == 'STATIC' else 'a scale a column'}",
            _quantised(phase, kind),
            0.05 if kind == "STATIC" else BFLOAT16_ERROR,
        )
        for phase, kind in (("cte", "STATIC"), ("tkg", "STATIC"), ("tkg", "ROW"))
    ],
]
