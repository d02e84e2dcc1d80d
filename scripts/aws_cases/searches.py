"""Cases of nki-library's searches, routing and losses."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np

from .case import (
    BFLOAT16,
    BFLOAT16_ERROR,
    Case,
    Launch,
    builder,
    cases_of,
    common_types,
    normal,
    on_both,
    wide,
    with_reference,
)


def _sparse(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.random(shape) < 0.3).astype(np.float32) * rng.uniform(0.5, 2, shape)


def _nonzero_indices(module: ModuleType) -> Launch:
    data = _sparse(256, 16).astype(np.float32)
    indices = np.full((16, 256), -1)
    counts = np.count_nonzero(data, axis=0)
    for column, count in enumerate(counts):
        indices[column, :count] = np.flatnonzero(data[:, column])
    return Launch(module.find_nonzero_indices, (data,), (indices, counts))


def _nonzero_with_count(module: ModuleType) -> Launch:
    data = _sparse(1, 512).astype(np.float32)
    places = np.flatnonzero(data)
    expected = np.full((1, 513), -1)
    expected[0, : len(places)], expected[0, 512] = places, len(places)
    return Launch(module.find_nonzero_indices_with_count, (data,), (expected,))


def _indexed_flatten(module: ModuleType) -> Launch:
    data = np.arange(4 * 2048, dtype=np.int32).reshape(4, 2048)
    offsets = np.array([0, 5, 12, 40], np.int32)
    blocks = np.full((64, 128), -1)
    for row, offset in zip(data.reshape(4, 16, 128), offsets, strict=True):
        blocks[offset : offset + 16] = row
    return Launch(module.indexed_flatten, (data, 128, 64 * 128, offsets), (blocks.reshape(-1),))


@builder
def _rotational_topk(module: ModuleType, cores: int) -> Launch:
    data = normal(8, 16384)
    utils = importlib.import_module("nkilib.core.topk.rotational_topk_utils")
    topk = utils.create_topk_config(data.shape, np.float32, 64, True, cores)
    config = utils.create_rotational_topk_config(data.shape, topk)
    config = module.prepare_rotational_constants(config)
    order = np.argsort(-data, axis=1)[:, :64]
    expected = np.take_along_axis(data, order, 1), order
    return Launch(module.rotational_topk, (data, config), expected)


@builder
def _router(module: ModuleType, **settings: Any) -> Launch:
    types = common_types()
    reference = importlib.import_module("nkilib.core.router_topk.router_topk_torch")
    given = {
        "x": normal(64, 512, dtype=BFLOAT16),
        "w": normal(512, 32, seed=1, dtype=BFLOAT16),
        "w_bias": normal(1, 32, seed=2, dtype=BFLOAT16),
        "router_logits": np.zeros((64, 32), np.float32),
        "expert_affinities": np.zeros((64, 32), np.float32),
        "expert_index": np.zeros((64, 4), np.uint32),
        "act_fn": types.RouterActFnType.SOFTMAX,
        "k": 4,
        "x_hbm_layout": 1,
        "x_sb_layout": 0,
        **settings,
    }
    results = ("router_logits", "expert_index", "expert_affinities")
    return with_reference(module.router_topk, reference.router_topk_torch_ref, given, *results)


def _loss(module: ModuleType) -> Launch:
    logits, targets, lse, losses = _entropies()
    settings = {"positions_per_batch": 64, "chunk_size": 1024, "dtype": "float32"}
    return Launch(module.cross_entropy_forward, (logits, targets), (losses, lse), settings)


def _entropies() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns logits, targets, the logarithms of the sums of exponentials, and the losses."""
    logits = normal(128, 4096)
    targets = np.random.default_rng(1).integers(0, 4096, 128).astype(np.int32)
    lse = np.log(np.exp(wide(logits)).sum(axis=1))
    return logits, targets, lse, lse - wide(logits)[np.arange(128), targets]


def _loss_backward(module: ModuleType) -> Launch:
    logits, targets, lse, _ = _entropies()
    expected = np.exp(wide(logits) - lse[:, None])
    expected[np.arange(128), targets] -= 1
    settings = {
        "positions_per_batch": 64,
        "chunk_size": 1024,
        "dtype": "float32",
        "inplace": False,
    }
    arguments = (logits, targets, lse.astype(np.float32))
    return Launch(module.cross_entropy_backward, arguments, (expected / 128,), settings)


def _topk_reduce(module: ModuleType) -> Launch:
    tokens, per_token, width = 32, 4, 1024
    rng = np.random.default_rng(1)
    rows = normal(256, width + 2, dtype=BFLOAT16)
    owners = np.full(256, 10_000, np.int32)
    owners[rng.permutation(256)[: tokens * per_token]] = np.repeat(np.arange(tokens), per_token)
    rows[:, width:] = owners[:, None].view(np.int16).view(BFLOAT16)
    expected = np.zeros((tokens, width))
    for row, owner in zip(wide(rows[:, :width]), owners, strict=True):
        if owner < tokens:
            expected[owner] += row
    return Launch(module.topk_reduce, (rows, tokens, per_token), (expected,))


_SUB = "nkilib.core.subkernels"
_NONZERO = cases_of(f"{_SUB}.find_nonzero_indices", "find_nonzero_indices")
_COUNT = "find_nonzero_indices_with_count"
_FLATTEN = cases_of(f"{_SUB}.indexed_flatten", "indexed_flatten")
_TOPK = cases_of("nkilib.core.topk.rotational_topk", "rotational_topk")
_ROUTER = cases_of(
    "nkilib.core.router_topk.router_topk", "router_topk", tolerance=BFLOAT16_ERROR, cores=2
)
_ENTROPY = "nkilib.experimental.loss.cross_entropy"
_REDUCE = cases_of(
    "nkilib.experimental.collectives.topk_reduce", "topk_reduce", tolerance=BFLOAT16_ERROR
)
CASES = [
    *on_both(_NONZERO("find_nonzero_indices", "256x16", _nonzero_indices)),
    Case(_COUNT, f"nkilib.experimental.benchmark.{_COUNT}", _COUNT, "1x512", _nonzero_with_count),
    _FLATTEN("indexed_flatten", "4x2048 in blocks of 128", _indexed_flatten, cores=2),
    _TOPK("rotational_topk", "64 of 8x16384", _rotational_topk(1)),
    _TOPK("rotational_topk two cores", "64 of 8x16384", _rotational_topk(2), cores=2),
    _ROUTER("router_topk", "4 of 32, softmax before", _router()),
    _ROUTER("router_topk after", "4 of 32, softmax after", _router(router_pre_norm=False)),
    Case("cross_entropy_forward", _ENTROPY, "cross_entropy_forward", "128x4096", _loss),
    Case("cross_entropy_backward", _ENTROPY, "cross_entropy_backward", "128x4096", _loss_backward),
    *on_both(_REDUCE("topk_reduce", "32 tokens of 4 rows", _topk_reduce)),
]
